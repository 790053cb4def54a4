//! Times at which a zone was not served, or after which versions may be lost.

use super::*;
use crate::error::Fault;
use provenance::{Cause, Operator, Verb};
use serde_json::Value;
use zone::journal::Act;

const BETWEEN: &str = "2026-11-21T14:00:01.500Z";
const LOST: &str = "versions after serial 101 may be lost, with serials up to 150 at most";

fn act(number: u64, time_ms: u64, what: &str, about: &str) -> Act {
    Act {
        number,
        time_ms,
        what: what.into(),
        by: Operator::default(),
        about: about.into(),
        serial: 200,
        seq: Some(3),
        until_ms: None,
    }
}

fn show(past: &Fake, at: &str, output: Output) -> String {
    let request = Request::Show {
        zone: format!("z{at}"),
        name: Some("web.z".into()),
    };
    asked(past, request, output).expect("it is answered")
}

#[test]
fn a_time_at_which_the_zone_was_not_served_is_remarked_on() {
    let mut past = Fake::new();
    past.acts = vec![
        act(1, THIRD_MS - 700, "removed", "from the Corefile"),
        act(2, THIRD_MS - 300, "returned", "to the Corefile"),
    ];
    let remark = "; from 2026-11-21T14:00:01.300Z to 2026-11-21T14:00:01.700Z the server did not have the zone, so this was not served\n";
    let at = format!("@{BETWEEN}");
    assert!(show(&past, &at, Output::Text).contains(remark));
    let read: Value = serde_json::from_str(&show(&past, &at, Output::Json)).unwrap();
    assert_eq!(read["notServed"]["fromMs"], THIRD_MS - 700, "{read}");
    assert_eq!(read["notServed"]["toMs"], THIRD_MS - 300, "{read}");
    for served in ["@2026-11-21T14:00:01.200Z", "@now", "", "@101"] {
        assert!(
            !show(&past, served, Output::Text).contains("not served"),
            "{served}"
        );
    }
    past.acts.pop();
    let remark =
        "; since 2026-11-21T14:00:01.300Z the server does not have the zone: this is not served\n";
    for absent in [&*at, "@now", ""] {
        assert!(
            show(&past, absent, Output::Text).contains(remark),
            "{absent}"
        );
    }
}

#[test]
fn what_may_be_lost_is_not_answered_as_if_it_had_not_been() {
    let mut past = Fake::new();
    past.acts = vec![act(1, THIRD_MS, "lost", LOST)];
    let at = format!("@{BETWEEN}");
    let remark = format!("; one of them may have been current then: {LOST}\n");
    assert!(show(&past, &at, Output::Text).contains(&remark));
    let read: Value = serde_json::from_str(&show(&past, &at, Output::Json)).unwrap();
    assert_eq!(read["mayBeLost"], LOST, "{read}");
    for known in ["@2026-11-21T14:00:00.500Z", "@now", "", "@101"] {
        assert!(
            !show(&past, known, Output::Text).contains("lost"),
            "{known}"
        );
    }
    let question = |serial: &str| Request::Show {
        zone: format!("z@{serial}"),
        name: None,
    };
    let refusal = |past: &Fake| {
        let (request, output) = (question("150"), Output::Text);
        let asked = Question { request, output };
        let refused = answer(&asked, past, &ASKER.into(), &mut Vec::new()).unwrap_err();
        (refused.fault(), refused.to_string())
    };
    let wanted = format!("whether z. had serial 150 is not known: {LOST}");
    assert_eq!(refusal(&past), (Fault::NotKnown, wanted.clone()));
    past.acts.clear();
    assert_eq!(refusal(&past).0, Fault::Wrong, "no version is lost there");
    // The version says it, too: acts may be lost, or not be kept any more.
    let mut restored = Fake::new();
    let cause = Cause::of(Verb::Restored, &format!("the store: {LOST}"));
    Arc::make_mut(&mut restored.steps[2])
        .causes
        .push(vec![cause]);
    assert_eq!(refusal(&restored), (Fault::NotKnown, wanted));
    assert!(show(&restored, &at, Output::Text).contains(&remark));
    // A search for changes of a name does not pass over them without a word.
    past.acts = vec![act(1, THIRD_MS, "lost", LOST)];
    let log = Request::Log {
        zone: Some("z".into()),
        since: None,
        until: None,
        name: Some("web.z".into()),
        object: None,
        count: None,
    };
    let said = asked(&past, log, Output::Text).unwrap();
    assert!(
        said.contains(&format!(
            "of z. not all versions before 2026-11-21T14:00:02.000Z are known: {LOST}"
        )),
        "{said}"
    );
}

#[test]
fn a_record_whose_cause_is_older_than_what_may_be_lost_may_be_younger() {
    let mut past = Fake::new();
    past.acts = vec![act(1, THIRD_MS, "lost", LOST)];
    let remarks = |seq: u64| {
        let web = list(&[("web.z.", 2, 0)]);
        let records: Vec<_> = web.iter().map(|rr| rr.to_record()).collect();
        let (_, remarks) = crate::blame::since(&past, &name("z."), seq, &records).unwrap();
        let texts = remarks.into_iter().map(|remark| remark.text);
        texts.collect::<Vec<_>>()
    };
    let text = format!("of z. not all versions before 2026-11-21T14:00:02.000Z are known: {LOST}");
    assert_eq!(remarks(3), std::slice::from_ref(&text));
    assert!(remarks(2).is_empty(), "it was known then");
    // What came with the first version after the loss may have been there before.
    let db = list(&[("db.z.", 3, 0)]);
    let records: Vec<_> = db.iter().map(|rr| rr.to_record()).collect();
    let (_, remarks) = crate::blame::since(&past, &name("z."), 3, &records).unwrap();
    let texts: Vec<_> = remarks.into_iter().map(|remark| remark.text).collect();
    assert_eq!(texts, [text]);
}

#[test]
fn a_copy_that_was_not_started_is_not_certain_of_what_came_after_its_newest_version() {
    let mut past = Fake::new();
    past.doubt = Some(LOST.to_owned());
    let remark = format!("; one of them may have been current then: {LOST}\n");
    for after in ["@2026-11-21T14:00:02.100Z", "@now", ""] {
        let said = show(&past, after, Output::Text);
        assert!(said.contains(&remark), "{after}: {said}");
    }
    for before in ["@2026-11-21T14:00:01.900Z", "@101"] {
        let said = show(&past, before, Output::Text);
        assert!(!said.contains("lost"), "{before}: {said}");
    }
    // A name that never changed here may have been changed there: with a match the log says so, without one it is not known.
    let said = asked(&past, log_of(Some("web.z"), None), Output::Text).unwrap();
    let remark = format!("; of z. not all versions are known: {LOST}\n");
    assert!(said.contains(&remark), "{said}");
    let question = Question {
        request: log_of(Some("never.z"), None),
        output: Output::Text,
    };
    let refused = answer(&question, &past, &ASKER.into(), &mut Vec::new()).unwrap_err();
    let text = format!("no version that is kept matches; of z. not all versions are known: {LOST}");
    assert_eq!(refused.fault(), Fault::NotKnown);
    assert_eq!(refused.to_string(), text);
    // A server that runs knows what is current.
    past.status = Some(no_status());
    for after in ["@now", ""] {
        let said = show(&past, after, Output::Text);
        assert!(!said.contains("lost"), "{after}: {said}");
    }
}

fn log_of(name: Option<&str>, object: Option<&str>) -> Request {
    Request::Log {
        zone: Some("z".into()),
        since: None,
        until: None,
        name: name.map(Into::into),
        object: object.map(Into::into),
        count: None,
    }
}

#[test]
fn a_search_for_a_name_and_the_causes_of_its_records_say_when_the_zone_was_not_served() {
    let mut past = Fake::new();
    past.acts = vec![
        act(1, THIRD_MS + 100, "removed", "from the Corefile"),
        act(2, THIRD_MS + 200, "returned", "to the Corefile"),
    ];
    let remark = "; from 2026-11-21T14:00:02.100Z to 2026-11-21T14:00:02.200Z the server did not have z.: nothing of it was served\n";
    let blame = |at: &str| Request::Blame {
        zone: format!("z{at}"),
        name: None,
    };
    for request in [log_of(Some("web.z"), None), blame("")] {
        let said = asked(&past, request.clone(), Output::Text).unwrap();
        assert!(said.contains(remark), "{request:?}: {said}");
        let json = asked(&past, request, Output::Json).unwrap();
        assert!(json.contains(r#""code":"notServed""#), "{json}");
    }
    for request in [log_of(None, None), blame("@101")] {
        let said = asked(&past, request.clone(), Output::Text).unwrap();
        assert!(!said.contains("nothing of it"), "{request:?}: {said}");
    }
}

#[test]
fn a_log_that_ends_among_lost_versions_does_not_say_that_nothing_was_there() {
    let mut past = Fake::new();
    past.acts = vec![act(1, THIRD_MS, "lost", LOST)];
    let until = |until: &str, name: Option<&str>| {
        let request = Request::Log {
            zone: Some("z".into()),
            since: None,
            until: Some(until.into()),
            name: name.map(Into::into),
            object: None,
            count: None,
        };
        let question = Question {
            request,
            output: Output::Text,
        };
        let mut said = Vec::new();
        let answered = answer(&question, &past, &ASKER.into(), &mut said);
        answered.map(|()| String::from_utf8(said).unwrap())
    };
    let refused = until(BETWEEN, Some("never.z")).unwrap_err();
    assert_eq!(refused.fault(), Fault::NotKnown);
    assert!(refused.to_string().ends_with(LOST), "{refused}");
    let text = until(BETWEEN, None).unwrap();
    assert!(text.contains(LOST), "{text}");
    let text = until("2026-11-21T14:00:00.500Z", Some("never.z")).unwrap();
    assert!(!text.contains(LOST), "{text}");
}

#[test]
fn a_search_for_an_object_says_that_the_corefile_changed_meanwhile() {
    let mut past = Fake::new();
    let said = |past: &Fake| {
        let request = log_of(None, Some("service/shop/web"));
        asked(past, request, Output::Text).unwrap()
    };
    assert!(!said(&past).contains("Corefile"), "{}", said(&past));
    past.corefiles.push(corefile(THIRD_MS));
    assert!(
        said(&past).contains("; the Corefile changed meanwhile: a version of z. whose only cause"),
        "{}",
        said(&past)
    );
}

#[test]
fn a_serial_that_two_versions_had_is_not_answered_as_if_one_had_it() {
    let mut past = Fake::new();
    // Moved around the circle.
    for (step, serial) in past.steps.iter_mut().zip([7, 2_000_000_000, 7]) {
        Arc::make_mut(step).serial = Serial::decode(serial);
    }
    let remark = "; an older version had serial 7, too: that of 2026-11-21T14:00:00.000Z; ask for it by its time\n";
    let said = show(&past, "@7", Output::Text);
    assert!(said.contains(remark), "{said}");
    let read: Value = serde_json::from_str(&show(&past, "@7", Output::Json)).unwrap();
    assert_eq!(read["alsoHadSerial"]["timeMs"], THIRD_MS - 2000, "{read}");
    for once in ["@2000000000", "@2026-11-21T14:00:00.100Z", ""] {
        let said = show(&past, once, Output::Text);
        assert!(!said.contains("older version"), "{once}: {said}");
    }
}

#[test]
fn a_name_that_no_object_can_have_is_wrong_usage() {
    for wrong in [
        "service/shop/Web",
        "service/my shop/web",
        "namespace/-a",
        "service/shop/a..b",
    ] {
        let question = Question {
            request: log_of(None, Some(wrong)),
            output: Output::Text,
        };
        let refused = answer(&question, &Fake::new(), &ASKER.into(), &mut Vec::new()).unwrap_err();
        assert_eq!(refused.fault(), Fault::Wrong, "{wrong}");
        assert!(
            refused.to_string().contains("no object can be named"),
            "{refused}"
        );
    }
}
