//! Tests with requests of any octets: each gets no reply or one valid reply.

use std::cell::RefCell;

use ::fuzz::Fuzz;

use super::*;
use crate::testing::desk::{PARTS, given, requests};

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
    publish(&first, 6, &contents("z.", 60, &lines[1..]));
    Desk::new(Setup::new(vec![
        first,
        zone("y.z.", 9, &["b AAAA 2001:db8::1"]),
    ]))
}

#[test]
fn requests_of_any_octets_get_nothing_or_a_message() {
    let desk = RefCell::new(fuzzed_desk());
    Fuzz::new(requests(), PARTS).run("message", |input| given(&desk, input));
}

/// Plants a fault that only a request with another EDNS version shows.
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
