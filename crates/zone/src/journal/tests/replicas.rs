//! Journals of several replicas: the same steps give the same history, and what is dropped leaves nothing.

use super::*;
use crate::Hash;
use crate::journal::codec::{COREFILE, MANY, REPLICA};
use crate::journal::serial_files::Known;

/// A replica's journal, and the newest version in it.
pub(super) struct Copy {
    pub(super) dir: TempDir,
    now: Arc<AtomicU64>,
    journal: Option<Journal>,
    pub(super) newest: Option<Version>,
    announced: Option<Version>,
}

/// The payloads of a parcel: its parts, then the last.
pub(super) fn payloads(mut parcel: Parcel) -> (Tip, bool, Vec<Vec<u8>>, Vec<u8>) {
    let (tip, is_snapshot) = (*parcel.tip(), parcel.is_snapshot());
    let mut parts = Vec::new();
    loop {
        match parcel.next_portion() {
            Portion::Part(part) => parts.push(part),
            Portion::Last(last) => return (tip, is_snapshot, parts, last),
        }
    }
}

impl Copy {
    pub(super) fn new() -> Self {
        Self::at(TempDir::new().unwrap())
    }

    pub(super) fn at(dir: TempDir) -> Self {
        let mut copy = Self {
            dir,
            now: Arc::new(AtomicU64::new(1_000_000)),
            journal: None,
            newest: None,
            announced: None,
        };
        assert_eq!(copy.open(), Vec::<String>::new());
        copy
    }

    /// Opens the store; gives all notes.
    pub(super) fn open(&mut self) -> Vec<String> {
        self.journal = None;
        let mut tries = 0..1_000_000;
        let (mut journal, report) = loop {
            match Journal::open(self.dir.path(), clock(&self.now)) {
                Err(OpenError::Locked { .. }) if tries.next().is_some() => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let chain = journal.load_chain(&apex(), UNLIMITED).unwrap();
        self.announced = chain.announced.map(|(_, version)| version);
        let later = chain.later.last();
        self.newest = later.map(|(_, version)| version.version().clone());
        self.newest = self.newest.take().or_else(|| self.announced.clone());
        self.journal = Some(journal);
        [report.notes, chain.notes].concat()
    }

    pub(super) fn journal(&mut self) -> &mut Journal {
        self.journal.as_mut().unwrap()
    }

    /// The tips from the announced version on.
    fn tips(&mut self) -> (Option<Tip>, Vec<Tip>) {
        let chain = self.journal().load_chain(&apex(), UNLIMITED).unwrap();
        let later = chain.later.iter().map(|(tip, _)| *tip);
        (chain.announced.map(|(tip, _)| tip), later.collect())
    }

    /// The candidate of an edit.
    fn candidate(&self, plan: &EditPlan, serial: u32) -> Option<Candidate> {
        let now = self.now.load(Ordering::Relaxed);
        laws::candidate(self.newest.as_ref(), plan, Serial::decode(serial), now)
    }

    /// Takes a parcel as a peer sent it.
    pub(super) fn give(&mut self, parcel: Parcel) -> Result<(), OpenStepError> {
        let (tip, is_snapshot, parts, last) = payloads(parcel);
        let mut staged = Staged::default();
        for part in &parts {
            staged.take(part)?;
        }
        let apex = apex();
        let opened = match is_snapshot {
            true => Journal::open_snapshot(&apex, &tip, (staged, &last), UNLIMITED)?,
            false => {
                let previous = self.newest.as_ref();
                Journal::open_step(&apex, previous, &tip, (staged, &last), UNLIMITED)?
            }
        };
        let done = self.journal().commit_opened(vec![opened], None).unwrap();
        self.newest = Some(done[0].version().clone());
        Ok(())
    }

    fn announce(&mut self) {
        let newest = self.newest.clone().unwrap();
        self.journal().announce(&newest).unwrap();
        self.announced = Some(newest);
    }

    fn truncate(&mut self, to: Option<&Version>) {
        let seq = to.map_or(0, |version| version.seq);
        self.journal().truncate(&apex(), seq).unwrap();
        self.newest = to.cloned();
    }

    fn settle(&mut self) {
        while self.journal().idle() {}
    }

    /// All entries of the database but its own.
    fn entries(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let all = self.journal().store.range(&[0], &[255], usize::MAX);
        let all = all.unwrap().into_iter();
        let all = all.map(|(key, value)| (key.to_vec(), value.to_vec()));
        all.filter(|(key, _)| key != codec::META_KEY).collect()
    }

    /// The history that a reader sees, as a journal stores it, with the acts.
    fn history(&mut self) -> (Vec<Arc<Step>>, Vec<Act>, Vec<Vec<u8>>) {
        let reader = self.journal().reader();
        let steps = reader.steps(&apex(), 0..=u64::MAX).unwrap();
        let contents = reader.zone(&apex()).map_or_else(Vec::new, |zone| {
            let contents = reader.contents_at(&apex(), zone.newest, None).unwrap();
            contents
                .nodes()
                .map(|node| node.as_octets().to_vec())
                .collect()
        });
        (steps, reader.acts(&apex(), 0).unwrap().all, contents)
    }

    fn check_sound(&mut self) {
        let verdict = self.journal().reader().verify(&apex(), &[]).unwrap();
        assert_eq!(verdict.faults, []);
        assert_eq!(
            verdict.head,
            self.announced
                .as_ref()
                .and_then(|it| it.link)
                .map(|it| it.hash)
        );
    }
}

/// An act that came with the version of a number.
fn act(number: u64) -> Act {
    Act {
        number: 0,
        time_ms: number,
        what: "frozen".into(),
        by: "someone".into(),
        about: format!("because of {number}"),
        serial: 7,
        seq: Some(number),
        until_ms: None,
    }
}

/// What comes with some versions.
fn attached(number: u64) -> Attached {
    match number % 3 {
        0 => Attached::default(),
        1 => Attached {
            acts: vec![act(number), act(number + 1)],
            corefile: None,
            state: vec![1, 2, 3],
        },
        _ => Attached {
            acts: Vec::new(),
            corefile: Some(KeptCorefile {
                since_ms: number,
                digest: format!("digest-{}", number % 2),
                text: ". {\n}\n".to_owned(),
            }),
            state: vec![0; 9000],
        },
    }
}

/// Adds the version of an edit to journals that have the same newest version. Says whether there is one.
fn add(copies: &mut [&mut Copy], plan: &EditPlan, serial: u32, epoch: u64) -> bool {
    let Some(candidate) = copies[0].candidate(plan, serial) else {
        return false;
    };
    for copy in copies {
        let parcel = Journal::parcel_of(&candidate, epoch, attached(u64::from(serial)));
        copy.give(parcel).unwrap();
        let taken = copy.newest.as_ref();
        assert!(same(Some(candidate.version()), taken));
        assert_eq!(taken.and_then(|it| it.link), candidate.version().link);
    }
    true
}

/// Sends what one journal has to another, as a leader does to a follower that has these versions.
fn send(from: &mut Copy, to: &mut Copy, mut known: Vec<Tip>, max_bytes: usize) {
    loop {
        let sending = from.journal().sending(&apex(), &known, max_bytes).unwrap();
        match sending.unwrap() {
            Sending::Steps { steps, .. } if steps.is_empty() => return,
            Sending::Steps { steps, .. } => {
                for parcel in steps {
                    known = vec![*parcel.tip()];
                    to.give(parcel).unwrap();
                }
            }
            Sending::Snapshot(parcel) => {
                known = vec![*parcel.tip()];
                to.give(*parcel).unwrap();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn the_same_steps_give_the_same_history_on_every_replica(
        history in any_history(9), marks in prop::collection::vec(any::<bool>(), 9), epochs in 1..4_u64,
    ) {
        let (mut leader, mut follower) = (Copy::new(), Copy::new());
        for (turn, (plan, mark)) in (1..).zip(history.iter().zip(&marks)) {
            let epoch = 1 + u64::from(turn) / epochs;
            let is_added = add(&mut [&mut leader, &mut follower], plan, turn, epoch);
            if is_added && *mark {
                leader.announce();
                follower.announce();
            }
            if turn % 4 == 0 {
                prop_assert_eq!(follower.open(), Vec::<String>::new());
            }
        }
        if leader.newest.is_some() {
            leader.announce();
            follower.announce();
            leader.check_sound();
            follower.check_sound();
        }
        prop_assert_eq!(leader.history(), follower.history());
        leader.settle();
        follower.settle();
        prop_assert_eq!(leader.entries(), follower.entries());
        prop_assert_eq!(leader.tips(), follower.tips());
    }

    #[test]
    fn what_is_dropped_leaves_nothing_behind(
        common in any_history(4), dropped in any_history(4), branch in any_history(4), reopen: bool,
    ) {
        let (mut with, mut without) = (Copy::new(), Copy::new());
        let mut turn = 0;
        for plan in &common {
            turn += 1;
            add(&mut [&mut with, &mut without], plan, turn, 1);
        }
        if with.newest.is_some() {
            with.announce();
            without.announce();
        }
        let base = with.newest.clone();
        for plan in &dropped {
            turn += 1;
            add(&mut [&mut with], plan, turn, 1);
        }
        let highest = with.newest.as_ref().map(|version| version.serial);
        if reopen {
            prop_assert_eq!(with.open(), Vec::<String>::new());
        }
        with.truncate(base.as_ref());
        let is_dropped = with.newest.as_ref().map(|version| version.serial) != highest;
        let floor = with.journal().floor(&apex());
        prop_assert!(!is_dropped || floor == highest || floor.unwrap().is_after(highest.unwrap()));
        if reopen {
            prop_assert_eq!(with.open(), Vec::<String>::new());
            let floor = with.journal().floor(&apex());
            prop_assert!(!is_dropped || !highest.unwrap().is_after(floor.unwrap()));
        }
        prop_assert!(same(base.as_ref(), with.newest.as_ref()));
        for plan in &branch {
            turn += 1;
            add(&mut [&mut with, &mut without], plan, turn, 2);
        }
        prop_assert_eq!(with.tips(), without.tips());
        if with.newest.is_some() {
            with.announce();
            without.announce();
            with.check_sound();
        }
        with.settle();
        without.settle();
        prop_assert_eq!(with.history(), without.history());
        // A Corefile was in use, whatever became of the version.
        let of_versions = |copy: &mut Copy| {
            let mut entries = copy.entries();
            entries.retain(|(key, _)| key[0] != COREFILE);
            entries
        };
        let (with, without) = (of_versions(&mut with), of_versions(&mut without));
        // A zone of which everything was dropped has another id.
        let is_same_id = base.is_some() || !is_dropped;
        prop_assert!(!is_same_id || with == without);
        prop_assert_eq!(with.len(), without.len());
    }

    #[test]
    fn a_snapshot_brings_the_history_along(
        history in any_history(9), announced in 0..9_usize, max_bytes in 1..2000_usize, versions in 1..9_u64,
    ) {
        let (mut leader, mut follower) = (Copy::new(), Copy::new());
        let retention = Retention { versions, ..Retention::DEFAULT };
        leader.journal().set_retention(&apex(), retention);
        for (turn, plan) in (1..).zip(&history) {
            let is_added = add(&mut [&mut leader], plan, turn, u64::from(turn % 2));
            if is_added && turn as usize <= announced {
                leader.announce();
            }
        }
        // What the follower has is given up.
        add(&mut [&mut follower], &laws::fixed_history(1)[0], 1000, 1);
        let Some(newest) = leader.newest.clone() else {
            return Ok(());
        };
        send(&mut leader, &mut follower, Vec::new(), max_bytes);
        prop_assert!(follower.newest.as_ref().unwrap().contents.same_as(&newest.contents));
        prop_assert_eq!(follower.newest.as_ref().and_then(|it| it.link), newest.link);
        leader.announce();
        follower.announce();
        follower.check_sound();
        let (steps, acts, contents) = follower.history();
        let history = (steps, acts, contents);
        prop_assert_eq!(&history, &leader.history());
        prop_assert_eq!(follower.open(), Vec::<String>::new());
        prop_assert_eq!(follower.history(), history);
        follower.check_sound();
    }
}

/// A journal with some versions, and the next one as it is sent.
fn subject() -> (Copy, Candidate) {
    let mut copy = Copy::new();
    for (turn, plan) in (1..).zip(&laws::fixed_history(4)) {
        add(&mut [&mut copy], plan, turn, 1);
    }
    let plans = laws::fixed_history(12);
    let mut plans = plans.iter().skip(4);
    let candidate = plans.find_map(|plan| copy.candidate(plan, 100)).unwrap();
    (copy, candidate)
}

/// What a payload leads to.
fn open(copy: &Copy, tip: &Tip, last: &[u8]) -> Result<Opened, OpenStepError> {
    let staged = Staged::default();
    Journal::open_step(
        &apex(),
        copy.newest.as_ref(),
        tip,
        (staged, last),
        UNLIMITED,
    )
}

#[test]
fn a_payload_with_another_byte_is_refused() {
    let (copy, candidate) = subject();
    let parcel = Journal::parcel_of(&candidate, 3, attached(1));
    let (tip, _, parts, last) = payloads(parcel);
    assert!(parts.is_empty() && open(&copy, &tip, &last).is_ok());
    for place in 0..last.len() {
        for flip in [1, 0x80, 0xff] {
            let mut changed = last.clone();
            changed[place] ^= flip;
            assert!(open(&copy, &tip, &changed).is_err(), "byte {place}");
        }
        assert!(open(&copy, &tip, &last[..place]).is_err(), "{place} bytes");
    }
}

/// Who can compute the checksum still cannot pass another version off as this one.
#[test]
fn a_payload_with_another_byte_and_its_checksum_leads_to_the_same_version_or_nowhere() {
    let (copy, candidate) = subject();
    let parcel = Journal::parcel_of(&candidate, 3, attached(1));
    let (tip, _, _, last) = payloads(parcel);
    let body = &last[..last.len() - 4];
    let (mut taken, mut wrong) = (0, 0);
    for place in 0..body.len() {
        for flip in [1, 2, 0x40, 0x80, 0xff] {
            let mut changed = body.to_vec();
            changed[place] ^= flip;
            let sum = crc32fast::hash(&changed);
            changed.extend_from_slice(&sum.to_be_bytes());
            match open(&copy, &tip, &changed) {
                Ok(opened) => {
                    assert!(
                        same(Some(candidate.version()), Some(opened.version())),
                        "{place}"
                    );
                    taken += 1;
                }
                Err(OpenStepError::WrongHash) => wrong += 1,
                Err(OpenStepError::Payload(_) | OpenStepError::Unfit) => {}
            }
        }
    }
    // What comes with a version is not in its hash.
    assert!(taken > 0 && wrong > 100, "{taken} {wrong}");
    let other = Tip {
        hash: Hash::ZERO,
        ..tip
    };
    let refused = open(&copy, &other, &last).map(drop);
    assert_eq!(refused, Err(OpenStepError::WrongHash));
    let other = Tip {
        seq: tip.seq + 1,
        ..tip
    };
    assert!(open(&copy, &other, &last).is_err());
}

#[test]
fn a_large_step_comes_in_parts_of_bounded_size() {
    let (mut leader, mut follower) = (Copy::new(), Copy::new());
    let texts = |turn: u32| {
        use dns::{Rdata, Rtype, Ttl};
        let mut edit = Edit::new(&leader_contents(turn));
        for place in 0..8000 {
            let name = owner(place);
            let text = format!("{turn} {place} {}", "x".repeat(200));
            let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(&text))];
            edit.set(Node::build(&name, &apex(), &mut records).unwrap(), 0);
        }
        edit
    };
    let first = finished(None, texts(1), Serial::decode(1));
    leader
        .give(Journal::parcel_of(&first, 1, Attached::default()))
        .unwrap();
    let mut edit = Edit::new(&first.version().contents);
    edit.replace_subtree(
        &[],
        texts(2)
            .into_contents()
            .nodes()
            .map(|it| (it.clone(), 0))
            .collect(),
        0,
    );
    let second = finished(leader.newest.as_ref(), edit, Serial::decode(2));
    let parcel = || Journal::parcel_of(&second, 1, attached(1));
    leader.give(parcel()).unwrap();
    let (_, _, parts, last) = payloads(parcel());
    let longest = parts.iter().map(Vec::len).max().unwrap();
    assert!(
        parts.len() > 4 && longest < 1 << 20 && last.len() < 1 << 16,
        "{longest}"
    );
    send(&mut leader, &mut follower, Vec::new(), 1 << 20);
    leader.announce();
    follower.announce();
    assert_eq!(leader.history(), follower.history());
    follower.check_sound();
    // A part is missing, or comes twice.
    for parts in [&parts[1..], &[&parts[..1], &parts[..]].concat()] {
        let mut staged = Staged::default();
        let taken: Result<(), _> = parts.iter().try_for_each(|part| staged.take(part));
        let previous = follower.newest.as_ref();
        let tip = *parcel().tip();
        let payload = (staged, &last[..]);
        let opened = Journal::open_step(&apex(), previous, &tip, payload, UNLIMITED);
        assert!(taken.is_err() || opened.is_err());
    }
}

fn leader_contents(_turn: u32) -> Contents {
    laws::empty()
}

#[test]
fn readers_do_not_see_a_version_that_is_not_announced() {
    let mut copy = Copy::new();
    let plans = laws::fixed_history(8);
    let mut plans = (1..).zip(&plans);
    let mut next = |copy: &mut Copy| loop {
        let (turn, plan) = plans.next().unwrap();
        if add(&mut [copy], plan, turn, 1) {
            return copy.newest.clone().unwrap();
        }
    };
    next(&mut copy);
    assert_eq!(copy.journal().reader().zones(), []);
    assert!(copy.history().0.is_empty());
    copy.announce();
    let first = copy.newest.clone().unwrap();
    let second = next(&mut copy);
    let seen = |copy: &mut Copy| {
        let reader = copy.journal().reader();
        let zone = reader.zone(&apex()).unwrap();
        let lines = reader.verify(&apex(), &[]).unwrap();
        assert_eq!(
            (lines.faults, lines.newest),
            (vec![], (zone.newest, zone.serial))
        );
        assert_eq!(reader.zones()[0].serial, zone.serial);
        zone.serial
    };
    assert_eq!(seen(&mut copy), first.serial);
    let reader = copy.journal().reader();
    assert!(reader.step(&apex(), second.seq).is_err());
    assert!(reader.contents_at(&apex(), second.seq, None).is_err());
    // The mark is in the file as well, so that nobody believes later that a version was lost.
    let newest = Known::read(copy.dir.path()).unwrap().serials;
    assert_eq!(newest[0].serial, first.serial);
    assert_eq!(copy.open(), Vec::<String>::new());
    assert_eq!(seen(&mut copy), first.serial);
    copy.announce();
    assert_eq!(seen(&mut copy), second.serial);
}

#[test]
fn a_zone_of_a_single_server_was_announced_up_to_its_newest_version() {
    let mut bench = Bench::new();
    for plan in &laws::fixed_history(5) {
        bench.commit(plan);
    }
    let before = bench.version.clone().unwrap();
    bench.journal = None;
    let mut copy = Copy::at(bench.dir);
    let (announced, later) = copy.tips();
    assert_eq!(
        announced.map(|tip| (tip.epoch, tip.seq)),
        Some((0, before.seq))
    );
    assert_eq!(later, []);
    let candidate = bulky_at(copy.newest.as_ref(), 1, Serial::decode(5000));
    copy.give(Journal::parcel_of(&candidate, 4, Attached::default()))
        .unwrap();
    copy.open();
    let (announced, later) = copy.tips();
    assert_eq!(
        announced.map(|tip| (tip.epoch, tip.seq)),
        Some((0, before.seq))
    );
    assert_eq!(later.iter().map(|tip| tip.epoch).collect::<Vec<_>>(), [4]);
    copy.journal().announce_all().unwrap();
    copy.open();
    assert_eq!(copy.tips().1, []);
}

#[test]
fn a_refused_step_leaves_nothing_behind_after_a_restart() {
    let (mut copy, candidate) = subject();
    let before = copy.tips();
    let (tip, _, _, last) = payloads(Journal::parcel_of(&candidate, 1, attached(1)));
    for _ in 0..2 {
        let opened = open(&copy, &tip, &last).unwrap();
        copy.journal().store.refuse_next();
        let refused = copy.journal().commit_opened(vec![opened], Some(b"vow"));
        assert!(
            matches!(refused, Err(ReplicateError::Refused(_))),
            "{refused:?}"
        );
        assert_eq!(copy.journal().kept().unwrap(), None);
        assert_eq!(copy.open(), Vec::<String>::new());
        assert_eq!(copy.tips(), before);
    }
    let opened = open(&copy, &tip, &last).unwrap();
    copy.journal()
        .commit_opened(vec![opened], Some(b"vow"))
        .unwrap();
    copy.journal = None;
    copy.open();
    assert_eq!(copy.journal().kept().unwrap().as_deref(), Some(&b"vow"[..]));
    assert_eq!(copy.tips().1.last(), Some(&tip));
}

#[test]
fn only_versions_after_the_announced_one_can_be_dropped() {
    let (mut copy, _) = subject();
    copy.announce();
    let newest = copy.newest.clone().unwrap();
    for seq in [0, newest.seq - 1, newest.seq + 1] {
        let refused = copy.journal().truncate(&apex(), seq);
        assert!(
            matches!(refused, Err(ReplicateError::NoVersion { .. })),
            "{refused:?}"
        );
    }
    copy.journal().truncate(&apex(), newest.seq).unwrap();
    assert_eq!(copy.tips().0.map(|tip| tip.seq), Some(newest.seq));
    assert_eq!(copy.journal().floor(&apex()), None);
}

#[test]
fn snapshots_and_limits_do_not_go_beyond_the_announced_version() {
    let mut copy = Copy::new();
    let retention = Retention {
        versions: 3,
        ..Retention::DEFAULT
    };
    copy.journal().set_retention(&apex(), retention);
    let mut base = None;
    for turn in 1..=60 {
        let candidate = bulky(copy.newest.as_ref(), turn);
        copy.give(Journal::parcel_of(&candidate, 1, attached(u64::from(turn))))
            .unwrap();
        if turn <= 10 {
            copy.announce();
            base = copy.newest.clone();
        }
        copy.journal().idle();
    }
    copy.settle();
    let stored = copy.journal().zones()[&apex()].clone();
    assert!(
        stored.head.base.seq <= 10 && stored.head.oldest <= 10,
        "{stored:?}"
    );
    copy.truncate(base.as_ref());
    copy.settle();
    copy.check_sound();
    assert_eq!(copy.open(), Vec::<String>::new());
    assert!(
        base.unwrap()
            .contents
            .same_as(&copy.newest.as_ref().unwrap().contents)
    );
    for turn in 61..=120 {
        let candidate = bulky(copy.newest.as_ref(), turn);
        copy.give(Journal::parcel_of(&candidate, 2, attached(u64::from(turn))))
            .unwrap();
        copy.announce();
        copy.journal().idle();
    }
    copy.settle();
    copy.check_sound();
    let stored = copy.journal().zones()[&apex()].clone();
    assert!(
        stored.head.base.seq > 10 && stored.head.base.snapshot,
        "{stored:?}"
    );
    // What was noted with versions goes with them.
    let oldest = stored.head.oldest;
    let notes = copy.entries();
    let notes = notes.iter().filter(|(key, _)| key[0] == REPLICA);
    let seqs = notes.filter_map(|(key, _)| codec::seq_of(key));
    assert!(seqs.filter(|seq| *seq > 0).all(|seq| seq >= oldest));
    assert_eq!(MANY.iter().filter(|kind| **kind == REPLICA).count(), 1);
}

/// What a peer can send, as a fuzz target: the kind, then a payload without its checksum.
struct Peer {
    copy: Copy,
    candidate: Candidate,
    tip: Tip,
    snapshot: Tip,
    seeds: Vec<Vec<u8>>,
}

impl Peer {
    fn new() -> Self {
        let (mut copy, candidate) = subject();
        let mut seeds = Vec::new();
        let mut add = |kind: u8, payload: &[u8]| {
            seeds.push([&[kind], &payload[..payload.len() - 4]].concat());
        };
        let (tip, _, _, last) = payloads(Journal::parcel_of(&candidate, 3, attached(1)));
        add(0, &last);
        let sending = copy.journal().sending(&apex(), &[], 1).unwrap().unwrap();
        let Sending::Snapshot(parcel) = sending else {
            panic!("there is nothing to continue from");
        };
        let (snapshot, _, parts, last) = payloads(*parcel);
        parts.iter().for_each(|part| add(1, part));
        add(2, &last);
        let bulky = bulky(copy.newest.as_ref(), 1000);
        let step = Step {
            removed: bulky.step().added.clone(),
            ..(**bulky.step()).clone()
        };
        for list in [&step.removed, &step.added] {
            let mut part = vec![1, 4];
            step::put_list(list, &mut |octets| part.extend_from_slice(octets));
            part.truncate(3000);
            part.extend([0; 4]);
            add(1, &part);
        }
        Self {
            copy,
            candidate,
            tip,
            snapshot,
            seeds,
        }
    }

    fn give(&self, input: &[u8]) -> ::fuzz::Outcome {
        let [kind, body @ ..] = input else {
            return Ok("short".to_owned());
        };
        let sum = crc32fast::hash(body).to_be_bytes();
        let octets = [body, &sum].concat();
        let outcome = match kind % 3 {
            0 => open(&self.copy, &self.tip, &octets).map(|opened| {
                assert!(same(Some(self.candidate.version()), Some(opened.version())));
                "the step"
            }),
            1 => {
                let mut staged = Staged::default();
                let taken = staged.take(&octets);
                taken.map(|()| "a part").map_err(OpenStepError::from)
            }
            _ => {
                let payload = (Staged::default(), &octets[..]);
                let opened = Journal::open_snapshot(&apex(), &self.snapshot, payload, UNLIMITED);
                opened.map(|opened| {
                    let link = opened.version().link.unwrap();
                    assert_eq!(link.hash, self.snapshot.hash);
                    "the snapshot"
                })
            }
        };
        Ok(outcome.map_or_else(|error| error.to_string(), str::to_owned))
    }
}

#[test]
fn payloads_of_any_octets_lead_to_the_version_that_they_name_or_nowhere() {
    let peer = Peer::new();
    ::fuzz::Fuzz::new(peer.seeds.clone(), &[]).run("payload of a peer", |input| peer.give(input));
}

/// The search itself: a fault that only a payload with a right checksum reaches.
#[test]
fn a_fault_planted_behind_a_payload_is_found() {
    let peer = Peer::new();
    let planted = |input: &[u8]| {
        let outcome = peer.give(input)?;
        assert!(!outcome.contains("another version"), "planted");
        Ok(outcome)
    };
    ::fuzz::Fuzz::new(peer.seeds.clone(), &[]).finds("payload of a peer", planted);
}

#[test]
fn a_mark_ahead_of_what_damage_left_covers_no_later_version() {
    let (mut copy, _) = subject();
    copy.announce();
    let last = copy.newest.clone().unwrap().seq;
    let id = copy.journal().zones()[&apex()].id;
    let mut batch = Batch::default();
    batch.put(&codec::part_key(STEP, id, last, 0), vec![0; 9]);
    copy.journal().store.write(batch).unwrap();
    assert_eq!(copy.open().len(), 1);
    assert_eq!(copy.tips().0.map(|tip| tip.seq), Some(last - 1));
    let candidate = bulky_at(copy.newest.as_ref(), 1, Serial::decode(9000));
    let parcel = Journal::parcel_of(&candidate, 2, Attached::default());
    copy.give(parcel).unwrap();
    copy.open();
    let (announced, later) = copy.tips();
    assert_eq!(announced.map(|tip| tip.seq), Some(last - 1));
    assert_eq!(later.iter().map(|tip| tip.seq).collect::<Vec<_>>(), [last]);
}

#[test]
fn steps_of_several_versions_share_a_sync_and_a_mark_needs_none() {
    let (mut copy, candidate) = subject();
    let mut newest = copy.newest.clone();
    let mut opened = Vec::new();
    for turn in 0..3 {
        let made = match turn {
            0 => Journal::parcel_of(&candidate, 1, attached(1)),
            _ => {
                let next = bulky_at(newest.as_ref(), turn, Serial::decode(2000 + turn));
                Journal::parcel_of(&next, 1, attached(1))
            }
        };
        let (tip, _, _, last) = payloads(made);
        let payload = (Staged::default(), &last[..]);
        let next = Journal::open_step(&apex(), newest.as_ref(), &tip, payload, UNLIMITED);
        let next = next.unwrap();
        newest = Some(next.version().clone());
        opened.push(next);
    }
    let before = copy.journal().store.syncs();
    let done = copy.journal().commit_opened(opened, Some(b"vow")).unwrap();
    assert_eq!((done.len(), copy.journal().store.syncs() - before), (3, 1));
    copy.newest = newest;
    copy.announce();
    assert_eq!(copy.journal().store.syncs() - before, 1);
    let acts = copy.journal().reader().acts(&apex(), 0).unwrap();
    assert_eq!(acts.faults, Vec::<String>::new());
}

/// Replicas cost nothing where there are none.
#[test]
fn a_commit_without_replicas_writes_nothing_for_them() {
    let mut bench = Bench::new();
    let history = laws::fixed_history(3);
    bench.commit(&history[0]);
    let (syncs, keys) = (
        bench.journal().store.syncs(),
        bench.journal().store.keys_written(),
    );
    let candidate = bulky_at(bench.version.as_ref(), 1, Serial::decode(5000));
    let step = Arc::clone(candidate.step());
    bench.put(candidate);
    let journal = bench.journal();
    assert_eq!(journal.store.syncs() - syncs, 1);
    let mut parts = codec::PartWriter::new(STEP, 0, step.seq);
    let mut entries = Vec::new();
    let contents = laws::empty();
    step::write_step(&step, &contents, &mut parts, |parts, octets, begins| {
        if begins {
            parts.begin(octets.len(), &mut entries);
        }
        parts.push(octets, &mut entries);
    });
    parts.finish(&mut entries);
    // Its parts and its index entries, the head and the name.
    let expected = entries.len() + index::keys_of(&step, 0).len() + 2;
    assert_eq!(journal.store.keys_written() - keys, expected);
    assert_eq!(bench.journal().kept().unwrap(), None);
    let store = &bench.journal().store;
    let all = store.range(&[REPLICA], &[REPLICA + 1], usize::MAX);
    assert_eq!(all.unwrap().len(), 0);
}
