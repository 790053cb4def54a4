//! Damage, lost files, a full disk.

use super::*;
use crate::journal::store::{Octets, Page};
use crate::laws::fixed_history;

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

pub(super) fn copy(from: &Path, to: &Path) {
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
    let next = next_serial(previous, floor, None, 1000);
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
    // Damage that the first opening could not see may show at the second: then the loss is said, and
    // no serial comes back.
    let kept = same(before.as_ref(), bench.version.as_ref());
    assert!(
        kept || !notes.is_empty(),
        "{what}: a silent loss after a restart"
    );
    let floor = bench.journal().floor(&apex());
    let next = next_serial(
        bench.version.as_ref().map(|version| version.serial),
        floor,
        None,
        1000,
    );
    let last = before.map(|version| version.serial);
    assert!(
        last.is_some_and(|last| next.is_after(last)),
        "{what}: {next} after {last:?}"
    );
    restored
}

/// Damages a copy of one file of an abandoned store in many ways.
fn damage((dir, announced): &(TempDir, Announced), file: &str, places: usize) -> Vec<u64> {
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
            restored.push(survives(copied, announced, &what));
        }
    }
    restored
}

#[test]
fn a_damaged_log_gives_a_sound_older_version_and_no_serial_again() {
    let restored = damage(&abandoned(60, true), "db/db", 60);
    // Both must happen, or the test shows nothing.
    assert!(restored.iter().any(|seq| *seq > 40), "{restored:?}");
    assert!(restored.iter().any(|seq| *seq < 40), "{restored:?}");
}

#[test]
fn a_damaged_log_of_many_segments_gives_a_sound_older_version_and_no_serial_again() {
    // Restarts make sled write its index files; the versions are large enough for segments and snapshots.
    let mut bench = Bench::new();
    let mut announced = Announced::new();
    for turn in 1..=45 {
        let candidate = bulky(bench.version.as_ref(), turn);
        bench.put(candidate);
        if turn % 15 == 0 {
            bench.open();
        }
        let version = bench.version.clone().unwrap();
        announced.insert(version.seq, version);
    }
    bench.journal = None;
    let restored = damage(&(bench.dir, announced), "db/db", 30);
    assert!(restored.contains(&45), "{restored:?}");
    assert!(restored.iter().any(|seq| *seq < 45), "{restored:?}");
}

#[test]
fn a_damaged_file_of_serials_does_no_harm_beside_a_sound_database() {
    let restored = damage(&abandoned(5, true), "serials", 40);
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
    let ran = String::from_utf8_lossy(&done.stdout).contains("test result: ok. 1 passed");
    assert!(
        ran && done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}

/// The disk stays full: refused again and again, and what is there can be read. The store's own cleaning
/// may make room for a version more; then the next ones fill it.
fn refuse_again(
    journal: &mut Journal,
    mut candidates: Vec<Candidate>,
    version: &mut Option<Version>,
) -> Vec<Candidate> {
    let (mut refusals, mut turn) = (1, 400);
    while refusals < 6 {
        let next = candidates[0].version().clone();
        candidates = match journal.commit(candidates) {
            Ok(_) => {
                turn += 1;
                assert!(turn < 800, "the disk never fills");
                let candidate = bulky(Some(&next), turn);
                *version = Some(next);
                vec![candidate]
            }
            Err((_, candidates)) => {
                refusals += 1;
                candidates
            }
        };
        journal.idle();
    }
    candidates
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
    let refused = refused.expect("the files end before 400 versions");
    let candidates = refuse_again(&mut journal, refused, &mut version);
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
    let steps = reader.steps(&apex(), 0..=u64::MAX).unwrap();
    assert_eq!(
        steps.len() as u64,
        version.seq - reader.zone(&apex()).unwrap().oldest + 1
    );
}

#[test]
fn a_full_disk_refuses_commits_and_they_work_again_when_space_returns() {
    match (std::env::var_os(CHILD_STATE), std::env::var(CHILD_RELIEF)) {
        (Some(dir), Ok(relief)) => fill_the_disk(Path::new(&dir), &relief),
        _ => run_with_small_files(
            "journal::tests::damage::a_full_disk_refuses_commits_and_they_work_again_when_space_returns",
        ),
    }
}

#[test]
fn a_lost_database_starts_anew_above_all_serials() {
    let (dir, announced) = abandoned(10, false);
    std::fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert_eq!(survives(dir, &announced, "no database"), 0);
}

#[test]
fn index_files_of_sled_in_any_state_do_not_stop_the_start() {
    let (dir, announced) = abandoned(10, false);
    let newest = *announced.keys().last().unwrap();
    let cases: [(&str, &[u8]); 5] = [
        ("db/snap.00000000000000FF.generating", b"half"),
        ("db/snap.00000000FFFFFFFF", b""),
        (
            "db/snap.00000000FFFFFFFF",
            b"rubbish that is long enough to be read",
        ),
        ("db/conf", b""),
        ("db/conf", b"rubbish"),
    ];
    for (file, octets) in cases {
        let copied = TempDir::new().unwrap();
        copy(dir.path(), copied.path());
        std::fs::write(copied.path().join(file), octets).unwrap();
        let mut bench = Bench {
            dir: copied,
            now: Arc::new(AtomicU64::new(1_000_000)),
            journal: None,
            version: None,
            steps: Vec::new(),
        };
        let notes = bench.open();
        let restored = bench.version.as_ref().map(|version| version.seq);
        assert_eq!(restored, Some(newest), "{file}: {notes:?}");
    }
}

#[test]
fn opens_that_never_end_lead_to_a_new_database_with_higher_serials() {
    let (dir, announced) = abandoned(10, false);
    std::fs::write(dir.path().join("opening"), "10").unwrap();
    assert_eq!(survives(dir, &announced, "ten opens"), 0);
}

/// A database that cannot read the entries whose keys begin so.
struct Unreadable {
    store: Arc<dyn Entries>,
    begin: Vec<u8>,
    error: fn() -> StoreError,
}

impl Unreadable {
    fn reach(&self, key: &[u8]) -> Result<(), StoreError> {
        match key.starts_with(&self.begin) {
            true => Err((self.error)()),
            false => Ok(()),
        }
    }
}

impl Entries for Unreadable {
    fn get(&self, key: &[u8]) -> Result<Option<Octets>, StoreError> {
        self.reach(key)?;
        self.store.get(key)
    }

    fn range(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        self.reach(low)?;
        self.store.range(low, high, limit)
    }

    fn range_back(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        self.reach(low)?;
        self.store.range_back(low, high, limit)
    }
}

/// So the other zones have their verdicts.
#[test]
fn a_zone_that_the_damaged_database_cannot_read_is_broken_and_no_error() {
    let mut bench = Bench::new();
    for plan in &fixed_history(10) {
        bench.commit(plan);
    }
    let id = bench.journal().zones()[&apex()].id;
    let head = bench.journal().zones()[&apex()].head.clone();
    let (steps, acts) = (codec::zone_key(STEP, id), vec![codec::ACT]);
    let verified = |bench: &mut Bench, begin: &[u8], error| {
        let reader = bench.journal().reader();
        let store = Arc::new(Unreadable {
            store: Arc::clone(&reader.store),
            begin: begin.to_vec(),
            error,
        });
        Reader { store, ..reader }.verify(&apex(), &[])
    };
    let torn = || StoreError::Broken {
        doing: "reading the database",
        what: "it is torn".to_owned(),
    };
    let verdict = verified(&mut bench, &steps, torn).unwrap();
    assert!(!verdict.faults.is_empty());
    for fault in &verdict.faults {
        assert_eq!(fault.damage, Damage::Changed, "{fault:?}");
        assert!(fault.what.ends_with("it is torn"), "{fault:?}");
    }
    let verdict = verified(&mut bench, &acts, torn).unwrap();
    let [fault] = &verdict.faults[..] else {
        panic!("{:?}", verdict.faults);
    };
    assert_eq!((fault.seq, fault.damage), (head.seq, Damage::Changed));
    let what = "its history cannot be read: reading the database failed, the database is damaged: it is torn";
    assert_eq!(fault.what, what);
    assert_eq!(verdict.versions, 0);
    // A disk that refuses says nothing of the history.
    let refused = verified(&mut bench, &acts, || {
        StoreError::io(
            "reading the database",
            io::ErrorKind::PermissionDenied.into(),
        )
    });
    assert!(refused.is_err());
}
