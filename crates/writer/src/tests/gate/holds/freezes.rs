//! A frozen zone waits.

use super::*;

#[test]
fn a_frozen_zone_makes_no_version_until_its_time_is_over() {
    let (mut subject, _) = grown();
    let serial = subject.serial();
    let answer = subject.order(None);
    assert!(subject.pipeline.commit());
    assert_eq!(answer.blocking_recv().unwrap().unwrap().encode(), serial);
    assert!(
        !subject.may_be_old("s0.a.svc.cluster.local."),
        "nothing waits yet"
    );
    assert_eq!(subject.zone().hold().unwrap().as_str(), "frozen");
    subject.add(10);
    feed(&mut subject.pipeline, deletion(0, ""));
    assert!(subject.pipeline.commit());
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    assert_eq!(
        subject.zone().held().unwrap().why,
        Why::OnHold { loses: None }
    );
    let end = subject.deadline().unwrap() - subject.clock.now();
    assert_eq!(end, Duration::from_secs(HOUR));
    assert_eq!(subject.pipeline.store.holds.len(), 1);
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    assert_eq!(
        subject.causes(),
        [
            "applied a/s10 by ".to_owned(),
            "deleted a/s0 by ".to_owned(),
            "resumed the freeze of someone since 1970-01-01T00:16:40.000Z by the clock".to_owned()
        ]
        .into()
    );
    assert!(subject.zone().hold().is_none() && subject.zone().held().is_none());
    assert!(subject.pipeline.store.holds.is_empty());
    assert_eq!(subject.deadline(), None);
    let heard = subject.heard();
    assert_eq!(
        heard,
        [
            "cluster.local. frozen by someone",
            "cluster.local. resumed by the clock"
        ]
    );
}

#[test]
fn a_frozen_zone_in_which_nothing_changed_ends_without_a_version() {
    let (mut subject, _) = grown();
    let serial = subject.serial();
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    let answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(answer.blocking_recv().unwrap().unwrap().encode(), serial);
    assert!(subject.zone().hold().is_none());
    subject.add(10);
    assert_eq!(subject.names(), 11);
}

#[test]
fn a_freeze_over_a_rollback_that_is_not_served_yet_leaves_it_to_be() {
    let (mut subject, old) = grown();
    let answers = [subject.order(Some(&old)), subject.order(None)];
    assert!(subject.pipeline.commit());
    for answer in answers {
        assert_eq!(
            answer.blocking_recv().unwrap().unwrap().encode(),
            subject.serial()
        );
    }
    assert_eq!(subject.names(), 8);
    assert_eq!(subject.zone().hold().unwrap().as_str(), "rolled_back");
    // Another old content takes its place, though.
    let ten = Subject::of_ten().zone().current().unwrap();
    let _answer = subject.order(Some(&ten));
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 8);
}

#[test]
fn a_release_that_ends_a_freeze_leaves_a_mass_loss_to_the_gate_and_to_a_second_release() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    subject.relist(0..0);
    let why = subject.zone().held().unwrap().why.clone();
    let Why::OnHold {
        loses: Some((10, before)),
    } = why
    else {
        panic!("{why:?}");
    };
    let serial = subject.serial();
    let answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let why = answer.blocking_recv().unwrap().unwrap_err();
    let ends = format!(
        "is held: namespace a would lose 10 of {before} records; to publish it: zonewright release cluster.local."
    );
    assert!(why.ends_with(&ends), "{why}");
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    assert!(subject.zone().hold().is_none());
    let answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(
        answer.blocking_recv().unwrap().unwrap().encode(),
        subject.serial()
    );
    assert_eq!(subject.names(), 0);
    let causes = subject.causes();
    let said = "resumed the gate held 10 lost records since 1970-01-01T00:16:40.000Z until ";
    let said = |cause: &String| cause.starts_with(said) && cause.ends_with(" by someone");
    assert!(causes.iter().any(said), "{causes:?}");
    let frozen = "resumed the freeze of someone since 1970-01-01T00:16:40.000Z by someone";
    assert!(causes.contains(frozen), "{causes:?}");
    subject.add(30);
    assert_eq!(subject.causes(), ["applied a/s30 by ".to_owned()].into());
}

#[test]
fn what_went_and_came_back_while_a_zone_was_frozen_is_not_named() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    feed(&mut subject.pipeline, deletion(0, ""));
    assert!(subject.pipeline.commit());
    subject.add(0);
    feed(&mut subject.pipeline, deletion(1, ""));
    assert!(subject.pipeline.commit());
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 9);
    let freeze = "resumed the freeze of someone since 1970-01-01T00:16:40.000Z by someone";
    assert_eq!(
        subject.causes(),
        ["deleted a/s1 by ".to_owned(), freeze.to_owned()].into()
    );
}
