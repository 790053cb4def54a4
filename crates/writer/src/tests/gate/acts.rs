//! What was done to a zone is stored beside its versions, and no version waits for that.

use super::*;

/// The acts of the zone of names as text.
fn done(subject: &Subject) -> Vec<String> {
    let acts = subject.acts().into_iter();
    acts.map(|act| format!("{} {}", act.what, act.about))
        .collect()
}

#[test]
fn a_hold_that_ends_by_itself_is_an_act_that_says_why() {
    let mut subject = Subject::of_ten();
    subject.relist(0..0);
    assert_eq!(done(&subject), Vec::<String>::new());
    subject.clock.advance(60);
    subject.relist(0..10);
    let held = "by itself: the gate held it since 1970-01-01T00:16:40.000Z (namespace a would lose 10 of 10 records), and";
    assert_eq!(
        done(&subject),
        [format!("recovered {held} now it would lose none")]
    );
    let [act] = &subject.acts()[..] else {
        panic!("there is one act");
    };
    assert!(act.by.is_nobody());
    assert_eq!((act.time_ms, act.seq), (1_060_000, Some(1)));
    assert_eq!(act.serial, subject.serial());
    // A few stay away.
    let mut few = Subject::of_ten();
    few.relist(0..0);
    few.relist(0..9);
    assert_eq!(
        done(&few),
        [format!(
            "recovered {held} now it would lose 1, which is too few"
        )]
    );
    // What was never held did not recover.
    let mut never = Subject::of_ten();
    never.relist(0..9);
    assert_eq!(done(&never), Vec::<String>::new());
}

#[test]
fn a_reload_is_an_act_of_each_zone_unless_the_corefile_is_the_same() {
    let mut subject = Subject::of_ten();
    let reload = |subject: &mut Subject, digest: &str, by: &str| {
        use_corefile(&mut subject.pipeline, digest, by.into());
        assert!(subject.pipeline.commit());
    };
    // Of the first one it is not known what was before.
    reload(&mut subject, "one", "");
    reload(&mut subject, "one", "");
    assert_eq!(subject.pipeline.store.acts, []);
    let seq = subject.zone().current().unwrap().seq;
    reload(&mut subject, "two", "someone");
    reload(&mut subject, "two", "someone");
    let change = change_of_corefile("two", "one");
    let zones = subject.plan.zones.all().iter();
    let served = zones.filter(|zone| zone.current().is_some());
    let line = |zone: &Arc<Zone>| format!("{} configured from {change} (someone)", zone.apex());
    let mut lines: Vec<String> = served.map(line).collect();
    lines.sort();
    let mut acts = act_lines(&subject.pipeline.store.acts);
    acts.sort();
    assert_eq!(acts, lines);
    assert_eq!(subject.zone().current().unwrap().seq, seq);
    // One that was changed while the server was away is found at the start.
    let mut next = Subject::new(subject.plan.clone());
    next.pipeline = next.pipeline.with_last_corefile("two");
    reload(&mut next, "two", "");
    assert_eq!(next.pipeline.store.acts, []);
    let mut next = Subject::new(subject.plan.clone());
    next.pipeline = next.pipeline.with_last_corefile("two");
    reload(&mut next, "three", "");
    let change = change_of_corefile("three", "two");
    assert_eq!(done(&next), [format!("configured from {change}")]);
}

#[test]
fn no_version_waits_for_a_store_that_refuses_acts_and_it_has_them_later() {
    let mut subject = Subject::of_ten();
    use_corefile(&mut subject.pipeline, "one", Operator::default());
    assert!(subject.pipeline.commit());
    subject.pipeline.store.refuses_acts = true;
    for digest in ["two", "three"] {
        use_corefile(&mut subject.pipeline, digest, Operator::default());
    }
    feed(&mut subject.pipeline, deletion(0, ""));
    // It is tried again, and said once.
    assert!(!subject.pipeline.commit());
    assert_eq!(subject.names(), 9);
    assert_eq!(subject.heard(), ["the Corefile not noted: disk full"]);
    feed(&mut subject.pipeline, deletion(1, ""));
    assert!(!subject.pipeline.commit());
    assert_eq!((subject.names(), subject.heard().len()), (8, 0));
    assert_eq!(done(&subject), Vec::<String>::new());
    subject.pipeline.store.refuses_acts = false;
    assert!(subject.pipeline.commit());
    let changes = [("two", "one"), ("three", "two")]
        .map(|(new, old)| format!("configured from {}", change_of_corefile(new, old)));
    assert_eq!(done(&subject), changes);
    assert_eq!(subject.pipeline.store.corefiles, ["one", "three"]);
}

#[test]
fn an_act_is_not_before_its_version_where_the_clock_was_set_back() {
    let mut ahead = Subject::of_ten();
    ahead.clock.advance(3600);
    feed(&mut ahead.pipeline, deletion(0, ""));
    assert!(ahead.pipeline.commit());
    let mut subject = Subject::new(ahead.plan.clone());
    use_corefile(&mut subject.pipeline, "one", Operator::default());
    use_corefile(&mut subject.pipeline, "two", Operator::default());
    assert!(subject.pipeline.commit());
    let version = subject.zone().current().unwrap();
    let [act] = &subject.acts()[..] else {
        panic!("there is one act");
    };
    assert_eq!((act.time_ms, version.time_ms), (4_600_000, 4_600_000));
    assert_eq!(act.seq, Some(version.seq));
    // Later versions come after it.
    feed(&mut subject.pipeline, deletion(1, ""));
    subject.relist(2..9);
    let seq = subject.zone().current().unwrap().seq;
    assert_eq!(seq, version.seq + 1);
}
