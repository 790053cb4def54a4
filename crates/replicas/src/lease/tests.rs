//! What a lease does by itself; what several do together is in the simulation.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;

/// A moment.
const fn at(seconds: u64) -> Boottime {
    Duration::from_secs(seconds)
}

/// A Lease of this holder and version.
fn seen(holder: &str, version: u64, in_sync: &[&str]) -> Seen {
    Seen {
        uid: "uid".to_owned(),
        version: version.to_string(),
        record: Record {
            holder: Some(ReplicaId::from(holder)),
            epoch: Epoch(3),
            in_sync: in_sync.iter().map(|it| ReplicaId::from(*it)).collect(),
            ..Record::default()
        },
    }
}

/// A renewal with what the Lease has.
fn renewal(of: &Seen, is_urgent: bool) -> Option<Renewal> {
    let record = of.record.clone();
    Some(Renewal { record, is_urgent })
}

/// A lease that "a" took at second 100.
fn held() -> Lease {
    let mut lease = Lease::new(ReplicaId::from("a"), Settings::default());
    let (id, _) = lease.call(Wish::Observe, None, at(99)).expect("it reads");
    lease.take(
        LeaseEvent::Answered(id, Answer::Read(seen("a", 1, &["a"]))),
        at(99),
    );
    let taken = seen("a", 2, &["a"]);
    let wish = Wish::Take(taken.record.clone());
    let (id, call) = lease.call(wish, None, at(100)).expect("it takes");
    assert!(matches!(call, Call::Put { version, .. } if version == "1"));
    let answer = Answer::Written(taken.clone());
    let actions = lease.take(LeaseEvent::Answered(id, answer), at(104));
    assert_eq!(actions, [LeaseAction::Acquired(taken.record)]);
    lease
}

#[test]
fn a_leader_stops_ten_seconds_after_it_sent_the_last_renewal_that_succeeded() {
    let mut lease = held();
    assert!(lease.is_mine(at(108)));
    // A second before the end no commit is begun.
    assert!(!lease.is_mine(at(109)));
    assert_eq!(lease.take(LeaseEvent::Tick, at(109)), []);
    let lost = LeaseAction::Lost(Loss::Expired);
    assert_eq!(lease.take(LeaseEvent::Tick, at(110)), [lost]);
}

#[test]
fn a_candidate_waits_from_the_moment_in_which_it_saw_the_last_change() {
    let mut lease = Lease::new(ReplicaId::from("b"), Settings::default());
    for (time, version) in [(10, 1), (12, 1), (14, 2), (20, 2)] {
        let (id, call) = lease.call(Wish::Observe, None, at(time)).expect("it reads");
        assert_eq!(call, Call::Get);
        let answer = Answer::Read(seen("a", version, &["a", "b"]));
        lease.take(LeaseEvent::Answered(id, answer), at(time));
    }
    assert_eq!(lease.open_since(at(28)), None);
    assert_eq!(lease.open_since(at(29)), Some(at(29)));
    // An older state that the watch gives late is no change.
    lease.take(LeaseEvent::Watched(seen("a", 1, &["a"])), at(30));
    assert_eq!(lease.open_since(at(31)), Some(at(29)));
    lease.take(LeaseEvent::Watched(seen("a", 3, &["a"])), at(32));
    assert_eq!(lease.open_since(at(46)), None);
}

#[test]
fn a_member_that_a_write_without_an_answer_adds_is_waited_for_until_the_lease_has_another_version()
{
    let mut lease = held();
    let both = BTreeSet::from(["a", "b"].map(ReplicaId::from));
    let alone = BTreeSet::from([ReplicaId::from("a")]);
    let wanted = seen("a", 3, &["a", "b"]);
    let call = lease.call(Wish::Observe, renewal(&wanted, true), at(105));
    assert!(matches!(call, Some((_, Call::Put { version, .. })) if version == "2"));
    assert_eq!(lease.required(), both);
    // No answer within 5 s. The write may still arrive.
    lease.take(LeaseEvent::Tick, at(110) - Duration::from_millis(1));
    assert_eq!(lease.required(), both);
    let mut lease = held();
    lease.call(Wish::Observe, renewal(&wanted, true), at(104));
    lease.take(LeaseEvent::Tick, at(109));
    let old = seen("a", 2, &["a"]);
    // It is tried again after 2 s, and not at once.
    assert_eq!(
        lease.call(Wish::Observe, renewal(&old, true), at(109)),
        None
    );
    assert_eq!(lease.required(), both);
    let mut lease = held();
    let (first, _) =
        { lease.call(Wish::Observe, renewal(&wanted, true), at(104)) }.expect("it renews");
    lease.take(LeaseEvent::Answered(first, Answer::Failed), at(104));
    let (second, _) =
        { lease.call(Wish::Observe, renewal(&old, false), at(106)) }.expect("it renews again");
    let answer = Answer::Written(seen("a", 4, &["a"]));
    let actions = lease.take(LeaseEvent::Answered(second, answer), at(106));
    assert_eq!(actions, [LeaseAction::Renewed]);
    assert_eq!(lease.required(), alone);
}

#[test]
fn after_a_conflict_nothing_is_committed_until_the_lease_was_read() {
    let mut lease = held();
    let own = seen("a", 2, &["a"]);
    let (id, _) = { lease.call(Wish::Observe, renewal(&own, true), at(105)) }.expect("it renews");
    lease.take(LeaseEvent::Answered(id, Answer::Conflict), at(105));
    assert!(!lease.is_mine(at(105)));
    let (id, call) = { lease.call(Wish::Observe, renewal(&own, true), at(105)) }.expect("it reads");
    assert_eq!(call, Call::Get);
    let answer = Answer::Read(seen("b", 5, &["a", "b"]));
    let actions = lease.take(LeaseEvent::Answered(id, answer), at(106));
    assert_eq!(actions, [LeaseAction::Lost(Loss::Taken)]);
}

#[test]
fn a_lease_of_a_lower_epoch_was_restored_and_one_of_another_uid_was_deleted() {
    let read = |change: fn(&mut Seen)| {
        let mut lease = held();
        lease.take(LeaseEvent::Watched(seen("a", 9, &["a"])), at(105));
        let own = seen("a", 2, &["a"]);
        let renewal = renewal(&own, false);
        let (id, _) = lease
            .call(Wish::Observe, renewal, at(105))
            .expect("it calls");
        lease.take(LeaseEvent::Answered(id, Answer::Conflict), at(105));
        let (id, _) = lease.call(Wish::Observe, None, at(105)).expect("it reads");
        let mut found = seen("a", 9, &["a"]);
        change(&mut found);
        lease.take(LeaseEvent::Answered(id, Answer::Read(found)), at(106))
    };
    assert_eq!(read(|_| {}), []);
    let lower = read(|it| it.record.epoch = Epoch(2));
    assert_eq!(lower, [LeaseAction::Lost(Loss::Restored)]);
    let other = read(|it| it.uid = "other".to_owned());
    assert_eq!(other, [LeaseAction::Lost(Loss::Deleted)]);
}

/// Its POST may arrive after another Lease was made, held and deleted.
#[test]
fn who_makes_a_lease_does_not_hold_it_by_that() {
    let mut lease = Lease::new(ReplicaId::from("a"), Settings::default());
    let (id, _) = lease.call(Wish::Create, None, at(1)).expect("it reads");
    lease.take(LeaseEvent::Answered(id, Answer::NotFound), at(2));
    let (id, call) = lease.call(Wish::Create, None, at(2)).expect("it makes it");
    assert_eq!(call, Call::Create(Record::default()));
    assert!(!lease.is_acquiring());
    let blank = Seen {
        record: Record::default(),
        ..seen("a", 7, &[])
    };
    let answer = Answer::Written(blank);
    assert_eq!(lease.take(LeaseEvent::Answered(id, answer), at(3)), []);
    assert!(lease.record().is_some_and(Record::is_blank));
    assert!(!lease.is_mine(at(3)));
}
