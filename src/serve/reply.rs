//! Writing the reply to one request: its header, its records, OPT and TSIG.

use crate::dns::edns;
use crate::dns::tsig::{Refusal, Session};
use crate::dns::{
    MAX_MESSAGE_OCTETS, MessageWriter, OPT_OCTETS, OptReply, Rcode, RrRef, Rtype, Section, Ttl,
    flags,
};
use crate::serve::Proto;
use crate::serve::dispatch::{Exchange, Outcome, Scratch};
use crate::serve::lookup::{Link, LinkSet, Referral};
use crate::transfer::unix_seconds;
use crate::zone::Version;

/// An extended error we give (RFC 8914 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extended {
    /// 3: the source is away or a change is held back, the data may be old.
    Stale = 3,
    /// 14: the zone has no version yet.
    NotReady = 14,
    /// 18: the peer may not.
    Prohibited = 18,
    /// 20: the zone is not ours.
    NotAuthoritative = 20,
    /// 21: what is asked for is not something we do, or not this way.
    NotSupported = 21,
}

/// What the options of a reply may tell.
#[derive(Clone, Copy, Default)]
pub(super) struct Said<'a> {
    /// An extended error.
    pub(super) ede: Option<Extended>,
    /// The version that the answer is from.
    pub(super) version: Option<&'a Version>,
}

impl<'a> Said<'a> {
    /// An answer from a version.
    pub(super) const fn of(version: &'a Version) -> Self {
        Self {
            ede: None,
            version: Some(version),
        }
    }
}

/// What signs a reply.
pub(super) enum Signer {
    /// Nothing.
    None,
    /// The key of the request.
    Session(Session),
    /// The refusal of the request's signature.
    Refusal(Box<Refusal>),
}

impl Exchange<'_> {
    /// A reply without records.
    pub(super) fn fail(self, scratch: &mut Scratch, rcode: Rcode) -> Outcome {
        self.fail_with(scratch, rcode, None)
    }

    /// A reply without records that says more of why.
    pub(super) fn fail_with(
        self,
        scratch: &mut Scratch,
        rcode: Rcode,
        ede: Option<Extended>,
    ) -> Outcome {
        let flags = self.begin(scratch, Said { ede, version: None });
        self.finish(scratch, flags, rcode)
    }

    /// Begins a reply that says this in its options. Gives the flags.
    pub(super) fn begin(&self, scratch: &mut Scratch, said: Said<'_>) -> u16 {
        self.collect_options(&mut scratch.options, said);
        self.begin_with(&mut scratch.writer, &scratch.options)
    }

    /// Begins a reply: header, question, a limit that leaves room for OPT and TSIG. Gives the flags.
    pub(super) fn begin_with(&self, writer: &mut MessageWriter, options: &[u8]) -> u16 {
        let query = &self.query;
        let most = if self.asker.proto.is_stream() {
            MAX_MESSAGE_OCTETS
        } else {
            usize::from(self.datagram_octets())
        };
        let opt = query.opt.map_or(0, |_| OPT_OCTETS + options.len());
        let flags = flags::QR | query.flags & (flags::OPCODE | flags::RD);
        writer.begin(
            self.asker.proto.is_stream(),
            most.saturating_sub(self.tsig_octets() + opt),
            query.id,
            flags,
        );
        if !query.question.is_empty() {
            writer.question(query.question);
        }
        flags
    }

    /// Octets that the reply's TSIG takes.
    fn tsig_octets(&self) -> usize {
        match &self.signer {
            Signer::None => 0,
            Signer::Session(session) => session.key().tsig_octets(),
            Signer::Refusal(refusal) => refusal.tsig_octets(),
        }
    }

    /// The largest datagram for this client (RFC 6891 section 6.2.3: less than 512 counts as 512).
    fn datagram_octets(&self) -> u16 {
        let ours = self.shared.settings.udp_octets.max(512);
        self.query.opt.map_or(512, |opt| opt.size.clamp(512, ours))
    }

    /// Whether the reply is padded: over TLS only, and when asked for (RFC 7830 section 6).
    pub(super) fn pads(&self) -> bool {
        self.wishes.padding && self.asker.proto == Proto::Tls
    }

    /// Ends a reply: OPT, flags, TSIG.
    pub(super) fn finish(self, scratch: &mut Scratch, flags: u16, rcode: Rcode) -> Outcome {
        let Scratch {
            writer, options, ..
        } = scratch;
        writer.set_limit(MAX_MESSAGE_OCTETS);
        if let Some(opt) = self.query.opt {
            if self.pads() {
                let octets = writer.len() + OPT_OCTETS + options.len() + self.tsig_octets();
                edns::push_padding(options, octets, MAX_MESSAGE_OCTETS);
            }
            let reply = OptReply {
                size: self.shared.settings.udp_octets,
                rcode,
                dnssec_ok: opt.dnssec_ok,
                options,
            };
            let fits = writer.opt(&reply);
            debug_assert!(fits, "room for OPT was kept");
        }
        writer.set_flags(flags | rcode.0 & 15);
        let (octets, base) = writer.finish_mut();
        let now = || unix_seconds(&*self.shared.clock);
        match self.signer {
            Signer::None => {}
            Signer::Session(mut session) => session.sign(octets, base, now()),
            Signer::Refusal(refusal) => refusal.sign(octets, base, now()),
        }
        let replies = self.shared.stats.replies(self.asker.proto, rcode);
        replies.increase();
        Outcome::Reply
    }
}

/// Writes one RRset of an answer; false when it does not fit.
pub(super) fn write_link(writer: &mut MessageWriter, version: &Version, link: &Link<'_>) -> bool {
    let soa = version.contents.soa();
    match (link.set, link.owner) {
        (LinkSet::Soa, _) => write_soa(writer, Section::Answer, version, soa.ttl),
        (LinkSet::Rrset(rrset), None) => rrset
            .records(&[0], 0)
            .all(|rr| writer.record_of_question(Section::Answer, rr)),
        (LinkSet::Rrset(rrset), Some(owner)) => rrset
            .records(owner, 0)
            .all(|rr| writer.record(Section::Answer, rr)),
    }
}

/// Writes the NS records of a referral; `question` is the name that was asked.
pub(super) fn write_referral(
    writer: &mut MessageWriter,
    referral: &Referral<'_>,
    question: &[u8],
) -> bool {
    let below = referral.below.unwrap_or(question);
    let cut = below.get(referral.skip..).unwrap_or_default();
    let mut servers = referral.servers.records(cut, 0);
    !cut.is_empty() && servers.all(|rr| writer.record(Section::Authority, rr))
}

/// Writes the SOA of a negative answer (RFC 2308 section 3).
pub(super) fn write_negative(writer: &mut MessageWriter, version: &Version) -> bool {
    let ttl = version.contents.soa().negative_ttl();
    write_soa(writer, Section::Authority, version, ttl)
}

/// Writes the SOA.
pub(super) fn write_soa(
    writer: &mut MessageWriter,
    section: Section,
    version: &Version,
    ttl: Ttl,
) -> bool {
    let rr = RrRef {
        owner: version.contents.apex().as_wire(),
        rtype: Rtype::SOA,
        ttl,
        data: version.soa_rdata.as_octets(),
        tag: 0,
    };
    writer.record(section, rr)
}
