//! The zones of a block as a part of its chain: turns their answer into a reply.

use dns::{Name, Rcode, Record, RrRef, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use zone::lookup::{
    Additionals, LinkSet, Secured, SetAt, each_additional, each_additional_signature, secure,
};

use crate::chain::{Handler, Next};
use crate::message::{CLASS_IN, Failure, Outcome, Question, Reply, Request};
use crate::resolve::{Resolution, ZoneAnswer, not_ready, resolve};
use crate::zones::{BlockZones, NOT_READY, STALE, WORD};

impl Handler for BlockZones {
    fn name(&self) -> &'static str {
        WORD
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        question.qclass != CLASS_IN || self.find(question.name, question.qtype).is_none()
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        self.reply(request, next).boxed()
    }
}

impl BlockZones {
    /// The zones' reply to a request, or the next handler's.
    async fn reply(&self, request: &mut Request, next: Next) -> Outcome {
        let (reply, target) = {
            let lower = request.name.to_lower();
            let question = request.question(&lower);
            let view = next.block().view(&question, false);
            let reply = |answer: &ZoneAnswer<'_>| reply_of(answer, &request.name, &question);
            match resolve(&view, &question, &mut Vec::with_capacity(64)) {
                Resolution::NoZone | Resolution::FallThrough { .. } => (None, None),
                Resolution::NotReady => return unknown(view.version().is_some()),
                Resolution::Answer(answer) => (Some(reply(&answer)), None),
                Resolution::FollowAlias { answer, target } => {
                    (Some(reply(&answer)), Name::from_wire(target).ok())
                }
            }
        };
        match (reply, target) {
            (None, _) => next.run(request).await,
            (Some(reply), None) => Outcome::Reply(reply),
            (Some(reply), Some(target)) => follow(reply, target, request, next).await,
        }
    }
}

/// SERVFAIL, as the answer is not known yet.
fn unknown(has_version: bool) -> Outcome {
    Outcome::Failed(Failure {
        rcode: Rcode::SERVFAIL,
        by: WORD,
        error: Some(not_ready(has_version).to_owned()),
        extended: Some(NOT_READY),
    })
}

/// A zone's answer as a reply to a question for a name.
fn reply_of(of: &ZoneAnswer<'_>, asked: &Name, question: &Question<'_>) -> Reply {
    let ZoneAnswer {
        version,
        answer,
        is_stale,
        ..
    } = of;
    let mut reply = Reply::empty(WORD, answer.rcode(), 0);
    if *is_stale {
        reply.extended = vec![(STALE, String::new())];
    }
    if answer.is_authoritative() {
        reply.flags = flags::AA;
    }
    let soa_at = |ttl| {
        let soa = version.soa_record();
        RrRef { ttl, ..soa }.to_record()
    };
    for link in answer.links() {
        match link.set {
            LinkSet::Soa => reply.answers.push(soa_at(version.contents.soa().ttl)),
            LinkSet::Rrset(rrset) => {
                let records = rrset.records(link.owner(asked.as_wire()), 0);
                reply.answers.extend(records.map(|rr| rr.to_record()));
            }
        }
    }
    if answer.is_negative() {
        let ttl = version.contents.soa().negative_ttl();
        reply.authority.push(soa_at(ttl));
    }
    let is_secured = question.dnssec_ok && version.contents.is_signed();
    let secured = is_secured.then(|| secure(version, question.name, answer));
    let mut glue = Vec::new();
    let mut put = |rr: RrRef<'_>| {
        glue.push(rr.to_record());
        true
    };
    let mut space = Additionals::default();
    if let Some(referral) = answer.referral() {
        let below = referral.below.unwrap_or(asked.as_wire());
        if let Some(cut) = below.get(referral.skip..) {
            let records = referral.servers.records(cut, 0);
            reply.authority.extend(records.map(|rr| rr.to_record()));
        }
        each_additional(version, &referral.servers, &mut space, &mut put);
    } else if let Some(LinkSet::Rrset(rrset)) = answer.links().last().map(|link| link.set) {
        each_additional(version, &rrset, &mut space, &mut put);
        if is_secured {
            each_additional_signature(version, &rrset, &mut space, &mut put);
        }
    }
    if let Some(Secured { answers, authority }) = &secured {
        let records = |sets: &[SetAt<'_>]| -> Vec<Record> {
            let records = sets.iter().flat_map(SetAt::records);
            records.map(|rr| rr.to_record()).collect()
        };
        reply.answers.extend(records(answers));
        reply.authority.extend(records(authority));
    }
    reply.additional = glue;
    reply
}

/// Completes a reply that ends with an alias, if the server can answer for its target. If it cannot, or if the block
/// has only zones, the alias remains without its target, as in a secondary's reply.
async fn follow(mut reply: Reply, target: Name, request: &mut Request, next: Next) -> Outcome {
    let (router, block) = next.place();
    if !router.follows(block, target.as_wire(), request.qtype) {
        return Outcome::Reply(reply);
    }
    let mut asking = request.following(target);
    if let Outcome::Reply(more) = next.again(&mut asking).await
        && more.rcode == Rcode::NOERROR
    {
        // The client has to ask over TCP for records that the upstream's reply had no room for.
        reply.flags |= more.flags & flags::TC;
        reply.answers.extend(more.answers);
    }
    Outcome::Reply(reply)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::chain::Handler;
    use crate::testing::{Counting, ask, chain_around};
    use zone::testing::zone;

    #[test]
    fn an_alias_to_a_name_that_another_zone_here_lacks_stands_alone() {
        let zones = vec![zone("z.", 1, &["out CNAME no.y."]), zone("y.", 1, &[])];
        let server = chain_around(vec![], zones, vec![]);
        let said = ask(&server, "out.z. A");
        assert_eq!(said, "NOERROR | out.z. 60 IN CNAME no.y.");
        assert!(ask(&server, "no.y. A").starts_with("NXDOMAIN ; y."));
    }

    #[test]
    fn an_alias_that_a_dname_makes_leads_to_what_another_handler_answers() {
        let lines = &["old DNAME y.", "in DNAME new", "a.new A 10.0.0.9"];
        let after: Vec<Arc<dyn Handler>> = vec![Arc::new(Counting::default())];
        let server = chain_around(vec![], vec![zone("z.", 1, lines)], after);
        assert_eq!(
            ask(&server, "a.in.z. A"),
            "NOERROR | in.z. 60 IN DNAME new.z. a.in.z. 60 IN CNAME a.new.z. a.new.z. 60 IN A 10.0.0.9"
        );
        assert_eq!(
            ask(&server, "a.old.z. A"),
            "NOERROR | old.z. 60 IN DNAME y. a.old.z. 60 IN CNAME a.y. a.y. 300 IN A 10.0.0.1"
        );
    }
}
