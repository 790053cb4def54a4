//! Opens the state folder: checks that it is ours and free, and repairs the database when sled cannot open it.
//!
//! There are three attempts. Each follows only when the one before failed because of damage, never because the disk
//! is full or the folder is read-only. The first opens the database as it is, without left-over `snap.*.generating`
//! files, which make sled 0.34 fail for good. The second removes its snapshots and settings file, so that it reads
//! its log from the start. The third moves the database aside, in one piece for later study, and starts a new one
//! with the readable part of the old one. The file `opening` counts opens that did not finish; after several of them
//! the next attempt starts at once.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::journal::codec::{self, FORMAT, FORMAT_BEFORE, FORMAT_TEXT, META_KEY};
use crate::journal::open_error::OpenError;
use crate::journal::rights::{self, KeptFromUs, first_kept_from_us};
use crate::journal::salvage::copy_readable;
use crate::journal::serial_files::{sync_dir, write_durably};
use crate::journal::store::{Batch, Entries, Store, StoreError};

/// The file that marks the folder as ours and names its layout.
pub const FORMAT_FILE: &str = "format";
/// The name under which it is written before it is renamed.
const FORMAT_NEXT: &str = "format.next";
/// The file that is locked while a process uses the folder.
const LOCK_FILE: &str = "lock";
const DATABASE: &str = "db";
/// Damaged files are moved to a folder with this name, a dash and a number.
const DAMAGED: &str = "damaged";
/// The number of such folders that are kept.
const DAMAGED_KEPT: u32 = 4;
/// The file that counts opens that did not finish.
const OPENING: &str = "opening";
/// After this many of them, sled's snapshots are removed.
const OPENS_WITHOUT_SNAPSHOT: u32 = 5;
/// After this many of them, the database is moved aside.
const OPENS_WITHOUT_DATABASE: u32 = 10;
/// Files that may be in a new folder.
const HARMLESS: [&str; 5] = [LOCK_FILE, FORMAT_NEXT, PROBE, "control.sock", "lost+found"];
/// The file that is written to find out whether the disk is full.
const PROBE: &str = "probe";
/// Its bytes.
const PROBE_OCTETS: usize = 1 << 20;

/// A folder that is ours and locked.
#[derive(Debug)]
pub(super) struct StateDir {
    path: PathBuf,
    /// Holds the lock.
    _lock: File,
}

/// Creates the folder if it is not there.
pub(super) fn create_folder(path: &Path) -> Result<(), OpenError> {
    if path.is_file() {
        let dir = path.to_owned();
        return Err(OpenError::File { dir });
    }
    rights::create(path).map_err(|source| OpenError::Unusable {
        dir: path.to_owned(),
        doing: "creating it",
        source,
    })
}

/// Creates the folder if it is not there, and tests whether it can be written. Nothing is written to a folder that is not
/// ours.
pub(super) fn probe_folder(path: &Path) -> Result<(), OpenError> {
    create_folder(path)?;
    check_owners(path)?;
    check_format(path)?;
    probe(path).map_err(|source| {
        let is_kept = source.kind() == io::ErrorKind::PermissionDenied;
        let found = is_kept.then(|| KeptFromUs::at(path, "write")).flatten();
        kept_from_us(path, found).unwrap_or_else(|| OpenError::Unusable {
            dir: path.to_owned(),
            doing: "writing to it",
            source,
        })
    })
}

/// Checks that nothing in the folder is kept from us by its owner.
fn check_owners(path: &Path) -> Result<(), OpenError> {
    kept_from_us(path, first_kept_from_us(path)).map_or(Ok(()), Err)
}

/// The error of what is kept from us.
fn kept_from_us(dir: &Path, found: Option<KeptFromUs>) -> Option<OpenError> {
    let KeptFromUs { path, owner, doing } = found?;
    Some(OpenError::KeptFromUs {
        dir: dir.to_owned(),
        path,
        owner,
        doing,
    })
}

/// Tests whether the disk is full, because a full disk must not look like damage.
fn probe(dir: &Path) -> io::Result<()> {
    let path = dir.join(PROBE);
    let written = File::create(&path).and_then(|mut file| {
        file.write_all(&vec![0x5a; PROBE_OCTETS])?;
        file.sync_all()
    });
    match fs::remove_file(&path) {
        // By another process that tries the same.
        Err(error) if error.kind() == io::ErrorKind::NotFound => written,
        removed => written.and(removed),
    }
}

/// Whether a process uses the folder.
pub(super) fn is_locked(path: &Path) -> bool {
    match File::open(path.join(LOCK_FILE)) {
        Ok(file) => matches!(file.try_lock(), Err(TryLockError::WouldBlock)),
        Err(_) => false,
    }
}

impl StateDir {
    /// Takes an existing folder, or creates it.
    pub(super) fn take(path: &Path) -> Result<Self, OpenError> {
        let unusable = |doing| {
            move |source| OpenError::Unusable {
                dir: path.to_owned(),
                doing,
                source,
            }
        };
        create_folder(path)?;
        check_owners(path)?;
        let known = check_format(path)?;
        let lock = take_lock(path)?;
        if !known {
            let text = format!("{FORMAT_TEXT}{FORMAT}\n");
            write_durably(path, FORMAT_FILE, FORMAT_NEXT, text.as_bytes())
                .map_err(unusable("writing to it"))?;
        }
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE)
    }

    /// Opens the database and repairs it if necessary. `check` reads what must be readable.
    pub(super) fn open_database<T>(
        &self,
        store: &Store,
        notes: &mut Vec<String>,
        check: impl Fn(&Store) -> Result<T, StoreError>,
    ) -> Result<T, OpenError> {
        let failed = self.count_opening();
        let (first, keep) = match failed {
            ..OPENS_WITHOUT_SNAPSHOT => (Rung::AsItIs, Keep::Readable),
            OPENS_WITHOUT_SNAPSHOT..OPENS_WITHOUT_DATABASE => (Rung::FromLog, Keep::Readable),
            // Reading it ended the process, so do not read it again.
            _ => (Rung::Anew, Keep::Nothing),
        };
        if first != Rung::AsItIs {
            notes.push(format!(
                "{failed} attempts to open the database did not finish"
            ));
        }
        let opened = self.climb(store, first, keep, notes, check);
        if let Err(error) = fs::remove_file(self.path.join(OPENING)) {
            tracing::debug!(%error, "cannot remove the file that counts failed attempts to open the database");
        }
        opened
    }

    /// Moves the database aside and starts a new one.
    pub(super) fn start_anew<T>(
        &self,
        store: &Store,
        keep: Keep,
        notes: &mut Vec<String>,
        check: impl Fn(&Store) -> Result<T, StoreError>,
    ) -> Result<T, OpenError> {
        self.climb(store, Rung::Anew, keep, notes, check)
    }

    fn climb<T>(
        &self,
        store: &Store,
        first: Rung,
        keep: Keep,
        notes: &mut Vec<String>,
        check: impl Fn(&Store) -> Result<T, StoreError>,
    ) -> Result<T, OpenError> {
        let mut rung = first;
        loop {
            store.close();
            let aside = self.prepare(rung, keep, notes)?;
            let opened = store
                .open()
                .and_then(|()| check_meta(store))
                .and_then(|()| {
                    if let (Some(aside), Keep::Readable) = (aside, keep) {
                        self.take_over(&aside, store)?;
                    }
                    check(store)
                });
            match (opened, rung.next()) {
                (Ok(checked), _) => return Ok(checked),
                (Err(error), Some(next)) if error.is_damage() => {
                    notes.push(error.to_string());
                    rung = next;
                }
                (Err(source), _) => {
                    store.close();
                    return Err(OpenError::Database {
                        dir: self.path.clone(),
                        source,
                    });
                }
            }
        }
    }

    /// Copies the readable part of a database that was moved aside.
    fn take_over(&self, aside: &Path, store: &Store) -> Result<(), StoreError> {
        let old = Store::at(&aside.join(DATABASE));
        let copied = match old.open() {
            Ok(()) => copy_readable(&old, store),
            // Not even its log opens: nothing is copied.
            Err(_) => Ok(()),
        };
        old.close();
        copied
    }

    /// Moves away the files that an attempt opens without. Returns the folder to which a whole database was moved.
    fn prepare(
        &self,
        rung: Rung,
        keep: Keep,
        notes: &mut Vec<String>,
    ) -> Result<Option<PathBuf>, OpenError> {
        let done = match rung {
            Rung::AsItIs => self.remove_unfinished(notes).map(|()| None),
            Rung::FromLog => self.move_snapshots(notes).map(|()| None),
            Rung::Anew => self.move_database(keep, notes),
        };
        done.map_err(|source| OpenError::Unusable {
            dir: self.path.clone(),
            doing: "moving damaged files aside",
            source,
        })
    }

    /// Removes index files that sled did not finish.
    fn remove_unfinished(&self, notes: &mut Vec<String>) -> io::Result<()> {
        let unfinished = files_named(&self.database(), |name| name.ends_with(".generating"))?;
        for path in &unfinished {
            fs::remove_file(path)?;
        }
        if !unfinished.is_empty() {
            notes.push(format!(
                "{} unfinished index files of the database were removed; nothing is lost",
                unfinished.len()
            ));
        }
        Ok(())
    }

    /// Moves sled's index files and its settings away.
    fn move_snapshots(&self, notes: &mut Vec<String>) -> io::Result<()> {
        probe(&self.path)?;
        let database = self.database();
        let files = files_named(&database, |name| {
            name.starts_with("snap.") || name == "conf"
        })?;
        if files.is_empty() {
            return Ok(());
        }
        let aside = self.damaged_folder()?;
        for path in &files {
            if let Some(name) = path.file_name() {
                fs::rename(path, aside.join(name))?;
            }
        }
        sync_dir(&database)?;
        notes.push(format!(
            "{} index files of the database were moved to {} and are rebuilt from its log",
            files.len(),
            aside.display()
        ));
        Ok(())
    }

    fn move_database(&self, keep: Keep, notes: &mut Vec<String>) -> io::Result<Option<PathBuf>> {
        probe(&self.path)?;
        let database = self.database();
        if !database.exists() {
            return Ok(None);
        }
        let aside = self.damaged_folder()?;
        fs::rename(&database, aside.join(DATABASE))?;
        sync_dir(&self.path)?;
        let taken = match keep {
            Keep::Readable => "its readable part is copied to a new one",
            Keep::Nothing => "nothing of it is copied",
        };
        notes.push(format!(
            "the damaged database was moved to {}; {taken}, serials continue",
            aside.display()
        ));
        Ok(Some(aside))
    }

    /// Creates a folder for damaged files, and removes the oldest but one if there are too many.
    fn damaged_folder(&self) -> io::Result<PathBuf> {
        let mut number = 1;
        while self.path.join(format!("{DAMAGED}-{number}")).exists() {
            number += 1;
        }
        if number > DAMAGED_KEPT {
            // The first is kept, because it is nearest to the cause. The others move up.
            fs::remove_dir_all(self.path.join(format!("{DAMAGED}-2")))?;
            for later in 3..number {
                fs::rename(
                    self.path.join(format!("{DAMAGED}-{later}")),
                    self.path.join(format!("{DAMAGED}-{}", later - 1)),
                )?;
            }
            number -= 1;
        }
        let folder = self.path.join(format!("{DAMAGED}-{number}"));
        fs::create_dir(&folder)?;
        Ok(folder)
    }

    /// Counts this open. Returns how many before it did not finish.
    fn count_opening(&self) -> u32 {
        let path = self.path.join(OPENING);
        let failed = fs::read_to_string(&path)
            .ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0_u32);
        // Without the marker, crash loops are not noticed. Everything else works.
        if let Err(error) = fs::write(&path, failed.saturating_add(1).to_string()) {
            tracing::debug!(%error, "cannot write the file that counts failed attempts to open the database");
        }
        failed
    }
}

/// The settings of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    AsItIs,
    /// Without sled's snapshots, from its log.
    FromLog,
    /// A new database; the old one is moved aside.
    Anew,
}

/// What a new database takes from the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    Readable,
    Nothing,
}

impl Rung {
    /// The attempt after this one.
    const fn next(self) -> Option<Self> {
        match self {
            Self::AsItIs => Some(Self::FromLog),
            Self::FromLog => Some(Self::Anew),
            Self::Anew => None,
        }
    }
}

/// Whether an existing folder contains neither our files nor others.
pub(super) fn is_unused(path: &Path) -> bool {
    matches!(check_format(path), Ok(false)) && !path.join(FORMAT_FILE).exists()
}

/// Whether the folder has our format file. Fails for the file of another layout.
fn check_format(path: &Path) -> Result<bool, OpenError> {
    let unusable = |source| OpenError::Unusable {
        dir: path.to_owned(),
        doing: "reading it",
        source,
    };
    let read = fs::read(path.join(FORMAT_FILE));
    match read.map(|octets| String::from_utf8_lossy(&octets).into_owned()) {
        Ok(text) if text.trim_end() == format!("{FORMAT_TEXT}{FORMAT}") => return Ok(true),
        // The format file is rewritten before anything else, because older releases cannot read the new entries.
        Ok(text) if text.trim_end() == format!("{FORMAT_TEXT}{FORMAT_BEFORE}") => return Ok(false),
        Ok(text) => {
            return Err(OpenError::OtherFormat {
                dir: path.to_owned(),
                found: text.lines().next().unwrap_or_default().to_owned(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unusable(error)),
    }
    let mut others = Vec::new();
    for entry in fs::read_dir(path).map_err(unusable)? {
        let name = entry.map_err(unusable)?.file_name();
        if !HARMLESS.iter().any(|known| name == *known) {
            others.push(name.to_string_lossy().into_owned());
        }
    }
    others.sort_unstable();
    match others.into_iter().next() {
        None => Ok(false),
        Some(found) => Err(OpenError::Foreign {
            dir: path.to_owned(),
            found,
        }),
    }
}

/// Locks the folder and writes our process id into the lock file, for the message of the next process.
fn take_lock(path: &Path) -> Result<File, OpenError> {
    let unusable = |source| OpenError::Unusable {
        dir: path.to_owned(),
        doing: "locking it",
        source,
    };
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path.join(LOCK_FILE))
        .map_err(unusable)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = file.read_to_string(&mut holder);
            let holder = match holder.trim().parse::<u32>() {
                Ok(process) if read.is_ok() => format!("process {process}"),
                _ => "another process".to_owned(),
            };
            return Err(OpenError::Locked {
                dir: path.to_owned(),
                holder,
            });
        }
        Err(TryLockError::Error(error)) => return Err(unusable(error)),
    }
    let named = file
        .set_len(0)
        .and_then(|()| writeln!(file, "{}", std::process::id()));
    if let Err(error) = named {
        // The lock holds without the process id too (full disk); only the next process's message is less exact.
        tracing::debug!(%error, "cannot write the process id to the lock file");
    }
    Ok(file)
}

/// The files of a folder whose names match; none when the folder does not exist.
fn files_named(folder: &Path, fits: impl Fn(&str) -> bool) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(&fits) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Checks the database's own entry. A new database gets one.
fn check_meta(store: &Store) -> Result<(), StoreError> {
    const DOING: &str = "reading the database";
    let broken = |what: &str| StoreError::Broken {
        doing: DOING,
        what: what.to_owned(),
    };
    if let Some(value) = store.get(META_KEY)? {
        let payload =
            codec::unseal(META_KEY, &value).ok_or_else(|| broken("its first record is damaged"))?;
        return if payload == FORMAT.to_be_bytes() {
            Ok(())
        } else if payload == FORMAT_BEFORE.to_be_bytes() {
            write_meta(store)
        } else {
            Err(broken("it has another layout"))
        };
    }
    if !store.range(&[0], &[0xff], 1)?.is_empty() {
        return Err(broken("its first record is missing"));
    }
    write_meta(store)
}

fn write_meta(store: &Store) -> Result<(), StoreError> {
    let mut batch = Batch::default();
    batch.put(
        META_KEY,
        codec::seal(META_KEY, FORMAT.to_be_bytes().to_vec()),
    );
    store.write(batch)?;
    store.sync()
}
