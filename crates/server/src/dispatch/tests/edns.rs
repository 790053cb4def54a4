//! Tests of EDNS options: each is in the reply only if the request has it.

use std::sync::atomic::Ordering;
use std::time::Instant;

use dns::edns::{
    COOKIE, EXPIRE, EXTENDED_ERROR, KEEPALIVE, NSID, PADDING, PADDING_BLOCK, ZONEVERSION,
    push_option,
};
use transfer::Sink;

use super::*;

/// Options in wire form.
fn options(all: &[(u16, &[u8])]) -> Vec<u8> {
    let mut octets = Vec::new();
    for (code, data) in all {
        push_option(&mut octets, *code, data);
    }
    octets
}

/// The number of OPT records in a message, and the options of the first, read by code of this test.
pub(super) fn opts(octets: &[u8]) -> (usize, Vec<(u16, Vec<u8>)>) {
    let message = Message::from_vec(octets).unwrap();
    let Some(edns) = &message.edns else {
        return (0, Vec::new());
    };
    let all = edns.options().as_ref().iter();
    let mut found: Vec<(u16, Vec<u8>)> = all
        .map(|(code, option)| (u16::from(*code), option.try_into().unwrap()))
        .collect();
    found.sort();
    // hickory refuses a message with a second OPT, so the test counts them itself.
    let count = octets
        .windows(5)
        .filter(|w| w[..3] == [0, 0, 41] && w[3..] == 1232_u16.to_be_bytes())
        .count();
    (count, found)
}

/// A request with an OPT of these options.
pub(super) fn asking(raw: Vec<u8>, all: &[(u16, &[u8])]) -> Vec<u8> {
    with_opt(raw, 1232, 0, &options(all))
}

/// All options that a reply may have.
const ALL: &[(u16, &[u8])] = &[
    (NSID, &[]),
    (EXPIRE, &[]),
    (COOKIE, &[1, 2, 3, 4, 5, 6, 7, 8]),
    (ZONEVERSION, &[]),
];

/// The codes of options.
fn codes(found: &[(u16, Vec<u8>)]) -> Vec<u16> {
    found.iter().map(|(code, _)| *code).collect()
}

#[test]
fn i01_versions_duplicates_and_unknown_options() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let good = query(1, "www.z.", Rtype::A);
    assert_eq!(desk.code(&with_opt(good.clone(), 1232, 1, &[])), (16, None));
    let twice = with_opt(with_opt(good.clone(), 512, 0, &[]), 512, 0, &[]);
    assert_eq!(desk.code(&twice), (1, None));
    let reply = desk.octets(&asking(good, &[(65_001, &[1, 2]), (65_002, &[])]));
    assert_eq!((code_of(&reply), opts(&reply)), ((0, None), (1, vec![])));
}

#[test]
fn i02_options_are_given_on_soa_and_single_answers_when_asked_for() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let reply = desk.octets(&asking(query(1, "Z.", Rtype::SOA), ALL));
    let (count, found) = opts(&reply);
    assert_eq!(count, 1);
    assert_eq!(codes(&found), [NSID, EXPIRE, COOKIE, ZONEVERSION]);
    assert_eq!(found[0].1, b"test");
    assert_eq!(found[1].1, 86_400_u32.to_be_bytes());
    assert_eq!((found[2].1.len(), &found[2].1[..8]), (24, ALL[2].1));
    assert_eq!(found[3].1, [1, 0, 0, 0, 0, 5]);
    // EXPIRE is for the zone, not for a name in it. A serial is for both.
    for (qname, qtype) in [("www.z.", Rtype::A), ("no.z.", Rtype::A), ("z.", Rtype::NS)] {
        let (_, found) = opts(&desk.octets(&asking(query(1, qname, qtype), ALL)));
        assert_eq!(codes(&found), [NSID, COOKIE, ZONEVERSION], "{qname}");
    }
    let (_, elsewhere) = opts(&desk.octets(&asking(query(1, "y.", Rtype::SOA), ALL)));
    assert_eq!(codes(&elsewhere), [NSID, COOKIE, EXTENDED_ERROR]);
    let up_to_date = desk.octets(&asking(ixfr(1, "z.", 5), ALL));
    assert_eq!(
        codes(&opts(&up_to_date).1),
        [NSID, EXPIRE, COOKIE, ZONEVERSION]
    );
    let plain = desk.octets(&asking(query(1, "z.", Rtype::SOA), &[]));
    assert_eq!(opts(&plain), (1, vec![]));
    assert_eq!(
        desk.code(&asking(query(1, "z.", Rtype::SOA), &[(ZONEVERSION, &[0])])),
        (1, None)
    );
}

/// Collects the messages of a transfer.
struct Kept(tokio::sync::mpsc::UnboundedSender<Vec<u8>>);

impl Sink for Kept {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), transfer::Closed> {
        self.0
            .send(message[2..].to_vec())
            .map_err(|_| transfer::Closed)
    }

    async fn finish(&mut self, message: Vec<u8>) -> Result<(), transfer::Closed> {
        self.send(message).await
    }
}

/// The messages of the transfer for a request.
async fn messages(desk: &mut Desk, raw: &[u8], proto: Proto) -> Vec<Vec<u8>> {
    let tls = TlsPeer {
        has_dot: true,
        certificate: None,
    };
    let asker = Asker {
        tls: (proto == Proto::Tls).then_some(&tls),
        ..asker(proto)
    };
    let Outcome::Transfer(job) = desk.shared.respond(&mut desk.scratch, raw, asker) else {
        panic!("no transfer")
    };
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    job.run(Kept(sender)).await;
    let mut all = Vec::new();
    while let Some(message) = receiver.recv().await {
        all.push(message);
    }
    all
}

/// A desk with a zone of many messages, and a version before it.
fn large_desk() -> Desk {
    let names = |n: usize| {
        (0..n)
            .map(|n| format!("host{n} TXT t{n}"))
            .collect::<Vec<_>>()
    };
    let lines = names(3000);
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let zone = zone("z.", 5, &lines);
    publish(&zone, 6, &contents("z.", 60, &lines[..1500]));
    let mut setup = Setup::new(vec![zone]);
    setup.settings.transfer.message_octets = 1024;
    Desk::new(setup)
}

/// RFC 5936 section 2.2.5 and RFC 9103 section 6.3.4: OPT in each message; a second one breaks secondaries.
#[tokio::test]
async fn i02_i03_each_message_of_a_transfer_has_one_opt_and_the_first_the_options() {
    let mut desk = large_desk();
    let mut wished = ALL.to_vec();
    wished.push((KEEPALIVE, &[]));
    for raw in [query(1, "z.", Rtype::AXFR), ixfr(1, "z.", 5)] {
        let all = messages(&mut desk, &asking(raw, &wished), Proto::Tcp).await;
        assert!(all.len() > 20, "{}", all.len());
        for (number, message) in all.iter().enumerate() {
            let (count, found) = opts(message);
            assert_eq!(count, 1, "message {number}");
            let want: &[u16] = match number {
                0 => &[NSID, EXPIRE, COOKIE, KEEPALIVE, ZONEVERSION],
                _ => &[],
            };
            assert_eq!(codes(&found), want, "message {number}");
            assert!(message.len() <= 1024, "message {number}: {}", message.len());
        }
    }
}

/// RFC 7830 section 6 and RFC 8467 section 4.1: padded over TLS, when asked for, TSIG included.
#[tokio::test]
async fn replies_over_tls_are_padded_to_whole_blocks_when_asked() {
    let mut desk = large_desk();
    let wish: &[(u16, &[u8])] = &[(PADDING, &[0; 20])];
    let signed = |mut raw: Vec<u8>| {
        tsig::sign_request(&key("k."), &mut raw, NOW);
        raw
    };
    for raw in [
        asking(query(1, "host1.z.", Rtype::TXT), wish),
        signed(asking(query(1, "host1.z.", Rtype::TXT), wish)),
        asking(query(1, "no.z.", Rtype::TXT), wish),
    ] {
        for (proto, is_padded) in [(Proto::Udp, false), (Proto::Tcp, false), (Proto::Tls, true)] {
            let Got::Octets(octets) = desk.give(&raw, proto) else {
                panic!("no reply")
            };
            assert_eq!(octets.len() % PADDING_BLOCK == 0, is_padded, "{proto:?}");
            assert!(Message::from_vec(&octets).is_ok());
        }
    }
    let Got::Octets(unasked) = desk.give(&asking(query(1, "z.", Rtype::SOA), &[]), Proto::Tls)
    else {
        panic!("no reply")
    };
    assert!(unasked.len() < 200);
    for raw in [
        asking(query(1, "z.", Rtype::AXFR), wish),
        signed(asking(query(1, "z.", Rtype::AXFR), wish)),
    ] {
        let all = messages(&mut desk, &raw, Proto::Tls).await;
        let lengths: Vec<usize> = all.iter().map(Vec::len).collect();
        assert!(
            lengths.iter().all(|l| l % PADDING_BLOCK == 0 && *l <= 1024),
            "{lengths:?}"
        );
    }
}

/// A clock at this second.
#[derive(Debug)]
struct At(u64);

impl Clock for At {
    fn now(&self) -> Instant {
        ops::testing::TestClock.now()
    }

    fn wall(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(self.0)
    }
}

#[test]
fn i04_cookie_lengths_and_a_cookie_without_a_question() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    for (length, rcode) in [(7, 1), (8, 0), (15, 1), (16, 0), (40, 0), (41, 1)] {
        let raw = asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &vec![5; length])]);
        assert_eq!(desk.code(&raw), (rcode, None), "{length} octets");
    }
    // RFC 9018: our own cookie comes back while it is new enough. A forged one is replaced, and the query is answered.
    let first = desk.octets(&asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &[5; 8])]));
    let ours = opts(&first).1.swap_remove(0).1;
    let again = desk.octets(&asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &ours)]));
    assert_eq!(opts(&again).1, [(COOKIE, ours.clone())]);
    let mut forged = ours.clone();
    forged[20] ^= 1;
    let again = desk.octets(&asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &forged)]));
    assert_eq!(opts(&again).1, [(COOKIE, ours.clone())]);
    // If the forged cookie were taken for ours, a later clock would keep it. Our own is renewed in time.
    let mut later = Desk {
        shared: Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])])
            .server_with(Arc::new(At(NOW + 1000)))
            .shared,
        scratch: Scratch::new(),
    };
    let again = later.octets(&asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &ours)]));
    assert_eq!(opts(&again).1, [(COOKIE, ours)], "still new");
    let again = later.octets(&asking(query(1, "www.z.", Rtype::A), &[(COOKIE, &forged)]));
    assert_ne!(opts(&again).1, [(COOKIE, forged)], "replaced");
    // RFC 7873 section 5.4: a query without a question.
    let mut bare = vec![0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(desk.code(&bare), (1, None));
    bare = asking(bare, &[(COOKIE, &[5; 8])]);
    let reply = desk.octets(&bare);
    assert_eq!(
        (code_of(&reply).0, codes(&opts(&reply).1)),
        (0, vec![COOKIE])
    );
}

/// RFC 8482 section 4.1: one RRset, whatever else the name has; over TCP too.
#[test]
fn i05_any_is_one_rrset() {
    let mut desk = Desk::with(&["www A 10.0.0.1", "www AAAA ::1", "www TXT x"]);
    for raw in [
        query(1, "www.z.", Rtype::ANY),
        with_opt(query(1, "www.z.", Rtype::ANY), 1232, 0, &[]),
    ] {
        let message = desk.ask(&raw);
        assert_eq!(message.answers.len(), 1);
    }
}

#[test]
fn i06_a_zone_without_version_is_servfail_with_ede_14_on_queries_and_transfers() {
    let mut desk = Desk::new(Setup::new(vec![Arc::new(Zone::new(&name("z.")))]));
    let raw = |qtype| with_opt(query(1, "z.", qtype), 1232, 0, &[]);
    assert_eq!(desk.code(&raw(Rtype::SOA)), (2, Some(14)));
    assert_eq!(desk.tcp_code(&raw(Rtype::AXFR)), (2, Some(14)));
    let raw = with_opt(ixfr(1, "z.", 1), 1232, 0, &[]);
    assert_eq!(desk.tcp_code(&raw), (2, Some(14)));
}

/// RFC 7828 section 3.2: in units of 100 ms, never over UDP; 0 if the client should close.
#[test]
fn f04_keepalive_is_told_on_connections_and_is_nothing_once_the_server_ends() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let raw = asking(query(1, "www.z.", Rtype::A), &[(KEEPALIVE, &[])]);
    assert_eq!(opts(&desk.octets(&raw)).1, []);
    let told = |desk: &mut Desk| match desk.give(&raw, Proto::Tcp) {
        Got::Octets(octets) => opts(&octets).1,
        got @ (Got::Nothing | Got::Transfer) => panic!("{got:?}"),
    };
    assert_eq!(
        told(&mut desk),
        [(KEEPALIVE, 300_u16.to_be_bytes().to_vec())]
    );
    desk.shared.draining.store(true, Ordering::Relaxed);
    assert_eq!(told(&mut desk), [(KEEPALIVE, vec![0, 0])]);
}

/// transfer D3; RFC 9660 section 3.2 names referrals.
#[test]
fn a_referral_says_the_version_of_the_zone_that_it_is_from() {
    let mut desk = Desk::with(&["sub NS ns.sub", "ns.sub A 10.0.0.1"]);
    let raw = asking(query(1, "w.sub.z.", Rtype::A), &[(ZONEVERSION, &[])]);
    let (_, found) = opts(&desk.octets(&raw));
    assert_eq!(found, [(ZONEVERSION, vec![1, 0, 0, 0, 0, 5])]);
}

#[test]
fn extended_errors_say_why_there_is_no_answer() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let opt = |raw| with_opt(raw, 1232, 0, &[]);
    assert_eq!(desk.code(&opt(query(1, "y.", Rtype::A))), (5, Some(20)));
    assert_eq!(
        desk.tcp_code(&opt(query(1, "www.z.", Rtype::AXFR))),
        (9, Some(20))
    );
    assert_eq!(desk.code(&opt(query(1, "z.", Rtype::AXFR))), (4, Some(21)));
    let mut update = query(1, "z.", Rtype::SOA);
    update[2] = 5 << 3;
    assert_eq!(desk.code(&opt(update)), (4, Some(21)));
}

/// The space for options is set aside before records are written, so a datagram stays within its limit.
#[test]
fn options_count_for_the_limit_of_a_datagram() {
    let many: Vec<String> = (0..29).map(|n| format!("many A 10.0.0.{n}")).collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut desk = Desk::with(&lines);
    let raw = with_opt(query(1, "many.z.", Rtype::A), 512, 0, &options(ALL));
    let octets = desk.octets(&raw);
    assert!(octets.len() <= 512, "{}", octets.len());
    assert_eq!(codes(&opts(&octets).1), [NSID, COOKIE, ZONEVERSION]);
    let bare = desk.octets(&with_opt(query(1, "many.z.", Rtype::A), 512, 0, &[]));
    let count = |octets: &[u8]| Message::from_vec(octets).unwrap().answers.len();
    assert_eq!(
        (count(&octets), count(&bare)),
        (0, 29),
        "the options cost the answer"
    );
}

/// Answers with the size that the question asks for.
struct Sizes;

impl crate::Handler for Sizes {
    fn name(&self) -> &'static str {
        "sizes"
    }

    fn passes(&self, _: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(
        &'a self,
        request: &'a mut crate::Request,
        _: crate::Next,
    ) -> futures_util::future::BoxFuture<'a, crate::Outcome> {
        let [high, low] = request.edns.as_ref().unwrap().size.to_be_bytes();
        let mut reply = crate::Reply::empty("sizes", Rcode::NOERROR, 0);
        let (rtype, rdata) = dns::Rdata::address([10, 0, high, low].into());
        reply.answers.push(dns::Record {
            owner: request.name.clone(),
            rtype,
            ttl: dns::Ttl::ZERO,
            rdata,
        });
        Box::pin(std::future::ready(crate::Outcome::Reply(reply)))
    }
}

#[test]
fn handlers_are_asked_for_no_more_than_the_reply_may_have() {
    let size = |most: Option<u16>, asks: u16, proto| {
        let mut setup = Setup::new(vec![zone("z.", 5, &[])]);
        setup.handlers = [vec![Arc::new(Sizes)], vec![]];
        setup.shape.datagram_octets = most;
        let mut desk = Desk::new(setup);
        let asked = with_opt(query(1, "www.z.", Rtype::A), asks, 0, &[]);
        let Got::Octets(octets) = desk.give(&asked, proto) else {
            panic!("no answer");
        };
        let message = Message::from_vec(&octets).unwrap();
        line(&message.answers[0])
    };
    let says = |a: u8, b: u8| format!("www.z. 0 IN A 10.0.{a}.{b}");
    assert_eq!(size(None, 65_535, Proto::Udp), says(4, 208));
    assert_eq!(size(None, 900, Proto::Udp), says(3, 132));
    assert_eq!(size(Some(600), 65_535, Proto::Udp), says(2, 88));
    assert_eq!(size(None, 65_535, Proto::Tcp), says(255, 255));
}

#[test]
fn what_is_kept_for_its_answer_is_no_longer_than_a_datagram_may_be() {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.handlers[1] = vec![Arc::new(crate::testing::Counting::default())];
    let mut desk = Desk::new(setup);
    let padded = |qname: &str, whole: usize| {
        let raw = query(1, qname, Rtype::A);
        let rest = u16::try_from(whole - raw.len() - 15).unwrap();
        let mut option = [&[0, 12][..], &rest.to_be_bytes()].concat();
        option.resize(4 + usize::from(rest), 0);
        let raw = with_opt(raw, 1232, 0, &option);
        assert_eq!(raw.len(), whole);
        raw
    };
    assert_eq!(desk.tcp_code(&padded("far.test.", 4096)), (0, None));
    assert_eq!(desk.tcp_code(&padded("far.test.", 4097)), (1, None));
    // The zone's own answers are not stored.
    assert_eq!(desk.tcp_code(&padded("www.z.", 60_000)), (0, None));
}
