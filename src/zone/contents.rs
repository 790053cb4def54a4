//! The contents of a zone at one moment: immutable, in canonical order, shared with its neighbours.
//!
//! An `imbl::OrdSet` of nodes: a change copies O(log n) of the tree, a reader's copy is one pointer.
//! The SOA stands beside the nodes without its serial: a serial alone is no change of contents.

use imbl::OrdSet;

use crate::dns::{Name, Soa};
use crate::zone::Node;

/// All records of a zone but the SOA's serial.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The zone's name, in lower case.
    apex: Name,
    /// The SOA's fields.
    soa: Soa,
    /// Owners in canonical order.
    nodes: OrdSet<Node>,
    /// How many records there are, the SOA not counted.
    records: usize,
    /// The records' octets uncompressed on the wire, the SOA not counted.
    octets: usize,
    /// How many owners are wildcards (RFC 4592 section 2.1.1): zones without pay nothing for them.
    wildcards: usize,
    /// How many owners below the apex have NS records: zone cuts.
    cuts: usize,
}

impl Contents {
    /// A zone without any record but its SOA.
    #[must_use]
    pub fn empty(apex: &Name, soa: Soa) -> Self {
        Self {
            apex: apex.to_lower(),
            soa,
            nodes: OrdSet::new(),
            records: 0,
            octets: 0,
            wildcards: 0,
            cuts: 0,
        }
    }

    /// A zone from nodes in canonical order, as a store kept them; `None` when two stand in the wrong
    /// order or share an owner.
    #[must_use]
    pub fn from_sorted(
        apex: &Name,
        soa: Soa,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Option<Self> {
        let mut contents = Self::empty(apex, soa);
        let mut last: Option<Node> = None;
        for node in nodes {
            if last.as_ref().is_some_and(|last| last.key() >= node.key()) {
                return None;
            }
            last = Some(node.clone());
            contents.insert(node);
        }
        Some(contents)
    }

    /// The zone's name.
    #[must_use]
    pub const fn apex(&self) -> &Name {
        &self.apex
    }

    /// The SOA's fields but for the serial.
    #[must_use]
    pub const fn soa(&self) -> &Soa {
        &self.soa
    }

    /// Other SOA fields.
    pub fn set_soa(&mut self, soa: Soa) {
        self.soa = soa;
    }

    /// How many records there are, the SOA counted.
    #[must_use]
    pub const fn record_count(&self) -> usize {
        self.records + 1
    }

    /// How many owners have records (the apex counts when it has some besides the SOA).
    #[must_use]
    pub fn owner_count(&self) -> usize {
        self.nodes.len()
    }

    /// The octets of all records uncompressed on the wire, the SOA not counted.
    #[must_use]
    pub const fn wire_octets(&self) -> usize {
        self.octets
    }

    /// Whether some owner is a wildcard.
    #[must_use]
    pub const fn has_wildcards(&self) -> bool {
        self.wildcards > 0
    }

    /// Whether some owner below the apex is delegated.
    #[must_use]
    pub const fn has_cuts(&self) -> bool {
        self.cuts > 0
    }

    /// The node with this key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// Whether a name with this key exists: it has records, or a name below it has (an empty
    /// non-terminal, RFC 8020).
    #[must_use]
    pub fn exists(&self, key: &[u8]) -> bool {
        key.is_empty()
            || self
                .nodes
                .get_next(key)
                .is_some_and(|node| node.key().starts_with(key))
    }

    /// The nodes at and below a key, in canonical order.
    pub fn subtree<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .range::<_, [u8]>((std::ops::Bound::Included(key), std::ops::Bound::Unbounded))
            .take_while(move |node| node.key().starts_with(key))
    }

    /// All nodes in canonical order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter()
    }

    /// The nodes after a key, for a reader that goes on where it stopped.
    pub fn nodes_after<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .range::<_, [u8]>((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded))
    }

    /// Puts a node in; gives the one that was there.
    pub fn insert(&mut self, node: Node) -> Option<Node> {
        self.records += node.record_count();
        self.octets += node.wire_octets(&self.apex);
        self.wildcards += usize::from(node.is_wildcard());
        self.cuts += usize::from(node.is_cut());
        let old = self.nodes.insert(node);
        self.count_out(old.as_ref());
        old
    }

    /// Takes the node with this key out.
    pub fn remove(&mut self, key: &[u8]) -> Option<Node> {
        let old = self.nodes.remove(key);
        self.count_out(old.as_ref());
        old
    }

    /// Takes a node's records off the counts.
    fn count_out(&mut self, node: Option<&Node>) {
        if let Some(node) = node {
            self.records -= node.record_count();
            self.octets -= node.wire_octets(&self.apex);
            self.wildcards -= usize::from(node.is_wildcard());
            self.cuts -= usize::from(node.is_cut());
        }
    }

    /// Whether two zones hold the same records, serials aside. Costs a pass over both.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.apex == other.apex
            && self.soa == other.soa
            && self.records == other.records
            && self.nodes.len() == other.nodes.len()
            && self
                .nodes()
                .zip(other.nodes())
                .all(|(a, b)| a.as_octets() == b.as_octets())
    }
}
