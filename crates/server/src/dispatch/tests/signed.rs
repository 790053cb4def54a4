//! Tests of signed questions and their replies.

use zone::Version;

use super::*;
use crate::{Synthesized, SynthesizedNames};

#[test]
fn e09_e11_signed_requests_get_signed_replies_also_refusals_and_truncated_ones() {
    let many: Vec<String> = (0..100).map(|n| format!("many A 10.0.0.{n}")).collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut setup = Setup::new(vec![zone("z.", 5, &lines)]);
    setup.access = vec!["192.0.2.7 other."];
    let mut desk = Desk::new(setup);
    let sign = |mut raw: Vec<u8>| {
        let mac = tsig::sign_request(&key("k."), &mut raw, NOW);
        (raw, mac)
    };
    let check = |octets: &[u8], mac: &[u8]| {
        let at = dns::tsig_place(octets).expect("the reply is signed");
        assert!(tsig::is_reply_valid(&key("k."), mac, octets, at, NOW));
    };
    let (raw, mac) = sign(with_opt(query(1, "many.z.", Rtype::A), 512, 0, &[]));
    let octets = desk.octets(&raw);
    check(&octets, &mac);
    assert!(octets.len() <= 512);
    let message = Message::from_vec(&octets).unwrap();
    assert!(message.metadata.truncation && message.edns.is_some());
    let (raw, mac) = sign(with_opt(query(1, "z.", Rtype::AXFR), 512, 0, &[]));
    let Got::Octets(octets) = desk.give(&raw, Proto::Tcp) else {
        panic!("no reply")
    };
    assert_eq!(code_of(&octets), (5, Some(18)));
    check(&octets, &mac);
    let mut notify = query(1, "z.", Rtype::SOA);
    notify[2] = 4 << 3;
    let (raw, mac) = sign(notify);
    check(&desk.octets(&raw), &mac);
}

#[test]
fn e07_a_refused_signature_is_notauth_and_one_out_of_place_formerr() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let mut raw = query(1, "www.z.", Rtype::A);
    tsig::sign_request(&key("nobody."), &mut raw, NOW);
    let octets = desk.octets(&raw);
    assert_eq!(code_of(&octets), (9, None));
    assert!(dns::tsig_place(&octets).is_some());
    let mut first = query(1, "www.z.", Rtype::A);
    tsig::sign_request(&key("k."), &mut first, NOW);
    assert_eq!(desk.code(&first).0, 0);
    // RFC 8945 section 5.1: a TSIG that is not the last record, or a second one, is FORMERR.
    assert_eq!(desk.code(&with_opt(first.clone(), 512, 0, &[])), (1, None));
    let record = first[query(1, "www.z.", Rtype::A).len()..].to_vec();
    let mut in_answer = first.clone();
    in_answer[7] = 1;
    in_answer[11] = 0;
    assert_eq!(desk.code(&in_answer), (1, None), "in the answer section");
    count(&mut first, 3);
    first.extend_from_slice(&record);
    assert_eq!(desk.code(&first), (1, None));
}

#[test]
fn a_signed_question_gets_what_the_zone_holds_and_no_handler_changes_it() {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.1.0.1"])]);
    setup.handlers[0] = vec![Arc::new(crate::testing::Counting::default())];
    setup.shape.is_minimal = true;
    let mut desk = Desk::new(setup);
    let address = |message: &Message| line(&message.answers[0]);
    let plain = desk.ask(&query(1, "www.z.", Rtype::A));
    assert_eq!(address(&plain), "www.z. 300 IN A 10.0.0.1");
    let mut raw = query(2, "www.z.", Rtype::A);
    tsig::sign_request(&key("k."), &mut raw, NOW);
    assert_eq!(address(&desk.ask(&raw)), "www.z. 60 IN A 10.1.0.1");
}

/// Answers that each zone has a name `one`.
#[derive(Debug)]
struct OneName;

impl SynthesizedNames for OneName {
    fn answer(&self, version: &Version, name: &[u8]) -> Synthesized {
        let apex = version.contents.apex().as_wire();
        if name.strip_prefix(b"\x03one") != Some(apex) {
            return Synthesized::Missing;
        }
        Synthesized::Exists {
            node: None,
            by: "one",
        }
    }

    fn is_same(&self, _other: &dyn SynthesizedNames) -> bool {
        true
    }
}

#[test]
fn a_signed_question_is_not_completed_past_its_zone() {
    let lines = ["www A 10.1.0.1", "out CNAME www.elsewhere."];
    let mut setup = Setup::new(vec![zone("z.", 5, &lines)]);
    setup.handlers[1] = vec![Arc::new(crate::testing::Counting::default())];
    setup.fallthrough = vec![name("z.")];
    setup.synthesized.push(Arc::new(OneName));
    let mut desk = Desk::new(setup);
    let mut said = |qname: &str, is_signed: bool| {
        let mut raw = query(2, qname, Rtype::A);
        if is_signed {
            tsig::sign_request(&key("k."), &mut raw, NOW);
        }
        let message = desk.ask(&raw);
        let lines: Vec<String> = message.answers.iter().map(line).collect();
        (message.metadata.response_code.low(), lines)
    };
    let alias = "out.z. 60 IN CNAME www.elsewhere.".to_owned();
    let target = "www.elsewhere. 300 IN A 10.0.0.1".to_owned();
    assert_eq!(said("out.z.", false), (0, vec![alias.clone(), target]));
    assert_eq!(said("out.z.", true), (0, vec![alias]));
    let of_next = "no.z. 300 IN A 10.0.0.2".to_owned();
    assert_eq!(said("no.z.", false), (0, vec![of_next]));
    assert_eq!(said("no.z.", true), (3, vec![]));
    // A synthesized name is no part of the zone.
    assert_eq!(said("one.z.", false), (0, vec![]));
    assert_eq!(said("one.z.", true), (3, vec![]));
}

#[test]
fn a_clock_that_is_off_is_told_once_a_minute_and_a_bad_signature_only_of_a_secondary() {
    let mut setup = Setup::new(vec![zone("z.", 5, &[])]);
    let secondary: SocketAddr = ([192, 0, 2, 8], 53).into();
    setup.secondaries = vec![transfer::Secondary {
        zone: name("z."),
        target: secondary,
        keys: vec![],
        source: None,
    }];
    let clock = ops::HandClock::at(NOW);
    let shared = setup.server_with(clock.clone()).shared;
    let refusal = |raw: &[u8]| {
        let at = dns::tsig_place(raw).expect("the request is signed");
        match tsig::verify(&shared.keys.current(), raw, at, NOW) {
            Verdict::Refused(refusal) => refusal,
            Verdict::Valid(_) | Verdict::Malformed => panic!("it is not refused"),
        }
    };
    let mut raw = query(1, "z.", Rtype::SOA);
    tsig::sign_request(&key("k."), &mut raw, NOW - 1000);
    let late = refusal(&raw);
    assert_eq!(late.error, TsigError::BadTime);
    assert_eq!(late.seconds_ahead(NOW), Some(-1000));
    let (stranger, told) = (PEER.into(), |it, peer| shared.is_told(it, peer));
    assert!(told(&late, stranger) && !told(&late, stranger) && !told(&late, secondary));
    clock.advance(60);
    assert!(told(&late, stranger) && !told(&late, stranger));
    let mut raw = query(1, "z.", Rtype::SOA);
    tsig::sign_request(&key("k."), &mut raw, NOW);
    raw[13] = b'y';
    let altered = refusal(&raw);
    assert_eq!(altered.error, TsigError::BadSig);
    assert_eq!(altered.seconds_ahead(NOW), None);
    assert!(!told(&altered, stranger) && told(&altered, secondary) && told(&altered, secondary));
}
