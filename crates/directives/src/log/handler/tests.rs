//! Tests of the lines for queries and failures.

use std::time::Duration;

use ops::{Clock, SystemClock};
use server::message::Metadata;
use server::{Findings, Router};

use super::*;
use crate::config::{Errors, Overrides, parse_text};

/// A query log from the `log` and `errors` lines of a block for `z`.
fn query_log(lines: &str) -> QueryLog {
    let text = format!("z {{\n{lines}\n}}\n");
    let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
    let block = &loaded.config.servers[0];
    let rules = Rules {
        logs: block.all().cloned().collect(),
        errors: block.get::<Errors>().map(|_| Arc::default()),
        metadata: vec![],
    };
    QueryLog::new(vec![rules]).unwrap()
}

/// The blocks `y` and `z`, which do nothing.
fn router() -> Router {
    let block = |zone: &str| {
        let zones = server::BlockZones::default();
        let block = server::Block::new(vec![], zones, vec![], server::Shape::default());
        (vec![zone.parse().unwrap()], block)
    };
    Router::new(vec![block("y."), block("z.")])
}

/// A message for `WwW.z A` with these flags, answers copied from the question, and an optional OPT.
fn message(flags: u16, answers: u16, soa: bool, opt: bool) -> Vec<u8> {
    let counts = [1, answers, u16::from(soa), u16::from(opt)];
    let mut octets = vec![0x12, 0x34];
    octets.extend_from_slice(&flags.to_be_bytes());
    counts
        .iter()
        .for_each(|count| octets.extend_from_slice(&count.to_be_bytes()));
    octets.extend_from_slice(b"\x03WwW\x01z\x00\x00\x01\x00\x01");
    for _ in 0..answers {
        octets
            .extend_from_slice(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x05\x00\x04\x0a\x00\x00\x01");
    }
    if soa {
        octets.extend_from_slice(b"\xc0\x10\x00\x06\x00\x01\x00\x00\x00\x05\x00\x00");
    }
    if opt {
        octets.extend_from_slice(b"\x00\x00\x29\x04\xd0\x00\x00\x80\x00\x00\x00");
    }
    octets
}

/// The line of an exchange.
fn line(log: &QueryLog, query: &[u8], reply: &[u8]) -> Option<String> {
    line_over("udp", log, query, reply)
}

/// The line of an exchange over a protocol.
fn line_over(proto: &'static str, log: &QueryLog, query: &[u8], reply: &[u8]) -> Option<String> {
    let (peer, local) = (
        "127.0.0.1:35809".parse().unwrap(),
        "127.0.0.1:53".parse().unwrap(),
    );
    let took = Duration::from_micros(333);
    let exchange = LoggedExchange {
        query,
        reply,
        findings: Findings {
            error: None,
            metadata: &Metadata::new(),
        },
        block: Some(0),
        router: &Router::default(),
        peer,
        local,
        proto,
        took,
        now: SystemClock.now(),
    };
    log.rules(&exchange)?.line(&exchange)
}

#[test]
fn the_common_format_is_that_of_coredns() {
    let log = query_log("log");
    let (query, reply) = (
        message(0x0100, 0, false, true),
        message(0x8500, 1, false, false),
    );
    assert_eq!(
        line(&log, &query, &reply).unwrap(),
        "127.0.0.1:35809 - 4660 \"A IN www.z. udp 34 true 1232\" NOERROR qr,aa,rd 44 0.000333s"
    );
    let plain = message(0, 0, false, false);
    let said = line(&log, &plain, &reply).unwrap();
    assert!(said.contains("udp 23 false 512"), "{said}");
}

#[test]
fn a_connection_takes_any_size_whatever_its_query_says() {
    let log = query_log("log . \"{>bufsize}\"");
    let reply = message(0x8500, 1, false, false);
    for (proto, opt, want) in [
        ("udp", true, "1232"),
        ("udp", false, "512"),
        ("tcp", true, "65535"),
        ("tcp", false, "65535"),
    ] {
        let query = message(0x0100, 0, false, opt);
        let said = line_over(proto, &log, &query, &reply);
        assert_eq!(said.as_deref(), Some(want), "{proto} {opt}");
    }
}

#[test]
fn what_gets_no_reply_is_logged_as_an_error_without_code() {
    let format = "log . \"{name} {rcode} {>rflags} {rsize} {/log/class} {/log/type}\"";
    let mut log = query_log(&format!("{format} {{\nclass error\n}}"));
    log.blocks[0].as_mut().unwrap().metadata = vec![Name::root()];
    let query = message(0x0100, 0, false, true);
    let said = line(&log, &query, &[]);
    assert_eq!(said.as_deref(), Some("www.z. - - 0 error OTHERERROR"));
    let log = query_log("log {\nclass success denial\n}");
    assert_eq!(line(&log, &query, &[]), None);
}

#[test]
fn the_code_is_whole_with_the_bits_of_the_opt() {
    let log = query_log("log . \"{rcode}\"");
    let query = message(0x0100, 0, false, true);
    let mut reply = message(0x8100, 0, false, true);
    let upper = reply.len() - 6;
    reply[upper] = 1;
    assert_eq!(line(&log, &query, &reply).as_deref(), Some("BADVERS"));
}

#[test]
fn classes_and_names_choose_what_is_logged() {
    let query = message(0, 0, false, false);
    let success = message(0x8400, 1, false, false);
    let nodata = message(0x8400, 0, true, false);
    let nxdomain = message(0x8403, 0, true, false);
    let servfail = message(0x8002, 0, false, false);
    for (class, logged) in [
        ("success", [true, false, false, false]),
        ("denial", [false, true, true, false]),
        ("error", [false, false, false, true]),
        ("all", [true, true, true, true]),
    ] {
        let log = query_log(&format!("log {{\nclass {class}\n}}"));
        let got = [&success, &nodata, &nxdomain, &servfail]
            .map(|reply| line(&log, &query, reply).is_some());
        assert_eq!(got, logged, "{class}");
    }
    let elsewhere = query_log("log other.z");
    assert_eq!(line(&elsewhere, &query, &success), None);
}

#[test]
fn errors_logs_failures_alone() {
    let log = query_log("errors");
    let query = message(0, 0, false, false);
    let metadata = Metadata::new();
    let router = Router::default();
    let exchange = |reply, error| LoggedExchange {
        query: &query,
        reply,
        findings: Findings {
            error,
            metadata: &metadata,
        },
        block: Some(0),
        router: &router,
        peer: "127.0.0.1:1".parse().unwrap(),
        local: "127.0.0.1:53".parse().unwrap(),
        proto: "udp",
        took: Duration::ZERO,
        now: SystemClock.now(),
    };
    let failed = message(0x8002, 0, false, false);
    let without = exchange(&failed, Some("the zone has no version yet"));
    let rules = log.rules(&without).unwrap();
    assert_eq!(
        rules.error_line(&without).unwrap().0,
        "2 WwW.z. A: the zone has no version yet"
    );
    let good = message(0x8400, 1, false, false);
    assert!(rules.error_line(&exchange(&good, None)).is_none());
    assert!(log.rules(&exchange(&good, None)).is_none());
}

#[test]
fn what_is_answered_by_a_block_that_logs_nothing_is_not_read() {
    let metadata = Metadata::new();
    let router = router();
    let query = message(0, 0, false, false);
    let said = |log: &QueryLog, block, error| {
        let exchange = LoggedExchange {
            query: if block == Some(0) { &[] } else { &query },
            reply: &[],
            findings: Findings {
                error,
                metadata: &metadata,
            },
            block,
            router: &router,
            peer: "127.0.0.1:1".parse().unwrap(),
            local: "127.0.0.1:53".parse().unwrap(),
            proto: "udp",
            took: Duration::ZERO,
            now: SystemClock.now(),
        };
        log.rules(&exchange).is_some()
    };
    let silent = || Rules {
        logs: vec![],
        errors: None,
        metadata: vec![],
    };
    let after_silent = |lines| {
        let logging = query_log(lines).blocks.swap_remove(0).unwrap();
        QueryLog::new(vec![silent(), logging]).unwrap()
    };
    assert!(QueryLog::new(vec![silent()]).is_none());
    let errors = after_silent("errors");
    assert!(!said(&errors, Some(1), None) && !said(&errors, None, None));
    assert!(said(&errors, Some(1), Some("why")) && said(&errors, None, Some("why")));
    let both = after_silent("log");
    assert!(!said(&both, Some(0), Some("why")) && said(&both, Some(1), None));
    // A query that no block took belongs to the block of its question, if there is one.
    assert!(said(&both, None, None));
    assert_eq!(question_of(&message(0, 0, false, false)[..20]), None);
}

#[test]
fn any_octets_are_read_without_panic() {
    let whole = message(0x8400, 2, true, true);
    // The last two octets are the length of the OPT, which the log does not read.
    for cut in 0..whole.len() - 2 {
        let parsed = parse(&whole[..cut]);
        assert!(parsed.edns.is_none(), "cut at {cut}");
    }
    assert_eq!(parse(&whole).edns, Some((1232, 0x8000)));
}

#[test]
fn the_first_log_whose_names_hold_the_question_decides_alone() {
    let query = message(0x0100, 0, false, true);
    let reply = message(0x8500, 1, false, false);
    for (lines, want) in [
        (
            "log z \"{name} one\"\nlog . \"{name} two\"",
            Some("www.z. one"),
        ),
        (
            "log . \"{name} one\"\nlog www.z \"{name} two\"",
            Some("www.z. one"),
        ),
        (
            "log y \"{name} one\"\nlog . \"{name} two\"",
            Some("www.z. two"),
        ),
        // If the classes of the first matching rule leave a query out, the next rule does not log it.
        (
            "log z \"{name} one\" {\nclass denial\n}\nlog . \"{name} two\"",
            None,
        ),
        ("log y \"{name} one\"", None),
    ] {
        let said = line(&query_log(lines), &query, &reply);
        assert_eq!(said.as_deref(), want, "{lines}");
    }
}
