//! Keeps the state folder to its owner: it holds the whole history, and names of all tenants.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

/// The rights of folders.
const FOLDER: u32 = 0o700;
/// The rights of files.
const FILE: u32 = 0o600;

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
