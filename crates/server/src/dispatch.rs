//! Turns the octets of a request into a reply, or into a transfer that may begin.
//!
//! The order of the checks: readable, TSIG, operation, EDNS version, class, type, zone. Only a transfer is left to
//! other code. Every other reply is in the writer when [`Shared::respond`] returns.

use std::net::SocketAddr;

use dns::edns::Wishes;
use dns::tsig::{self, Refusal, TsigError, Verdict};
use dns::{
    MAX_MESSAGE_OCTETS, Mark, MessageWriter, Query, Rcode, RrRef, Rtype, Section, Unreadable, flags,
};
use tracing::{debug, warn};
use transfer::{SecondaryRequest, unix_seconds};
use zone::lookup::{
    Link, LinkSet, Redirects, each_additional, each_additional_signature, lookup, secure,
};

use crate::chain::Block;
use crate::exchange::{Asker, Exchange, Outcome, Scratch, Signer};
use crate::message::CLASS_IN;
use crate::options::{Extended, Said};
use crate::reply::{write_link, write_negative, write_referral, write_secured};
use crate::resolve::{Resolution, ZoneAnswer, not_ready, resolve};
use crate::shared::Shared;
use crate::tally::Noted;
use crate::zones::WORD;
use crate::{Proto, Shape};

const CLASS_ANY: u16 = 255;

impl Shared {
    /// Answers a request. The outcome may also be a transfer to run or an answer to wait for.
    pub(crate) fn respond(&self, scratch: &mut Scratch, raw: &[u8], asker: Asker<'_>) -> Outcome {
        scratch.error = None;
        scratch.metadata.clear();
        scratch.noted = Noted::default();
        match self.begin(scratch, raw, asker) {
            // An answer from memory is ready at the first poll.
            Outcome::Later(later) => match later.poll() {
                Ok((later, answered)) => self.complete(scratch, *later, answered),
                Err(later) => Outcome::Later(later),
            },
            outcome @ (Outcome::Silent
            | Outcome::Dropped
            | Outcome::Reply
            | Outcome::Transfer(_)) => outcome,
        }
    }

    /// Handles the octets of a request.
    fn begin(&self, scratch: &mut Scratch, raw: &[u8], asker: Asker<'_>) -> Outcome {
        let query = match Query::parse(raw) {
            Ok(query) => query,
            Err(Unreadable::Silent) => {
                self.stats.ignored.increase();
                return Outcome::Silent;
            }
            Err(Unreadable::Malformed {
                id,
                flags,
                question,
            }) => {
                let said = (id, flags, question);
                return self.fail_unread(scratch, said, Rcode::FORMERR, asker.proto);
            }
        };
        let mut exchange = Exchange {
            shared: self,
            query,
            asker,
            wishes: Wishes::default(),
            signer: Signer::None,
        };
        if let Some(at) = query.tsig_at {
            let now = unix_seconds(&*self.clock);
            match tsig::verify(&self.keys.current(), raw, at, now) {
                Verdict::Valid(session) => exchange.signer = Signer::Session(session),
                Verdict::Malformed => return exchange.fail(scratch, Rcode::FORMERR),
                Verdict::Refused(refusal) => {
                    self.stats.tsig_refused.increase();
                    let (peer, key, error) = (asker.address, &refusal.key_name, refusal.error);
                    self.note_refusal(&refusal, peer);
                    if self.is_told(&refusal, peer) {
                        let ahead = refusal.seconds_ahead(now);
                        warn!(%peer, %key, %error, its_clock_is_ahead_by_s = ahead, "tsig refused");
                    } else {
                        debug!(%peer, %key, %error, "tsig refused");
                    }
                    exchange.signer = Signer::Refusal(Box::new(refusal));
                    return exchange.fail(scratch, Rcode::NOTAUTH);
                }
            }
        }
        exchange.run(scratch)
    }

    /// Notes a refused signature of a secondary.
    fn note_refusal(&self, refusal: &Refusal, peer: SocketAddr) {
        if self.secondaries.knows(peer) {
            let reason = format!("{}, key {}", refusal.error, refusal.key_name);
            let wall = self.clock.wall();
            self.secondaries.denied_all(peer, reason, wall);
        }
    }

    /// Whether to warn about a refused signature: for a secondary always, for a wrong time once a minute for each key.
    /// A wrong time needs the key, unless somebody replays an old request.
    fn is_told(&self, refusal: &Refusal, peer: SocketAddr) -> bool {
        if refusal.error == TsigError::BadTime {
            self.off_clocks.is_due(&refusal.key_name, self.clock.now())
        } else {
            self.secondaries.knows(peer)
        }
    }

    /// Writes an error for a request that cannot be read, of which ID, flags and perhaps the question are known.
    pub(crate) fn fail_unread(
        &self,
        scratch: &mut Scratch,
        (id, came, question): (u16, u16, &[u8]),
        rcode: Rcode,
        proto: Proto,
    ) -> Outcome {
        let flags = flags::QR | came & (flags::OPCODE | flags::RD) | rcode.0;
        let writer = &mut scratch.writer;
        writer.begin(proto.is_stream(), MAX_MESSAGE_OCTETS, id, flags);
        if !question.is_empty() {
            writer.question(question);
        }
        writer.finish();
        self.stats.replies(proto, rcode).increase();
        Outcome::Reply
    }
}

impl Exchange<'_> {
    /// Handles the request after its signature was checked.
    fn run(mut self, scratch: &mut Scratch) -> Outcome {
        let query = self.query;
        if query.opcode() != 0 {
            return self.fail_with(scratch, Rcode::NOTIMP, Some(Extended::NOT_SUPPORTED));
        }
        // RFC 5936 section 2.1 for AXFR. Other requests have no answer records either.
        if query.counts[0] > 0 {
            return self.fail(scratch, Rcode::FORMERR);
        }
        if query.opt.is_some_and(|opt| opt.version > 0) {
            return self.fail(scratch, Rcode::BADVERS);
        }
        match query.opt.map(|opt| opt.wishes()) {
            None => {}
            Some(Some(wishes)) => self.wishes = wishes,
            Some(None) => return self.fail(scratch, Rcode::FORMERR),
        }
        if query.question.is_empty() {
            // RFC 7873 section 5.4: a query without a question asks for a cookie.
            let rcode = match self.wishes.cookie {
                Some(_) => Rcode::NOERROR,
                None => Rcode::FORMERR,
            };
            return self.fail(scratch, rcode);
        }
        scratch.lower.clear();
        scratch.lower.extend_from_slice(query.name());
        scratch.lower.make_ascii_lowercase();
        scratch.noted.qtype = Some(query.qtype());
        scratch.noted.dnssec_ok = query.opt.is_some_and(|opt| opt.dnssec_ok);
        match query.qclass() {
            CLASS_IN => {}
            CLASS_ANY => return self.fail(scratch, Rcode::FORMERR),
            _ => return self.other_class(scratch),
        }
        let asker = self.asker;
        match query.qtype() {
            Rtype::AXFR | Rtype::IXFR if !asker.proto.has_transfers() => {
                self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_SUPPORTED))
            }
            Rtype::AXFR if asker.proto == Proto::Udp => {
                self.fail_with(scratch, Rcode::NOTIMP, Some(Extended::NOT_SUPPORTED))
            }
            Rtype::AXFR | Rtype::IXFR => self.transfer(scratch),
            Rtype::ANY => self.answer(scratch),
            qtype if qtype.is_meta() => {
                self.fail_with(scratch, Rcode::NOTIMP, Some(Extended::NOT_SUPPORTED))
            }
            _ => self.answer(scratch),
        }
    }

    /// Answers a question of a class other than IN. Only handlers can.
    fn other_class(self, scratch: &mut Scratch) -> Outcome {
        let router = &self.shared.router;
        let place = self.block(scratch);
        let place = place.filter(|place| router.blocks()[*place].takes_all_classes());
        match place {
            Some(place) if self.lacks_proof(&router.blocks()[place]) => self.demand_proof(scratch),
            Some(place) if !self.query.qtype().is_meta() => self.later(scratch, place),
            _ => self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_SUPPORTED)),
        }
    }

    /// The block of the question. It notes the matching key.
    fn block(&self, scratch: &mut Scratch) -> Option<usize> {
        let router = &self.shared.router;
        let found = router.find_key(&scratch.lower, self.query.qtype());
        scratch.noted.found = found;
        found.map(|found| found.block)
    }

    /// Answers from a zone directly, if no handler of the block has to change the query. Else it runs the handlers.
    fn answer(self, scratch: &mut Scratch) -> Outcome {
        let shared = self.shared;
        let qtype = self.query.qtype();
        let Some(place) = self.block(scratch) else {
            return self.answer_secondary(scratch);
        };
        let block = &shared.router.blocks()[place];
        if self.lacks_proof(block) {
            return self.demand_proof(scratch);
        }
        let question = self.question(&scratch.lower);
        if qtype == Rtype::SOA
            && !block.forbids(&question)
            && let Some(zone) = block.zones().find(&scratch.lower, qtype)
            && zone.apex().as_wire() == scratch.lower
            && zone.peek().is_some()
        {
            self.note_asked(zone, SecondaryRequest::Soa);
        }
        let goes_on = if self.is_signed() {
            !block.forbids(&question)
        } else {
            block.reaches_zones(&question)
        };
        if !goes_on {
            return self.later(scratch, place);
        }
        let view = block.view(&question, self.is_signed());
        let answer = match resolve(&view, &question, &mut scratch.key) {
            Resolution::NoZone if block.is_plain() => {
                return self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_AUTHORITATIVE));
            }
            Resolution::NoZone | Resolution::FallThrough { .. } => {
                return self.later(scratch, place);
            }
            Resolution::NotReady => {
                scratch.noted.by = block.zones().word();
                scratch.error = Some(not_ready(view.version().is_some()).to_owned());
                return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NOT_READY));
            }
            Resolution::FollowAlias { target, .. }
                if shared.router.follows(place, target, qtype) =>
            {
                return self.later(scratch, place);
            }
            Resolution::FollowAlias { answer, .. } | Resolution::Answer(answer) => answer,
        };
        scratch.noted.by = block.zones().word();
        block.count_passed();
        let shape = self.shape_of(place);
        self.write_answer(scratch, &answer, shape)
    }

    /// Whether a block wants a proof of the client's address, and there is none: a connection, a signature or a cookie of
    /// ours.
    fn lacks_proof(&self, block: &Block) -> bool {
        let address = self.asker.address.ip();
        block.requires_cookie
            && self.asker.proto == Proto::Udp
            && !self.is_signed()
            && !self.shared.has_good_cookie(&self.wishes, address)
    }

    /// Asks for a proof of the client's address: with a cookie, or over TCP of a client that knows no cookies.
    fn demand_proof(self, scratch: &mut Scratch) -> Outcome {
        match self.wishes.cookie {
            Some(_) => self.fail(scratch, Rcode::BADCOOKIE),
            None => self.ask_over_tcp(scratch),
        }
    }

    /// Answers SOA and NS of a zone below no key to those who may transfer it: they ask for them before they do
    /// (RFC 1034 section 4.3.5).
    fn answer_secondary(self, scratch: &mut Scratch) -> Outcome {
        let (shared, qtype) = (self.shared, self.query.qtype());
        let asked = matches!(qtype, Rtype::SOA | Rtype::NS)
            .then(|| shared.zone_to_transfer(None, &scratch.lower));
        let Some(zone) = asked.flatten().filter(|zone| self.may_have(zone)) else {
            return self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_AUTHORITATIVE));
        };
        if qtype == Rtype::SOA {
            self.note_asked(zone, SecondaryRequest::Soa);
        }
        scratch.noted.by = WORD;
        let version = zone.peek();
        let Some(version) = version.as_deref() else {
            return self.fail_with(scratch, Rcode::SERVFAIL, Some(Extended::NOT_READY));
        };
        let redirects = Redirects::default();
        let (name, key) = (&scratch.lower, &mut scratch.key);
        let answer = ZoneAnswer {
            version,
            answer: lookup(version, name, qtype, &redirects, key),
            is_stale: zone.may_be_old(name),
            synthesized: None,
        };
        self.write_answer(scratch, &answer, Shape::default())
    }

    /// Writes the answer of a version.
    fn write_answer(self, scratch: &mut Scratch, of: &ZoneAnswer<'_>, shape: Shape) -> Outcome {
        let ZoneAnswer {
            version, answer, ..
        } = of;
        let is_ours = answer.is_authoritative();
        let authority = if is_ours { flags::AA } else { 0 };
        let said = Said {
            ede: of.is_stale.then_some(Extended::STALE),
            // RFC 9660 section 3.2: referrals, too.
            version: Some(version),
            ..Said::default()
        };
        self.collect_options(&mut scratch.options, said);
        let base_flags = self.begin_with(&mut scratch.writer, &scratch.options, shape) | authority;
        let writer = &mut scratch.writer;
        let after_question = writer.mark();
        let turn = scratch.dice.turn(shape.shuffles);
        let wants_dnssec = self.query.opt.is_some_and(|opt| opt.dnssec_ok);
        let is_secured = wants_dnssec && version.contents.is_signed();
        let secured = is_secured.then(|| secure(version, &scratch.lower, answer));
        let put_secured = |writer: &mut MessageWriter, to| match &secured {
            Some(secured) => write_secured(writer, secured, to, self.query.name()),
            None => true,
        };
        let fits = answer
            .links()
            .all(|link| write_link(writer, version, &link, self.query.name(), turn))
            && put_secured(writer, Section::Answer)
            && (!answer.is_negative() || write_negative(writer, version))
            && answer
                .referral()
                .is_none_or(|it| write_referral(writer, it, self.query.name()))
            && put_secured(writer, Section::Authority);
        if !fits {
            return self.truncated(scratch, after_question, base_flags);
        }
        let last = answer.links().last();
        if let Some(Link {
            set: LinkSet::Rrset(rrset),
            ..
        }) = last
            && !shape.is_minimal
        {
            let put = |rr: RrRef<'_>| writer.record(Section::Additional, rr);
            // The client can ask for additional records that do not fit.
            let all = each_additional(version, &rrset, &mut scratch.additionals, put);
            if is_secured && all {
                let put = |rr: RrRef<'_>| writer.record(Section::Additional, rr);
                each_additional_signature(version, &rrset, &mut scratch.additionals, put);
            }
        }
        if let Some(referral) = answer.referral() {
            let put = |rr: RrRef<'_>| writer.record(Section::Additional, rr);
            if !each_additional(version, &referral.servers, &mut scratch.additionals, put) {
                // RFC 9471 section 3.1: a client cannot get glue elsewhere.
                return self.truncated(scratch, after_question, base_flags);
            }
        }
        self.finish(scratch, base_flags, answer.rcode())
    }

    /// An empty reply with TC: the client asks again over TCP, which proves its address.
    pub(crate) fn ask_over_tcp(self, scratch: &mut Scratch) -> Outcome {
        let flags = self.begin(scratch, Said::default());
        let mark = scratch.writer.mark();
        self.truncated(scratch, mark, flags)
    }

    /// A reply that did not fit, with TC. In a datagram it is empty, as the client asks again over TCP. A connection
    /// has nothing larger to offer, so the reply has the records that fit the largest message.
    pub(crate) fn truncated(self, scratch: &mut Scratch, mark: Mark, flags: u16) -> Outcome {
        if self.asker.proto == Proto::Udp {
            scratch.writer.rollback(mark);
            self.shared.stats.truncated.increase();
        }
        self.finish(scratch, flags | flags::TC, Rcode::NOERROR)
    }
}

#[cfg(test)]
mod tests;
