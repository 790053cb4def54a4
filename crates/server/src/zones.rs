//! The zones of a block, as a part of its chain.

use std::collections::HashMap;

use dns::{Name, Rcode, Record, RrRef, Rtype, flags};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use zone::lookup::{
    Additionals, Answer, LinkSet, each_additional, lookup, lookup_beside, rrset_for,
};
use zone::{Node, Version, Zone, ZoneSet};

use crate::chain::{Handler, Next, Router};
use crate::message::{CLASS_IN, Failure, Outcome, Question, Reply, Request};
use crate::names::{LiveAnswer, LiveNames};

/// EDE 3 (RFC 8914 section 5.2): the source is away or a change is held back, the data may be old.
pub const STALE: u16 = 3;
/// EDE 14: the zone has no version yet.
pub const NOT_READY: u16 = 14;

/// The zones of a block.
#[derive(Debug, Default)]
pub struct BlockZones {
    /// The zones.
    zones: ZoneSet,
    /// What answers for names that no version holds, by apex in lower case; most zones have none.
    live: HashMap<Name, LiveNames>,
    /// The names, and those below them, for which the next is asked when a zone has no such name; by apex
    /// in lower case.
    fallthrough: HashMap<Name, Vec<Name>>,
}

impl BlockZones {
    /// The zones of a block; `live` and `fallthrough` by apex.
    #[must_use]
    pub fn new(
        zones: ZoneSet,
        live: HashMap<Name, LiveNames>,
        fallthrough: HashMap<Name, Vec<Name>>,
    ) -> Self {
        Self {
            zones,
            live: lower_keys(live),
            fallthrough: lower_keys(fallthrough),
        }
    }

    /// What replies from them are said to be by.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        WORD
    }

    /// Whether others say the same: the same zones, with the same knowledge of other names.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let (all, others) = (self.zones.all(), other.zones.all());
        let mut pairs = all.iter().zip(others);
        let same_live =
            |apex: &Name, live: &LiveNames| other.live.get(apex).is_some_and(|it| live.is_same(it));
        all.len() == others.len()
            && pairs.all(|(zone, other)| std::sync::Arc::ptr_eq(zone, other))
            && self.live.len() == other.live.len()
            && self.live.iter().all(|(apex, live)| same_live(apex, live))
            && self.fallthrough == other.fallthrough
    }

    /// The zones.
    #[must_use]
    pub const fn set(&self) -> &ZoneSet {
        &self.zones
    }

    /// The zone a question belongs to: the longest, but a DS question for an apex goes to the zone above
    /// (RFC 4035 section 3.1.4.1).
    #[must_use]
    pub fn find(&self, lower: &[u8], qtype: Rtype) -> Option<&std::sync::Arc<Zone>> {
        let zone = self.zones.find(lower)?;
        if qtype == Rtype::DS && zone.apex().as_wire() == lower {
            let parent = lower.get(usize::from(lower[0]) + 1..);
            return Some(
                parent
                    .and_then(|parent| self.zones.find(parent))
                    .unwrap_or(zone),
            );
        }
        Some(zone)
    }

    /// Looks up a lower-case wire name that lies in the version's zone, in the version and in what is live.
    /// `key` is space to work in, `made` holds what was made for this answer. `None`: nothing can be said yet.
    pub fn look<'v>(
        &self,
        version: &'v Version,
        lower: &[u8],
        qtype: Rtype,
        key: &mut Vec<u8>,
        made: &'v mut Option<Node>,
    ) -> Option<Answer<'v>> {
        let live = (!self.live.is_empty()).then(|| self.live.get(version.contents.apex()));
        let Some(live) = live.flatten() else {
            return Some(lookup(version, lower, qtype, key));
        };
        // What was said of the last name that was asked about; asking costs.
        let mut said = None;
        let mut answer = lookup_beside(version, lower, qtype, key, |name| {
            let (_, answer) = said.insert((name, live.answer(version, name)));
            !matches!(answer, LiveAnswer::Missing)
        });
        if answer.exists {
            return Some(answer);
        }
        let end = answer.end().unwrap_or(lower);
        let of_end = said.filter(|(name, _)| *name == end);
        let of_end = of_end.map(|(_, answer)| answer);
        match of_end.unwrap_or_else(|| live.answer(version, end)) {
            LiveAnswer::Exists { node, .. } => {
                *made = node;
                let rrset = made.as_ref().and_then(|node| rrset_for(node, qtype));
                answer.complete(rrset.map(LinkSet::Rrset));
            }
            LiveAnswer::Missing => {}
            LiveAnswer::Unknown => return None,
        }
        Some(answer)
    }

    /// Whether a zone holds no such name and that is the answer; `goes_on` says whether something stands
    /// behind the zones. Names whose alias leads nowhere are not missing.
    #[must_use]
    pub fn is_missing(&self, question: &Question<'_>, goes_on: bool) -> bool {
        let zone = match self.find(question.name, question.qtype) {
            Some(zone) if question.qclass == CLASS_IN => zone,
            _ => return false,
        };
        let Some(version) = zone.current() else {
            return false;
        };
        let (mut key, mut made) = (Vec::with_capacity(64), None);
        let answer = self.look(&version, question.name, question.qtype, &mut key, &mut made);
        answer.is_some_and(|answer| !answer.exists && answer.end().is_none())
            && !(goes_on && self.falls_through(zone, question.name))
    }

    /// Whether a name that is missing in a zone is asked of the next; lower-case wire form.
    #[must_use]
    pub fn falls_through(&self, zone: &Zone, lower: &[u8]) -> bool {
        let below = self.fallthrough.get(zone.apex());
        below.is_some_and(|names| {
            names
                .iter()
                .any(|name| dns::wire_is_within(lower, name.as_wire()))
        })
    }

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

/// Keys in lower case.
fn lower_keys<T>(map: HashMap<Name, T>) -> HashMap<Name, T> {
    let pairs = map.into_iter();
    pairs
        .map(|(apex, value)| (apex.to_lower(), value))
        .collect()
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

/// What stands for the zones in logs and metrics.
pub const WORD: &str = "kubernetes";

/// The name at which an answer ends outside of its zone: the target of its last alias.
#[must_use]
pub fn elsewhere<'v>(answer: &Answer<'v>, qtype: Rtype) -> Option<&'v [u8]> {
    if answer.negative || answer.referral.is_some() || qtype == Rtype::CNAME {
        return None;
    }
    let last = answer.links().last()?;
    match last.set {
        LinkSet::Rrset(rrset) if rrset.rtype == Rtype::CNAME && qtype != Rtype::ANY => {
            let data = rrset.data().next()?;
            dns::Rdata::name_at(Rtype::CNAME, data)
        }
        LinkSet::Rrset(_) | LinkSet::Soa => None,
    }
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

impl Router {
    /// Whether an answer of a block's zones that ends with an alias is completed from another zone or from
    /// upstreams: where the block, or the one that the target (in wire form) belongs to, has more than zones.
    /// Allocates nothing.
    #[must_use]
    pub fn follows(&self, block: usize, target: &[u8], qtype: Rtype) -> bool {
        let is_more = |block: usize| !self.blocks()[block].is_plain();
        if is_more(block) {
            return true;
        }
        let mut room = [0; 255];
        let Some(lower) = room.get_mut(..target.len()) else {
            return false;
        };
        lower.copy_from_slice(target);
        lower.make_ascii_lowercase();
        self.find(lower, qtype).is_some_and(is_more)
    }
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
