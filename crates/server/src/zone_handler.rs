//! The zones of a block as a part of its chain: what they say to a request, as a reply.

use dns::{Name, Rcode, Record, RrRef, Rtype, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use zone::Version;
use zone::lookup::{Additionals, Answer, LinkSet, each_additional};

use crate::chain::{Handler, Next};
use crate::message::{CLASS_IN, Failure, Outcome, Question, Reply, Request};
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
    /// What the zones say to a request, or what the next does.
    async fn reply(&self, request: &mut Request, next: Next) -> Outcome {
        let lower = request.name.to_lower();
        let zone = match self.find(lower.as_wire(), request.qtype) {
            Some(zone) if request.qclass == CLASS_IN => std::sync::Arc::clone(zone),
            _ => return next.run(request).await,
        };
        let extended = zone.may_be_old().then_some(STALE);
        let Some(version) = zone.current() else {
            return unknown();
        };
        let reply = {
            let (mut key, mut made) = (Vec::with_capacity(64), None);
            match self.look(
                &version,
                lower.as_wire(),
                request.qtype,
                &mut key,
                &mut made,
            ) {
                None => return unknown(),
                Some(answer) => {
                    let is_missing = !answer.exists && answer.end().is_none();
                    if is_missing && next.is_some() && self.falls_through(&zone, lower.as_wire()) {
                        None
                    } else {
                        Some(reply_of(&version, &answer, &request.name, extended))
                    }
                }
            }
        };
        match reply {
            None => next.run(request).await,
            Some(reply) => follow(reply, request, next).await,
        }
    }
}

/// SERVFAIL, as nothing can be said yet.
fn unknown() -> Outcome {
    Outcome::Failed(Failure {
        rcode: Rcode::SERVFAIL,
        by: WORD,
        error: Some("the zone has no version yet".to_owned()),
        extended: Some(NOT_READY),
    })
}

/// An answer of a zone, as a reply to a question for a name.
fn reply_of(version: &Version, answer: &Answer<'_>, asked: &Name, stale: Option<u16>) -> Reply {
    let rcode = if answer.exists {
        Rcode::NOERROR
    } else {
        Rcode::NXDOMAIN
    };
    let mut reply = Reply::empty(WORD, rcode, 0);
    reply.extended = stale
        .map(|code| (code, String::new()))
        .into_iter()
        .collect();
    let soa_at = |ttl| Record {
        owner: version.contents.apex().clone(),
        rtype: Rtype::SOA,
        ttl,
        rdata: version.soa_rdata.clone(),
    };
    for link in answer.links() {
        match link.set {
            LinkSet::Soa => reply.answers.push(soa_at(version.contents.soa().ttl)),
            LinkSet::Rrset(rrset) => {
                let owner = link.owner.unwrap_or(asked.as_wire());
                let records = rrset.records(owner, 0);
                reply.answers.extend(records.map(|rr| rr.to_record()));
            }
        }
    }
    let is_ours = answer.referral.is_none() || !reply.answers.is_empty();
    reply.flags = if is_ours { flags::AA } else { 0 };
    if answer.negative {
        let ttl = version.contents.soa().negative_ttl();
        reply.authority.push(soa_at(ttl));
    }
    let mut glue = Vec::new();
    let mut put = |rr: RrRef<'_>| {
        glue.push(rr.to_record());
        true
    };
    let mut space = Additionals::default();
    if let Some(referral) = &answer.referral {
        let below = referral.below.unwrap_or(asked.as_wire());
        if let Some(cut) = below.get(referral.skip..) {
            let records = referral.servers.records(cut, 0);
            reply.authority.extend(records.map(|rr| rr.to_record()));
        }
        each_additional(version, &referral.servers, &mut space, &mut put);
    } else if let Some(LinkSet::Rrset(rrset)) = answer.links().last().map(|link| link.set) {
        each_additional(version, &rrset, &mut space, &mut put);
    }
    reply.additional = glue;
    reply
}

/// Completes a reply that ends with an alias to a name that is not in its zone, if the server can tell what
/// stands there. If it cannot, and where blocks have zones alone, the alias stands alone: so says a secondary.
async fn follow(mut reply: Reply, request: &mut Request, next: Next) -> Outcome {
    let Some(last) = reply.answers.last() else {
        return Outcome::Reply(reply);
    };
    let open = last.rtype == Rtype::CNAME
        && ![Rtype::CNAME, Rtype::ANY].contains(&request.qtype)
        && reply.rcode == Rcode::NOERROR
        && reply.authority.is_empty();
    let target = last.rdata.as_octets();
    let target = Name::from_wire(target).ok().filter(|_| open);
    let (router, block) = next.place();
    let is_followed = |target: &Name| router.follows(block, target.as_wire(), request.qtype);
    let Some(target) = target.filter(is_followed) else {
        return Outcome::Reply(reply);
    };
    let mut asking = request.following(target);
    if let Outcome::Reply(more) = next.again(&mut asking).await
        && more.rcode == Rcode::NOERROR
    {
        // What the upstream had no room for, the client has to ask for over TCP.
        reply.flags |= more.flags & flags::TC;
        reply.answers.extend(more.answers);
    }
    Outcome::Reply(reply)
}

#[cfg(test)]
mod tests {
    use crate::testing::{ask, chain_around};
    use zone::testing::zone;

    #[test]
    fn an_alias_to_a_name_that_another_zone_here_lacks_stands_alone() {
        let zones = vec![zone("z.", 1, &["out CNAME no.y."]), zone("y.", 1, &[])];
        let server = chain_around(vec![], zones, vec![]);
        let said = ask(&server, "out.z. A");
        assert_eq!(said, "NOERROR | out.z. 60 IN CNAME no.y.");
        assert!(ask(&server, "no.y. A").starts_with("NXDOMAIN ; y."));
    }
}
