//! The database: the only file that uses sled 0.34.
//!
//! Every call runs under `catch_unwind`, because sled panics on some damage. Errors of the environment (disk full, no
//! permission) are told apart from damage. After a failed write sled refuses all work, so the database is dropped and
//! opened again. On Linux `flush` alone does not reach the disk (sled uses `sync_file_range`), so [`Store::sync`]
//! calls `fdatasync` on the log.

use std::fs::{File, TryLockError};
use std::io;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ops::yield_to_others;

use crate::journal::serial_files::sync_dir;

/// The memory for sled's cache. Its default is 1 GiB; at run time we read only the newest end of each zone. sled
/// splits the cache into 256 parts, and each should hold a page of 16 values of 3.5 KiB, hence this minimum.
/// Reasoned, not compared with 32 MiB.
const CACHE_OCTETS: u64 = 16 << 20;
/// The interval in which sled's own thread writes, syncs and collects garbage.
const FLUSH_EVERY_MS: u64 = 500;
/// How often to wait for sled's threads to release a dropped database.
const RELEASE_TRIES: u32 = 250;
/// The pause between two attempts.
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// An error of the database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The environment refused: disk full, read-only, no permission. The data are unchanged.
    #[error("{doing} failed: {source}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// The database is damaged.
    #[error("{doing} failed, the database is damaged: {what}")]
    Broken {
        /// The operation that failed.
        doing: &'static str,
        /// The message of sled.
        what: String,
    },
    /// An object of an archive cannot be read. The database has nothing to do with it.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

/// Why an object of an archive cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
pub struct ArchiveError {
    /// What it means for the history.
    pub fault: ArchiveFault,
    /// The object, the versions that it has, and the reason.
    what: String,
}

impl ArchiveError {
    pub(super) const fn new(fault: ArchiveFault, what: String) -> Self {
        Self { fault, what }
    }
}

/// What it means for the history that an object of an archive cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveFault {
    /// It is not as it was written.
    Damaged,
    /// The archive does not have it.
    Lost,
    /// Nothing: the archive cannot be reached, or refuses.
    Away,
}

impl StoreError {
    pub(super) const fn io(doing: &'static str, source: io::Error) -> Self {
        Self::Io { doing, source }
    }

    /// Whether the database is damaged. Otherwise the environment refused.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Broken { .. })
    }

    /// Classifies an error of sled. If sled complains about the content of its own file, that is damage.
    fn of(doing: &'static str, error: sled::Error) -> Self {
        match error {
            sled::Error::Io(source) => {
                let damage = matches!(
                    source.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
                );
                if damage {
                    let what = source.to_string();
                    Self::Broken { doing, what }
                } else {
                    Self::Io { doing, source }
                }
            }
            sled::Error::Corruption { at, .. } => {
                let what = match at {
                    Some(place) => {
                        let at = place.lid();
                        format!("what its file db/db has from byte {at} on is not what was written")
                    }
                    None => "a part of its file db/db is not what was written".to_owned(),
                };
                Self::Broken { doing, what }
            }
            sled::Error::CollectionNotFound(_)
            | sled::Error::Unsupported(_)
            | sled::Error::ReportableBug(_) => Self::Broken {
                doing,
                what: error.to_string(),
            },
        }
    }
}

/// Calls sled. A panic becomes damage.
fn guarded<T>(
    doing: &'static str,
    call: impl FnOnce() -> Result<T, sled::Error>,
) -> Result<T, StoreError> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(StoreError::of(doing, error)),
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "panic".to_owned());
            Err(StoreError::Broken { doing, what })
        }
    }
}

/// Bytes of the database, not copied.
#[derive(Clone)]
pub(super) struct Octets(sled::IVec);

impl Octets {
    pub(super) fn of(octets: &[u8]) -> Self {
        Self(octets.into())
    }
}

impl Deref for Octets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// Changes that become visible together.
#[derive(Default)]
pub(super) struct Batch {
    batch: sled::Batch,
    keys: usize,
}

impl Batch {
    pub(super) fn put(&mut self, key: &[u8], value: Vec<u8>) {
        self.batch.insert(key, value);
        self.keys += 1;
    }

    pub(super) fn delete(&mut self, key: &[u8]) {
        self.batch.remove(key);
        self.keys += 1;
    }

    /// The number of changed keys.
    pub(super) const fn keys(&self) -> usize {
        self.keys
    }
}

struct Open {
    db: sled::Db,
    /// The log, for `fdatasync`.
    log: File,
}

/// The database, shared with readers. It can be closed and opened again while they hold it.
struct Shared {
    path: PathBuf,
    /// `None` while the database is closed.
    open: RwLock<Option<Open>>,
    /// Set when a write failed: sled refuses all work until it is opened again.
    poisoned: AtomicBool,
    /// Set when a sync failed: what is on the disk is not known then.
    failed_sync: AtomicBool,
    /// The number of keys that were set or removed.
    keys_written: AtomicUsize,
    /// The number of openings to refuse.
    #[cfg(test)]
    refused: AtomicUsize,
    /// The number of times that it was opened.
    #[cfg(test)]
    openings: AtomicUsize,
    /// The number of syncs.
    #[cfg(test)]
    syncs: AtomicUsize,
}

/// The result of reopening the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    Done,
    /// Not reopened: it takes this many bytes on the disk.
    TooLarge {
        octets: u64,
    },
}

#[derive(Clone)]
pub(super) struct Store(Arc<Shared>);

/// Some entries, with their keys.
pub(super) type Page = Result<Vec<(Octets, Octets)>, StoreError>;

/// Entries in ascending order of their keys: those of the database, or of a part of it that was stored elsewhere.
pub(super) trait Entries: Send + Sync {
    fn get(&self, key: &[u8]) -> Result<Option<Octets>, StoreError>;

    /// At most `limit` entries from `low` to `high` (exclusive), in ascending order of keys.
    fn range(&self, low: &[u8], high: &[u8], limit: usize) -> Page;

    /// At most `limit` entries from `low` to `high` (exclusive), in descending order of keys.
    fn range_back(&self, low: &[u8], high: &[u8], limit: usize) -> Page;
}

/// The entries from `low` to `high` (exclusive), in ascending order of keys. Reads `page` of them at a time.
pub(super) fn paged<'s>(
    store: &'s dyn Entries,
    low: &[u8],
    high: &[u8],
    page: usize,
) -> impl Iterator<Item = Result<(Octets, Octets), StoreError>> + use<'s> {
    let (mut from, high) = (low.to_vec(), high.to_vec());
    let mut read = Vec::new().into_iter();
    std::iter::from_fn(move || {
        if read.len() == 0 {
            match store.range(&from, &high, page) {
                Ok(found) => read = found.into_iter(),
                Err(error) => return Some(Err(error)),
            }
        }
        let (key, value) = read.next()?;
        from = [&key[..], &[0]].concat();
        Some(Ok((key, value)))
    })
}

impl Entries for Store {
    fn get(&self, key: &[u8]) -> Result<Option<Octets>, StoreError> {
        self.with("reading the database", |open| {
            Ok(open.db.get(key)?.map(Octets))
        })
    }

    fn range(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        self.with("reading the database", |open| {
            first_of(open.db.range(low..high), limit)
        })
    }

    fn range_back(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        self.with("reading the database", |open| {
            first_of(open.db.range(low..high).rev(), limit)
        })
    }
}

impl Store {
    /// A handle of the database in a folder, not open yet.
    pub(super) fn at(path: &Path) -> Self {
        Self(Arc::new(Shared {
            path: path.to_owned(),
            open: RwLock::new(None),
            poisoned: AtomicBool::new(true),
            failed_sync: AtomicBool::new(false),
            keys_written: AtomicUsize::new(0),
            #[cfg(test)]
            refused: AtomicUsize::new(0),
            #[cfg(test)]
            openings: AtomicUsize::new(0),
            #[cfg(test)]
            syncs: AtomicUsize::new(0),
        }))
    }

    /// Whether a write failed since the database was opened, or it is closed.
    pub(super) fn is_poisoned(&self) -> bool {
        self.0.poisoned.load(Ordering::Acquire)
    }

    /// Whether the database is open. Otherwise readers get an error.
    pub(super) fn is_open(&self) -> bool {
        let open = self.0.open.read().unwrap_or_else(PoisonError::into_inner);
        open.is_some()
    }

    /// Closes the database. Readers get an error until it is open again.
    pub(super) fn close(&self) {
        self.0.poisoned.store(true, Ordering::Release);
        let mut open = self.0.open.write().unwrap_or_else(PoisonError::into_inner);
        let last = open.take();
        drop(open);
        let_go(last);
    }

    /// Closes the database and opens it again to free sled's memory, unless it takes more than `most` bytes on the
    /// disk. Readers wait meanwhile. After a failure it stays closed until [`Self::open`] succeeds.
    pub(super) fn renew(&self, most: u64) -> Result<Renewal, StoreError> {
        self.sync()?;
        let octets = self.with("measuring the database", |open| open.db.size_on_disk())?;
        if octets > most {
            return Ok(Renewal::TooLarge { octets });
        }
        let mut open = self.0.open.write().unwrap_or_else(PoisonError::into_inner);
        self.0.poisoned.store(true, Ordering::Release);
        let_go(open.take());
        *open = Some(self.open_db()?);
        self.0.poisoned.store(false, Ordering::Release);
        Ok(Renewal::Done)
    }

    /// Makes the next call fail, as on a full disk.
    #[cfg(test)]
    pub(super) fn refuse_next(&self) {
        let mut open = self.0.open.write().unwrap_or_else(PoisonError::into_inner);
        drop(open.take());
    }

    /// Makes the next openings fail.
    #[cfg(test)]
    pub(super) fn refuse_openings(&self, openings: usize) {
        self.0.refused.store(openings, Ordering::Relaxed);
    }

    /// The number of times that the database was opened.
    #[cfg(test)]
    pub(super) fn openings(&self) -> usize {
        self.0.openings.load(Ordering::Relaxed)
    }

    /// The number of syncs.
    #[cfg(test)]
    pub(super) fn syncs(&self) -> usize {
        self.0.syncs.load(Ordering::Relaxed)
    }

    /// Opens or creates the database.
    pub(super) fn open(&self) -> Result<(), StoreError> {
        let open = self.open_db()?;
        *self.0.open.write().unwrap_or_else(PoisonError::into_inner) = Some(open);
        self.0.poisoned.store(false, Ordering::Release);
        Ok(())
    }

    fn open_db(&self) -> Result<Open, StoreError> {
        #[cfg(test)]
        {
            let less = |left: usize| left.checked_sub(1);
            let order = Ordering::Relaxed;
            if self.0.refused.fetch_update(order, order, less).is_ok() {
                let full = io::ErrorKind::StorageFull.into();
                return Err(StoreError::io("opening the database", full));
            }
            self.0.openings.fetch_add(1, order);
        }
        open_db(&self.0.path)
    }

    fn with<T>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&Open) -> Result<T, sled::Error>,
    ) -> Result<T, StoreError> {
        yield_to_others();
        let guard = self.0.open.read().unwrap_or_else(PoisonError::into_inner);
        match guard.as_ref() {
            None => Err(StoreError::io(doing, io::ErrorKind::NotConnected.into())),
            Some(open) => guarded(doing, || call(open)),
        }
    }

    /// Applies a batch. After a crash, all of it or nothing is there. Durable only after [`Self::sync`].
    pub(super) fn write(&self, batch: Batch) -> Result<(), StoreError> {
        self.0
            .keys_written
            .fetch_add(batch.keys(), Ordering::Relaxed);
        let done = self.with("writing the database", |open| {
            open.db.apply_batch(batch.batch)
        });
        self.note(done)
    }

    /// The number of keys that were set or removed so far, including failed writes.
    pub(super) fn keys_written(&self) -> usize {
        self.0.keys_written.load(Ordering::Relaxed)
    }

    /// Brings everything written so far to the disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        #[cfg(test)]
        self.0.syncs.fetch_add(1, Ordering::Relaxed);
        let done = self.with("syncing the database", |open| {
            let synced = open.db.flush().map(drop);
            let synced = synced.and_then(|()| Ok(open.log.sync_data()?));
            if synced.is_err() {
                self.0.failed_sync.store(true, Ordering::Release);
            }
            synced
        });
        self.note(done)
    }

    /// Whether a sync ever failed.
    pub(super) fn has_failed_sync(&self) -> bool {
        self.0.failed_sync.load(Ordering::Acquire)
    }

    fn note<T>(&self, done: Result<T, StoreError>) -> Result<T, StoreError> {
        if done.is_err() {
            self.0.poisoned.store(true, Ordering::Release);
        }
        done
    }
}

fn first_of(
    entries: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    limit: usize,
) -> sled::Result<Vec<(Octets, Octets)>> {
    entries
        .take(limit)
        .map(|entry| entry.map(|(key, value)| (Octets(key), Octets(value))))
        .collect()
}

/// Drops the handle of the database, which closes it.
fn let_go(open: Option<Open>) {
    // sled panics when a sync fails while it is dropped. Data that were not synced were not published.
    if catch_unwind(AssertUnwindSafe(|| drop(open))).is_err() {
        tracing::warn!("the database did not close cleanly");
    }
}

/// Opens sled. Threads of a handle that was dropped a moment ago may still hold sled's lock, which is of no kind of its
/// own in sled's errors: so the lock is tried here first. Other processes are kept out by the journal's lock.
fn open_db(path: &Path) -> Result<Open, StoreError> {
    const DOING: &str = "opening the database";
    for _ in 0..RELEASE_TRIES {
        if !is_locked(&path.join("db")) {
            break;
        }
        std::thread::park_timeout(RELEASE_PAUSE);
    }
    let db = guarded(DOING, || {
        sled::Config::new()
            .path(path)
            .cache_capacity(CACHE_OCTETS)
            .mode(sled::Mode::LowSpace)
            .flush_every_ms(Some(FLUSH_EVERY_MS))
            .open()
    })?;
    let failed = |error| StoreError::io(DOING, error);
    let log = File::open(path.join("db")).map_err(failed)?;
    // sled syncs its files, but not the folder with their names. Without this, a log that was synced many times can
    // disappear after a loss of power.
    for folder in [Some(path), path.parent()].into_iter().flatten() {
        sync_dir(folder).map_err(failed)?;
    }
    Ok(Open { db, log })
}

/// Whether a file is locked. A file that cannot be opened is not: sled names the reason.
fn is_locked(file: &Path) -> bool {
    let locked = File::open(file).map(|file| file.try_lock());
    matches!(locked, Ok(Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_of_the_database_is_said_in_words() {
        let error = sled::Error::Corruption { at: None, bt: () };
        let error = StoreError::of("reading the database", error);
        assert!(error.is_damage());
        let want = "reading the database failed, the database is damaged: a part of its file db/db is not what was written";
        assert_eq!(error.to_string(), want);
    }
}
