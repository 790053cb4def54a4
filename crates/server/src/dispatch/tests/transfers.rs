//! Tests of AXFR and IXFR at the desk: access, transport and content.

use dns::testing::{chained_pointers, count_steps};

use super::*;

/// RFC 5936 sections 2.2.1 (NOTAUTH unless the name is exactly a zone), 4.2 (no UDP), 5 (REFUSED).
#[test]
fn axfr_is_for_zones_on_connections_and_those_who_may() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    assert!(matches!(
        desk.give(&query(1, "Z.", Rtype::AXFR), Proto::Tcp),
        Got::Transfer
    ));
    assert_eq!(desk.tcp_code(&query(1, "www.z.", Rtype::AXFR)), (9, None));
    assert_eq!(
        desk.tcp_code(&query(1, "elsewhere.", Rtype::AXFR)),
        (9, None)
    );
    assert_eq!(desk.code(&query(1, "z.", Rtype::AXFR)), (4, None));
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.access = vec!["192.0.2.8"];
    let mut denying = Desk::new(setup);
    let raw = query(1, "z.", Rtype::AXFR);
    assert_eq!(denying.tcp_code(&raw), (5, None));
    assert_eq!(
        denying.tcp_code(&with_opt(raw, 1232, 0, &[])),
        (5, Some(18))
    );
    assert_eq!(denying.shared.stats.transfers_denied.get(), 2);
    assert_eq!(denying.shared.slots.taken(), 0);
}

/// transfer D1; RFC 1034 section 4.3.5: a secondary asks for the SOA before it transfers.
#[test]
fn a_zone_below_no_key_answers_soa_and_ns_to_those_who_may_have_it() {
    let desk = |access| {
        let mut setup = Setup::new(vec![zone("z.", 5, &["@ NS www", "www A 10.0.0.1"])]);
        (setup.keys, setup.access) = (vec![name("other.")], vec![access]);
        Desk::new(setup)
    };
    let mut may = desk("*");
    for qtype in [Rtype::SOA, Rtype::NS] {
        let message = may.ask(&query(1, "Z.", qtype));
        assert_eq!(message.answers.len(), 1, "{qtype}");
        assert!(message.metadata.authoritative, "{qtype}");
    }
    let axfr = query(1, "z.", Rtype::AXFR);
    assert!(matches!(may.give(&axfr, Proto::Tcp), Got::Transfer));
    for (qname, qtype) in [("www.z.", Rtype::A), ("z.", Rtype::A), ("y.z.", Rtype::SOA)] {
        assert_eq!(may.code(&query(1, qname, qtype)), (5, None), "{qname}");
    }
    let mut may_not = desk("192.0.2.8");
    assert_eq!(may_not.code(&query(1, "z.", Rtype::SOA)), (5, None));
    let mut not_ready = Setup::new(vec![Arc::new(Zone::new(&name("z.")))]);
    not_ready.keys = vec![name("other.")];
    let soa = query(1, "z.", Rtype::SOA);
    assert_eq!(Desk::new(not_ready).code(&soa), (2, None));
}

#[test]
fn over_the_limit_of_transfers_is_servfail_and_denied_ones_take_no_place() {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.settings.transfer.max_at_once = 1;
    let mut desk = Desk::new(setup);
    let raw = query(1, "z.", Rtype::AXFR);
    let first = desk
        .shared
        .respond(&mut desk.scratch, &raw, asker(Proto::Tcp));
    assert_eq!(desk.tcp_code(&raw), (2, None));
    let told = with_opt(raw.clone(), 1232, 0, &[]);
    assert_eq!(desk.tcp_code(&told), (2, Some(0)));
    let Got::Octets(octets) = desk.give(&told, Proto::Tcp) else {
        panic!("a place was left")
    };
    let text = b"too many transfers at once";
    assert!(octets.windows(text.len()).any(|part| part == text));
    drop(first);
    assert!(matches!(desk.give(&raw, Proto::Tcp), Got::Transfer));
}

/// RFC 1995 sections 2 and 3.
#[test]
fn ixfr_needs_the_soa_of_the_zone_and_only_its_serial_counts() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let single = ["z. 60 IN SOA ns.z. hostmaster.z. 5 300 30 86400 7"];
    for serial in [5, 6, 5_u32.wrapping_add(0x7fff_ffff)] {
        for proto in [Proto::Udp, Proto::Tcp] {
            let Got::Octets(octets) = desk.give(&ixfr(1, "z.", serial), proto) else {
                panic!("serial {serial}")
            };
            assert_eq!(
                answers(std::slice::from_ref(&octets)),
                single,
                "serial {serial}"
            );
            assert_eq!(octets[2] & 4, 4, "AA");
        }
    }
    let good = ixfr(1, "z.", 4);
    assert!(matches!(desk.give(&good, Proto::Tcp), Got::Transfer));
    let bare = query(1, "z.", Rtype::IXFR);
    assert_eq!(desk.tcp_code(&bare), (1, None), "no SOA");
    let soa = &good[bare.len()..];
    let mut two = good.clone();
    count(&mut two, 2);
    two.extend_from_slice(soa);
    // transfer D6
    assert!(matches!(desk.give(&two, Proto::Tcp), Got::Transfer));
    let mut and_ns = good.clone();
    count(&mut and_ns, 2);
    and_ns.extend_from_slice(&[0xc0, 12, 0, 2, 0, 1, 0, 0, 0, 0, 0, 2, 0xc0, 12]);
    assert!(matches!(desk.give(&and_ns, Proto::Tcp), Got::Transfer));
    // RFC 6891 section 6.1.2: an option that is not understood is ignored.
    let ecs = with_opt(good.clone(), 1232, 0, &[0, 8, 0, 3, 9, 9, 9]);
    assert!(matches!(desk.give(&ecs, Proto::Tcp), Got::Transfer));
    let mut other_owner = bare.clone();
    count(&mut other_owner, 2);
    other_owner.extend_from_slice(b"\x01y\x00");
    other_owner.extend_from_slice(&soa[2..]);
    assert_eq!(desk.tcp_code(&other_owner), (1, None), "another owner");
    let mut chaos = good.clone();
    chaos[bare.len() + 5] = 3;
    assert_eq!(desk.tcp_code(&chaos), (1, None), "another class");
    let mut cut = good.clone();
    cut.truncate(good.len() - 1);
    let length_at = bare.len() + 11;
    cut[length_at] -= 1;
    assert_eq!(desk.tcp_code(&cut), (1, None), "cut RDATA");
    let mut in_answer = good;
    in_answer[7] = 1;
    in_answer[9] = 0;
    assert_eq!(
        desk.tcp_code(&in_answer),
        (1, None),
        "SOA in the answer section"
    );
}

/// security 1: nothing of a stranger's request is read but header, question, OPT and signature.
#[test]
fn access_is_checked_before_the_serial_of_an_ixfr_is_read() {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.access = vec!["192.0.2.8"];
    let mut desk = Desk::new(setup);
    let without_soa = query(1, "z.", Rtype::IXFR);
    assert_eq!(desk.tcp_code(&without_soa), (5, None));
}

/// security 1: the data of one record is a chain of 8 000 pointers, and 3 700 other records have owners that begin at its
/// end. To follow it for each of them takes 30 million jumps.
#[test]
fn an_ixfr_full_of_chained_pointers_costs_no_more_than_its_length() {
    let raw = chained_pointers(ixfr(1, "z.", 4), MAX_MESSAGE_OCTETS);
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let (got, steps) = count_steps(|| desk.give(&raw, Proto::Tcp));
    assert!(matches!(got, Got::Transfer));
    // Each owner is looked at once.
    assert!((3700..5000).contains(&steps), "{steps}");
    // The key of a signature behind the chain: an error after 126 jumps.
    let mut signed = raw;
    let at = signed.len() - 11;
    signed[at..at + 4].copy_from_slice(&[0, 250, 0, 255]);
    let (code, steps) = count_steps(|| desk.tcp_code(&signed));
    assert_eq!(code, (1, None));
    assert!(steps < 5000, "{steps}");
}

/// The names of the secondary's SOA may be compressed.
#[test]
fn the_serial_of_an_ixfr_is_found_behind_compressed_names() {
    let mut desk = Desk::with(&["www A 10.0.0.1"]);
    let with = |names: &[u8], more: &[u8]| {
        let mut raw = query(1, "z.", Rtype::IXFR);
        count(&mut raw, 2);
        raw.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0]);
        raw.push(u8::try_from(names.len() + 20 + more.len()).unwrap());
        for part in [names, &[0, 0, 0, 4], &[0; 16], more] {
            raw.extend_from_slice(part);
        }
        raw
    };
    let compressed = with(b"\x02ns\xc0\x0c\x01h\xc0\x1f", &[]);
    assert!(matches!(desk.give(&compressed, Proto::Tcp), Got::Transfer));
    let forward = with(b"\x02ns\xc0\xff\x01h\xc0\x0c", &[]);
    assert_eq!(
        desk.tcp_code(&forward),
        (1, None),
        "a pointer to what follows"
    );
    let longer = with(&[0, 0], &[0]);
    assert_eq!(desk.tcp_code(&longer), (1, None), "an octet too many");
}

/// RFC 1995 section 2: over UDP the differences if they fit, else the current SOA alone.
#[test]
fn ixfr_over_udp_is_the_differences_or_the_single_soa() {
    let keep: Vec<String> = (0..20).map(|n| format!("keep{n} A 10.0.0.{n}")).collect();
    let with = |line| {
        keep.iter()
            .map(String::as_str)
            .chain([line])
            .collect::<Vec<_>>()
    };
    let zone = zone("z.", 5, &with("www A 10.0.0.1"));
    publish(&zone, 6, &contents("z.", 60, &with("www A 10.0.0.2")));
    let mut desk = Desk::new(Setup::new(vec![Arc::clone(&zone)]));
    let lines = answers(&[desk.octets(&ixfr(1, "z.", 5))]);
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line.split(' ').nth(3).unwrap())
        .collect();
    assert_eq!(kinds, ["SOA", "SOA", "A", "SOA", "A", "SOA"], "{lines:?}");
    // For unknown serials, and for differences that do not fit, the single SOA.
    assert_eq!(answers(&[desk.octets(&ixfr(1, "z.", 4))]).len(), 1);
    let many: Vec<String> = (0..100).map(|n| format!("many{n} A 10.0.0.{n}")).collect();
    let lines: Vec<&str> = many.iter().map(String::as_str).collect();
    publish(&zone, 7, &contents("z.", 60, &lines));
    let octets = desk.octets(&ixfr(1, "z.", 6));
    assert_eq!(answers(&[octets]).len(), 1);
    // Only the reply with the differences counts as a transfer. It has six records.
    let stats = &desk.shared.stats;
    let done = stats.transfers(
        transfer::TransferKind::Ixfr,
        transfer::TransferOutcome::Done,
    );
    assert_eq!((done.get(), stats.transfer_records.get()), (1, 6));
}

/// findings-server 3: the source of a datagram is easily forged, so little work is done for it. RFC 1995 section 2 always
/// allows the single SOA.
#[test]
fn ixfr_over_udp_condenses_no_long_history() {
    let lines = |last: u32| -> Vec<String> {
        let kept = (0..60).map(|n| format!("kept{n} A 10.0.0.{n}"));
        let address = std::net::Ipv4Addr::from_bits(0x0a01_0000 + last);
        kept.chain([format!("www A {address}")]).collect()
    };
    let zone = Arc::new(Zone::new(&name("z.")));
    for serial in 1..=600 {
        let lines = lines(serial);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        publish(&zone, serial, &contents("z.", 60, &lines));
    }
    let steps = zone.current().unwrap().history_octets();
    let mut desk = Desk::new(Setup::new(vec![zone]));
    assert_eq!(answers(&[desk.octets(&ixfr(1, "z.", 599))]).len(), 6);
    // The net difference would fit as well.
    assert_eq!(
        answers(&[desk.octets(&ixfr(1, "z.", 1))]).len(),
        1,
        "{steps}"
    );
    assert!(matches!(
        desk.give(&ixfr(1, "z.", 1), Proto::Tcp),
        Got::Transfer
    ));
}

/// RFC 1995 section 2 with RFC 6891: the client's datagram size decides whether the differences fit.
#[test]
fn b06_with_edns_more_differences_fit_a_datagram() {
    let lines = |net: u8| -> Vec<String> {
        let changed = (0..12).map(|n| format!("changed{n} A 10.{net}.0.{n}"));
        let kept = (0..60).map(|n| format!("kept{n} A 10.0.0.{n}"));
        changed.chain(kept).collect()
    };
    let of = |net| {
        let lines = lines(net);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        contents("z.", 60, &lines)
    };
    let zone = Arc::new(Zone::new(&name("z.")));
    publish(&zone, 5, &of(1));
    publish(&zone, 6, &of(2));
    let mut desk = Desk::new(Setup::new(vec![zone]));
    let raw = ixfr(1, "z.", 5);
    let bare = desk.octets(&raw);
    assert_eq!(answers(&[bare]).len(), 1);
    let with_edns = desk.octets(&with_opt(raw, 1232, 0, &[]));
    assert!(
        with_edns.len() > 512 && with_edns.len() <= 1232,
        "{}",
        with_edns.len()
    );
    assert_eq!(answers(&[with_edns]).len(), 4 + 24);
}

#[test]
fn what_secondaries_ask_for_is_noted() {
    check_noted(vec![]);
}

#[test]
fn what_secondaries_ask_for_is_noted_where_a_handler_answers_too() {
    check_noted(vec![Arc::new(crate::testing::Counting::default())]);
}

/// Forbids everything.
struct Guard;

impl crate::Handler for Guard {
    fn name(&self) -> &'static str {
        "guard"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn guards_transfers(&self) -> bool {
        true
    }

    fn answer<'a>(
        &'a self,
        _request: &'a mut crate::Request,
        _next: crate::Next,
    ) -> futures_util::future::BoxFuture<'a, crate::Outcome> {
        let outcome = crate::Outcome::failed("guard", Rcode::REFUSED, "no");
        Box::pin(std::future::ready(outcome))
    }
}

#[test]
fn what_is_forbidden_a_secondary_is_not_noted() {
    let mut desk = desk_of_secondary(vec![Arc::new(Guard)]);
    assert_eq!(desk.code(&query(1, "z.", Rtype::SOA)), (5, None));
    assert_eq!(desk.code(&ixfr(1, "z.", 4)), (5, None));
    assert_eq!(desk.shared.secondaries.snapshot()[0].request, None);
}

/// A desk with these handlers before the zone. Its secondary sends the requests.
fn desk_of_secondary(before: Vec<Arc<dyn crate::Handler>>) -> Desk {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.handlers = [before, vec![]];
    let target = PEER.into();
    setup.secondaries = vec![transfer::Secondary {
        zone: name("z."),
        target,
        keys: vec![],
        source: None,
    }];
    Desk::new(setup)
}

/// Checks that a secondary's request is noted, with handlers before the zone.
fn check_noted(before: Vec<Arc<dyn crate::Handler>>) {
    let mut desk = desk_of_secondary(before);
    let asked = |desk: &Desk| {
        desk.shared.secondaries.snapshot()[0]
            .request
            .map(|(what, _)| what)
    };
    desk.octets(&query(1, "www.z.", Rtype::A));
    assert_eq!(asked(&desk), None);
    desk.octets(&query(1, "z.", Rtype::SOA));
    assert_eq!(asked(&desk), Some(SecondaryRequest::Soa));
    desk.octets(&ixfr(1, "z.", 4));
    assert_eq!(
        asked(&desk),
        Some(SecondaryRequest::Ixfr(Serial::decode(4)))
    );
    assert_eq!(
        desk.shared.secondaries.snapshot()[0].serial,
        Some(Serial::decode(4))
    );
}
