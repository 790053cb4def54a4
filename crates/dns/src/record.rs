//! Records: single ones for rendering, and packed lists for deltas.

use std::net::IpAddr;

use crate::Name;
use crate::wire_name::wire_name_len;
use crate::{Rdata, Rtype, Ttl};

/// One resource record of class IN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The owner.
    pub owner: Name,
    /// The type.
    pub rtype: Rtype,
    /// The TTL.
    pub ttl: Ttl,
    /// The data.
    pub rdata: Rdata,
}

impl Record {
    /// A view of the record.
    #[must_use]
    pub fn view(&self) -> RrRef<'_> {
        RrRef {
            owner: self.owner.as_wire(),
            rtype: self.rtype,
            ttl: self.ttl,
            data: self.rdata.as_octets(),
            tag: 0,
        }
    }
}

/// A record within a zone's node, a delta or a message, by reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RrRef<'a> {
    /// The owner, uncompressed wire form.
    pub owner: &'a [u8],
    /// The type.
    pub rtype: Rtype,
    /// The TTL.
    pub ttl: Ttl,
    /// The data, uncompressed wire form.
    pub data: &'a [u8],
    /// A number that goes with the record: in a delta, the group of its causes.
    pub tag: u32,
}

impl RrRef<'_> {
    /// The octets of the record uncompressed on the wire.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        self.owner.len() + 10 + self.data.len()
    }

    /// The record without its tag, for comparing.
    #[must_use]
    pub const fn untagged(self) -> Self {
        Self { tag: 0, ..self }
    }

    /// The address of an address record.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        match self.rtype {
            Rtype::A => <[u8; 4]>::try_from(self.data).ok().map(IpAddr::from),
            Rtype::AAAA => <[u8; 16]>::try_from(self.data).ok().map(IpAddr::from),
            _ => None,
        }
    }

    /// An owned copy of the record, without the tag.
    #[must_use]
    pub fn to_record(&self) -> Record {
        Record {
            owner: Name::from_wire(self.owner).expect("records in lists hold whole names"),
            rtype: self.rtype,
            ttl: self.ttl,
            rdata: Rdata::from_octets(self.data).expect("records in lists fit their length field"),
        }
    }
}

/// Records of one owner and one type, in the form of a zone's node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RrBlock<'a> {
    /// The type.
    pub rtype: Rtype,
    /// The TTL.
    pub ttl: Ttl,
    /// Length (2) and data of each record.
    pub octets: &'a [u8],
}

impl<'a> RrBlock<'a> {
    /// The first record's data, and the place after it in the octets.
    pub fn first(&self) -> Option<(&'a [u8], usize)> {
        let (length, rest) = self.octets.split_first_chunk::<2>()?;
        let length = usize::from(u16::from_be_bytes(*length));
        Some((rest.get(..length)?, 2 + length))
    }
}

/// Records one after the other in one allocation: owner, type (2), TTL (4), tag (4), length (2), data.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RrList {
    octets: Vec<u8>,
    count: usize,
}

impl RrList {
    /// The octets that a record takes in a list beyond its uncompressed wire form.
    pub const MORE_THAN_WIRE: usize = 2;

    /// An empty list with room for `octets` octets.
    #[must_use]
    pub fn with_capacity(octets: usize) -> Self {
        Self {
            octets: Vec::with_capacity(octets),
            count: 0,
        }
    }

    /// Replaces each record's tag by the result of `new` for it.
    pub fn retag(&mut self, mut new: impl FnMut(u32) -> u32) {
        self.retag_each(|rr| new(rr.tag));
    }

    /// As [`Self::retag`], with the whole record.
    pub fn retag_each(&mut self, mut new: impl FnMut(RrRef<'_>) -> u32) {
        let mut at = 0;
        while let Some((rr, rest)) = split_rr(&self.octets[at..]) {
            let tag_at = at + rr.owner.len() + 6;
            let tag = new(rr);
            let next = self.octets.len() - rest.len();
            self.octets[tag_at..tag_at + 4].copy_from_slice(&tag.to_be_bytes());
            at = next;
        }
    }

    /// Adds a record at the end.
    pub fn push(&mut self, rr: RrRef<'_>) {
        let [t0, t1] = rr.rtype.0.to_be_bytes();
        let [l0, l1, l2, l3] = rr.ttl.seconds().to_be_bytes();
        let [g0, g1, g2, g3] = rr.tag.to_be_bytes();
        let length = u16::try_from(rr.data.len()).expect("RDATA has at most 65535 octets");
        let [d0, d1] = length.to_be_bytes();
        self.octets.reserve(rr.wire_len() + Self::MORE_THAN_WIRE);
        self.octets.extend_from_slice(rr.owner);
        let head = [t0, t1, l0, l1, l2, l3, g0, g1, g2, g3, d0, d1];
        self.octets.extend_from_slice(&head);
        self.octets.extend_from_slice(rr.data);
        self.count += 1;
    }

    /// This list followed by another.
    #[must_use]
    pub fn and(mut self, other: &Self) -> Self {
        self.octets.extend_from_slice(&other.octets);
        self.count += other.count;
        self
    }

    /// Reads a list as [`Self::as_octets`] wrote it; `None` when it is incomplete or malformed.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let mut rest = octets;
        let mut count = 0;
        while !rest.is_empty() {
            rest = split_rr(rest)?.1;
            count += 1;
        }
        Some(Self {
            octets: octets.to_vec(),
            count,
        })
    }

    /// The tag of a record; `None` when it is not in the list.
    #[must_use]
    pub fn tag_of(&self, record: RrRef<'_>) -> Option<u32> {
        let same = |known: &RrRef<'_>| known.untagged() == record.untagged();
        self.iter().find(same).map(|known| known.tag)
    }

    /// The number of records.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether the list has no records.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The octets, for the store.
    #[must_use]
    pub fn as_octets(&self) -> &[u8] {
        &self.octets
    }

    /// The records in order.
    #[must_use]
    pub fn iter(&self) -> RrListIter<'_> {
        RrListIter(&self.octets)
    }

    /// The records after the first `octets` octets. That place must be the start of a record: see
    /// [`RrListIter::octets_left`].
    #[must_use]
    pub fn iter_behind(&self, octets: usize) -> RrListIter<'_> {
        RrListIter(self.octets.get(octets..).unwrap_or_default())
    }

    /// Returns memory that was reserved and not used.
    pub fn shrink(&mut self) {
        self.octets.shrink_to_fit();
    }
}

impl<'a> IntoIterator for &'a RrList {
    type Item = RrRef<'a>;
    type IntoIter = RrListIter<'a>;

    fn into_iter(self) -> RrListIter<'a> {
        self.iter()
    }
}

/// The records of a list, in order.
#[derive(Debug, Clone)]
pub struct RrListIter<'a>(&'a [u8]);

impl RrListIter<'_> {
    /// The octets of the list that are not yet read.
    #[must_use]
    pub const fn octets_left(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Iterator for RrListIter<'a> {
    type Item = RrRef<'a>;

    fn next(&mut self) -> Option<RrRef<'a>> {
        let (rr, rest) = split_rr(self.0)?;
        self.0 = rest;
        Some(rr)
    }
}

/// The first record of a list and the rest.
fn split_rr(octets: &[u8]) -> Option<(RrRef<'_>, &[u8])> {
    let (owner, rest) = octets.split_at_checked(wire_name_len(octets)?)?;
    let (head, rest) = rest.split_first_chunk::<12>()?;
    let [t0, t1, l0, l1, l2, l3, g0, g1, g2, g3, d0, d1] = *head;
    let (data, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([d0, d1])))?;
    let rr = RrRef {
        owner,
        rtype: Rtype(u16::from_be_bytes([t0, t1])),
        ttl: Ttl::decode(u32::from_be_bytes([l0, l1, l2, l3])),
        tag: u32::from_be_bytes([g0, g1, g2, g3]),
        data,
    };
    Some((rr, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_and_a_cut_one_is_refused() {
        let (rtype, rdata) = Rdata::address("10.0.0.1".parse().unwrap());
        let record = Record {
            owner: "a.b.".parse().unwrap(),
            rtype,
            ttl: Ttl::decode(30),
            rdata,
        };
        let mut list = RrList::default();
        list.push(RrRef {
            tag: 7,
            ..record.view()
        });
        list.push(record.view());
        let again = RrList::decode(list.as_octets()).unwrap();
        assert_eq!(again, list);
        assert_eq!(again.iter().map(|rr| rr.tag).collect::<Vec<_>>(), [7, 0]);
        assert_eq!(again.iter().next().unwrap().to_record(), record);
        let wire: usize = list.iter().map(|rr| rr.wire_len()).sum();
        assert_eq!(
            list.as_octets().len(),
            wire + 2 * RrList::MORE_THAN_WIRE,
            "what a list is made with room for"
        );
        let mut other = list.clone();
        other.retag(|tag| tag + 1);
        assert_eq!(other.iter().map(|rr| rr.tag).collect::<Vec<_>>(), [8, 1]);
        other.retag(|tag| tag - 1);
        assert_eq!(other, list);
        for cut in 1..list.as_octets().len() / 2 {
            assert_eq!(
                RrList::decode(&list.as_octets()[..cut]),
                None,
                "cut at {cut}"
            );
        }
    }
}
