//! The old part of the history: entries that stand for several versions, or lost their records.

use serde_json::Value;
use zone::journal::Archived;

use super::*;

/// The time of the first of two condensed versions: half a second after that of serial 100.
const FIRST_MS: u64 = THIRD_MS - 1500;
const WITHIN: &str = "within 2 condensed versions, 2026-11-21T14:00:00.500Z to 2026-11-21T14:00:01.000Z, the last with serial 101";

/// Serial 100 is version 1 and whole, serial 101 stands for versions 2 and 3, and serial 200 is version 4.
fn past() -> Fake {
    let mut past = Fake::new();
    for (step, seq) in past.steps.iter_mut().zip([1, 3, 4]) {
        Arc::make_mut(step).seq = seq;
    }
    let [first, second, _] = &past.steps[..] else {
        panic!("there are three versions");
    };
    past.archived = vec![
        Archived::made(first, 1, first.time_ms, true),
        Archived::made(second, 2, FIRST_MS, true),
    ];
    past
}

/// The same, and the records of versions 2 and 3 were dropped.
fn stripped() -> Fake {
    let mut past = past();
    past.archived[1] = Archived::made(&past.steps[1], 2, FIRST_MS, false);
    let step = Arc::make_mut(&mut past.steps[1]);
    (step.removed, step.added) = (list(&[]), list(&[]));
    step.causes = Vec::new();
    past
}

/// `log` with these filters: since, until, name, object.
fn log(filters: [Option<&str>; 4], count: Option<u64>) -> Request {
    let [since, until, name, object] = filters.map(|filter| filter.map(ToOwned::to_owned));
    Request::Log {
        zone: None,
        since,
        until,
        name,
        object,
        count,
    }
}

fn json(past: &Fake, request: Request) -> Vec<Value> {
    let text = asked(past, request, Output::Json).expect("it is answered");
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn diff(from: &str, to: &str) -> Request {
    Request::Diff {
        zone: "z".into(),
        from: from.into(),
        to: Some(to.into()),
    }
}

#[test]
fn a_record_of_condensed_versions_may_be_older_than_the_last_of_them() {
    let past = past();
    for name in [None, Some("web.z".to_owned())] {
        let blame = || Request::Blame {
            zone: "z@101".into(),
            name: name.clone(),
        };
        let said = asked(&past, blame(), Output::Text).unwrap();
        assert!(said.contains(&format!("\n    {WITHIN}\n")), "{said}");
        assert!(!said.contains("since"), "{said}");
        let since = json(&past, blame())[0]["since"].clone();
        assert_eq!(
            (&since["serial"], &since["condensed"]["versions"]),
            (&101.into(), &2.into())
        );
        assert_eq!(since["condensed"]["firstTimeMs"], FIRST_MS);
    }
    let whole = Request::Blame {
        zone: "z".into(),
        name: None,
    };
    let since = json(&past, whole)[0]["since"].clone();
    assert_eq!(
        (&since["serial"], &since["condensed"]),
        (&200.into(), &Value::Null)
    );
}

#[test]
fn a_diff_marks_the_condensed_versions_and_the_reasons_that_are_of_them() {
    let answer = json(&past(), diff("100", "101")).remove(0);
    for place in ["/versions/0", "/removedWhy/0", "/addedWhy/0"] {
        let marked = answer.pointer(place).unwrap();
        assert_eq!(marked["condensed"]["versions"], 2, "{place}: {marked}");
    }
    let answer = json(&past(), diff("101", "200")).remove(0);
    for place in ["/versions/0", "/removedWhy/0", "/addedWhy/0"] {
        let whole = answer.pointer(place).unwrap();
        assert_eq!(whole["condensed"], Value::Null, "{place}: {whole}");
    }
}

#[test]
fn a_search_says_which_versions_it_could_not_search() {
    let dropped = "of z. the records and objects of 2 versions (2026-11-21T14:00:00.500Z to 2026-11-21T14:00:01.000Z) were dropped: not searched";
    let past = stripped();
    let said = asked(
        &past,
        log([None, None, Some("web.z"), None], None),
        Output::Text,
    )
    .unwrap();
    assert!(
        said.contains("z. 200 ") && said.contains("z. 100 "),
        "{said}"
    );
    assert!(said.ends_with(&format!("; {dropped}\n")), "{said}");
    let read = json(&past, log([None, None, Some("web.z"), None], None));
    let remark = &read[2];
    assert_eq!(
        (&remark["type"], &remark["code"]),
        (&"remark".into(), &"dropped".into())
    );
    assert_eq!(
        (&remark["versions"], &remark["sinceMs"]),
        (&2.into(), &FIRST_MS.into())
    );
    // Nothing is found, and what was not searched may match.
    for filter in [
        [None, None, Some("cart.z"), None],
        [None, None, None, Some("svc/shop/cart")],
    ] {
        for output in [Output::Text, Output::Json] {
            let refusal = asked(&past, log(filter, None), output).unwrap_err();
            assert_eq!(
                refusal,
                format!("no version that is kept matches; {dropped}")
            );
        }
        let after = [Some("2026-11-21T14:00:01.5Z"), None, filter[2], filter[3]];
        let said = asked(&past, log(after, None), Output::Text).unwrap();
        assert!(said.starts_with("; no version of z. matches"), "{said}");
        assert!(!said.contains("not searched"), "{said}");
    }
}

#[test]
fn a_search_says_that_it_does_not_find_what_was_undone() {
    let undone = "; of z. 2 versions (2026-11-21T14:00:00.500Z to 2026-11-21T14:00:01.000Z) are condensed: a change that was undone within them is not listed\n";
    for (count, remarked) in [(None, true), (Some(2), true), (Some(1), false)] {
        let search = || log([None, None, Some("web.z"), None], count);
        let said = asked(&past(), search(), Output::Text).unwrap();
        assert_eq!(said.ends_with(undone), remarked, "{said}");
        let read = json(&past(), search());
        let is_remark = |line: &&Value| line["code"] == "condensed";
        assert_eq!(
            read.iter().any(|line| is_remark(&line)),
            remarked,
            "{read:?}"
        );
    }
    let all = asked(&past(), log([None; 4], None), Output::Text).unwrap();
    assert!(!all.contains("undone"), "{all}");
}

#[test]
fn a_search_that_finds_nothing_names_what_it_searched_or_says_that_it_is_not_known() {
    let search = |since, until| {
        let request = log([since, until, Some("cart.z"), None], None);
        let output = Output::Text;
        let question = Question { request, output };
        let mut said = Vec::new();
        let answered = answer(&question, &past(), &ASKER.into(), &mut said);
        answered.map(|()| String::from_utf8(said).unwrap())
    };
    let [first, second] = [0, 1].map(|second| format!("2026-11-21T14:00:0{second}.000Z"));
    // Between two versions the one before was current.
    for (since, until, searched) in [
        (
            "2026-11-21T14:00:00.1Z",
            "2026-11-21T14:00:00.2Z",
            format!("100 of {first} to serial 100 of {first}"),
        ),
        (
            "2026-11-21T14:00:01.1Z",
            "2026-11-21T14:00:01.2Z",
            format!("101 of {second} to serial 101 of {second}"),
        ),
    ] {
        let want = format!("; no version of z. matches, from serial {searched}");
        let said = search(Some(since), Some(until)).unwrap();
        assert_eq!(said.lines().next(), Some(&*want));
    }
    // A name that came and went within condensed versions is not found.
    for (since, until) in [
        (Some(&*first), Some(&*second)),
        (None, Some(&*second)),
        (Some(&*first), None),
        (None, None),
    ] {
        let refused = search(since, until).unwrap_err();
        assert_eq!(refused.fault(), crate::error::Fault::NotKnown);
        let text = refused.to_string();
        assert!(
            text.contains("are condensed: a change that was undone"),
            "{text}"
        );
    }
}

#[test]
fn a_history_that_begins_with_condensed_versions_gives_the_serial_its_own_time() {
    let mut past = past();
    past.archived.remove(0);
    past.steps.remove(0);
    let begins = "2026-11-21T14:00:00.500Z, with 2 condensed versions up to serial 101, 2026-11-21T14:00:01.000Z";
    let said = asked(&past, log([None; 4], None), Output::Text).unwrap();
    let want = format!("\n; the history of z. begins at {begins}\n");
    assert!(said.ends_with(&want), "{said}");
    let read = json(&past, log([None; 4], None));
    let line = read.last().unwrap();
    assert_eq!(
        (&line["serial"], &line["timeMs"]),
        (&101.into(), &(THIRD_MS - 1000).into())
    );
    assert_eq!(line["condensed"]["firstTimeMs"], FIRST_MS);
    let early = Request::Show {
        zone: "z@2026-11-21".into(),
        name: None,
    };
    let refusal = asked(&past, early, Output::Text).unwrap_err();
    assert!(
        refusal.ends_with(&format!("begins at {begins}")),
        "{refusal}"
    );
}

#[test]
fn verify_says_where_older_versions_are() {
    let verify = |past: &Fake| {
        let request = Request::Verify {
            zone: None,
            anchors: Vec::new(),
            noted: Vec::new(),
        };
        asked(past, request, Output::Text).unwrap()
    };
    let mut past = past();
    past.verdict.oldest.0 = 4;
    let said = verify(&past);
    assert!(
        said.contains("older versions were dropped by the limits"),
        "{said}"
    );
    (past.verdict.archived, past.verdict.condensed) = (2, 1);
    let said = verify(&past);
    assert!(
        said.contains(": its old part has 2 entries of older versions: good\n"),
        "{said}"
    );
    assert!(!said.contains("were dropped"), "{said}");
}

/// It may have been removed and added again within them.
#[test]
fn blame_and_why_say_that_a_record_may_be_younger_where_later_versions_are_condensed() {
    let mut past = past();
    Arc::make_mut(&mut past.steps[0]).added = list(&[("old.z.", 9, 0), ("web.z.", 1, 0)]);
    let text = "of z. 2 versions (2026-11-21T14:00:00.500Z to 2026-11-21T14:00:01.000Z) are condensed: a change that was undone within them is not listed";
    for (zone, name, is_remarked) in [
        ("z@101", Some("old.z"), true),
        ("z", Some("old.z"), true),
        ("z", None, true),
        ("z@100", Some("old.z"), false),
        ("z@101", Some("web.z"), false),
        ("z", Some("db.z"), false),
        ("z", Some("cart.z"), false),
    ] {
        let blame = || Request::Blame {
            zone: zone.into(),
            name: name.map(Into::into),
        };
        let said = asked(&past, blame(), Output::Text).unwrap();
        assert_eq!(
            said.ends_with(&format!("\n; {text}\n")),
            is_remarked,
            "{said}"
        );
        let last = json(&past, blame()).pop().unwrap();
        assert_eq!(last["code"] == "condensed", is_remarked, "{last}");
        assert_eq!(last["text"] == text, is_remarked, "{last}");
    }
    // `why` asks for the same.
    let old = list(&[("old.z.", 9, 0)]);
    let records: Vec<_> = old.iter().map(|rr| rr.to_record()).collect();
    for (seq, is_remarked) in [(1, false), (4, true)] {
        let found = crate::blame::since(&past, &name("z."), seq, &records);
        let remark = found.unwrap().1.pop().map(|remark| remark.text);
        assert_eq!(remark.as_deref(), is_remarked.then_some(text));
    }
}
