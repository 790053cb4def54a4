//! The journal of a replica after a kill and after a loss of power, at each point of a recorded life.

use super::*;
use crate::journal::tests::replicas::payloads;

/// Points at which the power is lost, and at which the process is killed.
const REPLICA_POINTS: usize = 300;
/// The test that becomes the process that is recorded.
const REPLICA_TEST: &str =
    "journal::tests::power::replicas::a_replica_that_ends_at_any_point_has_a_chain_that_it_said";

/// What is in a journal: the announced version, and all versions from it on, each by its hash.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Model {
    announced: u64,
    /// All versions, oldest first.
    versions: Vec<Tip>,
}

/// A life: versions are added, announced and dropped; the journal is opened again now and then. `said` hears the state after
/// each order that is answered.
fn live_replicated(dir: &Path, mut said: impl FnMut(&Model)) {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let mut dice = fastrand::Rng::with_seed(seed());
    let history = seeded_history(seed(), 90);
    let mut model = Model::default();
    for (life, plans) in history.chunks(30).enumerate() {
        let (mut journal, report) = Journal::open(dir, clock(&now)).unwrap();
        assert_eq!(report.notes, Vec::<String>::new());
        let chain = journal.load_chain(&apex(), UNLIMITED).unwrap();
        let announced = chain.announced.map(|(_, version)| version);
        let later = chain.later.iter().map(|(_, it)| it.version().clone());
        let mut chain: Vec<Version> = announced.into_iter().chain(later).collect();
        assert_eq!(
            chain.last().map(|it| it.seq),
            model.versions.last().map(|it| it.seq)
        );
        for (turn, plan) in plans.iter().enumerate() {
            let serial = u32::try_from(life * 100 + turn + 1).unwrap();
            let time = now.fetch_add(700, Ordering::Relaxed);
            let newest = chain.last();
            let candidate = match turn % 13 {
                7 => Some(bulky_at(newest, serial, Serial::decode(serial))),
                _ => laws::candidate(newest, plan, Serial::decode(serial), time),
            };
            if let Some(candidate) = candidate {
                let epoch = u64::try_from(life).unwrap() + 1;
                let parcel = Journal::parcel_of(&candidate, epoch, Attached::default());
                let (tip, _, _, last) = payloads(parcel);
                let payload = (Staged::default(), &last[..]);
                let opened = Journal::open_step(&apex(), newest, &tip, payload, UNLIMITED).unwrap();
                let done = journal
                    .commit_opened(vec![opened], Some(&serial.to_be_bytes()))
                    .unwrap();
                chain.push(done[0].version().clone());
                model.versions.push(tip);
                said(&model);
            }
            let last = chain.last().cloned();
            match dice.u8(..6) {
                0..=2 => {
                    if let Some(last) = last {
                        journal.announce(&last).unwrap();
                        chain.drain(..chain.len() - 1);
                        model.announced = last.seq;
                        said(&model);
                    }
                }
                3 => {
                    let most = chain.last().map_or(0, |it| it.seq);
                    let to = dice.u64(model.announced..=most);
                    journal.truncate(&apex(), to).unwrap();
                    chain.retain(|version| version.seq <= to);
                    model.versions.retain(|tip| tip.seq <= to);
                    said(&model);
                }
                _ => {}
            }
            if turn % 5 == 0 {
                journal.idle();
            }
        }
    }
}

/// What a journal holds after it was opened; an error if it is not sound.
fn opened(dir: &Path) -> Result<Model, String> {
    let now = Arc::new(AtomicU64::new(1_000_000));
    let (mut journal, _notes) =
        Journal::open(dir, clock(&now)).map_err(|error| error.to_string())?;
    let chain = journal.load_chain(&apex(), UNLIMITED);
    let chain = chain.map_err(|error| error.to_string())?;
    let announced = chain.announced.as_ref().map_or(0, |(tip, _)| tip.seq);
    if let Some((tip, _)) = &chain.announced {
        let verdict = journal.reader().verify(&apex(), &[]);
        let mut verdict = verdict.map_err(|error| error.to_string())?;
        // A loss of power can take the file that says what was announced.
        verdict
            .faults
            .retain(|fault| fault.damage != Damage::Unknown);
        if !verdict.faults.is_empty() || verdict.head != Some(tip.hash) {
            return Err(format!("{verdict:?}"));
        }
    }
    if let Some(lost) = journal.lost(&apex()).filter(|lost| lost.is_exact) {
        return Err(format!("believes that {lost}"));
    }
    let from = chain.announced.into_iter().map(|(tip, _)| tip);
    let versions = from
        .chain(chain.later.iter().map(|(tip, _)| *tip))
        .collect();
    Ok(Model {
        announced,
        versions,
    })
}

/// Whether a journal holds what is there in a state: perhaps with an older mark.
fn is_as(found: &Model, model: &Model) -> bool {
    let from = found.announced.max(1);
    let expected = model.versions.iter().filter(|tip| tip.seq >= from);
    found.announced <= model.announced && expected.eq(&found.versions)
}

fn end_replica_at(traced: &Traced, states: &[Model], end: End) -> Vec<String> {
    let mut dice = fastrand::Rng::with_seed(seed());
    let lines: Vec<usize> = traced.calls.iter().map(|call| call.begin).collect();
    let cut = |_| lines[dice.usize(..lines.len())] + dice.usize(..2);
    let mut cuts: Vec<usize> = (0..REPLICA_POINTS).map(cut).collect();
    cuts.sort_unstable();
    let mut disk = Disk::new(end);
    let mut calls = traced.calls.iter().peekable();
    let mut wrong = Vec::new();
    for cut in cuts {
        while let Some(call) = calls.next_if(|call| call.begin < cut) {
            disk.play(call);
        }
        disk.end_syncs(cut);
        let said = traced
            .lines
            .iter()
            .take_while(|(line, _)| *line < cut)
            .count();
        let left = TempDir::new().unwrap();
        disk.lay_out(&traced.dir, left.path(), end, &mut dice);
        if end != End::Kill {
            start_machine_anew(left.path());
        }
        // The state that was said last, or what an order that was not answered yet leads to.
        let now = said
            .checked_sub(1)
            .map_or_else(Model::default, |last| states[last].clone());
        let next = states.get(said).unwrap_or(&now);
        match opened(left.path()) {
            Ok(found) => {
                if !is_as(&found, &now) && !is_as(&found, next) {
                    let (last, expected) = (found.versions.last(), now.versions.last());
                    let marks = (found.announced, now.announced);
                    wrong.push(format!(
                        "{end:?} at {cut}: {last:?} in place of {expected:?}, {marks:?}"
                    ));
                }
            }
            Err(what) => wrong.push(format!("{end:?} at {cut}: {what}")),
        }
    }
    wrong
}

#[test]
fn a_replica_that_ends_at_any_point_has_a_chain_that_it_said() {
    if let Ok(folder) = std::env::var(CHILD) {
        use std::io::Write as _;
        let mut told = std::fs::File::create(Path::new(&folder).join("told")).unwrap();
        live_replicated(&Path::new(&folder).join("state"), |model| {
            let line = format!("{model:?}\n");
            told.write_all(line.as_bytes()).unwrap();
        });
        return;
    }
    let Some(traced) = traced(REPLICA_TEST) else {
        return;
    };
    let mut states = Vec::new();
    let aside = TempDir::new().unwrap();
    live_replicated(aside.path(), |model| states.push(model.clone()));
    let said: Vec<String> = states.iter().map(|model| format!("{model:?}\n")).collect();
    let heard = traced.lines.iter().map(|(_, text)| text);
    assert!(heard.eq(&said), "lives differ");
    for end in [End::Kill, End::Power] {
        let wrong = end_replica_at(&traced, &states, end);
        assert!(
            wrong.is_empty(),
            "{} of {REPLICA_POINTS}\n{}",
            wrong.len(),
            wrong.join("\n")
        );
    }
    // The check itself: a disk on which syncs do nothing costs versions.
    let wrong = end_replica_at(&traced, &states, End::PowerWithoutSyncs);
    assert!(wrong.len() > 10, "{wrong:?}");
}
