//! Requests of any octets get nothing or one good message.

use std::cell::RefCell;

use super::*;
use crate::fuzz::{Fuzz, Outcome as Came};

/// A desk with two zones, a history, and a key that one peer must use.
fn fuzzed_desk() -> Desk {
    let lines: Vec<String> = (0..60).map(|n| format!("many A 10.0.0.{n}")).collect();
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.extend([
        "www A 10.0.0.1",
        "alias CNAME www",
        "*.wild TXT t",
        "cut NS ns.cut",
        "ns.cut A 10.1.0.1",
    ]);
    let first = zone("z.", 5, &lines);
    publish(&first, 6, &testing::contents("z.", 60, &lines[1..]));
    Desk::new(Setup::new(vec![
        first,
        zone("y.z.", 9, &["b AAAA 2001:db8::1"]),
    ]))
}

/// A desk of one zone with handlers around it, as a Corefile says.
fn handlers_desk() -> Desk {
    use crate::corefile::{Overrides, parse_text};
    use crate::live::testing::counts;
    use crate::live::{
        Acl, AclRule, Cache, Dns64, Handler, Hosts, Loadbalance, Rewrite, Templates,
    };
    let text = ". {\n acl {\n  block type MX net *\n  allow net *\n }\n cache 30\n dns64\n loadbalance round_robin {\n  \
                prefer 10.0.0.0/8\n }\n rewrite name regex (.*)\\.old {1}.z answer auto\n rewrite edns0 local set 0xffee 0x01 revert\n \
                hosts {\n  10.0.0.1 host.z\n  fallthrough\n }\n \
                template IN A z {\n  match ^ip-(?P<a>[0-9]*)\\.z\\.$\n  answer \"{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}\"\n  \
                fallthrough\n }\n forward . 192.0.2.1\n}\n";
    let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
    let on = &loaded.config.servers[0].handlers;
    let metrics = crate::ops::HandlerMetrics::default();
    let counts = || counts(&metrics);
    let acl = |acl: &crate::corefile::Acl| AclRule {
        zones: acl.zones.clone(),
        policies: acl.policies.clone(),
    };
    let clock: Arc<dyn Clock> = crate::ops::HandClock::at(0);
    let cache = on.cache.clone().unwrap();
    let prefer = on.loadbalance.clone().unwrap().prefer;
    let before: Vec<Arc<dyn Handler>> = vec![
        Arc::new(Dns64::new(on.dns64.as_ref().unwrap(), counts())),
        Arc::new(Loadbalance::new(None, prefer)),
        Arc::new(Rewrite::new(on.rewrites.clone())),
        Arc::new(Acl::new(on.acls.iter().map(acl).collect(), counts())),
        Arc::new(Cache::new(cache, vec![], clock, &metrics, "dns://:53")),
        Arc::new(Templates::new(
            on.templates.clone(),
            crate::source::zonefile::record,
            counts(),
        )),
        Arc::new(Hosts::new(on.hosts.clone().unwrap(), &metrics)),
    ];
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1", "alias CNAME www"])]);
    setup.handlers = [before, vec![]];
    Desk::new(setup)
}

#[test]
fn requests_of_any_octets_get_nothing_or_a_message_from_handlers_too() {
    let desk = RefCell::new(handlers_desk());
    let mut seeds = requests();
    for (name, rtype) in [
        ("ip-7.z.", Rtype::A),
        ("host.z.", Rtype::AAAA),
        ("www.old.", Rtype::A),
        ("www.z.", Rtype::MX),
        ("1.0.0.10.in-addr.arpa.", Rtype::PTR),
    ] {
        let plain = query(7, name, rtype);
        seeds.push(with_opt(plain.clone(), 1232, 0, &[0, 8, 0, 4, 0, 1, 0, 0]));
        seeds.push(plain);
    }
    // Each part is reached.
    for (name, rtype, want) in [
        ("ip-7.z.", Rtype::A, (0, 1)),
        ("host.z.", Rtype::A, (0, 1)),
        ("www.old.", Rtype::A, (0, 1)),
        ("www.z.", Rtype::MX, (5, 0)),
    ] {
        let message = desk.borrow_mut().ask(&query(1, name, rtype));
        let came = (message.metadata.response_code.low(), message.answers.len());
        assert_eq!(came, want, "{name}");
    }
    Fuzz::new(seeds, PARTS).run("chain", |input| given(&desk, input));
}

/// Requests of all sorts.
fn requests() -> Vec<Vec<u8>> {
    let options: &[u8] = &[
        0, 3, 0, 0, 0, 9, 0, 0, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 19, 0, 0, 0, 11, 0, 0, 0,
        12, 0, 2, 0, 0,
    ];
    let mut all = Vec::new();
    for (name, rtype) in [
        ("z.", Rtype::SOA),
        ("www.z.", Rtype::A),
        ("many.z.", Rtype::A),
        ("x.wild.z.", Rtype::TXT),
        ("a.cut.z.", Rtype::A),
        ("alias.z.", Rtype::AAAA),
        ("z.", Rtype::AXFR),
        ("z.", Rtype(255)),
        ("b.y.z.", Rtype::AAAA),
    ] {
        let plain = query(7, name, rtype);
        all.push(with_opt(plain.clone(), 1232, 0, options));
        let mut signed = with_opt(plain.clone(), 4096, 0, &options[..4]);
        tsig::sign_request(&key("k."), &mut signed, NOW);
        all.push(signed);
        all.push(plain);
    }
    all.push(ixfr(8, "z.", 5));
    let mut signed = with_opt(ixfr(8, "z.", 5), 1232, 0, options);
    tsig::sign_request(&key("k."), &mut signed, NOW);
    all.push(signed);
    all
}

/// Parts of messages.
const PARTS: &[&[u8]] = &[
    b"\xc0\x0c",
    b"\xc0\x00",
    b"\xff\xff",
    b"\x00\x00\x29",
    b"\x00\x00\xfa\x00\xff",
    b"\x3f",
    b"\x40",
    b"\x00\xfb\x00\x01",
    b"\x00\xfc\x00\x01",
    b"\x00\x0a\x00\x28",
    b"\x00\x0a\x00\x10",
    b"\x00\x03\x00\x01z",
    b"\x01k\x00",
    b"\x0bhmac-sha256\x00",
    b"\x00\x01\x00\x00\x00\x00\x00\x01",
];

/// Gives a request to the desk as a datagram and over a connection.
fn given(desk: &RefCell<Desk>, input: &[u8]) -> Came {
    let mut words = String::new();
    for proto in [Proto::Udp, Proto::Tcp] {
        let octets = match desk.borrow_mut().give(input, proto) {
            Got::Nothing => {
                words += " nothing";
                continue;
            }
            Got::Transfer if proto == Proto::Udp => return Err("a transfer over UDP".to_owned()),
            Got::Transfer => {
                words += " transfer";
                continue;
            }
            Got::Octets(octets) => octets,
        };
        if octets.len() < 12 || octets[..2] != input[..2] || octets[2] & 0x80 == 0 {
            return Err(format!("no answer to it: {octets:?}"));
        }
        if proto == Proto::Udp && octets.len() > 1232 {
            return Err(format!("a datagram of {} octets", octets.len()));
        }
        let read = Message::from_vec(&octets).map_err(|error| error.to_string())?;
        let code = u16::from(read.metadata.response_code);
        let (some, opt) = (read.answers.len().min(3), read.edns.is_some());
        words += &format!(" {code} {some} {opt} {}", read.signature.is_some());
    }
    // Whatever came, the next one is answered.
    let good = desk.borrow_mut().code(&query(1, "www.z.", Rtype::A));
    match good {
        (0, None) => Ok(words),
        other => Err(format!("after it a good request gets {other:?}")),
    }
}

#[test]
fn requests_of_any_octets_get_nothing_or_a_message() {
    let desk = RefCell::new(fuzzed_desk());
    Fuzz::new(requests(), PARTS).run("message", |input| given(&desk, input));
}

/// The search itself: a fault that needs another EDNS version to be seen.
#[test]
fn a_fault_planted_behind_a_message_is_found() {
    let desk = RefCell::new(fuzzed_desk());
    let planted = |input: &[u8]| {
        let outcome = given(&desk, input)?;
        assert!(!outcome.starts_with(" 16 "), "planted");
        Ok(outcome)
    };
    Fuzz::new(requests(), PARTS).finds("message", planted);
}
