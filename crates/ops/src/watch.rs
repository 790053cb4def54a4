//! Tells when files may have changed: the system's watch on their folders, and a slow poll as the net.
//!
//! Folders are watched, not files: an editor replaces a file by a rename, and a ConfigMap's files are links
//! whose target is swapped in the same folder. An event only wakes the reader, who finds out by himself what
//! changed. Where the system gives no watch (network file systems, too few inotify instances) the poll is all
//! there is, and it is faster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// How often files are read again when their folders cannot be watched.
pub const POLL_UNWATCHED: Duration = Duration::from_secs(2);

/// After an event, [`FileWatch`] waits so long for another.
const QUIET: Duration = Duration::from_millis(20);
/// And for all of them at most so long.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// So many links on the way to a file are followed, as on Linux.
const MOST_LINKS: usize = 40;

/// Which file or folder a path led to: its device and its inode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Inode(u64, u64);

impl Inode {
    /// The inode that metadata belongs to.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// A watch on a set of folders, not on the folders below them.
#[derive(Debug)]
pub struct FolderWatch {
    /// The operating system's watch; `None` where it gives none.
    watcher: Option<RecommendedWatcher>,
    folders: BTreeMap<PathBuf, Inode>,
    is_complete: bool,
    changed: Arc<Notify>,
}

impl FolderWatch {
    /// Watches nothing yet. The second value says why the system gives no watch, for the log.
    #[must_use]
    pub fn new() -> (Self, Option<String>) {
        let changed = Arc::new(Notify::new());
        let wake = Arc::clone(&changed);
        let handler = move |event: notify::Result<notify::Event>| {
            if event.map_or(true, |event| is_change(event.kind)) {
                wake.notify_one();
            }
        };
        let (watcher, problem) = match notify::recommended_watcher(handler) {
            Ok(watcher) => (Some(watcher), None),
            Err(error) => (
                None,
                Some(format!(
                    "the system gives no watch ({error}): files are read every few seconds \
                     instead; fs.inotify.max_user_instances may be too low"
                )),
            ),
        };
        let watch = Self {
            watcher,
            folders: BTreeMap::new(),
            is_complete: true,
            changed,
        };
        (watch, problem)
    }

    /// Whether all folders are watched.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.watcher.is_some() && self.is_complete
    }

    /// Watches exactly these folders. True when one is new: what changed in it before was not reported, so
    /// the caller reads once more.
    pub fn follow(&mut self, folders: &BTreeMap<PathBuf, Inode>) -> bool {
        let Some(watcher) = &mut self.watcher else {
            return false;
        };
        self.folders.retain(|path, inode| {
            let stays = folders.get(path) == Some(inode);
            if !stays {
                // fails when the folder is gone, and its watch with it
                watcher.unwatch(path).ok();
            }
            stays
        });
        let mut is_new = false;
        self.is_complete = true;
        for (path, inode) in folders {
            if self.folders.contains_key(path) {
                continue;
            }
            match watcher.watch(path, RecursiveMode::NonRecursive) {
                Ok(()) => {
                    self.folders.insert(path.clone(), *inode);
                    is_new = true;
                }
                Err(error) => {
                    tracing::debug!(folder = %path.display(), %error, "cannot be watched: polled");
                    self.is_complete = false;
                }
            }
        }
        is_new
    }

    /// Waits for an event, then until none came for `quiet`, but `longest` at most.
    pub async fn changed(&self, quiet: Duration, longest: Duration) {
        self.changed.notified().await;
        let until_quiet = async {
            while tokio::time::timeout(quiet, self.changed.notified())
                .await
                .is_ok()
            {}
        };
        // either way it is time to read
        tokio::time::timeout(longest, until_quiet).await.ok();
    }
}

/// A watch on single files, by their folders.
#[derive(Debug)]
pub struct FileWatch {
    folders: FolderWatch,
    /// Whether the folder of a file is missing.
    is_homeless: bool,
}

impl Default for FileWatch {
    fn default() -> Self {
        Self::new()
    }
}

impl FileWatch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new() -> Self {
        let (folders, problem) = FolderWatch::new();
        if let Some(problem) = problem {
            tracing::warn!("{problem}");
        }
        Self {
            folders,
            is_homeless: false,
        }
    }

    /// Watches exactly these files, which need not exist: the folder of each, and the folder of each
    /// link on the way to it. True when a folder
    /// is new, as with [`FolderWatch::follow`].
    pub fn follow<P: AsRef<Path>>(&mut self, files: impl IntoIterator<Item = P>) -> bool {
        let mut paths = BTreeSet::new();
        for file in files {
            add_folders_of(file.as_ref(), &mut paths);
        }
        let mut folders = BTreeMap::new();
        self.is_homeless = false;
        for path in paths {
            match std::fs::metadata(&path) {
                Ok(metadata) => {
                    folders.insert(path, Inode::of(&metadata));
                }
                Err(_) => self.is_homeless = true,
            }
        }
        self.folders.follow(&folders)
    }

    /// Waits until a file may have changed: until something happened in its folder and is over, or for `poll`
    /// ([`POLL_UNWATCHED`] at most where a folder cannot be watched).
    pub async fn changed(&self, poll: Duration) {
        let poll = if self.folders.is_complete() && !self.is_homeless {
            poll
        } else {
            poll.min(POLL_UNWATCHED)
        };
        tokio::select! {
            () = self.folders.changed(QUIET, LONGEST_WAIT) => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

/// Adds the folder of a file, and those of the links that lead to it.
fn add_folders_of(file: &Path, folders: &mut BTreeSet<PathBuf>) {
    let mut path = file.to_owned();
    for _ in 0..MOST_LINKS {
        folders.insert(parent_of(&path));
        let followed = path.ancestors().find_map(|link| {
            let target = link.read_link().ok()?;
            let below = path.strip_prefix(link).ok()?;
            let folder = parent_of(link);
            folders.insert(folder.clone());
            let target = folder.join(target);
            // joining nothing would add a slash
            Some(if below == Path::new("") {
                target
            } else {
                target.join(below)
            })
        });
        match followed {
            Some(next) => path = next,
            None => return,
        }
    }
}

/// The folder that a file is in.
fn parent_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// Whether an event may be a change. Reading a file makes events too; those would never end.
const fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write))
        | EventKind::Any
        | EventKind::Create(_)
        | EventKind::Modify(_)
        | EventKind::Remove(_)
        | EventKind::Other => true,
        EventKind::Access(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A watch on one file.
    fn watch_on(file: &Path) -> FileWatch {
        let mut watch = FileWatch::new();
        watch.follow([file]);
        watch
    }

    /// Longer than any test may take.
    const NEVER: Duration = Duration::from_secs(3600);

    /// Waits for a change, which must be seen long before the poll.
    async fn check_change(watch: &FileWatch, what: &str) {
        let seen = tokio::time::timeout(Duration::from_secs(10), watch.changed(NEVER)).await;
        assert!(seen.is_ok(), "{what} is not seen");
    }

    #[tokio::test]
    async fn a_file_that_is_written_renamed_over_or_removed_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let watch = watch_on(&file);
        fs::write(&file, "one").unwrap();
        check_change(&watch, "a new file").await;
        fs::write(folder.path().join("next"), "two").unwrap();
        fs::rename(folder.path().join("next"), &file).unwrap();
        check_change(&watch, "a rename").await;
        fs::remove_file(&file).unwrap();
        check_change(&watch, "a removal").await;
        // To read the folder is no change.
        let quiet = Duration::from_millis(200);
        assert!(
            tokio::time::timeout(quiet, watch.changed(NEVER))
                .await
                .is_err()
        );
    }

    /// As kubelet updates a ConfigMap: `file` is a link to `..data/file`, `..data` one to a folder with a date,
    /// and only `..data` is replaced.
    #[tokio::test]
    async fn a_config_map_whose_link_is_swapped_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for (name, text) in [("..1", "one"), ("..2", "two")] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join("file"), text).unwrap();
        }
        symlink("..1", at("..data")).unwrap();
        symlink("..data/file", at("file")).unwrap();
        let watch = watch_on(&at("file"));
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        check_change(&watch, "the swap").await;
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "two");
    }

    #[tokio::test]
    async fn what_a_link_leads_to_in_another_folder_is_watched_too() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = there.path().join("target");
        fs::write(&target, "one").unwrap();
        symlink(&target, here.path().join("file")).unwrap();
        let watch = watch_on(&here.path().join("file"));
        fs::write(&target, "two").unwrap();
        check_change(&watch, "the target").await;
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_folder_a_file_is_polled_more_often() {
        let folder = tempfile::tempdir().unwrap();
        let missing = watch_on(&folder.path().join("missing/file"));
        let begin = tokio::time::Instant::now();
        missing.changed(NEVER).await;
        assert_eq!(begin.elapsed().as_secs(), POLL_UNWATCHED.as_secs());
    }
}
