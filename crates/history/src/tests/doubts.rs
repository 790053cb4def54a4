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
    assert_eq!(remarks(3), [text]);
    assert!(remarks(2).is_empty(), "it was known then");
}
