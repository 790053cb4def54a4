//! Packs the records of a transfer into messages, and signs each.
//!
//! Messages are filled up to 16 KiB, the reach of compression pointers (RFC 1035 section 4.1.4). A record that needs
//! more gets a message as large as it needs. Each message has an OPT if the request had one (RFC 9103 section 6.3.4).
//! Options are in the first message, padding in all.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use dns::edns;
use dns::tsig::Session;
use dns::{
    MAX_MESSAGE_OCTETS, MessageWriter, OPT_OCTETS, OptReply, OwnerRef, Query, Rcode, RrBlock,
    RrRef, Section, flags,
};
use ops::Clock;

/// The number of suffixes in the compression table of a message, as a power of two.
const TABLE_BITS: u32 = 13;

/// The common part of all messages of a reply.
#[derive(Debug)]
pub struct Head {
    /// The request's ID.
    pub id: u16,
    /// Header flags, without response code.
    pub flags: u16,
    /// The question, as it came.
    pub question: Box<[u8]>,
    /// The DO bit, when the request had OPT.
    pub opt: Option<bool>,
    /// The EDNS size we announce.
    pub udp_size: u16,
    /// The session that signs each message.
    pub tsig: Option<Session>,
    /// EDNS options of the first message.
    pub options: Box<[u8]>,
    /// Whether messages are padded.
    pub is_padded: bool,
}

impl Head {
    /// The head of the reply to a query: authoritative, RD copied (RFC 5936 section 2.2.1).
    pub fn new(query: &Query<'_>, udp_size: u16, tsig: Option<Session>) -> Self {
        Self {
            id: query.id,
            flags: flags::QR | flags::AA | query.flags & flags::RD,
            question: query.question.into(),
            opt: query.opt.map(|opt| opt.dnssec_ok),
            udp_size,
            tsig,
            options: Box::default(),
            is_padded: false,
        }
    }

    /// The octets that TSIG takes in each message.
    fn tsig_octets(&self) -> usize {
        let tsig = self.tsig.as_ref();
        tsig.map_or(0, |tsig| tsig.key().tsig_octets())
    }

    /// The octets that OPT and TSIG take in the first message, or another.
    fn reserve(&self, is_first: bool) -> usize {
        let options = if is_first { self.options.len() } else { 0 };
        let padding = if self.is_padded {
            edns::OPTION_HEAD_OCTETS
        } else {
            0
        };
        self.tsig_octets() + self.opt.map_or(0, |_| OPT_OCTETS + options + padding)
    }
}

/// The fate of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Push {
    /// It is in the message.
    Taken,
    /// The message is full: send it and try again.
    Full,
    TooLarge,
}

/// Fills one message after the other.
pub(crate) struct Packer {
    writer: MessageWriter,
    head: Head,
    clock: Arc<dyn Clock>,
    /// The octets that a message should not exceed.
    soft_limit: usize,
    /// Whether a message has begun.
    is_open: bool,
    /// Ended messages.
    pub messages: u64,
    /// Packed records.
    pub records: u64,
    /// The octets of ended messages, without their lengths.
    pub octets: u64,
}

impl Packer {
    /// A packer of messages for TCP, each with its length in front.
    pub(crate) fn new(head: Head, soft_limit: usize, clock: Arc<dyn Clock>) -> Self {
        let soft_limit = if head.is_padded {
            // A multiple of the padding's block, so that padding does not exceed the reach of pointers.
            soft_limit / edns::PADDING_BLOCK * edns::PADDING_BLOCK
        } else {
            soft_limit
        };
        Self {
            writer: MessageWriter::new(TABLE_BITS),
            head,
            clock,
            soft_limit,
            is_open: false,
            messages: 0,
            records: 0,
            octets: 0,
        }
    }

    /// Adds a record to the message.
    pub(crate) fn push(&mut self, rr: RrRef<'_>) -> Push {
        let reserve = self.prepare();
        let mut taken = self.writer.record(Section::Answer, rr);
        let held = self.writer.count(Section::Answer);
        if !taken && held < self.least() {
            self.writer
                .set_limit(MAX_MESSAGE_OCTETS.saturating_sub(reserve));
            taken = self.writer.record(Section::Answer, rr);
        }
        if taken {
            self.records += 1;
            Push::Taken
        } else if held == 0 {
            Push::TooLarge
        } else {
            Push::Full
        }
    }

    /// Adds records of one owner and type. Those that fit are removed from the front of `block`.
    pub(crate) fn push_block(&mut self, owner: OwnerRef<'_>, block: &mut RrBlock<'_>) -> Push {
        loop {
            self.prepare();
            self.records += self.writer.block(Section::Answer, owner, block);
            let Some((data, end)) = block.first() else {
                return Push::Taken;
            };
            if self.writer.count(Section::Answer) >= self.least() {
                return Push::Full;
            }
            // One more record, of any length.
            let mut wire = Vec::with_capacity(255);
            owner.write(&mut wire);
            let pushed = self.push(RrRef {
                owner: &wire,
                rtype: block.rtype,
                ttl: block.ttl,
                data,
                tag: 0,
            });
            match pushed {
                Push::Taken => block.octets = &block.octets[end..],
                Push::Full | Push::TooLarge => return pushed,
            }
        }
    }

    /// The least number of records in the message. Some secondaries read a first message with the SOA alone as "up to
    /// date", or not at all, so it gets a second record of any length.
    const fn least(&self) -> u16 {
        if self.messages == 0 { 2 } else { 1 }
    }

    /// Begins a message, if none has begun, and sets its limit. Returns the octets that are reserved for OPT and TSIG.
    fn prepare(&mut self) -> usize {
        let is_first = self.messages == 0;
        if !self.is_open {
            let Head { id, flags, .. } = self.head;
            self.writer.begin(true, MAX_MESSAGE_OCTETS, id, flags);
            // Only the first message has the question (RFC 5936 section 2.2.2).
            if is_first {
                self.writer.question(&self.head.question);
            }
            self.is_open = true;
        }
        let reserve = self.head.reserve(is_first);
        self.writer
            .set_limit(self.soft_limit.saturating_sub(reserve));
        reserve
    }

    /// Ends the message, signs it and returns it.
    pub(crate) fn message(&mut self) -> Vec<u8> {
        self.close(Rcode::NOERROR)
    }

    /// A message with a response code and the question, which ends the reply (RFC 5936 section 2.2).
    pub(crate) fn error(&mut self, rcode: Rcode) -> Vec<u8> {
        self.writer.begin(
            true,
            MAX_MESSAGE_OCTETS,
            self.head.id,
            self.head.flags & !flags::AA | rcode.0 & 15,
        );
        self.writer.question(&self.head.question);
        self.close(rcode)
    }

    fn close(&mut self, rcode: Rcode) -> Vec<u8> {
        self.writer.set_limit(MAX_MESSAGE_OCTETS);
        if let Some(dnssec_ok) = self.head.opt {
            let mut options = Vec::new();
            if self.messages == 0 {
                options.extend_from_slice(&self.head.options);
            }
            if self.head.is_padded {
                let rest = OPT_OCTETS + options.len() + self.head.tsig_octets();
                let octets = self.writer.len() + rest;
                edns::push_padding(&mut options, octets, MAX_MESSAGE_OCTETS);
            }
            let fits = self.writer.opt(&OptReply {
                size: self.head.udp_size,
                rcode,
                dnssec_ok,
                options: &options,
            });
            debug_assert!(fits, "room for OPT was kept");
        }
        if let Some(tsig) = &mut self.head.tsig {
            let now = unix_seconds(&*self.clock);
            let (octets, base) = self.writer.finish_mut();
            tsig.sign(octets, base, now);
        }
        let octets = if self.head.tsig.is_some() {
            self.writer.take_signed()
        } else {
            self.writer.take()
        };
        self.is_open = false;
        self.messages += 1;
        self.octets += octets.len() as u64 - 2;
        octets
    }
}

/// The wall clock in seconds since 1970.
pub fn unix_seconds(clock: &dyn Clock) -> u64 {
    clock
        .wall()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests;
