//! Judges replies for the cache: whether a reply is an answer, a denial or a failure, and how long it may be stored.

use std::time::SystemTime;

use dns::{Name, Rcode, Record, Rtype};
use server::message::Reply;

/// RRSIG (RFC 4034 section 3).
const RRSIG: Rtype = Rtype(46);
/// The seconds for replies without a TTL.
const FALLBACK_SECONDS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Answer,
    Denial,
    Failure,
    /// Not stored.
    Other,
}

/// The cache's view of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) kind: Kind,
    pub(super) is_kept: bool,
    /// Whether it has records that answer the question.
    pub(super) is_answer: bool,
}

/// Judges a reply to a question. With `wall`, the time of day, expired signatures count.
pub(super) fn judge(reply: &Reply, name: &Name, qtype: Rtype, wall: Option<SystemTime>) -> Judged {
    let has_soa = has(&reply.authority, Rtype::SOA);
    let is_answer = reply.rcode == Rcode::NOERROR && answers(&reply.answers, name, qtype);
    let is_expired = wall.is_some_and(|wall| has_expired(reply, wall));
    // Aliases that lead to nothing of the type: no data, if an SOA says so (RFC 2308 section 2.2).
    let leads_nowhere = !reply.answers.is_empty() && !is_answer;
    let kind = match reply.rcode {
        _ if is_expired => Kind::Other,
        Rcode::NOERROR if has_soa && (reply.answers.is_empty() || leads_nowhere) => Kind::Denial,
        Rcode::NOERROR => Kind::Answer,
        Rcode::NXDOMAIN if reply.answers.is_empty() => Kind::Denial,
        Rcode::SERVFAIL | Rcode::NOTIMP => Kind::Failure,
        _ => Kind::Other,
    };
    let is_cut = reply.flags & dns::flags::TC != 0;
    let is_kept = match kind {
        Kind::Answer => !leads_nowhere,
        Kind::Denial => has_soa,
        Kind::Failure => true,
        Kind::Other => false,
    };
    Judged {
        kind,
        is_kept: is_kept && !is_cut,
        is_answer,
    }
}

/// Whether a section has a record of a type.
fn has(records: &[Record], rtype: Rtype) -> bool {
    records.iter().any(|record| record.rtype == rtype)
}

/// Whether records answer a question: the type is found at the end of the chain of aliases. A chain that is a circle or
/// divides in two (RFC 2181 section 10.1) has no end.
fn answers(records: &[Record], name: &Name, qtype: Rtype) -> bool {
    if qtype == Rtype::ANY {
        return records.iter().any(|record| record.owner == *name);
    }
    let mut at = name.clone();
    for _ in 0..=records.len() {
        let target = match alias(records, &at) {
            Alias::Two => return false,
            Alias::None if qtype == Rtype::CNAME => return false,
            Alias::None => {
                return records.iter().any(|it| it.rtype == qtype && it.owner == at);
            }
            Alias::One(target) => target,
        };
        if qtype == Rtype::CNAME {
            return true;
        }
        at = target;
    }
    false
}

/// The alias of a name.
enum Alias {
    /// It has none.
    None,
    /// Its target.
    One(Name),
    /// More than one, which is not allowed.
    Two,
}

/// The alias of a name among records.
fn alias(records: &[Record], name: &Name) -> Alias {
    let own = records
        .iter()
        .filter(|it| it.rtype == Rtype::CNAME && it.owner == *name);
    let mut targets = own.filter_map(|it| Name::from_wire(it.rdata.as_octets()).ok());
    match targets.next() {
        None => Alias::None,
        Some(first) if targets.all(|other| other == first) => Alias::One(first),
        Some(_) => Alias::Two,
    }
}

/// Whether a signature is not yet valid or no longer valid (RFC 4034 section 3.1.5).
fn has_expired(reply: &Reply, wall: SystemTime) -> bool {
    let since = wall.duration_since(SystemTime::UNIX_EPOCH);
    let seconds = since.map_or(0, |since| since.as_secs());
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the times of signatures are modulo 2^32"
    )]
    let now = seconds as u32;
    let is_good = |record: &Record| {
        let data = record.rdata.as_octets();
        let time = |at: usize| {
            let octets = data.get(at..at + 4)?;
            octets.try_into().ok().map(u32::from_be_bytes)
        };
        let (Some(expiration), Some(inception)) = (time(8), time(12)) else {
            return false;
        };
        // RFC 1982: the difference of serial numbers is below half of their range.
        now.wrapping_sub(inception) < 1 << 31 && expiration.wrapping_sub(now) < 1 << 31
    };
    let sections = [&reply.answers, &reply.authority, &reply.additional];
    let mut signatures = sections
        .into_iter()
        .flatten()
        .filter(|it| it.rtype == RRSIG);
    signatures.any(|record| !is_good(record))
}

/// The least TTL of a reply, at most `most`.
pub(super) fn least_ttl(reply: &Reply, kind: Kind, most: u32) -> u32 {
    let sections = [&reply.answers, &reply.authority, &reply.additional];
    let mut ttls = sections.into_iter().flatten().map(|it| it.ttl.seconds());
    match (kind, ttls.next()) {
        (Kind::Answer, Some(_)) if is_referral(reply) => FALLBACK_SECONDS,
        (Kind::Answer | Kind::Denial, Some(first)) => ttls.fold(first, u32::min).min(most),
        (Kind::Answer | Kind::Denial, None) | (Kind::Failure | Kind::Other, _) => FALLBACK_SECONDS,
    }
}

/// Whether it names other servers and nothing else.
fn is_referral(reply: &Reply) -> bool {
    reply.answers.is_empty()
        && has(&reply.authority, Rtype::NS)
        && !has(&reply.authority, Rtype::SOA)
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::{Rdata, Ttl};

    /// `OWNER TTL TYPE TARGET`, the target a name.
    fn record(line: &str) -> Record {
        let words: Vec<&str> = line.split(' ').collect();
        let rdata = words.get(3).map_or(Rdata::txt(""), |target| {
            Rdata::name(&target.parse().unwrap())
        });
        Record {
            owner: words[0].parse().unwrap(),
            ttl: Ttl::decode(words[1].parse().unwrap()),
            rtype: words[2].parse().unwrap(),
            rdata,
        }
    }

    /// A reply with these answers and this authority.
    fn reply(rcode: Rcode, answers: &[&str], authority: &[&str]) -> Reply {
        let mut reply = Reply::empty("x", rcode, 0);
        reply.answers = answers.iter().map(|line| record(line)).collect();
        reply.authority = authority.iter().map(|line| record(line)).collect();
        reply
    }

    #[test]
    fn replies_are_what_rfc_2308_says() {
        let soa = &["t. 60 SOA"][..];
        let (ok, nx) = (Rcode::NOERROR, Rcode::NXDOMAIN);
        let chain = ["a.t. 9 CNAME b.t.", "b.t. 9 A"];
        let two = ["a.t. 9 CNAME b.t.", "a.t. 9 CNAME c.t.", "b.t. 9 A"];
        let circle = ["a.t. 9 CNAME b.t.", "b.t. 9 CNAME a.t."];
        for (reply, kind, is_kept) in [
            (reply(ok, &["a.t. 9 A"], &[]), Kind::Answer, true),
            (reply(ok, &chain, &[]), Kind::Answer, true),
            (reply(ok, &chain[..1], &[]), Kind::Answer, false),
            (reply(ok, &chain[..1], soa), Kind::Denial, true),
            (reply(ok, &two, &[]), Kind::Answer, false),
            (reply(ok, &circle, soa), Kind::Denial, true),
            (reply(ok, &[], soa), Kind::Denial, true),
            (reply(ok, &[], &[]), Kind::Answer, true),
            (reply(ok, &[], &["t. 60 NS n.t."]), Kind::Answer, true),
            (reply(nx, &[], soa), Kind::Denial, true),
            (reply(nx, &[], &[]), Kind::Denial, false),
            (reply(nx, &["a.t. 9 CNAME b.t."], soa), Kind::Other, false),
            (reply(Rcode::SERVFAIL, &[], &[]), Kind::Failure, true),
            (reply(Rcode::NOTIMP, &[], &[]), Kind::Failure, true),
            (reply(Rcode::REFUSED, &[], &[]), Kind::Other, false),
        ] {
            let judged = judge(&reply, &"A.t.".parse().unwrap(), Rtype::A, None);
            assert_eq!((judged.kind, judged.is_kept), (kind, is_kept), "{reply:?}");
        }
        let mut cut = reply(ok, &["a.t. 9 A"], &[]);
        cut.flags = dns::flags::TC;
        assert!(!judge(&cut, &"a.t.".parse().unwrap(), Rtype::A, None).is_kept);
    }

    #[test]
    fn signatures_that_are_out_of_their_time_are_not_kept() {
        let mut data = vec![0; 20];
        data[8..12].copy_from_slice(&2000_u32.to_be_bytes());
        data[12..16].copy_from_slice(&1000_u32.to_be_bytes());
        let mut signed = reply(Rcode::NOERROR, &["a.t. 9 A", "a.t. 9 TYPE46"], &[]);
        signed.answers[1].rdata = Rdata::from_octets(&data).unwrap();
        let name = "a.t.".parse().unwrap();
        let at = |seconds| SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        let kept = |wall| judge(&signed, &name, Rtype::A, wall).is_kept;
        assert!(kept(None) && kept(Some(at(1500))));
        assert!(!kept(Some(at(999))) && !kept(Some(at(2001))));
    }
}
