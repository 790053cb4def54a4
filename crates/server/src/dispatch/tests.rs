//! Tests of the rules, without sockets: octets in, octets out.

mod rates;
mod signed;
mod transfers;

use std::sync::Arc;

use dns::Serial;
use dns::testing::{answers, count, ixfr, key, line, name, query, with_opt};
use hickory_proto::op::Message;
use ops::Clock;
use ops::testing::NOW;
use transfer::TlsPeer;
use zone::Zone;
use zone::testing::{contents, publish, zone};

use super::*;
use crate::Question;
use crate::testing::Setup;
use crate::testing::desk::{Desk, Got, PEER, asker, code_of};

mod edns;
mod fuzz;

#[test]
fn an_answer_copies_id_question_and_rd_and_sets_aa() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let octets = desk.octets(&query(0xbeef, "wWw.Z.", Rtype::A));
    assert_eq!(octets[..4], [0xbe, 0xef, 0x85, 0x00]);
    // The reply has the letters of the question (0x20).
    assert_eq!(octets[12..19], *b"\x03wWw\x01Z\x00");
    let mut without_rd = query(1, "www.z.", Rtype::A);
    without_rd[2] = 0;
    assert_eq!(desk.octets(&without_rd)[2..4], [0x84, 0]);
    let message = desk.ask(&query(1, "wWw.z.", Rtype::A));
    assert_eq!(
        message.answers.iter().map(line).collect::<Vec<_>>(),
        ["wWw.z. 60 IN A 10.0.0.1"]
    );
    assert!(message.edns.is_none());
    // conformance 8
    let soa = line(&desk.ask(&query(1, "Z.", Rtype::SOA)).answers[0]);
    assert!(soa.starts_with("Z. 60 IN SOA ns.z. "), "{soa}");
}

/// RFC 2308 section 5: the TTL of a negative answer is the lesser of the SOA's TTL and its minimum.
#[test]
fn negative_answers_carry_the_soa_with_the_negative_ttl() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    for (qname, qtype, code) in [("no.z.", Rtype::A, 3), ("www.z.", Rtype::TXT, 0)] {
        let message = desk.ask(&query(1, qname, qtype));
        assert_eq!(u16::from(message.metadata.response_code), code);
        assert!(message.answers.is_empty());
        let soa = line(&message.authorities[0]);
        assert!(
            soa.starts_with("z. 7 IN SOA ns.z. hostmaster.z. 5 "),
            "{soa}"
        );
    }
}

#[test]
fn what_cannot_be_read_is_formerr_or_silence() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let good = query(1, "www.z.", Rtype::A);
    for cut in 0..12 {
        assert!(
            matches!(desk.give(&good[..cut], Proto::Udp), Got::Nothing),
            "cut at {cut}"
        );
    }
    for cut in 12..good.len() {
        assert_eq!(desk.code(&good[..cut]), (1, None), "cut at {cut}");
    }
    let mut response = good.clone();
    response[2] |= 0x80;
    assert!(matches!(desk.give(&response, Proto::Udp), Got::Nothing));
    let mut trailing = good.clone();
    trailing.push(0);
    assert_eq!(desk.code(&trailing), (1, None));
    for questions in [0, 2] {
        let mut other = good.clone();
        other[5] = questions;
        assert_eq!(desk.code(&other), (1, None), "{questions} questions");
    }
    let mut answered = good.clone();
    count(&mut answered, 1);
    answered.extend_from_slice(b"\x00\x00\x01\x00\x01\x00\x00\x00\x00\x00\x04\x01\x02\x03\x04");
    assert_eq!(desk.code(&answered), (1, None));
    let mut pointer = good;
    pointer[12..14].copy_from_slice(&[0xc0, 12]);
    assert_eq!(desk.code(&pointer), (1, None));
}

/// transfer D6; RFC 8906 section 3.1.4: an operation that is not known is NOTIMP, whatever comes behind the header.
#[test]
fn another_operation_is_notimp_before_its_records_are_read() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    // DSO with a keepalive (RFC 8490 section 7.1): no counts, then TLVs.
    let mut dso = vec![0, 1, 6 << 3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    dso.extend_from_slice(&[0, 1, 0, 8, 0, 0, 0x3a, 0x98, 0, 0, 0x3a, 0x98]);
    assert_eq!(desk.code(&dso), (4, None));
    let mut cut = query(1, "www.z.", Rtype::A);
    cut[2] = 5 << 3;
    cut.truncate(20);
    assert_eq!(desk.code(&cut), (4, None));
}

#[test]
fn classes_and_operations_we_do_not_serve() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let with_class = |class: u8| {
        let mut raw = query(1, "www.z.", Rtype::A);
        *raw.last_mut().unwrap() = class;
        raw
    };
    assert_eq!(desk.code(&with_class(3)), (5, None));
    assert_eq!(desk.code(&with_class(255)), (1, None));
    for opcode in [1, 2, 4, 5, 6, 15] {
        let mut raw = query(1, "www.z.", Rtype::SOA);
        raw[2] = opcode << 3;
        let octets = desk.octets(&raw);
        assert_eq!(
            (octets[2], octets[3]),
            (0x80 | opcode << 3, 4),
            "opcode {opcode}"
        );
    }
    assert_eq!(desk.code(&query(1, "elsewhere.", Rtype::A)), (5, None));
    assert_eq!(desk.code(&query(1, ".", Rtype::NS)), (5, None));
    assert_eq!(desk.code(&query(1, "www.z.", Rtype(253))), (4, None));
}

/// RFC 6891: sections 6.1.1 (one OPT), 6.1.3 (version), 6.2.3 (size), 7 (OPT in, OPT out).
#[test]
fn edns_is_answered_in_kind() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let good = query(1, "www.z.", Rtype::A);
    let message = desk.ask(&with_opt(good.clone(), 4096, 0, &[0xff, 0xf0, 0, 1, 9]));
    let edns = message.edns.unwrap();
    assert_eq!(
        (edns.max_payload(), edns.version(), edns.flags().dnssec_ok),
        (1232, 0, true)
    );
    assert!(edns.options().as_ref().is_empty());
    assert_eq!(message.answers.len(), 1);
    let bad_version = desk.octets(&with_opt(good.clone(), 4096, 1, &[]));
    assert_eq!(code_of(&bad_version), (16, None));
    assert_eq!(Message::from_vec(&bad_version).unwrap().answers.len(), 0);
    let twice = with_opt(with_opt(good.clone(), 512, 0, &[]), 512, 0, &[]);
    assert_eq!(desk.code(&twice), (1, None));
    let mut owned = with_opt(good.clone(), 512, 0, &[]);
    let at = good.len();
    owned.splice(at..=at, *b"\x01x\x00");
    assert_eq!(desk.code(&owned), (1, None));
    assert_eq!(
        desk.code(&with_opt(good, 512, 0, &[0, 3, 0])),
        (1, None),
        "a cut option"
    );
}

#[test]
fn an_answer_that_does_not_fit_is_empty_with_tc() {
    let many: Vec<String> = (0..100).map(|n| format!("many A 10.0.0.{n}")).collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut desk = Desk::with(&lines);
    let good = query(1, "many.z.", Rtype::A);
    for (raw, limit) in [
        (good.clone(), 512),
        (with_opt(good.clone(), 100, 0, &[]), 512),
        (with_opt(good.clone(), 4096, 0, &[]), 1232),
    ] {
        let octets = desk.octets(&raw);
        assert!(octets.len() <= limit);
        let message = Message::from_vec(&octets).unwrap();
        assert!(message.metadata.truncation && message.metadata.authoritative);
        assert!(message.answers.is_empty());
    }
    assert_eq!(desk.shared.stats.truncated.get(), 3);
    let Got::Octets(whole) = desk.give(&good, Proto::Tcp) else {
        panic!("no answer")
    };
    let message = Message::from_vec(&whole).unwrap();
    assert_eq!(
        (message.answers.len(), message.metadata.truncation),
        (100, false)
    );
}

#[test]
fn additional_records_are_left_out_rather_than_the_answer() {
    let many: Vec<String> = (0..12)
        .flat_map(|n| [format!("s SRV 0 1 80 h{n}"), format!("h{n} A 10.0.0.{n}")])
        .collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut desk = Desk::with(&lines);
    let octets = desk.octets(&query(1, "s.z.", Rtype::SRV));
    let message = Message::from_vec(&octets).unwrap();
    assert!(octets.len() <= 512 && !message.metadata.truncation);
    assert_eq!(message.answers.len(), 12);
    assert!(
        (1..12).contains(&message.additionals.len()),
        "{}",
        message.additionals.len()
    );
    let roomy = desk.ask(&with_opt(query(1, "s.z.", Rtype::SRV), 1232, 0, &[]));
    assert_eq!(roomy.additionals.len(), 12);
}

#[test]
fn the_longest_zone_answers_and_ds_goes_to_the_parent() {
    let parent = zone("z.", 1, &["sub NS ns.sub", "sub DS x.", "sub TXT parent"]);
    let child = zone("sub.z.", 2, &["@ TXT child"]);
    let mut desk = Desk::new(Setup::new(vec![parent, child]));
    let text = |message: Message| message.answers.iter().map(line).collect::<Vec<_>>();
    assert_eq!(
        text(desk.ask(&query(1, "sub.z.", Rtype::TXT))),
        ["sub.z. 60 IN TXT \"child\""]
    );
    let octets = desk.octets(&query(1, "sub.z.", Rtype::DS));
    assert_eq!((octets[7], octets[9]), (1, 0), "the DS, no SOA");
}

#[test]
fn a_zone_without_version_is_servfail_and_says_not_ready() {
    let empty = Arc::new(Zone::new(&name("z.")));
    let mut desk = Desk::new(Setup::new(vec![empty]));
    let opt = |raw| with_opt(raw, 1232, 0, &[]);
    assert_eq!(desk.code(&query(1, "www.z.", Rtype::A)), (2, None));
    assert_eq!(desk.code(&opt(query(1, "www.z.", Rtype::A))), (2, Some(14)));
    assert_eq!(
        desk.tcp_code(&opt(query(1, "z.", Rtype::AXFR))),
        (2, Some(14))
    );
}

#[test]
fn a_stale_zone_answers_and_says_so() {
    let zone = zone("z.", 5, &["www A 10.0.0.1"]);
    zone.set_stale_since_ms(Some(1));
    let mut desk = Desk::new(Setup::new(vec![Arc::clone(&zone)]));
    let raw = with_opt(query(1, "www.z.", Rtype::A), 1232, 0, &[]);
    assert_eq!(desk.code(&raw), (0, Some(3)));
    assert_eq!(desk.ask(&raw).answers.len(), 1);
    assert_eq!(
        desk.code(&with_opt(query(1, "no.z.", Rtype::A), 1232, 0, &[])),
        (3, Some(3))
    );
    zone.set_stale_since_ms(None);
    assert_eq!(desk.code(&raw), (0, None));
}

#[test]
fn an_rrset_larger_than_any_message_is_given_as_far_as_it_fits_with_tc() {
    let many: Vec<String> = (0..5000)
        .map(|n| format!("many A 10.0.{}.{}", n >> 8, n & 255))
        .collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut desk = Desk::with(&lines);
    let Got::Octets(octets) = desk.give(&query(1, "many.z.", Rtype::A), Proto::Tcp) else {
        panic!("no reply")
    };
    let message = Message::from_vec(&octets).unwrap();
    assert!(message.metadata.truncation);
    assert_eq!(code_of(&octets), (0, None));
    // A message has 65 535 octets: header, question, and 16 for each record.
    assert_eq!(message.answers.len(), (65_535 - 12 - 12) / 16);
}

proptest::proptest! {
    #[test]
    fn no_octets_make_the_server_panic(
        change in proptest::collection::vec((0_usize..90, proptest::prelude::any::<u8>()), 0..6),
        cut in 0_usize..200,
        tcp in proptest::prelude::any::<bool>(),
    ) {
        let mut desk = Desk::with(&["www A 10.0.0.1"]);
        let mut raw = with_opt(ixfr(1, "z.", 4), 1232, 0, &[0, 3, 0, 0]);
        tsig::sign_request(&key("k."), &mut raw, NOW);
        for (at, octet) in change {
            let at = at % raw.len();
            raw[at] = octet;
        }
        raw.truncate(raw.len().saturating_sub(cut).max(12));
        let proto = if tcp { Proto::Tcp } else { Proto::Udp };
        if let Got::Octets(octets) = desk.give(&raw, proto) {
            proptest::prop_assert_eq!(&octets[..2], &raw[..2]);
            proptest::prop_assert!(Message::from_vec(&octets).is_ok());
        }
    }
}

/// RFC 1034 section 4.3.2: name servers in authority, their addresses as glue, not authoritative; RFC 9471
/// section 3.1: glue that does not fit sets TC.
#[test]
fn a_referral_has_glue_and_is_not_authoritative() {
    let mut desk = Desk::with(&[
        "sub NS ns.sub",
        "sub NS ns.elsewhere.",
        "ns.sub A 10.0.0.9",
        "alias CNAME a.sub",
    ]);
    let message = desk.ask(&query(1, "x.Sub.z.", Rtype::A));
    assert!(!message.metadata.authoritative);
    assert_eq!(u16::from(message.metadata.response_code), 0);
    assert!(message.answers.is_empty());
    let lines = |records: &[_]| records.iter().map(line).collect::<Vec<_>>();
    assert_eq!(
        lines(&message.authorities),
        ["Sub.z. 60 IN NS ns.sub.z.", "Sub.z. 60 IN NS ns.elsewhere."]
    );
    assert_eq!(lines(&message.additionals), ["ns.sub.z. 60 IN A 10.0.0.9"]);
    let message = desk.ask(&query(1, "alias.z.", Rtype::A));
    assert!(message.metadata.authoritative);
    assert_eq!(lines(&message.answers), ["alias.z. 60 IN CNAME a.sub.z."]);
    assert_eq!(message.authorities.len(), 2);

    let many: Vec<String> = (0..40)
        .flat_map(|n| [format!("sub NS n{n}.sub"), format!("n{n}.sub A 10.0.0.{n}")])
        .collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    let mut desk = Desk::with(&lines);
    let message = desk.ask(&with_opt(query(1, "sub.z.", Rtype::A), 900, 0, &[]));
    assert!(message.metadata.truncation && !message.metadata.authoritative);
    assert!(message.authorities.is_empty() && message.additionals.is_empty());
}

/// RFC 6672 sections 2.2, 3.1 and 5.3.1: the DNAME, the CNAME with its TTL, and what it leads to.
#[test]
fn a_name_below_a_dname_is_answered_with_both_aliases() {
    let long = ["l".repeat(63), "m".repeat(63), "n".repeat(60)].join(".");
    let line_of_long = format!("long DNAME {long}");
    let mut desk = Desk::with(&[
        "old DNAME new",
        "host.new A 10.0.0.1",
        "out DNAME elsewhere.",
        &line_of_long,
    ]);
    let lines = |records: &[_]| records.iter().map(line).collect::<Vec<_>>();
    let message = desk.ask(&query(1, "Host.Old.z.", Rtype::A));
    assert!(message.metadata.authoritative);
    assert_eq!(
        lines(&message.answers)[1..],
        [
            "Host.Old.z. 60 IN CNAME host.new.z.",
            "host.new.z. 60 IN A 10.0.0.1"
        ]
    );
    assert!(lines(&message.answers)[0].starts_with("Old.z. 60 IN "));
    assert_eq!(u16::from(message.answers[0].record_type()), 39);
    let message = desk.ask(&query(1, "no.old.z.", Rtype::A));
    assert_eq!(u16::from(message.metadata.response_code), 3);
    assert_eq!(message.answers.len(), 2);
    assert!(lines(&message.authorities)[0].starts_with("z. 7 IN SOA"));
    let message = desk.ask(&query(1, "a.b.out.z.", Rtype::A));
    assert_eq!(u16::from(message.metadata.response_code), 0);
    assert_eq!(
        lines(&message.answers)[1],
        "a.b.out.z. 60 IN CNAME a.b.elsewhere."
    );
    assert!(message.authorities.is_empty());
    let name = format!("{}.long.z.", "q".repeat(63));
    let message = desk.ask(&query(1, &name, Rtype::A));
    assert_eq!(u16::from(message.metadata.response_code), 6);
    assert_eq!(message.answers.len(), 1);
    assert_eq!(u16::from(message.answers[0].record_type()), 39);
}
