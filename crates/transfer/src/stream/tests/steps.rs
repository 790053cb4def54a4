//! Tests of IXFR: from any version to the last, in the fewest records.

use super::*;
use crate::Closed;

/// IXFR from a serial as lines.
fn ixfr_lines(version: &Arc<Version>, serial: u32, octets: usize) -> Vec<String> {
    answers(&reply(
        version,
        &ixfr(1, "z.", serial),
        Some(serial),
        octets,
    ))
}

/// Applies a reply to IXFR to a secondary's records. It is strict: removed records must exist, and added ones must not.
fn applied(before: &BTreeSet<String>, reply: &[String]) -> BTreeSet<String> {
    let is_soa = |line: &String| line.contains(" IN SOA ");
    let soa = &reply[0];
    assert!(is_soa(soa));
    assert_eq!(soa, reply.last().unwrap());
    if reply.len() == 1 || !is_soa(&reply[1]) {
        return reply.iter().cloned().collect();
    }
    let mut after = before.clone();
    let mut goes = false;
    for line in &reply[1..reply.len() - 1] {
        if is_soa(line) {
            goes = !goes;
        }
        if goes {
            assert!(after.remove(line), "{line} goes and is absent");
        } else {
            assert!(after.insert(line.clone()), "{line} comes and is present");
        }
    }
    after
}

/// The reply was decided already. The zone may forget the version meanwhile.
#[test]
fn b19_history_cut_while_it_is_sent_is_sent_to_its_end() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(400);
    publish(&zone, 1, &of(&lines));
    let before: BTreeSet<String> = lines_of(&zone.current().unwrap()).into_iter().collect();
    for line in lines.iter_mut().take(100) {
        *line = line.replace("A 10.", "A 11.");
    }
    let version = publish(&zone, 2, &of(&lines));
    let after: BTreeSet<String> = lines_of(&version).into_iter().collect();
    let decision = decide(&version, Serial::decode(1));
    assert!(matches!(decision, Decision::Chain(_)));
    let raw = ixfr(1, "z.", 1);
    let asked = Query::parse(&raw).unwrap();
    let mut packer = Packer::new(Head::new(&asked, 1232, None), 512, Arc::new(TestClock));
    let messages = Arc::new(Mutex::new(Vec::new()));
    let mut forgetful = Forgetful {
        zone: Arc::clone(&zone),
        kept: Kept(Arc::clone(&messages)),
    };
    drop(version);
    let version = zone.current().unwrap();
    let sent = futures_util::FutureExt::now_or_never(send(
        &mut packer,
        &version,
        &decision,
        &mut forgetful,
    ));
    assert!(sent.expect("nothing to wait for").is_ok());
    assert!(matches!(
        decide(&zone.current().unwrap(), Serial::decode(1)),
        Decision::FullZone(_)
    ));
    let messages: Vec<Vec<u8>> = std::mem::take(&mut *messages.lock().unwrap())
        .into_iter()
        .map(|message| message[2..].to_vec())
        .collect();
    assert!(messages.len() >= 8, "{}", messages.len());
    assert_eq!(applied(&before, &answers(&messages)), after);
}

/// Collects messages. After each one the zone gets another version, and forgets all older ones.
struct Forgetful {
    zone: Arc<Zone>,
    kept: Kept,
}

impl Sink for Forgetful {
    async fn send(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        let current = self.zone.current().unwrap();
        let mut edit = zone::Edit::new(&current.contents);
        let mut soa = current.contents.soa().clone();
        soa.ttl = dns::Ttl::decode(soa.ttl.seconds() + 1);
        edit.set_soa(soa);
        let none = zone::MemoryLimits {
            steps: 1,
            octets: 1,
        };
        let serial = current.serial.next(1);
        let next = zone::Candidate::new(Some(&current), edit.finish(), serial, 0, vec![], none);
        self.zone.publish(next.journaled());
        self.kept.send(message).await
    }

    async fn finish(&mut self, message: Vec<u8>) -> Result<(), Closed> {
        self.send(message).await
    }
}

/// 40 000 records instead of a million, for the time that a debug build takes.
#[test]
fn b20_a_step_of_many_records_is_many_messages_of_bounded_size() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let keep: Vec<String> = many(60_000);
    let mut first = keep.clone();
    first.extend((0..20_000).map(|n| format!("old{n} A 10.2.{}.{}", n / 256, n % 256)));
    publish(&zone, 1, &of(&first));
    let mut second = keep;
    second.extend((0..20_000).map(|n| format!("new{n} A 10.3.{}.{}", n / 256, n % 256)));
    let version = publish(&zone, 2, &of(&second));
    let messages = reply(&version, &ixfr(1, "z.", 1), Some(1), 16_384);
    assert!(messages.len() > 20, "{}", messages.len());
    assert!(messages.iter().all(|message| message.len() <= 16_384));
    assert_eq!(answers(&messages).len(), 40_000 + 4);
}

/// RFC 1995 section 4.
#[test]
fn b1_one_step_is_new_old_removed_new_added_new() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(20);
    lines.push("a A 10.0.0.1".to_owned());
    publish(&zone, 1, &of(&lines));
    lines[20] = "a A 10.0.0.9".to_owned();
    let version = publish(&zone, 2, &of(&lines));
    let soa = |serial| format!("z. 60 IN SOA ns.z. hostmaster.z. {serial} 300 30 86400 7");
    assert_eq!(
        ixfr_lines(&version, 1, 16_384),
        [
            soa(2),
            soa(1),
            "a.z. 60 IN A 10.0.0.1".to_owned(),
            soa(2),
            "a.z. 60 IN A 10.0.0.9".to_owned(),
            soa(2),
        ]
    );
}

#[test]
fn b18_the_old_soa_is_exactly_that_of_the_old_version() {
    let zone = Arc::new(Zone::new(&name("z.")));
    publish(
        &zone,
        1,
        &contents("z.", 60, &["a A 10.0.0.1", "b TYPE10 300"]),
    );
    let version = publish(
        &zone,
        2,
        &contents("z.", 90, &["a A 10.0.0.1", "b TYPE10 300"]),
    );
    let soa = |ttl, serial| format!("z. {ttl} IN SOA ns.z. hostmaster.z. {serial} 300 30 86400 7");
    assert_eq!(
        ixfr_lines(&version, 1, 16_384),
        [soa(90, 2), soa(60, 1), soa(90, 2), soa(90, 2)]
    );
}

#[test]
fn b9_a_changed_ttl_replaces_the_whole_rrset() {
    let set = |ttl: u32| -> Vec<String> {
        let of_set = (0..5).map(|n| format!("set {ttl} A 10.0.0.{n}"));
        of_set.chain(many(20)).collect()
    };
    let zone = Arc::new(Zone::new(&name("z.")));
    publish(&zone, 1, &of(&set(60)));
    let version = publish(&zone, 2, &of(&set(61)));
    let lines = ixfr_lines(&version, 1, 16_384);
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("set.z. 60 "))
            .count(),
        5
    );
    assert_eq!(
        lines
            .iter()
            .filter(|line| line.starts_with("set.z. 61 "))
            .count(),
        5
    );
}

#[test]
fn b14_a_chain_across_the_wrap_is_one_step() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(50);
    let serials = [u32::MAX - 1, u32::MAX, 0, 3];
    for (number, serial) in serials.iter().enumerate() {
        lines[0] = format!("host0.some.level A 10.9.9.{number}");
        publish(&zone, *serial, &of(&lines));
    }
    let version = zone.current().unwrap();
    for serial in &serials[..3] {
        let got = ixfr_lines(&version, *serial, 16_384);
        let soas = got.iter().filter(|line| line.contains(" IN SOA ")).count();
        assert_eq!((got.len(), soas), (6, 4), "from {serial}: {got:?}");
    }
    assert_eq!(ixfr_lines(&version, 3, 16_384).len(), 1);
}

#[test]
fn b4_b5_unknown_and_undefined_serials_get_the_zone() {
    let zone = Arc::new(Zone::new(&name("z.")));
    publish(&zone, 100, &of(&many(10)));
    let version = publish(&zone, 101, &of(&many(11)));
    let reason = |serial| match decide(&version, Serial::decode(serial)) {
        Decision::FullZone(reason) => Some(reason),
        Decision::UpToDate | Decision::Chain(_) => None,
    };
    assert_eq!(reason(99), Some(Reason::UnknownSerial));
    assert_eq!(
        reason(101_u32.wrapping_add(1 << 31)),
        Some(Reason::UndefinedOrder)
    );
    assert_eq!(reason(100), None);
    let lines = ixfr_lines(&version, 99, 16_384);
    assert_eq!(lines.len(), 13);
    assert_eq!(lines[0], lines[12]);
}

/// RFC 1995 section 5: the whole zone, if the differences are larger.
#[test]
fn b16_differences_larger_than_the_zone_are_not_sent() {
    let decision = |zone_octets: usize| {
        let zone = Arc::new(Zone::new(&name("z.")));
        // A step of two records of 2 + 10 + 3 octets more than the data, and two SOAs.
        publish(
            &zone,
            1,
            &of(&[
                format!("pad TYPE10 {zone_octets}"),
                "a TYPE10 100".to_owned(),
            ]),
        );
        let next = [
            format!("pad TYPE10 {zone_octets}"),
            "a TYPE10 101".to_owned(),
        ];
        let version = publish(&zone, 2, &of(&next));
        matches!(decide(&version, Serial::decode(1)), Decision::Chain(_))
    };
    let smallest = (0..2000).find(|octets| decision(*octets)).unwrap();
    let soa = 3 + 10 + 6 + 14 + 20;
    // The zone: pad (7 + 10 + n) and a (5 + 10 + 101), which the step counts too, with its old self.
    assert_eq!(7 + 10 + smallest, (5 + 10 + 100) + 2 * soa);
    assert!(!decision(smallest - 1) && decision(smallest + 1));
}

#[test]
fn b15_zero_is_a_serial_like_any() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(50);
    for (number, serial) in [u32::MAX, 0, 1].into_iter().enumerate() {
        lines[0] = format!("host0.some.level A 10.9.9.{number}");
        let version = publish(&zone, serial, &of(&lines));
        assert_eq!(ixfr_lines(&version, serial, 16_384).len(), 1);
        if number > 0 {
            let before = serial.wrapping_sub(1);
            assert_eq!(ixfr_lines(&version, before, 16_384).len(), 6);
        }
    }
}

#[test]
fn b23_many_clients_at_the_same_serials_share_what_is_condensed() {
    let zone = Arc::new(Zone::new(&name("z.")));
    let mut lines = many(200);
    for serial in 1..=24_u32 {
        lines[0] = format!("host0.some.level A 10.9.9.{serial}");
        publish(&zone, serial, &of(&lines));
    }
    let version = zone.current().unwrap();
    // All of them stay in memory, so that no two have the same address.
    let mut held = Vec::new();
    for client in 0..1000_u32 {
        let serial = 1 + client % 20;
        let Decision::Chain(Delta::Net(net)) = decide(&version, Serial::decode(serial)) else {
            panic!("{serial} is some steps behind");
        };
        assert_eq!(net.from.0, Serial::decode(serial));
        held.push(net);
    }
    let distinct: std::collections::HashSet<_> = held.iter().map(Arc::as_ptr).collect();
    assert_eq!(distinct.len(), 20);
}

/// Record lines of a small world, so that versions share some.
fn worlds() -> impl Strategy<Value = Vec<Vec<String>>> {
    let record = (0..6_u8, 0..4_u8, 0..3_u8, 0..4_u8).prop_map(|(owner, kind, ttl, value)| {
        let owner = ["a", "B", "b.c", "x.y.b.c", "@", "w"][usize::from(owner)];
        let ttl = 60 + u32::from(ttl / 2);
        match kind {
            0 => format!("{owner} {ttl} A 10.0.0.{value}"),
            1 => format!("{owner} {ttl} TXT t{value}"),
            2 => format!("{owner} {ttl} SRV 0 0 {value} a"),
            _ => format!("{owner} {ttl} PTR p{value}.a"),
        }
    });
    let padding = Just(vec!["pad TYPE10 2000".to_owned()]);
    let world = (padding, proptest::collection::vec(record, 0..14))
        .prop_map(|(padding, records)| [padding, records].concat());
    proptest::collection::vec(world, 2..6)
}

proptest! {
    /// AXFR(v) = AXFR(u) + IXFR(u to v), for all u before v, however the messages break.
    #[test]
    fn b2_b13_b17_differences_lead_from_any_version_to_the_last(
        worlds in worlds(),
        start in prop_oneof![Just(1_u32), Just(u32::MAX - 2)],
        octets in 40_usize..700,
    ) {
        let zone = Arc::new(Zone::new(&name("z.")));
        let mut versions = Vec::new();
        for (number, world) in worlds.iter().enumerate() {
            let serial = start.wrapping_add(u32::try_from(number).unwrap());
            versions.push(publish(&zone, serial, &of(world)));
        }
        let last = versions.last().unwrap();
        let expected: BTreeSet<String> = axfr_lines(last, octets).into_iter().collect();
        prop_assert_eq!(&expected, &lines_of(last).into_iter().collect());
        for version in &versions {
            let raw = ixfr(1, "z.", version.serial.encode());
            let messages = reply(last, &raw, Some(version.serial.encode()), octets);
            let first = answers(&messages[..1]);
            // A lone newer SOA in the first message misleads some secondaries.
            prop_assert!(first.len() > 1 || version.serial == last.serial);
            if version.serial == last.serial {
                continue;
            }
            let before = lines_of(version).into_iter().collect();
            prop_assert_eq!(&applied(&before, &answers(&messages)), &expected);
        }
    }
}
