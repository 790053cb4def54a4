//! Records of a received message, their names and data not decoded.

use crate::Rtype;
use crate::wire::HEADER_OCTETS;
use crate::wire_name::skip_name;

/// A record of a message, without its name.
#[derive(Debug, Clone, Copy)]
pub struct RawRecord<'a> {
    /// The type.
    pub rtype: Rtype,
    /// The class.
    pub class: u16,
    /// The TTL's octets.
    pub ttl: [u8; 4],
    /// The data.
    pub data: &'a [u8],
    /// The place after the record.
    pub end: usize,
}

impl<'a> RawRecord<'a> {
    /// Reads the record at a place.
    pub(crate) fn parse(raw: &'a [u8], at: usize) -> Option<Self> {
        let at = skip_name(raw, at)?;
        let (head, rest) = raw.get(at..)?.split_first_chunk::<10>()?;
        let [t0, t1, c0, c1, l0, l1, l2, l3, d0, d1] = *head;
        let length = usize::from(u16::from_be_bytes([d0, d1]));
        Some(Self {
            rtype: Rtype(u16::from_be_bytes([t0, t1])),
            class: u16::from_be_bytes([c0, c1]),
            ttl: [l0, l1, l2, l3],
            data: rest.get(..length)?,
            end: at + 10 + length,
        })
    }
}

/// The records of a message, which may be a response. Each comes with the index of its section: 0 for the answer, 1 for
/// authority, 2 for additional. The iterator ends early if the message is malformed.
#[derive(Debug)]
pub struct RawRecords<'a> {
    raw: &'a [u8],
    /// The place of the next record.
    at: usize,
    /// The number of records left in each section.
    left: [u16; 3],
}

impl<'a> RawRecords<'a> {
    /// The records of a message; `None` when its header or its question cannot be read.
    #[must_use]
    pub fn of(raw: &'a [u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
        let left = [number(6)?, number(8)?, number(10)?];
        let mut at = HEADER_OCTETS;
        for _ in 0..number(4)? {
            at = skip_name(raw, at)? + 4;
        }
        Some(Self { raw, at, left })
    }
}

impl<'a> Iterator for RawRecords<'a> {
    type Item = (usize, RawRecord<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let section = self.left.iter().position(|left| *left > 0)?;
        let record = RawRecord::parse(self.raw, self.at)?;
        self.left[section] -= 1;
        self.at = record.end;
        Some((section, record))
    }
}

/// The place of the TSIG record of a message, which may be a response. `None` when its last record is no TSIG or the
/// message is malformed.
pub fn tsig_place(raw: &[u8]) -> Option<usize> {
    let mut records = RawRecords::of(raw)?;
    let mut start = records.at;
    let mut last = None;
    for (_, record) in records.by_ref() {
        last = (record.rtype == Rtype::TSIG).then_some(start);
        start = record.end;
    }
    last.filter(|_| records.left == [0; 3] && start == raw.len())
}
