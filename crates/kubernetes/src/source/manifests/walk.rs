//! Finds the manifest files in a folder.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use ops::watch::Inode;

/// The data that change when a file changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: Inode,
    pub(super) size: u64,
    /// The time when its content changed, in seconds and nanoseconds.
    modified: (i64, i64),
    /// The time when the content or metadata changed.
    changed: (i64, i64),
}

impl Stamp {
    /// The stamp of a file.
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: Inode::of(metadata),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether the last change is so old that another change would give another stamp.
    pub(super) fn is_settled(&self, wall: SystemTime) -> bool {
        let now = wall
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        self.changed.0.saturating_add(2) < now && self.modified.0.saturating_add(2) < now
    }
}

#[derive(Debug, Default)]
pub(super) struct Found {
    /// The manifest files by their path below the root, in the order of their names.
    pub(super) files: BTreeMap<Arc<str>, (PathBuf, Stamp)>,
    /// The folders, including the root, with their inodes.
    pub(super) folders: BTreeMap<PathBuf, Inode>,
    /// Unreadable folders: the path below the root (empty for the root) and the reason.
    pub(super) unreadable: Vec<(String, String)>,
}

/// Whether a file is a manifest, by its name.
fn is_manifest(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known))
}

/// Searches the folder and all folders below it. Ignores names that begin with a dot (`..data` of a mounted
/// ConfigMap, lock files of editors). Follows links; enters each folder once.
pub(super) fn walk(root: &Path) -> Found {
    let mut found = Found::default();
    let mut entered = BTreeSet::new();
    let mut todo = vec![(root.to_owned(), String::new())];
    while let Some((folder, below)) = todo.pop() {
        match entries(&folder, &mut entered) {
            Ok((inode, names)) => {
                found.folders.insert(folder.clone(), inode);
                for name in names {
                    let path = folder.join(&name);
                    let below = if below.is_empty() {
                        name.clone()
                    } else {
                        format!("{below}/{name}")
                    };
                    // A dangling link counts as a missing file.
                    let Ok(metadata) = fs::metadata(&path) else {
                        continue;
                    };
                    if metadata.is_dir() {
                        todo.push((path, below));
                    } else if metadata.is_file() && is_manifest(&name) {
                        found
                            .files
                            .insert(below.into(), (path, Stamp::of(&metadata)));
                    }
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && !below.is_empty() => {}
            Err(error) => found.unreadable.push((below, error.to_string())),
        }
    }
    found
}

/// The names in a folder that do not begin with a dot; none if the folder was entered before.
fn entries(folder: &Path, entered: &mut BTreeSet<Inode>) -> std::io::Result<(Inode, Vec<String>)> {
    let metadata = fs::metadata(folder)?;
    let inode = Inode::of(&metadata);
    let mut names = Vec::new();
    if entered.insert(inode) {
        for entry in fs::read_dir(folder)? {
            // A place cannot contain a name that is not UTF-8.
            if let Ok(name) = entry?.file_name().into_string()
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort_unstable();
    }
    Ok((inode, names))
}
