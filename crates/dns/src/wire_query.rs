//! Reads the parts of a request that a server needs: header, question, and the places of OPT and TSIG.
//!
//! It copies and allocates nothing. It reads up to the last octet, so it finds every request that is incomplete, has
//! extra octets at its end, or has an OPT or TSIG in a wrong place.

use crate::edns::Opt;
use crate::flags;
use crate::wire::{CLASS_IN, HEADER_OCTETS};
use crate::wire_name::{skip_name, wire_name_len};
use crate::wire_record::RawRecord;
use crate::{Name, Rtype, Serial};

/// A request, by reference into its octets.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// The whole message.
    pub raw: &'a [u8],
    /// The message's ID.
    pub id: u16,
    /// Header flags as they came.
    pub flags: u16,
    /// Records in answer, authority and additional sections.
    pub counts: [u16; 3],
    /// The question: name, type, class. Empty if there is none.
    pub question: &'a [u8],
    /// The OPT record.
    pub opt: Option<Opt<'a>>,
    /// The place of the TSIG record, which is the last one.
    pub tsig_at: Option<usize>,
}

/// The reason why octets are no request we can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreadable<'a> {
    /// Shorter than a header, or a response. It gets no reply.
    Silent,
    /// Malformed: FORMERR, with the question if it could be read.
    Malformed {
        /// The message's ID.
        id: u16,
        /// Header flags as they came.
        flags: u16,
        /// The question, empty when it could not be read.
        question: &'a [u8],
    },
}

impl<'a> Query<'a> {
    /// Reads a request.
    ///
    /// # Errors
    /// [`Unreadable`], with the parts that a reply needs.
    pub fn parse(raw: &'a [u8]) -> Result<Self, Unreadable<'a>> {
        match Self::read(raw) {
            // What follows the header of another operation is not ours to judge: DSO has no records (RFC 8490
            // section 5.4).
            Err(Unreadable::Malformed {
                id,
                flags,
                question,
            }) if flags & flags::OPCODE != 0 => Ok(Self {
                raw,
                id,
                flags,
                counts: [0; 3],
                question,
                opt: None,
                tsig_at: None,
            }),
            read => read,
        }
    }

    fn read(raw: &'a [u8]) -> Result<Self, Unreadable<'a>> {
        let number = |at: usize| Some(u16::from_be_bytes([*raw.get(at)?, *raw.get(at + 1)?]));
        let (Some(id), Some(flags), true) = (number(0), number(2), raw.len() >= HEADER_OCTETS)
        else {
            return Err(Unreadable::Silent);
        };
        if flags & flags::QR != 0 {
            return Err(Unreadable::Silent);
        }
        let counts = [6, 8, 10].map(|at| number(at).unwrap_or_default());
        let mut question: &[u8] = &[];
        let malformed = |question| Unreadable::Malformed {
            id,
            flags,
            question,
        };
        let mut at = HEADER_OCTETS;
        match number(4) {
            Some(1) => {
                let end = wire_name_len(&raw[at..])
                    .map(|length| at + length + 4)
                    .filter(|end| *end <= raw.len())
                    .ok_or(malformed(question))?;
                question = &raw[at..end];
                at = end;
            }
            // A query has one question, or none if it is for a cookie (RFC 9619, RFC 7873 section 5.4).
            Some(0) => {}
            _ => return Err(malformed(question)),
        }
        let mut query = Self {
            raw,
            id,
            flags,
            counts,
            question,
            opt: None,
            tsig_at: None,
        };
        query.walk(at).ok_or(malformed(question))?;
        Ok(query)
    }

    /// Reads all records. `None` when one is malformed.
    fn walk(&mut self, start: usize) -> Option<()> {
        let mut at = start;
        for (section, count) in self.counts.into_iter().enumerate() {
            for _ in 0..count {
                // TSIG is the last record of all (RFC 8945 section 5.1).
                if self.tsig_at.is_some() {
                    return None;
                }
                let rr = RawRecord::parse(self.raw, at)?;
                match rr.rtype {
                    Rtype::OPT => {
                        // "more than one OPT RR: FORMERR" (RFC 6891 section 6.1.1); owner: the root.
                        if section < 2 || self.opt.is_some() || self.raw[at] != 0 {
                            return None;
                        }
                        self.opt = Some(Opt::parse(&rr)?);
                    }
                    Rtype::TSIG if section < 2 => return None,
                    Rtype::TSIG => self.tsig_at = Some(at),
                    _ => {}
                }
                at = rr.end;
            }
        }
        (at == self.raw.len()).then_some(())
    }

    /// The question's name as received. Empty when there is no question.
    #[must_use]
    pub fn name(&self) -> &'a [u8] {
        &self.question[..self.question.len().saturating_sub(4)]
    }

    /// The question's type.
    #[must_use]
    pub fn qtype(&self) -> Rtype {
        Rtype(self.question_number(4))
    }

    /// The question's class.
    #[must_use]
    pub fn qclass(&self) -> u16 {
        self.question_number(2)
    }

    /// A number of the question, by its distance from the question's end.
    fn question_number(&self, from_end: usize) -> u16 {
        let at = self.question.len().saturating_sub(from_end);
        match self.question.get(at..at + 2) {
            Some([high, low]) => u16::from_be_bytes([*high, *low]),
            _ => 0,
        }
    }

    /// The serial of an IXFR request. The authority section must begin with the secondary's SOA of the zone (RFC 1995
    /// section 3). Further records there are ignored, as by NSD and Knot. Only the serial of the SOA's data is read: some
    /// secondaries leave the names out.
    #[must_use]
    pub fn ixfr_serial(&self) -> Option<Serial> {
        let [0, 1..=u16::MAX, _] = self.counts else {
            return None;
        };
        let at = HEADER_OCTETS + self.question.len();
        let soa = RawRecord::parse(self.raw, at)?;
        let (owner, _) = Name::decode(self.raw, at).ok()?;
        let is_of_zone = owner.as_wire().eq_ignore_ascii_case(self.name());
        if soa.rtype != Rtype::SOA || soa.class != CLASS_IN || !is_of_zone {
            return None;
        }
        let rname_at = skip_name(self.raw, soa.end - soa.data.len())?;
        let numbers_at = skip_name(self.raw, rname_at)?;
        let numbers = self.raw.get(numbers_at..soa.end)?;
        let [s0, s1, s2, s3, ..] = *<&[u8; 20]>::try_from(numbers).ok()?;
        Some(Serial::decode(u32::from_be_bytes([s0, s1, s2, s3])))
    }

    /// The operation (RFC 6895 section 2.2).
    #[must_use]
    pub fn opcode(&self) -> u16 {
        (self.flags & flags::OPCODE) >> 11
    }
}
