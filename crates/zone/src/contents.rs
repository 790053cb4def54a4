//! The contents of a zone at one moment: immutable, in canonical order, sharing memory with the versions around them.
//!
//! The nodes are an `imbl::OrdSet`: a change copies O(log n) of the tree, a reader's copy is one pointer. The SOA is
//! kept beside the nodes without its serial, because a new serial alone is no change of contents.

use dns::{Name, Rtype, Soa};
use imbl::OrdSet;

use crate::Node;

/// All records of a zone but the SOA's serial.
#[derive(Clone, Debug)]
pub struct Contents {
    /// In lower case.
    apex: Name,
    soa: Soa,
    nodes: OrdSet<Node>,
    /// The number of records without the SOA.
    records: usize,
    /// The size of the records, uncompressed on the wire, without the SOA.
    octets: usize,
    /// The number of wildcards (RFC 4592 section 2.1.1), so that zones without them pay nothing for them.
    wildcards: usize,
    /// The number of zone cuts (owners below the apex with NS records) and of owners with a DNAME.
    cuts_and_dnames: usize,
    /// The number of owners with signatures.
    signed: usize,
    /// The nodes whose owners are hashes: they lie between other nodes, and a proof needs the one before a hash.
    hashes: OrdSet<Node>,
}

impl Contents {
    /// A zone with only a SOA.
    #[must_use]
    pub fn empty(apex: &Name, soa: Soa) -> Self {
        Self {
            apex: apex.to_lower(),
            soa,
            nodes: OrdSet::new(),
            records: 0,
            octets: 0,
            wildcards: 0,
            cuts_and_dnames: 0,
            signed: 0,
            hashes: OrdSet::new(),
        }
    }

    /// A zone from nodes in canonical order, as they are stored; `None` when two are in the wrong order or share an
    /// owner.
    #[must_use]
    pub fn from_sorted(
        apex: &Name,
        soa: Soa,
        nodes: impl IntoIterator<Item = Node>,
    ) -> Option<Self> {
        let nodes: Vec<Node> = nodes.into_iter().collect();
        if nodes.windows(2).any(|pair| pair[0].key() >= pair[1].key()) {
            return None;
        }
        let mut contents = Self::empty(apex, soa);
        for node in &nodes {
            contents.count_in(node);
        }
        contents.nodes = packed(&nodes);
        Some(contents)
    }

    /// Rebuilds the tree of nodes with full leaves. For contents that were built from nothing; costs a pass over all
    /// nodes.
    pub(super) fn pack(&mut self) {
        let nodes: Vec<Node> = self.nodes.iter().cloned().collect();
        self.nodes = OrdSet::new();
        self.nodes = packed(&nodes);
    }

    /// The zone's name, in lower case.
    #[must_use]
    pub const fn apex(&self) -> &Name {
        &self.apex
    }

    /// The SOA without its serial.
    #[must_use]
    pub const fn soa(&self) -> &Soa {
        &self.soa
    }

    /// Replaces the SOA.
    pub fn set_soa(&mut self, soa: Soa) {
        self.soa = soa;
    }

    /// The number of records, including the SOA.
    #[must_use]
    pub const fn record_count(&self) -> usize {
        self.records + 1
    }

    /// The number of owners that have records. The apex counts only when it has records besides the SOA.
    #[must_use]
    pub fn owner_count(&self) -> usize {
        self.nodes.len()
    }

    /// The size of all records, uncompressed on the wire, without the SOA.
    #[must_use]
    pub const fn wire_octets(&self) -> usize {
        self.octets
    }

    /// Whether the zone has wildcards.
    #[must_use]
    pub const fn has_wildcards(&self) -> bool {
        self.wildcards > 0
    }

    /// Whether the zone has delegations or DNAMEs.
    #[must_use]
    pub const fn has_cuts_or_dnames(&self) -> bool {
        self.cuts_and_dnames > 0
    }

    /// Whether the zone is signed.
    #[must_use]
    pub const fn is_signed(&self) -> bool {
        self.signed > 0
    }

    /// Whether the zone has owners that are hashes.
    #[must_use]
    pub fn has_hashes(&self) -> bool {
        !self.hashes.is_empty()
    }

    /// The node of the hash at or before a key, or the last one.
    #[must_use]
    pub(crate) fn hash_at_or_before(&self, key: &[u8]) -> Option<&Node> {
        self.hashes.get_prev(key).or_else(|| self.hashes.get_max())
    }

    /// The node at or before a key.
    #[must_use]
    pub(crate) fn at_or_before(&self, key: &[u8]) -> Option<&Node> {
        self.nodes.get_prev(key)
    }

    /// The node with this sort key.
    #[must_use]
    pub fn get(&self, key: &[u8]) -> Option<&Node> {
        self.nodes.get(key)
    }

    /// Whether a name with this key exists: it has records, or a name below it has (an empty
    /// non-terminal, RFC 8020). Hashes are no names.
    #[must_use]
    pub fn exists(&self, key: &[u8]) -> bool {
        if key.is_empty() {
            return true;
        }
        let at_or_below = |node: Option<&Node>| node.is_some_and(|it| it.key().starts_with(key));
        if self.has_hashes() && self.hashes.contains(key) {
            return at_or_below(self.nodes_after(key).next());
        }
        at_or_below(self.nodes.get_next(key))
    }

    /// The nodes at and below a key, in canonical order.
    pub fn subtree<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Node> {
        self.nodes_from(key)
            .take_while(move |node| node.key().starts_with(key))
    }

    /// All nodes in canonical order.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> + Clone {
        self.nodes.iter()
    }

    /// The nodes from a key on, in canonical order.
    pub(crate) fn nodes_from<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .range::<_, [u8]>((std::ops::Bound::Included(key), std::ops::Bound::Unbounded))
    }

    /// The nodes after a key, in canonical order, for a reader that continues where it stopped.
    pub fn nodes_after<'a>(&'a self, key: &'a [u8]) -> impl Iterator<Item = &'a Node> {
        self.nodes
            .range::<_, [u8]>((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded))
    }

    /// Inserts a node and returns the one that it replaces.
    pub fn insert(&mut self, node: Node) -> Option<Node> {
        self.forget_hash(node.key());
        self.count_in(&node);
        let old = self.nodes.insert(node);
        self.count_out(old.as_ref());
        old
    }

    /// Removes and returns the node with this sort key.
    pub fn remove(&mut self, key: &[u8]) -> Option<Node> {
        self.forget_hash(key);
        let old = self.nodes.remove(key);
        self.count_out(old.as_ref());
        old
    }

    fn forget_hash(&mut self, key: &[u8]) {
        if self.has_hashes() {
            self.hashes.remove(key);
        }
    }

    fn count_in(&mut self, node: &Node) {
        self.records += node.record_count();
        self.octets += node.wire_octets(&self.apex);
        self.wildcards += usize::from(node.is_wildcard());
        self.cuts_and_dnames += usize::from(node.is_cut_or_has_dname());
        if node.rrset(Rtype::RRSIG).is_some() {
            self.signed += 1;
            if node.is_hash() {
                self.hashes.insert(node.clone());
            }
        }
    }

    fn count_out(&mut self, node: Option<&Node>) {
        if let Some(node) = node {
            self.records -= node.record_count();
            self.octets -= node.wire_octets(&self.apex);
            self.wildcards -= usize::from(node.is_wildcard());
            self.cuts_and_dnames -= usize::from(node.is_cut_or_has_dname());
            self.signed -= usize::from(node.rrset(Rtype::RRSIG).is_some());
        }
    }

    /// Whether two zones hold the same records, apart from their serials. Costs a pass over both.
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

/// The number of nodes in a leaf of the tree. If a later `imbl` has another number, this costs memory and nothing
/// else.
const LEAF: usize = 16;

/// A tree with full leaves from nodes in canonical order. Inserting in order leaves every leaf half empty, so the
/// nodes of every second half leaf are inserted first, and the others fill them up.
fn packed(nodes: &[Node]) -> OrdSet<Node> {
    let mut set = OrdSet::new();
    for is_second in [false, true] {
        for leaf in nodes.chunks(LEAF) {
            let (first, second) = leaf.split_at(leaf.len().min(LEAF / 2));
            set.extend(if is_second { second } else { first }.iter().cloned());
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Rdata, Ttl};

    /// So many nodes in order, put in one by one.
    fn contents(count: usize) -> Contents {
        let apex: Name = "z.".parse().unwrap();
        let mut contents = Contents::empty(&apex, crate::laws::soa(1));
        for number in 0..count {
            let owner = format!("n{number:05}.z.").parse().unwrap();
            let mut records = vec![(Rtype::TXT, Ttl::decode(9), Rdata::txt("x"))];
            contents.insert(Node::build(&owner, &apex, &mut records).unwrap());
        }
        contents
    }

    /// How many leaves the tree of nodes has: the nodes of one lie side by side in memory.
    fn leaves(contents: &Contents) -> usize {
        let places: Vec<usize> = (contents.nodes())
            .map(|node| std::ptr::from_ref(node).addr())
            .collect();
        let is_new = |pair: &&[usize]| pair[1] != pair[0] + size_of::<Node>();
        1 + places.windows(2).filter(is_new).count()
    }

    #[test]
    fn packed_leaves_are_full() {
        let plain = contents(1000);
        let mut packed = plain.clone();
        packed.pack();
        let full = 1000_usize.div_ceil(LEAF);
        assert_eq!(leaves(&packed), full);
        assert!(leaves(&plain) > full * 3 / 2, "{}", leaves(&plain));
    }

    #[test]
    fn packing_changes_nothing_but_the_room_it_takes() {
        for count in [0, 1, 7, 8, 9, 16, 17, 33, 1000] {
            let plain = contents(count);
            let mut packed = plain.clone();
            packed.pack();
            let read = Contents::from_sorted(&plain.apex, plain.soa.clone(), plain.nodes.clone());
            for same in [packed, read.unwrap()] {
                assert!(same.same_as(&plain), "{count}");
                assert_eq!(same.wire_octets(), plain.wire_octets());
                assert!(plain.nodes().all(|node| same.get(node.key()).is_some()));
            }
        }
    }

    #[test]
    fn nodes_out_of_order_are_refused() {
        let plain = contents(2);
        let mut nodes: Vec<_> = plain.nodes().cloned().collect();
        nodes.reverse();
        assert!(Contents::from_sorted(&plain.apex, plain.soa.clone(), nodes).is_none());
        let twice = plain.nodes().next().into_iter().cycle().take(2).cloned();
        assert!(Contents::from_sorted(&plain.apex, plain.soa.clone(), twice).is_none());
    }
}
