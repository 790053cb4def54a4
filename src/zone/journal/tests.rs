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

/// A history that is the same in every run.
fn fixed_history(edits: usize) -> Vec<EditPlan> {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    (0..edits)
        .map(|_| laws::any_edit().new_tree(&mut runner).unwrap().current())
        .collect()
}

/// Every version that was announced, by number.
type Announced = BTreeMap<u64, Version>;

/// A store that was left without a clean end, and what it had announced.
fn abandoned(edits: usize, settled: bool) -> (TempDir, Announced) {
    let mut bench = Bench::new();
    let mut announced = Announced::new();
    for plan in &fixed_history(edits) {
        bench.commit(plan);
        if let Some(version) = &bench.version {
            announced.insert(version.seq, version.clone());
        }
    }
    if settled {
        bench.settle();
    }
    bench.journal = None;
    (bench.dir, announced)
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Opens a damaged copy: what is restored must have been announced, the next serial must be above all
/// that were, and the store must work again. Gives the number of the restored version.
fn survives(dir: TempDir, announced: &Announced, what: &str) -> u64 {
    let mut bench = Bench {
        dir,
        now: Arc::new(AtomicU64::new(1_000_000)),
        journal: None,
        version: None,
        steps: Vec::new(),
    };
    bench.open();
    let restored = bench.version.as_ref().map_or(0, |version| version.seq);
    if let Some(version) = &bench.version {
        let known = &announced[&version.seq];
        assert_eq!(version.serial, known.serial, "{what}");
        assert!(version.contents.same_as(&known.contents), "{what}");
    }
    let floor = bench.journal().floor(&apex());
    let previous = bench.version.as_ref().map(|version| version.serial);
    let next = next_serial(previous, floor, 1000);
    for known in announced.values() {
        assert!(
            next.is_after(known.serial),
            "{what}: {next} after {}",
            known.serial
        );
    }
    // Three more versions, through a restart.
    for plan in fixed_history(12).iter().rev() {
        bench.commit(plan);
    }
    let before = bench.version.clone();
    let notes = bench.open();
    assert!(
        same(before.as_ref(), bench.version.as_ref()),
        "{what}: {before:?} became {:?}, {notes:?}",
        bench.version
    );
    restored
}

/// Damages a copy of one file of an abandoned store in many ways.
fn damage(edits: usize, file: &str, places: usize) -> Vec<u64> {
    let (dir, announced) = abandoned(edits, true);
    let octets = std::fs::read(dir.path().join(file)).unwrap();
    let used = octets.iter().rposition(|octet| *octet != 0).unwrap() + 1;
    let mut restored = Vec::new();
    for place in 0..places {
        let at = used * place / places;
        for cut in [true, false] {
            let mut damaged = octets.clone();
            if cut {
                damaged.truncate(at);
            } else {
                damaged[at] ^= 1 << (place % 8);
            }
            let copied = TempDir::new().unwrap();
            copy(dir.path(), copied.path());
            std::fs::write(copied.path().join(file), damaged).unwrap();
            let what = format!(
                "{file} {} at {at} of {used}",
                if cut { "cut" } else { "flipped" }
            );
            restored.push(survives(copied, &announced, &what));
        }
    }
    restored
}

#[test]
fn a_damaged_log_gives_a_sound_older_version_and_no_serial_again() {
    let restored = damage(60, "db/db", 60);
    // Both must happen, or the test shows nothing.
    assert!(restored.iter().any(|seq| *seq > 40), "{restored:?}");
    assert!(restored.iter().any(|seq| *seq < 40), "{restored:?}");
}

#[test]
fn a_damaged_file_of_serials_does_no_harm_beside_a_sound_database() {
    let restored = damage(5, "serials", 40);
    assert!(
        restored.iter().all(|seq| *seq == restored[0]),
        "{restored:?}"
    );
}
