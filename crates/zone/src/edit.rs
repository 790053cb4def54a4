//! Builds the contents of the next version from those of the previous one and records what changed.
//!
//! An owner can be set more than once. The delta compares the node before the first change with the node at the end,
//! so a batch of changes that undo each other leaves no difference.

use std::collections::BTreeMap;

use dns::{Name, RrList, RrRef, Rtype, Soa};

use crate::{Contents, Node, RrsetRef};

/// The result of an edit: the next contents and the difference, ready to become a version.
#[derive(Debug)]
pub struct Draft {
    /// The contents after the edit.
    pub contents: Contents,
    /// Removed records, in canonical order.
    pub removed: RrList,
    /// Added records, in canonical order.
    pub added: RrList,
    /// Whether the SOA differs in more than its serial.
    pub soa_changed: bool,
}

impl Draft {
    /// Whether nothing differs: no new version is needed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty() && !self.soa_changed
    }

    /// The difference of two contents of one zone that differ only at these owners, given by rising sort keys, each
    /// with the tag for its records. Costs what the owners cost.
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
    /// The result of [`list_octets`] before the edit.
    old_octets: usize,
    /// Changed owners: the node before the first change, and the tag of the last. Any node of the owner is the key. A
    /// first version changes every owner, so the key is shared, not copied.
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

    /// Replaces the SOA.
    pub fn set_soa(&mut self, soa: Soa) {
        self.contents.set_soa(soa);
    }

    /// Sets the node of its owner. Each record that differs at the end gets the tag.
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

    /// Removes an owner with all its records.
    pub fn remove(&mut self, key: &[u8], tag: u32) {
        if let Some(old) = self.contents.remove(key) {
            self.touched
                .entry(old.clone())
                .and_modify(|(_, t)| *t = tag)
                .or_insert((Some(old), tag));
        }
    }

    /// Replaces the nodes at and below a key by these, which must be in canonical order, each with its tag. Records
    /// of owners that disappear get the tag `gone`.
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

    /// The keys of the owners changed so far, in canonical order, each with its tag.
    pub fn touched(&self) -> impl Iterator<Item = (&[u8], u32)> {
        let touched = self.touched.iter();
        touched.map(|(node, (_, tag))| (node.key(), *tag))
    }

    /// Ends the edit without computing the difference.
    #[must_use]
    pub fn into_contents(self) -> Contents {
        self.contents
    }

    /// Ends the edit and computes the minimal difference, record by record.
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
        // Exact for a first version, whose list is larger than the zone: the list does not grow by doubling.
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

/// The records of one owner that are removed and added between two nodes.
#[must_use]
pub fn difference(apex: &Name, old: Option<&Node>, new: Option<&Node>) -> [RrList; 2] {
    let (mut removed, mut added) = (RrList::default(), RrList::default());
    diff_nodes(apex, old, new, 0, &mut removed, &mut added);
    [removed, added]
}

/// The size of a list of all records without the SOA.
fn list_octets(contents: &Contents) -> usize {
    contents.wire_octets() + (contents.record_count() - 1) * RrList::MORE_THAN_WIRE
}

/// Adds the difference of two nodes of one owner to the lists. An RRset whose TTL changed is removed and added as a
/// whole: some secondaries refuse a record whose TTL differs from its RRset's.
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
    while let Some(slot) = lower(before.peek(), after.peek()) {
        let before = before.next_if(|rrset| rrset.slot() == slot);
        let after = after.next_if(|rrset| rrset.slot() == slot);
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

/// The lower of the next RRsets.
fn lower(one: Option<&RrsetRef<'_>>, other: Option<&RrsetRef<'_>>) -> Option<(Rtype, u16)> {
    one.into_iter().chain(other).map(RrsetRef::slot).min()
}

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

/// The data in the first RRset that the second lacks. Both are sorted.
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
