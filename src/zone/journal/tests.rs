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
    let notes = bench.open();
    let restored = bench.version.as_ref().map_or(0, |version| version.seq);
    if let Some(version) = &bench.version {
        let known = &announced[&version.seq];
        assert_eq!(version.serial, known.serial, "{what}");
        assert!(version.contents.same_as(&known.contents), "{what}");
    }
    let newest = *announced.keys().last().unwrap();
    assert!(
        restored == newest || !notes.is_empty(),
        "{what}: a silent loss"
    );
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

/// Names the state folder of the child process in which files cannot grow.
const CHILD_STATE: &str = "ZONEWRIGHT_TEST_STATE";
/// The command with which that process gets its space back.
const CHILD_RELIEF: &str = "ZONEWRIGHT_TEST_RELIEF";

/// Runs this test again in a process whose files end at 3 MB (`EFBIG`, which sled meets as it meets a full disk).
fn run_with_small_files(test: &str) {
    let dir = TempDir::new().unwrap();
    let done = std::process::Command::new("sh")
        .args([
            "-c",
            "trap '' XFSZ; exec prlimit --fsize=3000000: \"$@\"",
            "sh",
        ])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD_STATE, dir.path())
        .env(CHILD_RELIEF, "prlimit --fsize=unlimited --pid")
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// A version whose step has about 60 kB.
fn bulky(previous: Option<&Version>, turn: u32) -> Candidate {
    use crate::dns::{Rdata, Rtype, Ttl};
    use crate::zone::{Edit, Node};
    let before = previous.map_or_else(laws::empty, |version| version.contents.clone());
    let mut edit = Edit::new(&before);
    for place in 0..200 {
        let name = format!("n{place}.z.example.").parse().unwrap();
        let text = format!("{turn} {place} {}", "x".repeat(200));
        let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(&text))];
        edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
    }
    let serial = Serial::decode(turn);
    Candidate::new(
        previous,
        edit.finish(),
        serial,
        1_000_000,
        Vec::new(),
        UNLIMITED,
    )
}

/// Commits until the disk is full, gets space, goes on.
fn fill_the_disk(dir: &Path, relief: &str) {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let (mut journal, _) = Journal::open(dir, clock(&now)).unwrap();
    let mut version: Option<Version> = None;
    let mut refused = None;
    for turn in 1..400 {
        let candidate = bulky(version.as_ref(), turn);
        let next = candidate.version().clone();
        match journal.commit(vec![candidate]) {
            Ok(_) => version = Some(next),
            Err((error, candidates)) => {
                assert!(!error.to_string().is_empty());
                refused = Some(candidates);
                break;
            }
        }
    }
    let mut candidates = refused.expect("the files end before 400 versions");
    // It stays full: refused again and again, and what is there can be read.
    for _ in 0..5 {
        candidates = journal
            .commit(candidates)
            .expect_err("there is no space yet")
            .1;
        journal.idle();
    }
    let newest = version.clone().unwrap();
    let reader = journal.reader();
    if let Ok(step) = reader.step(&apex(), newest.seq) {
        assert_eq!(&step, &**newest.history.back().unwrap());
    }
    let relief = format!("{relief} {}", std::process::id());
    let freed = std::process::Command::new("sh")
        .args(["-c", &relief])
        .status()
        .unwrap();
    assert!(freed.success());
    let next = candidates[0].version().clone();
    journal.commit(candidates).expect("there is space again");
    let mut version = next;
    for turn in 1000..1005 {
        let candidate = bulky(Some(&version), turn);
        version = candidate.version().clone();
        journal.commit(vec![candidate]).unwrap();
    }
    drop(journal);
    let (mut journal, report) = Journal::open(dir, clock(&now)).unwrap();
    let loaded = journal.load(&apex(), UNLIMITED).unwrap();
    assert!(
        same(loaded.version.as_ref(), Some(&version)),
        "{:?}",
        loaded.notes
    );
    assert_eq!(report.notes, Vec::<String>::new());
    let reader = journal.reader();
    let steps: Vec<_> = reader
        .steps(&apex(), Order::NewestFirst, 0..=u64::MAX)
        .collect();
    assert_eq!(
        steps.len() as u64,
        version.seq - reader.zone(&apex()).unwrap().oldest + 1
    );
    assert!(steps.iter().all(Result::is_ok));
}

#[test]
fn a_full_disk_refuses_commits_and_they_work_again_when_space_returns() {
    match (std::env::var_os(CHILD_STATE), std::env::var(CHILD_RELIEF)) {
        (Some(dir), Ok(relief)) => fill_the_disk(Path::new(&dir), &relief),
        _ => run_with_small_files(
            "zone::journal::tests::a_full_disk_refuses_commits_and_they_work_again_when_space_returns",
        ),
    }
}
