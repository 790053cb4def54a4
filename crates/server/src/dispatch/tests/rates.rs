//! Limits on replies to a network, and queries that need a cookie.

use dns::edns::COOKIE;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::edns::{asking, opts};
use super::*;
use crate::{Handler, Next, RateLimit, Request};

/// What a client is sent: records, an empty reply with TC, or nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Records,
    Tc,
    Nothing,
}

fn sent(desk: &mut Desk, raw: &[u8]) -> Sent {
    let octets = desk.octets(raw);
    let is_sent = desk
        .shared
        .limit_reply(&mut desk.scratch, raw, asker(Proto::Udp));
    if !is_sent {
        return Sent::Nothing;
    }
    let limited = desk.scratch.writer.octets();
    if limited == octets {
        return Sent::Records;
    }
    let message = Message::from_vec(limited).unwrap();
    assert!(message.metadata.truncation && message.answers.is_empty());
    assert_eq!(limited[..2], raw[..2], "the ID");
    Sent::Tc
}

/// Answers all classes.
struct Chaotic;

impl Handler for Chaotic {
    fn name(&self) -> &'static str {
        "chaos"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn takes_all_classes(&self) -> bool {
        true
    }

    fn answer<'a>(&'a self, _: &'a mut Request, _next: Next) -> BoxFuture<'a, crate::Outcome> {
        let said = crate::Outcome::failed("chaos", Rcode(9), "a test");
        async { said }.boxed()
    }
}

/// How many of a hundred replies are whole, with TC, and not sent.
fn counts(desk: &mut Desk, raw: &[u8]) -> [usize; 3] {
    let all: Vec<Sent> = (0..100).map(|_| sent(desk, raw)).collect();
    [Sent::Records, Sent::Tc, Sent::Nothing].map(|of| all.iter().filter(|it| **it == of).count())
}

fn limited(rate_limit: RateLimit) -> Desk {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1", "sub NS ns.sub"])]);
    setup.rate_limit = rate_limit;
    Desk::new(setup)
}

fn ten_a_second() -> RateLimit {
    RateLimit {
        per_second: Some(10),
        ..RateLimit::default()
    }
}

/// Security, further findings: up to 20 times as many octets for a spoofed source.
#[test]
fn a_network_gets_so_many_replies_of_each_kind_and_then_tc_or_nothing() {
    let mut desk = limited(ten_a_second());
    for qname in ["www.z.", "no.z.", "other.", "a.sub.z."] {
        let raw = query(1, qname, Rtype::A);
        assert_eq!(counts(&mut desk, &raw), [10, 45, 45], "{qname}");
    }
    let raw = query(1, "www.z.", Rtype::TXT);
    assert_eq!(counts(&mut desk, &raw), [10, 45, 45], "NODATA");
    let stats = &desk.shared.stats;
    assert_eq!(
        (stats.rate_dropped.get(), stats.rate_slipped.get()),
        (225, 225)
    );
    let answered = (0..crate::RCODES).map(|rcode| stats.replies(Proto::Udp, Rcode(rcode)).get());
    assert_eq!(
        answered.sum::<u64>(),
        50 + 225,
        "what is dropped is no answer"
    );
    // The letters of a name make no other one, and neither do names that are missing.
    let mut desk = limited(ten_a_second());
    for number in 0..10 {
        let www = ["www.z.", "WWW.z."][number % 2];
        assert_eq!(sent(&mut desk, &query(1, www, Rtype::A)), Sent::Records);
        let missing = format!("no{number}.z.");
        assert_eq!(
            sent(&mut desk, &query(1, &missing, Rtype::A)),
            Sent::Records
        );
    }
    for qname in ["wWw.z.", "no10.z."] {
        assert_ne!(
            sent(&mut desk, &query(1, qname, Rtype::A)),
            Sent::Records,
            "{qname}"
        );
    }
}

#[test]
fn signed_requests_and_good_cookies_are_not_limited_and_forged_ones_are() {
    let mut desk = limited(RateLimit {
        slip: 1,
        ..ten_a_second()
    });
    let plain = query(1, "www.z.", Rtype::A);
    let with = |cookie: &[u8]| asking(plain.clone(), &[(COOKIE, cookie)]);
    assert_eq!(counts(&mut desk, &plain), [10, 90, 0]);
    assert_eq!(counts(&mut desk, &with(&[5; 8])), [0, 100, 0]);
    // A reply with TC has the cookie by which the client is known.
    let raw = with(&[5; 8]);
    assert_eq!(sent(&mut desk, &raw), Sent::Tc);
    let ours = opts(desk.scratch.writer.octets()).1.swap_remove(0).1;
    assert_eq!(counts(&mut desk, &with(&ours)), [100, 0, 0]);
    let mut forged = ours;
    forged[20] ^= 1;
    assert_eq!(counts(&mut desk, &with(&forged)), [0, 100, 0]);
    let mut signed = plain.clone();
    tsig::sign_request(&key("k."), &mut signed, NOW);
    assert_eq!(counts(&mut desk, &signed), [100, 0, 0]);
    let end = signed.len() - 12;
    signed[end] ^= 1;
    // NOTAUTH is of no block, and has the default limit.
    let sent: usize = (0..3).map(|_| counts(&mut desk, &signed)[0]).sum();
    assert_eq!(u32::try_from(sent).ok(), RateLimit::default().per_second);
}

#[test]
fn a_block_that_requires_cookies_answers_a_datagram_with_one_only() {
    let mut setup = Setup::small();
    setup.requires_cookie = true;
    let mut desk = Desk::new(setup);
    let plain = query(1, "www.z.", Rtype::A);
    let got = desk.ask(&plain);
    assert!(got.metadata.truncation && got.answers.is_empty());
    let reply = desk.octets(&asking(plain.clone(), &[(COOKIE, &[5; 8])]));
    assert_eq!(code_of(&reply), (23, None));
    let ours = opts(&reply).1.swap_remove(0).1;
    let got = desk.ask(&asking(plain.clone(), &[(COOKIE, &ours)]));
    assert_eq!(got.answers.len(), 1);
    assert_eq!(desk.tcp_code(&plain), (0, None));
}

#[test]
fn a_block_that_requires_cookies_requires_them_in_all_classes() {
    let mut setup = Setup::small();
    setup.requires_cookie = true;
    setup.handlers = [vec![Arc::new(Chaotic)], vec![]];
    let mut desk = Desk::new(setup);
    let mut raw = query(1, "version.bind.", Rtype::TXT);
    let class = raw.len() - 1;
    raw[class] = 3;
    assert!(desk.ask(&raw).metadata.truncation);
    assert_eq!(desk.tcp_code(&raw), (9, None));
}
