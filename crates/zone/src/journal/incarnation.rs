//! Tells whether the state folder is the one that the last run left, or a copy.
//!
//! A copy from yesterday is consistent in itself: it does not know which serials were published since. So each start
//! writes a new random number to the file `incarnation`, and so does each end. The file `mark` notes the number and
//! which file has it: its inode, its time of birth and the time of its content. A copy has the same number in another
//! file, and a file that is put back over a newer one has another number. The last eight digits of the number are a
//! checksum of the others (CRC-32); numbers of older releases do not have it.
//!
//! A copy below the file system (a snapshot of a volume) has the same inodes and times. It cannot be told from the
//! original here: what secondaries have shows it, and the clock.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

use crate::chain::Damage;
use crate::journal::file_finding::{FileFinding, read_if_there};
use crate::journal::serial_files::{sum, write_durably};

const FILE: &str = "incarnation";
const FILE_NEXT: &str = "incarnation.next";
const MARK: &str = "mark";
const MARK_NEXT: &str = "mark.next";

/// Whether the folder is a copy, or was put together from files of different times. A folder without both files is
/// none: it is new, or an older release wrote it.
pub(super) fn is_copy(dir: &Path) -> io::Result<bool> {
    let Some(mark) = read_if_there(dir, MARK)? else {
        return Ok(false);
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
    let line = format!("{}\n", summed(&format!("{number:016x}")));
    write_durably(dir, FILE, FILE_NEXT, line.as_bytes())?;
    write_durably(dir, MARK, MARK_NEXT, describe(dir)?.as_bytes())
}

/// The number of the incarnation, and which file has it.
fn describe(dir: &Path) -> io::Result<String> {
    let path = dir.join(FILE);
    let number = read_if_there(dir, FILE)?.ok_or(io::ErrorKind::NotFound)?;
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

/// Digits with their checksum.
fn summed(digits: &str) -> String {
    format!("{digits}{}", sum(digits))
}

/// Whether a number is as it was written, as far as it tells.
fn is_number(number: &str) -> bool {
    let is_plain =
        |digits: &str| digits.len() == 16 && digits.bytes().all(|it| it.is_ascii_hexdigit());
    let digits = number.split_at_checked(16).map(|(digits, _)| digits);
    is_plain(number) || digits.is_some_and(|digits| is_plain(digits) && summed(digits) == number)
}

/// Whether a mark has the form of one.
fn is_mark(mark: &str) -> bool {
    let is_count = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let words: Vec<&str> = mark.trim_end().split(' ').collect();
    let [number, inode, born, written] = words[..] else {
        return false;
    };
    let written = written.split_once('.');
    let is_time = written.is_some_and(|(seconds, rest)| is_count(seconds) && is_count(rest));
    is_number(number) && is_count(inode) && is_count(born) && is_time
}

/// Checks both files for an auditor.
pub(super) fn check(dir: &Path) -> io::Result<Option<FileFinding>> {
    let (number, mark) = (read_if_there(dir, FILE)?, read_if_there(dir, MARK)?);
    let found = |file, damage, what: &str| {
        let what = what.to_owned();
        Some(FileFinding { file, damage, what })
    };
    let missing = "it is missing: whether the folder is a copy of another one is not known";
    Ok(match (number, mark) {
        (None, None) => None,
        (None, Some(_)) => found(FILE, Some(Damage::Unknown), missing),
        (Some(_), None) => found(MARK, Some(Damage::Unknown), missing),
        (Some(number), Some(_)) if !is_number(number.trim()) => found(
            FILE,
            Some(Damage::Changed),
            "its number is not as it was written: the next start takes the folder for a copy",
        ),
        (Some(_), Some(mark)) if !is_mark(&mark) => found(
            MARK,
            Some(Damage::Changed),
            "it is not as it was written: the next start takes the folder for a copy",
        ),
        (Some(number), Some(mark)) if mark.split(' ').next() != Some(number.trim()) => {
            let what = "it is the mark of another incarnation: one of the files was put back, or the process ended while they \
                        were written. The next start takes the folder for a copy";
            found(MARK, Some(Damage::Unknown), what)
        }
        (Some(_), Some(mark)) if mark != describe(dir)? => {
            let what = "it is the mark of another file: the folder is a copy, or the mark has changed bytes. What was \
                        announced after a copy was made is not known in it";
            found(MARK, None, what)
        }
        (Some(_), Some(_)) => None,
    })
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
