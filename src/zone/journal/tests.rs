//! Tests of the journal: laws over restarts and damage, and the cases with a name.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::zone::Step;
use crate::zone::laws::{self, EditPlan, UNLIMITED, any_history, apex};

/// A clock that stands where it is put, milliseconds.
fn clock(at: &Arc<AtomicU64>) -> WallClock {
    let at = Arc::clone(at);
    Arc::new(move || at.load(Ordering::Relaxed))
}

/// A journal with its folder and clock, and the version it stands at.
struct Bench {
    /// The state folder.
    dir: TempDir,
    /// The time.
    now: Arc<AtomicU64>,
    /// The journal; `None` while it is closed.
    journal: Option<Journal>,
    /// The newest version.
    version: Option<Version>,
    /// All steps that were made durable.
    steps: Vec<Arc<Step>>,
}

impl Bench {
    /// An empty store at second 1000.
    fn new() -> Self {
        let mut bench = Self {
            dir: TempDir::new().unwrap(),
            now: Arc::new(AtomicU64::new(1_000_000)),
            journal: None,
            version: None,
            steps: Vec::new(),
        };
        assert_eq!(bench.open(), Vec::<String>::new());
        bench
    }

    /// Opens the store and loads the zone; gives all notes.
    fn open(&mut self) -> Vec<String> {
        self.journal = None;
        let (mut journal, report) = Journal::open(self.dir.path(), clock(&self.now)).unwrap();
        let loaded = journal.load(&apex(), UNLIMITED).unwrap();
        self.version = loaded.version;
        self.journal = Some(journal);
        [report.notes, loaded.notes].concat()
    }

    /// The journal.
    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }

    /// The candidate an edit makes, with the serial that is due.
    fn candidate(&mut self, plan: &EditPlan) -> Option<Candidate> {
        let now = self.now.load(Ordering::Relaxed);
        let floor = self.journal().floor(&apex());
        let previous = self.version.as_ref();
        let serial = next_serial(previous.map(|version| version.serial), floor, now / 1000);
        laws::candidate(previous, plan, serial, now)
    }

    /// Commits an edit if it changes anything.
    fn commit(&mut self, plan: &EditPlan) {
        if let Some(candidate) = self.candidate(plan) {
            self.put(candidate);
        }
    }

    /// Commits a candidate.
    fn put(&mut self, candidate: Candidate) {
        let (version, step) = (candidate.version().clone(), Arc::clone(candidate.step()));
        self.journal().commit(vec![candidate]).unwrap();
        self.version = Some(version);
        self.steps.push(step);
    }

    /// Goes through upkeep to its end.
    fn settle(&mut self) {
        while self.journal().idle() {}
    }
}

/// Whether two versions are the same to the last octet and step.
fn same(a: Option<&Version>, b: Option<&Version>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            (a.seq, a.serial, a.time_ms) == (b.seq, b.serial, b.time_ms)
                && a.contents.same_as(&b.contents)
                && a.history == b.history
        }
        (Some(_), None) | (None, Some(_)) => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_store_opened_again_gives_the_same_versions_and_steps(
        runs in prop::collection::vec((any_history(5), any::<bool>()), 1..5),
    ) {
        let mut bench = Bench::new();
        let mut serials = Vec::new();
        for (history, clean) in runs {
            for plan in &history {
                bench.commit(plan);
                bench.now.fetch_add(300, Ordering::Relaxed);
            }
            let before = bench.version.clone();
            if clean {
                bench.journal.take().unwrap().close().unwrap();
            }
            prop_assert_eq!(bench.open(), Vec::<String>::new());
            prop_assert!(same(before.as_ref(), bench.version.as_ref()));
            let reader = bench.journal().reader();
            let read: Vec<_> = reader
                .steps(&apex(), Order::OldestFirst, 0..=u64::MAX)
                .map(Result::unwrap)
                .collect();
            let kept: Vec<_> = bench.steps.iter().map(|step| (**step).clone()).collect();
            prop_assert_eq!(read, kept);
            serials.extend(bench.version.as_ref().map(|version| version.serial));
        }
        let rising = bench.steps.windows(2).all(|pair| pair[1].serial.is_after(pair[0].serial));
        prop_assert!(rising);
    }
}
