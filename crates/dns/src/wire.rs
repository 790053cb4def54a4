//! Writes DNS messages: header, question, records with compressed names, OPT.
//!
//! A writer is made once and used for many messages: its buffer and its compression table
//! ([`Compressor`]) stay. Names within data are compressed for the types of RFC 1035 only (RFC 3597 section 4).

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
/// A section of records, by place of its count in the header.
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
    /// The octets the record takes.
    #[must_use]
    pub const fn octets(&self) -> usize {
        OPT_OCTETS + self.options.len()
    }
}

/// A place in a message to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Octets in the buffer.
    len: usize,
    counts: [u16; 4],
}

/// Writes one message after the other.
#[derive(Debug)]
pub struct MessageWriter {
    /// The message, after `base` octets for its length.
    octets: Vec<u8>,
    /// 2 when the length goes before the message, 0 when not.
    base: usize,
    /// The most octets of the message for now.
    limit: usize,
    /// The class of its records.
    class: u16,
    counts: [u16; 4],
    /// The question's name is in the message and not yet in the table.
    question_pending: bool,
    /// The names of the message.
    names: Compressor,
    /// Where owners are made whole.
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

    /// Begins a message of at most `limit` octets. `prefixed`: two octets for its length go before it.
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

    /// Other header flags, response code included.
    pub fn set_flags(&mut self, flags: u16) {
        self.octets[self.base + 2..self.base + 4].copy_from_slice(&flags.to_be_bytes());
    }

    /// Changes the limit for the rest of the message.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.min(MAX_MESSAGE_OCTETS);
    }

    /// The class of the records that follow; IN unless said.
    pub fn set_class(&mut self, class: u16) {
        self.class = class;
    }

    /// The octets of the message so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len() - self.base
    }

    /// Whether no message was begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// How many records a section has.
    #[must_use]
    pub fn count(&self, section: Section) -> u16 {
        self.counts[section as usize]
    }

    /// Copies a question as it came: name without pointers, type, class.
    pub fn question(&mut self, question: &[u8]) {
        self.octets.extend_from_slice(question);
        self.counts[0] = 1;
        self.question_pending = true;
    }

    /// The place to come back to.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            len: self.octets.len(),
            counts: self.counts,
        }
    }

    /// Cuts the message back. Names written since are forgotten.
    pub fn rollback(&mut self, mark: Mark) {
        self.index_names();
        self.octets.truncate(mark.len);
        self.counts = mark.counts;
        self.names.cut(mark.len - self.base);
    }

    /// Writes a record; false, and nothing written, when it does not fit.
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

    /// As [`Self::record`] for the name of the question, whatever `rr.owner` says.
    pub fn record_of_question(&mut self, section: Section, rr: RrRef<'_>) -> bool {
        let start = self.octets.len();
        self.names.forget_undo();
        self.octets.extend_from_slice(&[0xc0, 12]);
        self.rest(section, start, rr)
    }

    /// Writes the rest of a record behind its owner and counts it, or removes the record if it does not fit.
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

    /// Writes an OPT record; false, and nothing written, when it does not fit.
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

    /// Sets counts and length; the message is whole.
    fn close(&mut self) {
        for (index, count) in self.counts.iter().enumerate() {
            let at = self.base + 4 + index * 2;
            self.octets[at..at + 2].copy_from_slice(&count.to_be_bytes());
        }
        set_length(&mut self.octets, self.base);
    }

    /// Ends the message: its octets, length first when it was begun so.
    pub fn finish(&mut self) -> &[u8] {
        self.close();
        &self.octets
    }

    /// The octets of a message that was ended.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Ends the message and lets its octets be lengthened; the place where it begins goes along.
    pub fn finish_mut(&mut self) -> (&mut Vec<u8>, usize) {
        self.close();
        (&mut self.octets, self.base)
    }

    /// Ends the message and gives its octets away.
    #[must_use]
    pub fn take(&mut self) -> Vec<u8> {
        self.close();
        self.take_signed()
    }

    /// Gives the octets of a message away that was ended, and lengthened, by [`Self::finish_mut`].
    #[must_use]
    pub fn take_signed(&mut self) -> Vec<u8> {
        let room = self.octets.capacity().clamp(1024, 20_000);
        std::mem::replace(&mut self.octets, Vec::with_capacity(room))
    }

    /// Puts names into the table that are not in it yet: the question's, and owners that came in order.
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

/// Appends a length as 16 bits.
fn push_u16(octets: &mut Vec<u8>, number: usize) {
    let number = u16::try_from(number).expect("lengths in messages have 16 bits");
    octets.extend_from_slice(&number.to_be_bytes());
}

/// Writes the length of the message in front of it, where there is room for it.
pub fn set_length(octets: &mut [u8], base: usize) {
    if base == 2 {
        let length = u16::try_from(octets.len() - 2).expect("messages have at most 65535 octets");
        octets[..2].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
