//! The journal makes versions durable before they are visible, and reads them back after a restart.
//!
//! One sled database holds all zones, in its own folder of the state folder. Beside it are the serials' ceilings
//! ([`serial_files`]). Layout, in one tree, keys big-endian:
//!
//! ```text
//! m                            the layout's version
//! z | zone id (4)              the zone's name
//! h | zone id (4)              its head: newest serial and seq, oldest step, base
//! d | zone id (4) | seq (8) | part (4)   a step
//! s | zone id (4) | seq (8) | part (4)   a snapshot
//! n | zone id (4) | hash of a name (8) | seq (8)     a step that touches the name ([`index`])
//! r | zone id (4) | hash of a record (8) | seq (8)   a step that adds or removes the record
//! o | zone id (4) | hash of an object (8) | seq (8)  a step that the object caused
//! w | zone id (4) | seq (8)              a step that is too large for these entries
//! x | zone id (4) | seq (8) | part (4)   the list of hashes that such a step has instead ([`large_steps`])
//! g | zone id (4) | seq (8)              a part of the history that is kept elsewhere ([`segment`])
//! b | zone id (4) | seq (8)              an older snapshot that is kept
//! c | zone id (4) | seq (8)              one or several versions from before the history ([`archive`])
//! a | zone id (4) | seq (8) | part (4)   their step
//! e | zone name | number (8)            an act: what somebody did to the zone ([`acts`])
//! f | zone name | length (2) | key | part (2)   what the writer keeps beside the versions ([`beside`])
//! t | root | length (2) | number (8) | part (2)   a Corefile that was in use ([`corefiles`])
//! k | zone id (4) | seq (8) | part (4)   what replicas know of a zone and its versions ([`replica_entries`])
//! q                            what this replica keeps beside the zones
//! ```
//!
//! A zone is restored from a base and the steps after it. The base is the first step (stored as the nodes of its
//! version) or a snapshot. Some older snapshots are kept so that old versions are found fast. Only what the head
//! names counts: steps and snapshots of any size are written before the batch that moves the head, so no half-written
//! version is ever visible. When the steps outgrow the base, a new snapshot is written in portions between commits,
//! so a commit never costs what the zone costs. When a commit cannot continue the stored history, because it was lost
//! or damaged, the zone starts again under a new id. The old id's entries are removed in portions.
//!
//! The journal belongs to one thread. [`Reader`]s can be used from other threads.

mod acts;
mod archive;
mod beside;
mod causes;
mod codec;
mod commit;
mod corefiles;
mod difference;
mod file_finding;
mod garbage;
mod head;
mod incarnation;
mod index;
mod large_steps;
mod load;
mod load_chain;
mod name_contents;
mod open_error;
mod parcel;
mod partial_step;
mod reader;
mod recover;
mod reopening;
mod repair;
mod replica_entries;
mod replicate;
mod retention;
mod rights;
mod salvage;
mod scan;
mod segment;
mod segment_beyond;
mod segment_blocks;
mod segment_cut;
mod segment_noted;
mod segment_objects;
mod segment_opened;
mod sending;
pub mod serial_files;
mod serial_floor;
mod serial_places;
mod serial_search;
mod snapshot;
mod state_files;
mod step;
mod step_cache;
mod store;
mod stream_seek;
#[cfg(test)]
mod tests;
mod topic;
mod truncate;
mod upkeep;
mod verify;
mod verify_parts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{Candidate, Journaled, MemoryLimits, Version, next_serial};
use archive::Archive;
use codec::HEAD;
use dns::{Name, Serial};
use garbage::Garbage;
use head::Head;
use large_steps::LargeStepJob;
use reopening::Reopening;
use repair::{StateDir, create_folder, is_locked, probe_folder};
use replica_entries::Replicated;
use replicate::Coming;
use scan::scan;
use segment::Segments;
use segment_objects::NoObjects;
use segment_opened::Remote;
use serial_files::{Known, Newest, Serials};
use serial_floor::{Losses, floors, lost_note};
use serial_search::KnownTurns;
use snapshot::SnapshotJob;
use step::StepSize;
use store::{Batch, Store};
use upkeep::{LISTS_IN_MEMORY_BYTES, Occasion};

pub use crate::chain::Damage;
pub use acts::{Act, Acts};
pub use archive::Archived;
pub use beside::Beside;
pub use corefiles::KeptCorefile;
pub use file_finding::FileFinding;
pub use load_chain::LoadedChain;
pub use open_error::OpenError;
pub use parcel::{Attached, Parcel, PayloadError, Portion, Staged};
pub use partial_step::PartialStep;
pub use reader::{ReadError, Reader, StoredZone};
pub use repair::FORMAT_FILE;
pub use replica_entries::Tip;
pub use replicate::{OpenStepError, Opened, ReplicateError};
pub use retention::Retention;
pub use segment::Segment;
pub use segment_cut::{Cut, CutLimits};
pub use segment_objects::{ObjectPlace, Objects};
pub use sending::Sending;
pub use serial_floor::Lost;
#[cfg(any(test, feature = "testing"))]
pub use serial_search::find_serial;
pub use serial_search::{SerialPlace, last_of_known};
pub use state_files::check_files;
pub use step_cache::StepCache;
pub use store::{ArchiveError, ArchiveFault, StoreError};
pub use topic::Topic;
pub use verify::{Anchored, Fault, PartVerdict, Verdict};
pub use verify_parts::{SegmentPart, SegmentsVerdict};

/// After this many commits in a row that failed because of damage, a new database is started.
const DAMAGED_COMMITS: u32 = 2;
/// Entries that one commit may write or remove for the upkeep of the history.
const COMMIT_PORTION: usize = 16;
/// The same after a large commit.
const COMMIT_PORTION_MOST: usize = 512;
/// Entries that one call of [`Journal::idle`] may write or remove.
const IDLE_PORTION: usize = 64;

/// How far ahead of the clock a zone continues when its folder turns out to be a copy, in seconds.
const COPY_MARGIN_SECONDS: u64 = 3600;

/// Returns the time of day in milliseconds since 1970 UTC.
pub type WallClock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Entries of a large version in one batch, about 900 KiB.
const BATCH_ENTRIES: usize = 256;

/// The findings of opening the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// What was repaired or lost, in sentences for an operator; empty when nothing was wrong.
    pub notes: Vec<String>,
}

/// A zone read from the store.
#[derive(Debug)]
pub struct Loaded {
    /// The newest undamaged version, if there is one.
    pub version: Option<Version>,
    /// What was lost, in sentences for an operator; empty when nothing was lost.
    pub notes: Vec<String>,
}

/// The reason why a zone cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The database cannot be read or written.
    #[error("zone {apex} cannot be loaded: {source}")]
    Store {
        /// The zone.
        apex: Name,
        /// The error of the database.
        source: StoreError,
    },
    /// The database is damaged, and its readable part could not be copied to a new one.
    #[error(transparent)]
    Open(#[from] OpenError),
}

/// The reason why versions could not be made durable. The commit can be tried again.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The file `serials` could not be written.
    #[error(
        "the file of serials could not be written: {0}; the last version is served until it can"
    )]
    Serials(#[source] io::Error),
    /// The database could not be written.
    #[error("{0}; the last version is served until it can be written")]
    Store(#[from] StoreError),
    /// A serial would go back.
    #[error(
        "zone {apex}: serial {serial} is not after serial {previous}; the version is not published"
    )]
    Backwards {
        /// The zone.
        apex: Name,
        /// The serial of the newest version.
        previous: Serial,
        /// The serial of the version after it.
        serial: Serial,
    },
    /// The database could not be opened again after an earlier failure.
    #[error("{0}; the last version is served until it can be written")]
    Open(#[from] OpenError),
}

/// The versions that were dropped since the start although they were younger than `keep` of [`Retention`]: the number or
/// the size of all versions allowed no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlyDrops {
    /// Their number.
    pub count: u64,
    /// The time of the last, milliseconds since 1970 UTC.
    pub last_ms: u64,
}

/// A zone as memory knows it.
#[derive(Debug, Clone)]
struct Stored {
    /// In lower case.
    apex: Name,
    id: u32,
    head: Head,
    /// The number of the first step that may still be in the database.
    first_stored: u64,
    /// Size and time of the oldest kept step, once it was read.
    oldest_size: Option<StepSize>,
    early: EarlyDrops,
    /// Versions from before the history.
    archive: Archive,
    /// Versions that are kept elsewhere; the last of them may still be in the database.
    segments: Segments,
    /// What replicas know of it; `None` when it was never replicated.
    replica: Option<Replicated>,
}

impl Stored {
    /// The number of the oldest version that is kept, here or elsewhere, and not condensed.
    fn first(&self) -> u64 {
        let oldest = self.head.oldest;
        self.segments
            .first()
            .map_or(oldest, |first| first.min(oldest))
    }

    /// The number of the oldest version that is in no segment.
    fn unarchived(&self) -> u64 {
        let oldest = self.head.oldest;
        self.segments
            .last()
            .map_or(oldest, |last| oldest.max(last + 1))
    }

    fn describe(&self) -> StoredZone {
        StoredZone {
            apex: self.apex.clone(),
            serial: self.head.serial,
            newest: self.head.seq,
            oldest: self.first(),
            octets: self.head.octets() + self.archive.octets(),
            early: self.early,
        }
    }
}

type Zones = BTreeMap<Name, Stored>;

/// The journal of all zones.
pub struct Journal {
    dir: StateDir,
    store: Store,
    clock: WallClock,
    /// The zones of the store, shared with readers. Holds only durable versions.
    zones: Arc<RwLock<Zones>>,
    /// The id of the next new zone.
    next_id: u32,
    /// For zones whose retention is not the default.
    retention: BTreeMap<Name, Retention>,
    /// Zones whose history may be longer than a retention that was set since their last version.
    new_limits: BTreeSet<Name>,
    /// Versions that were dropped too early and not reported yet, by zone.
    early: Vec<(Name, u64)>,
    serials: Serials,
    /// The file `newest`, which shows later how much was lost.
    newest: Newest,
    /// Whether the file was written since the machine was booted.
    is_noted: bool,
    /// The ceilings as they were found, for zones without a commit since.
    floors: BTreeMap<Name, Serial>,
    /// Lost versions that no later version has recorded yet, shared with readers.
    losses: Losses,
    /// Zones with a commit since the journal was opened.
    committed: BTreeMap<Name, Serial>,
    jobs: VecDeque<SnapshotJob>,
    /// The lists of large steps that are being written.
    lists: VecDeque<LargeStepJob>,
    /// The size of the steps that are kept in memory for them.
    lists_in_memory_bytes: usize,
    garbage: VecDeque<Garbage>,
    reopening: Reopening,
    /// How many commits in a row failed because of damage.
    damaged_commits: u32,
    /// How often in a row the upkeep failed because of damage.
    damaged_upkeep: u32,
    /// What was read of the parts that are kept elsewhere.
    remote: Arc<Remote>,
    /// Entries beside the versions of zones that the next commit writes.
    beside_next: Vec<(Name, Vec<Beside>)>,
    /// What comes with the versions of the next commit; empty without replicas.
    coming: Vec<Coming>,
    /// What this replica keeps beside the zones from the next commit on.
    kept_next: Option<Vec<u8>>,
    /// Whether this run may publish versions ([`Self::begin`]).
    is_begun: bool,
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}

impl Journal {
    /// Creates the state folder if it does not exist, before the process gives up the right to.
    ///
    /// # Errors
    /// [`OpenError`] when it is a file, or cannot be created.
    pub fn create_folder(dir: &Path) -> Result<(), OpenError> {
        create_folder(dir)
    }

    /// Tests whether the state folder can be written: 1 MiB for a moment. It is created if it does not exist.
    ///
    /// # Errors
    /// [`OpenError`] when it is a file, or cannot be created or written.
    pub fn probe(dir: &Path) -> Result<(), OpenError> {
        probe_folder(dir)
    }

    /// Whether a process uses the folder.
    #[must_use]
    pub fn is_locked(dir: &Path) -> bool {
        is_locked(dir)
    }

    /// Opens the state folder, creating it if it does not exist.
    ///
    /// # Errors
    /// [`OpenError`] when the folder is locked, belongs to another program or cannot be used. Damage is no error: it
    /// is repaired as far as possible, and the report says what was done.
    pub fn open(dir: &Path, clock: WallClock) -> Result<(Self, OpenReport), OpenError> {
        let dir = StateDir::take(dir)?;
        let unusable = |doing| {
            let dir = dir.path().to_owned();
            move |source| OpenError::Unusable { dir, doing, source }
        };
        let found = Serials::read(dir.path()).map_err(unusable("reading the serials"))?;
        let mut notes = Vec::from_iter(found.note());
        let store = Store::at(&dir.database());
        let scan = dir.open_database(&store, &mut notes, scan)?;
        notes.extend(scan.notes);
        let serials = found.serials;
        if !found.present && !scan.zones.is_empty() {
            notes.push(
                "the file of serials is missing: serials continue from the database".to_owned(),
            );
        }
        let mut floors = floors(&serials, &scan.zones);
        let known = Known::read(dir.path()).map_err(unusable("reading a file in it"))?;
        serial_floor::lower(&mut floors, &known, &scan.zones);
        let losses = Losses::found(&serials, &known, &scan.zones);
        let lost = losses.all().into_iter();
        notes.extend(lost.filter_map(|(apex, lost)| lost_note(&apex, lost)));
        let journal = Self {
            newest: Newest::of(dir.path()),
            dir,
            store,
            clock,
            zones: Arc::new(RwLock::new(scan.zones)),
            next_id: scan.next_id,
            retention: BTreeMap::new(),
            new_limits: BTreeSet::new(),
            early: Vec::new(),
            serials,
            is_noted: known.is_exact,
            floors,
            losses,
            committed: BTreeMap::new(),
            jobs: VecDeque::new(),
            lists: scan.lists.into(),
            lists_in_memory_bytes: LISTS_IN_MEMORY_BYTES,
            garbage: scan.garbage.into(),
            reopening: Reopening::default(),
            damaged_commits: 0,
            damaged_upkeep: 0,
            remote: Arc::new(Remote::of(Arc::new(NoObjects))),
            beside_next: Vec::new(),
            coming: Vec::new(),
            kept_next: None,
            is_begun: false,
        };
        Ok((journal, OpenReport { notes }))
    }

    /// Begins a run that publishes versions. The folder becomes its owner's alone. If the folder is a copy, other versions may have been published since it
    /// was made: then each zone continues above its ceiling and an hour ahead of the clock, and may have lost versions
    /// ([`Self::lost`]). So does a zone of which no file says what was announced. Returns what was found, in sentences for an operator.
    ///
    /// # Errors
    /// [`OpenError`] when the folder cannot be read or written.
    pub fn begin(&mut self) -> Result<Vec<String>, OpenError> {
        let dir = self.dir.path().to_owned();
        let unusable = |doing| {
            let dir = dir.clone();
            move |source| OpenError::Unusable { dir, doing, source }
        };
        let mut notes = Vec::new();
        rights::restrict(&dir, &mut notes);
        let is_copy = incarnation::is_copy(&dir).map_err(unusable("reading a file in it"))?;
        let floors = self.floors_of_unknown(is_copy);
        // All of this is durable before the folder is no copy any more. A zone whose line was lost gets one again.
        let covered: Vec<_> = (self.zones().values())
            .map(|stored| {
                let floor = floors.get(&stored.apex).copied();
                (stored.apex.clone(), floor.unwrap_or(stored.head.serial))
            })
            .collect();
        self.serials
            .cover(&covered)
            .map_err(unusable("writing the serials"))?;
        let is_unknown = !floors.is_empty();
        for (apex, floor) in floors {
            let kept = self.zones().get(&apex).map(|stored| stored.head.serial);
            self.losses.doubt(&apex, kept, floor);
            self.floors.insert(apex, floor);
        }
        if is_unknown {
            self.note_newest();
        }
        if is_copy {
            notes.push(format!(
                "the state folder {} is a copy: other versions may have been published since it was made; all zones \
                 continue with serials above those that these can have",
                dir.display()
            ));
        }
        incarnation::renew(&dir).map_err(unusable("writing to it"))?;
        self.is_begun = true;
        Ok(notes)
    }

    /// Whether the folder is a copy of another one, as far as it can be told. For before [`Self::begin`].
    ///
    /// # Errors
    /// [`OpenError`] when the folder cannot be read.
    pub fn is_copy(&self) -> Result<bool, OpenError> {
        let dir = self.dir.path();
        incarnation::is_copy(dir).map_err(|source| OpenError::Unusable {
            dir: dir.to_owned(),
            doing: "reading a file in it",
            source,
        })
    }

    /// The serials above which zones continue of which it is not known what was announced: all of a copied folder.
    fn floors_of_unknown(&self, is_copy: bool) -> BTreeMap<Name, Serial> {
        let ahead = (self.clock)() / 1000 + COPY_MARGIN_SECONDS;
        let zones = self.zones();
        let unknown = zones.values();
        let unknown = unknown.filter(|stored| is_copy || self.losses.is_unnoted(&stored.apex));
        let floors = unknown.map(|stored| {
            let floor = self.floors.get(&stored.apex).copied();
            let floor = next_serial(Some(stored.head.serial), floor, None, ahead);
            (stored.apex.clone(), floor)
        });
        floors.collect()
    }

    /// Whether this existing folder is empty apart from files that do no harm, so that no journal was ever opened in
    /// it.
    #[must_use]
    pub fn is_unused(dir: &Path) -> bool {
        repair::is_unused(dir)
    }

    /// Sets how much history of a zone is kept. What is too much is dropped with the next version, or by [`Self::idle`].
    pub fn set_retention(&mut self, apex: &Name, retention: Retention) {
        let apex = apex.to_lower();
        let before = self.retention.insert(apex.clone(), retention);
        if before != Some(retention) {
            self.new_limits.insert(apex);
        }
    }

    /// A serial that the zone's next one must be above, even if the database was lost; `None` when the previous
    /// version is enough.
    #[must_use]
    pub fn floor(&self, apex: &Name) -> Option<Serial> {
        self.floors.get(apex).copied()
    }

    /// The versions that a zone lost and that no version has recorded yet. The next version has to ([`Lost::cause`]).
    /// It is needed even if nothing differs from the version that is left, because secondaries may have another
    /// content.
    #[must_use]
    pub fn lost(&self, apex: &Name) -> Option<Lost> {
        self.losses.get(apex)
    }

    /// A reader of the history for any thread.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader {
            store: Arc::new(self.store.clone()),
            zones: Arc::clone(&self.zones),
            losses: self.losses.clone(),
            remote: Arc::clone(&self.remote),
            turns: KnownTurns::default(),
            is_local: false,
            is_segment: false,
            is_durable: false,
        }
    }

    /// Says how the parts of the history are read that are kept elsewhere. Readers that exist do not read them.
    pub fn set_objects(&mut self, objects: Arc<dyn Objects>) {
        self.remote = Arc::new(Remote::of(objects));
    }

    fn zones(&self) -> RwLockReadGuard<'_, Zones> {
        self.zones.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn zones_mut(&self) -> RwLockWriteGuard<'_, Zones> {
        self.zones.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restores the newest undamaged version of a zone, with as much history as the limits allow. Damaged versions
    /// after it are removed from the store.
    ///
    /// # Errors
    /// [`LoadError`] when the database cannot be read or written for another reason than damage.
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

    /// Makes candidates durable, all or none. After this they may be published.
    ///
    /// # Errors
    /// [`CommitError`] with the candidates. None of them is or will become visible; they can be committed again, or
    /// others in their place.
    pub fn commit(
        &mut self,
        candidates: Vec<Candidate>,
    ) -> Result<Vec<Journaled>, (CommitError, Vec<Candidate>)> {
        if candidates.is_empty() {
            return Ok(Vec::new());
        }
        let before = self.store.keys_written();
        let written = self.write(&candidates);
        self.beside_next.clear();
        if let Err(error) = written {
            return Err((error, candidates));
        }
        self.upkeep_after(before);
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    /// Does the upkeep that is due after a commit that began with this number of written keys.
    fn upkeep_after(&mut self, before: usize) {
        // Upkeep comes after the commit, so its failure does not fail the commit. When commits leave no idle time,
        // upkeep must still remove as much as commits add, in the long run.
        let written = self.store.keys_written().saturating_sub(before);
        let portion = COMMIT_PORTION.max(written.saturating_mul(2));
        self.try_upkeep(portion.min(COMMIT_PORTION_MOST), Occasion::Commit);
    }

    /// Does a portion of background work: writes snapshots, removes old entries, reopens a closed database. Returns
    /// whether there is more to do.
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

    /// Closes the journal: writes everything and sets the ceilings to the newest serials.
    ///
    /// # Errors
    /// [`CommitError`] when something could not be written. No published version is lost by this.
    pub fn close(mut self) -> Result<(), CommitError> {
        let newest: Vec<_> = std::mem::take(&mut self.committed).into_iter().collect();
        let synced = self.store.sync();
        self.store.close();
        synced?;
        self.serials
            .settle(&newest)
            .and_then(|()| match self.is_begun {
                true => incarnation::renew(self.dir.path()),
                false => Ok(()),
            })
            .map_err(CommitError::Serials)
    }
}

/// Readers may outlive the journal, but the database is closed, so that the folder is free for the next process.
impl Drop for Journal {
    fn drop(&mut self) {
        self.store.close();
    }
}

fn put_head(batch: &mut Batch, stored: &Stored) {
    let key = codec::zone_key(HEAD, stored.id);
    batch.put(&key, stored.head.encode(&key));
}
