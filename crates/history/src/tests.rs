//! What people read of the past, from a past made by hand.

mod acts;
mod doubts;
mod evidence;
mod fake;
mod follow;
mod old_part;
mod set_back;
mod versions;

use std::sync::Arc;

use dns::{RrList, Serial};
use fake::*;
use provenance::{Cause, ObjectKey, Origin, Verb};
use zone::Step;
use zone::journal::{Anchored, Damage, Fault};

use super::{
    FollowerLine, HeldLine, HistoryLine, ListenerLine, Noted, OrderLine, OrderText, Output, Past,
    Question, ReplicaLine, Request, RestrictionLine, SandboxLine, SecondaryLine, SourceLine,
    Status, ZoneLine, answer,
};

/// A question to the log of all zones.
fn log_request(since: Option<&str>, until: Option<&str>, count: Option<u64>) -> Request {
    Request::Log {
        zone: None,
        since: since.map(str::to_owned),
        until: until.map(str::to_owned),
        name: None,
        object: None,
        count,
    }
}

/// The state of a zone with this serial.
fn zone_line(zone: &str, serial: Option<u32>, stale: Option<u64>) -> ZoneLine {
    ZoneLine {
        archive: None,
        zone: zone.into(),
        serial,
        time_ms: serial.map(|_| THIRD_MS),
        records: 2,
        stale_since_ms: stale,
        held: serial.map(|_| HeldLine {
            why: "it would lose 90 of 100 records".into(),
            since_ms: THIRD_MS,
            until_ms: Some(THIRD_MS + 3_600_000),
            is_releasable: true,
            loses: Some((90, 100)),
            namespaces: Vec::new(),
        }),
        hash: serial.map(|_| "ab12".into()),
        order: None,
        ahead: None,
        reset: None,
        history: serial.map(|serial| HistoryLine {
            begins: serial - 100,
            begins_ms: THIRD_MS - 2000,
            versions: 3,
            octets: 1025,
            dropped_early: 0,
            dropped_early_ms: None,
        }),
    }
}

/// The listeners of a server.
fn listeners() -> Vec<ListenerLine> {
    vec![
        ListenerLine {
            address: "0.0.0.0:53".into(),
            transports: vec!["udp".into(), "tcp".into()],
            scheme: "dns".into(),
            endpoints: Vec::new(),
        },
        ListenerLine {
            address: "[::]:9153".into(),
            transports: vec!["tcp".into()],
            scheme: "http".into(),
            endpoints: vec!["prometheus".into(), "ready".into()],
        },
    ]
}

fn restriction(is_in_force: bool, detail: Option<&str>) -> RestrictionLine {
    let detail = detail.map(ToOwned::to_owned);
    RestrictionLine {
        is_in_force,
        detail,
    }
}

fn late_secondary() -> SecondaryLine {
    SecondaryLine {
        zone: "z.".into(),
        secondary: "192.0.2.9:53".into(),
        told: Some(200),
        acknowledged: None,
        refused: None,
        took: Some(101),
        by: Some("ixfr".into()),
        lag_versions: Some(1),
        lag_seconds: Some(7),
        asked_seconds: Some(4),
        asked_with: None,
        denied: None,
        denied_seconds: None,
    }
}

/// The status of a server of which nothing is said.
fn no_status() -> Status {
    Status {
        version: "9.9".into(),
        sandbox: None,
        replica: None,
        listeners: Vec::new(),
        zones: Vec::new(),
        sources: Vec::new(),
        secondaries: Vec::new(),
        problems: Vec::new(),
        notes: Vec::new(),
    }
}

/// A replica that leads two others.
fn replica_line() -> ReplicaLine {
    let follower = |replica: &str, lag_versions| FollowerLine {
        replica: replica.into(),
        lag_versions,
    };
    ReplicaLine {
        replica: "a/1".into(),
        leads: true,
        epoch: 7,
        leader: Some("a/1".into()),
        address: Some("192.0.2.1:5380".into()),
        in_sync: vec!["a/1".into(), "b/2".into()],
        ceiling: Some(300),
        followers: vec![follower("b/2", 0), follower("c/3", 12)],
        is_behind: false,
        lacks_eligible: false,
    }
}

#[test]
fn status_of_a_replica_that_follows_says_whom() {
    let mut past = Fake::new();
    let said = |past: &mut Fake, line: ReplicaLine| {
        past.status = Some(Status {
            replica: Some(line),
            ..no_status()
        });
        asked(past, Request::Status, Output::Text).expect("it is answered")
    };
    let follows = ReplicaLine {
        replica: "b/2".into(),
        leads: false,
        followers: Vec::new(),
        is_behind: true,
        ..replica_line()
    };
    let want = "zonewright 9.9\n\
        replica b/2 follows a/1 at 192.0.2.1:5380, BEHIND, epoch 7, serials up to 300\n    in sync: a/1, b/2\n";
    assert_eq!(said(&mut past, follows.clone()), want);
    let alone = ReplicaLine {
        leader: None,
        address: None,
        in_sync: Vec::new(),
        ceiling: None,
        is_behind: false,
        lacks_eligible: true,
        ..follows
    };
    let text = said(&mut past, alone);
    assert!(text.contains("replica b/2 NO LEADER, epoch 7\n"), "{text}");
    assert!(text.contains("    NOBODY MAY LEAD: "), "{text}");
}

#[test]
fn status_tells_sources_zones_secondaries_and_problems() {
    let mut past = Fake::new();
    let none = asked(&past, Request::Status, Output::Text);
    assert!(none.is_err_and(|error| error.contains("no server runs")));
    past.status = Some(Status {
        version: "9.9".into(),
        sandbox: Some(SandboxLine {
            landlock: restriction(true, Some("ABI 7")),
            seccomp: restriction(false, Some("--no-sandbox")),
        }),
        replica: Some(replica_line()),
        listeners: listeners(),
        zones: vec![
            zone_line("z.", Some(200), Some(THIRD_MS)),
            zone_line("new.", None, None),
        ],
        sources: vec![SourceLine {
            source: "shop".into(),
            synced: true,
            stale_since_ms: Some(THIRD_MS),
            objects: vec![("Service".into(), 2), ("EndpointSlice".into(), 0)],
        }],
        secondaries: vec![late_secondary()],
        problems: vec!["shop.yaml:3: unclosed bracket".into()],
        notes: Vec::new(),
    });
    let want = "\
zonewright 9.9
sandbox: landlock in force (ABI 7), seccomp NOT in force (--no-sandbox)
replica a/1 LEADS, epoch 7, serials up to 300
    in sync: a/1, b/2
    follower b/2: lacks 0 versions
    follower c/3: lacks 12 versions
listening on 0.0.0.0:53, udp and tcp, dns
listening on [::]:9153, tcp, http for prometheus, ready
source shop: STALE since 2026-11-21T14:00:02.000Z (2 Service, 0 EndpointSlice)
zone z. serial 200 of 2026-11-21T14:00:02.000Z, 2 records, STALE
    hash ab12
    history begins at serial 100, 2026-11-21T14:00:00.000Z; versions: 3, 2 KiB
    HELD since 2026-11-21T14:00:02.000Z: it would lose 90 of 100 records; published at 2026-11-21T15:00:02.000Z, or by: zonewright release z.
    secondary 192.0.2.9:53: notified of 200, acknowledged nothing, transferred 101 by ixfr, 1 version behind, for 7 s, asked 4 s ago
zone new. has no version yet
problem shop.yaml:3: unclosed bracket
";
    assert_eq!(
        asked(&past, Request::Status, Output::Text).as_deref(),
        Ok(want)
    );
    for (synced, stale_since_ms, want) in [
        (true, None, "in sync"),
        (false, None, "not listed yet"),
        (
            false,
            Some(THIRD_MS),
            "not listed yet, FAILS since 2026-11-21T14:00:02.000Z",
        ),
    ] {
        let status = past.status.as_mut().unwrap();
        status.sources[0].synced = synced;
        status.sources[0].stale_since_ms = stale_since_ms;
        let said = asked(&past, Request::Status, Output::Text).unwrap();
        assert!(said.contains(&format!("source shop: {want} (")), "{said}");
    }
    let json = |request| asked(&past, request, Output::Json).expect("it is answered");
    let read = |request| serde_json::from_str::<Status>(&json(request)).ok();
    assert_eq!(read(Request::Status), past.status);
    // Who wants to know what is served has nothing read from the store.
    assert_eq!(read(Request::Standing), past.status());
}

/// security 7: "keep is a floor".
#[test]
fn security_07_status_says_that_versions_were_dropped_too_early() {
    let mut past = Fake::new();
    let mut line = zone_line("z.", Some(200), None);
    let history = line.history.as_mut().unwrap();
    (history.dropped_early, history.dropped_early_ms) = (50, Some(THIRD_MS));
    past.status = Some(Status {
        zones: vec![line],
        ..no_status()
    });
    let said = asked(&past, Request::Status, Output::Text).unwrap();
    let short = "HISTORY SHORT: 50 versions younger than `keep` were dropped since the start, the last at 2026-11-21T14:00:02.000Z";
    assert!(said.contains(short), "{said}");
}

#[test]
fn a_release_says_the_serial_or_why_not() {
    let past = Fake::new();
    let release = |zone: &str, output| ordered(&past, zone, OrderText::Release, output);
    let text = release("Z", Output::Text);
    assert_eq!(text.as_deref(), Ok("z. is published with serial 7\n"));
    let json = release("z.", Output::Json).expect("it is answered");
    let json: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(
        json,
        serde_json::json!({
            "schema": 1, "zone": "z.", "serial": 7, "until": null, "untilMs": null, "rolledBackTo": null, "ends": null
        })
    );
    assert_eq!(
        release("y.", Output::Text),
        Err("no version of y. is held".into())
    );
}

#[test]
fn an_order_says_what_holds_until_when() {
    let past = Fake::new();
    let freeze = |time: Option<&str>| {
        let time = time.map(Into::into);
        ordered(&past, "z", OrderText::Freeze { time }, Output::Text)
    };
    let want = "z. is frozen with serial 7 until: zonewright release z.\n    warning: this freeze does not end by itself, and changes of the sources wait for it; --for 2h would end it\n";
    assert_eq!(freeze(None).as_deref(), Ok(want));
    let want = "z. is frozen with serial 7 until 2026-11-21T14:30:03.000Z, or until: zonewright release z.\n";
    assert_eq!(freeze(Some("30m")).as_deref(), Ok(want));
    for wrong in ["soon", "0s", "30", "3651d", "99999999999999w"] {
        let refusal = freeze(Some(wrong)).unwrap_err();
        let want = format!("\"{wrong}\" is not a time up to 3650d; write 90s, 30m, 2h or 1d");
        assert_eq!(refusal, want);
    }
    let rollback = |to: &str, output| {
        let (to, time) = (to.into(), "1h".into());
        ordered(&past, "z", OrderText::Rollback { to, time }, output)
    };
    let want = "z. has the content of serial 101 again, with serial 102 until 2026-11-21T15:00:03.000Z, or until: zonewright release z.\n";
    assert_eq!(rollback("101", Output::Text).as_deref(), Ok(want));
    let json = rollback("101", Output::Json).expect("it is answered");
    assert!(
        json.contains("\"rolledBackTo\":101,\"schema\":1,\"serial\":102"),
        "{json}"
    );
    let mut past = Fake::new();
    past.status = Some(Status {
        zones: vec![ZoneLine {
            archive: None,
            zone: "z.".into(),
            history: None,
            ahead: None,
            reset: None,
            serial: Some(7),
            time_ms: None,
            records: 2,
            stale_since_ms: None,
            held: None,
            hash: None,
            order: Some(OrderLine {
                rolled_back_to: Some(101),
                since_ms: THIRD_MS,
                until_ms: Some(THIRD_MS + 3_600_000),
                by: "uid 7".into(),
            }),
        }],
        ..no_status()
    });
    let ends = "    this ends the rollback to serial 101 until 2026-11-21T15:00:02.000Z by uid 7\n";
    let frozen = ordered(&past, "z", OrderText::Freeze { time: None }, Output::Text);
    let want = format!(
        "z. stays rolled back to serial 101, with serial 7 until: zonewright release z.\n{ends}"
    );
    assert_eq!(frozen.as_deref(), Ok(&*want));
    let released = ordered(&past, "z", OrderText::Release, Output::Text);
    let want = format!("z. follows its sources again, with serial 7\n{ends}");
    assert_eq!(released.as_deref(), Ok(&*want));
    assert!(rollback("55", Output::Text).is_err_and(|it| it.contains("history begins")));
}

#[test]
fn the_reason_of_an_order_is_recorded_with_its_operator() {
    let mut past = Fake::new();
    let order = |past: &Fake, reason: Option<&str>| {
        let request = Request::Order {
            zone: "z".into(),
            order: OrderText::Release,
            reason: reason.map(Into::into),
            with_reverse: false,
        };
        let done = asked(past, request, Output::Text);
        (past.operator.borrow_mut().take(), done.err())
    };
    for (reason, operator) in [
        (None, ASKER.to_owned()),
        (Some(" "), ASKER.to_owned()),
        (Some(" moving "), format!("{ASKER}, reason: \"moving\"")),
        (Some("a\nb"), format!("{ASKER}, reason: \"a\\nb\"")),
    ] {
        assert_eq!(order(&past, reason), (Some(operator), None), "{reason:?}");
    }
    let (operator, error) = order(&past, Some(&"a".repeat(401)));
    assert_eq!(operator, None);
    let want = "the reason is longer than 400 bytes; shorten it";
    assert_eq!(error.as_deref(), Some(want));
    past.requires_reason = true;
    let (operator, error) = order(&past, Some("\t"));
    assert_eq!(operator, None);
    let want = "orders about z. need a reason, as `require_reason` is set: add --reason TEXT";
    assert_eq!(error.as_deref(), Some(want));
    assert_eq!(order(&past, Some("moving")).1, None);
}

#[test]
fn blame_names_version_and_object_for_each_record() {
    let blame = |zone: &str, name: Option<&str>, output| {
        let request = Request::Blame {
            zone: zone.into(),
            name: name.map(Into::into),
        };
        asked(&Fake::new(), request, output)
    };
    let want = "\
; z. serial 101 of 2026-11-21T14:00:01.000Z
web.z. 5 IN A 192.0.2.2
    since 101 2026-11-21T14:00:01.000Z
    applied Service shop/web (resourceVersion 77, by kubectl, Update)
";
    for name in [None, Some("WEB.z")] {
        assert_eq!(blame("z@101", name, Output::Text).as_deref(), Ok(want));
    }
    let json = blame("z", Some("db.z"), Output::Json).expect("it is answered");
    assert!(
        json.contains("\"serial\":200") && json.contains("\"name\":\"db\""),
        "{json}"
    );
    let none = blame("z@100", Some("db.z"), Output::Text);
    let want = "; db.z. has no record in z. serial 100 of 2026-11-21T14:00:00.000Z\n";
    assert_eq!(none.as_deref(), Ok(want));
}

#[test]
fn verify_says_what_holds_and_names_the_first_bad_version() {
    let mut past = Fake::new();
    let verify = |past: &Fake, output| {
        let mut text = Vec::new();
        let request = Request::Verify {
            zone: None,
            anchors: Vec::new(),
            noted: Vec::new(),
        };
        let done = answer(
            &Question { request, output },
            past,
            &ASKER.into(),
            &mut text,
        );
        let text = String::from_utf8(text).expect("answers are UTF-8");
        (text, done.map_err(|error| error.to_string()))
    };
    let hash = "ab".repeat(32);
    let good = format!(
        "z.: good; 3 versions since 2026-11-21T14:00:00.000Z, newest serial 200, hash {hash}\n"
    );
    assert_eq!(verify(&past, Output::Text), (good, Ok(())));
    for (seq, damage, what) in [
        (2, Damage::Changed, "it is another"),
        (3, Damage::Chain, "so is this"),
    ] {
        past.verdict.faults.push(Fault {
            seq,
            serial: Some(99),
            damage,
            what: what.into(),
        });
    }
    let bad = "\
z.: BROKEN at serial 99 (version 2), changed bytes: it is another
    also serial 99 (version 3), broken chain: so is this
";
    let why = "the history of z. is not as it was written".to_owned();
    assert_eq!(verify(&past, Output::Text), (bad.to_owned(), Err(why)));
    let json = verify(&past, Output::Json).0;
    assert!(json.contains("\"good\":false"), "{json}");
    assert!(json.contains("\"damage\":\"chain\""), "{json}");
    // What is not known comes after what is wrong, and alone it is no damage.
    past.verdict.faults.insert(
        0,
        Fault {
            seq: 1,
            serial: None,
            damage: Damage::Unknown,
            what: "the archive is away".into(),
        },
    );
    let unknown = "    also not known: the archive is away\n";
    assert_eq!(verify(&past, Output::Text).0, format!("{bad}{unknown}"));
    past.verdict.faults.truncate(1);
    let text = format!(
        "z.: NOT KNOWN: the archive is away\n    what could be checked is good; 3 versions since 2026-11-21T14:00:00.000Z, newest \
         serial 200, hash {hash}\n"
    );
    let why = "not all of the history of z. is known".to_owned();
    assert_eq!(verify(&past, Output::Text), (text, Err(why)));
    let json = verify(&past, Output::Json).0;
    assert!(
        json.contains("\"good\":false") && json.contains("\"damage\":\"unknown\""),
        "{json}"
    );
}

/// What `verify` says with a noted hash, and how it ends.
fn verify(past: &Fake, anchor: &str) -> (String, Result<(), (crate::Fault, String)>) {
    let mut text = Vec::new();
    let request = Request::Verify {
        zone: None,
        anchors: vec![anchor.to_owned()],
        noted: Vec::new(),
    };
    let output = Output::Text;
    let done = answer(
        &Question { request, output },
        past,
        &ASKER.into(),
        &mut text,
    );
    let text = String::from_utf8(text).expect("answers are UTF-8");
    (
        text,
        done.map_err(|error| (error.fault(), error.to_string())),
    )
}

#[test]
fn a_noted_hash_is_in_the_chain_or_not_or_it_is_not_known() {
    let mut past = Fake::new();
    let (noted, other) = ("cd".repeat(32), "ef".repeat(32));
    past.verdict.anchored.push(Anchored {
        hash: noted.parse().unwrap(),
        seq: 2,
        serial: Serial::decode(101),
    });
    for anchor in [noted.clone(), format!("z={noted}"), format!("Z.={noted}")] {
        let (text, done) = verify(&past, &anchor);
        assert_eq!(done, Ok(()));
        let want = format!("hash {noted} is that of serial 101 (version 2)");
        assert!(text.contains(&want), "{text}");
    }
    // The history is whole, so the hash is that of another one.
    let (text, done) = verify(&past, &other);
    assert_eq!(done.unwrap_err().0, crate::Fault::Failed);
    assert!(
        text.contains("broken chain: no version has the hash ef")
            && text.contains("no version is missing: it is the hash of another history"),
        "{text}"
    );
    // Versions are lost: it may be that of one of them, and what is broken is not said to be that.
    past.verdict.faults.push(Fault {
        seq: 2,
        serial: None,
        damage: Damage::Lost,
        what: "it is not there".to_owned(),
    });
    let (text, done) = verify(&past, &other);
    assert_eq!(done.unwrap_err().0, crate::Fault::Failed);
    assert!(text.contains("lost versions: it is not there"), "{text}");
    assert!(!text.contains("no version has the hash"), "{text}");
    past.verdict.faults.clear();
    // Older versions were dropped: it may be that of one of them.
    past.verdict.oldest.0 = 7;
    let (text, done) = verify(&past, &other);
    let (fault, why) = done.unwrap_err();
    assert_eq!(fault, crate::Fault::NotKnown);
    assert!(text.starts_with("z.: good; "), "{text}");
    assert!(
        why.starts_with("no version of z. that is kept here has the hash ef"),
        "{why}"
    );
    for wrong in ["12", "z=12", "y=", &format!("y.={noted}")] {
        let (_, done) = verify(&past, wrong);
        assert_eq!(done.unwrap_err().0, crate::Fault::Wrong, "{wrong}");
    }
}

#[test]
fn a_hash_of_no_version_is_of_another_history_unless_a_version_is_missing_that_may_have_it() {
    let mut past = Fake::new();
    let other = "ef".repeat(32);
    // Of several zones that are whole, none is to blame.
    past.zones.push(name("y."));
    let (text, done) = verify(&past, &other);
    let (fault, why) = done.unwrap_err();
    assert_eq!(fault, crate::Fault::Failed);
    assert!(!text.contains("BROKEN"), "{text}");
    assert!(
        why.starts_with("no version of y., z. has the hash ef"),
        "{why}"
    );
    past.zones.pop();
    // An archive that is away may have it.
    past.verdict.faults.push(Fault {
        seq: 1,
        serial: None,
        damage: Damage::Unknown,
        what: "the archive is away".into(),
    });
    let (_, done) = verify(&past, &other);
    assert_eq!(done.unwrap_err().0, crate::Fault::NotKnown);
    past.verdict.faults.clear();
}

#[test]
fn a_hash_of_another_zone_is_a_slip_and_that_zone_is_named() {
    let verdict = Fake::new().verdict;
    let hash = "cd".repeat(32);
    let mut other = verdict.clone();
    other.anchored.push(Anchored {
        hash: hash.parse().unwrap(),
        seq: 2,
        serial: Serial::decode(101),
    });
    let anchors = crate::Anchors::parse(&[format!("z={hash}")], &[]).unwrap();
    for zone in ["z.", "y."] {
        assert_eq!(anchors.hashes_among(&name(zone), &|_| true).len(), 1);
    }
    let found = vec![(name("y."), other), (name("z."), verdict)];
    let mut text = Vec::new();
    let done = crate::write_verdicts(found, &anchors, Output::Text, &mut text);
    let text = String::from_utf8(text).unwrap();
    let error = done.unwrap_err();
    assert_eq!(error.fault(), crate::Fault::Wrong);
    let want = format!("{hash} is that of a version of y., not of z.: write y.={hash}");
    assert!(error.to_string().contains(&want), "{error}");
    assert!(!text.contains("BROKEN"), "{text}");
}

#[test]
fn segments_that_were_not_read_again_are_counted() {
    let mut past = Fake::new();
    past.verdict.segments = 13;
    let whole = verify(&past, &"cd".repeat(32)).0;
    assert!(!whole.contains("not read again"), "{whole}");
    let mut text = Vec::new();
    past.verdict.reused_segments = 12;
    let found = vec![(name("z."), past.verdict)];
    crate::write_verdicts(found.clone(), &<_>::default(), Output::Text, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let want = "the oldest are in 13 segments of the archive: good; 12 of them were good in an earlier run and were not read again\n";
    assert!(text.contains(want), "{text}");
    let mut json = Vec::new();
    crate::write_verdicts(found, &<_>::default(), Output::Json, &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert!(json.contains("\"segmentsNotReadAgain\":12"), "{json}");
}

#[test]
fn the_versions_of_notes_are_in_the_chain_or_older_or_missing() {
    let mut past = Fake::new();
    let verify = |past: &Fake, zone: Option<&str>, noted: &[(u64, &str)]| {
        let mut text = Vec::new();
        let noted = noted.iter().map(|(version, hash)| Noted {
            zone: "z.".to_owned(),
            version: *version,
            hash: (*hash).to_owned(),
        });
        let request = Request::Verify {
            zone: zone.map(ToOwned::to_owned),
            anchors: Vec::new(),
            noted: noted.collect(),
        };
        let output = Output::Text;
        let done = answer(
            &Question { request, output },
            past,
            &ASKER.into(),
            &mut text,
        );
        let text = String::from_utf8(text).expect("answers are UTF-8");
        (text, done.map_err(|error| error.fault()))
    };
    let [known, other] = ["cd", "ef"].map(|octet| octet.repeat(32));
    past.verdict.oldest.0 = 5;
    past.verdict.newest.0 = 9;
    past.verdict.anchored.push(Anchored {
        hash: known.parse().unwrap(),
        seq: 7,
        serial: Serial::decode(101),
    });
    let good = (7, known.as_str());
    let (text, done) = verify(&past, None, &[good]);
    assert_eq!(done, Ok(()));
    assert!(text.contains("is that of serial 101 (version 7)"), "{text}");
    // An older one is not known; it does not matter where a later one is confirmed.
    let older = (4, other.as_str());
    let (text, done) = verify(&past, None, &[older]);
    assert_eq!(done, Err(crate::Fault::NotKnown), "{text}");
    let (text, done) = verify(&past, Some("z"), &[older, good]);
    assert_eq!(done, Ok(()));
    assert!(
        text.contains("\n    1 noted versions are older than the history"),
        "{text}"
    );
    // One that has to be kept is a fault, whatever else is confirmed: dropped versions are no excuse, and no doubt that a
    // version has recorded.
    past.verdict.faults.push(Fault {
        seq: 6,
        serial: Some(100),
        damage: Damage::Unknown,
        what: "versions may be lost".into(),
    });
    for (version, want) in [
        (6, "broken chain: version 6 does not have the hash ef"),
        (
            10,
            "lost versions: a note has version 10, and it is not there",
        ),
    ] {
        let (text, done) = verify(&past, None, &[good, (version, &other)]);
        assert_eq!(done, Err(crate::Fault::Failed));
        assert!(text.contains(want), "{text}");
    }
    // One that could not be read may have it.
    past.verdict.unread = vec![(5, 6)];
    let (_, done) = verify(&past, None, &[(6, &other)]);
    assert_eq!(done, Err(crate::Fault::NotKnown));
}

#[test]
fn a_noted_zone_that_is_gone_is_a_fault_and_notes_prove_nothing_of_another_zone() {
    let mut past = Fake::new();
    let known = "cd".repeat(32);
    past.verdict.anchored.push(Anchored {
        hash: known.parse().unwrap(),
        seq: 7,
        serial: Serial::decode(101),
    });
    // A zone that is gone is a fault of its own, and the others have their verdicts.
    let gone = [1, 4].map(|version| Noted {
        zone: "y.".to_owned(),
        version,
        hash: known.clone(),
    });
    let request = Request::Verify {
        zone: None,
        anchors: Vec::new(),
        noted: gone.to_vec(),
    };
    let output = Output::Text;
    let question = Question { request, output };
    let mut text = Vec::new();
    let done = answer(&question, &past, &ASKER.into(), &mut text).unwrap_err();
    assert_eq!(done.fault(), crate::Fault::Failed);
    let text = String::from_utf8(text).unwrap();
    assert!(text.starts_with("z.: good"), "{text}");
    let want = "\ny.: BROKEN at version 4, lost versions: a note has this version, and the zone is not there\n";
    assert!(text.ends_with(want), "{text}");
    // Notes about another zone prove nothing of this one.
    past.verdict.anchored.clear();
    let noted = Noted {
        zone: "y.".to_owned(),
        version: 1,
        hash: known,
    };
    let request = Request::Verify {
        zone: Some("z.".to_owned()),
        anchors: Vec::new(),
        noted: vec![noted],
    };
    let output = Output::Text;
    let done = answer(
        &Question { request, output },
        &past,
        &ASKER.into(),
        &mut Vec::new(),
    );
    assert_eq!(done.unwrap_err().fault(), crate::Fault::Wrong);
}
