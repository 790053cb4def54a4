//! Tells whether the state folder is the one that the last run left, or a copy.
//!
//! A copy from yesterday is consistent in itself: it does not know which serials were published since. So each start
//! writes a new random number to the file `incarnation`, and so does each end. The file `mark` notes the number and
//! which file has it: its inode, its time of birth and the time of its content. A copy has the same number in another
//! file, and a file that is put back over a newer one has another number.
//!
//! A copy below the file system (a snapshot of a volume) has the same inodes and times. It cannot be told from the
//! original here: what secondaries have shows it, and the clock.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use crate::journal::serial_files::write_durably;

const FILE: &str = "incarnation";
const FILE_NEXT: &str = "incarnation.next";
const MARK: &str = "mark";
const MARK_NEXT: &str = "mark.next";

/// Whether the folder is a copy, or was put together from files of different times. A folder without both files is
/// none: it is new, or an older release wrote it.
pub(super) fn is_copy(dir: &Path) -> io::Result<bool> {
    let mark = match fs::read_to_string(dir.join(MARK)) {
        Ok(mark) => mark,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    match describe(dir) {
        Ok(found) => Ok(found != mark),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

/// Begins a new incarnation.
pub(super) fn renew(dir: &Path) -> io::Result<()> {
    // The keys of each hasher are random.
    let number = RandomState::new().hash_one(SystemTime::UNIX_EPOCH);
    write_durably(dir, FILE, FILE_NEXT, format!("{number:016x}\n").as_bytes())?;
    write_durably(dir, MARK, MARK_NEXT, describe(dir)?.as_bytes())
}

/// The number of the incarnation, and which file has it.
fn describe(dir: &Path) -> io::Result<String> {
    let path = dir.join(FILE);
    let number = fs::read_to_string(&path)?;
    let file = fs::metadata(&path)?;
    // Not all file systems know it.
    let born = file.created().ok();
    let born = born.and_then(|born| born.duration_since(SystemTime::UNIX_EPOCH).ok());
    let born = born.unwrap_or_default().as_nanos();
    let written = (file.mtime(), file.mtime_nsec());
    Ok(format!(
        "{} {} {born} {}.{:09}\n",
        number.trim(),
        file.ino(),
        written.0,
        written.1
    ))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    /// Copies the files of a folder to another one, with the times of their content.
    fn copy(from: &Path, to: &Path) {
        for name in [FILE, MARK] {
            fs::copy(from.join(name), to.join(name)).unwrap();
            let modified = fs::metadata(from.join(name)).unwrap().modified().unwrap();
            let file = fs::File::options()
                .append(true)
                .open(to.join(name))
                .unwrap();
            file.set_modified(modified).unwrap();
        }
    }

    #[test]
    fn a_folder_that_was_moved_is_itself_and_a_copy_is_not() {
        // security 4
        let (folder, aside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let dir = folder.path();
        assert!(!is_copy(dir).unwrap(), "new");
        renew(dir).unwrap();
        assert!(!is_copy(dir).unwrap());
        let moved = aside.path().join("moved");
        fs::rename(dir, &moved).unwrap();
        assert!(!is_copy(&moved).unwrap(), "moved");
        fs::rename(&moved, dir).unwrap();
        copy(dir, aside.path());
        assert!(is_copy(aside.path()).unwrap(), "copied");
        // Put back over what came meanwhile.
        renew(dir).unwrap();
        copy(aside.path(), dir);
        assert!(is_copy(dir).unwrap(), "put back");
        renew(dir).unwrap();
        assert!(!is_copy(dir).unwrap());
        fs::remove_file(dir.join(FILE)).unwrap();
        assert!(is_copy(dir).unwrap(), "in part");
    }
}
