//! An edit: from the contents of one version to those of the next, remembering what it touched.
//!
//! Each owner may be set as often as wanted; what counts for the delta is the node before the first
//! touch against the node at the end. So a batch of changes that undo each other leaves nothing.

use std::collections::BTreeMap;

use dns::{Name, RrList, RrRef, Rtype, Soa};

use crate::{Contents, Node, RrsetRef};

/// What became of an edit: the next contents and what differs, ready to become a version.
#[derive(Debug)]
pub struct Draft {
    /// The contents after the edit.
    pub contents: Contents,
    /// Records that go, in canonical order.
    pub removed: RrList,
    /// Records that come, in canonical order.
    pub added: RrList,
    /// Whether the SOA's fields (serial aside) differ.
    pub soa_changed: bool,
}

impl Draft {
    /// Whether nothing differs: no new version is due.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && !self.soa_changed
    }

    /// The difference of two contents of one zone that differ nowhere but at these owners, given by rising
    /// sort keys, each with the tag of its records. Costs what the owners cost.
    #[must_use]
    pub fn between<'a>(
        before: &Contents,
        after: Contents,
        owners: impl IntoIterator<Item = (&'a [u8], u32)>,
    ) -> Self {
        let (mut removed, mut added) = (RrList::default(), RrList::default());
        for (key, tag) in owners {
            let (old, new) = (before.get(key), after.get(key));
            diff_nodes(after.apex(), old, new, tag, &mut removed, &mut added);
        }
        removed.shrink();
        added.shrink();
        let soa_changed = before.soa() != after.soa();
        Self {
            contents: after,
            removed,
            added,
            soa_changed,
        }
    }
}

/// An edit in progress.
#[derive(Debug)]
pub struct Edit {
    contents: Contents,
    old_soa: Soa,
    /// What [`list_octets`] said before.
    old_octets: usize,
    /// Touched owners, each by a node that stands there or stood there: the node before the first touch,
    /// and the tag of the last. A first version touches every owner, so a key is shared, not copied.
    touched: BTreeMap<Node, (Option<Node>, u32)>,
}

impl Edit {
    /// An edit that starts from these contents.
    #[must_use]
    pub fn new(contents: &Contents) -> Self {
        Self {
            contents: contents.clone(),
            old_soa: contents.soa().clone(),
            old_octets: list_octets(contents),
            touched: BTreeMap::new(),
        }
    }

    /// The contents so far.
    #[must_use]
    pub const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Other SOA fields.
    pub fn set_soa(&mut self, soa: Soa) {
        self.contents.set_soa(soa);
    }

    /// Sets the node of its owner. The tag goes to each record that differs in the end.
    pub fn set(&mut self, node: Node, tag: u32) {
        let known = self.contents.get(node.key());
        if known.is_some_and(|known| known.as_octets() == node.as_octets()) {
            return;
        }
        let old = self.contents.insert(node.clone());
        self.touched
            .entry(node)
            .and_modify(|(_, t)| *t = tag)
            .or_insert((old, tag));
    }

    /// Takes an owner with all its records away.
    pub fn remove(&mut self, key: &[u8], tag: u32) {
        if let Some(old) = self.contents.remove(key) {
            self.touched
                .entry(old.clone())
                .and_modify(|(_, t)| *t = tag)
                .or_insert((Some(old), tag));
        }
    }

    /// Sets the nodes at and below a key to exactly these, which must come in canonical order, each
    /// with its tag; `gone` is the tag of records that go with their owner.
    pub fn replace_subtree(&mut self, key: &[u8], nodes: Vec<(Node, u32)>, gone: u32) {
        let leaving: Vec<Node> = {
            let mut new = nodes.iter().map(|(node, _)| node).peekable();
            self.contents
                .subtree(key)
                .filter(|old| {
                    while new.peek().is_some_and(|node| node.key() < old.key()) {
                        new.next();
                    }
                    new.peek().is_none_or(|node| node.key() != old.key())
                })
                .cloned()
                .collect()
        };
        for node in leaving {
            self.remove(node.key(), gone);
        }
        for (node, tag) in nodes {
            self.set(node, tag);
        }
    }

    /// How many owners were touched so far.
    #[must_use]
    pub fn touched_count(&self) -> usize {
        self.touched.len()
    }

    /// The keys of the owners touched so far, in canonical order.
    pub fn touched_keys(&self) -> impl Iterator<Item = &[u8]> {
        self.touched.keys().map(Node::key)
    }

    /// The keys of the owners touched so far, in canonical order, each with its tag.
    pub fn touched(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let touched = self.touched.iter();
        touched.map(|(node, (_, tag))| (node.key(), *tag))
    }

    /// Ends an edit whose difference is not wanted.
    #[must_use]
    pub fn into_contents(self) -> Contents {
        self.contents
    }

    /// Ends the edit: the minimal difference, record by record.
    #[must_use]
    pub fn finish(self) -> Draft {
        let Self {
            mut contents,
            old_soa,
            old_octets,
            touched,
        } = self;
        if old_octets == 0 {
            contents.pack();
        }
        let mut removed = RrList::default();
        // Exact for a first version, whose list is larger than the zone: nothing grows by doubling.
        let mut added = RrList::with_capacity(list_octets(&contents).saturating_sub(old_octets));
        for (node, (old, tag)) in touched {
            let new = contents.get(node.key());
            diff_nodes(
                contents.apex(),
                old.as_ref(),
                new,
                tag,
                &mut removed,
                &mut added,
            );
        }
        removed.shrink();
        added.shrink();
        let soa_changed = *contents.soa() != old_soa;
        Draft {
            contents,
            removed,
            added,
            soa_changed,
        }
    }
}

/// The octets of a list of all records but the SOA.
fn list_octets(contents: &Contents) -> usize {
    contents.wire_octets() + (contents.record_count() - 1) * RrList::MORE_THAN_WIRE
}

/// The difference of two nodes of one owner. An RRset whose TTL differs goes and comes whole: some
/// secondaries refuse a record whose TTL is not its RRset's.
pub(super) fn diff_nodes<'a>(
    apex: &Name,
    old: Option<&'a Node>,
    new: Option<&'a Node>,
    tag: u32,
    removed: &mut RrList,
    added: &mut RrList,
) {
    let is_respelt = matches!((old, new), (Some(old), Some(new)) if !old.has_owner_of(new));
    let owner_of = |node: &Node| node.owner_wire(apex);
    let old_owner = old.or(new).map(owner_of).unwrap_or_default();
    let new_owner = match new {
        Some(new) if is_respelt => &owner_of(new),
        _ => &old_owner,
    };
    let rrsets = |node: Option<&'a Node>| node.into_iter().flat_map(Node::rrsets).peekable();
    let (mut before, mut after) = (rrsets(old), rrsets(new));
    while let Some(rtype) = lower(before.peek(), after.peek()) {
        let before = before.next_if(|rrset| rrset.rtype == rtype);
        let after = after.next_if(|rrset| rrset.rtype == rtype);
        let ttl_kept = before.map(|rrset| rrset.ttl) == after.map(|rrset| rrset.ttl);
        if ttl_kept && !is_respelt {
            for data in data_not_in(before, after) {
                push(removed, &old_owner, before, data, tag);
            }
            for data in data_not_in(after, before) {
                push(added, new_owner, after, data, tag);
            }
        } else {
            for data in data_not_in(before, None) {
                push(removed, &old_owner, before, data, tag);
            }
            for data in data_not_in(after, None) {
                push(added, new_owner, after, data, tag);
            }
        }
    }
}

/// The lower type of two RRsets.
fn lower(one: Option<&RrsetRef<'_>>, other: Option<&RrsetRef<'_>>) -> Option<Rtype> {
    one.into_iter().chain(other).map(|rrset| rrset.rtype).min()
}

/// Adds one record of an RRset to a list.
fn push(list: &mut RrList, owner: &[u8], rrset: Option<RrsetRef<'_>>, data: &[u8], tag: u32) {
    if let Some(rrset) = rrset {
        list.push(RrRef {
            owner,
            rtype: rrset.rtype,
            ttl: rrset.ttl,
            data,
            tag,
        });
    }
}

/// The data of the first RRset that the second lacks; both are sorted.
fn data_not_in<'a>(
    of: Option<RrsetRef<'a>>,
    other: Option<RrsetRef<'a>>,
) -> impl Iterator<Item = &'a [u8]> {
    let mut other = other.into_iter().flat_map(|rrset| rrset.data()).peekable();
    of.into_iter()
        .flat_map(|rrset| rrset.data())
        .filter(move |data| {
            while other.peek().is_some_and(|known| known < data) {
                other.next();
            }
            other.peek() != Some(data)
        })
}
