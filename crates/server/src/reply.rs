//! Writes the reply to one request: its header, its records, OPT and TSIG.

use dns::edns;
use dns::{
    MAX_MESSAGE_OCTETS, MessageWriter, OPT_OCTETS, OptReply, Rcode, Record, RrRef, Rtype, Section,
    Ttl, flags,
};
use transfer::unix_seconds;
use zone::Version;
use zone::lookup::{Link, LinkSet, Referral, Secured, SetAt};

use crate::exchange::{Exchange, Outcome, Scratch, Signer};
use crate::options::{Extended, Said};
use crate::shuffle::{is_shuffled, shuffle};
use crate::{Reply, Shape};

impl Exchange<'_> {
    pub(crate) fn fail(self, scratch: &mut Scratch, rcode: Rcode) -> Outcome {
        self.fail_with(scratch, rcode, None)
    }

    /// A reply without records, with an extended error.
    pub(super) fn fail_with(
        self,
        scratch: &mut Scratch,
        rcode: Rcode,
        ede: Option<Extended>,
    ) -> Outcome {
        let said = Said {
            ede,
            ..Said::default()
        };
        let flags = self.begin(scratch, said);
        self.finish(scratch, flags, rcode)
    }

    /// Begins a reply with these options. Returns its flags.
    pub(crate) fn begin(&self, scratch: &mut Scratch, said: Said<'_>) -> u16 {
        self.collect_options(&mut scratch.options, said);
        self.begin_with(&mut scratch.writer, &scratch.options, Shape::default())
    }

    /// Begins a reply: header, question, and a limit that leaves room for OPT and TSIG. Returns its flags.
    pub(super) fn begin_with(
        &self,
        writer: &mut MessageWriter,
        options: &[u8],
        shape: Shape,
    ) -> u16 {
        let query = &self.query;
        let most = match shape.datagram_octets {
            Some(shape) if !self.asker.proto.is_stream() => self.most_octets().min(shape.into()),
            Some(_) | None => self.most_octets(),
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

    /// Writes a chain's reply.
    pub(crate) fn write(self, scratch: &mut Scratch, mut reply: Reply, shape: Shape) -> Outcome {
        if shape.shuffles && reply.rcode == Rcode::NOERROR {
            for section in [
                &mut reply.answers,
                &mut reply.authority,
                &mut reply.additional,
            ] {
                shuffle(section, &mut scratch.dice);
            }
        }
        let is_negative_or_referral = reply.answers.is_empty()
            && reply
                .authority
                .iter()
                .any(|rr| matches!(rr.rtype, Rtype::SOA | Rtype::NS));
        if shape.is_minimal && reply.rcode == Rcode::NOERROR && !is_negative_or_referral {
            // What proves that a wildcard applied belongs to the answer (RFC 4035 section 3.1.3.3).
            let proves =
                |rr: &Record| matches!(rr.rtype, Rtype::NSEC | Rtype::NSEC3 | Rtype::RRSIG);
            reply.authority.retain(proves);
            reply.additional.clear();
        }
        let said = Said {
            more: &reply.extended,
            ..Said::default()
        };
        self.collect_options(&mut scratch.options, said);
        let kept = flags::AA | flags::TC | flags::RA | flags::AD | flags::CD;
        let begun = self.begin_with(&mut scratch.writer, &scratch.options, shape);
        let mut base = begun | reply.flags & kept;
        if let Some(is_desired) = reply.recursion_desired {
            base = (base & !flags::RD) | (u16::from(is_desired) * flags::RD);
        }
        let writer = &mut scratch.writer;
        writer.set_class(self.query.qclass());
        let after_question = writer.mark();
        let asked = self.query.name();
        let mut put = |section, record: &Record| {
            if record.owner.as_wire().eq_ignore_ascii_case(asked) {
                // The question's own letters (RFC 1034 section 4.3.1).
                writer.record_of_question(section, record.view())
            } else {
                writer.record(section, record.view())
            }
        };
        let fits = reply.answers.iter().all(|rr| put(Section::Answer, rr))
            && reply.authority.iter().all(|rr| put(Section::Authority, rr));
        if !fits {
            return self.truncated(scratch, after_question, base);
        }
        // The client can ask for additional records that do not fit.
        let _all = reply
            .additional
            .iter()
            .all(|rr| put(Section::Additional, rr));
        self.finish(scratch, base, reply.rcode)
    }

    /// The largest reply for this client.
    pub(super) fn most_octets(&self) -> usize {
        if self.asker.proto.is_stream() {
            MAX_MESSAGE_OCTETS
        } else {
            self.datagram_octets().into()
        }
    }

    /// The octets of the reply's TSIG.
    pub(super) fn tsig_octets(&self) -> usize {
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

    /// Whether the reply is padded: if it is encrypted and the client asked for padding (RFC 7830 section 6).
    pub(super) fn pads(&self) -> bool {
        self.wishes.padding && self.asker.proto.is_encrypted()
    }

    /// Ends a reply: OPT, flags, TSIG.
    pub(crate) fn finish(self, scratch: &mut Scratch, flags: u16, rcode: Rcode) -> Outcome {
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
        scratch.noted.rcode = rcode;
        let replies = self.shared.stats.replies(self.asker.proto, rcode);
        replies.increase();
        Outcome::Reply
    }
}

/// Writes one RRset of an answer; false when it does not fit. `question` is the question's name, `turn` is a random
/// number that rotates addresses and mail exchangers.
pub(super) fn write_link(
    writer: &mut MessageWriter,
    version: &Version,
    link: &Link<'_>,
    question: &[u8],
    turn: Option<u32>,
) -> bool {
    let soa = version.contents.soa();
    let LinkSet::Rrset(rrset) = link.set else {
        return match link.name {
            None => writer.record_of_question(Section::Answer, version.soa_record()),
            Some(_) => write_soa(writer, Section::Answer, version, soa.ttl),
        };
    };
    let is_of_question = link.name.is_none() && link.skip == 0;
    let mut put = |rr| match is_of_question {
        true => writer.record_of_question(Section::Answer, rr),
        false => writer.record(Section::Answer, rr),
    };
    let records = || rrset.records(link.owner(question), 0);
    match turn {
        Some(turn) if rrset.count > 1 && is_shuffled(rrset.rtype) => {
            let first = usize::try_from(turn).unwrap_or(0) % rrset.count;
            records().skip(first).chain(records().take(first)).all(put)
        }
        _ => records().all(&mut put),
    }
}

/// Writes what DNSSEC adds to a section. `question` is the question's name.
pub(super) fn write_secured(
    writer: &mut MessageWriter,
    secured: &Secured<'_>,
    section: Section,
    question: &[u8],
) -> bool {
    let sets = match section {
        Section::Answer => secured.answers.as_slice(),
        Section::Authority => secured.authority.as_slice(),
        Section::Additional => &[],
    };
    let mut records = sets.iter().flat_map(SetAt::records);
    records.all(|rr| match section {
        Section::Answer if rr.owner == question => writer.record_of_question(section, rr),
        Section::Answer | Section::Authority | Section::Additional => writer.record(section, rr),
    })
}

/// Writes the NS records of a referral. `question` is the question's name.
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
    let soa = version.soa_record();
    writer.record(section, RrRef { ttl, ..soa })
}
