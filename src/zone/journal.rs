//! The journal: versions made durable before anyone sees them, and read back after a restart.
//!
//! One sled database for all zones, in its own folder of the state folder; beside it the serials' ceilings
//! ([`sidefile`]). Layout, in one tree, keys big-endian:
//!
//! ```text
//! m                            the layout's version
//! z | zone id (4)              the zone's name
//! h | zone id (4)              its head: newest serial and seq, oldest step, base
//! d | zone id (4) | seq (8) | part (4)   a step
//! s | zone id (4) | seq (8) | part (4)   a snapshot
//! ```
//!
//! A zone rests on a base, which is its first step (written as the nodes it makes) or a snapshot, and on
//! the steps after it. Only what the head names counts: steps and snapshots of any size are written
//! before the batch that moves the head, so nothing half is ever visible. When the steps outgrow the base
//! a new snapshot is written a portion at a time between commits; a commit never costs what the zone
//! costs. What a commit cannot link to (the history was lost or damaged) starts the zone anew under a
//! new id; the old id's entries are removed a portion at a time.
//!
//! The journal belongs to one thread; [`Reader`]s may be used from others.

mod codec;
mod load;
mod reader;
mod repair;
mod salvage;
mod sidefile;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crate::dns::{Name, Serial};
use crate::zone::{Candidate, Journaled, MemoryLimits, Version};
use codec::{Base, Entry, HEAD, Head, PartWriter, SNAPSHOT, STEP, StepSize, StreamError, ZONE};
use repair::{Keep, StateDir};
use sidefile::{Newest, Serials};
use snapshot::SnapshotJob;
use store::{Batch, Store};

pub use reader::{Order, ReadError, Reader, Steps, StoredZone};
pub use repair::OpenError;
pub use store::StoreError;

/// Tells the time of day in milliseconds since 1970 UTC.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Entries of a large version in one batch, about 900 KiB.
const BATCH_ENTRIES: usize = 256;
/// Entries that one commit may write or remove for the upkeep of history.
const COMMIT_PORTION: usize = 16;
/// Entries that one call of [`Journal::idle`] may write or remove.
const IDLE_PORTION: usize = 64;
/// The most steps one commit may drop from a zone's history.
const DROPPED_STEPS: usize = 64;
/// No snapshot is written before the steps since the base have so many octets.
const SNAPSHOT_MIN_OCTETS: u64 = 1 << 20;
/// So many commits in a row may fail by damage before a new database is started.
const DAMAGED_COMMITS: u32 = 2;
/// What a step counts towards the limits besides its records' octets: numbers, causes, its key.
const STEP_OCTETS: u64 = 128;

/// How much history of a zone is kept on disk. The newest step is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How old the oldest step may be.
    pub keep: Duration,
    /// How many steps are kept.
    pub versions: u64,
    /// The most octets of their records.
    pub octets: u64,
}

impl Retention {
    /// 30 days, 10 000 versions, 64 MiB: a month to look back, and more than any secondary needs.
    pub const DEFAULT: Self = Self {
        keep: Duration::from_secs(30 * 86400),
        versions: 10_000,
        octets: 64 << 20,
    };
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What opening the store came upon.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// What was repaired or lost, in sentences for an operator; empty when all was well.
    pub notes: Vec<String>,
}

/// What the store had of a zone.
#[derive(Debug)]
pub struct Loaded {
    /// The newest sound version; `None` when there is none.
    pub version: Option<Version>,
    /// What was lost, in sentences for an operator; empty when all was well.
    pub notes: Vec<String>,
}

/// Why a zone cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The database cannot be read or written.
    #[error("zone {apex} cannot be loaded: {source}")]
    Store {
        /// The zone.
        apex: Name,
        /// What the store said.
        source: StoreError,
    },
    /// The database is damaged, and what can be read of it could not be brought to a new one.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// Why versions could not be made durable. They can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The file of serials could not be written.
    #[error(
        "the file of serials could not be written: {0}; the last version is served until it can"
    )]
    Serials(#[source] io::Error),
    /// The database could not be written.
    #[error("{0}; the last version is served until it can be written")]
    Store(#[from] StoreError),
    /// The database could not be opened again after an earlier failure.
    #[error("{0}; the last version is served until it can be written")]
    Open(#[from] OpenError),
}

/// What is known of a zone in the store.
#[derive(Debug, Clone)]
struct Stored {
    /// Its name, in lower case.
    apex: Name,
    /// Its id in keys.
    id: u32,
    /// Its head.
    head: Head,
    /// The number of the first step that may still stand in the database.
    first_stored: u64,
    /// Size and time of the oldest kept step, once read.
    oldest_size: Option<StepSize>,
}

impl Stored {
    /// The zone for readers.
    fn describe(&self) -> StoredZone {
        StoredZone {
            apex: self.apex.clone(),
            serial: self.head.serial,
            newest: self.head.seq,
            oldest: self.head.oldest,
        }
    }

    /// The first step that must stay in the database.
    fn first_needed(&self) -> u64 {
        let Head { oldest, base, .. } = self.head;
        oldest.min(if base.snapshot {
            base.seq + 1
        } else {
            base.seq
        })
    }
}

/// The zones of the store.
type Zones = BTreeMap<Name, Stored>;

/// Keys that nobody needs any more.
#[derive(Debug)]
struct Garbage {
    /// The first key.
    low: Vec<u8>,
    /// The first key that stays.
    high: Vec<u8>,
}

/// The serial of the next version: after the previous one and after the floor ([`Journal::floor`]), and
/// the clock when it is ahead of both.
#[must_use]
pub fn next_serial(previous: Option<Serial>, floor: Option<Serial>, unix_seconds: u64) -> Serial {
    let lowest = match (floor, previous) {
        (Some(floor), Some(previous)) => Some(floor.later(previous)),
        (floor, previous) => floor.or(previous),
    };
    Serial::after(lowest, unix_seconds)
}

/// The journal of all zones.
pub struct Journal {
    /// The state folder, locked.
    dir: StateDir,
    /// The database.
    store: Store,
    /// The time of day.
    clock: WallClock,
    /// What the store holds, shared with readers. Only what is durable stands here.
    zones: Arc<RwLock<Zones>>,
    /// The id of the next new zone.
    next_id: u32,
    /// What is kept, where it is not the default.
    retention: BTreeMap<Name, Retention>,
    /// The ceilings.
    serials: Serials,
    /// What is newest, for whoever finds less than that.
    newest: Newest,
    /// The ceilings as they were found, of zones without a commit since.
    floors: BTreeMap<Name, Serial>,
    /// Zones whose newest versions are lost while others may hold them, without a commit since.
    behind: BTreeSet<Name>,
    /// Zones with a commit since the journal was opened.
    committed: BTreeMap<Name, Serial>,
    /// Snapshots being written.
    jobs: VecDeque<SnapshotJob>,
    /// Entries to be removed.
    garbage: VecDeque<Garbage>,
    /// How many commits in a row failed by damage.
    damaged_commits: u32,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

/// What a look at the database found.
#[derive(Debug, Default)]
struct Scan {
    /// The zones with their heads.
    zones: Zones,
    /// The id of the next new zone.
    next_id: u32,
    /// Entries nobody needs.
    garbage: Vec<Garbage>,
    /// What is damaged.
    notes: Vec<String>,
}

/// What one candidate writes.
struct Plan {
    /// What will be known of the zone.
    stored: Stored,
    /// The id it had before, when it starts anew.
    replaces: Option<u32>,
}

impl Journal {
    /// Opens the state folder, creating it where there is none.
    ///
    /// # Errors
    /// [`OpenError`] when the folder is locked, foreign or cannot be used; damage is no error: what can
    /// be repaired is, and the report says what was done.
    pub fn open(dir: &Path, clock: WallClock) -> Result<(Self, OpenReport), OpenError> {
        let dir = StateDir::take(dir)?;
        let unusable = |doing| {
            let dir = dir.path().to_owned();
            move |source| OpenError::Unusable { dir, doing, source }
        };
        let found = Serials::read(dir.path()).map_err(unusable("reading the serials"))?;
        let mut notes = found.notes;
        let store = Store::at(&dir.database());
        let scan = dir.open_database(&store, &mut notes, scan)?;
        notes.extend(scan.notes);
        let mut serials = found.serials;
        if !found.present && !scan.zones.is_empty() {
            notes
                .push("the file of serials is missing: serials go on from the database".to_owned());
        }
        let floors = floors(&serials, &scan.zones);
        let (newest, known) = Newest::open(dir.path()).map_err(unusable("opening a file in it"))?;
        notes.extend(known.iter().filter_map(|(apex, serial)| {
            let kept = scan.zones.get(apex).map(|stored| stored.head.serial);
            lost_note(apex, *serial, kept)
        }));
        let behind = known
            .iter()
            .filter(|(apex, serial)| {
                let kept = scan.zones.get(apex).map(|stored| stored.head.serial);
                kept.is_some_and(|kept| serial.is_after(kept))
            })
            .map(|(apex, _)| apex.clone())
            .collect();
        // A zone whose line was lost gets one again; a ceiling that stands is left alone.
        let heads: Vec<_> = scan
            .zones
            .values()
            .map(|stored| (stored.apex.clone(), stored.head.serial))
            .collect();
        serials
            .cover(&heads)
            .map_err(unusable("writing the serials"))?;
        let journal = Self {
            dir,
            store,
            clock,
            zones: Arc::new(RwLock::new(scan.zones)),
            next_id: scan.next_id,
            retention: BTreeMap::new(),
            serials,
            newest,
            floors,
            behind,
            committed: BTreeMap::new(),
            jobs: VecDeque::new(),
            garbage: scan.garbage.into(),
            damaged_commits: 0,
        };
        Ok((journal, OpenReport { notes }))
    }

    /// Sets how much history of a zone is kept.
    pub fn set_retention(&mut self, apex: &Name, retention: Retention) {
        self.retention.insert(apex.to_lower(), retention);
    }

    /// A serial that the zone's next one must be above, whatever became of the database; `None` when
    /// the version before says enough.
    #[must_use]
    pub fn floor(&self, apex: &Name) -> Option<Serial> {
        self.floors.get(apex).copied()
    }

    /// Whether the newest versions of a zone are lost while others may hold them: then the next version
    /// is due even when nothing differs from the one that is left, for it does from what others have.
    #[must_use]
    pub fn is_behind(&self, apex: &Name) -> bool {
        self.behind.contains(apex)
    }

    /// Reads the history from any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            store: self.store.clone(),
            zones: Arc::clone(&self.zones),
        }
    }

    /// The zones, for reading.
    fn zones(&self) -> RwLockReadGuard<'_, Zones> {
        self.zones.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The zones, for writing.
    fn zones_mut(&self) -> RwLockWriteGuard<'_, Zones> {
        self.zones.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the newest sound version of a zone, with as much history as the limits allow. What is
    /// damaged after it is dropped from the store.
    ///
    /// # Errors
    /// [`LoadError`] when the database cannot be read or written, damage aside.
    pub fn load(&mut self, apex: &Name, limits: MemoryLimits) -> Result<Loaded, LoadError> {
        let apex = apex.to_lower();
        let failed = |source| LoadError::Store {
            apex: apex.clone(),
            source,
        };
        match self.restore(&apex, limits) {
            Err(error) if error.is_damage() => {
                let mut notes = vec![error.to_string()];
                self.salvage(&mut notes)?;
                let mut loaded = self.restore(&apex, limits).map_err(failed)?;
                notes.append(&mut loaded.notes);
                loaded.notes = notes;
                Ok(loaded)
            }
            done => done.map_err(failed),
        }
    }

    /// Brings what can be read to a new database.
    fn salvage(&mut self, notes: &mut Vec<String>) -> Result<(), OpenError> {
        self.jobs.clear();
        let scan = self
            .dir
            .start_anew(&self.store, Keep::Readable, notes, scan)?;
        notes.extend(scan.notes);
        self.garbage = scan.garbage.into();
        self.next_id = self.next_id.max(scan.next_id);
        *self.zones_mut() = scan.zones;
        Ok(())
    }

    /// Loads a zone and cuts off what is damaged.
    fn restore(&mut self, apex: &Name, limits: MemoryLimits) -> Result<Loaded, StoreError> {
        let Some(stored) = self.zones().get(apex).cloned() else {
            return Ok(Loaded {
                version: None,
                notes: Vec::new(),
            });
        };
        let newest = stored.head;
        let (version, notes) = match load::restore(&self.store, &stored, limits) {
            Ok(sound) => {
                let notes = match sound.fault {
                    None => Vec::new(),
                    Some(what) => {
                        self.cut(stored, &sound.version)?;
                        self.behind.insert(apex.clone());
                        vec![format!(
                            "zone {apex}: serials after {} up to {} are lost ({what})",
                            sound.version.serial, newest.serial
                        )]
                    }
                };
                (Some(sound.version), notes)
            }
            Err(StreamError::Damaged(what)) => {
                self.forget(&stored)?;
                let note = format!(
                    "zone {apex}: all versions up to serial {} are lost ({what})",
                    newest.serial
                );
                (None, vec![note])
            }
            Err(StreamError::Store(error)) => return Err(error),
        };
        Ok(Loaded { version, notes })
    }

    /// Makes an older version the newest of a zone.
    fn cut(&mut self, mut stored: Stored, newest: &Version) -> Result<(), StoreError> {
        let head = &mut stored.head;
        let (last, id) = (head.seq, stored.id);
        head.serial = newest.serial;
        head.seq = newest.seq;
        head.oldest = head.oldest.min(newest.seq);
        (head.kept_octets, head.since_base) = (0, 0);
        for seq in head.oldest..=newest.seq {
            // A step before the base may be damaged too; it counts nothing.
            if let Ok(size) = codec::peek_step(&self.store, id, seq) {
                head.kept_octets += size.octets;
                head.since_base += if seq > head.base.seq { size.octets } else { 0 };
            }
        }
        let mut batch = Batch::default();
        put_head(&mut batch, &stored);
        self.store.write(batch)?;
        self.store.sync()?;
        let low = codec::part_key(STEP, id, newest.seq + 1, 0);
        let high = codec::part_key(STEP, id, last, u32::MAX);
        self.zones_mut().insert(stored.apex.clone(), stored);
        // Removed now: the next commits write under these keys.
        while self.remove_some(&low, &high, BATCH_ENTRIES)? > 0 {}
        self.store.sync()
    }

    /// Drops a zone of which nothing is sound.
    fn forget(&mut self, stored: &Stored) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(&codec::zone_key(ZONE, stored.id));
        batch.delete(&codec::zone_key(HEAD, stored.id));
        self.store.write(batch)?;
        self.store.sync()?;
        self.zones_mut().remove(&stored.apex);
        self.garbage.extend(garbage_of(stored.id));
        Ok(())
    }

    /// Makes candidates durable, all or none: after this they may be shown.
    ///
    /// # Errors
    /// [`CommitError`] with the candidates: nothing of them is or will be visible, and they can be
    /// given again, or others in their place.
    pub fn commit(
        &mut self,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Journaled>, (CommitError, Vec<Candidate>)> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        if let Err(error) = self.write(&candidates) {
            return Err((error, candidates));
        }
        // Upkeep comes after: its failure costs the commit nothing, and a poisoned database is opened
        // again by the next one.
        if let Err(error) = self.upkeep(COMMIT_PORTION) {
            tracing::warn!(%error, "the upkeep of history failed");
        }
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    /// Does a portion of the work that is not urgent: snapshots, removal of old entries. Says whether
    /// there is more to do.
    pub fn idle(&mut self) -> bool {
        if self.store.is_poisoned() {
            return false;
        }
        match self.upkeep(IDLE_PORTION) {
            Ok(more) => more,
            Err(error) => {
                tracing::warn!(%error, "the upkeep of history failed");
                false
            }
        }
    }

    /// Ends the journal: everything written out, ceilings set to the newest serials.
    ///
    /// # Errors
    /// [`CommitError`] when something could not be written; nothing that was announced is lost by it.
    pub fn close(mut self) -> Result<(), CommitError> {
        let newest: Vec<_> = std::mem::take(&mut self.committed).into_iter().collect();
        let synced = self.store.sync();
        self.store.close();
        synced?;
        self.serials.settle(&newest).map_err(CommitError::Serials)
    }

    /// Writes candidates, heads last, and syncs.
    fn write(&mut self, candidates: &[Candidate]) -> Result<(), CommitError> {
        self.heal()?;
        let serials: Vec<_> = candidates
            .iter()
            .map(|candidate| {
                let version = candidate.version();
                (version.contents.apex().clone(), version.serial)
            })
            .collect();
        self.serials.cover(&serials).map_err(CommitError::Serials)?;
        if let Err(error) = self.write_database(candidates) {
            self.damaged_commits += u32::from(error.is_damage());
            // sled refuses all work after a failed write: give readers a working database again. The
            // next commit tries once more if this fails.
            if let Err(error) = self.heal() {
                tracing::warn!(%error, "the database does not open again yet");
            }
            return Err(error.into());
        }
        self.damaged_commits = 0;
        for (apex, serial) in serials {
            self.floors.remove(&apex);
            self.behind.remove(&apex);
            self.committed.insert(apex, serial);
        }
        let newest: Vec<_> = self
            .zones()
            .values()
            .map(|stored| (stored.apex.clone(), stored.head.serial))
            .collect();
        if let Err(error) = self.newest.write(&newest) {
            // Nothing rests on it.
            tracing::debug!(%error, "the newest serials could not be noted");
        }
        Ok(())
    }

    /// Writes the entries and then, in one batch, the heads.
    fn write_database(&mut self, candidates: &[Candidate]) -> Result<(), StoreError> {
        let mut zones = self.zones().clone();
        let mut touched = BTreeMap::new();
        let mut garbage = Vec::new();
        let mut last = Batch::default();
        let mut entries = Vec::new();
        for candidate in candidates {
            let plan = self.plan(candidate, &zones);
            let stored = self.write_candidate(candidate, plan.stored, &mut entries)?;
            if let Some(old) = plan.replaces {
                last.delete(&codec::zone_key(ZONE, old));
                last.delete(&codec::zone_key(HEAD, old));
                garbage.extend(garbage_of(old));
            }
            zones.insert(stored.apex.clone(), stored.clone());
            touched.insert(stored.apex.clone(), stored);
        }
        for (key, value) in entries {
            last.put(&key, value);
        }
        for stored in touched.values() {
            put_head(&mut last, stored);
            put_zone(&mut last, stored);
        }
        self.store.write(last)?;
        self.store.sync()?;
        self.zones_mut().extend(touched);
        self.garbage.extend(garbage);
        for candidate in candidates {
            self.start_snapshot(candidate.version());
        }
        Ok(())
    }

    /// Decides where a candidate goes.
    fn plan(&mut self, candidate: &Candidate, zones: &Zones) -> Plan {
        let step = candidate.step();
        let apex = candidate.version().contents.apex();
        let known = zones.get(apex);
        let counted = counted_octets(step.octets());
        let linked = known.filter(|stored| {
            stored.head.seq + 1 == step.seq
                && (step.from.as_ref()).is_some_and(|(serial, _)| *serial == stored.head.serial)
        });
        if let Some(stored) = linked {
            let mut stored = stored.clone();
            stored.head.serial = step.serial;
            stored.head.seq = step.seq;
            stored.head.kept_octets += counted;
            stored.head.since_base += counted;
            self.retain(&mut stored);
            return Plan {
                stored,
                replaces: None,
            };
        }
        let id = self.next_id;
        self.next_id += 1;
        let first = step.from.is_none();
        let head = Head {
            serial: step.serial,
            seq: step.seq,
            oldest: step.seq,
            // A first step counts once it is no longer the base.
            kept_octets: if first { 0 } else { counted },
            base: Base {
                seq: step.seq,
                snapshot: !first,
                octets: 0,
            },
            since_base: 0,
        };
        Plan {
            stored: Stored {
                apex: apex.clone(),
                id,
                head,
                first_stored: step.seq,
                oldest_size: None,
            },
            replaces: known.map(|stored| stored.id),
        }
    }

    /// Writes a candidate's step, and its contents where nothing else gives them. What does not fit a
    /// batch is written at once; the rest is left in `entries`.
    fn write_candidate(
        &self,
        candidate: &Candidate,
        mut stored: Stored,
        entries: &mut Vec<Entry>,
    ) -> Result<Stored, StoreError> {
        let step = candidate.step();
        let version = candidate.version();
        let is_base = stored.head.base.seq == step.seq;
        if is_base && stored.head.base.snapshot {
            let mut job = snapshot_job(stored.id, version);
            while !job.is_complete() {
                entries.extend(job.portion(BATCH_ENTRIES));
                self.write_full(entries)?;
            }
            stored.head.base.octets = job.octets;
        }
        let mut parts = PartWriter::new(STEP, stored.id, step.seq);
        let mut done = Ok(());
        codec::write_step(step, &version.contents, &mut parts, |parts, octets| {
            parts.push(octets, entries);
            if done.is_ok() {
                done = self.write_full(entries);
            }
        });
        done?;
        let octets = parts.octets();
        parts.finish(entries);
        if is_base && !stored.head.base.snapshot {
            stored.head.base.octets = octets;
        }
        Ok(stored)
    }

    /// Writes entries when there are enough of them for a batch.
    fn write_full(&self, entries: &mut Vec<Entry>) -> Result<(), StoreError> {
        if entries.len() < BATCH_ENTRIES {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (key, value) in entries.drain(..) {
            batch.put(&key, value);
        }
        self.store.write(batch)
    }

    /// Opens the database again when a write has failed.
    fn heal(&mut self) -> Result<(), OpenError> {
        if !self.store.is_poisoned() {
            return Ok(());
        }
        // Portions that were not synced may be gone.
        self.jobs.clear();
        let mut notes = Vec::new();
        let scan = if self.damaged_commits < DAMAGED_COMMITS {
            self.dir.open_database(&self.store, &mut notes, scan)?
        } else {
            // It opens and cannot be written: each zone starts anew with its next commit.
            self.damaged_commits = 0;
            self.dir
                .start_anew(&self.store, Keep::Nothing, &mut notes, scan)?
        };
        notes.extend(scan.notes);
        for note in notes {
            tracing::warn!(note, "the database was opened again");
        }
        self.garbage = scan.garbage.into();
        self.next_id = self.next_id.max(scan.next_id);
        // What memory says was durable and announced. A head that is further on belongs to a commit that
        // failed: the next commit writes over it. A head that is missing or behind means that history
        // is lost: the zone starts anew with its next commit.
        self.zones_mut().retain(|apex, stored| {
            let kept = scan
                .zones
                .get(apex)
                .is_some_and(|found| found.id == stored.id && found.head.seq >= stored.head.seq);
            if !kept {
                tracing::warn!(zone = %apex, "the zone's history is lost and starts anew");
            }
            kept
        });
        Ok(())
    }

    /// Moves the oldest step of a zone's history on, as far as the limits say.
    fn retain(&self, stored: &mut Stored) {
        let limits = self
            .retention
            .get(&stored.apex)
            .copied()
            .unwrap_or_default();
        let now = (self.clock)();
        let keep = u64::try_from(limits.keep.as_millis()).unwrap_or(u64::MAX);
        for _ in 0..DROPPED_STEPS {
            let head = &mut stored.head;
            if head.oldest >= head.seq {
                return;
            }
            let size = match stored.oldest_size {
                Some(size) => Some(size),
                None => match codec::peek_step(&self.store, stored.id, head.oldest) {
                    Ok(size) => Some(size),
                    // What cannot be read is no history.
                    Err(StreamError::Damaged(_)) => None,
                    Err(StreamError::Store(_)) => return,
                },
            };
            stored.oldest_size = size;
            let too_old = size.is_none_or(|size| now.saturating_sub(size.time_ms) > keep);
            let too_many = head.seq - head.oldest >= limits.versions;
            if !too_old && !too_many && head.kept_octets <= limits.octets {
                return;
            }
            let counted = head.base.snapshot || head.oldest > head.base.seq;
            if let (Some(size), true) = (size, counted) {
                head.kept_octets = head.kept_octets.saturating_sub(size.octets);
            }
            head.oldest += 1;
            stored.oldest_size = None;
        }
    }

    /// Begins a snapshot when the steps have outgrown the base.
    fn start_snapshot(&mut self, version: &Version) {
        let apex = version.contents.apex();
        let Some(stored) = self.zones().get(apex).cloned() else {
            return;
        };
        let limit = SNAPSHOT_MIN_OCTETS.max(stored.head.base.octets / 2);
        let old = codec::zone_key(SNAPSHOT, stored.id);
        let busy = self.jobs.iter().any(|job| job.id == stored.id)
            || self.garbage.iter().any(|some| some.low.starts_with(&old));
        if stored.head.since_base <= limit || busy {
            return;
        }
        let mut job = snapshot_job(stored.id, version);
        job.since_base = stored.head.since_base;
        self.jobs.push_back(job);
    }

    /// Does a portion of upkeep; says whether there is more.
    fn upkeep(&mut self, portion: usize) -> Result<bool, StoreError> {
        if let Some(mut job) = self.jobs.pop_front() {
            let mut batch = Batch::default();
            for (key, value) in job.portion(portion) {
                batch.put(&key, value);
            }
            self.store.write(batch)?;
            if job.is_complete() {
                self.finish_snapshot(&job)?;
            } else {
                self.jobs.push_front(job);
            }
        }
        let stale: Vec<_> = self
            .zones()
            .values()
            .filter(|stored| stored.first_stored < stored.first_needed())
            .cloned()
            .collect();
        let mut room = portion;
        for stored in &stale {
            room -= self.remove_steps(stored, room)?;
        }
        while let (Some(some), true) = (self.garbage.front(), room > 0) {
            let removed = self.remove_some(&some.low, &some.high, room)?;
            if removed < room {
                self.garbage.pop_front();
            }
            room -= removed;
        }
        Ok(!self.jobs.is_empty() || room == 0)
    }

    /// Makes a finished snapshot the base of its zone.
    fn finish_snapshot(&mut self, job: &SnapshotJob) -> Result<(), StoreError> {
        let Some(mut stored) = self.zones().get(&job.apex).cloned() else {
            return Ok(());
        };
        if stored.id != job.id {
            return Ok(());
        }
        // Its parts must be on disk before the head names it.
        self.store.sync()?;
        let old = stored.head.base;
        if !old.snapshot
            && stored.head.oldest <= old.seq
            && let Ok(size) = codec::peek_step(&self.store, stored.id, old.seq)
        {
            stored.head.kept_octets += size.octets;
        }
        stored.head.base = Base {
            seq: job.seq,
            snapshot: true,
            octets: job.octets,
        };
        stored.head.since_base = stored.head.since_base.saturating_sub(job.since_base);
        let mut batch = Batch::default();
        put_head(&mut batch, &stored);
        self.store.write(batch)?;
        self.store.sync()?;
        if old.snapshot {
            self.garbage.push_back(Garbage {
                low: codec::part_key(SNAPSHOT, stored.id, old.seq, 0).to_vec(),
                high: codec::part_key(SNAPSHOT, stored.id, old.seq, u32::MAX).to_vec(),
            });
        }
        self.zones_mut().insert(stored.apex.clone(), stored);
        Ok(())
    }

    /// Removes entries of steps that left a zone's history; gives how many.
    fn remove_steps(&self, stored: &Stored, room: usize) -> Result<usize, StoreError> {
        let low = codec::part_key(STEP, stored.id, 0, 0);
        let high = codec::part_key(STEP, stored.id, stored.first_needed(), 0);
        let removed = if room == 0 {
            0
        } else {
            self.remove_some(&low, &high, room)?
        };
        if removed < room
            && let Some(known) = self.zones_mut().get_mut(&stored.apex)
        {
            known.first_stored = stored.first_needed();
        }
        Ok(removed)
    }

    /// Removes at most `limit` entries; gives how many.
    fn remove_some(&self, low: &[u8], high: &[u8], limit: usize) -> Result<usize, StoreError> {
        let found = self.store.range(low, high, limit)?;
        if found.is_empty() {
            return Ok(0);
        }
        let mut batch = Batch::default();
        for (key, _) in &found {
            batch.delete(key);
        }
        let removed = batch.keys();
        self.store.write(batch)?;
        Ok(removed)
    }
}

/// Readers may outlive the journal; the database does not: the folder is free for the next process.
impl Drop for Journal {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// A snapshot of a version.
fn snapshot_job(id: u32, version: &Version) -> SnapshotJob {
    let Version {
        seq,
        serial,
        time_ms,
        contents,
        ..
    } = version;
    SnapshotJob::new(id, *seq, *serial, *time_ms, contents.clone())
}

/// What a step counts towards the limits.
fn counted_octets(octets: usize) -> u64 {
    octets as u64 + STEP_OCTETS
}

/// Puts a zone's head into a batch.
fn put_head(batch: &mut Batch, stored: &Stored) {
    let key = codec::zone_key(HEAD, stored.id);
    batch.put(&key, stored.head.encode(&key));
}

/// Puts a zone's name into a batch.
fn put_zone(batch: &mut Batch, stored: &Stored) {
    let key = codec::zone_key(ZONE, stored.id);
    batch.put(&key, codec::seal(&key, stored.apex.as_wire().to_vec()));
}

/// All steps and snapshots of an id.
fn garbage_of(id: u32) -> [Garbage; 2] {
    [STEP, SNAPSHOT].map(|kind| Garbage {
        low: codec::zone_key(kind, id).to_vec(),
        high: codec::zone_key(kind, id + 1).to_vec(),
    })
}

/// The sentence about what a zone lost, if it did.
fn lost_note(apex: &Name, newest: Serial, kept: Option<Serial>) -> Option<String> {
    match kept {
        None => Some(format!(
            "zone {apex}: all versions up to serial {newest} are lost, its history starts anew above it"
        )),
        Some(kept) if newest.is_after(kept) => Some(format!(
            "zone {apex}: the versions after serial {kept} up to {newest} are lost, the next serial is above them"
        )),
        Some(_) => None,
    }
}

/// The ceilings that say more than the heads do.
fn floors(serials: &Serials, zones: &Zones) -> BTreeMap<Name, Serial> {
    serials
        .all()
        .filter(|(apex, ceiling)| {
            zones
                .get(apex)
                .is_none_or(|stored| stored.head.serial != *ceiling)
        })
        .map(|(apex, ceiling)| (apex.clone(), ceiling))
        .collect()
}

/// Looks at what the database holds: zones, heads, leftovers.
fn scan(store: &Store) -> Result<Scan, StoreError> {
    let mut scan = Scan::default();
    let mut ids = BTreeMap::new();
    let mut from = codec::zone_key(ZONE, 0).to_vec();
    loop {
        let page = store.range(&from, &[ZONE + 1], BATCH_ENTRIES)?;
        let Some((last, _)) = page.last() else { break };
        from = last.to_vec();
        from.push(0);
        for (key, value) in &page {
            let Some(id) = codec::id_of(key) else {
                continue;
            };
            scan.next_id = scan.next_id.max(id + 1);
            let apex = codec::unseal(key, value).and_then(|wire| Name::from_wire(wire).ok());
            match apex {
                Some(apex) => ids.insert(id, apex),
                None => {
                    scan.notes
                        .push(format!("the name of zone {id} in the database is damaged"));
                    None
                }
            };
        }
    }
    for (id, apex) in ids {
        let key = codec::zone_key(HEAD, id);
        let head = store
            .get(&key)?
            .and_then(|value| Head::decode(&key, &value));
        let Some(head) = head else {
            scan.notes.push(format!(
                "zone {apex}: its head is damaged, all its versions are lost"
            ));
            continue;
        };
        let first_stored = load::first_stored(store, id)?.unwrap_or(head.oldest);
        let stored = Stored {
            apex: apex.clone(),
            id,
            head,
            first_stored,
            oldest_size: None,
        };
        // Ids rise: a lower one of the same name is left from a commit that failed half-way.
        if let Some(older) = scan.zones.insert(apex, stored) {
            for kind in [ZONE, HEAD] {
                scan.garbage.push(Garbage {
                    low: codec::zone_key(kind, older.id).to_vec(),
                    high: codec::zone_key(kind, older.id + 1).to_vec(),
                });
            }
        }
    }
    find_garbage(store, &mut scan)?;
    Ok(scan)
}

/// Finds entries of ids and snapshots that no head names. Costs a look per id and snapshot, not per entry.
fn find_garbage(store: &Store, scan: &mut Scan) -> Result<(), StoreError> {
    let known: BTreeMap<u32, Head> = scan
        .zones
        .values()
        .map(|stored| (stored.id, stored.head))
        .collect();
    for kind in [STEP, SNAPSHOT] {
        let mut from = codec::zone_key(kind, 0).to_vec();
        loop {
            let page = store.range(&from, &[kind + 1], 1)?;
            let Some((Some(id), Some(seq))) = page
                .first()
                .map(|(key, _)| (codec::id_of(key), codec::seq_of(key)))
            else {
                break;
            };
            scan.next_id = scan.next_id.max(id + 1);
            let of_id = codec::zone_key(kind, id + 1).to_vec();
            let of_seq = codec::part_key(kind, id, seq, u32::MAX).to_vec();
            match known.get(&id) {
                None => scan.garbage.push(Garbage {
                    low: codec::zone_key(kind, id).to_vec(),
                    high: of_id.clone(),
                }),
                Some(head) if kind == SNAPSHOT => {
                    if !head.base.snapshot || head.base.seq != seq {
                        scan.garbage.push(Garbage {
                            low: codec::part_key(kind, id, seq, 0).to_vec(),
                            high: of_seq.clone(),
                        });
                    }
                    from = of_seq;
                    continue;
                }
                Some(_) => {}
            }
            from = of_id;
        }
    }
    Ok(())
}
