//! Acts: what people, the clock and the gate did to a zone, in order, also where no version followed.
//!
//! Key: `e`, the zone's name in wire form, the act's number (8). A value is the hash of the act before, or of the zone's name
//! in wire form for the first, and the act. The hash of an act is the SHA-256 of its value. So a changed act shows, and a
//! missing one between others. An act is synced when it is written. When there are too many, the oldest go.
//!
//! An act has the text of its operator, which is all that older releases wrote and read. After the act come
//! the fields of the operator and the number of the version.

use std::collections::BTreeMap;

use dns::Name;
use provenance::Operator;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::Hash;
use crate::journal::codec::{ACT, seal, unseal};
use crate::journal::reader::{ReadError, Reader};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::journal::{Journal, KeptCorefile, corefiles};

/// So many acts are kept of a zone.
pub(super) const MOST: u64 = 10_000;
/// The acts that are read at once.
const PAGE: usize = 256;

/// What was done to a zone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Act {
    /// Its number among those of its zone, from 1 on. Not looked at when it is written.
    pub number: u64,
    /// When, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// What, as one word.
    pub what: String,
    /// The operator, or the clock; nobody where the gate decided.
    pub by: Operator,
    /// What it is about, in words; may be empty.
    pub about: String,
    /// The serial that was served after it.
    pub serial: u32,
    /// The number of that version; `None` in an act of an older release.
    pub seq: Option<u64>,
    /// When it ends by itself, milliseconds since 1970 UTC.
    pub until_ms: Option<u64>,
}

/// An act as it is stored, as older releases know it.
#[derive(Serialize, Deserialize)]
struct Stored {
    time_ms: u64,
    what: String,
    /// The text of the operator.
    by: String,
    about: String,
    serial: u32,
    until_ms: Option<u64>,
}

impl Act {
    pub(super) fn to_octets(&self) -> Vec<u8> {
        let Self {
            number: _,
            time_ms,
            what,
            by,
            about,
            serial,
            seq,
            until_ms,
        } = self;
        let stored = Stored {
            time_ms: *time_ms,
            what: what.clone(),
            by: by.to_string(),
            about: about.clone(),
            serial: *serial,
            until_ms: *until_ms,
        };
        postcard::to_allocvec(&(stored, by, seq)).unwrap_or_default()
    }

    pub(super) fn read(number: u64, octets: &[u8]) -> Option<Self> {
        let (stored, rest) = postcard::take_from_bytes::<Stored>(octets).ok()?;
        let (by, seq) = match rest {
            [] => (Operator::from(&*stored.by), None),
            fields => postcard::from_bytes(fields).ok()?,
        };
        Some(Self {
            number,
            time_ms: stored.time_ms,
            what: stored.what,
            by,
            about: stored.about,
            serial: stored.serial,
            seq,
            until_ms: stored.until_ms,
        })
    }
}

/// The acts of a zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acts {
    /// Those that can be read, oldest first.
    pub all: Vec<Act>,
    /// What is wrong with the others, or with the order of them.
    pub faults: Vec<String>,
}

impl Journal {
    /// Writes and syncs acts, each with its zone, and a Corefile that is in use from now on, unless it is the one written last:
    /// all or none. Neither the times of a zone's acts nor those of the Corefiles go back.
    ///
    /// # Errors
    /// [`StoreError`] when they are not durable.
    pub fn note(
        &mut self,
        corefile: Option<&KeptCorefile>,
        acts: &[(Name, Act)],
    ) -> Result<(), StoreError> {
        self.prepare();
        let mut batch = Batch::default();
        if let Some(corefile) = corefile {
            self.put_corefile(&mut batch, corefile, corefiles::MOST)?;
        }
        self.put_acts(&mut batch, acts, MOST)?;
        if batch.keys() == 0 {
            return Ok(());
        }
        self.store.write(batch)?;
        self.store.sync()
    }

    /// Adds acts to a batch. So many are kept of a zone.
    pub(super) fn put_acts(
        &self,
        batch: &mut Batch,
        acts: &[(Name, Act)],
        most: u64,
    ) -> Result<(), StoreError> {
        let mut newest: BTreeMap<&Name, LastAct> = BTreeMap::new();
        for (apex, act) in acts {
            let last = match newest.get(apex) {
                Some(last) => *last,
                None => self.newest_act(apex)?,
            };
            let number = last.number + 1;
            let act = Act {
                time_ms: act.time_ms.max(last.time_ms),
                ..act.clone()
            };
            let key = key_of(apex, number);
            let payload = [last.hash.as_octets(), &*act.to_octets()].concat();
            let value = seal(&key, payload);
            let next = LastAct {
                number,
                time_ms: act.time_ms,
                hash: hash_of(apex, &value),
            };
            newest.insert(apex, next);
            batch.put(&key, value);
            if let Some(old) = number.checked_sub(most) {
                batch.delete(&key_of(apex, old));
            }
        }
        Ok(())
    }

    pub(super) fn newest_act(&self, apex: &Name) -> Result<LastAct, StoreError> {
        let [low, high] = range_of(apex);
        let last = self.store.range_back(&low, &high, 1)?;
        let Some((key, value)) = last.first() else {
            return Ok(LastAct {
                number: 0,
                time_ms: 0,
                hash: first_hash(apex),
            });
        };
        // The time of a damaged one is not known.
        let act = open(key, value).map(|(_, act)| act.time_ms);
        Ok(LastAct {
            number: number_of(key),
            time_ms: act.unwrap_or(0),
            hash: hash_of(apex, value),
        })
    }
}

/// The act after which the next one of a zone is written.
#[derive(Clone, Copy)]
pub(super) struct LastAct {
    pub(super) number: u64,
    time_ms: u64,
    hash: Hash,
}

/// The hash before an act, and the act; `None` if the entry is damaged.
pub(super) fn open(key: &[u8], value: &[u8]) -> Option<(Hash, Act)> {
    let (before, act) = unseal(key, value)?.split_first_chunk::<32>()?;
    Some((Hash::from_octets(*before), Act::read(number_of(key), act)?))
}

impl Reader {
    /// The acts that are kept of a zone and have a number above `after`.
    ///
    /// # Errors
    /// [`ReadError::Store`] when the database cannot be read.
    pub fn acts(&self, apex: &Name, after: u64) -> Result<Acts, ReadError> {
        Ok(read(&*self.store, apex, after)?)
    }

    /// The newest readable act of a zone for which `is_it` is true. Costs the acts after it.
    ///
    /// # Errors
    /// [`ReadError::Store`] when the database cannot be read.
    pub fn last_act(
        &self,
        apex: &Name,
        mut is_it: impl FnMut(&Act) -> bool,
    ) -> Result<Option<Act>, ReadError> {
        let [low, mut high] = range_of(apex);
        loop {
            let page = self.store.range_back(&low, &high, PAGE)?;
            let acts = page.iter().filter_map(|(key, value)| open(key, value));
            let found = acts.map(|(_, act)| act).find(|act| is_it(act));
            match page.last() {
                Some((oldest, _)) if found.is_none() => high = oldest.to_vec(),
                Some(_) | None => return Ok(found),
            }
        }
    }
}

fn read(store: &dyn Entries, apex: &Name, after: u64) -> Result<Acts, StoreError> {
    let [_, high] = range_of(apex);
    let low = key_of(apex, after + 1);
    let mut acts = Acts::default();
    let mut next: Option<(u64, Hash)> = None;
    let mut first = u64::MAX;
    for entry in paged(store, &low, &high, PAGE) {
        let (key, value) = entry?;
        let number = number_of(&key);
        let Some((before, act)) = open(&key, &value) else {
            acts.faults.push(format!("act {number} is damaged"));
            next = None;
            continue;
        };
        let expected = next.or_else(|| (number == 1).then(|| (1, first_hash(apex))));
        match expected {
            Some((follows, _)) if follows != number => {
                acts.faults.push(format!(
                    "the acts from {follows} to {} are missing",
                    number - 1
                ));
            }
            Some((_, hash)) if hash != before => {
                acts.faults
                    .push(format!("act {} was changed, or act {number}", number - 1));
            }
            Some(_) | None => {}
        }
        next = Some((number + 1, hash_of(apex, &value)));
        acts.all.push(act);
        first = first.min(number);
    }
    // The oldest go only when there are too many.
    let newest = next.map_or(0, |(next, _)| next - 1);
    if after == 0
        && first > 1
        && newest != 0
        && newest + 1 - first < MOST - 1
        && acts.faults.is_empty()
    {
        acts.faults
            .push(format!("the acts from 1 to {} are missing", first - 1));
    }
    Ok(acts)
}

/// The hash of a sealed value.
fn hash_of(apex: &Name, value: &[u8]) -> Hash {
    let payload = value.split_last_chunk::<4>();
    payload.map_or(first_hash(apex), |(payload, _)| sha256(payload))
}

/// The hash before the first act of a zone.
fn first_hash(apex: &Name) -> Hash {
    sha256(apex.to_lower().as_wire())
}

fn sha256(octets: &[u8]) -> Hash {
    let hash = digest(&SHA256, octets);
    let octets = hash.as_ref().try_into();
    Hash::from_octets(octets.unwrap_or_default())
}

pub(super) fn number_of(key: &[u8]) -> u64 {
    let number = key.last_chunk::<8>();
    number.map_or(0, |number| u64::from_be_bytes(*number))
}

pub(super) fn key_of(apex: &Name, number: u64) -> Vec<u8> {
    let [mut key, _] = range_of(apex);
    key.extend(number.to_be_bytes());
    key
}

/// The range of a zone's keys: the end is exclusive. No name goes on after its root, so no other zone is in it.
pub(super) fn range_of(apex: &Name) -> [Vec<u8>; 2] {
    let low = [&[ACT], apex.to_lower().as_wire()].concat();
    let high = [&low[..], &[u8::MAX; 9]].concat();
    [low, high]
}
