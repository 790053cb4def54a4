//! The journal after a kill and after a loss of power, at each point of a recorded life.
//!
//! A process lives with a journal under strace, which writes down each call that changes files. The
//! calls are then played to a point; [`disk`] makes a state folder of what a disk may hold then, and a
//! journal opens it: every version announced before must be there, whole, with its history, and the next
//! serial must be above all that were announced.

mod disk;
mod replicas;
mod trace;

use std::path::PathBuf;
use std::sync::OnceLock;

use disk::{Disk, End};
use trace::Call;

use super::*;
use crate::laws::{fixed_history, seeded_history};

/// Points at which the power is lost.
const POINTS: usize = 1000;
/// Points at which the process is killed; the others lie between the same calls.
const KILLS: usize = 400;
/// Names the folder of the process that is recorded.
const CHILD: &str = "ZONEWRIGHT_TEST_RECORDED";
/// The test that becomes that process.
const CHILD_TEST: &str =
    "journal::tests::power::j2_power_lost_at_a_thousand_points_costs_nothing_announced";

/// The seed of the recorded life and of the points at which it ends.
fn seed() -> u64 {
    static SEED: OnceLock<u64> = OnceLock::new();
    let seed = *SEED.get_or_init(::fuzz::seed);
    println!("ZW_SEED={seed}");
    seed
}

/// How much is kept: little, so that history is cut and snapshots are made.
fn retention() -> Retention {
    Retention {
        versions: 25,
        ..Retention::default()
    }
}

/// A life: opened five times, ended well and not so well, changes small and large, upkeep in between.
/// It is the same each time for a seed.
fn live(dir: &Path, mut announce: impl FnMut(&Version, &Arc<Step>)) {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let history = seeded_history(seed(), 240);
    let mut plans = history.iter();
    let mut version: Option<Version> = None;
    for life in 0..5_u32 {
        let (mut journal, report) = Journal::open(dir, clock(&now)).unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
        journal.set_retention(&apex(), retention());
        let loaded = journal.load(&apex(), UNLIMITED).unwrap().version;
        assert!(same(
            version.as_ref().map(cut_history).as_ref(),
            loaded.as_ref().map(cut_history).as_ref()
        ));
        version = loaded;
        for turn in 0..48_u32 {
            let plan = plans.next().unwrap();
            let at = now.fetch_add(700, Ordering::Relaxed);
            let previous = version.as_ref();
            let floor = journal.floor(&apex());
            let serial = next_serial(
                previous.map(|version| version.serial),
                floor,
                None,
                at / 1000,
            );
            let next = match turn % 12 {
                7 => Some(bulky_at(previous, life * 100 + turn, serial)),
                _ => laws::candidate(previous, plan, serial, at),
            };
            if let Some(candidate) = next {
                let (made, step) = (candidate.version().clone(), Arc::clone(candidate.step()));
                journal.commit(vec![candidate]).unwrap();
                announce(&made, &step);
                version = Some(made);
            }
            if turn % 5 == 0 {
                journal.idle();
            }
        }
        if life % 2 == 0 {
            journal.close().unwrap();
        }
    }
}

/// A version without the history that memory holds of it.
fn cut_history(version: &Version) -> Version {
    let mut version = version.clone();
    version.history.clear();
    version
}

/// Versions by number, each with the step that made it.
type Truth = BTreeMap<u64, (Version, Arc<Step>)>;

/// A life as it was recorded.
struct Recording {
    dir: PathBuf,
    /// The calls, in the order in which they began.
    calls: Vec<Call>,
    /// The number of the newest announced version from each line on.
    announced: Vec<(usize, u64)>,
    /// Each version, and the step that made it.
    truth: Truth,
}

/// The recording, made once; nothing where strace was declared missing.
fn recording() -> Option<&'static Recording> {
    static RECORDING: OnceLock<Option<Recording>> = OnceLock::new();
    RECORDING.get_or_init(record).as_ref()
}

/// What strace wrote of a life.
struct Traced {
    /// The state folder.
    dir: PathBuf,
    /// The calls, in the order in which they began.
    calls: Vec<Call>,
    /// What the process said, each with the line from which on it was said.
    lines: Vec<(usize, String)>,
}

/// Runs a test of this binary under strace, which lives in a folder that it is given; nothing where strace was declared
/// missing.
fn traced(test: &str) -> Option<Traced> {
    let missing = std::env::var("ZW_MISSING").unwrap_or_default();
    if missing.split(',').any(|kind| kind == "strace") {
        eprintln!("NOT RUN: ZW_MISSING declares strace missing");
        return None;
    }
    let folder = TempDir::new().unwrap();
    let folder_path = folder.path().canonicalize().unwrap();
    let (dir, told, out) = (
        folder_path.join("state"),
        folder_path.join("told"),
        folder_path.join("trace"),
    );
    std::fs::create_dir(&dir).unwrap();
    let done = std::process::Command::new("strace")
        .args([
            "-f",
            "-y",
            "-xx",
            "-s",
            "9999999",
            "-qq",
            "-e",
            "signal=none",
        ])
        .arg("-e")
        .arg(format!("trace={}", trace::TRACED))
        .arg("-o")
        .arg(&out)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(CHILD, &folder_path)
        .env("ZW_SEED", seed().to_string())
        .output()
        .expect("strace starts: install it, or declare it in ZW_MISSING");
    let ran = String::from_utf8_lossy(&done.stdout).contains("test result: ok. 1 passed");
    assert!(
        ran && done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    let text = std::fs::read_to_string(&out).unwrap();
    let (calls, lines) = trace::read(&text, &dir, &told);
    Some(Traced { dir, calls, lines })
}

/// Lives once under strace and once without, to know what is true.
fn record() -> Option<Recording> {
    let Traced { dir, calls, lines } = traced(CHILD_TEST)?;
    let mut truth = BTreeMap::new();
    let mut order = Vec::new();
    let aside = TempDir::new().unwrap();
    live(aside.path(), |version, step| {
        order.push(format!("{} {}\n", version.seq, version.serial));
        truth.insert(version.seq, (version.clone(), Arc::clone(step)));
    });
    let said: Vec<&String> = lines.iter().map(|(_, text)| text).collect();
    assert_eq!(said, order.iter().collect::<Vec<_>>(), "lives differ");
    let announced = lines
        .iter()
        .map(|(line, text)| (*line, text.split(' ').next().unwrap().parse().unwrap()))
        .collect();
    Some(Recording {
        dir,
        calls,
        announced,
        truth,
    })
}

fn be_recorded(folder: &str) {
    use std::io::Write as _;
    let mut told = std::fs::File::create(Path::new(folder).join("told")).unwrap();
    live(&Path::new(folder).join("state"), |version, _| {
        let line = format!("{} {}\n", version.seq, version.serial);
        told.write_all(line.as_bytes()).unwrap();
    });
}

/// After a loss of power the machine has started anew.
pub(super) fn start_machine_anew(dir: &Path) {
    let file = dir.join("newest");
    let Ok(text) = std::fs::read(&file) else {
        return;
    };
    // What was cut off or never written is of no boot.
    let Some(end) = text.iter().position(|octet| *octet == b'\n') else {
        return;
    };
    let other = serial_files::with_sum(&format!("boot {}", "0".repeat(36)));
    std::fs::write(&file, [other.as_bytes(), &text[end..]].concat()).unwrap();
}

/// Opens what is left in a folder and says what is wrong with it.
fn judge(dir: TempDir, announced: u64, truth: &Truth) -> Result<u64, String> {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let (mut journal, report) =
        Journal::open(dir.path(), clock(&now)).map_err(|error| error.to_string())?;
    let loaded = journal
        .load(&apex(), UNLIMITED)
        .map_err(|error| error.to_string())?;
    let notes = [report.notes, loaded.notes].concat();
    let version = loaded.version;
    let seq = version.as_ref().map_or(0, |version| version.seq);
    if seq < announced || seq > announced + 1 {
        return Err(format!("version {seq} in place of {announced}: {notes:?}"));
    }
    // What was reserved is not believed to be lost, but not known without the file that the power may have taken.
    let is_noted = Known::read(dir.path()).is_ok_and(|known| known.has(&apex()));
    let is_known = is_noted && version.is_some();
    let believed = (journal.lost(&apex())).filter(|lost| lost.is_exact || is_known);
    if let Some(lost) = believed {
        return Err(format!("believes that {lost}: {notes:?}"));
    }
    if let Some(version) = &version {
        let (known, _) = &truth[&seq];
        if version.serial != known.serial || !version.contents.same_as(&known.contents) {
            return Err(format!("version {seq} is another: {notes:?}"));
        }
    }
    let reader = journal.reader();
    let steps = reader.steps(&apex(), 0..=u64::MAX);
    let steps = steps.map_err(|error| format!("a step cannot be read: {error}"))?;
    for (step, at) in steps.iter().rev().zip((1..=seq).rev()) {
        if *step != truth[&at].1 {
            return Err(format!("the step to {at} is another"));
        }
    }
    if (steps.len() as u64) < seq.min(20) {
        return Err(format!("only {} steps of {seq} are left", steps.len()));
    }
    goes_on(journal, dir, version, announced, truth)?;
    Ok(seq)
}

/// Whether the journal works, with serials above those that were announced.
fn goes_on(
    mut journal: Journal,
    dir: TempDir,
    version: Option<Version>,
    announced: u64,
    truth: &Truth,
) -> Result<(), String> {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let previous = version.as_ref().map(|version| version.serial);
    let serial = next_serial(previous, journal.floor(&apex()), None, 1000);
    for known in truth
        .range(..=announced)
        .map(|(_, (known, _))| known.serial)
    {
        if !serial.is_after(known) {
            return Err(format!("serial {serial} would come after {known}"));
        }
    }
    let mut newest = version;
    for plan in &fixed_history(3) {
        let previous = newest.as_ref();
        let serial = next_serial(
            previous.map(|version| version.serial),
            journal.floor(&apex()),
            None,
            1000,
        );
        if let Some(candidate) = laws::candidate(previous, plan, serial, 1_000_000) {
            let made = candidate.version().clone();
            journal
                .commit(vec![candidate])
                .map_err(|(error, _)| error.to_string())?;
            newest = Some(made);
        }
    }
    drop(journal);
    let (mut journal, report) =
        Journal::open(dir.path(), clock(&now)).map_err(|error| error.to_string())?;
    let loaded = journal
        .load(&apex(), UNLIMITED)
        .map_err(|error| error.to_string())?;
    let kept = same(
        newest.as_ref().map(cut_history).as_ref(),
        loaded.version.as_ref().map(cut_history).as_ref(),
    );
    kept.then_some(())
        .ok_or_else(|| format!("not there after a restart: {:?}", report.notes))
}

/// Ends the recorded life at many points; gives what went wrong, and how many versions more than the
/// announced ones were there.
fn end_at(recording: &Recording, end: End, points: usize, seed: u64) -> (Vec<String>, usize) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let last = recording.calls.last().unwrap().begin;
    // Lines of the trace that are not of calls in the folder need no point of their own.
    let lines: Vec<usize> = recording.calls.iter().map(|call| call.begin).collect();
    let mut cuts: Vec<usize> = (0..points)
        .map(|_| lines[dice.usize(..lines.len())] + dice.usize(..2))
        .collect();
    cuts.sort_unstable();
    let mut disk = Disk::new(end);
    let mut calls = recording.calls.iter().peekable();
    let (mut wrong, mut ahead) = (Vec::new(), 0);
    for cut in cuts {
        while let Some(call) = calls.next_if(|call| call.begin < cut) {
            disk.play(call);
        }
        disk.end_syncs(cut);
        let announced = recording
            .announced
            .iter()
            .take_while(|(line, _)| *line < cut)
            .last()
            .map_or(0, |(_, seq)| *seq);
        let left = TempDir::new().unwrap();
        disk.lay_out(&recording.dir, left.path(), end, &mut dice);
        if end != End::Kill {
            start_machine_anew(left.path());
        }
        match judge(left, announced, &recording.truth) {
            Ok(seq) => ahead += usize::from(seq > announced),
            Err(what) => wrong.push(format!("{end:?} at line {cut} of {last}: {what}")),
        }
    }
    (wrong, ahead)
}

#[test]
fn j2_power_lost_at_a_thousand_points_costs_nothing_announced() {
    if let Ok(folder) = std::env::var(CHILD) {
        return be_recorded(&folder);
    }
    let Some(recording) = recording() else {
        return;
    };
    let (wrong, ahead) = end_at(recording, End::Power, POINTS, seed());
    println!(
        "{} calls, {} versions, {POINTS} points, {ahead} with a version not announced yet",
        recording.calls.len(),
        recording.truth.len()
    );
    assert!(
        wrong.is_empty(),
        "{} of {POINTS}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn j1_j5_a_kill_at_any_call_costs_nothing_announced() {
    let Some(recording) = recording() else {
        return;
    };
    let (wrong, _) = end_at(recording, End::Kill, KILLS, seed());
    assert!(
        wrong.is_empty(),
        "{} of {KILLS}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The check itself: a disk on which syncs do nothing costs versions.
#[test]
fn a_store_that_never_syncs_would_be_found_out() {
    let Some(recording) = recording() else {
        return;
    };
    let (wrong, _) = end_at(recording, End::PowerWithoutSyncs, 40, seed());
    assert!(wrong.len() > 10, "{wrong:?}");
}
