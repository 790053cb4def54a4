//! The journal: versions made durable before anyone sees them, and read back after a restart.
//!
//! One sled database for all zones, in its own folder of the state folder; beside it the serials' ceilings
//! ([`serial_files`]). Layout, in one tree, keys big-endian:
//!
//! ```text
//! m                            the layout's version
//! z | zone id (4)              the zone's name
//! h | zone id (4)              its head: newest serial and seq, oldest step, base
//! d | zone id (4) | seq (8) | part (4)   a step
//! s | zone id (4) | seq (8) | part (4)   a snapshot
//! n | zone id (4) | hash of a name (8) | seq (8)     a step that touches the name ([`index`])
//! r | zone id (4) | hash of a record (8) | seq (8)   a step that brings or takes the record
//! o | zone id (4) | hash of an object (8) | seq (8)  a step that the object caused
//! w | zone id (4) | seq (8)              a step that is too large for these
//! x | zone id (4) | seq (8) | part (4)   what such a step has instead ([`large_steps`])
//! b | zone id (4) | seq (8)              an older snapshot that is kept
//! ```
//!
//! A zone rests on a base, which is its first step (written as the nodes it makes) or a snapshot, and on
//! the steps after it; some older snapshots stay for whoever looks far back. Only what the head names
//! counts: steps and snapshots of any size are written before the batch that moves the head, so nothing half is ever visible. When the steps outgrow the base
//! a new snapshot is written a portion at a time between commits; a commit never costs what the zone
//! costs. What a commit cannot link to (the history was lost or damaged) starts the zone anew under a
//! new id; the old id's entries are removed a portion at a time.
//!
//! The journal belongs to one thread; [`Reader`]s may be used from others.

mod causes;
mod codec;
mod commit;
mod difference;
mod head;
mod index;
mod large_steps;
mod load;
mod name_contents;
mod open_error;
mod partial_step;
mod reader;
mod recover;
mod reopening;
mod repair;
mod retention;
mod salvage;
mod scan;
pub mod serial_files;
mod serial_floor;
mod snapshot;
mod step;
mod step_cache;
mod store;
mod stream_seek;
#[cfg(test)]
mod tests;
mod topic;
mod upkeep;
mod verify;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Candidate, Journaled, MemoryLimits, Version};
use codec::HEAD;
use dns::{Name, Serial};
use head::Head;
use large_steps::LargeStepJob;
use reopening::Reopening;
use repair::StateDir;
use scan::{Garbage, scan};
use serial_files::{Newest, Serials};
use serial_floor::{Losses, floors, lost_note};
use snapshot::SnapshotJob;
use step::StepSize;
use store::{Batch, Store};
use upkeep::{LISTS_AT_HAND_OCTETS, Occasion};

pub use open_error::OpenError;
pub use partial_step::PartialStep;
pub use reader::{ReadError, Reader, StoredZone, last_of};
pub use retention::Retention;
pub use serial_floor::Lost;
pub use step_cache::StepCache;
pub use store::StoreError;
pub use topic::Topic;
pub use verify::{Fault, Verdict};

/// So many commits in a row may fail by damage before a new database is started.
const DAMAGED_COMMITS: u32 = 2;
/// Entries that one commit may write or remove for the upkeep of history.
const COMMIT_PORTION: usize = 16;
/// The same after a commit that wrote a lot.
const COMMIT_PORTION_MOST: usize = 512;
/// Entries that one call of [`Journal::idle`] may write or remove.
const IDLE_PORTION: usize = 64;

/// Tells the time of day in milliseconds since 1970 UTC.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Entries of a large version in one batch, about 900 KiB.
const BATCH_ENTRIES: usize = 256;

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
    id: u32,
    head: Head,
    /// The number of the first step that may still stand in the database.
    first_stored: u64,
    /// Size and time of the oldest kept step, once read.
    oldest_size: Option<StepSize>,
}

impl Stored {
    fn describe(&self) -> StoredZone {
        StoredZone {
            apex: self.apex.clone(),
            serial: self.head.serial,
            newest: self.head.seq,
            oldest: self.head.oldest,
            octets: self.head.octets(),
        }
    }
}

/// The zones of the store.
type Zones = BTreeMap<Name, Stored>;

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
    dir: StateDir,
    store: Store,
    clock: WallClock,
    /// What the store holds, shared with readers. Only what is durable stands here.
    zones: Arc<RwLock<Zones>>,
    /// The id of the next new zone.
    next_id: u32,
    /// What is kept, where it is not the default.
    retention: BTreeMap<Name, Retention>,
    serials: Serials,
    /// What is newest, for whoever finds less than that.
    newest: Newest,
    /// Whether that tells of this run or one before it since the machine was started.
    is_noted: bool,
    /// The ceilings as they were found, of zones without a commit since.
    floors: BTreeMap<Name, Serial>,
    /// What is lost and no version says yet, shared with readers.
    losses: Losses,
    /// Zones with a commit since the journal was opened.
    committed: BTreeMap<Name, Serial>,
    jobs: VecDeque<SnapshotJob>,
    /// Lists of large steps being written.
    lists: VecDeque<LargeStepJob>,
    /// The octets of the steps that are kept at hand for them.
    lists_at_hand_octets: usize,
    garbage: VecDeque<Garbage>,
    /// What went through the database, and how it opens.
    reopening: Reopening,
    /// How many commits in a row failed by damage.
    damaged_commits: u32,
    /// How often upkeep failed by damage in a row.
    damaged_upkeep: u32,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
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
        let mut floors = floors(&serials, &scan.zones);
        let (newest, known) = Newest::open(dir.path()).map_err(unusable("opening a file in it"))?;
        serial_floor::lower(&mut floors, &known, &scan.zones);
        let losses = Losses::found(&serials, &known, &scan.zones);
        let lost = losses.all().into_iter();
        notes.extend(lost.filter_map(|(apex, lost)| lost_note(&apex, lost)));
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
            is_noted: known.is_exact,
            floors,
            losses,
            committed: BTreeMap::new(),
            jobs: VecDeque::new(),
            lists: scan.lists.into(),
            lists_at_hand_octets: LISTS_AT_HAND_OCTETS,
            garbage: scan.garbage.into(),
            reopening: Reopening::default(),
            damaged_commits: 0,
            damaged_upkeep: 0,
        };
        Ok((journal, OpenReport { notes }))
    }

    /// Whether a folder, which is there, is none that a journal was ever opened in, and holds nothing else.
    #[must_use]
    pub fn is_unused(dir: &Path) -> bool {
        repair::is_unused(dir)
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

    /// What a zone lost and no version of it says yet: the next one has to ([`Lost::cause`]). Where one is left, the
    /// next is due even when nothing differs from it, for it does from what others may have.
    #[must_use]
    pub fn lost(&self, apex: &Name) -> Option<Lost> {
        self.losses.get(apex)
    }

    /// Reads the history from any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            store: self.store.clone(),
            zones: Arc::clone(&self.zones),
            losses: self.losses.clone(),
        }
    }

    fn zones(&self) -> RwLockReadGuard<'_, Zones> {
        self.zones.read().unwrap_or_else(PoisonError::into_inner)
    }

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
        let octets = self.zones().get(&apex).map(|it| it.head.base.octets);
        self.reopening.bulk_octets += octets.unwrap_or_default();
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
        let before = self.store.keys_written();
        if let Err(error) = self.write(&candidates) {
            return Err((error, candidates));
        }
        // Upkeep comes after: its failure costs the commit nothing. Where commits leave no time for more it
        // has to take away as much as they bring, in the long run.
        let written = self.store.keys_written().saturating_sub(before);
        let portion = COMMIT_PORTION.max(written.saturating_mul(2));
        self.try_upkeep(portion.min(COMMIT_PORTION_MOST), Occasion::Commit);
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    /// Does a portion of the work that is not urgent: snapshots, removal of old entries. Says whether
    /// there is more to do. A database that is closed is opened again.
    pub fn idle(&mut self) -> bool {
        if !self.store.is_open() {
            self.open_again();
        }
        if self.store.is_poisoned() {
            return false;
        }
        let more = self.try_upkeep(IDLE_PORTION, Occasion::Idle);
        if !more {
            self.renew();
        }
        more
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
}

/// Readers may outlive the journal; the database does not: the folder is free for the next process.
impl Drop for Journal {
    fn drop(&mut self) {
        self.store.close();
    }
}

/// Puts a zone's head into a batch.
fn put_head(batch: &mut Batch, stored: &Stored) {
    let key = codec::zone_key(HEAD, stored.id);
    batch.put(&key, stored.head.encode(&key));
}
