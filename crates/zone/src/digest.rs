//! The hash of a zone's content: a tree of SHA-256 hashes; updating it costs what the change costs.
//!
//! # Definition
//!
//! Anyone who has all records of a version can compute the hash without this program. `|` concatenates, `H` is
//! SHA-256. A record is its uncompressed wire form (RFC 1035 section 3.2.1): owner, type, class IN, TTL, length,
//! data; names are spelled as they are served.
//!
//! 1. Put the owners that have records besides the SOA in canonical order (RFC 4034 section 6.1). Each gives one
//!    value: `H(0x00 | its records but the SOA, by rising type, then by rising data)`.
//! 2. The height of an owner is the number of `0` digits at the start of the hexadecimal `H(owner in lower case, wire
//!    form)`, but at most 4.
//! 3. Four rounds, `round` = 1 to 4: cut the row of values after each value whose last owner has a height of at least
//!    `round`. Every piece becomes one value, `H(0x01 | the piece's values)`, of the next row, and ends with the same
//!    owner.
//! 4. The content's hash is `H(0x02 | the SOA with serial 0 | the values that are left)`.
//!
//! The names alone decide where a row is cut. So equal contents have equal hashes, whatever led to them, and a change
//! touches about 16 values in each round. Two contents with the same hash would be a collision of SHA-256. The serial
//! is left out: the same content under another serial has the same hash. The chain of versions adds the serials
//! ([`crate::Link`]).
//!
//! A person who chooses names on purpose can make a piece long. Then an update costs more in proportion, and nothing
//! else happens.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use dns::{Name, RrRef, Rtype, Serial};
use imbl::OrdMap;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use crate::{Contents, Node};

/// The number of times that the row of values is cut.
const ROUNDS: usize = 4;
/// The first byte of the hash of an owner's records.
const LEAF: u8 = 0;
/// The first byte of the hash of a piece.
const PIECE: u8 = 1;
/// The first byte of the hash of SOA and last values.
const CONTENT: u8 = 2;
/// The end of the last piece. It is above every sort key, because a label has at most 63 bytes.
const END: [u8; 64] = [0xff; 64];

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash before the first version: 32 zeros.
    pub const ZERO: Self = Self([0; 32]);

    /// A hash from its bytes.
    #[must_use]
    pub const fn from_octets(octets: [u8; 32]) -> Self {
        Self(octets)
    }

    /// The bytes.
    #[must_use]
    pub const fn as_octets(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::str::FromStr for Hash {
    type Err = NoHash;

    fn from_str(text: &str) -> Result<Self, NoHash> {
        let digits = text.as_bytes();
        let mut octets = [0; 32];
        if digits.len() != 2 * octets.len() {
            return Err(NoHash);
        }
        for (octet, pair) in octets.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NoHash)?;
            *octet = u8::from_str_radix(pair, 16).map_err(|_| NoHash)?;
        }
        Ok(Self(octets))
    }
}

impl From<Hash> for String {
    fn from(hash: Hash) -> Self {
        hash.to_string()
    }
}

impl TryFrom<String> for Hash {
    type Error = NoHash;

    fn try_from(text: String) -> Result<Self, NoHash> {
        text.parse()
    }
}

/// The text is not a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a hash is 64 hexadecimal digits")]
pub struct NoHash;

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The hashes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// The hash of the previous version; zeros for the first of a chain.
    pub previous: Hash,
    /// The hash of the content.
    pub content: Hash,
    /// The hash of the version.
    pub hash: Hash,
}

/// A hash that is being computed.
pub(super) struct Hasher(Context);

impl Hasher {
    /// Starts with the byte that says what is hashed.
    pub(super) fn new(what: u8) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&[what]);
        Self(context)
    }

    pub(super) fn update(&mut self, octets: &[u8]) {
        self.0.update(octets);
    }

    /// Adds a record in wire form.
    pub(super) fn record(&mut self, rr: RrRef<'_>) {
        self.0.update(rr.owner);
        self.0.update(&fixed_part(&rr));
        self.0.update(rr.data);
    }

    pub(super) fn finish(self) -> Hash {
        let mut octets = [0; 32];
        octets.copy_from_slice(self.0.finish().as_ref());
        Hash(octets)
    }
}

/// The fields between owner and data on the wire: type, class IN, TTL, length.
fn fixed_part(rr: &RrRef<'_>) -> [u8; 10] {
    let mut fixed = [0; 10];
    fixed[..2].copy_from_slice(&rr.rtype.0.to_be_bytes());
    fixed[3] = 1;
    fixed[4..8].copy_from_slice(&rr.ttl.seconds().to_be_bytes());
    let len = u16::try_from(rr.data.len()).expect("RDATA has at most 65535 octets");
    fixed[8..].copy_from_slice(&len.to_be_bytes());
    fixed
}

/// A record in uncompressed wire form, as it is hashed and exported.
#[must_use]
pub fn record_wire(rr: RrRef<'_>) -> Vec<u8> {
    [rr.owner, &fixed_part(&rr), rr.data].concat()
}

/// The values of pieces by the owners that end them.
type Row = OrdMap<Arc<[u8]>, Hash>;

/// The tree over a zone's owners. Copies share the parts that do not differ.
#[derive(Debug, Clone, Default)]
pub struct ContentTree {
    /// The pieces of each round, by the sort key of the owner that ends them.
    rows: [Row; ROUNDS],
}

impl ContentTree {
    /// Builds the tree of whole contents. Costs a pass over the zone.
    #[must_use]
    pub fn of(contents: &Contents) -> Self {
        let mut tree = Self::default();
        let mut open: [Vec<Hash>; ROUNDS] = Default::default();
        for node in contents.nodes() {
            open[0].push(leaf(node, contents.apex()));
            let height = height(node.key(), contents.apex());
            if height > 0 {
                tree.close(&mut open, height, node.key());
            }
        }
        tree.close(&mut open, ROUNDS, &END);
        tree
    }

    /// Closes the open pieces of the first rounds.
    fn close(&mut self, open: &mut [Vec<Hash>; ROUNDS], rounds: usize, end: &[u8]) {
        let end: Arc<[u8]> = end.into();
        for round in 0..rounds {
            if open[round].is_empty() {
                continue;
            }
            let value = piece(open[round].drain(..));
            self.rows[round].insert(Arc::clone(&end), value);
            if let Some(next) = open.get_mut(round + 1) {
                next.push(value);
            }
        }
    }

    /// The tree of `contents`, which differ from those of this tree only at the owners with these sort keys.
    #[must_use]
    pub fn updated(&self, contents: &Contents, touched: &BTreeSet<Vec<u8>>) -> Self {
        let mut tree = self.clone();
        // The ends of each round's pieces that have to be hashed again.
        let mut due: [BTreeSet<Arc<[u8]>>; ROUNDS] = Default::default();
        let mut ending = Vec::new();
        for key in touched {
            let height = height(key, contents.apex());
            let is_there = contents.get(key).is_some();
            for row in &mut tree.rows[..height] {
                if is_there {
                    if !row.contains_key(key.as_slice()) {
                        row.insert(key.as_slice().into(), Hash::ZERO);
                    }
                } else {
                    row.remove(key.as_slice());
                }
            }
            ending.push((key, height));
        }
        // An owner that is added or removed cuts or joins pieces, so the piece after it has to be hashed again too.
        for (key, height) in ending {
            due[0].insert(tree.end_from(0, key));
            for (round, due) in due.iter_mut().enumerate().take(height) {
                due.insert(tree.end_from(round, key));
                due.insert(tree.end_after(round, key));
            }
        }
        for round in 0..ROUNDS {
            let ends = std::mem::take(&mut due[round]);
            for end in ends {
                let value = tree.piece_at(round, &end, contents);
                match value {
                    Some(value) => tree.rows[round].insert(Arc::clone(&end), value),
                    None => tree.rows[round].remove(&end),
                };
                if round + 1 < ROUNDS {
                    let above = tree.end_from(round + 1, &end);
                    due[round + 1].insert(above);
                }
            }
        }
        tree
    }

    /// The end of the piece that contains a key.
    fn end_from(&self, round: usize, key: &[u8]) -> Arc<[u8]> {
        let found = self.rows[round]
            .range::<_, [u8]>((std::ops::Bound::Included(key), std::ops::Bound::Unbounded));
        end_or_last(found)
    }

    /// The end of the piece after a key.
    fn end_after(&self, round: usize, key: &[u8]) -> Arc<[u8]> {
        let found = self.rows[round]
            .range::<_, [u8]>((std::ops::Bound::Excluded(key), std::ops::Bound::Unbounded));
        end_or_last(found)
    }

    /// The value of the piece with this end; `None` when it is empty.
    fn piece_at(&self, round: usize, end: &[u8], contents: &Contents) -> Option<Hash> {
        let before = self.rows[round]
            .range::<_, [u8]>((std::ops::Bound::Unbounded, std::ops::Bound::Excluded(end)))
            .next_back()
            .map(|(key, _)| key.as_ref());
        let mut values = Vec::with_capacity(32);
        if round == 0 {
            let mut add = |node: &Node| {
                let inside = node.key() <= end;
                if inside {
                    values.push(leaf(node, contents.apex()));
                }
                inside
            };
            match before {
                Some(before) => contents.nodes_after(before).all(&mut add),
                None => contents.nodes().all(&mut add),
            };
        } else {
            let low = before.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
            let inside = self.rows[round - 1]
                .range::<_, [u8]>((low, std::ops::Bound::Included(end)))
                .map(|(_, value)| *value);
            values.extend(inside);
        }
        (!values.is_empty()).then(|| piece(values))
    }

    /// The hash of the content, without the SOA's serial.
    #[must_use]
    pub fn content_hash(&self, contents: &Contents) -> Hash {
        let soa = contents.soa().rdata(Serial::decode(0));
        let mut hasher = Hasher::new(CONTENT);
        hasher.record(RrRef {
            owner: contents.apex().as_wire(),
            rtype: Rtype::SOA,
            ttl: contents.soa().ttl,
            data: soa.as_octets(),
            tag: 0,
        });
        for value in self.rows[ROUNDS - 1].values() {
            hasher.update(value.as_octets());
        }
        hasher.finish()
    }
}

/// The first key of a range, or the end of the zone.
fn end_or_last<'a>(mut found: impl Iterator<Item = (&'a Arc<[u8]>, &'a Hash)>) -> Arc<[u8]> {
    found
        .next()
        .map_or_else(|| END.as_slice().into(), |(key, _)| Arc::clone(key))
}

fn leaf(node: &Node, apex: &Name) -> Hash {
    let owner = node.owner_wire(apex);
    let mut hasher = Hasher::new(LEAF);
    for rr in node.records(&owner, 0) {
        hasher.record(rr);
    }
    hasher.finish()
}

fn piece(values: impl IntoIterator<Item = Hash>) -> Hash {
    let mut hasher = Hasher::new(PIECE);
    for value in values {
        hasher.update(value.as_octets());
    }
    hasher.finish()
}

/// The height of the owner with this sort key.
fn height(key: &[u8], apex: &Name) -> usize {
    let mut wire = Vec::with_capacity(key.len() + apex.as_wire().len());
    dns::SortKey::write_wire(key, &mut wire);
    wire.extend_from_slice(apex.as_wire());
    let digest = ring::digest::digest(&SHA256, &wire);
    let octets = digest.as_ref();
    let digits = octets.iter().flat_map(|octet| [octet >> 4, octet & 15]);
    digits.take(ROUNDS).take_while(|digit| *digit == 0).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Edit;
    use crate::laws::{apex, empty};
    use dns::{Rdata, Ttl};

    /// Sets or removes numbered owners; gives the contents and the touched keys.
    fn touch(before: &Contents, owners: &[(u16, Option<u8>)]) -> (Contents, BTreeSet<Vec<u8>>) {
        let mut edit = Edit::new(before);
        let mut touched = BTreeSet::new();
        for (owner, address) in owners {
            let name: Name = format!("n{owner}.z.example.").parse().unwrap();
            let key = name.sort_key(&apex()).unwrap();
            touched.insert(key.as_bytes().to_vec());
            match address {
                None => edit.remove(key.as_bytes(), 0),
                Some(last) => {
                    let (rtype, rdata) = Rdata::address([10, 0, 0, *last].into());
                    let mut records = vec![(rtype, Ttl::decode(5), rdata)];
                    edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
                }
            }
        }
        (edit.into_contents(), touched)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

        #[test]
        fn an_updated_tree_is_the_tree_of_the_contents(
            edits in prop::collection::vec(
                prop::collection::vec((0..2000_u16, prop::option::of(any::<u8>())), 1..150),
                1..12,
            ),
        ) {
            let mut contents = empty();
            let mut tree = ContentTree::of(&contents);
            for owners in &edits {
                let (next, touched) = touch(&contents, owners);
                tree = tree.updated(&next, &touched);
                let whole = ContentTree::of(&next);
                prop_assert_eq!(&tree.rows, &whole.rows);
                prop_assert_eq!(tree.content_hash(&next), whole.content_hash(&next));
                contents = next;
            }
        }
    }

    #[test]
    fn heights_above_one_occur_in_the_test_zone() {
        let all: Vec<_> = (0..2000).map(|owner| (owner, Some(1))).collect();
        let tree = ContentTree::of(&touch(&empty(), &all).0);
        let sizes: Vec<usize> = tree.rows.iter().map(OrdMap::len).collect();
        assert!(sizes[0] > 80 && sizes[1] > 2, "{sizes:?}");
    }

    #[test]
    fn another_record_ttl_spelling_or_soa_is_another_hash() {
        let hash = |contents: &Contents| ContentTree::of(contents).content_hash(contents);
        let base = touch(&empty(), &[(1, Some(1)), (2, Some(2))]).0;
        let mut hashes = vec![
            hash(&base),
            hash(&touch(&base, &[(1, Some(2))]).0),
            hash(&touch(&base, &[(1, None)]).0),
            hash(&touch(&base, &[(3, Some(3))]).0),
        ];
        let mut other_soa = base.clone();
        other_soa.set_soa(crate::laws::soa(9));
        hashes.push(hash(&other_soa));
        let (rtype, rdata) = Rdata::address([10, 0, 0, 1].into());
        for (name, ttl) in [("N1.z.example.", 5), ("n1.z.example.", 6)] {
            let mut records = vec![(rtype, Ttl::decode(ttl), rdata.clone())];
            let mut edit = Edit::new(&base);
            let name = name.parse().unwrap();
            edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
            hashes.push(hash(&edit.into_contents()));
        }
        let distinct: BTreeSet<_> = hashes.iter().collect();
        assert_eq!(distinct.len(), hashes.len());
    }
}
