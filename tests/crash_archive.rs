//! Kills a process while it moves versions to an archive: each version that it announced is in its store or in the
//! archive, and is what it was.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use archive::Stores;
use dns::{Name, Rdata, Rtype, Serial, Ttl};
use zone::journal::{CutLimits, Journal, Retention};
use zone::{Candidate, Contents, Edit, MemoryLimits, Node, Version};

use crate::support::process::let_pass;

/// How often the process is killed.
const KILLS: u32 = 200;
/// Where the child works.
const FOLDER: &str = "ZW_CRASH_ARCHIVE";
/// Versions that stay in the store, if the archive has the others.
const KEPT: u64 = 5;
const LIMITS: MemoryLimits = MemoryLimits {
    steps: 8,
    octets: 1 << 20,
};

fn apex() -> Name {
    "z.example.".parse().unwrap()
}

fn open(folder: &Path) -> (Journal, Option<Version>) {
    let (mut journal, report) =
        Journal::open(&folder.join("state"), Arc::new(|| 1_000_000)).unwrap();
    for note in report.notes {
        assert!(note.ends_with("nothing is lost"), "{note}");
    }
    journal.set_objects(Arc::new(Stores::new()));
    let retention = Retention {
        versions: KEPT,
        is_archived: true,
        ..Retention::DEFAULT
    };
    journal.set_retention(&apex(), retention);
    let version = journal.load(&apex(), LIMITS).unwrap().version;
    (journal, version)
}

/// The text that a version has, and no other.
fn text_of(seq: u64) -> String {
    format!("{seq} {}", "x".repeat(200))
}

fn next(previous: Option<&Version>) -> Candidate {
    let seq = previous.map_or(1, |version| version.seq + 1);
    let before = previous.map_or_else(
        || Contents::empty(&apex(), dns::testing::soa(&apex(), 5)),
        |version| version.contents.clone(),
    );
    let mut edit = Edit::new(&before);
    let owner: Name = "version.z.example.".parse().unwrap();
    let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(&text_of(seq)))];
    edit.set(Node::build(&owner, &apex(), &mut records).unwrap(), 0);
    let serial = Serial::decode(u32::try_from(seq).unwrap());
    Candidate::new(
        previous,
        edit.finish(),
        serial,
        1_000_000 + seq,
        Vec::new(),
        LIMITS,
    )
}

/// The process that is killed: a test of its own, which does nothing unless it is told where.
#[test]
fn child() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let url = format!("file://{}/archive", folder.display());
    let (mut journal, mut version) = open(folder);
    let mut out = std::io::stdout();
    loop {
        for _ in 0..3 {
            let candidate = next(version.as_ref());
            let published = candidate.version().clone();
            journal.commit(vec![candidate]).unwrap();
            writeln!(out, "\nannounced {}", published.seq).unwrap();
            out.flush().unwrap();
            version = Some(published);
        }
        let limits = CutLimits {
            versions: 7,
            octets: usize::MAX,
        };
        let reader = journal.reader();
        if let Some(cut) = reader.cut(&apex(), &url, limits).unwrap() {
            let segment = reader.put(cut).unwrap();
            assert!(journal.note_segment(&apex(), segment).unwrap());
        }
        while journal.idle() {}
    }
}

/// Runs the process for some time, and kills it. Gives the last version that it announced.
fn killed(folder: &Path, after: Duration) -> Option<u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash_archive::child", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let reads = std::thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        let announced = lines.filter_map(|line| line.strip_prefix("announced ")?.parse().ok());
        announced.last()
    });
    let_pass(after);
    child.kill().unwrap();
    child.wait().unwrap();
    reads.join().unwrap()
}

#[test]
fn a_kill_at_any_point_leaves_each_version_in_the_store_or_in_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::create_dir(folder.join("archive")).unwrap();
    let mut announced = 0;
    let mut moved = 0;
    for kill in 0..KILLS {
        // The process needs some milliseconds to its first version.
        let after = Duration::from_millis(20 + u64::from(kill * 7 % 83));
        announced = killed(folder, after).unwrap_or(announced);
        let (journal, version) = open(folder);
        let newest = version.map_or(0, |version| version.seq);
        assert!(
            newest >= announced,
            "kill {kill}: {newest}, announced {announced}"
        );
        let reader = journal.reader();
        let local = reader
            .clone()
            .local()
            .zone(&apex())
            .map_or(1, |zone| zone.oldest);
        moved = moved.max(local);
        if newest == 0 {
            continue;
        }
        // What is new since the last look, and what has just left the store.
        let seqs = reader.steps(&apex(), 1..=newest).unwrap();
        assert_eq!(seqs.len() as u64, newest, "kill {kill}");
        for step in seqs {
            let rr = step.added.iter().find(|rr| rr.rtype == Rtype::TXT).unwrap();
            assert_eq!(
                rr.data,
                Rdata::txt(&text_of(step.seq)).as_octets(),
                "kill {kill}"
            );
        }
    }
    let (journal, version) = open(folder);
    let verdict = journal.reader().verify(&apex(), &[]).unwrap();
    assert_eq!(verdict.faults, []);
    assert_eq!(verdict.versions, version.unwrap().seq);
    assert!(
        announced > u64::from(KILLS) && moved > KEPT,
        "{announced} versions, {moved} moved"
    );
}
