//! Reads replies of other servers into records.
//!
//! Each read is checked against the end of the message. Pointers lead backwards only, so every name ends. There are
//! never more records than octets for them.
//!
//! As in CoreDNS's library, a message may have fewer records than its header says if it ends between two records.
//! Octets after the last record are ignored.
//!
//! # Not implemented
//! - Records of other classes than the question's: a [`Record`] has no class, so they are left out.
//! - Compressed names in types that may not compress them (RFC 3597 section 4): such data is not changed.

use crate::edns::{self, EXTENDED_ERROR, MOST_EXTENDED_ERRORS, MOST_EXTENDED_OCTETS};
use crate::name::{DecodeError, Name};
use crate::wire::HEADER_OCTETS;
use crate::{Rcode, Rdata, Record, Rtype, Ttl};

/// A decoded reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// The message's ID.
    pub id: u16,
    /// The header's flags, with the lower bits of the response code.
    pub flags: u16,
    /// The response code, with the upper bits from OPT.
    pub rcode: Rcode,
    /// The question, if there is exactly one: name, type, class.
    pub question: Option<(Name, Rtype, u16)>,
    /// Answer, authority and additional without OPT and TSIG.
    pub sections: [Vec<Record>; 3],
    /// The first extended errors of OPT (RFC 8914): code and text.
    pub extended: Vec<(u16, String)>,
}

/// The reason why a reply cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadReply {
    /// It is shorter than a header.
    #[error("the reply is shorter than a header")]
    NoHeader,
    /// It ends within a record: it was truncated in transit, or exceeds the size that the client announced.
    #[error("the reply of id {id} ends within a record")]
    Ends {
        /// The message's ID.
        id: u16,
        /// The header's flags.
        flags: u16,
    },
    /// Some part of it breaks the format.
    #[error("the reply of id {id} is malformed")]
    Malformed {
        /// The message's ID.
        id: u16,
    },
}

impl Response {
    /// Reads a whole reply.
    ///
    /// # Errors
    /// [`BadReply`].
    pub fn decode(octets: &[u8]) -> Result<Self, BadReply> {
        let header = octets.get(..HEADER_OCTETS).ok_or(BadReply::NoHeader)?;
        let number = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let mut response = Self {
            id: number(0),
            flags: number(2),
            rcode: Rcode(number(2) & 15),
            ..Self::default()
        };
        let mut reader = Reader {
            octets,
            at: HEADER_OCTETS,
        };
        let counts = [4, 6, 8, 10].map(number);
        let read = reader.read(counts, &mut response);
        let (id, flags) = (response.id, response.flags);
        match read {
            Ok(()) => Ok(response),
            Err(Fault::Ends) => Err(BadReply::Ends { id, flags }),
            Err(Fault::Malformed) => Err(BadReply::Malformed { id }),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Ends,
    Malformed,
}

struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let taken = self.octets.get(self.at..self.at + count);
        let taken = taken.ok_or(Fault::Ends)?;
        self.at += count;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u16, Fault> {
        let octets = self.take(2)?;
        Ok(u16::from_be_bytes([octets[0], octets[1]]))
    }

    fn name(&mut self) -> Result<Name, Fault> {
        match Name::decode(self.octets, self.at) {
            Ok((name, next)) => {
                self.at = next;
                Ok(name)
            }
            Err(DecodeError::Short) => Err(Fault::Ends),
            Err(_) => Err(Fault::Malformed),
        }
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.octets.len()
    }

    fn read(&mut self, counts: [u16; 4], response: &mut Response) -> Result<(), Fault> {
        for place in 0..counts[0] {
            if self.is_at_end() {
                break;
            }
            let question = (self.name()?, Rtype(self.number()?), self.number()?);
            response.question = (place == 0).then_some(question);
        }
        let class = response.question.as_ref().map_or(1, |it| it.2);
        for (section, count) in counts[1..].iter().enumerate() {
            for _ in 0..*count {
                if self.is_at_end() {
                    return Ok(());
                }
                self.record(section, class, response)?;
            }
        }
        Ok(())
    }

    /// Reads one record into its section, or into the fields that OPT sets.
    fn record(&mut self, section: usize, class: u16, out: &mut Response) -> Result<(), Fault> {
        let owner = self.name()?;
        let (rtype, its_class) = (Rtype(self.number()?), self.number()?);
        let ttl = self.take(4)?;
        let ttl = u32::from_be_bytes([ttl[0], ttl[1], ttl[2], ttl[3]]);
        let length = usize::from(self.number()?);
        let end = self.at + length;
        if end > self.octets.len() {
            return Err(Fault::Ends);
        }
        match rtype {
            Rtype::OPT => {
                let [high, ..] = ttl.to_be_bytes();
                out.rcode = Rcode(u16::from(high) << 4 | out.flags & 15);
                note_errors(&self.octets[self.at..end], &mut out.extended);
            }
            Rtype::TSIG => {}
            _ => {
                let data = self.data(rtype, end)?;
                if its_class == class {
                    let rdata = Rdata::from_octets(&data).map_err(|_| Fault::Malformed)?;
                    let ttl = Ttl::decode(ttl);
                    let record = Record {
                        owner,
                        rtype,
                        ttl,
                        rdata,
                    };
                    out.sections[section].push(record);
                }
            }
        }
        self.at = end;
        Ok(())
    }

    /// The data up to `end`, with whole names.
    fn data(&mut self, rtype: Rtype, end: usize) -> Result<Vec<u8>, Fault> {
        let Layout {
            front,
            strings,
            names,
            back,
        } = layout(rtype);
        let raw = &self.octets[self.at..end];
        if names == 0 || raw.is_empty() {
            let is_whole = match rtype {
                Rtype::A => raw.len() == 4,
                Rtype::AAAA => raw.len() == 16,
                _ => true,
            };
            return if is_whole || raw.is_empty() {
                Ok(raw.to_vec())
            } else {
                Err(Fault::Malformed)
            };
        }
        let mut data = self.take(front)?.to_vec();
        for _ in 0..strings {
            let length = self.take(1)?[0];
            data.push(length);
            data.extend_from_slice(self.take(usize::from(length))?);
        }
        for _ in 0..names {
            data.extend_from_slice(self.name()?.as_wire());
        }
        data.extend_from_slice(self.take(back)?);
        if self.at == end {
            Ok(data)
        } else {
            Err(Fault::Malformed)
        }
    }
}

/// The places of names in data.
struct Layout {
    front: usize,
    strings: usize,
    names: usize,
    back: usize,
}

/// The layout of the types whose names may be compressed: those of RFC 1035, and for receivers those of RFC 3597
/// section 4.
fn layout(rtype: Rtype) -> Layout {
    let (front, strings, names, back) = match rtype.0 {
        // NS, MD, MF, CNAME, MB, MG, MR, PTR; DNAME
        2..=5 | 7..=9 | 12 | 39 => (0, 0, 1, 0),
        // SOA
        6 => (0, 0, 2, 20),
        // MINFO, RP
        14 | 17 => (0, 0, 2, 0),
        // MX, AFSDB, RT, KX
        15 | 18 | 21 | 36 => (2, 0, 1, 0),
        // PX
        26 => (2, 0, 2, 0),
        // SRV
        33 => (6, 0, 1, 0),
        // NAPTR
        35 => (4, 3, 1, 0),
        _ => (0, 0, 0, 0),
    };
    Layout {
        front,
        strings,
        names,
        back,
    }
}

/// Adds the extended errors among EDNS options; malformed ones are ignored.
fn note_errors(options: &[u8], found: &mut Vec<(u16, String)>) {
    let mut rest = options;
    while found.len() < MOST_EXTENDED_ERRORS
        && let Some(((code, data), tail)) = edns::split(rest)
    {
        rest = tail;
        if let (EXTENDED_ERROR, [high, low, text @ ..]) = (code, data) {
            let taken: usize = found.iter().map(|(_, text)| text.len()).sum();
            let text = String::from_utf8_lossy(text);
            let text = edns::cut(&text, MOST_EXTENDED_OCTETS - taken);
            found.push((u16::from_be_bytes([*high, *low]), text.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::RecordText;

    /// A reply to `www.test. A` with these counts, and `rest` after the question.
    fn reply(counts: [u8; 3], rest: &[u8]) -> Vec<u8> {
        let [answers, authority, additional] = counts;
        let header = [
            0, 7, 0x81, 0x80, 0, 1, 0, answers, 0, authority, 0, additional,
        ];
        [
            &header,
            b"\x03www\x04test\x00\x00\x01\x00\x01".as_slice(),
            rest,
        ]
        .concat()
    }

    /// A record owned by the question's name.
    fn record(rtype: u8, data: &[u8]) -> Vec<u8> {
        let length = u8::try_from(data.len()).unwrap();
        [&[0xc0, 12, 0, rtype, 0, 1, 0, 0, 0, 9, 0, length][..], data].concat()
    }

    fn texts(records: &[Record]) -> Vec<String> {
        let text = |record: &Record| RecordText(record.view()).to_string().replace('\t', " ");
        records.iter().map(text).collect()
    }

    #[test]
    fn names_in_data_come_out_whole() {
        let rest = [
            record(1, &[10, 0, 0, 1]),
            record(15, &[0, 5, 2, b'm', b'x', 0xc0, 16]),
            record(33, &[0, 1, 0, 2, 0, 80, 0xc0, 12]),
            record(6, &[&[0xc0, 12, 0xc0, 16][..], &[0; 20]].concat()),
        ]
        .concat();
        let read = Response::decode(&reply([2, 2, 0], &rest)).unwrap();
        assert_eq!((read.id, read.rcode), (7, Rcode::NOERROR));
        assert_eq!(read.question.unwrap().0.to_string(), "www.test.");
        assert_eq!(
            texts(&read.sections[0]),
            ["www.test. 9 IN A 10.0.0.1", "www.test. 9 IN MX 5 mx.test."]
        );
        assert_eq!(
            texts(&read.sections[1]),
            [
                "www.test. 9 IN SRV 1 2 80 www.test.",
                "www.test. 9 IN SOA www.test. test. 0 0 0 0 0"
            ]
        );
    }

    #[test]
    fn opt_gives_the_upper_bits_and_extended_errors() {
        let opt = [
            0, 0, 41, 4, 0xd0, 1, 0, 0, 0, 0, 7, 0, 15, 0, 3, 0, 22, b'x',
        ];
        let read = Response::decode(&reply([0, 0, 1], &opt)).unwrap();
        assert_eq!(read.rcode, Rcode::BADVERS);
        assert_eq!(read.extended, [(22, "x".to_owned())]);
        assert!(read.sections[2].is_empty());
    }

    #[test]
    fn security_extended_errors_are_four_of_256_octets_in_all() {
        let error = [&[0, 15, 0, 202, 0, 22][..], &[0xff; 200]].concat();
        let errors = error.repeat(6);
        let length = u16::try_from(errors.len()).unwrap().to_be_bytes();
        let opt = [&[0, 0, 41, 4, 0xd0, 0, 0, 0, 0][..], &length, &errors].concat();
        let read = Response::decode(&reply([0, 0, 2], &opt.repeat(2))).unwrap();
        let octets: usize = read.extended.iter().map(|(_, text)| text.len()).sum();
        assert_eq!(read.extended.len(), 4);
        assert!((200..=256).contains(&octets), "{octets}");
    }

    #[test]
    fn a_reply_that_ends_early_or_is_wrong_says_so() {
        let whole = reply([1, 0, 0], &record(1, &[10, 0, 0, 1]));
        let cut_short = Err(BadReply::Ends {
            id: 7,
            flags: 0x8180,
        });
        assert_eq!(Response::decode(&whole[..whole.len() - 1]), cut_short);
        assert_eq!(Response::decode(&whole[..11]), Err(BadReply::NoHeader));
        // Between two records it just has fewer of them.
        let fewer = Response::decode(&reply([9, 9, 9], &record(1, &[10, 0, 0, 1]))).unwrap();
        assert_eq!(fewer.sections[0].len(), 1);
        let bad = Err(BadReply::Malformed { id: 7 });
        assert_eq!(
            Response::decode(&reply([1, 0, 0], &record(1, &[1, 2, 3]))),
            bad
        );
        assert_eq!(
            Response::decode(&reply([1, 0, 0], &record(2, &[0xc0, 12, 1]))),
            bad
        );
        // It points to itself.
        let own = [0xc0, 26, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(Response::decode(&reply([1, 0, 0], &own)), bad);
    }

    #[test]
    fn records_of_another_class_are_left_out() {
        let mut other = record(16, b"\x01x");
        other[5] = 3;
        let read = Response::decode(&reply([1, 0, 0], &other)).unwrap();
        assert!(read.sections[0].is_empty());
    }

    proptest! {
        #[test]
        fn no_octets_are_too_much(octets in proptest::collection::vec(any::<u8>(), 0..300), counts in any::<[u8; 3]>()) {
            let checked = Response::decode(&octets).is_ok_and(|it| it.sections[0].len() > 300);
            prop_assert!(!checked);
            let behind = Response::decode(&reply(counts, &octets));
            prop_assert!(behind.map_or(true, |it| it.sections.concat().len() <= octets.len() / 11));
        }

        #[test]
        fn a_changed_octet_never_stops_the_reader(at in 0..90_usize, octet in any::<u8>()) {
            let rest = [
                record(6, &[&[0xc0, 12, 0xc0, 16][..], &[0; 20]].concat()),
                record(35, &[0, 1, 0, 2, 1, b'a', 0, 0, 0xc0, 12]),
            ]
            .concat();
            let mut octets = reply([2, 0, 0], &rest);
            let at = at % octets.len();
            octets[at] = octet;
            let read = Response::decode(&octets);
            prop_assert!(read.map_or(true, |it| it.sections.concat().len() <= 2));
        }
    }
}
