//! What asking the past costs: `cargo bench --bench history`.
//!
//! A zone gets a million versions through the journal's own commits; then people ask, with and without
//! commits beside them. Then the same history is made with an archive: `HISTORY_ARCHIVE` is its address, a folder unless
//! given. `HISTORY_VERSIONS`, `HISTORY_RECORDS` and `HISTORY_KEEP` make it smaller, `HISTORY_COMMITS` measures
//! more commits, `HISTORY_PARTS` names some of `all`, `kept` and
//! `archived`. Half of the
//! changes hit a few owners, the others any; now and then a version changes thousands. Several versions share
//! a commit while the history is made, as changes do that wait together; what is measured commits alone.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a benchmark may end at the first fault")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the real clock"
)]

#[path = "cluster/machine.rs"]
mod machine;
#[path = "history/readers.rs"]
mod readers;
#[path = "history/versions.rs"]
mod versions;

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use archive::Stores;
use history::{Output, Pieces, Question, Request, answer, read_at_once};
use ops::{SystemClock, lower_priority};
use zone::journal::{CutLimits, Journal, Reader, Retention, WallClock};
use zone::{Version, ZoneSet};
use zonewright::runtime::StoredPast;

use readers::Order;
use versions::{Random, START_MS, STEP_MS, Zone};

/// As in the server: without it nothing is given back to the system.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How many times each question is asked.
const ASKS: usize = 200;
/// Commits that are measured, if `HISTORY_COMMITS` does not say it.
const COMMITS: u64 = 2000;
/// How often commits with and without a thousand readers take turns.
const TURNS: usize = 8;
/// Tells a process that it serves a history, and of how many versions and names.
const SERVER: &str = "HISTORY_SERVER";
/// Versions in one commit while the history is made.
const AT_ONCE: usize = 10;

/// A size from the environment.
fn size(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// Our resident memory, MB.
fn rss() -> f64 {
    machine::rss(std::process::id())
}

/// Everything a folder takes on the disk, MB.
fn disk(dir: &Path) -> f64 {
    fn octets(dir: &Path) -> u64 {
        std::fs::read_dir(dir)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let meta = entry.metadata().unwrap();
                if meta.is_dir() {
                    octets(&entry.path())
                } else {
                    std::os::unix::fs::MetadataExt::blocks(&meta) * 512
                }
            })
            .sum()
    }
    octets(dir) as f64 / 1e6
}

/// Median, 99th percentile and maximum, ms.
fn line(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!(
        "{what:<44} p50 {:>8.3}  p99 {:>8.3}  max {:>8.3} ms",
        at(50),
        at(99),
        at(100)
    );
}

/// Everything goes forward at once until idle work is done.
fn settle(journal: &mut Journal) {
    while journal.idle() {}
}

/// Makes versions until there are so many.
fn make(zone: &mut Zone, journal: &mut Journal, versions: u64) {
    let (start, wide_every) = (Instant::now(), (versions / 20).max(1));
    let mut next_line = versions / 10;
    let mut slowest = Duration::ZERO;
    while zone.seq() < versions {
        let mut candidates = Vec::new();
        for _ in 0..AT_ONCE {
            let wide = zone.seq() % wide_every == wide_every / 2;
            candidates.push(zone.change(wide));
        }
        let one = Instant::now();
        journal.commit(candidates).unwrap();
        slowest = slowest.max(one.elapsed());
        if zone.seq() >= next_line {
            println!(
                "  {} versions after {:.0} s, slowest commit {:.1} ms, RSS {:.0} MB",
                zone.seq(),
                start.elapsed().as_secs_f64(),
                slowest.as_secs_f64() * 1e3,
                rss()
            );
            next_line += versions / 10;
            slowest = Duration::ZERO;
        }
    }
}

/// A version of the history at random, as its time.
fn a_time(random: &mut Random, versions: u64) -> String {
    let ms = START_MS + (1 + random.below(versions - 1)) * STEP_MS;
    jiff::Timestamp::from_millisecond(i64::try_from(ms).unwrap())
        .unwrap()
        .to_string()
}

/// Asks one question; gives how long it took and the octets of the answer.
fn ask(past: &StoredPast, request: Request) -> (Duration, usize) {
    let question = Question {
        request,
        output: Output::Text,
    };
    let mut out = Pieces::default();
    let start = Instant::now();
    answer(&question, past, &"a bench".into(), &mut out).unwrap();
    (start.elapsed(), out.octets())
}

/// The questions of one kind.
fn ask_all(past: &StoredPast, what: &str, mut request: impl FnMut() -> Request) {
    let before = rss();
    // The store is warm when somebody has asked before.
    for _ in 0..ASKS / 4 {
        ask(past, request());
    }
    let (times, sizes): (Vec<_>, Vec<_>) = (0..ASKS).map(|_| ask(past, request())).unzip();
    line(what, times);
    println!(
        "{:<44} answers {} octets on the average, RSS {before:.0} to {:.0} MB",
        "",
        sizes.iter().sum::<usize>() / ASKS,
        rss()
    );
}

/// All kinds of questions.
fn questions(past: &StoredPast, zone: &Zone) {
    let versions = zone.seq();
    let apex = versions::apex().to_string();
    let mut random = Random(7);
    let at = |random: &mut Random| format!("{apex}@{}", a_time(random, versions));
    ask_all(past, "show ZONE@TIME NAME", || Request::Show {
        zone: at(&mut random),
        name: Some(zone.any_name(&mut random)),
    });
    ask_all(past, "show ZONE@TIME NAME that changes a lot", || {
        Request::Show {
            zone: at(&mut random),
            name: Some(zone.busy_name(&mut random)),
        }
    });
    ask_all(past, "blame ZONE NAME", || Request::Blame {
        zone: apex.clone(),
        name: Some(zone.any_name(&mut random)),
    });
    ask_all(past, "blame ZONE@TIME NAME", || Request::Blame {
        zone: at(&mut random),
        name: Some(zone.any_name(&mut random)),
    });
    ask_all(past, "log --name NAME", || Request::Log {
        zone: Some(apex.clone()),
        since: None,
        until: None,
        name: Some(zone.any_name(&mut random)),
        object: None,
        count: None,
    });
    ask_all(past, "log --since ... --until, 100 versions", || {
        let start = START_MS + (1 + random.below(versions - 101)) * STEP_MS;
        let text = |ms: u64| {
            let ms = i64::try_from(ms).unwrap();
            jiff::Timestamp::from_millisecond(ms).unwrap().to_string()
        };
        Request::Log {
            zone: Some(apex.clone()),
            since: Some(text(start)),
            until: Some(text(start + 100 * STEP_MS)),
            name: None,
            object: None,
            count: None,
        }
    });
    ask_all(past, "diff of any two versions", || Request::Diff {
        zone: apex.clone(),
        from: a_time(&mut random, versions),
        to: Some(a_time(&mut random, versions)),
    });
    ask_all(past, "diff of two versions 1000 apart", || {
        let from = 1 + random.below(versions - 1001);
        let text = |seq: u64| {
            let ms = i64::try_from(START_MS + seq * STEP_MS).unwrap();
            jiff::Timestamp::from_millisecond(ms).unwrap().to_string()
        };
        Request::Diff {
            zone: apex.clone(),
            from: text(from),
            to: Some(text(from + 1000)),
        }
    });
}

/// What a commit costs now, one version each.
fn commits(zone: &mut Zone, journal: &mut Journal, what: &str) {
    line(what, commit_times(zone, journal));
}

fn commit_times(zone: &mut Zone, journal: &mut Journal) -> Vec<Duration> {
    settle(journal);
    let one = |_| {
        let candidate = zone.change(false);
        let start = Instant::now();
        journal.commit(vec![candidate]).unwrap();
        start.elapsed()
    };
    (0..size("HISTORY_COMMITS", COMMITS)).map(one).collect()
}

/// Commits with and without readers.
fn beside_readers(zone: &mut Zone, journal: &mut Journal, past: &StoredPast) {
    commits(zone, journal, "commit, nobody asks");
    let (ended, asked) = (AtomicBool::new(false), AtomicU64::new(0));
    let versions = zone.seq();
    let names = zone.names();
    let readers = u64::try_from(read_at_once()).unwrap();
    std::thread::scope(|scope| {
        for number in 0..readers {
            let (ended, asked, names) = (&ended, &asked, &names);
            scope.spawn(move || {
                // As the server's threads that answer such questions.
                lower_priority();
                let mut random = Random(number + 1);
                while !ended.load(Ordering::Relaxed) {
                    let zone = format!("{}@{}", versions::apex(), a_time(&mut random, versions));
                    let name = Some(names.any(&mut random));
                    ask(past, Request::Show { zone, name });
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let what = format!("commit, {readers} answered all the time");
        commits(zone, journal, &what);
        ended.store(true, Ordering::Relaxed);
    });
    println!("{:<44} {} answers meanwhile", "", asked.into_inner());
    commits(zone, journal, "commit, nobody asks, again");
}

/// Commits beside a thousand readers who ask again and again: of this history, and of one in another process.
fn beside_a_thousand(zone: &mut Zone, journal: &mut Journal) {
    let past = Arc::new(past_of(journal.reader(), &zone.version()));
    let library = readers::Library::open(past);
    let (versions, names) = (zone.seq(), zone.names());
    let order = serde_json::to_string(&(versions, names)).unwrap();
    let mut server = readers::Child::start(SERVER, &order);
    let others: readers::Place = serde_json::from_str(&server.next_line()).unwrap();
    for (what, is_https) in [("the socket", false), ("HTTPS", true)] {
        let order = |place| Order {
            is_https,
            versions,
            names,
            place,
        };
        let orders = [order(library.place()), order(others.clone())];
        let (mut alone, mut beside) = (Vec::new(), [Vec::new(), Vec::new()]);
        let mut answers = [0; 2];
        // By turns, as the machine has its moods.
        for _ in 0..TURNS {
            alone.append(&mut commit_times(zone, journal));
            for (order, (times, answers)) in orders.iter().zip(beside.iter_mut().zip(&mut answers))
            {
                *answers += order.beside(|| times.append(&mut commit_times(zone, journal)));
            }
        }
        line("commit, nobody asks", alone);
        for ((whom, times), answers) in ["us", "others"].into_iter().zip(beside).zip(answers) {
            let what = format!("commit, {} ask {whom} over {what}", readers::READERS);
            line(&what, times);
            println!("{:<44} {answers} answers meanwhile", "");
        }
    }
    library.close();
    server.end();
}

/// Makes a history and serves it until the input ends, if this process is another server.
fn serve_if_ordered() -> bool {
    let Ok(order) = std::env::var(SERVER) else {
        return false;
    };
    let (versions, names): (u64, versions::Names) = serde_json::from_str(&order).unwrap();
    // As the server's threads that answer.
    lower_priority();
    let dir = tempfile::TempDir::new_in("target").unwrap();
    let (mut journal, _) = Journal::open(dir.path(), Arc::new(|| START_MS)).unwrap();
    let mut zone = Zone::new(&mut journal, names.records());
    make(&mut zone, &mut journal, versions);
    let past = Arc::new(past_of(journal.reader(), &zone.version()));
    let library = readers::Library::open(past);
    println!("{}", serde_json::to_string(&library.place()).unwrap());
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    library.close();
    journal.close().unwrap();
    true
}

/// Versions come and go until what is kept has been replaced many times: what the disk holds then.
fn retention(dir: &Path, clock: &WallClock, versions: u64, records: u64, keep: u64) {
    println!("{versions} versions of {records} records, {keep} of them kept:");
    let kept = Retention {
        keep: Duration::MAX,
        versions: keep,
        is_archived: false,
        octets: u64::MAX,
    };
    let (mut journal, _) = Journal::open(dir, Arc::clone(clock)).unwrap();
    journal.set_retention(&versions::apex(), kept);
    let mut zone = Zone::new(&mut journal, records);
    make(&mut zone, &mut journal, versions);
    settle(&mut journal);
    let stored = journal.reader().zone(&versions::apex()).unwrap();
    journal.close().unwrap();
    let (disk, kept) = (disk(dir), stored.octets as f64 / 1e6);
    println!(
        "disk {disk:.1} MB, {:.1} x the {kept:.1} MB that are kept",
        disk / kept
    );
    opening(dir, clock, &zone);
}

/// Moves all versions that are in no segment to the archive. Gives the longest time of one segment.
fn move_all(journal: &mut Journal, url: &str) -> Duration {
    let limits = CutLimits {
        versions: 10_000,
        octets: 16 << 20,
    };
    let mut slowest = Duration::ZERO;
    let apex = versions::apex();
    loop {
        let start = Instant::now();
        let reader = journal.reader();
        let Some(cut) = reader.cut(&apex, url, limits).unwrap() else {
            return slowest;
        };
        let segment = reader.put(cut).unwrap();
        assert!(journal.note_segment(&apex, segment).unwrap());
        slowest = slowest.max(start.elapsed());
    }
}

/// Most versions are in an archive: what questions cost then.
fn archived(dir: &Path, clock: &WallClock, versions: u64, records: u64, keep: u64) {
    let url = std::env::var("HISTORY_ARCHIVE").unwrap_or_else(|_| {
        let folder = dir.with_extension("objects");
        std::fs::create_dir_all(&folder).unwrap();
        format!("file://{}", std::path::absolute(&folder).unwrap().display())
    });
    println!(
        "{versions} versions of {records} records, {keep} of them in the store, the others at {url}:"
    );
    let kept = Retention {
        keep: Duration::MAX,
        versions: keep,
        octets: u64::MAX,
        is_archived: true,
    };
    let (mut journal, _) = Journal::open(dir, Arc::clone(clock)).unwrap();
    journal.set_objects(Arc::new(Stores::new()));
    journal.set_retention(&versions::apex(), kept);
    let mut zone = Zone::new(&mut journal, records);
    let mut slowest = Duration::ZERO;
    while zone.seq() < versions {
        let until = versions.min(zone.seq() + keep);
        make(&mut zone, &mut journal, until);
        slowest = slowest.max(move_all(&mut journal, &url));
        settle(&mut journal);
    }
    println!(
        "slowest segment {:.0} ms, disk {:.0} MB beside the archive, RSS {:.0} MB",
        slowest.as_secs_f64() * 1e3,
        disk(&dir.join("db")),
        rss()
    );
    let past = past_of(journal.reader(), &zone.version());
    questions(&past, &zone);
    let start = Instant::now();
    let verdict = journal.reader().verify(&versions::apex(), &[]).unwrap();
    assert!(verdict.faults.is_empty(), "{:?}", verdict.faults);
    println!(
        "verify {} versions in {} segments and the store: {:.1} s, RSS {:.0} MB",
        verdict.versions,
        verdict.segments,
        start.elapsed().as_secs_f64(),
        rss()
    );
}

/// How long a start takes.
fn opening(dir: &Path, clock: &WallClock, zone: &Zone) {
    let start = Instant::now();
    let (mut journal, _) = Journal::open(dir, Arc::clone(clock)).unwrap();
    let opened = start.elapsed();
    let loaded = journal.load(&versions::apex(), versions::LIMITS).unwrap();
    let took = start.elapsed();
    assert_eq!(loaded.version.unwrap().seq, zone.seq());
    println!(
        "open {:.0} ms, open and load {:.0} ms",
        opened.as_secs_f64() * 1e3,
        took.as_secs_f64() * 1e3
    );
}

/// The past as a server answers from it that serves this version.
fn past_of(reader: Reader, served: &Version) -> StoredPast {
    let zone = Arc::new(zone::Zone::new(&versions::apex()));
    zone.restore(served.clone());
    let zones = Arc::new(ZoneSet::new(vec![zone]));
    StoredPast::of_store(reader, Some(zones), Arc::new(SystemClock))
}

/// All versions are in the store.
fn kept_whole(state: &Path, clock: &WallClock, versions: u64, records: u64) {
    println!("{versions} versions of {records} records:");
    let all = Retention {
        keep: Duration::MAX,
        versions: u64::MAX,
        is_archived: false,
        octets: u64::MAX,
    };
    let (mut journal, _) = Journal::open(state, Arc::clone(clock)).unwrap();
    journal.set_retention(&versions::apex(), all);
    let mut zone = Zone::new(&mut journal, records);
    make(&mut zone, &mut journal, versions);
    settle(&mut journal);
    let stored = journal.reader().zone(&versions::apex()).unwrap();
    println!(
        "disk {:.0} MB for {:.0} MB, RSS {:.0} MB",
        disk(state),
        stored.octets as f64 / 1e6,
        rss()
    );
    let past = past_of(journal.reader(), &zone.version());
    questions(&past, &zone);
    beside_readers(&mut zone, &mut journal, &past);
    drop(past);
    beside_a_thousand(&mut zone, &mut journal);
    journal.close().unwrap();
    opening(state, clock, &zone);
}

fn main() {
    if readers::read_if_ordered() || serve_if_ordered() {
        return;
    }
    let (versions, records) = (
        size("HISTORY_VERSIONS", 1_000_000),
        size("HISTORY_RECORDS", 100_000),
    );
    let keep = size("HISTORY_KEEP", 10_000);
    let parts = std::env::var("HISTORY_PARTS").unwrap_or_else(|_| "all,kept,archived".to_owned());
    println!("{}", machine::describe());
    let dir = tempfile::TempDir::new_in("target").unwrap();
    let clock: WallClock = Arc::new(|| START_MS);
    for part in parts.split(',') {
        let state = dir.path().join(part);
        match part {
            "all" => kept_whole(&state, &clock, versions, records),
            "kept" => retention(&state, &clock, versions, records, keep),
            "archived" => archived(&state, &clock, versions, records, keep),
            _ => panic!("HISTORY_PARTS has all, kept and archived, not {part}"),
        }
        std::fs::remove_dir_all(&state).unwrap();
    }
}
