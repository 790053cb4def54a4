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
