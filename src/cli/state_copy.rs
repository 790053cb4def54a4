//! `--read-only`: a copy of the state folder in a temporary one, because opening a database writes to it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use tempfile::TempDir;

use crate::failure::Failure;
use crate::runtime::history_access::PastError;

/// The space that stays free beside the copy.
const LEFT_FREE_BYTES: u64 = 64 << 20;
/// Folders that are not copied: databases that were moved aside.
const DAMAGED: &str = "damaged-";
/// The file that is locked while a process uses the folder.
const LOCK: &str = "lock";

/// A copy of a state folder, removed at the end.
pub(super) struct StateCopy(TempDir);

impl StateCopy {
    /// Copies a state folder to `$TMPDIR`, and looks at the folder while nobody may use it. Costs the size of the folder, on
    /// disk and in time. Waits for nothing: a folder in use is busy.
    pub(super) fn of<T>(
        state: &Path,
        look: impl FnOnce(&Path) -> Result<T, PastError>,
    ) -> Result<(Self, T), PastError> {
        let failed = |path: &Path, error: io::Error| {
            PastError::Other(Failure::unusable(format!("{}: {error}", path.display())))
        };
        let _lock = shared_lock(state)?;
        let files = files_of(state).map_err(|error| failed(state, error))?;
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        let place = std::env::temp_dir();
        let space = statvfs(&place).map_err(|error| failed(&place, error.into()))?;
        let free = space.f_bavail.saturating_mul(space.f_frsize);
        if bytes.saturating_add(LEFT_FREE_BYTES) > free {
            return Err(PastError::Other(Failure::unusable(format!(
                "--read-only copies the {bytes} bytes of {}, and {} has {free} bytes free: set $TMPDIR to a folder with \
                 more space",
                state.display(),
                place.display()
            ))));
        }
        // Only its owner can enter it.
        let copy = TempDir::with_prefix("zonewright-").map_err(|error| failed(&place, error))?;
        for StateFile { name, .. } in &files {
            let (from, to) = (state.join(name), copy.path().join(name));
            let folder = to.parent().unwrap_or(copy.path());
            fs::create_dir_all(folder)
                .and_then(|()| io::copy(&mut File::open(&from)?, &mut File::create(&to)?))
                .map_err(|error| failed(&from, error))?;
        }
        tracing::info!(bytes, "a copy of the state folder is read");
        Ok((Self(copy), look(state)?))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Keeps a server from starting while the folder is copied.
fn shared_lock(state: &Path) -> Result<Option<File>, PastError> {
    // A folder that was copied without the file is in nobody's use.
    let Ok(lock) = File::open(state.join(LOCK)) else {
        return Ok(None);
    };
    match lock.try_lock_shared() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(PastError::Busy(Failure::unusable(format!(
            "the state folder {} is in use by another process: stop it, or read a snapshot of the volume",
            state.display()
        )))),
        // A file system without locks has no server.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// A file of a state folder.
struct StateFile {
    /// Below the folder.
    name: PathBuf,
    bytes: u64,
}

/// The files of a state folder that hold the history. None of its sockets, and no database that was moved aside.
fn files_of(state: &Path) -> io::Result<Vec<StateFile>> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(state.join(&folder))? {
            let entry = entry?;
            let name = folder.join(entry.file_name());
            let found = fs::metadata(entry.path())?;
            let is_aside = entry.file_name().to_string_lossy().starts_with(DAMAGED);
            if found.is_dir() && !is_aside {
                folders.push(name);
            } else if found.is_file() && name != Path::new(LOCK) {
                let bytes = found.len();
                files.push(StateFile { name, bytes });
            }
        }
    }
    Ok(files)
}
