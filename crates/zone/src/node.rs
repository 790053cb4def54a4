//! A node: one owner name of a zone with all its RRsets, in one allocation.
//!
//! A lookup that hits touches the index and this allocation, nothing else. Layout: key length (2), key, length of the
//! relative owner (1; 0 when the key gives the owner back unchanged), relative owner, then RRsets by rising type:
//! type (2), TTL (4), count (4), length (4), then each record's data length (2) and data, by rising data. Signatures
//! (RRSIG) are as many RRsets as they cover types, because each has the TTL of what it covers (RFC 4034 section 3).

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use dns::{Name, OwnerRef, Rdata, RrBlock, RrRef, Rtype, Ttl};

/// Bytes before the records of an RRset.
const RRSET_HEAD: usize = 14;

/// One owner name and its RRsets, with at least one record.
#[derive(Clone)]
pub struct Node(Arc<[u8]>);

impl Node {
    /// Builds the node of an owner within `apex`. Sorts the records, drops duplicates and sets the TTLs within an
    /// RRset to the lowest (RFC 2181 section 5.2). `None` when there is no record or the owner is not within the
    /// apex.
    #[must_use]
    pub fn build(
        owner: &Name,
        apex: &Name,
        records: &mut Vec<(Rtype, Ttl, Rdata)>,
    ) -> Option<Self> {
        let key = owner.sort_key(apex)?;
        if records.is_empty() {
            return None;
        }
        records.sort_unstable_by(|(at, attl, ad), (bt, bttl, bd)| {
            at.cmp(bt)
                .then_with(|| ad.cmp(bd))
                .then_with(|| attl.cmp(bttl))
        });
        records.dedup_by(|(at, _, ad), (bt, _, bd)| at == bt && ad == bd);
        let key = key.as_bytes();
        let mut octets = Vec::with_capacity(key.len() + 64 + records.len() * 24);
        let key_len = u16::try_from(key.len()).expect("keys have at most 510 octets");
        octets.extend_from_slice(&key_len.to_be_bytes());
        octets.extend_from_slice(key);
        let relative = &owner.as_wire()[..owner.as_wire().len() - apex.as_wire().len()];
        if relative.iter().any(u8::is_ascii_uppercase) {
            octets.push(u8::try_from(relative.len()).expect("names have at most 255 octets"));
            octets.extend_from_slice(relative);
        } else {
            octets.push(0);
        }
        let slot = |(rtype, _, rdata): &(Rtype, Ttl, Rdata)| slot_of(*rtype, rdata.as_octets());
        for rrset in records.chunk_by(|a, b| slot(a) == slot(b)) {
            write_rrset(&mut octets, rrset);
        }
        Some(Self(octets.into()))
    }

    /// A node from its stored bytes; `None` when they are malformed.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let node = Self(octets.into());
        let key_len = usize::from(u16::from_be_bytes([*octets.first()?, *octets.get(1)?]));
        let relative_len = usize::from(*octets.get(2 + key_len)?);
        let mut rest = octets.get(3 + key_len + relative_len..)?;
        if rest.is_empty() {
            return None;
        }
        while !rest.is_empty() {
            let head = rest.get(..RRSET_HEAD)?;
            let ttl = u32::from_be_bytes([head[2], head[3], head[4], head[5]]);
            // Read as 0 it would be another byte with the same meaning, which no hash shows.
            if ttl > Ttl::MAX.seconds() {
                return None;
            }
            let count = u32::from_be_bytes([head[6], head[7], head[8], head[9]]);
            let len = u32::from_be_bytes([head[10], head[11], head[12], head[13]]);
            let (mut data, after) =
                rest[RRSET_HEAD..].split_at_checked(usize::try_from(len).ok()?)?;
            for _ in 0..count {
                let len = usize::from(u16::from_be_bytes([*data.first()?, *data.get(1)?]));
                data = data.get(2 + len..)?;
            }
            if !data.is_empty() || count == 0 {
                return None;
            }
            rest = after;
        }
        Some(node)
    }

    /// The bytes to store.
    #[must_use]
    pub fn as_octets(&self) -> &[u8] {
        &self.0
    }

    /// The sort key of the owner, relative to the zone's apex.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        let len = usize::from(u16::from_be_bytes([self.0[0], self.0[1]]));
        &self.0[2..2 + len]
    }

    /// The owner, given the apex in wire form.
    pub fn owner<'a>(&'a self, apex: &'a [u8]) -> OwnerRef<'a> {
        let key = self.key();
        let at = 2 + key.len();
        OwnerRef {
            key,
            relative: &self.0[at + 1..=at + usize::from(self.0[at])],
            apex,
        }
    }

    /// The owner in wire form.
    #[must_use]
    pub fn owner_wire(&self, apex: &Name) -> Vec<u8> {
        let mut wire = Vec::with_capacity(self.key().len() + apex.as_wire().len());
        self.owner(apex.as_wire()).write(&mut wire);
        wire
    }

    /// Whether both nodes have the same owner in the same spelling.
    pub(super) fn has_owner_of(&self, other: &Self) -> bool {
        let (owner, others) = (self.owner(&[]), other.owner(&[]));
        (owner.key, owner.relative) == (others.key, others.relative)
    }

    /// The signatures of the RRset of a type.
    #[must_use]
    pub fn signatures(&self, covered: Rtype) -> Option<RrsetRef<'_>> {
        let slot = (Rtype::RRSIG, covered.0);
        self.rrsets().find(|rrset| rrset.slot() == slot)
    }

    /// Whether the owner is a hash: it has NSEC3 and signatures alone, and is the name of nothing (RFC 5155 section
    /// 7.2.8).
    #[must_use]
    pub fn is_hash(&self) -> bool {
        let is_of_hash = |rrset: RrsetRef<'_>| matches!(rrset.rtype, Rtype::RRSIG | Rtype::NSEC3);
        self.rrset(Rtype::NSEC3).is_some() && self.rrsets().all(is_of_hash)
    }

    /// The RRsets, by rising type.
    #[must_use]
    pub fn rrsets(&self) -> Rrsets<'_> {
        let at = 2 + self.key().len();
        Rrsets(&self.0[at + 1 + usize::from(self.0[at])..])
    }

    /// The RRset of a type.
    #[must_use]
    pub fn rrset(&self, rtype: Rtype) -> Option<RrsetRef<'_>> {
        self.rrsets()
            .take_while(|rrset| rrset.rtype <= rtype)
            .find(|rrset| rrset.rtype == rtype)
    }

    /// Whether the owner is a wildcard: its first label is `*` (RFC 4592 section 2.1.1).
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.key()
            .strip_suffix(b"*\0")
            .is_some_and(|parent| parent.is_empty() || parent.ends_with(b"\0"))
    }

    /// Whether the owner is a zone cut: it has NS records and is not the apex.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !self.key().is_empty() && self.rrset(Rtype::NS).is_some()
    }

    /// Whether the node separates names below it from the zone: it is a zone cut, or has a DNAME.
    pub(crate) fn is_cut_or_has_dname(&self) -> bool {
        self.is_cut() || self.rrset(Rtype::DNAME).is_some()
    }

    /// The number of records.
    #[must_use]
    pub fn record_count(&self) -> usize {
        self.rrsets().map(|rrset| rrset.count).sum()
    }

    /// The size of the node's records, uncompressed on the wire.
    #[must_use]
    pub fn wire_octets(&self, apex: &Name) -> usize {
        let owner_len = self.owner_len() + apex.as_wire().len();
        self.rrsets()
            .map(|rrset| rrset.count * (owner_len + 8) + rrset.octets.len())
            .sum()
    }

    /// The length of the relative owner in wire form.
    fn owner_len(&self) -> usize {
        let key = self.key();
        let at = 2 + key.len();
        match usize::from(self.0[at]) {
            0 => key.len() - key.iter().filter(|octet| **octet == 1).count(),
            len => len,
        }
    }

    /// The records of the node. `owner` is their owner in wire form.
    pub fn records<'a>(&'a self, owner: &'a [u8], tag: u32) -> impl Iterator<Item = RrRef<'a>> {
        self.rrsets()
            .flat_map(move |rrset| rrset.records(owner, tag))
    }
}

/// The type of a record, and for a signature the type that it covers, which its data begins with.
fn slot_of(rtype: Rtype, data: &[u8]) -> (Rtype, u16) {
    match data.first_chunk() {
        Some(covered) if rtype == Rtype::RRSIG => (rtype, u16::from_be_bytes(*covered)),
        Some(_) | None => (rtype, 0),
    }
}

fn write_rrset(octets: &mut Vec<u8>, rrset: &[(Rtype, Ttl, Rdata)]) {
    let (rtype, first_ttl, _) = &rrset[0];
    let ttl = rrset
        .iter()
        .map(|(_, ttl, _)| *ttl)
        .min()
        .unwrap_or(*first_ttl);
    let len: usize = rrset
        .iter()
        .map(|(_, _, rdata)| 2 + rdata.as_octets().len())
        .sum();
    octets.extend_from_slice(&rtype.0.to_be_bytes());
    octets.extend_from_slice(&ttl.seconds().to_be_bytes());
    for number in [rrset.len(), len] {
        let number = u32::try_from(number).expect("an RRset stays below 4 GiB");
        octets.extend_from_slice(&number.to_be_bytes());
    }
    for (_, _, rdata) in rrset {
        let data = rdata.as_octets();
        let len = u16::try_from(data.len()).expect("RDATA has at most 65535 octets");
        octets.extend_from_slice(&len.to_be_bytes());
        octets.extend_from_slice(data);
    }
}

/// One RRset of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RrsetRef<'a> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL.
    pub ttl: Ttl,
    /// The number of records.
    pub count: usize,
    /// Length and data of each record.
    octets: &'a [u8],
}

impl<'a> RrsetRef<'a> {
    /// An RRset of one record: the length of its data in two octets, and the data.
    pub(crate) const fn of_one(rtype: Rtype, ttl: Ttl, octets: &'a [u8]) -> Self {
        Self {
            rtype,
            ttl,
            count: 1,
            octets,
        }
    }

    /// What tells an RRset from the others of its owner: its type, and the type that signatures cover.
    pub(crate) fn slot(&self) -> (Rtype, u16) {
        slot_of(self.rtype, self.data().next().unwrap_or_default())
    }

    /// The type that signatures cover.
    #[must_use]
    pub fn covered(&self) -> Option<Rtype> {
        let (rtype, covered) = self.slot();
        (rtype == Rtype::RRSIG).then_some(Rtype(covered))
    }

    /// The data of each record, in ascending order.
    pub fn data(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.block();
        std::iter::from_fn(move || {
            let (data, end) = rest.first()?;
            rest.octets = &rest.octets[end..];
            Some(data)
        })
    }

    /// The records in the form in which a message takes them.
    pub const fn block(self) -> RrBlock<'a> {
        RrBlock {
            rtype: self.rtype,
            ttl: self.ttl,
            octets: self.octets,
        }
    }

    /// The records, with an owner and a tag.
    pub fn records(self, owner: &'a [u8], tag: u32) -> impl Iterator<Item = RrRef<'a>> {
        self.data().map(move |data| RrRef {
            owner,
            rtype: self.rtype,
            ttl: self.ttl,
            data,
            tag,
        })
    }
}

/// The RRsets of a node, by rising type.
#[derive(Debug, Clone, Default)]
pub struct Rrsets<'a>(&'a [u8]);

impl<'a> Iterator for Rrsets<'a> {
    type Item = RrsetRef<'a>;

    fn next(&mut self) -> Option<RrsetRef<'a>> {
        let (head, rest) = self.0.split_first_chunk::<RRSET_HEAD>()?;
        let [t0, t1, l0, l1, l2, l3, c0, c1, c2, c3, o0, o1, o2, o3] = *head;
        let (octets, rest) = rest.split_at_checked(u32::from_be_bytes([o0, o1, o2, o3]) as usize)?;
        self.0 = rest;
        Some(RrsetRef {
            rtype: Rtype(u16::from_be_bytes([t0, t1])),
            ttl: Ttl::decode(u32::from_be_bytes([l0, l1, l2, l3])),
            count: u32::from_be_bytes([c0, c1, c2, c3]) as usize,
            octets,
        })
    }
}

impl Borrow<[u8]> for Node {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

/// Order and equality are those of the owner, because a node is a map entry whose key is its owner. Compare
/// [`Node::as_octets`] to compare contents.
impl Ord for Node {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl PartialOrd for Node {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Node {}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} with {} records",
            self.key().escape_ascii(),
            self.record_count()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of `www.z.` with two addresses, one given twice, and a text.
    fn node(owner: &str) -> Node {
        let apex = "z.".parse().unwrap();
        let address = |text: &str, ttl| {
            let (rtype, rdata) = Rdata::address(text.parse().unwrap());
            (rtype, Ttl::decode(ttl), rdata)
        };
        let mut records = vec![
            (Rtype::TXT, Ttl::decode(9), Rdata::txt("x")),
            address("10.0.0.2", 30),
            address("10.0.0.1", 20),
            address("10.0.0.2", 40),
        ];
        Node::build(&owner.parse().unwrap(), &apex, &mut records).unwrap()
    }

    #[test]
    fn records_come_back_sorted_distinct_and_with_one_ttl() {
        let node = node("www.z.");
        let owner = node.owner_wire(&"z.".parse().unwrap());
        let lines: Vec<_> = node
            .records(&owner, 0)
            .map(|rr| dns::RecordText(rr).to_string())
            .collect();
        assert_eq!(
            lines,
            [
                "www.z. 20 IN A 10.0.0.1",
                "www.z. 20 IN A 10.0.0.2",
                "www.z. 9 IN TXT \"x\""
            ]
        );
        assert_eq!(node.record_count(), 3);
        let apex = "z.".parse().unwrap();
        let wire: usize = node.records(&owner, 0).map(|rr| rr.wire_len()).sum();
        assert_eq!(node.wire_octets(&apex), wire);
    }

    #[test]
    fn the_owner_keeps_its_case() {
        let apex = "z.".parse().unwrap();
        assert_eq!(node("WwW.z.").owner_wire(&apex), b"\x03WwW\x01z\x00");
        assert_eq!(node("WwW.z.").key(), node("www.z.").key());
    }

    #[test]
    fn a_stored_node_whose_ttl_has_the_top_bit_is_refused() {
        let node = node("www.z.");
        let mut octets = node.as_octets().to_vec();
        let ttl = octets
            .windows(4)
            .position(|it| it == [0, 0, 0, 20])
            .unwrap();
        octets[ttl] = 0x80;
        assert!(Node::decode(&octets).is_none());
    }

    #[test]
    fn a_stored_node_reads_back_and_a_cut_one_is_refused() {
        let node = node("www.z.");
        assert_eq!(
            Node::decode(node.as_octets()).unwrap().as_octets(),
            node.as_octets()
        );
        for cut in 0..node.as_octets().len() {
            let decoded = Node::decode(&node.as_octets()[..cut]);
            // A cut exactly between two RRsets leaves a whole node.
            assert!(
                decoded.is_none_or(|cut| cut.record_count() == 2),
                "cut at {cut}"
            );
        }
    }
}
