//! Times that were there twice.

use serde_json::Value;
use zone::Hash;
use zone::journal::{Archived, SegmentPart};

use super::versions::add_versions;
use super::*;

const ONE: &str = "2026-11-21T14:00:01.000Z";

/// The clock was set back after serial 101: serial 200 has its time.
fn past() -> Fake {
    let mut past = Fake::new();
    Arc::make_mut(&mut past.steps[2]).time_ms = THIRD_MS - 1000;
    past.clock_ahead_ms = 10_000;
    past
}

fn show(past: &Fake, at: &str, output: Output) -> String {
    let request = Request::Show {
        zone: format!("z@{at}"),
        name: Some("web.z".into()),
    };
    asked(past, request, output).expect("it is answered")
}

/// The remark for a time, with the serials that it names.
fn pair(time: &str) -> String {
    format!(
        "; {time} may have been there twice: serials 101 to 200 have one time, {ONE}, as the clock was set back, or both came within a millisecond; how far is not known. If it was, one of them was current, too: `log` lists them, z.@SERIAL asks for one\n"
    )
}

#[test]
fn a_time_that_may_have_been_there_twice_is_remarked_on_in_text_and_json() {
    let past = past();
    for at in [
        "2026-11-21T14:00:00.500Z",
        ONE,
        "2026-11-21T14:00:05.000Z",
        "8s ago",
    ] {
        let said = show(&past, at, Output::Text);
        let time = if at == "8s ago" {
            "2026-11-21T14:00:03.000Z"
        } else {
            at
        };
        assert!(said.contains(&pair(time)), "{at}: {said}");
        let read: Value = serde_json::from_str(&show(&past, at, Output::Json)).unwrap();
        let doubt = &read["clockSetBack"];
        assert_eq!(doubt["first"], 101, "{read}");
        assert_eq!(doubt["last"], 200, "{read}");
        assert_eq!(doubt["time"], ONE, "{read}");
        assert_eq!(doubt["timeMs"], THIRD_MS - 1000, "{read}");
    }
}

#[test]
fn a_serial_the_current_version_and_times_in_order_have_no_remark() {
    for (past, at) in [
        (past(), "now"),
        (past(), "100"),
        (past(), "200"),
        (Fake::new(), "2026-11-21T14:00:00.500Z"),
        (Fake::new(), ONE),
        (Fake::new(), "now"),
    ] {
        assert!(!show(&past, at, Output::Text).contains("twice"), "{at}");
        assert!(
            !show(&past, at, Output::Json).contains("clockSetBack"),
            "{at}"
        );
    }
    // Days later no clock was ahead so far.
    let mut past = past();
    past.clock_ahead_ms = 3 * 86_400_000;
    assert!(!show(&past, "1 day ago", Output::Text).contains("twice"));
    assert!(show(&past, "60h ago", Output::Text).contains("twice"));
}

#[test]
fn blame_diff_and_absence_have_the_remark() {
    let past = past();
    let time = "2026-11-21T14:00:00.500Z";
    for output in [Output::Text, Output::Json] {
        let is_remarked = |said: &str, field: &str| match output {
            Output::Text => said.matches("twice").count() == 1,
            Output::Json => {
                let first = said.lines().next().unwrap();
                let read: Value = serde_json::from_str(first).unwrap();
                read[field]["last"] == 200
            }
        };
        for name in ["web.z", "db.z"] {
            let blame = Request::Blame {
                zone: format!("z@{time}"),
                name: Some(name.into()),
            };
            let said = asked(&past, blame, output).unwrap();
            assert!(is_remarked(&said, "clockSetBack"), "{said}");
        }
        for (from, to, field) in [
            (time, Some("now"), "fromClockSetBack"),
            ("200", Some(time), "toClockSetBack"),
            (time, Some(time), "fromClockSetBack"),
        ] {
            let diff = Request::Diff {
                zone: "z".into(),
                from: from.into(),
                to: to.map(Into::into),
            };
            let said = asked(&past, diff, output).unwrap();
            assert!(is_remarked(&said, field), "{said}");
        }
    }
}

#[test]
fn a_rollback_and_corefiles_have_the_remark() {
    let past = past();
    let time = "2026-11-21T14:00:00.500Z";
    let back = |to: &str, output| {
        let (to, time) = (to.to_owned(), "1h".to_owned());
        let order = OrderText::Rollback { to, time };
        ordered(&past, "z", order, output).unwrap()
    };
    let show = |at: &str, output| {
        let zone = format!("z@{at}");
        asked(&past, Request::Corefile { zone }, output).unwrap()
    };
    let diff = |at: &str, output| {
        let (zone, from, to) = ("z".to_owned(), at.to_owned(), Some("200".to_owned()));
        asked(&past, Request::Corefiles { zone, from, to }, output).unwrap()
    };
    let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
    for (asks, field) in [
        (&back as &dyn Fn(&str, Output) -> String, "clockSetBack"),
        (&show, "clockSetBack"),
        (&diff, "fromClockSetBack"),
    ] {
        let remark = pair(time).trim_start_matches("; ").to_owned();
        let said = asks(time, Output::Text);
        assert!(said.contains(&remark), "{said}");
        assert_eq!(read(asks(time, Output::Json))[field]["last"], 200);
        assert!(!asks("100", Output::Text).contains("twice"));
        assert!(read(asks("100", Output::Json))[field].is_null());
    }
    assert!(
        show(time, Output::Text).starts_with(&format!("# the Corefile at {time}, with z. 100 of "))
    );
    assert!(show(time, Output::Text).contains(&format!("\n# {time} may have been")));
}

/// What the remark needs is in an archive that is away: a question says so, an order is not stopped.
#[test]
fn a_rollback_works_while_the_archive_is_away() {
    let mut past = past();
    past.away = vec![1];
    let (to, time) = (ONE.to_owned(), "1h".to_owned());
    let order = OrderText::Rollback { to, time };
    let said = ordered(&past, "z", order, Output::Text).unwrap();
    assert!(said.contains("serial 200 again"), "{said}");
    let question = Request::Show {
        zone: format!("z@{ONE}"),
        name: Some("web.z".into()),
    };
    let refused = asked(&past, question, Output::Text).unwrap_err();
    assert!(refused.to_string().contains("away"), "{refused}");
}

/// A past of ten versions, a second apart. Versions 1 to 3 and 4 to 6 are in segments; of the second, which is lost, only
/// the ends are known.
fn past_with_a_lost_segment() -> Fake {
    let mut past = Fake::new();
    add_versions(&mut past, 7);
    for (step, seconds) in past.steps.iter_mut().zip(0..) {
        Arc::make_mut(step).time_ms = THIRD_MS + 1000 * seconds - 2000;
    }
    let segment = |first, until| SegmentPart {
        first,
        until,
        last: until,
        first_serial: Serial::decode(0),
        hash: Hash::ZERO,
        digest: Hash::ZERO,
        place: String::new(),
    };
    past.segments = vec![segment(1, 3), segment(4, 6)];
    past.away = vec![5];
    past
}

#[test]
fn a_time_is_looked_for_in_no_segment_that_does_not_have_it() {
    let past = past_with_a_lost_segment();
    for (at, serial) in [
        ("2026-11-21T14:00:01.500Z", "101"),
        ("2026-11-21T14:00:06Z", "204"),
    ] {
        let said = show(&past, at, Output::Text);
        assert!(said.contains(&format!("serial {serial} of ")), "{said}");
    }
    let log = |since: &str| {
        let request = Request::Log {
            zone: Some("z".into()),
            since: Some(since.into()),
            until: None,
            name: None,
            object: None,
            count: None,
        };
        asked(&past, request, Output::Text)
    };
    let said = log("2026-11-21T14:00:06Z").unwrap();
    assert_eq!(said.matches("z. 20").count(), 4, "{said}");
    let refused = log("2026-11-21T14:00:04Z").unwrap_err();
    assert!(refused.contains("away"), "{refused}");
}

#[test]
fn a_newest_version_ahead_of_the_clock_tells_that_it_was_set_back() {
    let mut past = Fake::new();
    past.clock_ahead_ms = -500;
    let log = |since, until| {
        let request = log_request(since, until, Some(1));
        asked(&past, request, Output::Text).expect("it is answered")
    };
    let behind = "; the newest version of z. has the time 2026-11-21T14:00:02.000Z, which this clock has not reached";
    let all = log(None, None);
    assert!(all.contains(behind), "{all}");
    // A time without a version may have had one.
    let (since, until) = ("2026-11-21T14:00:00.100Z", "2026-11-21T14:00:00.500Z");
    let none = log(Some(since), Some(until));
    assert!(none.contains("may have been there twice"), "{none}");
    let early = Request::Show {
        zone: "z@2026-11-21T13:59:59Z".into(),
        name: None,
    };
    let early = asked(&past, early, Output::Text).unwrap_err();
    for part in [
        "nothing is kept of z. at that time",
        "may have been there twice",
    ] {
        assert!(early.contains(part), "{early}");
    }
    let said = show(&past, "1s ago", Output::Text);
    let remark = "; 2026-11-21T14:00:00.500Z may have been there twice: serial 200 has the time 2026-11-21T14:00:02.000Z, and the clock was set back meanwhile; how far is not known. If it was, that version was current, too: ask for z.@200\n";
    assert!(said.contains(remark), "{said}");
}

#[test]
fn three_versions_with_one_time_did_not_come_within_a_millisecond() {
    let mut past = past();
    add_versions(&mut past, 2);
    for step in &mut past.steps[3..] {
        Arc::make_mut(step).time_ms = THIRD_MS - 1000;
    }
    let said = show(&past, ONE, Output::Text);
    assert!(said.contains("serials 101 to 202 have one time"), "{said}");
    assert!(!said.contains("millisecond;"), "{said}");
}

#[test]
fn condensed_versions_with_one_time_tell_that_the_clock_was_set_back() {
    let mut past = Fake::new();
    for (step, seq) in past.steps.iter_mut().zip([1, 4, 5]) {
        Arc::make_mut(step).seq = seq;
    }
    let [first, second, _] = &past.steps[..] else {
        panic!("there are three versions");
    };
    past.archived = vec![
        Archived::made(first, 1, first.time_ms, true),
        Archived::made(second, 2, second.time_ms, true),
    ];
    for at in ["2026-11-21T14:00:00.500Z", "2026-11-21T14:00:01.500Z"] {
        let said = show(&past, at, Output::Text);
        assert!(said.contains("serials 100 to 101 have one time"), "{said}");
    }
    let after = show(&past, "2026-11-21T14:00:02Z", Output::Text);
    assert!(!after.contains("twice"), "{after}");
}
