//! Writes DNS messages: header, question, records with compressed names, OPT.
//!
//! A writer is made once and used for many messages: its buffer and its compression table stay. The
//! table is a hash map from name suffix to place in the message; each hit is checked against the octets
//! themselves, letter by letter, so a pointer never changes the case of a name (RFC 5936 section 3.4).
//! Pointers reach the first 16 KiB of a message (RFC 1035 section 4.1.4). Names within data are compressed
//! for the types of RFC 1035 only (RFC 3597 section 4).

use crate::dns::name::wire_name_len;
use crate::dns::{Rcode, RrRef, Rtype};

/// Octets of a message's header (RFC 1035 section 4.1.1).
pub const HEADER_OCTETS: usize = 12;
/// The most octets of a message: what its length over TCP can say (RFC 1035 section 4.2.2).
pub const MAX_MESSAGE_OCTETS: usize = 65_535;
/// Octets of an OPT record without options (RFC 6891 section 6.1.2).
pub const OPT_OCTETS: usize = 11;
/// The class IN (RFC 1035 section 3.2.4).
const CLASS_IN: u16 = 1;
/// Pointers have 14 bits.
const POINTER_END: usize = 0x4000;
/// The most labels of a name, and one.
const MAX_LABELS: usize = 128;
/// How many places of the table a suffix may stand in after its first.
const PROBES: usize = 8;

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

/// What an OPT record of ours says.
#[derive(Clone, Copy, Debug)]
pub struct OptReply<'a> {
    /// The largest datagram we take.
    pub size: u16,
    /// The whole response code; the OPT holds its upper eight bits.
    pub rcode: Rcode,
    /// The DO bit, copied from the request (RFC 3225 section 3).
    pub dnssec_ok: bool,
    /// The options, as they stand in the record.
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
    /// Counts of the header.
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
    /// Counts of the header.
    counts: [u16; 4],
    /// The question's name is in the message and not yet in the table.
    question_pending: bool,
    /// Where suffixes are: epoch (16 bits), hash (32), place (16).
    table: Box<[u64]>,
    /// Tells this message's entries of the table from those of earlier ones.
    epoch: u16,
    /// Entries of the table that the record being written made.
    undo: Vec<usize>,
    /// Starts of the labels of the name being written.
    starts: [u8; MAX_LABELS],
    /// Hashes of its suffixes.
    hashes: [u32; MAX_LABELS],
}

impl MessageWriter {
    /// A writer whose table has room for `2^bits` suffixes: 9 do for an answer, 13 for a message of a
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
            table: vec![0; 1 << bits].into_boxed_slice(),
            epoch: 0,
            undo: Vec::new(),
            starts: [0; MAX_LABELS],
            hashes: [0; MAX_LABELS],
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
        if self.epoch == u16::MAX {
            self.table.fill(0);
            self.epoch = 0;
        }
        self.epoch += 1;
    }

    /// Other header flags, response code included.
    pub fn set_flags(&mut self, flags: u16) {
        self.octets[self.base + 2..self.base + 4].copy_from_slice(&flags.to_be_bytes());
    }

    /// Another limit for what follows.
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
        self.octets.truncate(mark.len);
        self.counts = mark.counts;
        let end = mark.len - self.base;
        for entry in &mut self.table {
            // Only a cut over several records comes here: one pass over a small table is cheap enough.
            if place_of(*entry) >= end {
                *entry = 0;
            }
        }
    }

    /// Writes a record; false, and nothing written, when it does not fit.
    pub fn record(&mut self, section: Section, rr: RrRef<'_>) -> bool {
        if !rr.rtype.compresses_rdata() && self.len() + 12 + rr.data.len() > self.limit {
            return false;
        }
        self.index_question();
        let start = self.octets.len();
        self.undo.clear();
        self.name(rr.owner);
        self.rest(section, start, rr)
    }

    /// As [`Self::record`] for the name of the question, whatever `rr.owner` says.
    pub fn record_of_question(&mut self, section: Section, rr: RrRef<'_>) -> bool {
        let start = self.octets.len();
        self.undo.clear();
        self.octets.extend_from_slice(&[0xc0, 12]);
        self.rest(section, start, rr)
    }

    /// Writes what follows a record's owner, counts it, or takes it back.
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
                for slot in self.undo.drain(..) {
                    self.table[slot] = 0;
                }
                false
            }
        }
    }

    /// Writes a record's data.
    fn data(&mut self, rtype: Rtype, data: &[u8]) {
        let names = match rtype {
            _ if !rtype.compresses_rdata() => return self.octets.extend_from_slice(data),
            Rtype::SOA => 2,
            _ => 1,
        };
        let mut at = if rtype == Rtype::MX { 2 } else { 0 };
        self.index_question();
        self.octets.extend_from_slice(&data[..at.min(data.len())]);
        for _ in 0..names {
            let Some(length) = data.get(at..).and_then(wire_name_len) else {
                break;
            };
            self.name(&data[at..at + length]);
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

    /// Puts the question's name into the table, once it may be pointed to.
    fn index_question(&mut self) {
        if !std::mem::take(&mut self.question_pending) {
            return;
        }
        let at = self.base + HEADER_OCTETS;
        let Some(length) = wire_name_len(&self.octets[at..]) else {
            return;
        };
        let mut name = [0; 255];
        name[..length].copy_from_slice(&self.octets[at..at + length]);
        let labels = self.measure(&name[..length]);
        for label in 0..labels {
            self.remember(label, HEADER_OCTETS + usize::from(self.starts[label]));
        }
    }

    /// Writes a name, the longest known suffix as a pointer, and remembers what it wrote.
    fn name(&mut self, wire: &[u8]) {
        let labels = self.measure(wire);
        let known = (0..labels).find_map(|label| {
            let suffix = &wire[usize::from(self.starts[label])..];
            self.lookup(label, suffix).map(|place| (label, place))
        });
        let here = self.len();
        let new_labels = match known {
            None => {
                self.octets.extend_from_slice(wire);
                labels
            }
            Some((label, place)) => {
                self.octets
                    .extend_from_slice(&wire[..usize::from(self.starts[label])]);
                let pointer = u16::try_from(place | 0xc000).expect("places have 14 bits");
                self.octets.extend_from_slice(&pointer.to_be_bytes());
                label
            }
        };
        for label in 0..new_labels {
            self.remember(label, here + usize::from(self.starts[label]));
        }
    }

    /// Finds label starts and suffix hashes of a name; gives the number of labels.
    fn measure(&mut self, wire: &[u8]) -> usize {
        let mut labels = 0;
        let mut at = 0;
        while let Some(length) = wire.get(at).filter(|length| **length > 0) {
            self.starts[labels] = u8::try_from(at).expect("names have at most 255 octets");
            labels += 1;
            at += usize::from(*length) + 1;
        }
        let mut hash = 0;
        let mut end = at.min(wire.len());
        for label in (0..labels).rev() {
            let start = usize::from(self.starts[label]);
            hash = mix(hash, &wire[start..end]);
            let [.., a, b, c, d] = hash.to_le_bytes();
            self.hashes[label] = u32::from_le_bytes([a, b, c, d]);
            end = start;
        }
        labels
    }

    /// Where a suffix stands in the message, if it does.
    fn lookup(&self, label: usize, suffix: &[u8]) -> Option<usize> {
        let hash = self.hashes[label];
        let mut slot = self.slot(hash);
        for _ in 0..PROBES {
            let entry = self.table[slot];
            if entry >> 48 != u64::from(self.epoch) {
                return None;
            }
            let place = place_of(entry);
            if (entry >> 16) & 0xffff_ffff == u64::from(hash) && self.spells(place, suffix) {
                return Some(place);
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
        None
    }

    /// Notes that a suffix stands at a place, when a pointer can say so.
    fn remember(&mut self, label: usize, place: usize) {
        if place >= POINTER_END {
            return;
        }
        let hash = self.hashes[label];
        let mut slot = self.slot(hash);
        for _ in 0..PROBES {
            if self.table[slot] >> 48 != u64::from(self.epoch) {
                let epoch = u64::from(self.epoch) << 48;
                self.table[slot] = epoch | u64::from(hash) << 16 | place as u64;
                self.undo.push(slot);
                return;
            }
            slot = (slot + 1) & (self.table.len() - 1);
        }
    }

    /// The first place of the table for a hash.
    fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.table.len() - 1)
    }

    /// Whether the octets at a place of the message are this uncompressed name, letter by letter.
    fn spells(&self, place: usize, name: &[u8]) -> bool {
        let message = &self.octets[self.base..];
        let mut at = place;
        let mut rest = name;
        loop {
            let Some(length) = message.get(at) else {
                return false;
            };
            if *length >= 0xc0 {
                let low = message.get(at + 1).copied().unwrap_or_default();
                let target = usize::from(length & 0x3f) << 8 | usize::from(low);
                if target >= at {
                    return false;
                }
                at = target;
                continue;
            }
            let octets = usize::from(*length) + 1;
            match (message.get(at..at + octets), rest.get(..octets)) {
                (Some(ours), Some(theirs)) if ours == theirs => {}
                _ => return false,
            }
            if *length == 0 {
                return true;
            }
            at += octets;
            rest = &rest[octets..];
        }
    }
}

/// The place an entry of the table names.
fn place_of(entry: u64) -> usize {
    (entry & 0xffff) as usize
}

/// Hashes one label onto the hash of what follows it. Labels often differ in their last letters alone
/// (addresses, numbers): both halves of each product count, so that such letters reach every bit.
fn mix(seed: u64, label: &[u8]) -> u64 {
    let mut hash = seed ^ (label.len() as u64);
    let mut chunks = label.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks have 8 octets"));
        hash = folded_product(hash ^ word);
    }
    let mut word = [0; 8];
    let tail = chunks.remainder();
    word[..tail.len()].copy_from_slice(tail);
    folded_product(hash ^ u64::from_le_bytes(word))
}

/// The two halves of a product with an odd constant (2^64 over the golden ratio), one laid over the other.
fn folded_product(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    let [a, b, c, d, e, f, g, h, ..] = (product ^ (product >> 64)).to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

/// Appends a length as 16 bits.
fn push_u16(octets: &mut Vec<u8>, number: usize) {
    let number = u16::try_from(number).expect("lengths in messages have 16 bits");
    octets.extend_from_slice(&number.to_be_bytes());
}

/// Writes the length of the message in front of it, where there is room for it.
pub(crate) fn set_length(octets: &mut [u8], base: usize) {
    if base == 2 {
        let length = u16::try_from(octets.len() - 2).expect("messages have at most 65535 octets");
        octets[..2].copy_from_slice(&length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
