//! Tests of the journal: laws over restarts and damage, and the cases with a name.

mod acts;
mod archive;
mod beside;
mod corefiles;
mod folder;

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;

mod damage;
mod far;
mod fuzz;
mod large_steps;
mod lost;
mod power;
mod reopening;
mod replicas;
mod segments;
mod state_files;
mod tamper;

use super::codec::{SNAPSHOT, STEP, StreamError};
use super::store::Entries;
use super::*;
use crate::laws::{self, EditPlan, UNLIMITED, any_history, apex};
use crate::{Contents, Draft, Edit, Node, Step, next_serial};

/// A clock that stands where it is put, milliseconds.
fn clock(at: &Arc<AtomicU64>) -> WallClock {
    let at = Arc::clone(at);
    Arc::new(move || at.load(Ordering::Relaxed))
}

/// A journal with its folder and clock, and the version it stands at.
struct Bench {
    dir: TempDir,
    now: Arc<AtomicU64>,
    /// The journal; `None` while it is closed.
    journal: Option<Journal>,
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
        // A process that another test starts holds our locks, too, until it is another program.
        let mut tries = 0..1_000_000;
        let (mut journal, report) = loop {
            match Journal::open(self.dir.path(), clock(&self.now)) {
                Err(OpenError::Locked { .. }) if tries.next().is_some() => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let loaded = journal.load(&apex(), UNLIMITED).unwrap();
        self.version = loaded.version;
        self.journal = Some(journal);
        [report.notes, loaded.notes].concat()
    }

    fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }

    /// The candidate an edit makes, with the serial that is due.
    fn candidate(&mut self, plan: &EditPlan) -> Option<Candidate> {
        let now = self.now.load(Ordering::Relaxed);
        let floor = self.journal().floor(&apex());
        let previous = self.version.as_ref();
        let serial = next_serial(
            previous.map(|version| version.serial),
            floor,
            None,
            now / 1000,
        );
        laws::candidate(previous, plan, serial, now)
    }

    /// Commits an edit if it changes anything.
    fn commit(&mut self, plan: &EditPlan) {
        if let Some(candidate) = self.candidate(plan) {
            self.put(candidate);
        }
    }

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
            prop_assert_eq!(reader.steps(&apex(), 0..=u64::MAX).unwrap(), &*bench.steps);
            serials.extend(bench.version.as_ref().map(|version| version.serial));
        }
        let rising = bench.steps.windows(2).all(|pair| pair[1].serial.is_after(pair[0].serial));
        prop_assert!(rising);
    }
}

/// The name of an owner.
fn owner(number: u32) -> Name {
    format!("n{number}.z.example.").parse().unwrap()
}

/// The version that an edit makes, with all its steps in memory.
fn finished(previous: Option<&Version>, edit: Edit, serial: Serial) -> Candidate {
    let causes = Vec::new();
    Candidate::new(
        previous,
        edit.finish(),
        serial,
        1_000_000,
        causes,
        UNLIMITED,
    )
}

/// A version whose step has about 60 kB; its serial is the turn.
fn bulky(previous: Option<&Version>, turn: u32) -> Candidate {
    bulky_at(previous, turn, Serial::decode(turn))
}

/// The same with another serial.
fn bulky_at(previous: Option<&Version>, turn: u32, serial: Serial) -> Candidate {
    use dns::{Rdata, Rtype, Ttl};
    let before = previous.map_or_else(laws::empty, |version| version.contents.clone());
    let mut edit = Edit::new(&before);
    for place in 0..200 {
        let name = owner(place);
        let text = format!("{turn} {place} {}", "x".repeat(200));
        let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(&text))];
        edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
    }
    finished(previous, edit, serial)
}

/// A bench with many bulky versions, so that snapshots were written; upkeep as a busy pipeline gives it.
fn bulky_bench(versions: u32, retention: Retention) -> Bench {
    let mut bench = Bench::new();
    bench.journal().set_retention(&apex(), retention);
    for turn in 1..=versions {
        let candidate = bulky(bench.version.as_ref(), turn);
        bench.put(candidate);
        bench.journal().idle();
    }
    bench
}

/// The number of entries of a kind in the database.
fn entries(journal: &Journal, kind: u8) -> usize {
    journal
        .store
        .range(&[kind], &[kind + 1], usize::MAX)
        .unwrap()
        .len()
}

#[test]
fn history_is_cut_at_its_oldest_end_and_stays_linked() {
    let retention = Retention {
        versions: 7,
        ..Retention::DEFAULT
    };
    let mut bench = bulky_bench(60, retention);
    bench.settle();
    let zone = bench.journal().reader().zone(&apex()).unwrap();
    assert_eq!((zone.oldest, zone.newest), (54, 60));
    let reader = bench.journal().reader();
    let steps = reader.steps(&apex(), 0..=u64::MAX).unwrap();
    assert_eq!(steps, bench.steps[53..]);
    // The base moved, so steps before it are gone, and only one snapshot is left.
    let head = bench.journal().zones()[&apex()].head.clone();
    assert!(head.base.snapshot && head.base.seq > 40, "{head:?}");
    let per_step = entries(bench.journal(), STEP) / 60;
    assert!(per_step < 30 / 2, "{per_step}");
    assert!(entries(bench.journal(), SNAPSHOT) < 20);
    let before = bench.version.clone();
    assert_eq!(bench.open(), Vec::<String>::new());
    let after = bench.version.clone().unwrap();
    assert!(after.contents.same_as(&before.unwrap().contents));
    assert_eq!(after.history.len(), 7);
}

/// docs/serials.md: "Move a serial back".
#[test]
fn after_a_serial_was_moved_back_versions_are_found_by_their_serials() {
    let mut bench = Bench::new();
    let mut put = |serial| {
        let turn = u32::try_from(bench.steps.len()).unwrap();
        let candidate = bulky_at(bench.version.as_ref(), turn, Serial::decode(serial));
        bench.put(candidate);
        bench.journal().reader()
    };
    let first = put(1_800_000_000);
    put(3_900_000_000);
    let seq_of = |reader: &Reader, serial| {
        let found = reader.seq_of(&apex(), Serial::decode(serial));
        found.unwrap()
    };
    assert_eq!(seq_of(&first, 3_900_000_000), Some(2));
    let last = put(1_700_000_000);
    // The first reader looked at the first two already.
    for reader in [&first, &last] {
        assert_eq!(seq_of(reader, 1_800_000_000), Some(1));
        assert_eq!(seq_of(reader, 3_900_000_000), Some(2));
        assert_eq!(seq_of(reader, 1_700_000_000), Some(3));
        assert_eq!(seq_of(reader, 1_750_000_000), None);
    }
    let again = put(1_800_000_000);
    for reader in [&first, &last, &again] {
        assert_eq!(seq_of(reader, 1_800_000_000), Some(4), "the newest of two");
        assert_eq!(seq_of(reader, 1_700_000_000), Some(3));
    }
}

#[test]
fn security_07_a_version_that_is_dropped_before_its_time_is_reported() {
    let retention = Retention {
        versions: 7,
        ..Retention::DEFAULT
    };
    let mut bench = bulky_bench(60, retention);
    let dropped: u64 = bench.journal().take_early().iter().map(|it| it.1).sum();
    // Seven are in the history, and three in the archive.
    assert_eq!(dropped, 50);
    assert_eq!(bench.journal().take_early(), Vec::new());
    let early = bench.journal().reader().zone(&apex()).unwrap().early;
    let last_ms = bench.now.load(Ordering::Relaxed);
    assert_eq!((early.count, early.last_ms), (50, last_ms));
    // Those that are old enough are no matter, and neither are those that an operator drops by a shorter history.
    let old = Retention {
        keep: std::time::Duration::ZERO,
        ..Retention::DEFAULT
    };
    bench.journal().set_retention(&apex(), old);
    bench.settle();
    bench.now.fetch_add(60_000, Ordering::Relaxed);
    let candidate = bulky(bench.version.as_ref(), 61);
    bench.put(candidate);
    assert_eq!(bench.journal().take_early(), Vec::new());
    let zone = bench.journal().reader().zone(&apex()).unwrap();
    assert_eq!((zone.oldest, zone.early.count), (61, 50));
}

#[test]
fn a_version_is_dropped_once_however_often_its_commit_is_tried() {
    let retention = Retention {
        versions: 7,
        ..Retention::DEFAULT
    };
    let mut bench = bulky_bench(10, retention);
    bench.journal().take_early();
    for _ in 0..3 {
        let candidate = bulky(bench.version.as_ref(), 11);
        bench.journal().store.refuse_next();
        assert!(bench.journal().commit(vec![candidate]).is_err());
    }
    assert_eq!(bench.journal().take_early(), []);
    let candidate = bulky(bench.version.as_ref(), 11);
    bench.put(candidate);
    bench.settle();
    assert_eq!(bench.journal().take_early(), [(apex(), 1)]);
    let early = bench.journal().reader().zone(&apex()).unwrap().early;
    assert_eq!(early.count, 1, "three are in the archive");
}

#[test]
fn a_shorter_history_needs_no_next_version() {
    let mut bench = bulky_bench(90, Retention::DEFAULT);
    let entries_before = entries(bench.journal(), STEP);
    let retention = Retention {
        versions: 7,
        ..Retention::DEFAULT
    };
    bench.journal().set_retention(&apex(), retention);
    bench.settle();
    let oldest = |bench: &mut Bench| {
        let zone = bench.journal().reader().zone(&apex()).unwrap();
        (zone.oldest, zone.newest)
    };
    assert_eq!(oldest(&mut bench), (84, 90));
    assert!(entries(bench.journal(), STEP) < entries_before / 2);
    assert_eq!(bench.open(), Vec::<String>::new());
    assert_eq!(oldest(&mut bench), (84, 90));
    bench.settle();
    assert_eq!(oldest(&mut bench), (84, 90));
}

#[test]
fn history_is_cut_by_octets_and_by_age() {
    let small = Retention {
        octets: 500_000,
        ..Retention::DEFAULT
    };
    let mut bench = bulky_bench(30, small);
    let zone = bench.journal().reader().zone(&apex()).unwrap();
    let kept: usize = bench
        .steps
        .iter()
        .filter(|step| step.seq >= zone.oldest)
        .map(|step| step.octets())
        .sum();
    let one = bench.steps[20].octets();
    assert!(kept <= 500_000 && kept > 500_000 - 2 * one, "{kept}");
    bench.now.fetch_add(40 * 86_400_000, Ordering::Relaxed);
    let candidate = bulky(bench.version.as_ref(), 31);
    bench.put(candidate);
    let zone = bench.journal().reader().zone(&apex()).unwrap();
    assert_eq!((zone.oldest, zone.newest), (31, 31));
}

#[test]
fn every_kept_version_can_be_read_back() {
    let mut bench = bulky_bench(40, Retention::DEFAULT);
    bench.settle();
    let mut contents = laws::empty();
    let reader = bench.journal().reader();
    let newest = bench.version.clone().unwrap();
    for step in &bench.steps {
        contents = match step.from {
            None => bench.steps[0].apply(&contents).unwrap(),
            Some(_) => step.apply(&contents).unwrap(),
        };
        for near in [None, Some(&newest)] {
            let read = reader.contents_at(&apex(), step.seq, near).unwrap();
            assert!(read.same_as(&contents), "{}", step.seq);
        }
        assert_eq!(reader.step(&apex(), step.seq).unwrap(), **step);
    }
    assert!(matches!(
        reader.contents_at(&apex(), 41, None),
        Err(ReadError::NoVersion {
            oldest: 1,
            newest: 40,
            ..
        })
    ));
    assert!(matches!(
        reader.step(&apex(), 0),
        Err(ReadError::NoVersion { .. })
    ));
    let other: Name = "other.".parse().unwrap();
    assert!(matches!(reader.step(&other, 1), Err(ReadError::NoZone(_))));
}

#[test]
fn a_snapshot_that_was_broken_off_at_any_portion_costs_nothing() {
    for portions in [0, 1, 2, 4, 5, 6] {
        let mut bench = Bench::new();
        let mut turn = 0;
        while bench.journal().jobs.is_empty() {
            turn += 1;
            let candidate = bulky(bench.version.as_ref(), turn);
            bench.version = Some(candidate.version().clone());
            // A commit without its share of upkeep.
            bench.journal().write(&[candidate]).unwrap();
        }
        for _ in 0..portions {
            bench.journal().upkeep(3, Occasion::Idle).unwrap();
        }
        let before = bench.version.clone();
        assert_eq!(bench.open(), Vec::<String>::new());
        assert!(same(before.as_ref(), bench.version.as_ref()), "{portions}");
        bench.settle();
        for later in 1..=20 {
            let candidate = bulky(bench.version.as_ref(), turn + later);
            bench.put(candidate);
            bench.settle();
        }
        let before = bench.version.clone();
        assert_eq!(bench.open(), Vec::<String>::new());
        assert!(same(before.as_ref(), bench.version.as_ref()), "{portions}");
        let head = bench.journal().zones()[&apex()].head.clone();
        assert!(head.base.seq > 1);
        let known = head.older.iter().chain([&head.base]);
        let known: Vec<_> = known.map(|base| Some(base.seq)).collect();
        let low = codec::part_key(SNAPSHOT, 0, 0, 0);
        let high = codec::part_key(SNAPSHOT, 9, 0, 0);
        let found = bench.journal().store.range(&low, &high, 1000).unwrap();
        assert!(
            found
                .iter()
                .all(|(key, _)| known.contains(&codec::seq_of(key))),
            "{portions}"
        );
    }
}

#[test]
fn a_version_that_does_not_follow_the_stored_one_starts_the_zone_anew() {
    let mut bench = bulky_bench(5, Retention::DEFAULT);
    // Two versions that the journal never saw, then one that it is given.
    let mut version = bench.version.clone().unwrap();
    for turn in 100..102 {
        version = bulky(Some(&version), turn).version().clone();
    }
    let candidate = bulky(Some(&version), 102);
    bench.put(candidate);
    let before = bench.version.clone().unwrap();
    bench.settle();
    assert_eq!(bench.open(), Vec::<String>::new());
    let after = bench.version.clone().unwrap();
    assert_eq!((after.seq, after.serial), (before.seq, before.serial));
    assert!(after.contents.same_as(&before.contents));
    assert_eq!(after.history.len(), 1);
    bench.settle();
    assert_eq!(bench.journal().zones().len(), 1);
    let id = bench.journal().zones()[&apex()].id;
    let found = bench
        .journal()
        .store
        .range(&[STEP], &[STEP + 1], 100_000)
        .unwrap();
    assert!(found.iter().all(|(key, _)| codec::id_of(key) == Some(id)));
}

#[test]
fn several_zones_are_committed_together_and_come_back() {
    let mut bench = Bench::new();
    let other: Name = "Other.Example.".parse().unwrap();
    let soa = laws::soa(3);
    let mut edit = Edit::new(&Contents::empty(&other, laws::soa(0)));
    edit.set_soa(soa);
    let second = Candidate::new(
        None,
        edit.finish(),
        Serial::decode(77),
        5,
        Vec::new(),
        UNLIMITED,
    );
    let first = bulky(None, 1);
    let done = bench.journal().commit(vec![first, second]).unwrap();
    assert_eq!(done.len(), 2);
    bench.open();
    let loaded = bench
        .journal()
        .load(&other, UNLIMITED)
        .unwrap()
        .version
        .unwrap();
    assert_eq!(
        (loaded.serial, loaded.contents.soa()),
        (Serial::decode(77), &laws::soa(3))
    );
    let names: Vec<_> = bench
        .journal()
        .reader()
        .zones()
        .into_iter()
        .map(|zone| zone.apex)
        .collect();
    assert_eq!(names.len(), 2);
    assert!(names.contains(&other));
}

#[test]
fn a_reset_of_the_serial_is_known_after_a_restart_until_all_have_followed() {
    let mut bench = Bench::new();
    let reset = 1_752_516_351;
    for (turn, serial) in (1..).zip([3_900_000_000, reset, reset + 1]) {
        let candidate = bulky_at(bench.version.as_ref(), turn, Serial::decode(serial));
        bench.put(candidate);
    }
    let left = |bench: &Bench| bench.version.as_ref().unwrap().left_behind;
    let before = left(&bench);
    assert_eq!(before.map(|left| left.serial.encode()), Some(3_900_000_000));
    bench.open();
    assert_eq!(left(&bench), before);
    let next = bulky_at(bench.version.as_ref(), 4, Serial::decode(reset + 2));
    bench.put(next.after_all_followed());
    bench.open();
    assert_eq!(left(&bench), None);
}

#[test]
fn a_clean_end_leaves_no_gap_in_serials() {
    let mut bench = Bench::new();
    let candidate = bulky(None, 41);
    bench.put(candidate);
    bench.journal.take().unwrap().close().unwrap();
    bench.open();
    assert_eq!(bench.journal().floor(&apex()), None);
    // A killed process lost nothing of what the running machine keeps.
    let candidate = bulky(bench.version.as_ref(), 42);
    bench.put(candidate);
    bench.open();
    assert_eq!(bench.journal().floor(&apex()), None);
    // After another start of the machine the ceiling counts.
    let newest = bench.dir.path().join("newest");
    let text = std::fs::read_to_string(&newest).unwrap();
    let (_, lines) = text.split_once('\n').unwrap();
    std::fs::write(&newest, format!("boot {}\n{lines}", "0".repeat(36))).unwrap();
    bench.open();
    assert!(
        bench
            .journal()
            .floor(&apex())
            .unwrap()
            .is_after(Serial::decode(42))
    );
}

#[test]
fn the_next_serial_is_above_the_version_before_the_floor_and_the_clock() {
    let serial = |number| Some(Serial::decode(number));
    for (previous, floor, wall, expected) in [
        (None, None, 50, 50),
        (serial(60), None, 50, 61),
        (serial(40), None, 50, 50),
        (None, serial(60), 50, 61),
        (serial(60), serial(70), 50, 71),
        (serial(70), serial(60), 50, 71),
        (serial(u32::MAX), serial(3), 50, 50),
        (serial(u32::MAX), None, 0, 0),
    ] {
        let next = next_serial(previous, floor, None, wall);
        assert_eq!(
            next,
            Serial::decode(expected),
            "{previous:?} {floor:?} {wall}"
        );
    }
}

#[test]
fn a_version_whose_serial_goes_back_is_refused() {
    // security 2
    let mut bench = Bench::new();
    let mut plans = laws::fixed_history(9).into_iter();
    while bench.version.is_none() {
        bench.commit(&plans.next().unwrap());
    }
    let version = bench.version.clone().unwrap();
    let serial = version.serial;
    let far = Serial::decode(serial.encode().wrapping_add(1 << 31));
    for wrong in [serial, far, Serial::decode(serial.encode() - 1)] {
        let same = Edit::new(&version.contents).finish();
        let candidate = Candidate::new(Some(&version), same, wrong, 2_000_000, vec![], UNLIMITED);
        let (error, _) = bench.journal().commit(vec![candidate]).unwrap_err();
        assert!(matches!(error, CommitError::Backwards { .. }), "{error}");
    }
    for plan in plans {
        bench.commit(&plan);
    }
    assert!(bench.version.unwrap().serial.is_after(serial));
}

#[test]
fn times_rise_with_numbers_though_the_clock_is_set_back() {
    let mut bench = Bench::new();
    let mut times = Vec::new();
    for (plan, now) in laws::fixed_history(9)
        .iter()
        .zip([9, 3, 5, 12, 1, 1, 20, 19, 2_u64])
    {
        bench.now.store(1_000_000 + now, Ordering::Relaxed);
        bench.commit(plan);
        times.extend(bench.version.as_ref().map(|version| version.time_ms));
    }
    assert!(times.len() > 5 && times.is_sorted(), "{times:?}");
    assert_eq!(times.last(), Some(&1_000_020));
}
