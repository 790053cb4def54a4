//! Log, show and diff.

use writer::Waiting;

use super::*;
use crate::past::steps_of;

/// `show`.
fn show(zone: &str) -> Result<String, String> {
    let zone = zone.to_owned();
    asked(
        &Fake::new(),
        Request::Show { zone, name: None },
        Output::Text,
    )
}

/// `diff`, of these versions.
fn diff(from: &str, to: Option<&str>) -> Result<String, String> {
    diff_of(&Fake::new(), from, to)
}

/// `diff`, of another past.
fn diff_of(past: &Fake, from: &str, to: Option<&str>) -> Result<String, String> {
    let request = Request::Diff {
        zone: "z".into(),
        from: from.into(),
        to: to.map(Into::into),
    };
    asked(past, request, Output::Text)
}

/// `log` with these filters: since, until, name, object.
fn log(filters: [Option<&str>; 4]) -> Result<String, String> {
    let [since, until, name, object] = filters.map(|filter| filter.map(ToOwned::to_owned));
    let request = Request::Log {
        zone: None,
        since,
        until,
        name,
        object,
        count: None,
    };
    asked(&Fake::new(), request, Output::Text)
}

/// The serials that a log lists.
fn serials(log: Result<String, String>) -> Vec<String> {
    let text = log.expect("it is answered");
    let versions = text.lines().filter(|line| line.starts_with("z. "));
    versions
        .filter_map(|line| line.split(' ').nth(1).map(ToOwned::to_owned))
        .collect()
}

#[test]
fn log_tells_versions_newest_first_with_their_causes() {
    let want = "\
z. 200 2026-11-21T14:00:02.000Z +1 -1 (2 records)
    deleted Service shop/web (shop.yaml:4)
    applied Service shop/db (shop.yaml:9)
z. 101 2026-11-21T14:00:01.000Z +1 -1 (2 records)
    applied Service shop/web (resourceVersion 77, by kubectl, Update)
z. 100 2026-11-21T14:00:00.000Z +1 -0 (2 records)
    listed Service shop/web (shop.yaml:4)
";
    assert_eq!(log([None; 4]).as_deref(), Ok(want));
}

#[test]
fn a_deletion_names_who_changed_the_object_last_and_nobody_who_deleted_it() {
    use crate::log::{cause_json, cause_text};
    for (verb, word, is_last) in [
        (Verb::Applied, "applied", false),
        (Verb::Listed, "listed", false),
        (Verb::Deleted, "deleted", true),
        (Verb::Vanished, "vanished", true),
    ] {
        let cause = cause(verb, "web", "", "77");
        let by = if is_last { "last changed by" } else { "by" };
        let text = format!("{word} Service shop/web (resourceVersion 77, {by} kubectl, Update)");
        assert_eq!(cause_text(&cause), text);
        let json = cause_json(&cause);
        let [other, own] = match is_last {
            true => ["manager", "lastManager"],
            false => ["lastManager", "manager"],
        };
        assert_eq!((&json[other], &json[own]), (&"".into(), &"kubectl".into()));
    }
}

/// A cause of a version as a whole.
fn of_version(verb: Verb, what: &str) -> Cause {
    Cause {
        verb,
        kind: None,
        key: ObjectKey::new("", what),
        origin: Origin::default(),
    }
}

#[test]
fn log_of_a_name_tells_causes_of_the_version_and_none_of_other_records() {
    let mut past = Fake::new();
    let step = Arc::make_mut(&mut past.steps[2]);
    // The group of another owner, one of the version, one of an owner that is not there any more.
    step.causes[0] = vec![of_version(Verb::Configured, "the source")];
    step.causes.push(vec![
        of_version(Verb::Configured, "the Corefile"),
        of_version(Verb::Resumed, "the freeze of someone"),
    ]);
    let gone = Cause {
        verb: Verb::Deleted,
        ..step.causes[1][0].clone()
    };
    step.causes.push(vec![gone]);
    let request = Request::Log {
        zone: None,
        since: Some("1s ago".into()),
        until: None,
        name: Some("db.z.".into()),
        object: None,
        count: None,
    };
    let said = asked(&past, request, Output::Text).expect("it is answered");
    let want = "\
z. 200 2026-11-21T14:00:02.000Z +1 -1 in the whole version (2 records)
    configured from the Corefile
    resumed after the freeze of someone
    applied Service shop/db (shop.yaml:9)
    + db.z. 5 IN A 192.0.2.3
";
    assert_eq!(said, want);
}

#[test]
fn log_is_filtered_by_time_name_and_object() {
    for (filters, want) in [
        (
            [Some("2026-11-21T14:00:01Z"), None, None, None],
            vec!["200", "101"],
        ),
        (
            [None, Some("2026-11-21T14:00:01Z"), None, None],
            vec!["101", "100"],
        ),
        (
            [Some("2s ago"), Some("1s ago"), None, None],
            vec!["200", "101"],
        ),
        (
            [None, None, Some("WEB.z."), None],
            vec!["200", "101", "100"],
        ),
        ([None, None, Some("db.z."), None], vec!["200"]),
        ([None, None, Some("eb.z."), None], vec![]),
        (
            [None, None, Some("db.z."), Some("Service/shop/web")],
            vec!["200"],
        ),
        ([None, None, None, Some("service/shop/db")], vec!["200"]),
        (
            [None, None, None, Some("Service/shop/web")],
            vec!["200", "101", "100"],
        ),
        ([None, None, None, Some("endpointslices/shop/web")], vec![]),
        ([None, None, None, Some("svc/shop/db")], vec!["200"]),
    ] {
        assert_eq!(serials(log(filters)), want, "{filters:?}");
    }
    let shown = log([None, Some("2026-11-21T14:00:01Z"), Some("web.z."), None]);
    let shown = shown.expect("it is answered");
    let none = log([None, None, None, Some("Service/shop/cart")]);
    let want = "; no version of z. matches, from serial 100 of 2026-11-21T14:00:00.000Z to serial 200 of 2026-11-21T14:00:02.000Z\n";
    assert_eq!(none.as_deref(), Ok(want));
    let none = log([Some("1500 ms ago"), Some("1200 ms ago"), None, None]);
    let want = "; no version of z. matches, from serial 101 of 2026-11-21T14:00:01.000Z to serial 101 of 2026-11-21T14:00:01.000Z\n";
    assert_eq!(none.as_deref(), Ok(want));
    let only = log([None, None, Some("db.z."), None]).expect("it is answered");
    let want = "\
z. 200 2026-11-21T14:00:02.000Z +1 -1 in the whole version (2 records)
    applied Service shop/db (shop.yaml:9)
    + db.z. 5 IN A 192.0.2.3
";
    assert_eq!(only, want, "nothing of other names");
    assert!(
        shown.contains("    - web.z. 5 IN A 192.0.2.1\n    + web.z. 5 IN A 192.0.2.2\n"),
        "{shown}"
    );
}

#[test]
fn show_writes_a_version_as_a_master_file() {
    let want = "\
; z. serial 101 of 2026-11-21T14:00:01.000Z, 2 records
z. 5 IN SOA ns.z. mbox.z. 101 300 30 86400 5
web.z. 5 IN A 192.0.2.2
";
    assert_eq!(show("z@101").as_deref(), Ok(want));
}

#[test]
fn versions_are_found_by_serial_and_by_time() {
    for (moment, want) in [
        ("z", 200),
        ("Z.", 200),
        ("z@100", 100),
        ("z@200", 200),
        ("z@2026-11-21T14:00:00Z", 100),
        ("z@2026-11-21T14:00:00.999Z", 100),
        ("z@2026-11-21T14:00:01Z", 101),
        ("z@2026-11-21T15:00:00+01:00", 100),
        ("z@now", 200),
        ("z@1s ago", 200),
        ("z@2s ago", 101),
    ] {
        let head = show(moment).unwrap_or_else(|error| panic!("{moment}: {error}"));
        assert!(
            head.starts_with(&format!("; z. serial {want} of")),
            "{moment}: {head}"
        );
    }
    let begins = "history begins at serial 100, 2026-11-21T14:00:00.000Z";
    for (moment, want) in [
        (
            "z@102",
            "no version of z. had serial 102: 101 of 2026-11-21T14:00:01.000Z was followed by 200 of 2026-11-21T14:00:02.000Z".to_owned(),
        ),
        (
            "z@99",
            format!("no version of z. with serial 99 is kept: {begins}"),
        ),
        (
            "z@201",
            "no version of z. with serial 201 is kept: the newest is serial 200, 2026-11-21T14:00:02.000Z"
                .to_owned(),
        ),
        (
            "z@2026-11-21",
            format!("nothing is kept of z. at that time: {begins}"),
        ),
        (
            "z@4s ago",
            format!("nothing is kept of z. at that time: {begins}"),
        ),
        ("y", "no zone y. here; there are z.".to_owned()),
    ] {
        assert_eq!(show(moment), Err(want), "{moment}");
    }
}

#[test]
fn after_the_clock_was_set_back_now_is_the_newest_version_and_its_time_can_be_asked_for() {
    let mut past = Fake::new();
    past.clock_ahead_ms = -1500;
    let head = |moment: &str| {
        let zone = format!("z@{moment}");
        let said = asked(&past, Request::Show { zone, name: None }, Output::Text);
        said.map(|text| text.split(' ').take(4).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(head("now").as_deref(), Ok("; z. serial 200"));
    let third = "2026-11-21T14:00:02.000Z";
    assert_eq!(head(third).as_deref(), Ok("; z. serial 200"));
    let later = head("2026-11-21T14:00:02.001Z").unwrap_err();
    assert!(later.contains("is in the future"), "{later}");
    assert!(diff_of(&past, "100", Some("now")).is_ok_and(|it| it.contains("+++ z. 200")));
    let request = |since, until| Request::Log {
        zone: None,
        since,
        until,
        name: None,
        object: None,
        count: None,
    };
    let time = Some(third.to_owned());
    for request in [
        request(time.clone(), None),
        request(None, time),
        request(None, Some("now".to_owned())),
    ] {
        let said = asked(&past, request, Output::Text);
        assert_eq!(serials(said).first().map(String::as_str), Some("200"));
    }
}

#[test]
fn machines_read_with_each_record_of_which_version_it_is() {
    let mut past = Fake::new();
    Arc::make_mut(&mut past.steps[1]).link = Some(zone::Link {
        previous: zone::Hash::ZERO,
        hash: zone::Hash::from_octets([0xab; 32]),
        content: zone::Hash::ZERO,
    });
    let request = Request::Show {
        zone: "z@101".into(),
        name: Some("web.z".into()),
    };
    let line = asked(&past, request, Output::Json).expect("it is answered");
    let read: serde_json::Value = serde_json::from_str(&line).expect("it is one line");
    let want = serde_json::json!({
        "schema": 1, "record": "web.z. 5 IN A 192.0.2.2", "zone": "z.", "serial": 101,
        "time": "2026-11-21T14:00:01.000Z", "timeMs": THIRD_MS - 1000, "hash": "ab".repeat(32),
    });
    assert_eq!(read, want);
}

/// docs/serials.md: "Move a serial back".
#[test]
fn after_a_serial_was_moved_back_each_version_is_shown_by_its_serial() {
    let mut past = Fake::new();
    let moved = [1_800_000_000, 3_900_000_000, 1_700_000_000];
    for (step, serial) in past.steps.iter_mut().zip(moved) {
        Arc::make_mut(step).serial = Serial::decode(serial);
    }
    let show = |serial: u32| {
        let zone = format!("z@{serial}");
        asked(&past, Request::Show { zone, name: None }, Output::Text)
    };
    for serial in moved {
        let head = format!("; z. serial {serial} of ");
        assert!(show(serial).is_ok_and(|said| said.starts_with(&head)));
    }
    let never = show(2_000_000_000).unwrap_err();
    assert!(never.contains("1800000000 of 2026-11-21T14:00:00.000Z was followed by 3900000000"));
}

#[test]
fn diff_tells_the_net_difference_and_its_causes() {
    let want = "\
--- z. 100 2026-11-21T14:00:00.000Z
+++ z. 200 2026-11-21T14:00:02.000Z
-z. 5 IN SOA ns.z. mbox.z. 100 300 30 86400 5
+z. 5 IN SOA ns.z. mbox.z. 200 300 30 86400 5
; 2 versions lead from one to the other: what was changed and changed back is not here, `log z.` lists it
-web.z. 5 IN A 192.0.2.1
; applied Service shop/web (resourceVersion 77, by kubectl, Update)
+db.z. 5 IN A 192.0.2.3
; applied Service shop/db (shop.yaml:9)
";
    assert_eq!(diff("100", None).as_deref(), Ok(want));
    assert_eq!(diff("100", Some("1s ago")).as_deref(), Ok(want));
    assert_eq!(
        diff("200", None).as_deref(),
        Ok("; both are z. serial 200\n")
    );
}

/// Adds versions that change nothing, with serials from 201 on.
pub(super) fn add_versions(past: &mut Fake, count: u32) {
    let last = past.steps[2].clone();
    for more in 1..=count {
        past.steps.push(Arc::new(Step {
            seq: 3 + u64::from(more),
            from: Some((Serial::decode(199 + more), last.soa.clone())),
            serial: Serial::decode(200 + more),
            removed: RrList::default(),
            added: RrList::default(),
            causes: Vec::new(),
            ..(*last).clone()
        }));
    }
}

/// Records that an older version brought do not read as if the newest had.
#[test]
fn a_diff_of_many_records_says_of_which_it_does_not_know_who_brought_them() {
    let mut past = Fake::new();
    add_versions(&mut past, 1300);
    let many: Vec<String> = (10..90).map(|number| format!("s{number}.z.")).collect();
    let many: Vec<_> = many.iter().map(|owner| (owner.as_str(), 7, 0)).collect();
    let mut bobs = (*past.steps[3]).clone();
    bobs.added = list(&many);
    bobs.causes = vec![vec![cause(Verb::Applied, "bobs", "", "5")]];
    past.steps[3] = Arc::new(bobs);
    let mut mallorys = (*past.steps[1302]).clone();
    mallorys.added = list(&[("s5.z.", 1, 0), ("zzz.z.", 1, 0)]);
    mallorys.causes = vec![vec![cause(Verb::Applied, "mallorys", "", "6")]];
    past.steps[1302] = Arc::new(mallorys);
    let said = diff_of(&past, "200", Some("1500")).expect("it is answered");
    let unknown = "; by a version older than those searched: `log --name` finds its cause";
    let mallory = "; applied Service shop/mallorys (resourceVersion 6, by kubectl, Update)";
    for part in [
        format!("+s5.z. 5 IN A 192.0.2.1\n{mallory}\n"),
        format!("+s89.z. 5 IN A 192.0.2.7\n{unknown}\n"),
        format!("+zzz.z. 5 IN A 192.0.2.1\n{mallory}\n"),
    ] {
        assert!(said.contains(&part), "{part} in {said}");
    }
    assert_eq!(said.matches(unknown).count(), 1, "{said}");
    assert!(!said.contains("bobs"), "{said}");
    let said = diff_of(&past, "200", Some("900")).expect("it is answered");
    assert!(
        said.contains("shop/bobs") && !said.contains(unknown),
        "{said}"
    );
}

#[test]
fn versions_that_leave_the_history_meanwhile_are_missed() {
    let past = Fake::new();
    let steps = |seqs| steps_of(&past, &name("z."), seqs).map_err(|error| error.to_string());
    assert_eq!(steps(2..=3).unwrap(), past.steps[1..]);
    for seqs in [0..=2, 2..=4] {
        let refusal = steps(seqs).unwrap_err();
        assert!(refusal.contains("left the history"), "{refusal}");
    }
}

#[test]
fn a_diff_of_versions_with_the_same_records_says_so() {
    let mut past = Fake::new();
    add_versions(&mut past, 3);
    let said = diff_of(&past, "200", Some("203")).expect("it is answered");
    assert!(said.ends_with("\n; both have the same records\n"), "{said}");
    assert!(
        said.contains("\n; 3 versions lead from one to the other"),
        "{said}"
    );
    let said = diff_of(&past, "200", Some("201")).expect("it is answered");
    assert!(!said.contains("lead from one"), "{said}");
    // What was done to a version as a whole does not stand below its last record, as if it were the record's cause.
    let newest = Arc::make_mut(past.steps.last_mut().unwrap());
    newest
        .causes
        .push(vec![of_version(Verb::Configured, "the Corefile")]);
    let said = diff_of(&past, "101", Some("203")).expect("it is answered");
    let (records, of_versions) = said
        .split_once("; of the versions as a whole:\n")
        .expect("they are told apart");
    assert!(
        records.contains("\n+") && !records.contains("Corefile"),
        "{said}"
    );
    assert!(of_versions.contains("Corefile"), "{said}");
    // Nor is it left out where the records that it changed were changed again.
    let mut past = Fake::new();
    let rolled_back = of_version(Verb::RolledBack, "serial 90");
    let second = Arc::make_mut(&mut past.steps[1]);
    second.causes.push(vec![rolled_back]);
    second.added = list(&[("web.z.", 2, 1)]);
    let said = diff_of(&past, "100", Some("200")).expect("it is answered");
    let line = "; of the versions as a whole:\n; rolled back to serial 90\n";
    assert!(said.ends_with(line), "{said}");
    // Once is enough.
    let said = diff_of(&past, "100", Some("101")).expect("it is answered");
    assert!(said.ends_with("\n; rolled back to serial 90\n"), "{said}");
    assert!(!said.contains("as a whole"), "{said}");
}

#[test]
fn a_diff_of_versions_with_other_soas_has_them() {
    let mut past = Fake::new();
    add_versions(&mut past, 1);
    let newest = Arc::make_mut(past.steps.last_mut().unwrap());
    newest.soa.refresh = dns::Ttl::decode(77);
    let said = diff_of(&past, "200", Some("201")).unwrap();
    let want = "; both have the same records besides the SOA\n";
    assert!(said.ends_with(want), "{said}");
    let request = |from: &str, to: &str| Request::Diff {
        zone: "z".into(),
        from: from.into(),
        to: Some(to.into()),
    };
    let json = |from: &str, to: &str| {
        let text = asked(&past, request(from, to), Output::Json).unwrap();
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let soas = [(200, 300), (201, 77)].map(|(serial, refresh)| {
        format!("z. 5 IN SOA ns.z. mbox.z. {serial} {refresh} 30 86400 5")
    });
    for (from, to, soas) in [
        ("200", "201", [&soas[0], &soas[1]]),
        ("201", "200", [&soas[1], &soas[0]]),
        ("201", "201", [&soas[1], &soas[1]]),
    ] {
        let answer = json(from, to);
        assert_eq!(
            (&answer["fromSoa"], &answer["toSoa"]),
            (&(**soas[0]).into(), &(**soas[1]).into())
        );
    }
    let version = &json("200", "201")["versions"][0];
    assert_eq!(
        (&version["fromSoa"], &version["toSoa"]),
        (&(*soas[0]).into(), &(*soas[1]).into())
    );
    // A version with another serial alone has none.
    assert_eq!(
        json("101", "200")["versions"][0]["toSoa"],
        serde_json::Value::Null
    );
}

/// The SOA is in no index.
#[test]
fn a_log_of_the_apex_says_that_changes_of_the_soa_are_not_searched() {
    let said = log([None, None, Some("Z."), None]).unwrap();
    let want = "; versions of z. that changed its SOA alone are not searched: `log` without --name lists them\n";
    assert!(said.starts_with("; no version of z. matches"), "{said}");
    assert!(said.ends_with(want), "{said}");
}

#[test]
fn a_version_of_many_objects_says_how_many_it_does_not_list() {
    let mut past = Fake::new();
    let objects = (0..300).map(|number| cause(Verb::Deleted, &format!("s{number}"), "", ""));
    let mut objects: Vec<Cause> = objects.collect();
    objects.push(objects[0].clone());
    Arc::make_mut(&mut past.steps[2]).causes = vec![objects];
    let said = asked(&past, log_request(None, None, Some(1)), Output::Text).unwrap();
    assert!(
        said.ends_with("shop/s4\n    and 295 more: --output json lists all\n"),
        "{said}"
    );
}

#[test]
fn a_name_of_another_zone_is_not_answered_as_if_it_were_absent() {
    let past = Fake::new();
    let (zone, name) = ("z".to_owned(), Some("www.example.org".to_owned()));
    let no_time = None;
    for request in [
        Request::Show {
            zone: zone.clone(),
            name: name.clone(),
        },
        Request::Blame {
            zone: zone.clone(),
            name: name.clone(),
        },
        Request::Log {
            zone: Some(zone),
            since: no_time.clone(),
            until: no_time,
            name,
            object: None,
            count: None,
        },
    ] {
        let refusal = asked(&past, request, Output::Text).unwrap_err();
        assert_eq!(refusal, "www.example.org. is not a name of z.");
    }
}

/// Two versions may lie a million apart: a few records are found by the index, and not all between is read.
#[test]
fn a_diff_of_versions_far_apart_names_the_causes_of_a_few_records() {
    let mut past = Fake::new();
    add_versions(&mut past, 5000);
    let said = diff_of(&past, "100", Some("5200")).expect("it is answered");
    for line in [
        "-web.z. 5 IN A 192.0.2.1\n; applied Service shop/web",
        "+db.z. 5 IN A 192.0.2.3\n; applied Service shop/db (shop.yaml:9)\n; there may be more: `log` lists all",
    ] {
        assert!(said.contains(line), "{said}");
    }
    let looked_at = past.looked_at.borrow().len();
    assert!(looked_at < 100, "{looked_at} versions were read");
}

#[test]
fn diff_the_other_way_takes_back_what_came() {
    let back = diff("200", Some("101")).expect("it is answered");
    assert!(back.starts_with("--- z. 200 "), "{back}");
    assert!(
        back.contains("\n-db.z. 5 IN A 192.0.2.3\n; applied Service shop/db (shop.yaml:9)\n+web.z. 5 IN A 192.0.2.2\n; deleted"),
        "{back}"
    );
}

#[test]
fn machines_read_a_json_object_a_line() {
    let request = Request::Diff {
        zone: "z".into(),
        from: "101".into(),
        to: None,
    };
    let text = asked(&Fake::new(), request, Output::Json).expect("it is answered");
    let read: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!(read["from"], 101);
    assert_eq!(read["to"], 200);
    assert_eq!(read["removed"][0], "web.z. 5 IN A 192.0.2.2");
    assert_eq!(read["removedWhy"][0]["causes"][0]["verb"], "deleted");
    assert_eq!(read["addedWhy"][0]["causes"][0]["name"], "db");
    assert_eq!(read["addedWhy"][0]["serial"], 200);
    assert_eq!(read["versions"][0]["causes"][1][0]["name"], "db");
    assert_eq!(read["versions"][0]["added"][0]["cause"], 1);
}

/// The versions of all zones are one line of time, whatever the number of versions that the index names at once.
#[test]
fn log_of_several_zones_is_in_the_order_of_time() {
    let mut past = Fake::new();
    past.zones = vec![name("y."), name("z.")];
    let lines = |past: &Fake, name: Option<&str>, count: Option<u64>| -> Vec<String> {
        let request = Request::Log {
            zone: None,
            since: None,
            until: None,
            name: None,
            object: name.map(ToOwned::to_owned),
            count,
        };
        let text = asked(past, request, Output::Text).expect("it is answered");
        let versions = text.lines().filter(|line| line.starts_with(['y', 'z']));
        let words = versions.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" "));
        words.collect()
    };
    let all = ["y. 200", "z. 200", "y. 101", "z. 101", "y. 100", "z. 100"];
    assert_eq!(lines(&past, None, None), all);
    assert_eq!(lines(&past, Some("svc/shop/web"), None), all);
    assert_eq!(lines(&past, None, Some(3)), all[..3]);
    add_versions(&mut past, 150);
    for step in past.steps.iter_mut().skip(3) {
        let step = Arc::make_mut(step);
        step.time_ms += 1000 * step.seq;
        step.causes = vec![vec![cause(Verb::Applied, "web", "", "5")]];
    }
    let many = lines(&past, Some("svc/shop/web"), None);
    assert_eq!(many.len(), 306);
    assert_eq!((&*many[0], &*many[299]), ("y. 350", "z. 201"));
    assert_eq!(many[300..], all);
}

#[test]
fn machines_read_what_is_not_there_and_what_is_not_kept() {
    let json = |past: &Fake, request| {
        let text = asked(past, request, Output::Json).expect("it is answered");
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let log = |object: &str| Request::Log {
        zone: None,
        since: None,
        until: None,
        name: None,
        object: Some(object.to_owned()),
        count: None,
    };
    let mut past = Fake::new();
    let read = json(&past, log("svc/shop/cart"));
    assert_eq!(read.len(), 1);
    assert_eq!(read[0]["to"]["serial"], 200);
    past.steps.remove(0);
    let read = json(&past, log("svc/shop/web"));
    assert_eq!((&read[0]["serial"], read.len()), (&200.into(), 3));
    assert_eq!(
        (&read[2]["type"], &read[2]["serial"]),
        (&"begins".into(), &101.into())
    );
    let refusal = asked(&past, log("svc/shop/cart"), Output::Json).unwrap_err();
    let want = "no version that is kept matches; the history of z. begins at serial 101, 2026-11-21T14:00:01.000Z";
    assert_eq!(refusal, want);
    let (zone, name) = ("z@101".to_owned(), Some("db.z".to_owned()));
    for request in [
        Request::Show {
            zone: zone.clone(),
            name: name.clone(),
        },
        Request::Blame { zone, name },
    ] {
        let read = json(&Fake::new(), request);
        assert_eq!(
            (&read[0]["type"], &read[0]["name"]),
            (&"absent".into(), &"db.z.".into())
        );
        assert_eq!((&read[0]["serial"], read.len()), (&101.into(), 1));
    }
}

/// `show z@held`, perhaps of a name.
fn held(past: &Fake, name: Option<&str>, output: Output) -> Result<String, String> {
    let request = Request::Show {
        zone: "z@held".into(),
        name: name.map(Into::into),
    };
    asked(past, request, output)
}

#[test]
fn nothing_that_waits_and_a_name_that_does_not_wait_are_answers() {
    let mut past = Fake::new();
    let json = |past: &Fake, name| -> serde_json::Value {
        serde_json::from_str(&held(past, name, Output::Json).unwrap()).expect("it is one line")
    };
    let none = "; nothing of z. waits: serial 200 is as its sources\n";
    assert_eq!(held(&past, None, Output::Text).as_deref(), Ok(none));
    let waiting = || Request::Waiting { zone: "z".into() };
    assert_eq!(asked(&past, waiting(), Output::Text).as_deref(), Ok(none));
    let line = asked(&past, waiting(), Output::Json).expect("it is answered");
    let read: serde_json::Value = serde_json::from_str(&line).expect("it is one line");
    assert_eq!(
        (&read["type"], &read["serial"], &read["timeMs"]),
        (&"none".into(), &200.into(), &THIRD_MS.into())
    );
    let read = json(&past, None);
    assert_eq!(
        (&read["type"], &read["serial"]),
        (&"none".into(), &200.into())
    );

    past.waiting = Some(Waiting {
        contents: past.contents(&name("z."), 2).unwrap(),
        removed: RrList::default(),
        added: RrList::default(),
        causes: Vec::new(),
    });
    let read = json(&past, Some("web.z"));
    assert_eq!(
        (&read["record"], &read["serial"], &read["waiting"]),
        (&"web.z. 5 IN A 192.0.2.2".into(), &200.into(), &true.into())
    );
    let web =
        "; z. as it waits, 2 records; it is published within seconds\nweb.z. 5 IN A 192.0.2.2\n";
    assert_eq!(held(&past, Some("web.z"), Output::Text).as_deref(), Ok(web));
    let absent = "; db.z. has no record in z. as it waits; it is published within seconds\n";
    assert_eq!(
        held(&past, Some("db.z"), Output::Text).as_deref(),
        Ok(absent)
    );
    let read = json(&past, Some("db.z"));
    assert_eq!(
        (&read["type"], &read["name"], &read["waiting"]),
        (&"absent".into(), &"db.z.".into(), &true.into())
    );
}

#[test]
fn a_zone_that_lost_all_its_versions_is_not_known_and_not_unheard_of() {
    let mut past = Fake::new();
    past.lost = vec![name("lost.")];
    let fault = |zone: &str| {
        let request = Request::Show {
            zone: zone.into(),
            name: None,
        };
        let question = Question {
            request,
            output: Output::Text,
        };
        answer(&question, &past, &ASKER.into(), &mut Vec::new())
            .unwrap_err()
            .fault()
    };
    assert_eq!(fault("LOST"), crate::Fault::NotKnown);
    assert_eq!(fault("y"), crate::Fault::Wrong);
    // What has the serials after the newest may be another history, which was lost.
    assert_eq!(fault("z@201"), crate::Fault::NotKnown);
    assert_eq!(fault("z@99"), crate::Fault::NotKnown);
    assert_eq!(fault("z@102"), crate::Fault::Wrong);
}

/// A short history of a zone that cannot have the name does not make the answer uncertain.
#[test]
fn log_of_a_name_looks_only_into_zones_that_it_is_within() {
    let log = |zones: &[&str], name: &str| {
        let mut past = Fake::new();
        past.zones = zones.iter().map(|zone| super::name(zone)).collect();
        past.steps.remove(0);
        let request = Request::Log {
            zone: None,
            since: None,
            until: None,
            name: Some(name.to_owned()),
            object: None,
            count: None,
        };
        asked(&past, request, Output::Text)
    };
    let lines = |said: Result<String, String>, word: &str| {
        let said = said.expect("it is answered");
        said.matches(word).count()
    };
    let begins = "; the history of ";
    assert_eq!(lines(log(&["y.", "z."], "web.z."), begins), 1);
    // The inner zone may be younger than the name.
    assert_eq!(lines(log(&["web.z.", "y.", "z."], "web.z."), begins), 2);
    let none = log(&["y.", "z."], "cart.z.").unwrap_err();
    let want = "no version that is kept matches; the history of z. begins at serial 101, 2026-11-21T14:00:01.000Z";
    assert_eq!(none, want);
    let outside = log(&["y.", "z."], "web.x.").unwrap_err();
    assert_eq!(outside, "web.x. is not a name of y. or z.");
}

#[test]
fn why_of_a_version_is_refused_with_the_right_question() {
    let refusal = |name: &str| {
        let request = Request::Why {
            name: name.into(),
            rtype: None,
        };
        let question = Question {
            request,
            output: Output::Text,
        };
        let error = answer(&question, &Fake::new(), &ASKER.into(), &mut Vec::new()).unwrap_err();
        (error.fault(), error.to_string())
    };
    for name in ["z@100", "@", "web.z@2h ago"] {
        let want = format!(
            "`why` explains the current answer for a NAME, and \"{name}\" has an @; for the records of a version write: blame ZONE@SERIAL NAME (an @ of the name itself is \\@)"
        );
        assert_eq!(refusal(name), (crate::Fault::Wrong, want));
    }
    // These are names.
    for name in ["web.z", "a\\@b.z", "a\\064b.z"] {
        assert_eq!(refusal(name).0, crate::Fault::Failed, "{name}");
    }
}

#[test]
fn why_of_an_address_is_about_its_name_in_the_reverse_zone() {
    for (text, rtype, name, wanted) in [
        ("10.96.0.1", None, "1.0.96.10.in-addr.arpa.", "PTR"),
        ("10.96.0.1", Some("TXT"), "1.0.96.10.in-addr.arpa.", "TXT"),
        (
            "2001:db8::1",
            None,
            &*format!("1.{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(23)),
            "PTR",
        ),
        ("10.96.0.1.", None, "10.96.0.1.", "A"),
        ("web.z", None, "web.z.", "A"),
    ] {
        let (found, found_type) = crate::why::parse(text, rtype).unwrap();
        assert_eq!(
            (found.to_string(), found_type.to_string()),
            (name.into(), wanted.into())
        );
    }
}
