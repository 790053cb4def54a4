//! Records of a message that is not ours, their names and data not decoded.

use crate::Rtype;
use crate::wire::HEADER_OCTETS;
use crate::wire_name::skip_name;

/// A record of a message, its name not followed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRecord<'a> {
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

/// Where the TSIG record of a message begins, responses included; `None` when its last record is no TSIG
/// or the message is malformed.
pub fn tsig_place(raw: &[u8]) -> Option<usize> {
    let number = |at: usize| Some(u16::from_be_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
    let mut at = HEADER_OCTETS;
    for _ in 0..number(4)? {
        at = skip_name(raw, at)? + 4;
    }
    let records = u32::from(number(6)?) + u32::from(number(8)?) + u32::from(number(10)?);
    let mut last = None;
    for _ in 0..records {
        let rr = RawRecord::parse(raw, at)?;
        last = (rr.rtype == Rtype::TSIG).then_some(at);
        at = rr.end;
    }
    last.filter(|_| at == raw.len())
}
