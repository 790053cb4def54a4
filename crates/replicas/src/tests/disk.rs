//! A disk with a journal: orders are carried out one after the other, and what is not synced may be lost.

use dns::Name;

use std::collections::{BTreeMap, VecDeque};

use crate::chain::{Chain, Chains, Part, Snapshot, Step, Tip};
use crate::frame::LinkId;
use crate::knowledge::Vow;
use crate::leader::{Fetch, Fetched};
use crate::store::{Order, Refusal};
use crate::tests::content::{Stored, decode, encode};

/// A larger payload comes in parts of so many bytes.
const PART_BYTES: usize = 500;

/// A zone on disk.
#[derive(Debug, Clone, Default)]
pub(super) struct ZoneFile {
    /// All versions, in order.
    pub(super) versions: Vec<Stored>,
    /// How many of them are announced, as far as the mark on disk says.
    pub(super) announced: u64,
}

/// What survives a crash.
#[derive(Debug, Clone, Default)]
pub(super) struct Folder {
    /// The vow.
    pub(super) vow: Vow,
    /// The zones.
    pub(super) zones: BTreeMap<Name, ZoneFile>,
}

/// A disk.
#[derive(Debug, Default)]
pub(super) struct Disk {
    /// What is durable.
    pub(super) folder: Folder,
    /// Orders that are not durable yet.
    pub(super) pending: VecDeque<Order>,
    /// Marks that are written but not synced.
    marks: BTreeMap<Name, u64>,
    /// The parts of versions that are not there yet: the version, the number of the next part, and the bytes so far.
    staged: BTreeMap<Name, (Tip, u32, Vec<u8>)>,
    /// What is being sent of each zone on each link.
    outgoing: BTreeMap<(LinkId, Name), Fetched>,
    /// Whether it is full.
    pub(super) is_full: bool,
    /// Until when.
    pub(super) full_until: u64,
    /// Whether the next sync fails.
    pub(super) fails: bool,
    /// Whether an order failed since the journal was opened.
    has_failed: bool,
}

impl ZoneFile {
    /// The place of a version, counted from 1; 0 for the time before the first.
    pub(super) fn place(&self, tip: &Tip) -> Option<usize> {
        if tip.seq == 0 {
            return Some(0);
        }
        let at = |(place, it): (usize, &Stored)| (it.tip == *tip).then_some(place + 1);
        // Versions are dense, but a snapshot may begin later.
        self.versions.iter().enumerate().rev().find_map(at)
    }

    /// The newest version.
    pub(super) fn newest(&self) -> Tip {
        self.versions.last().map_or(Tip::NONE, |it| it.tip)
    }
}

impl Disk {
    /// What a replica starts with.
    pub(super) fn open(&mut self, zones: &[Name]) -> (Chains, Vow) {
        self.pending.clear();
        self.marks.clear();
        self.staged.clear();
        self.outgoing.clear();
        self.has_failed = false;
        let chain = |zone: &Name| {
            let file = self.folder.zones.get(zone).cloned().unwrap_or_default();
            let tips: Vec<Tip> = file.versions.iter().map(|it| it.tip).collect();
            let at = tips.iter().position(|it| it.seq == file.announced);
            let announced = at.map_or(Tip::NONE, |at| tips[at]);
            let later = tips[at.map_or(0, |at| at + 1)..].to_vec();
            (zone.clone(), Chain::new(announced, later))
        };
        (zones.iter().map(chain).collect(), self.folder.vow.clone())
    }

    /// Marks a version as announced, without a sync.
    pub(super) fn mark(&mut self, zone: &Name, tip: &Tip) {
        self.marks.insert(zone.clone(), tip.seq);
    }

    /// Carries out the oldest order; an error of the contract is text.
    pub(super) fn carry_out(&mut self) -> Result<Result<(), Refusal>, String> {
        let order = self.pending.pop_front().expect("an order is due");
        if self.is_full {
            self.has_failed = true;
            return Ok(Err(Refusal::Store));
        }
        let result = self.apply(&order);
        for (zone, seq) in std::mem::take(&mut self.marks) {
            if let Some(file) = self.folder.zones.get_mut(&zone) {
                file.announced = file.announced.max(seq.min(file.newest().seq));
            }
        }
        match result {
            Ok(done) => Ok(done),
            Err(_) if self.has_failed => Ok(Err(Refusal::Store)),
            Err(error) => Err(error),
        }
    }

    /// Takes a part; says whether it is the next one.
    fn stage(&mut self, part: &Part) -> bool {
        let (tip, next, bytes) = (part.tip, part.number, part.payload.to_vec());
        if next == 0 {
            self.staged.insert(part.zone.clone(), (tip, 1, bytes));
            return true;
        }
        let staged = self.staged.get_mut(&part.zone);
        let Some(staged) = staged.filter(|it| it.0 == tip && it.1 == next) else {
            return false;
        };
        staged.1 += 1;
        staged.2.extend(bytes);
        true
    }

    /// A payload with its parts.
    fn whole(&mut self, zone: &Name, tip: &Tip, payload: &[u8]) -> Vec<u8> {
        let staged = self.staged.remove(zone).filter(|it| it.0 == *tip);
        let mut whole = staged.map_or_else(Vec::new, |it| it.2);
        whole.extend(payload);
        whole
    }

    /// Applies an order to what is durable.
    fn apply(&mut self, order: &Order) -> Result<Result<(), Refusal>, String> {
        match order {
            Order::Keep(vow) => self.folder.vow = vow.clone(),
            Order::Stage(part) => {
                if !self.stage(part) {
                    return Err(format!("{part:?} does not follow the part before it"));
                }
            }
            Order::Append(step) => {
                let whole = self.whole(&step.zone, &step.tip, &step.payload);
                let file = self.folder.zones.entry(step.zone.clone()).or_default();
                if !step.follows(&file.newest()) {
                    return Err(format!("{step:?} does not follow {:?}", file.newest()));
                }
                let payload = whole.into();
                let stored = Stored::of_step(&Step {
                    payload,
                    ..step.clone()
                });
                if !stored.is_sound() {
                    self.has_failed = true;
                    return Ok(Err(Refusal::WrongHash));
                }
                file.versions.push(stored);
            }
            Order::Truncate(zone, tip) => {
                let file = self.folder.zones.entry(zone.clone()).or_default();
                let Some(place) = file.place(tip) else {
                    return Err(format!("{tip:?} is not there to be cut after"));
                };
                file.versions.truncate(place);
                file.announced = file.announced.min(tip.seq);
            }
            Order::Replace(snapshot) => {
                let whole = self.whole(&snapshot.zone, &snapshot.tip, &snapshot.payload);
                let versions = decode(&whole).filter(|all| all.iter().all(Stored::is_sound));
                let Some(versions) = versions else {
                    self.has_failed = true;
                    return Ok(Err(Refusal::WrongHash));
                };
                let announced = 0;
                let file = ZoneFile {
                    versions,
                    announced,
                };
                self.marks.remove(&snapshot.zone);
                self.folder.zones.insert(snapshot.zone.clone(), file);
            }
        }
        Ok(Ok(()))
    }

    /// The power or the process is gone: of what was not synced a part may be there.
    pub(super) fn crash(&mut self, random: &mut fastrand::Rng) {
        let survive = random.usize(..=self.pending.len());
        for _ in 0..survive {
            if self.is_full || self.carry_out().is_err() {
                break;
            }
        }
        self.pending.clear();
        self.marks.clear();
    }

    /// Reads the journal for a follower, or continues with what it gets.
    pub(super) fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched> {
        let place = (fetch.link, fetch.zone.clone());
        let known = self.outgoing.get(&place).filter(|_| fetch.parts > 0);
        if let Some(whole) = known.cloned() {
            return Some(cut(whole, fetch.parts, fetch.max_bytes));
        }
        let whole = self.read(fetch)?;
        self.outgoing.insert(place, whole.clone());
        Some(cut(whole, 0, fetch.max_bytes))
    }

    /// Reads what comes next for a follower: a large payload alone.
    fn read(&self, fetch: &Fetch) -> Option<Fetched> {
        let file = self.folder.zones.get(&fetch.zone)?;
        let places = fetch.known.iter().rev().map(|tip| (tip, file.place(tip)));
        let from = places
            .into_iter()
            .find_map(|(tip, at)| at.map(|at| (*tip, at)));
        let Some((from, place)) = from else {
            return Some(Fetched::Snapshot(Snapshot {
                zone: fetch.zone.clone(),
                tip: file.newest(),
                payload: encode(&file.versions),
            }));
        };
        let mut room = fetch.max_bytes;
        let mut steps: Vec<Step> = Vec::new();
        for stored in &file.versions[place..] {
            let step = stored.step(&fetch.zone);
            let is_large = step.payload.len() > PART_BYTES;
            if !steps.is_empty() && (step.payload.len() > room || is_large) {
                break;
            }
            room = room.saturating_sub(step.payload.len());
            steps.push(step);
            if is_large {
                break;
            }
        }
        Some(Fetched::Steps { from, steps })
    }
}

/// The next parts of a large payload, or the rest of it with what it belongs to when all parts were sent.
fn cut(whole: Fetched, sent: u32, max_bytes: usize) -> Fetched {
    let (zone, tip, payload) = match &whole {
        Fetched::Steps { steps, .. } => match steps.first() {
            Some(step) => (&step.zone, step.tip, &step.payload),
            None => return whole,
        },
        Fetched::Snapshot(snapshot) => (&snapshot.zone, snapshot.tip, &snapshot.payload),
        Fetched::Parts(_) => return whole,
    };
    let chunks: Vec<&[u8]> = payload.chunks(PART_BYTES).collect();
    let (last, parts) = chunks.split_last().expect("a payload has bytes");
    let first = usize::try_from(sent).expect("a payload has few parts");
    let most = (max_bytes / PART_BYTES).max(1);
    let parts = parts.iter().zip(0..).skip(first).take(most);
    let parts: Vec<Part> = parts
        .map(|(chunk, number)| Part {
            zone: zone.clone(),
            tip,
            number,
            payload: (*chunk).into(),
        })
        .collect();
    if !parts.is_empty() {
        return Fetched::Parts(parts);
    }
    let rest = (*last).into();
    match whole {
        Fetched::Steps { from, mut steps } => {
            steps[0].payload = rest;
            Fetched::Steps { from, steps }
        }
        Fetched::Snapshot(mut snapshot) => {
            snapshot.payload = rest;
            Fetched::Snapshot(snapshot)
        }
        Fetched::Parts(_) => whole,
    }
}
