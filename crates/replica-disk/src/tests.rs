//! Two replicas with journals in folders of their own, and links that are function calls.

mod commits;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dns::testing::{name, soa};
use dns::{Name, Rdata, Rtype, Serial, Ttl};
use proptest::prelude::*;
use replicas::chain::{Chains, Epoch, Part, ReplicaId, Step, Tip};
use replicas::fixed::FixedRole;
use replicas::knowledge::Vow;
use replicas::leader::{Fetch, Fetched};
use replicas::replica::{Action, Event, Replica};
use replicas::settings::{Now, Settings};
use replicas::store::{Order, Refusal};
use tempfile::TempDir;
use zone::journal::{Act, Attached, Journal, Portion, WallClock};
use zone::{Candidate, Contents, Edit, MemoryLimits, Node, Version};

use crate::disk::{Disk, Found};
use crate::kept::Kept;
use crate::tips::tip_of;

/// All history in memory.
const LIMITS: MemoryLimits = MemoryLimits {
    steps: 1000,
    octets: 1 << 26,
};

fn apex() -> Name {
    name("z.example.")
}

fn clock() -> WallClock {
    Arc::new(|| 5_000_000)
}

/// Opens the journal of a folder.
fn open(dir: &TempDir) -> (Disk, Found) {
    let (journal, report) = Journal::open(dir.path(), clock()).unwrap();
    assert_eq!(report.notes, Vec::<String>::new());
    let draw = || format!("{:?}", dir.path());
    Disk::open(journal, &[apex()], LIMITS, false, draw).unwrap()
}

/// A version with so many texts that differ by the turn.
fn candidate(previous: Option<&Version>, serial: Serial, turn: u32, texts: u32) -> Candidate {
    let apex = apex();
    let empty = Contents::empty(&apex, soa(&apex, 60));
    let mut edit = Edit::new(previous.map_or(&empty, |version| &version.contents));
    for place in 0..texts.max(1) {
        let owner = name(&format!("n{place}.z.example."));
        let text = format!("{turn} {}", "x".repeat(200));
        let mut records = vec![(Rtype::TXT, Ttl::ZERO, Rdata::txt(&text))];
        edit.set(Node::build(&owner, &apex, &mut records).unwrap(), 0);
    }
    let time_ms = 5_000_000 + u64::from(turn);
    Candidate::new(previous, edit.finish(), serial, time_ms, Vec::new(), LIMITS)
}

fn act(turn: u32) -> Act {
    Act {
        number: 0,
        time_ms: u64::from(turn),
        what: "frozen".into(),
        by: "someone".into(),
        about: format!("{turn}"),
        serial: 1,
        seq: Some(1),
        until_ms: None,
    }
}

/// A host: its folder, its journal, its replica, and the newest version that it made.
struct Host {
    dir: TempDir,
    disk: Option<Disk>,
    replica: Replica,
    newest: Option<Version>,
    /// The versions that it showed.
    shown: Vec<u64>,
}

impl Host {
    fn new(dir: TempDir, role: &FixedRole) -> Self {
        let (disk, found) = open(&dir);
        Self {
            dir,
            disk: Some(disk),
            newest: found.announced.first().cloned(),
            replica: replica(found, role),
            shown: Vec::new(),
        }
    }

    fn disk(&mut self) -> &mut Disk {
        self.disk.as_mut().unwrap()
    }

    /// What a reader sees: steps and acts.
    fn history(&mut self) -> (Vec<zone::Step>, Vec<Act>) {
        let reader = self.disk().journal().reader();
        let steps = reader.steps(&apex(), 0..=u64::MAX).unwrap();
        let steps = steps.iter().map(|step| (**step).clone()).collect();
        (steps, reader.acts(&apex(), 0).unwrap().all)
    }

    fn check_sound(&mut self) {
        let verdict = self.disk().journal().reader().verify(&apex(), &[]).unwrap();
        assert_eq!(verdict.faults, []);
    }
}

fn replica(found: Found, role: &FixedRole) -> Replica {
    let settings = Settings {
        window_bytes: 1 << 16,
        ..Settings::default()
    };
    let Found { kept, chains, .. } = found;
    let id = ReplicaId::from(&*kept.folder);
    Replica::new(id, String::new(), chains, kept.vow, settings).with_fixed_role(role.clone())
}

/// A primary and a follower.
struct Pair {
    hosts: [Host; 2],
    time: u64,
    link: u64,
    due: VecDeque<(usize, Event)>,
    /// Orders that are not carried out yet.
    orders: [Vec<Order>; 2],
    /// The largest payload on a link.
    largest: usize,
}

fn roles() -> [FixedRole; 2] {
    [FixedRole::Primary, FixedRole::Follow("primary".to_owned())]
}

impl Pair {
    fn new() -> Self {
        let hosts = roles().map(|role| Host::new(TempDir::new().unwrap(), &role));
        Self {
            hosts,
            time: 10_000,
            link: 0,
            due: VecDeque::new(),
            orders: [Vec::new(), Vec::new()],
            largest: 0,
        }
    }

    fn now(&self) -> Now {
        Now {
            boot: Duration::from_millis(self.time),
            wall: 5000,
            random: 0,
        }
    }

    /// Gives an event, and everything that follows from it.
    fn give(&mut self, to: usize, event: Event) {
        self.due.push_back((to, event));
        loop {
            while let Some((to, event)) = self.due.pop_front() {
                let now = self.now();
                for action in self.hosts[to].replica.step(event, now) {
                    self.act(to, action);
                }
            }
            for host in [0, 1] {
                let orders = std::mem::take(&mut self.orders[host]);
                let results = self.hosts[host].disk().carry_out(orders).unwrap();
                self.due
                    .extend(results.into_iter().map(|it| (host, Event::Ordered(it))));
            }
            if self.due.is_empty() {
                return;
            }
        }
    }

    fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds / 100 {
            self.time += 100;
            self.give(0, Event::Tick);
            self.give(1, Event::Tick);
        }
    }

    fn act(&mut self, host: usize, action: Action) {
        let mut due = |to, event| self.due.push_back((to, event));
        match action {
            Action::Connect(_) => {
                self.link += 1;
                due(host, Event::Connected(self.link));
            }
            Action::Send(link, frame) => {
                self.largest = self.largest.max(frame.body.payload_bytes());
                due(1 - host, Event::Frame(link, frame));
            }
            Action::Close(link) => due(1 - host, Event::Closed(Some(link))),
            Action::Order(order) => self.orders[host].push(order),
            Action::Fetch(fetch) => match self.hosts[host].disk().fetch(&fetch) {
                Some(fetched) => due(host, Event::Fetched(fetch.link, fetch.zone, fetched)),
                None => due(host, Event::Closed(Some(fetch.link))),
            },
            Action::Greet(token, ..) => due(
                host,
                Event::Greeted {
                    token,
                    answers: Vec::new(),
                    is_complete: true,
                },
            ),
            Action::Prove(epoch) => due(host, Event::Proven(epoch, BTreeMap::new())),
            Action::Show(zone, tip) => {
                let shown = self.hosts[host].disk().show(&zone, &tip);
                let shown = shown.iter().map(|it| it.version().seq);
                let shown: Vec<u64> = shown.collect();
                self.hosts[host].shown.extend(shown);
            }
            Action::Lease(..) => panic!("there is no API server"),
            Action::Notify(..)
            | Action::Answer(..)
            | Action::Lead { .. }
            | Action::Declined(_)
            | Action::Stop(_) => {}
        }
    }

    /// The primary makes a version with so many records.
    fn make(&mut self, turn: u32, texts: u32) {
        let now = self.now();
        let mut permit = self.hosts[0].replica.permit(&apex(), now);
        if permit.is_err() {
            self.pass(2500);
            permit = self.hosts[0].replica.permit(&apex(), self.now());
        }
        let permit = permit.expect("the primary leads");
        let host = &mut self.hosts[0];
        let candidate = candidate(host.newest.as_ref(), permit.serial, turn, texts);
        let attached = Attached {
            acts: vec![act(turn)],
            corefile: None,
            state: turn.to_be_bytes().to_vec(),
        };
        host.newest = Some(candidate.version().clone());
        let (parts, step) = proposal(&candidate, permit.epoch, attached);
        for part in parts {
            host.disk().prepare(&part).unwrap();
        }
        self.give(0, Event::Propose(step));
    }

    /// A process ends and starts again.
    fn restart(&mut self, host: usize) {
        self.due.clear();
        self.hosts[host].disk = None;
        let (disk, found) = open(&self.hosts[host].dir);
        self.hosts[host].disk = Some(disk);
        self.hosts[host].replica = replica(found, &roles()[host]);
        let (other, link) = (1 - host, self.link);
        self.give(other, Event::Closed(Some(link)));
    }
}

/// The parts of a version and the step after them.
fn proposal(candidate: &Candidate, epoch: Epoch, attached: Attached) -> (Vec<Part>, Step) {
    let mut parcel = Journal::parcel_of(candidate, epoch.0, attached);
    let (zone, tip) = (apex(), tip_of(parcel.tip()));
    let mut parts = Vec::new();
    for number in 0.. {
        match parcel.next_portion() {
            Portion::Part(payload) => parts.push(Part {
                zone: zone.clone(),
                tip,
                number,
                payload: payload.into(),
            }),
            Portion::Last(payload) => {
                let step = Step {
                    zone,
                    tip,
                    previous: *parcel.previous().as_octets(),
                    payload: payload.into(),
                };
                return (parts, step);
            }
        }
    }
    unreachable!("a parcel ends")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn a_follower_has_the_history_of_its_leader_whatever_ends(
        turns in prop::collection::vec((1..40_u32, 0..4_u8), 1..8), last in any::<bool>(),
    ) {
        let mut pair = Pair::new();
        pair.pass(3000);
        for (turn, (texts, end)) in (1..).zip(&turns) {
            // A first version of more than a part.
            let texts = if turn == 1 && last { 6000 } else { *texts };
            pair.make(turn, texts);
            match end {
                1 => pair.restart(1),
                2 => pair.restart(0),
                3 => {
                    let link = pair.link;
                    pair.give(0, Event::Closed(Some(link)));
                    pair.give(1, Event::Closed(Some(link)));
                }
                _ => {}
            }
            pair.pass(6000);
        }
        let [leader, follower] = &mut pair.hosts;
        let newest = leader.newest.as_ref().map(|version| version.seq);
        let history = leader.history();
        prop_assert_eq!(history.0.last().map(|step| step.seq), newest);
        prop_assert_eq!(history.1.len(), turns.len());
        prop_assert!(history == follower.history());
        leader.check_sound();
        follower.check_sound();
        prop_assert_eq!(
            leader.disk().journal().state_of(&apex()).unwrap(),
            follower.disk().journal().state_of(&apex()).unwrap()
        );
        prop_assert!(pair.largest < 1 << 20, "{}", pair.largest);
    }
}

/// A disk with a version that is announced and one that is not.
fn subject() -> (TempDir, Disk, Vec<Tip>) {
    let dir = TempDir::new().unwrap();
    let (mut disk, found) = open(&dir);
    assert_eq!(found.chains[&apex()].tips(), [Tip::NONE]);
    let mut tips = Vec::new();
    let mut newest = None;
    let mut orders = Vec::new();
    for turn in 1..=2 {
        let made = candidate(newest.as_ref(), Serial::decode(turn), turn, 3);
        newest = Some(made.version().clone());
        let (_, step) = proposal(&made, Epoch(1), Attached::default());
        tips.push(step.tip);
        orders.push(Order::Append(step));
    }
    let vow = Vow {
        epoch: Epoch(1),
        ..Vow::default()
    };
    orders.push(Order::Keep(vow));
    assert_eq!(disk.carry_out(orders).unwrap(), [Ok(()), Ok(()), Ok(())]);
    assert_eq!(disk.show(&apex(), &tips[0]).len(), 1);
    (dir, disk, tips)
}

fn chains_of(dir: &TempDir) -> (Chains, Vow) {
    let (_, found) = open(dir);
    (found.chains, found.kept.vow)
}

#[test]
fn what_was_ordered_is_there_after_a_restart() {
    let (dir, mut disk, tips) = subject();
    // The next sync brings the mark along.
    assert!(disk.try_again().unwrap());
    drop(disk);
    let (chains, vow) = chains_of(&dir);
    let chain = &chains[&apex()];
    assert_eq!(
        (chain.announced(), chain.unannounced()),
        (&tips[0], &tips[1..])
    );
    assert_eq!(vow.epoch, Epoch(1));
}

#[test]
fn an_order_that_does_not_fit_is_refused_and_the_others_are_carried_out() {
    let (dir, mut disk, tips) = subject();
    let newest = disk.fetch(&fetch(&[], 0)).unwrap();
    let Fetched::Snapshot(snapshot) = newest else {
        panic!("a replica without a version gets a snapshot: {newest:?}");
    };
    assert_eq!(snapshot.tip, tips[0]);
    let mut wrong = snapshot.clone();
    wrong.tip.hash[0] ^= 1;
    let unknown = Tip { seq: 7, ..tips[1] };
    let orders = vec![
        Order::Replace(wrong),
        Order::Truncate(apex(), unknown),
        Order::Truncate(apex(), Tip::NONE),
        Order::Truncate(apex(), tips[0]),
    ];
    let refused = Err(Refusal::WrongHash);
    assert_eq!(
        disk.carry_out(orders).unwrap(),
        [refused, refused, refused, Ok(())]
    );
    drop(disk);
    assert_eq!(chains_of(&dir).0[&apex()].tips(), [tips[0]]);
    let (mut disk, _) = open(&dir);
    assert_eq!(
        disk.carry_out(vec![Order::Replace(snapshot)]).unwrap(),
        [Ok(())]
    );
    drop(disk);
    assert_eq!(chains_of(&dir).0[&apex()].tips(), [Tip::NONE, tips[0]]);
}

/// A read for a follower that has these versions.
fn fetch(known: &[Tip], parts: u32) -> Fetch {
    Fetch {
        link: 1,
        zone: apex(),
        known: known.to_vec(),
        parts,
        max_bytes: 1,
    }
}

#[test]
fn a_part_that_is_not_the_next_one_is_refused() {
    let dir = TempDir::new().unwrap();
    let (mut disk, _) = open(&dir);
    let made = candidate(None, Serial::decode(1), 1, 6000);
    let (parts, step) = proposal(&made, Epoch(1), Attached::default());
    assert!(parts.len() > 2, "{}", parts.len());
    let stage = |place: usize| Order::Stage(parts[place].clone());
    let refused = Err(Refusal::WrongHash);
    let orders = vec![
        stage(1),
        stage(0),
        stage(0),
        stage(2),
        Order::Append(step.clone()),
    ];
    let results = disk.carry_out(orders).unwrap();
    assert_eq!(results, [refused, Ok(()), Ok(()), refused, refused]);
    let mut orders: Vec<Order> = parts.iter().cloned().map(Order::Stage).collect();
    orders.push(Order::Append(step.clone()));
    assert!(disk.carry_out(orders).unwrap().iter().all(Result::is_ok));
    drop(disk);
    assert_eq!(chains_of(&dir).0[&apex()].tips(), [Tip::NONE, step.tip]);
}

#[test]
fn a_folder_keeps_its_id_and_a_copy_gets_another() {
    let dir = TempDir::new().unwrap();
    let opened = |is_copy, id: &str| {
        let (journal, _) = Journal::open(dir.path(), clock()).unwrap();
        let draw = || id.to_owned();
        let (_, found) = Disk::open(journal, &[], LIMITS, is_copy, draw).unwrap();
        found.kept.folder
    };
    assert_eq!(opened(false, "a"), "a");
    assert_eq!(opened(false, "b"), "a");
    assert_eq!(opened(true, "c"), "c");
    assert_eq!(opened(false, "d"), "c");
}

#[test]
fn what_is_kept_is_read_as_it_was_written_and_damage_is_nothing() {
    let mut kept = Kept::new("folder".to_owned());
    kept.vow.epoch = Epoch(7);
    kept.vow.branch = Epoch(6);
    kept.vow.ceiling.common = Some(Serial::decode(9));
    let zone = name("far.example.");
    kept.vow
        .ceiling
        .above
        .insert(zone, Serial::decode(u32::MAX));
    let octets = kept.encode();
    assert_eq!(Kept::decode(&octets), Some(kept));
    for end in 0..octets.len() {
        assert_eq!(Kept::decode(&octets[..end]), None);
    }
    assert_eq!(Kept::decode(&[2, 0]), None);
}
