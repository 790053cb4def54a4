//! Acts beside versions: in the log by time, in a stream once.

use super::*;
use crate::Follow;
use crate::answer::answer_follow;
use crate::follow::Cursor;
use crate::page::Room;
use provenance::{Operator, SocketUser};
use serde_json::{Value, json};
use zone::journal::Act;

/// A freeze a second after the second version, and its end at the time of the third.
fn past() -> Fake {
    let act = |number: u64, time_ms: u64, what: &str, about: &str| Act {
        seq: None,
        number,
        time_ms,
        what: what.into(),
        by: "alice\nbob".into(),
        about: about.into(),
        serial: 101,
        until_ms: (what == "frozen").then_some(THIRD_MS),
    };
    let mut past = Fake::new();
    past.acts = vec![
        act(1, THIRD_MS - 500, "frozen", ""),
        act(2, THIRD_MS, "resumed", "after the freeze by alice"),
    ];
    past
}

/// What comes first of each line that begins an entry: the serial and what was done.
fn entries(log: &str) -> Vec<String> {
    let entries = log.lines().filter(|line| line.starts_with("z. "));
    let entry = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        format!("{} {}", words[1], words[3])
    };
    entries.map(entry).collect()
}

fn log(since: Option<&str>, name: Option<&str>, count: Option<u64>) -> String {
    let request = Request::Log {
        zone: None,
        since: since.map(Into::into),
        until: None,
        name: name.map(Into::into),
        object: None,
        count,
    };
    asked(&past(), request, Output::Text).unwrap()
}

#[test]
fn acts_stand_in_the_log_by_time_and_are_entries_as_versions_are() {
    let all = ["101 resumed", "200 +1", "101 frozen", "101 +1", "100 +1"];
    let text = log(None, None, None);
    assert_eq!(entries(&text), all);
    assert!(text.contains(
        "z. 101 2026-11-21T14:00:01.500Z frozen until 2026-11-21T14:00:02.000Z, by alice\\nbob\n"
    ));
    assert_eq!(entries(&log(None, None, Some(3))), all[..3]);
    let late = log(Some("2026-11-21T14:00:01.700Z"), None, None);
    assert_eq!(entries(&late), all[..2]);
    // What was done to the zone is no change of a name.
    let of_name = log(None, Some("web.z."), None);
    assert_eq!(entries(&of_name), ["200 +1", "101 +1", "100 +1"]);
}

#[test]
fn acts_are_listed_where_they_were_done_also_if_the_clock_was_set_back() {
    let act = |number: u64, time_ms: u64, seq: Option<u64>| Act {
        number,
        time_ms,
        what: format!("act{number}"),
        by: "alice".into(),
        about: "x".into(),
        serial: 101,
        seq,
        until_ms: None,
    };
    let mut past = past();
    // The clock was ahead when the first was done, and was set back before the next version.
    let late = THIRD_MS + 5000;
    past.acts = vec![
        act(1, late, Some(1)),
        act(2, late, Some(1)),
        act(3, late, Some(3)),
        act(4, late + 1, Some(3)),
    ];
    let request = |since: Option<&str>| Request::Log {
        zone: None,
        since: since.map(Into::into),
        until: None,
        name: None,
        object: None,
        count: None,
    };
    let text = asked(&past, request(None), Output::Text).unwrap();
    let all = [
        "101 act4", "101 act3", "200 +1", "101 +1", "101 act2", "101 act1", "100 +1",
    ];
    assert_eq!(entries(&text), all);
    let text = asked(
        &past,
        request(Some("2026-11-21T14:00:01.500Z")),
        Output::Text,
    )
    .unwrap();
    assert_eq!(
        entries(&text),
        ["101 act4", "101 act3", "200 +1", "101 act2", "101 act1"]
    );
}

/// A reason cannot look like another operator, in JSON it is a field, and what an older release stored is shown.
#[test]
fn an_operator_and_his_reason_are_apart() {
    let mut past = past();
    let user = SocketUser {
        uid: 1000,
        name: "eve".into(),
        process: Some(7),
        command: "zonewright freeze z.".into(),
    };
    past.acts[0].by = Operator::from(user).with_reason("x\", by uid 0 (root)");
    past.acts[1].by = "uid 0 (root), reason: x, by uid 1".into();
    let request = || Request::Log {
        zone: None,
        since: None,
        until: None,
        name: None,
        object: None,
        count: None,
    };
    let text = asked(&past, request(), Output::Text).unwrap();
    for by in [
        ", by uid 1000 (eve), process 7 (\"zonewright freeze z.\") over the control socket, reason: \"x\\\", by uid 0 (root)\"\n",
        ", by uid 0 (root), reason: x, by uid 1\n",
    ] {
        assert!(text.contains(by), "{text}");
    }
    let json = asked(&past, request(), Output::Json).unwrap();
    let lines = json.lines().map(|line| serde_json::from_str(line).unwrap());
    let acts: Vec<Value> = lines.filter(|it: &Value| it["type"] == "act").collect();
    let fields = |act: &Value| {
        ["uid", "user", "process", "command", "reason"].map(|field| act[field].clone())
    };
    let newer = json!([
        1000,
        "eve",
        7,
        "zonewright freeze z.",
        "x\", by uid 0 (root)"
    ]);
    assert_eq!(json!(fields(&acts[1])), newer);
    assert_eq!(
        json!(fields(&acts[0])),
        json!([null, null, null, null, null])
    );
    assert_eq!(acts[0]["by"], "uid 0 (root), reason: x, by uid 1");
}

/// Neither an act that is damaged nor one that had to make room is left out without a word.
#[test]
fn acts_that_cannot_be_listed_are_missed() {
    let mut past = past();
    past.act_faults.push("act 3 is damaged".into());
    past.acts.remove(0);
    let log = |since: Option<&str>, name: Option<&str>, count| {
        let request = || Request::Log {
            zone: None,
            since: since.map(Into::into),
            until: None,
            name: name.map(Into::into),
            object: None,
            count,
        };
        let text = asked(&past, request(), Output::Text).unwrap();
        let json = asked(&past, request(), Output::Json).unwrap();
        let remarks = json.matches("\"code\":\"acts\"").count();
        let lines: Vec<&str> = text.lines().filter(|it| it.starts_with(';')).collect();
        assert_eq!(remarks, lines.len(), "{json}");
        lines.join("\n")
    };
    let damaged = "; of the acts of z.: act 3 is damaged";
    let older = "; of the acts of z. those before number 2, 2026-11-21T14:00:02.000Z, are not kept";
    assert_eq!(log(None, None, None), format!("{damaged}\n{older}"));
    assert_eq!(log(None, None, Some(1)), damaged);
    assert_eq!(log(Some("2026-11-21T14:00:02Z"), None, None), damaged);
    assert_eq!(log(None, Some("web.z."), None), "");
}

#[test]
fn a_stream_has_each_act_once() {
    let past = past();
    let mut wanted = Follow {
        since: Some("2026-11-21T14:00:01Z".into()),
        ..Follow::default()
    };
    let mut page = || {
        let mut text = Vec::new();
        answer_follow(&past, &wanted, Room::PAGE, Output::Text, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let cursor: Cursor = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        wanted.cursor = Some(cursor);
        entries(&text)
    };
    assert_eq!(page(), ["101 +1", "200 +1", "101 frozen", "101 resumed"]);
    assert_eq!(page(), Vec::<String>::new());
    let now = Cursor::at_newest(&past, &past.zones).unwrap();
    assert_eq!(now.acts["z."], 2);
}
