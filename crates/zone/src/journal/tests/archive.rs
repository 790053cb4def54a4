//! The archive: what one namespace changes again and again costs its own versions, never those of others.

use super::*;
use crate::journal::archive;
use dns::{Rdata, RrList, Rtype, Ttl};
use provenance::{Cause, Kind, ObjectKey, Origin, Verb};

/// A history of so many versions.
const fn of(versions: u64) -> Retention {
    Retention {
        versions,
        ..Retention::DEFAULT
    }
}

/// The causes of a change of a Service.
fn causes(namespace: &str, name: &str) -> Vec<Vec<Cause>> {
    let cause = Cause {
        verb: Verb::Applied,
        kind: Some(Kind::Service),
        key: ObjectKey::new(namespace, name),
        origin: Origin::default(),
    };
    vec![vec![cause]]
}

impl Bench {
    /// A bench with a first version.
    fn with(retention: Retention) -> Self {
        let mut bench = Self::new();
        bench.journal().set_retention(&apex(), retention);
        bench.change("first", &["first".to_owned()], "first");
        bench
    }

    /// A version, a second later, in which a namespace sets some names to a text.
    fn change(&mut self, namespace: &str, names: &[String], text: &str) {
        self.change_by(causes(namespace, &names[0]), namespace, names, text);
    }

    /// The same, with other causes.
    fn change_by(
        &mut self,
        causes: Vec<Vec<Cause>>,
        namespace: &str,
        names: &[String],
        text: &str,
    ) {
        let previous = self.version.as_ref();
        let before = previous.map_or_else(laws::empty, |version| version.contents.clone());
        let mut edit = Edit::new(&before);
        for name in names {
            let owner: Name = format!("{name}.{namespace}.z.example.").parse().unwrap();
            let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(text))];
            edit.set(Node::build(&owner, &apex(), &mut records).unwrap(), 0);
        }
        let draft = edit.finish();
        if draft.is_empty() {
            return;
        }
        let now = self.now.fetch_add(1000, Ordering::Relaxed);
        let serial = previous.map_or(0, |version| version.serial.encode()) + 1;
        let serial = Serial::decode(serial);
        let candidate = Candidate::new(previous, draft, serial, now, causes, UNLIMITED);
        self.put(candidate);
    }

    fn archived(&mut self) -> Vec<Archived> {
        self.journal().reader().archived(&apex())
    }

    /// Checks that a version is as it was published: its step, its content, its moment.
    fn expect_whole(&mut self, seq: u64, contents: &Contents) {
        let step = self.steps.iter().find(|step| step.seq == seq).cloned();
        let step = step.unwrap();
        let reader = self.journal().reader();
        assert_eq!(reader.step(&apex(), seq).unwrap(), *step);
        assert_eq!(
            reader.moment(&apex(), seq).unwrap(),
            (step.serial, step.time_ms)
        );
        assert_eq!(reader.seq_of(&apex(), step.serial).unwrap(), Some(seq));
        let read = reader
            .contents_at(&apex(), seq, self.version.as_ref())
            .unwrap();
        assert!(read.same_as(contents), "{seq}");
    }

    fn verdict(&mut self) -> Verdict {
        let verdict = self.journal().reader().verify(&apex(), &[]).unwrap();
        let archived = self.archived();
        assert!(
            verdict.faults.is_empty(),
            "{:?}, {archived:?}",
            verdict.faults
        );
        verdict
    }
}

/// The name of a number.
fn names(numbers: impl IntoIterator<Item = u8>) -> Vec<String> {
    numbers
        .into_iter()
        .map(|number| format!("n{number}"))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever one namespace does, each version of another stays whole: its changes, its content, its causes, its hash.
    #[test]
    fn security_07_versions_of_others_stay_through_any_churn_of_one(
        before in prop::collection::vec((0..6_u8, any::<u8>()), 0..60),
        between in prop::collection::vec(prop::collection::vec((0..6_u8, any::<u8>()), 0..30), 1..9),
        after in prop::collection::vec((0..6_u8, any::<u8>()), 100..160),
        reopens in any::<bool>(),
    ) {
        let mut bench = Bench::with(of(40));
        let mut victims = Vec::new();
        let churn = |bench: &mut Bench, changes: &[(u8, u8)]| {
            for (name, value) in changes {
                bench.change("evil", &names([*name]), &value.to_string());
                if value % 7 == 0 {
                    bench.journal().idle();
                }
            }
        };
        churn(&mut bench, &before);
        for (turn, changes) in between.iter().enumerate() {
            bench.change("victim", &names([0]), &turn.to_string());
            let version = bench.version.clone().unwrap();
            victims.push((version.seq, version.contents));
            churn(&mut bench, changes);
            if reopens && turn % 3 == 0 {
                prop_assert_eq!(bench.open(), Vec::<String>::new());
                bench.journal().set_retention(&apex(), of(40));
            }
        }
        churn(&mut bench, &after);
        bench.settle();
        prop_assert_eq!(bench.journal().take_early(), Vec::new());
        for _ in 0..2 {
            for (seq, contents) in &victims {
                bench.expect_whole(*seq, contents);
            }
            let archived = bench.archived();
            prop_assert!(archived.len() <= 20, "{:?}", archived);
            let verdict = bench.verdict();
            let whole: u64 = archived.iter().map(Archived::versions).sum();
            let zone = bench.journal().reader().zone(&apex()).unwrap();
            prop_assert_eq!(archived[0].first + whole, zone.oldest);
            prop_assert_eq!(verdict.archived, archived.len() as u64);
            // The difference over what is condensed is the one of the contents.
            let (first, contents) = &victims[0];
            let reader = bench.journal().reader();
            let newest = bench.version.clone().unwrap();
            for near in [None, Some(&newest)] {
                if let Some(net) = reader.difference(&apex(), (*first, newest.seq), near).unwrap() {
                    let step = Step::condensed(&[Arc::new(net.into_step())]).unwrap();
                    prop_assert!(step.apply(contents).unwrap().same_as(&newest.contents));
                }
            }
            prop_assert_eq!(bench.open(), Vec::<String>::new());
            bench.journal().set_retention(&apex(), of(40));
        }
    }
}

#[test]
fn security_07_octets_of_one_namespace_do_not_drop_the_versions_of_others() {
    let small = Retention {
        octets: 1_000_000,
        ..Retention::DEFAULT
    };
    let mut bench = Bench::with(small);
    let mut victims = Vec::new();
    for turn in 0..40_u8 {
        bench.change("victim", &names([0]), &turn.to_string());
        victims.push(bench.version.clone().unwrap().seq);
        // About 40 kB that differ in the end.
        bench.change(
            "evil",
            &names(0..200),
            &format!("{turn} {}", "x".repeat(200)),
        );
    }
    bench.settle();
    assert_eq!(bench.journal().take_early(), Vec::new());
    let archived = bench.archived();
    let octets = bench.journal().zones()[&apex()].archive.octets();
    assert!(octets <= 500_000, "{octets}");
    assert!(
        archived.iter().any(|entry| !entry.has_records),
        "{archived:?}"
    );
    for seq in victims {
        let step = bench.steps.iter().find(|step| step.seq == seq).cloned();
        let read = bench.journal().reader().step(&apex(), seq).unwrap();
        assert_eq!(read, *step.unwrap());
        let whole = bench.archived().into_iter().find(|entry| entry.seq == seq);
        assert!(whole.is_none_or(|entry| entry.is_whole()), "{seq}");
    }
    assert!(bench.verdict().condensed > 0);
    let oldest = archived[0].seq;
    let built = bench.journal().reader().contents_at(&apex(), oldest, None);
    assert!(
        matches!(built, Err(ReadError::Stripped { .. })),
        "{built:?}"
    );
}

/// Its records are too large to be kept; the objects that caused them go with them.
#[test]
fn a_large_version_that_leaves_its_time_early_still_says_who_rolled_the_zone_back() {
    let mut bench = Bench::with(of(10));
    let by_operator = Cause {
        verb: Verb::RolledBack,
        kind: None,
        key: ObjectKey::new("", "serial 7 by alice"),
        origin: Origin::default(),
    };
    let mut all = causes("large", "web");
    all.push(vec![by_operator.clone()]);
    // More than 256 KiB.
    let text = "x".repeat(1200);
    bench.change_by(all, "large", &names(0..=255), &text);
    let large = bench.version.clone().unwrap().seq;
    for turn in 0..10_u8 {
        bench.change(&format!("s{turn}"), &names([turn]), "text");
    }
    bench.settle();
    let entry = bench.archived().into_iter().find(|it| it.seq == large);
    assert!(!entry.unwrap().has_records);
    let step = bench.journal().reader().step(&apex(), large).unwrap();
    assert_eq!(step.causes, [[by_operator]]);
    bench.verdict();
}

#[test]
fn security_07_where_nobody_has_most_the_oldest_versions_go_and_are_reported() {
    let mut bench = Bench::with(of(10));
    for turn in 0..60_u8 {
        bench.change(&format!("s{}", turn % 3), &names([turn]), "text");
    }
    bench.settle();
    let early: u64 = bench.journal().take_early().iter().map(|it| it.1).sum();
    let archived = bench.archived();
    // 61 versions, 10 in the history, 5 before it.
    assert_eq!((archived.len(), early), (5, 46), "{archived:?}");
    assert!(archived.iter().all(Archived::is_whole));
    bench.verdict();
}

#[test]
fn an_entry_of_the_archive_that_was_changed_is_found() {
    let mut bench = Bench::with(of(20));
    bench.change("victim", &names([0]), "one");
    for turn in 0..100_u8 {
        bench.change("evil", &names([turn % 5]), &turn.to_string());
    }
    bench.settle();
    bench.verdict();
    let archived = bench.archived();
    let whole = archived.iter().find(|entry| entry.is_whole()).cloned();
    let condensed = { archived.iter() }.find(|entry| entry.versions() > 1);
    for entry in [whole.unwrap(), condensed.unwrap().clone()] {
        let journal = bench.journal();
        let stored = journal.zones()[&apex()].clone();
        let step = archive::read_step(&journal.store, &apex(), stored.id, entry.seq).unwrap();
        let mut other = step.clone();
        other.added = RrList::default();
        for rr in &step.added {
            other.added.push(dns::RrRef {
                ttl: Ttl::decode(77),
                ..rr
            });
        }
        for (put, is_good) in [(&other, false), (&step, true)] {
            let mut batch = Batch::default();
            archive::put(&mut batch, &stored, &entry, put);
            journal.store.write(batch).unwrap();
            let verdict = journal.reader().verify(&apex(), &[]).unwrap();
            assert_eq!(verdict.faults.is_empty(), is_good, "{:?}", verdict.faults);
            let named = verdict.faults.iter().any(|fault| fault.seq == entry.seq);
            assert_eq!(named, !is_good, "{:?}", verdict.faults);
        }
    }
}

#[test]
fn an_archive_that_does_not_join_the_history_is_left_out() {
    let mut bench = Bench::with(of(20));
    for turn in 0..30_u8 {
        bench.change(&format!("s{turn}"), &names([0]), "text");
    }
    bench.settle();
    let archived = bench.archived();
    let [.., before, last] = archived.as_slice() else {
        panic!("{archived:?}");
    };
    let last = last.clone();
    // A release without the archive dropped a version.
    let id = bench.journal().zones()[&apex()].id;
    let mut batch = Batch::default();
    batch.delete(&archive::described_key(id, before.seq));
    bench.journal().store.write(batch).unwrap();
    bench.journal().store.sync().unwrap();
    assert_eq!(bench.open(), Vec::<String>::new());
    assert_eq!(bench.archived(), [last]);
    bench.settle();
    assert_eq!(entries(bench.journal(), codec::ARCHIVED), 1);
    bench.verdict();
}
