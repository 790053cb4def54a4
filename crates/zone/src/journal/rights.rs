//! Keeps the state folder to its owner: it holds the whole history, and names of all tenants.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The rights of folders.
const FOLDER: u32 = 0o700;
/// The rights of files.
const FILE: u32 = 0o600;

/// Folders of which nothing is needed: the system's, and those of databases that were moved aside.
const UNNEEDED: [&str; 2] = ["lost+found", "damaged-"];
/// What is opened for writing; all else is replaced, or only read.
const WRITTEN: [&str; 2] = ["lock", "db"];

/// A file or folder that its owner keeps from us, as a command that another user ran leaves it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KeptFromUs {
    pub(super) path: PathBuf,
    /// The user it belongs to.
    pub(super) owner: u32,
    /// What we may not do: `read` or `write`.
    pub(super) doing: &'static str,
}

impl KeptFromUs {
    /// One that exists.
    pub(super) fn at(path: &Path, doing: &'static str) -> Option<Self> {
        let owner = fs::symlink_metadata(path).ok()?.uid();
        let path = path.to_owned();
        Some(Self { path, owner, doing })
    }
}

/// The first file or folder in the state folder, by name, that we may not use. Those of others are opened.
pub(super) fn first_kept_from_us(dir: &Path) -> Option<KeptFromUs> {
    let us = rustix::process::geteuid().as_raw();
    let open = |path: &Path, is_written| match fs::symlink_metadata(path)? {
        found if found.uid() == us => Ok(()),
        found if found.is_dir() => fs::read_dir(path).map(drop),
        _ if is_written => OpenOptions::new().write(true).open(path).map(drop),
        _ => File::open(path).map(drop),
    };
    first_in(dir, false, &open)
}

/// The same with `open`, which opens a file for reading or for writing, or a folder.
fn first_in(
    dir: &Path,
    is_written: bool,
    open: &dyn Fn(&Path, bool) -> io::Result<()>,
) -> Option<KeptFromUs> {
    let mut entries: Vec<_> = fs::read_dir(dir).ok()?.flatten().collect();
    entries.sort_by_key(fs::DirEntry::file_name);
    entries.into_iter().find_map(|entry| {
        let (path, kind) = (entry.path(), entry.file_type().ok()?);
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_unneeded = UNNEEDED.iter().any(|it| name.starts_with(it));
        if is_unneeded || !(kind.is_dir() || kind.is_file()) {
            return None;
        }
        let is_written = is_written || WRITTEN.contains(&name.as_str());
        let is_kept = |error: &io::Error| error.kind() == io::ErrorKind::PermissionDenied;
        if open(&path, false).is_err_and(|error| is_kept(&error)) {
            return KeptFromUs::at(&path, "read");
        }
        if is_written && open(&path, true).is_err_and(|error| is_kept(&error)) {
            return KeptFromUs::at(&path, "write");
        }
        kind.is_dir().then(|| first_in(&path, is_written, open))?
    })
}

/// Creates the folder and those above it.
pub(super) fn create(dir: &Path) -> io::Result<()> {
    if let Some(above) = dir.parent() {
        fs::create_dir_all(above)?;
    }
    match fs::DirBuilder::new().mode(FOLDER).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// Takes the rights of others away from the folder and all in it; says what was changed, and what could not be.
pub(super) fn restrict(dir: &Path, notes: &mut Vec<String>) {
    let (mut wide, mut failed) = (0_usize, None);
    restrict_all(dir, &mut wide, &mut failed);
    if wide > 0 {
        notes.push(format!(
            "the state folder {} or files in it could be read by others: the rights of {wide} were corrected to 0700 and 0600",
            dir.display()
        ));
    }
    if let Some(error) = failed {
        let owner = fs::metadata(dir).map_or_else(|_| "?".to_owned(), |it| it.uid().to_string());
        notes.push(format!(
            "others may have access to the state folder {}, which belongs to uid {owner}: {error}; make it ours, with the mode 0700",
            dir.display()
        ));
    }
}

/// The same for a folder below, without words.
fn restrict_all(path: &Path, wide: &mut usize, failed: &mut Option<io::Error>) {
    let mut restrict_one = || -> io::Result<()> {
        let found = fs::symlink_metadata(path)?;
        let mode = match found.file_type() {
            kind if kind.is_dir() => FOLDER,
            kind if kind.is_file() => FILE,
            // A link has no rights of its own, and sockets have theirs from who listens.
            _ => return Ok(()),
        };
        if found.permissions().mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
            *wide += 1;
        }
        if mode == FOLDER {
            for entry in fs::read_dir(path)? {
                restrict_all(&entry?.path(), wide, failed);
            }
        }
        Ok(())
    };
    if let Err(error) = restrict_one() {
        failed.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn what_its_owner_keeps_from_us_is_found_where_it_is_needed() {
        let above = TempDir::new().unwrap();
        let dir = above.path();
        for folder in ["damaged-1", "db/blobs", "lost+found"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        for file in [
            "damaged-1/a",
            "db/blobs/1",
            "db/conf",
            "format",
            "lock",
            "lost+found/a",
        ] {
            fs::write(dir.join(file), "x").unwrap();
        }
        let owner = fs::metadata(dir).unwrap().uid();
        let found = |kept: &[&str], mode: &str| {
            let open = |path: &Path, is_written: bool| {
                let is_meant = mode == "read" || is_written;
                let name = path.strip_prefix(dir).unwrap().to_str().unwrap();
                match is_meant && kept.contains(&name) {
                    true => Err(io::ErrorKind::PermissionDenied.into()),
                    false => Ok(()),
                }
            };
            first_in(dir, false, &open).map(|found| {
                assert_eq!(found.owner, owner);
                let path = found.path.strip_prefix(dir).unwrap();
                format!("{} {}", found.doing, path.display())
            })
        };
        let text = |it: &str| Some(it.to_owned());
        assert_eq!(found(&["format"], "read"), text("read format"));
        assert_eq!(found(&["format"], "write"), None, "it is replaced");
        assert_eq!(found(&["lock"], "write"), text("write lock"));
        assert_eq!(found(&["lock", "db/conf"], "write"), text("write db/conf"));
        assert_eq!(found(&["db/blobs/1"], "write"), text("write db/blobs/1"));
        let unneeded = ["lost+found", "lost+found/a", "damaged-1", "damaged-1/a"];
        assert_eq!(found(&unneeded, "read"), None);
        assert_eq!(first_kept_from_us(dir), None);
    }

    #[test]
    fn a_folder_is_its_owners_alone_also_when_it_was_there() {
        let above = TempDir::new().unwrap();
        let dir = above.path().join("a/state");
        create(&dir).unwrap();
        create(&dir).unwrap();
        assert_eq!(mode(&dir), 0o700);
        let mut notes = Vec::new();
        restrict(&dir, &mut notes);
        assert_eq!(notes, [""; 0]);
        fs::create_dir(dir.join("db")).unwrap();
        fs::write(dir.join("db/db"), "x").unwrap();
        for (path, wide) in [("", 0o755), ("db", 0o755), ("db/db", 0o644)] {
            fs::set_permissions(dir.join(path), fs::Permissions::from_mode(wide)).unwrap();
        }
        restrict(&dir, &mut notes);
        let modes = ["", "db", "db/db"].map(|path| mode(&dir.join(path)));
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        assert!(
            notes.concat().contains("the rights of 3 were corrected"),
            "{notes:?}"
        );
    }
}
