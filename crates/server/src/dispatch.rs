//! From the octets of a request to its reply, or to a transfer that may begin.
//!
//! The order of the checks: readable, TSIG, operation, EDNS version, class, type, zone. Only a transfer is
//! left to someone else; every other reply is in the writer when [`Shared::respond`] comes back.

use std::net::SocketAddr;

use dns::edns::Wishes;
use dns::tsig::{self, Refusal, TsigError, Verdict};
use dns::{MAX_MESSAGE_OCTETS, Mark, Query, Rcode, RrRef, Rtype, Section, Unreadable, flags};
use tracing::{debug, warn};
use transfer::{SecondaryRequest, unix_seconds};
use zone::lookup::{Link, LinkSet, each_additional};

use crate::exchange::{Asker, Exchange, Outcome, Scratch, Signer};
use crate::message::CLASS_IN;
use crate::options::{Extended, Said};
use crate::reply::{write_link, write_negative, write_referral};
use crate::resolve::{Resolution, ZoneAnswer, resolve};
use crate::shared::Shared;
use crate::tally::Noted;
use crate::{Proto, Shape};

/// The class ANY.
const CLASS_ANY: u16 = 255;

impl Shared {
    /// Answers a request, or says that a transfer is due, or what is to be waited for.
    pub(crate) fn respond(&self, scratch: &mut Scratch, raw: &[u8], asker: Asker<'_>) -> Outcome {
        scratch.error = None;
        scratch.metadata.clear();
        scratch.noted = Noted::default();
        match self.begin(scratch, raw, asker) {
            // What can be answered from memory is ready at once.
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

    /// From the octets to what becomes of them.
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
                return self.malformed(scratch, id, flags, question, asker.proto);
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

    /// Whether a warning is due of a signature that is refused: of a secondary's, and of a clock that is off, once
    /// a minute. Whose clock is off has the key, unless somebody repeats what the one who has it once said.
    fn is_told(&self, refusal: &Refusal, peer: SocketAddr) -> bool {
        if refusal.error == TsigError::BadTime {
            self.off_clocks.is_due(&refusal.key_name, self.clock.now())
        } else {
            self.secondaries.knows(peer)
        }
    }

    /// Writes FORMERR for what could not be read.
    fn malformed(
        &self,
        scratch: &mut Scratch,
        id: u16,
        came: u16,
        question: &[u8],
        proto: Proto,
    ) -> Outcome {
        let flags = flags::QR | came & (flags::OPCODE | flags::RD) | Rcode::FORMERR.0;
        let writer = &mut scratch.writer;
        writer.begin(proto.is_stream(), MAX_MESSAGE_OCTETS, id, flags);
        if !question.is_empty() {
            writer.question(question);
        }
        writer.finish();
        self.stats.replies(proto, Rcode::FORMERR).increase();
        Outcome::Reply
    }
}

impl Exchange<'_> {
    /// Everything after the signature.
    fn run(mut self, scratch: &mut Scratch) -> Outcome {
        let query = self.query;
        if query.opcode() != 0 {
            return self.fail_with(scratch, Rcode::NOTIMP, Some(Extended::NOT_SUPPORTED));
        }
        // RFC 5936 section 2.1 for AXFR; no query has an answer.
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
            // RFC 7873 section 5.4: a query without question is one for a cookie.
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
            Rtype::AXFR => self.transfer(scratch, None),
            Rtype::IXFR => match query.ixfr_serial() {
                Some(serial) => self.transfer(scratch, Some(serial)),
                None => self.fail(scratch, Rcode::FORMERR),
            },
            Rtype::ANY => self.answer(scratch),
            qtype if qtype.is_meta() => {
                self.fail_with(scratch, Rcode::NOTIMP, Some(Extended::NOT_SUPPORTED))
            }
            _ => self.answer(scratch),
        }
    }

    /// Answers a question of a class other than IN: a matter of handlers alone.
    fn other_class(self, scratch: &mut Scratch) -> Outcome {
        let router = &self.shared.router;
        let place = self.block(scratch);
        let place = place.filter(|place| router.blocks()[*place].takes_all_classes());
        match place {
            Some(place) if !self.query.qtype().is_meta() => self.later(scratch, place),
            _ => self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_SUPPORTED)),
        }
    }

    /// The block that the question is for; notes which of its keys.
    fn block(&self, scratch: &mut Scratch) -> Option<usize> {
        let router = &self.shared.router;
        let found = router.find_key(&scratch.lower, self.query.qtype());
        scratch.noted.found = found;
        found.map(|found| found.block)
    }

    /// Answers from a zone at once, if the block's handlers have nothing to say to it; else lets them.
    fn answer(self, scratch: &mut Scratch) -> Outcome {
        let shared = self.shared;
        let qtype = self.query.qtype();
        let Some(place) = self.block(scratch) else {
            return self.fail_with(scratch, Rcode::REFUSED, Some(Extended::NOT_AUTHORITATIVE));
        };
        let block = &shared.router.blocks()[place];
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
                scratch.error = Some("the zone has no version yet".to_owned());
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

    /// Writes what a version says.
    fn write_answer(self, scratch: &mut Scratch, of: &ZoneAnswer<'_>, shape: Shape) -> Outcome {
        let ZoneAnswer {
            version, answer, ..
        } = of;
        let is_ours = answer.is_authoritative();
        let authority = if is_ours { flags::AA } else { 0 };
        let said = Said {
            ede: of.is_stale.then_some(Extended::STALE),
            version: is_ours.then_some(version),
            ..Said::default()
        };
        self.collect_options(&mut scratch.options, said);
        let base_flags = self.begin_with(&mut scratch.writer, &scratch.options, shape) | authority;
        let writer = &mut scratch.writer;
        let after_question = writer.mark();
        let turn = scratch.dice.turn(shape.shuffles);
        let fits = answer
            .links()
            .all(|link| write_link(writer, version, &link, turn))
            && (!answer.is_negative() || write_negative(writer, version))
            && answer
                .referral()
                .is_none_or(|it| write_referral(writer, it, self.query.name()));
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
            // What does not fit can be asked for.
            let _all = each_additional(version, &rrset, &mut scratch.additionals, put);
        }
        if let Some(referral) = answer.referral() {
            let put = |rr: RrRef<'_>| writer.record(Section::Additional, rr);
            if !each_additional(version, &referral.servers, &mut scratch.additionals, put) {
                // RFC 9471 section 3.1: glue cannot be asked for elsewhere.
                return self.truncated(scratch, after_question, base_flags);
            }
        }
        self.finish(scratch, base_flags, answer.rcode())
    }

    /// An answer that did not fit, with TC: empty in a datagram, the client asks again over TCP. A connection
    /// has nothing larger to offer, so it gets the records that fit the largest message.
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
