//! What a commit and a start cost: `cargo bench --bench journal`. Compare lines of one run only.

#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]
#![allow(clippy::unwrap_used, reason = "a benchmark may end at the first fault")]
#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark measures with the real clock"
)]

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dns::{Name, Rdata, Serial, Soa, Ttl};
use zone::journal::{Journal, WallClock};
use zone::{Candidate, Contents, Edit, MemoryLimits, Node, Version};

/// Commits that are measured.
const COMMITS: u32 = 1000;
/// What stays in memory.
const LIMITS: MemoryLimits = MemoryLimits {
    steps: 1000,
    octets: 16 << 20,
};

/// The zone's name.
fn apex() -> Name {
    "cluster.local.".parse().unwrap()
}

/// The zone without records.
fn empty() -> Contents {
    let soa = Soa {
        mname: "ns.dns.cluster.local.".parse().unwrap(),
        rname: "hostmaster.cluster.local.".parse().unwrap(),
        refresh: Ttl::decode(300),
        retry: Ttl::decode(30),
        expire: Ttl::decode(86400),
        minimum: Ttl::decode(30),
        ttl: Ttl::decode(30),
    };
    Contents::empty(&apex(), soa)
}

/// An owner's node; `turn` changes all its records.
fn node(owner: u32, records: u32, turn: u32) -> Node {
    let name: Name = format!(
        "service-{owner}.namespace-{}.svc.cluster.local.",
        owner % 100
    )
    .parse()
    .unwrap();
    let mut records = (0..records)
        .map(|place| {
            let address = std::net::Ipv4Addr::from(0x0a00_0000 + turn * 4 + place);
            let (rtype, rdata) = Rdata::address(address.into());
            (rtype, Ttl::decode(30), rdata)
        })
        .collect();
    Node::build(&name, &apex(), &mut records).unwrap()
}

/// The next version, in which these owners are new.
fn next(before: Option<&Version>, owners: std::ops::Range<u32>, each: u32, turn: u32) -> Candidate {
    let start = before.map_or_else(empty, |version| version.contents.clone());
    let mut edit = Edit::new(&start);
    for owner in owners {
        edit.set(node(owner, each, turn), 0);
    }
    let serial = before.map_or(Serial::decode(1), |version| version.serial.next(1));
    Candidate::new(before, edit.finish(), serial, 1_000, Vec::new(), LIMITS)
}

/// Median, 99th percentile and maximum.
fn print_times(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    println!(
        "{what}: median {:.3} ms, p99 {:.3} ms, max {:.3} ms",
        at(50),
        at(99),
        at(100)
    );
}

/// What this thread has computed so far: on a busy machine it says more than the clock.
fn computed() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

/// What the disk itself takes for a record of that size.
fn baseline(dir: &Path) {
    let mut file = File::create(dir.join("baseline")).unwrap();
    let times = (0..COMMITS)
        .map(|_| {
            let start = Instant::now();
            file.write_all(&[7; 300]).unwrap();
            file.sync_data().unwrap();
            start.elapsed()
        })
        .collect();
    print_times("append 300 octets + fdatasync", times);
}

/// One size, with so many records for each owner.
fn measure(dir: &Path, records: u32, each: u32, clock: &WallClock) {
    let state = dir.join(format!("{records}-{each}"));
    let (mut journal, _) = Journal::open(&state, Arc::clone(clock)).unwrap();
    let first = next(None, 0..records / each, each, 0);
    let mut version = first.version().clone();
    let start = Instant::now();
    journal.commit(vec![first]).unwrap();
    println!("{records} records: first version {:?}", start.elapsed());
    let mut times = Vec::new();
    for turn in 1..=COMMITS {
        let owner = turn.wrapping_mul(7919) % (records / each);
        let candidate = next(Some(&version), owner..owner + 1, each, turn);
        version = candidate.version().clone();
        let start = Instant::now();
        journal.commit(vec![candidate]).unwrap();
        times.push(start.elapsed());
    }
    print_times(
        &format!("{records} records: commit of {each} + {each} records"),
        times,
    );
    drop(journal);
    let (start, before) = (Instant::now(), computed());
    let (mut journal, _) = Journal::open(&state, Arc::clone(clock)).unwrap();
    let opened = start.elapsed();
    let loaded = journal.load(&apex(), LIMITS).unwrap().version.unwrap();
    println!(
        "{records} records, {} owners: open {opened:?}, open and load {:?} ({:?} computed), {COMMITS} steps after the base",
        records / each,
        start.elapsed(),
        computed() - before
    );
    assert!(loaded.contents.same_as(&version.contents));
}

fn main() {
    let dir = tempfile::TempDir::new_in("target").unwrap();
    let clock: WallClock = Arc::new(|| 1_000_000);
    baseline(dir.path());
    for (records, each) in [(999, 3), (999_999, 3), (500_000, 1)] {
        measure(dir.path(), records, each, &clock);
    }
    baseline(dir.path());
}
