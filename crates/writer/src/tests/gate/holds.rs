//! Orders of operators: a rolled back zone has an old content, and a frozen one waits; both end.

mod freezes;
mod records;

use zone::ContentTree;
use zone::hold::{Rollback, differing};

use super::*;

pub(super) const HOUR: u64 = 3600;

impl Subject {
    /// Gives an order about `cluster.local` that ends in an hour.
    pub(super) fn order(&mut self, rollback: Option<&Version>) -> oneshot::Receiver<Released> {
        let served = self.zone().current().unwrap();
        let rollback = rollback.map(|old| {
            let rollback = Rollback {
                to: old.serial,
                content: ContentTree::of(&old.contents).content_hash(&old.contents),
                from: served.serial,
                before: served.serial,
            };
            (rollback, self.target(old))
        });
        let order = Box::new(HoldOrder {
            until_ms: Some(self.pipeline.now().ms + HOUR * 1000),
            by: "someone".into(),
            rollback,
        });
        let (asked, answer) = oneshot::channel();
        let zone = "cluster.local.".parse().unwrap();
        self.pipeline.take(Input::Hold { zone, order, asked });
        answer
    }

    /// An old content to go to.
    fn target(&self, old: &Version) -> Target {
        let served = self.zone().current().unwrap();
        Target {
            contents: old.contents.clone(),
            owners: differing(&served.contents, &old.contents),
            seen: served.seq,
        }
    }

    /// A new service, seen by watch.
    pub(super) fn add(&mut self, number: u8) {
        feed(&mut self.pipeline, Change::Applied(service_number(number)));
        assert!(self.pipeline.commit());
    }

    /// The causes of the newest version, each once.
    pub(super) fn causes(&self) -> BTreeSet<String> {
        causes_of(self.zone())
    }

    /// The same zones in a writer of a new run.
    fn restart(self, restored: Restored) -> Self {
        let mut next = Self::new(self.plan);
        next.clock = self.clock;
        let plans = [next.plan.clone()];
        let heard = Box::new(next.heard.clone());
        let store = NoStore {
            holds: self.pipeline.store.holds,
            ..NoStore::default()
        };
        next.pipeline = writer(&plans, store, next.clock.clone(), heard).with_holds(
            vec![("cluster.local.".parse().unwrap(), restored)],
            Vec::new(),
        );
        next
    }
}

/// The causes of the newest version of a zone, each once.
pub(in crate::tests) fn causes_of(zone: &Zone) -> BTreeSet<String> {
    let version = zone.current().unwrap();
    let step = version.history.last().unwrap();
    let causes = step.causes.iter().flatten();
    causes
        .map(|it| format!("{} {} by {}", it.verb.as_str(), it.key, it.origin.manager))
        .collect()
}

/// A zone of ten names that had eight, and the version that had.
fn grown() -> (Subject, Arc<Version>) {
    let mut subject = Subject::of_ten();
    subject.relist(0..8);
    let old = subject.zone().current().unwrap();
    subject.add(8);
    subject.add(9);
    subject.heard();
    (subject, old)
}

#[test]
fn a_rollback_gives_the_old_content_a_new_serial_and_ends_with_what_came_meanwhile() {
    let (mut subject, old) = grown();
    let before = subject.serial();
    let answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    let serial = answer.blocking_recv().unwrap().unwrap().encode();
    assert!(serial > before && subject.serial() == serial);
    let version = subject.zone().current().unwrap();
    assert!(version.contents.same_as(&old.contents));
    assert_eq!(version.content_hash(), version.link.unwrap().content);
    let step = version.history.last().unwrap();
    assert_eq!((step.removed.len(), step.added.len()), (2, 0));
    let to = old.serial;
    let want = format!("rolled back serial {to} until 1970-01-01T01:16:40.000Z by someone");
    assert_eq!(subject.causes(), [want].into());
    // A change is taken in and waits.
    subject.add(11);
    assert_eq!((subject.names(), subject.serial()), (8, serial));
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 11);
    assert_eq!(
        subject.causes(),
        [
            "applied a/s11 by ".to_owned(),
            format!("resumed the rollback to serial {to} by the clock")
        ]
        .into()
    );
    let heard = subject.heard();
    assert_eq!(
        heard,
        [
            "cluster.local. rolled_back by someone",
            "cluster.local. resumed by the clock"
        ]
    );
    // Only the zone that was named.
    assert_eq!(
        subject.plan.zone("10.in-addr.arpa.").current().unwrap().seq,
        5
    );
}

#[test]
fn the_end_of_a_rollback_is_no_loss_but_what_vanished_meanwhile_is() {
    let mut subject = Subject::of_ten();
    let old = subject.zone().current().unwrap();
    for number in 0..9 {
        feed(&mut subject.pipeline, deletion(number, ""));
    }
    assert!(subject.pipeline.commit());
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 1);
    subject.heard();

    let (mut subject, old) = grown();
    let _answer = subject.order(Some(&old));
    subject.relist(0..0);
    subject.heard();
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 8);
    let held = subject.zone().held().unwrap();
    assert_eq!(
        held.why.to_string(),
        "namespace a would lose 8 of 8 records"
    );
    // The gate counts from here.
    assert_eq!(held.until_ms, Some(held.since_ms + HOUR * 1000));
    assert_eq!(held.since_ms, subject.pipeline.now().ms);
}

#[test]
fn a_release_ends_a_rollback_and_names_who() {
    let (mut subject, old) = grown();
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    let answer = subject.release("cluster.local.");
    subject.pipeline.store.refusals = 1;
    assert!(!subject.pipeline.commit());
    assert_eq!(
        (subject.names(), subject.pipeline.store.holds.len()),
        (8, 1)
    );
    assert!(subject.pipeline.commit());
    let serial = answer.blocking_recv().unwrap().unwrap().encode();
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    let want = format!("resumed the rollback to serial {} by someone", old.serial);
    assert_eq!(subject.causes(), [want].into());
}

#[test]
fn the_end_of_a_rollback_is_named_where_all_that_it_brought_changed_meanwhile() {
    let mut subject = Subject::of_ten();
    subject.add(10);
    let old = subject.zone().current().unwrap();
    feed(&mut subject.pipeline, deletion(10, ""));
    assert!(subject.pipeline.commit());
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 11);
    let Fact::Service(mut service) = service_number(10) else {
        panic!("no Service");
    };
    service.form = ServiceForm::ClusterIp([IpAddr::from([10, 0, 1, 10])].into());
    feed(
        &mut subject.pipeline,
        Change::Applied(Fact::Service(service)),
    );
    assert!(subject.pipeline.commit());
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    let end = format!("resumed the rollback to serial {} by someone", old.serial);
    assert_eq!(
        subject.causes(),
        ["applied a/s10 by ".to_owned(), end].into()
    );
    subject.add(11);
    assert_eq!(subject.causes(), ["applied a/s11 by ".to_owned()].into());
}

#[test]
fn a_rollback_that_ended_at_the_gate_is_named_once_when_the_change_is_let_out() {
    let (mut subject, old) = grown();
    let _answer = subject.order(Some(&old));
    subject.relist(0..0);
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert!(subject.zone().hold().is_none() && subject.names() == 8);
    let _answer = subject.release("cluster.local.");
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 0);
    let version = subject.zone().current().unwrap();
    let causes = version.history.last().unwrap().causes.iter().flatten();
    let end = format!("the rollback to serial {}", old.serial);
    let named = causes.filter(|cause| cause.key.to_string() == end).count();
    assert_eq!(named, 1, "{:?}", subject.causes());
}

#[test]
fn an_order_that_cannot_be_kept_is_not_carried_out() {
    let (mut subject, old) = grown();
    subject.pipeline.store.refusals = 1;
    let answer = subject.order(Some(&old));
    let why = answer.blocking_recv().unwrap().unwrap_err();
    assert_eq!(why, "the hold cannot be stored: disk full");
    subject.pipeline.store.refusals = 0;
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    assert!(subject.zone().hold().is_none());
}

#[test]
fn one_order_takes_the_place_of_another() {
    let (mut subject, old) = grown();
    let first = Subject::of_ten().zone().current().unwrap();
    let before = subject.zone().current().unwrap().serial;
    let _answer = subject.order(None);
    subject.add(20);
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 8);
    let rolled = subject.zone().current().unwrap().serial;
    let _answer = subject.order(Some(&first));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
    let rollback = subject.zone().hold().unwrap().rollback.unwrap();
    assert_eq!((rollback.before, rollback.from), (before, rolled));
    // A freeze makes it longer.
    subject.clock.advance(HOUR / 2);
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    subject.clock.advance(HOUR / 2);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.zone().hold().unwrap().rollback, Some(rollback));
    subject.clock.advance(HOUR / 2);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 11);
}

#[test]
fn a_rollback_goes_on_after_a_restart_and_ends_as_if_there_had_been_none() {
    let mut subject = Subject::of_ten();
    let old = subject.zone().current().unwrap();
    for number in 0..9 {
        feed(&mut subject.pipeline, deletion(number, ""));
    }
    assert!(subject.pipeline.commit());
    let before = subject.zone().current().unwrap();
    let _answer = subject.order(Some(&old));
    assert!(subject.pipeline.commit());
    let owners = differing(&old.contents, &before.contents);
    let restored = Restored {
        hold: Hold::clone(&subject.zone().hold().unwrap()),
        target: None,
        base: Some((before.contents.clone(), owners)),
    };
    let serial = subject.serial();
    let mut subject = subject.restart(restored);
    subject.relist(9..11);
    assert_eq!((subject.names(), subject.serial()), (10, serial));
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 2);
    assert!(subject.zone().held().is_none());
    let causes = subject.causes();
    assert!(causes.contains("listed a/s10 by "), "{causes:?}");
    assert_eq!(causes.len(), 2, "{causes:?}");
    assert!(subject.pipeline.store.holds.is_empty());
}

#[test]
fn an_order_that_a_restart_found_over_is_forgotten_with_the_first_commit() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    let holds = std::mem::take(&mut subject.pipeline.store.holds);
    assert_eq!(holds.len(), 1);
    let over = holds.keys().cloned().collect();
    let store = NoStore {
        holds,
        ..NoStore::default()
    };
    let plans = [subject.plan.clone()];
    let heard = Box::new(subject.heard.clone());
    let mut pipeline = writer(&plans, store, subject.clock, heard).with_holds(Vec::new(), over);
    assert!(pipeline.commit());
    assert!(pipeline.store.holds.is_empty());
}

#[test]
fn a_rollback_that_a_crash_cut_off_is_made_up_for() {
    let (mut subject, old) = grown();
    let _answer = subject.order(Some(&old));
    let restored = Restored {
        hold: Hold::clone(&subject.zone().hold().unwrap()),
        target: Some(subject.target(&old)),
        base: None,
    };
    let mut subject = subject.restart(restored);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 8);
    subject.relist(0..10);
    assert_eq!(subject.names(), 8);
    subject.clock.advance(HOUR);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.names(), 10);
}

#[test]
fn a_rollback_costs_what_differs_even_when_versions_came_meanwhile() {
    let (mut subject, old) = grown();
    let answer = {
        // The old content was read before one more version was published.
        let target = subject.target(&old);
        subject.add(12);
        let served = subject.zone().current().unwrap();
        assert_eq!(served.seq, target.seen + 1);
        let rollback = Rollback {
            to: old.serial,
            content: old.content_hash(),
            from: served.serial,
            before: served.serial,
        };
        let order = Box::new(HoldOrder {
            until_ms: Some(subject.pipeline.now().ms + 1),
            by: "someone".into(),
            rollback: Some((rollback, target)),
        });
        let (asked, answer) = oneshot::channel();
        let zone = "cluster.local.".parse().unwrap();
        subject.pipeline.take(Input::Hold { zone, order, asked });
        answer
    };
    assert!(subject.pipeline.commit());
    assert!(answer.blocking_recv().unwrap().is_ok());
    let version = subject.zone().current().unwrap();
    assert!(version.contents.same_as(&old.contents));
    assert_eq!(version.history.last().unwrap().removed.len(), 3);
}

#[test]
fn an_order_that_is_over_is_forgotten_as_soon_as_the_store_takes_it() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    let answer = subject.release("cluster.local.");
    subject.pipeline.store.refusals = 1;
    assert!(!subject.pipeline.commit(), "it is to be tried again");
    assert!(answer.blocking_recv().unwrap().is_ok());
    assert!(subject.zone().hold().is_none());
    assert_eq!(subject.pipeline.store.holds.len(), 1);
    assert!(!subject.pipeline.commit());
    let heard = subject.heard();
    let of_store = heard.iter().filter(|said| said.contains("disk full"));
    let of_store: Vec<&String> = of_store.collect();
    assert_eq!(
        of_store,
        ["cluster.local. not forgotten: disk full"],
        "once"
    );
    subject.pipeline.store.refusals = 0;
    assert!(subject.pipeline.commit());
    assert!(subject.pipeline.store.holds.is_empty());
    // What is ordered meanwhile is not forgotten with it.
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    let _answer = subject.release("cluster.local.");
    subject.pipeline.store.refusals = 1;
    assert!(!subject.pipeline.commit());
    subject.pipeline.store.refusals = 0;
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    assert_eq!(subject.pipeline.store.holds.len(), 1);
}

#[test]
fn nothing_wakes_the_writer_before_it_is_known_what_secondaries_have() {
    let (mut subject, _) = grown();
    let _answer = subject.order(None);
    assert!(subject.pipeline.commit());
    subject.clock.advance(2 * HOUR);
    subject.pipeline = subject.pipeline.awaiting_secondaries(AskId(0));
    assert!(subject.pipeline.commit());
    assert_eq!(subject.deadline(), None);
    subject.pipeline.take(secondaries(Vec::new()));
    assert_eq!(subject.deadline(), Some(subject.clock.now()));
    assert!(subject.pipeline.commit());
    assert!(subject.zone().hold().is_none());
}
