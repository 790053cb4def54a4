//! A journal in memory. What is in it survives the replica.

use dns::{Name, Serial};
use replicas::chain::{Chain, Chains, Epoch, Hash, Snapshot, Step, Tip};
use replicas::frame::{Body, Frame};
use replicas::knowledge::Vow;
use replicas::leader::{Fetch, Fetched};
use replicas::store::{Order, Refusal};
use replicas::term::Permit;
use ring::digest::{Context, SHA256};

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{Disk, DiskReader};
use crate::format::{PREFIX_BYTES, Prefix, decode_frame, encode_frame};

/// A journal. Clones are the same one.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal(Arc<Mutex<Folder>>);

/// What a journal has.
#[derive(Debug, Default)]
struct Folder {
    vow: Vow,
    zones: BTreeMap<Name, Versions>,
    is_full: bool,
    is_broken: bool,
}

/// The versions of a zone, and the place of the announced one in the chain.
#[derive(Debug, Default)]
struct Versions {
    steps: Vec<Step>,
    announced: u64,
}

/// The hash of a version.
fn hash_of(previous: &Hash, epoch: Epoch, serial: Serial, payload: &[u8]) -> Hash {
    let mut context = Context::new(&SHA256);
    context.update(previous);
    context.update(&epoch.0.to_be_bytes());
    context.update(&serial.encode().to_be_bytes());
    context.update(payload);
    context.finish().as_ref().try_into().unwrap()
}

/// The step that a permit allows, with this content.
#[must_use]
pub fn step_after(permit: &Permit, payload: &[u8]) -> Step {
    let Permit {
        zone,
        epoch,
        previous,
        serial,
    } = permit;
    let hash = hash_of(&previous.hash, *epoch, *serial, payload);
    Step {
        zone: zone.clone(),
        tip: Tip {
            epoch: *epoch,
            seq: previous.seq + 1,
            serial: *serial,
            hash,
        },
        previous: previous.hash,
        payload: payload.into(),
    }
}

/// Whether a step has the hash of its content.
fn is_sound(step: &Step) -> bool {
    let Tip {
        epoch,
        serial,
        hash,
        ..
    } = step.tip;
    hash == hash_of(&step.previous, epoch, serial, &step.payload)
}

impl Versions {
    /// How many steps there are up to a version.
    fn place(&self, tip: &Tip) -> Option<usize> {
        if tip.seq == 0 {
            return Some(0);
        }
        let place = self.steps.iter().position(|step| step.tip == *tip);
        place.map(|place| place + 1)
    }

    fn newest(&self) -> Tip {
        self.steps.last().map_or(Tip::NONE, |step| step.tip)
    }
}

impl MemoryJournal {
    /// What a replica starts with.
    #[must_use]
    pub fn open(&self, zones: &[Name]) -> (Chains, Vow) {
        let folder = self.folder();
        let chain = |zone: &Name| {
            let mut announced = Tip::NONE;
            let mut later = Vec::new();
            for step in folder.zones.get(zone).into_iter().flat_map(|it| &it.steps) {
                if step.tip.seq <= folder.zones[zone].announced {
                    announced = step.tip;
                } else {
                    later.push(step.tip);
                }
            }
            (zone.clone(), Chain::new(announced, later))
        };
        (zones.iter().map(chain).collect(), folder.vow.clone())
    }

    /// All versions of a zone.
    #[must_use]
    pub fn versions(&self, zone: &Name) -> Vec<Step> {
        let folder = self.folder();
        { folder.zones.get(zone) }.map_or_else(Vec::new, |it| it.steps.clone())
    }

    /// Whether it refuses all orders.
    pub fn set_full(&self, is_full: bool) {
        self.folder().is_full = is_full;
    }

    /// The next sync fails.
    pub fn break_sync(&self) {
        self.folder().is_broken = true;
    }

    fn folder(&self) -> MutexGuard<'_, Folder> {
        self.0.lock().unwrap()
    }
}

impl Folder {
    fn apply(&mut self, order: Order) -> Result<(), Refusal> {
        if self.is_full {
            return Err(Refusal::Store);
        }
        match order {
            Order::Keep(vow) => self.vow = vow,
            // Its steps and snapshots are whole.
            Order::Stage(part) => panic!("{part:?} was never sent"),
            Order::Append(step) => {
                let file = self.zones.entry(step.zone.clone()).or_default();
                if !step.follows(&file.newest()) {
                    return Err(Refusal::Store);
                }
                if !is_sound(&step) {
                    return Err(Refusal::WrongHash);
                }
                file.steps.push(step);
            }
            Order::Truncate(zone, tip) => {
                let file = self.zones.entry(zone).or_default();
                let place = file.place(&tip).ok_or(Refusal::Store)?;
                file.steps.truncate(place);
                file.announced = file.announced.min(tip.seq);
            }
            Order::Replace(snapshot) => {
                let steps = steps_of(&snapshot.payload);
                if steps.last().map(|it| it.tip) != Some(snapshot.tip)
                    || !steps.iter().all(is_sound)
                {
                    return Err(Refusal::WrongHash);
                }
                let announced = 0;
                let versions = Versions { steps, announced };
                self.zones.insert(snapshot.zone, versions);
            }
        }
        Ok(())
    }
}

/// Steps as the payload of a snapshot: as frames.
fn payload_of(steps: &[Step]) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    for step in steps {
        let body = Body::Step(step.clone());
        let epoch = step.tip.epoch;
        let encoded = encode_frame(&Frame { epoch, body }).unwrap();
        bytes.extend(encoded.start);
        bytes.extend(&*encoded.payload);
    }
    bytes.into()
}

/// The steps in the payload of a snapshot.
fn steps_of(mut bytes: &[u8]) -> Vec<Step> {
    let mut steps = Vec::new();
    while let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() {
        let prefix = Prefix::decode(*prefix).unwrap();
        let (head, rest) = rest.split_at(prefix.head_bytes);
        let (payload, rest) = rest.split_at(prefix.payload_bytes);
        let frame = decode_frame(head, payload.into()).unwrap();
        if let Body::Step(step) = frame.body {
            steps.push(step);
        }
        bytes = rest;
    }
    steps
}

impl Disk for MemoryJournal {
    fn carry_out(&mut self, orders: Vec<Order>) -> io::Result<Vec<Result<(), Refusal>>> {
        let mut folder = self.folder();
        if folder.is_broken {
            return Err(io::Error::other("the sync failed"));
        }
        Ok(orders.into_iter().map(|it| folder.apply(it)).collect())
    }

    fn mark(&mut self, zone: &Name, tip: &Tip) {
        if let Some(file) = self.folder().zones.get_mut(zone) {
            file.announced = file.announced.max(tip.seq);
        }
    }

    fn probe(&mut self) -> bool {
        !self.folder().is_full
    }
}

impl DiskReader for MemoryJournal {
    fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched> {
        let folder = self.folder();
        let file = folder.zones.get(&fetch.zone)?;
        let known = fetch.known.iter().rev();
        let found = known.filter_map(|tip| file.place(tip).map(|place| (*tip, place)));
        let Some((from, place)) = found.take(1).next() else {
            return Some(Fetched::Snapshot(Snapshot {
                zone: fetch.zone.clone(),
                tip: file.newest(),
                payload: payload_of(&file.steps),
            }));
        };
        let mut room = fetch.max_bytes;
        let mut steps: Vec<Step> = Vec::new();
        for step in &file.steps[place..] {
            if !steps.is_empty() && step.payload.len() > room {
                break;
            }
            room = room.saturating_sub(step.payload.len());
            steps.push(step.clone());
        }
        Some(Fetched::Steps { from, steps })
    }
}
