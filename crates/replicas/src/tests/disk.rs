//! A disk with a journal: orders are carried out one after the other, and what is not synced may be lost.

use dns::Name;

use std::collections::{BTreeMap, VecDeque};

use crate::chain::{Chain, Chains, Snapshot, Tip};
use crate::knowledge::Vow;
use crate::leader::{Fetch, Fetched};
use crate::store::{Order, Refusal};
use crate::tests::content::{Stored, decode, encode};

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

    /// Applies an order to what is durable.
    fn apply(&mut self, order: &Order) -> Result<Result<(), Refusal>, String> {
        match order {
            Order::Keep(vow) => self.folder.vow = vow.clone(),
            Order::Append(step) => {
                let file = self.folder.zones.entry(step.zone.clone()).or_default();
                if !step.follows(&file.newest()) {
                    return Err(format!("{step:?} does not follow {:?}", file.newest()));
                }
                let stored = Stored::of_step(step);
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
                let versions = decode(&snapshot.payload);
                if !versions.iter().all(Stored::is_sound) {
                    self.has_failed = true;
                    return Ok(Err(Refusal::WrongHash));
                }
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

    /// Reads the journal for a follower.
    pub(super) fn fetch(&self, fetch: &Fetch) -> Option<Fetched> {
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
        let mut steps = Vec::new();
        for stored in &file.versions[place..] {
            let step = stored.step(&fetch.zone);
            if !steps.is_empty() && step.payload.len() > room {
                break;
            }
            room = room.saturating_sub(step.payload.len());
            steps.push(step);
        }
        Some(Fetched::Steps { from, steps })
    }
}
