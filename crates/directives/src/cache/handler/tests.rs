//! Tests of `cache` with a clock that the test moves.

use std::collections::VecDeque;

use dns::{Rcode, Rdata, Record, Rtype};
use ops::HandClock;
use server::Proto;
use server::chain::Router;
use server::message::Edns;
use server::testing::{ask, chain, chain_around, request, text};
use zone::testing::zone;

use super::*;
use crate::config::handler_metrics;
use crate::handlers::testing::counts;

/// The handlers after the cache: each question gets the next of these outcomes, and after the last one a bare code.
#[derive(Default)]
struct Script(Mutex<VecDeque<Outcome>>);

impl Handler for Script {
    fn name(&self) -> &'static str {
        "script"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, _request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        let next = self.0.lock().unwrap().pop_front();
        let end = || Outcome::failed("script", Rcode::SERVFAIL, "the end");
        std::future::ready(next.unwrap_or_else(end)).boxed()
    }
}

/// A reply: `CODE FLAGS` and records `OWNER TTL ADDRESS`, or `SOA TTL` for an SOA of `t.` in authority.
fn reply(rcode: u16, records: &[&str]) -> Outcome {
    let mut reply = Reply::empty("script", Rcode(rcode), flags::RA | flags::AD);
    for line in records {
        let words: Vec<&str> = line.split(' ').collect();
        let ttl = Ttl::decode(words[1].parse().unwrap());
        if words[0] == "SOA" {
            let rdata =
                Rdata::from_octets(&[[1, b'n', 0].as_slice(), &[0], &[0; 20]].concat()).unwrap();
            let owner = "t.".parse().unwrap();
            reply.authority.push(Record {
                owner,
                rtype: Rtype::SOA,
                ttl,
                rdata,
            });
        } else {
            let (rtype, rdata) = Rdata::address(words[2].parse().unwrap());
            reply.answers.push(Record {
                owner: words[0].parse().unwrap(),
                rtype,
                ttl,
                rdata,
            });
        }
    }
    Outcome::Reply(reply)
}

/// A cache with these lines in front of a script.
struct Setup {
    clock: Arc<HandClock>,
    cache: Arc<CacheHandler>,
    server: Arc<Router>,
    script: Arc<Script>,
}

/// The handler of a block `{ cache WORDS { LINES } }`.
fn cache(lines: &str, clock: Arc<HandClock>) -> Arc<CacheHandler> {
    let corefile = format!(". {{\n cache {lines}\n forward . 192.0.2.1\n}}\n");
    let overrides = crate::config::Overrides::default();
    let loaded = crate::config::parse_text("Corefile", &corefile, &overrides, &|_| None).unwrap();
    let block = &loaded.config.servers[0];
    let config: &Cache = block.get().unwrap();
    let metrics = handler_metrics();
    let counts = counts(&metrics);
    let by_subnet = crate::forward::sends_subnet(block);
    Arc::new(CacheHandler::new(
        config.clone(),
        vec![],
        by_subnet,
        clock,
        counts,
    ))
}

impl Setup {
    fn new(lines: &str, script: Vec<Outcome>) -> Self {
        let clock = HandClock::at(0);
        let cache = cache(lines, Arc::clone(&clock));
        let script = Arc::new(Script(Mutex::new(script.into())));
        let server = chain(
            vec![Arc::clone(&cache) as Arc<dyn Handler>],
            vec![Arc::clone(&script) as Arc<dyn Handler>],
        );
        Self {
            clock,
            cache,
            server,
            script,
        }
    }

    /// The reply to a question at its first poll.
    fn ask(&self, question: &str) -> String {
        ask(&self.server, question)
    }

    /// Runs the refreshes in the queue.
    async fn refresh(&self) {
        let cancel = CancellationToken::new();
        let waiting = self.cache.waiting.lock().unwrap().take();
        let mut task = Arc::clone(&self.cache)
            .refresh_all(waiting.unwrap(), cancel)
            .boxed();
        for _ in 0..4 {
            assert!((&mut task).now_or_never().is_none());
        }
        tokio::task::yield_now().await;
    }

    /// The number of outcomes left in the script.
    fn left(&self) -> usize {
        self.script.0.lock().unwrap().len()
    }
}

#[tokio::test]
async fn ttls_are_capped_at_once_and_count_down() {
    let setup = Setup::new(
        "30",
        vec![
            reply(0, &["a.t. 300 10.0.0.1"]),
            reply(0, &["a.t. 2 10.0.0.2"]),
        ],
    );
    assert_eq!(setup.ask("a.t. A"), "NOERROR | a.t. 30 IN A 10.0.0.1");
    setup.clock.advance(12);
    assert_eq!(setup.ask("A.t. A"), "NOERROR | a.t. 18 IN A 10.0.0.1");
    setup.clock.advance(18);
    assert_eq!(setup.ask("a.t. A"), "NOERROR | a.t. 5 IN A 10.0.0.2");
    assert_eq!(setup.left(), 0);
}

#[tokio::test]
async fn what_is_kept_has_of_ad_what_was_wished() {
    let setup = Setup::new("", vec![reply(0, &["a.t. 300 10.0.0.1"])]);
    let flags_of = |wanted: u16| {
        let mut asked = request("a.t. A");
        asked.flags |= wanted;
        let outcome = Arc::clone(&setup.server).answer(&mut asked).now_or_never();
        match outcome.unwrap() {
            Outcome::Reply(reply) => (reply.by, reply.flags),
            other @ (Outcome::Failed(_) | Outcome::Dropped) => panic!("{other:?}"),
        }
    };
    assert_eq!(flags_of(0), ("script", flags::RA));
    assert_eq!(flags_of(0), ("cache", flags::RA));
    assert_eq!(flags_of(flags::AD), ("cache", flags::RA | flags::AD));
}

#[tokio::test]
async fn denials_failures_and_answers_have_times_of_their_own() {
    let script = vec![
        reply(3, &["SOA 100"]),
        reply(2, &[]),
        reply(0, &["a.t. 9 10.0.0.1"]),
        reply(5, &[]),
        reply(5, &[]),
    ];
    let setup = Setup::new("100 {\n denial 10 60 1\n servfail 3s\n }", script);
    assert!(setup.ask("n.t. A").starts_with("NXDOMAIN ; t. 60 IN SOA"));
    setup.clock.advance(59);
    assert!(setup.ask("n.t. A").starts_with("NXDOMAIN ; t. 1 IN SOA"));
    assert_eq!(setup.ask("f.t. A"), "SERVFAIL");
    setup.clock.advance(2);
    assert_eq!(setup.ask("f.t. A"), "SERVFAIL");
    setup.clock.advance(1);
    assert_eq!(setup.ask("f.t. A"), "NOERROR | a.t. 9 IN A 10.0.0.1");
    assert_eq!(setup.ask("r.t. A"), "REFUSED");
    assert_eq!(setup.ask("r.t. A"), "REFUSED");
    assert_eq!(setup.left(), 0);
}

#[tokio::test]
async fn an_upstream_that_failed_is_not_asked_again_at_once_but_a_plain_code_is() {
    let plain = Outcome::Failed(server::message::Failure {
        rcode: Rcode::SERVFAIL,
        by: "x",
        error: None,
        extended: None,
    });
    let down = Outcome::failed("x", Rcode::SERVFAIL, "down");
    let good = || reply(0, &["a.t. 9 10.0.0.1"]);
    let setup = Setup::new("", vec![down, good(), plain, good()]);
    assert_eq!(setup.ask("a.t. A"), "SERVFAIL: down");
    assert_eq!(setup.ask("a.t. A"), "SERVFAIL");
    setup.clock.advance(5);
    assert_eq!(setup.ask("a.t. A"), "NOERROR | a.t. 9 IN A 10.0.0.1");
    assert_eq!(setup.ask("b.t. A"), "SERVFAIL: -");
    assert_eq!(setup.ask("b.t. A"), "NOERROR | a.t. 9 IN A 10.0.0.1");
}

#[tokio::test]
async fn an_answer_that_is_asked_for_often_is_asked_for_before_its_end() {
    let setup = Setup::new(
        "{\n prefetch 2 1m 20%\n }",
        vec![
            reply(0, &["a.t. 100 10.0.0.1"]),
            reply(0, &["a.t. 100 10.0.0.2"]),
        ],
    );
    assert!(setup.ask("a.t. A").contains("10.0.0.1"));
    assert!(setup.ask("a.t. A").contains("10.0.0.1"));
    setup.clock.advance(50);
    assert!(setup.ask("a.t. A").contains(" 50 IN A 10.0.0.1"));
    setup.clock.advance(35);
    assert!(setup.ask("a.t. A").contains(" 15 IN A 10.0.0.1"));
    assert_eq!(setup.left(), 1);
    setup.refresh().await;
    assert!(setup.ask("a.t. A").contains(" 100 IN A 10.0.0.2"));
}

#[tokio::test]
async fn what_is_past_its_end_is_given_while_it_is_asked_for_again() {
    let setup = Setup::new(
        "{\n serve_stale 1h immediate 7s\n }",
        vec![
            reply(0, &["a.t. 10 10.0.0.1"]),
            reply(0, &["a.t. 10 10.0.0.2"]),
        ],
    );
    assert!(setup.ask("a.t. A").contains("10.0.0.1"));
    setup.clock.advance(3000);
    assert!(setup.ask("a.t. A").contains(" 7 IN A 10.0.0.1"));
    assert!(setup.ask("a.t. A").contains(" 7 IN A 10.0.0.1"));
    setup.refresh().await;
    assert!(setup.ask("a.t. A").contains(" 10 IN A 10.0.0.2"));
    setup.clock.advance(4000);
    assert_eq!(setup.ask("a.t. A"), "SERVFAIL: the end");
    assert_eq!(setup.ask("a.t. A"), "SERVFAIL");
}

#[tokio::test]
async fn with_verify_the_old_is_given_when_the_source_fails() {
    let script = vec![
        reply(0, &["a.t. 10 10.0.0.1"]),
        reply(2, &[]),
        reply(0, &["a.t. 10 10.0.0.2"]),
        reply(3, &["SOA 10"]),
    ];
    let setup = Setup::new("{\n serve_stale 1h verify\n }", script);
    assert!(setup.ask("a.t. A").contains("10.0.0.1"));
    setup.clock.advance(20);
    assert!(setup.ask("a.t. A").contains(" 0 IN A 10.0.0.1"));
    assert!(setup.ask("a.t. A").contains(" 10 IN A 10.0.0.2"));
    setup.clock.advance(20);
    assert!(setup.ask("a.t. A").starts_with("NXDOMAIN"));
    assert!(setup.ask("a.t. A").starts_with("NXDOMAIN"));
}

#[tokio::test]
async fn a_source_that_failed_is_not_asked_again_for_a_while() {
    let script = vec![
        reply(0, &["a.t. 10 10.0.0.1"]),
        reply(2, &[]),
        reply(0, &["a.t. 10 10.0.0.2"]),
    ];
    let setup = Setup::new("{\n serve_stale 1h verify 0 3s 60s\n }", script);
    assert!(setup.ask("a.t. A").contains("10.0.0.1"));
    setup.clock.advance(20);
    assert!(setup.ask("a.t. A").contains(" 3 IN A 10.0.0.1"));
    assert!(setup.ask("a.t. A").contains(" 3 IN A 10.0.0.1"));
    assert_eq!(setup.left(), 1);
    setup.clock.advance(60);
    assert!(setup.ask("a.t. A").contains(" 10 IN A 10.0.0.2"));
}

#[tokio::test]
async fn nothing_is_kept_of_names_that_are_disabled() {
    let script = (1..=4)
        .map(|number| reply(0, &[&format!("a.t. 60 10.0.0.{number}")]))
        .collect();
    let setup = Setup::new("{\n disable success off.t\n }", script);
    assert!(setup.ask("a.off.t. A").contains("10.0.0.1"));
    assert!(setup.ask("a.off.t. A").contains("10.0.0.2"));
    assert!(setup.ask("a.t. A").contains("10.0.0.3"));
    assert!(setup.ask("a.t. A").contains("10.0.0.3"));
}

#[tokio::test]
async fn names_of_zones_are_never_kept_but_what_they_leave_to_the_next_is() {
    let script = Arc::new(Script(Mutex::new(
        vec![reply(0, &["x.z. 60 10.9.9.9"])].into(),
    )));
    let held = zone("z.", 1, &["www A 10.1.0.1"]);
    let cache = cache("", HandClock::at(0));
    let fore: Vec<Arc<dyn Handler>> = vec![Arc::clone(&cache) as Arc<dyn Handler>];
    let server = chain_around(fore, vec![held], vec![script]);
    assert_eq!(
        ask(&server, "www.z. A"),
        "NOERROR | www.z. 60 IN A 10.1.0.1"
    );
    assert!(cache.kept(&request("www.z. A")).is_none());
    assert!(ask(&server, "x.z. A").contains("10.9.9.9"));
    assert!(ask(&server, "x.z. A").contains("10.9.9.9"));
    assert!(cache.kept(&request("x.z. A")).is_some());
}

#[tokio::test]
async fn with_keepttl_ttls_stand_still() {
    let setup = Setup::new("{\n keepttl\n }", vec![reply(0, &["a.t. 100 10.0.0.1"])]);
    assert!(setup.ask("a.t. A").contains(" 100 IN"));
    setup.clock.advance(99);
    assert!(setup.ask("a.t. A").contains(" 100 IN"));
    assert_eq!(text(&reply(5, &[]), 1), "REFUSED");
}

#[test]
fn a_failure_is_never_given_after_its_end() {
    for code in [2, 4] {
        let script = vec![reply(code, &[]), reply(0, &["a.t. 60 10.0.0.1"])];
        let setup = Setup::new("{\n serve_stale\n servfail 5s\n}", script);
        let failed = setup.ask("a.t. A");
        setup.clock.advance(4);
        assert_eq!(setup.ask("a.t. A"), failed);
        setup.clock.advance(2);
        let said = setup.ask("a.t. A");
        assert!(said.starts_with("NOERROR"), "{code}: {said}");
    }
}

#[tokio::test]
async fn a_refresh_that_finds_no_room_or_panics_is_tried_again() {
    let setup = Setup::new("60", vec![reply(0, &["a.t. 60 10.0.0.1"])]);
    setup.ask("a.t. A");
    let item = setup.cache.kept(&request("a.t. A")).unwrap();
    let now = setup.clock.now();
    let first = item.begin_refresh(now).unwrap();
    assert!(item.begin_refresh(now).is_none());
    drop(first);
    let again = item.begin_refresh(now).unwrap();
    let panics = ops::catch_panic(async move {
        let _held = again;
        panic!("as a handler may");
    });
    assert_eq!(panics.await, Err::<(), _>("as a handler may".to_owned()));
    let later = now + Duration::from_secs(1);
    item.begin_refresh(now).unwrap().end(Some(later));
    assert!(item.begin_refresh(now).is_none() && item.begin_refresh(later).is_some());
}

/// A handler after the cache. It answers every question with this number of addresses, and counts the questions for
/// names below `hot.`.
struct Addresses {
    records: u16,
    ttl: u32,
    hot: std::sync::atomic::AtomicUsize,
}

impl Handler for Addresses {
    fn name(&self) -> &'static str {
        "addresses"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        if request.name.is_within(&"hot.".parse().unwrap()) {
            self.hot.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
        let mut reply = Reply::empty("addresses", Rcode::NOERROR, flags::RA);
        reply.answers.extend((0..self.records).map(|number| {
            let [high, low] = number.to_be_bytes();
            let (rtype, rdata) = Rdata::address([10, 0, high, low].into());
            Record {
                owner: request.name.clone(),
                rtype,
                ttl: Ttl::decode(self.ttl),
                rdata,
            }
        }));
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}

/// A cache with these options in front of [`Addresses`].
fn before(
    lines: &str,
    records: u16,
    ttl: u32,
) -> (
    Arc<HandClock>,
    Arc<CacheHandler>,
    Arc<Router>,
    Arc<Addresses>,
) {
    let clock = HandClock::at(0);
    let cache = cache(lines, Arc::clone(&clock));
    let behind = Arc::new(Addresses {
        records,
        ttl,
        hot: 0.into(),
    });
    let server = chain(
        vec![Arc::clone(&cache) as Arc<dyn Handler>],
        vec![Arc::clone(&behind) as Arc<dyn Handler>],
    );
    (clock, cache, server, behind)
}

/// CoreDNS, which evicts replies at random, asks for the hot names here about 120 times.
#[test]
fn a_flood_of_other_names_does_not_push_out_those_that_are_asked_again() {
    let (_, _, server, behind) = before("", 1, 3600);
    let mut others = (0..).map(|number| format!("n{number}.cold. A"));
    let mut ask_others = |count| {
        for question in others.by_ref().take(count) {
            ask(&server, &question);
        }
    };
    ask_others(20_000);
    for _ in 0..20 {
        for number in 0..100 {
            ask(&server, &format!("n{number}.hot. A"));
        }
        ask_others(200);
    }
    let asked = behind.hot.load(std::sync::atomic::Ordering::Relaxed);
    assert!(asked <= 105, "100 names are asked for {asked} times");
}

/// The bound is one of bytes: 1024 of these replies are 49 MB.
#[test]
fn large_replies_take_the_places_of_many() {
    let (_, cache, server, _) = before("{\n success 1024\n }", 200, 3600);
    let name = ["a"; 20].map(|label| label.repeat(9)).join(".");
    for number in 0..1024 {
        ask(&server, &format!("n{number}.{name}. A"));
    }
    let kept = cache.success.count();
    let least = 200 * (name.len() + size_of::<Record>());
    let bytes = usize::try_from(kept).unwrap() * least;
    assert!(
        kept > 0 && bytes <= 1024 * 2048,
        "{kept} replies of {least} bytes"
    );
}

/// A question for an expired reply removes it. Expired replies without further questions make room for new ones.
#[test]
fn replies_past_their_end_are_gone_and_make_room() {
    let (clock, cache, server, behind) = before("", 1, 60);
    let ask_all = |zone: &str, count: usize, times: usize| {
        for number in 0..count {
            for _ in 0..times {
                ask(&server, &format!("n{number}.{zone}. A"));
            }
        }
    };
    // The cache is full of names that had several questions each.
    ask_all("cold", 12_000, 4);
    clock.advance(61);
    let full = cache.success.count();
    assert!((9000..=10_000).contains(&full), "{full}");
    let last = request("n11999.cold. A");
    assert!(
        cache
            .find(Key::of(&last, false).as_octets(), clock.now())
            .is_none()
    );
    assert_eq!(cache.success.count(), full - 1);
    let counted = cache.counts.entries[0].get();
    assert_eq!(counted.to_string(), (full - 1).to_string());
    for _ in 0..3 {
        ask_all("hot", 1000, 1);
    }
    let asked = behind.hot.load(std::sync::atomic::Ordering::Relaxed);
    assert!(asked <= 1010, "1000 names are asked for {asked} times");
}

#[test]
fn security_12_a_reply_is_kept_for_a_subnet_where_that_goes_on_to_the_upstream() {
    let asked = |subnet: &[u8]| {
        let mut asked = request("a.t. A");
        let mut options = vec![];
        edns::push_option(&mut options, CLIENT_SUBNET, subnet);
        asked.edns = Some(Edns {
            size: 1232,
            dnssec_ok: false,
            options,
        });
        asked
    };
    let block = |forward: &str| {
        let text = format!(". {{\n cache\n {forward}\n}}\n");
        let overrides = crate::config::Overrides::default();
        let read = crate::config::parse_text("Corefile", &text, &overrides, &|_| None).unwrap();
        crate::forward::sends_subnet(&read.config.servers[0])
    };
    for (forward, differs) in [
        ("forward . 192.0.2.1", false),
        ("forward . 192.0.2.1 {\n client_subnet\n }", true),
        ("rewrite edns0 subnet set 24 56\n forward . 192.0.2.1", true),
        ("rewrite edns0 subnet unset\n forward . 192.0.2.1", false),
        ("rewrite edns0 subnet set 24 56", false),
    ] {
        let by_subnet = block(forward);
        let key = |subnet: &[u8]| Key::of(&asked(subnet), by_subnet).as_octets().to_vec();
        let [nine, eight] = [9, 8].map(|net| key(&[0, 1, 8, 0, net]));
        assert_eq!(nine != eight, differs, "{forward}");
        assert_eq!(nine, key(&[0, 1, 8, 0, 9]));
        // Longer ones than there are.
        key(&[7; 300]);
    }
}

#[test]
fn security_03_a_hit_copies_no_more_records_than_show_that_they_do_not_fit() {
    let lines: Vec<String> = (0..4000)
        .map(|n| format!("a.t. 60 10.0.{}.{}", n / 250, n % 250))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let Outcome::Reply(all) = reply(0, &lines) else {
        panic!("the script gives a reply");
    };
    let item = Item::new(&all, true, 60, HandClock::at(0).now());
    let mut asked = request("a.t. A");
    let octets_of_records = |reply: &Reply| 16 * reply.answers.len();
    let small = item.reply(&asked, 60);
    assert!(
        (513..1200).contains(&octets_of_records(&small)),
        "{small:?}"
    );
    asked.edns = Some(Edns {
        size: 1232,
        dnssec_ok: false,
        options: Vec::new(),
    });
    let larger = item.reply(&asked, 60);
    assert!(
        (1233..2400).contains(&octets_of_records(&larger)),
        "{larger:?}"
    );
    asked.origin.proto = Proto::Tcp;
    assert_eq!(item.reply(&asked, 60).answers.len(), 4000);
}
