//! Writes DNS messages: header, question, records with compressed names, OPT.
//!
//! A writer is used for many messages, and reuses its buffer and its compression table ([`Compressor`]). Names within
//! data are compressed for the types of RFC 1035 only (RFC 3597 section 4).

mod block;

use crate::compress::{Compressor, Role};
use crate::wire_name::wire_name_len;
use crate::{Rcode, RrRef, Rtype};

/// Octets of a message's header (RFC 1035 section 4.1.1).
pub const HEADER_OCTETS: usize = 12;
/// The longest message: the largest length over TCP (RFC 1035 section 4.2.2).
pub const MAX_MESSAGE_OCTETS: usize = 65_535;
/// Octets of an OPT record without options (RFC 6891 section 6.1.2).
pub const OPT_OCTETS: usize = 11;
/// The class IN (RFC 1035 section 3.2.4).
pub(super) const CLASS_IN: u16 = 1;
/// A section of records. The number is the place of its count in the header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Section {
    /// The answer.
    Answer = 1,
    /// Authority.
    Authority = 2,
    /// Additional.
    Additional = 3,
}

/// The OPT record of a reply.
#[derive(Clone, Copy, Debug)]
pub struct OptReply<'a> {
    /// The largest datagram we take.
    pub size: u16,
    /// The whole response code; the OPT holds its upper eight bits.
    pub rcode: Rcode,
    /// The DO bit, copied from the request (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// The options in wire form.
    pub options: &'a [u8],
}

impl OptReply<'_> {
    /// The octets of the record in a message.
    #[must_use]
    pub const fn octets(&self) -> usize {
        OPT_OCTETS + self.options.len()
    }
}

/// A place in a message to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len: usize,
    counts: [u16; 4],
}

/// Writes one message after the other.
#[derive(Debug)]
pub struct MessageWriter {
    /// The message, with `base` octets before it for its length.
    octets: Vec<u8>,
    /// 2 if the length precedes the message, else 0.
    base: usize,
    /// The most octets of the message at present.
    limit: usize,
    /// The class of its records.
    class: u16,
    counts: [u16; 4],
    /// Whether the question's name is in the message but not yet in the table.
    question_pending: bool,
    names: Compressor,
    /// Space for an owner in wire form.
    owner: Vec<u8>,
}

impl MessageWriter {
    /// A writer whose table has room for `2^bits` suffixes: 9 bits are enough for an answer, 13 for a message of a
    /// transfer.
    #[must_use]
    pub fn new(bits: u32) -> Self {
        Self {
            octets: Vec::with_capacity(1536),
            base: 0,
            limit: MAX_MESSAGE_OCTETS,
            class: CLASS_IN,
            counts: [0; 4],
            question_pending: false,
            names: Compressor::new(bits),
            owner: Vec::new(),
        }
    }

    /// Begins a message of at most `limit` octets. With `prefixed`, two octets for its length precede it.
    pub fn begin(&mut self, prefixed: bool, limit: usize, id: u16, flags: u16) {
        self.octets.clear();
        self.base = if prefixed { 2 } else { 0 };
        self.octets.resize(self.base + HEADER_OCTETS, 0);
        self.octets[self.base..self.base + 2].copy_from_slice(&id.to_be_bytes());
        self.limit = limit.min(MAX_MESSAGE_OCTETS);
        self.class = CLASS_IN;
        self.counts = [0; 4];
        self.question_pending = false;
        self.set_flags(flags);
        self.names.begin();
    }

    /// Sets other header flags, response code included.
    pub fn set_flags(&mut self, flags: u16) {
        self.octets[self.base + 2..self.base + 4].copy_from_slice(&flags.to_be_bytes());
    }

    /// Changes the limit for the rest of the message.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_MESSAGE_OCTETS);
    }

    /// Sets the class of the records that follow. Without it, the class is IN.
    pub fn set_class(&mut self, class: u16) {
        self.class = class;
    }

    /// The octets of the message so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len() - self.base
    }

    /// Whether no message has begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// The number of records in a section.
    #[must_use]
    pub fn count(&self, section: Section) -> u16 {
        self.counts[section as usize]
    }

    /// Copies the question of a request: a name without pointers, the type, the class.
    pub fn question(&mut self, question: &[u8]) {
        self.octets.extend_from_slice(question);
        self.counts[0] = 1;
        self.question_pending = true;
    }

    /// The current place, for [`Self::rollback`].
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            len: self.octets.len(),
            counts: self.counts,
        }
    }

    /// Cuts the message back to a mark, and forgets the names written since.
    pub fn rollback(&mut self, mark: Mark) {
        self.index_names();
        self.octets.truncate(mark.len);
        self.counts = mark.counts;
        self.names.cut(mark.len - self.base);
    }

    /// Writes a record. If it does not fit, writes nothing and returns false.
    pub fn record(&mut self, section: Section, rr: RrRef<'_>) -> bool {
        if !rr.rtype.compresses_rdata() && self.len() + 12 + rr.data.len() > self.limit {
            return false;
        }
        self.index_names();
        let start = self.octets.len();
        self.names.forget_undo();
        self.name(rr.owner, Role::Owner);
        self.rest(section, start, rr)
    }

    /// As [`Self::record`], with the question's name as the owner instead of `rr.owner`.
    pub fn record_of_question(&mut self, section: Section, rr: RrRef<'_>) -> bool {
        let start = self.octets.len();
        self.names.forget_undo();
        self.octets.extend_from_slice(&[0xc0, 12]);
        self.rest(section, start, rr)
    }

    /// Writes the rest of a record after its owner and counts it. If it does not fit, removes the record.
    fn rest(&mut self, section: Section, start: usize, rr: RrRef<'_>) -> bool {
        self.octets.extend_from_slice(&rr.rtype.0.to_be_bytes());
        self.octets.extend_from_slice(&self.class.to_be_bytes());
        self.octets
            .extend_from_slice(&rr.ttl.seconds().to_be_bytes());
        let length_at = self.octets.len();
        self.octets.extend_from_slice(&[0, 0]);
        self.data(rr.rtype, rr.data);
        let count = self.counts[section as usize];
        let length = u16::try_from(self.octets.len() - length_at - 2);
        match length {
            Ok(length) if self.len() <= self.limit && count < u16::MAX => {
                self.octets[length_at..length_at + 2].copy_from_slice(&length.to_be_bytes());
                self.counts[section as usize] = count + 1;
                true
            }
            _ => {
                self.octets.truncate(start);
                self.names.undo();
                false
            }
        }
    }

    fn data(&mut self, rtype: Rtype, data: &[u8]) {
        let names = match rtype {
            _ if !rtype.compresses_rdata() => return self.octets.extend_from_slice(data),
            Rtype::SOA => 2,
            _ => 1,
        };
        let mut at = if rtype == Rtype::MX { 2 } else { 0 };
        self.index_names();
        self.octets.extend_from_slice(&data[..at.min(data.len())]);
        for _ in 0..names {
            let Some(length) = data.get(at..).and_then(wire_name_len) else {
                break;
            };
            self.name(&data[at..at + length], Role::Data);
            at += length;
        }
        self.octets
            .extend_from_slice(data.get(at..).unwrap_or_default());
    }

    /// Writes an OPT record. If it does not fit, writes nothing and returns false.
    pub fn opt(&mut self, opt: &OptReply<'_>) -> bool {
        if self.len() + opt.octets() > self.limit {
            return false;
        }
        self.octets.push(0);
        self.octets.extend_from_slice(&Rtype::OPT.0.to_be_bytes());
        self.octets.extend_from_slice(&opt.size.to_be_bytes());
        let [_, upper] = (opt.rcode.0 >> 4).to_be_bytes();
        let dnssec_ok = if opt.dnssec_ok { 0x80 } else { 0 };
        self.octets.extend_from_slice(&[upper, 0, dnssec_ok, 0]);
        push_u16(&mut self.octets, opt.options.len());
        self.octets.extend_from_slice(opt.options);
        self.counts[Section::Additional as usize] += 1;
        true
    }

    /// Sets the counts and the length.
    fn close(&mut self) {
        for (index, count) in self.counts.iter().enumerate() {
            let at = self.base + 4 + index * 2;
            self.octets[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        set_length(&mut self.octets, self.base);
    }

    /// Ends the message and returns its octets, with the length in front if it was begun so.
    pub fn finish(&mut self) -> &[u8] {
        self.close();
        &self.octets
    }

    /// The octets of the message, which must have ended.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Ends the message. Returns its octets, which may be lengthened, and the place where the message begins.
    pub fn finish_mut(&mut self) -> (&mut Vec<u8>, usize) {
        self.close();
        (&mut self.octets, self.base)
    }

    /// Ends the message and hands over its octets.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        self.take_signed()
    }

    /// Hands over the octets of a message that [`Self::finish_mut`] ended and that may since be longer.
    #[must_use]
    pub fn take_signed(&mut self) -> Vec<u8> {
        let room = self.octets.capacity().clamp(1024, 20_000);
        std::mem::replace(&mut self.octets, Vec::with_capacity(room))
    }

    /// Enters pending names into the table: the question's, and owners that came in order.
    fn index_names(&mut self) {
        let message = &self.octets[self.base..];
        if std::mem::take(&mut self.question_pending) {
            self.names.note(message, HEADER_OCTETS);
        }
        self.names.settle(message);
    }

    /// Writes a name, the longest known suffix as a pointer.
    fn name(&mut self, wire: &[u8], role: Role) {
        self.names.write(&mut self.octets, self.base, wire, role);
    }
}

/// Appends a 16-bit number.
fn push_u16(octets: &mut Vec<u8>, number: usize) {
    let number = u16::try_from(number).expect("lengths in messages have 16 bits");
    octets.extend_from_slice(&number.to_be_bytes());
}

/// Writes the length of the message before it, if `base` leaves room for that.
pub fn set_length(octets: &mut [u8], base: usize) {
    if base == 2 {
        let length = u16::try_from(octets.len() - 2).expect("messages have at most 65535 octets");
        octets[..2].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
