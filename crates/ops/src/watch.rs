//! Tells when files may have changed, by the system's watch on their folders and by a slow poll.
//!
//! Folders are watched, not files: an editor replaces a file by a rename, and a ConfigMap's files are links whose
//! target is swapped in the same folder. An event only wakes the reader, which looks for the change itself. All readers
//! of the process share one inotify instance, as a user may have only 128. On network file systems, or without a free
//! instance, there is no watch. Then only the poll is left, and it is faster.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs::Metadata;
use std::ops::Bound::{Included, Unbounded};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, EventKind, ModifyKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;

/// The interval at which files are read if their folders cannot be watched.
pub const POLL_UNWATCHED: Duration = Duration::from_secs(2);

/// The time after an event without another, until [`FileWatch`] returns.
const QUIET: Duration = Duration::from_millis(20);
/// The longest time that [`FileWatch`] waits for the end of events.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// The most symbolic links that are followed for one file, as in Linux.
const MOST_LINKS: usize = 40;

/// Identifies a file or folder: its device and its inode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode(u64, u64);

impl Inode {
    /// The inode that metadata belongs to.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

/// The system's watch of this process.
static SYSTEM: LazyLock<System> = LazyLock::new(System::new);

/// The reason why the system has no watch, for the log.
#[must_use]
pub fn problem() -> Option<String> {
    lock(&SYSTEM.watcher).as_ref().err().cloned()
}

struct System {
    watcher: Mutex<Result<RecommendedWatcher, String>>,
    /// Never locked while the watcher is called: the watcher's thread takes this lock to report events.
    watched: Arc<Mutex<Watched>>,
}

/// The folders that are watched.
#[derive(Default)]
struct Watched {
    folders: HashMap<Inode, Folder>,
    /// In order, so that the folders below a path follow it.
    by_path: BTreeMap<PathBuf, Inode>,
}

struct Folder {
    path: PathBuf,
    /// The watch is gone, because the folder or one above it was removed or renamed, or because another folder has its
    /// path.
    is_lost: bool,
    readers: Vec<Reader>,
}

struct Reader {
    changed: Weak<Notify>,
    names: Names,
}

/// The files of a folder that a reader follows: all of them, or these.
type Names = Option<BTreeSet<OsString>>;

/// The folders that a reader follows.
type Wanted = BTreeMap<Inode, (PathBuf, Names)>;

/// The result of following folders.
#[derive(Debug, Clone, Copy)]
struct Followed {
    /// Whether a folder is new: earlier changes in it were not reported.
    is_new: bool,
    /// Whether all are watched.
    is_complete: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl System {
    fn new() -> Self {
        let watched = Arc::<Mutex<Watched>>::default();
        let told = Arc::clone(&watched);
        let handler = move |event: notify::Result<Event>| lock(&told).tell(event);
        let watcher = notify::recommended_watcher(handler).map_err(|error| {
            format!(
                "the system cannot report changes of files ({error}): files are read every few seconds; raise fs.inotify.max_user_instances if it is too low"
            )
        });
        if let Err(problem) = &watcher {
            tracing::warn!("{problem}");
        }
        Self {
            watcher: Mutex::new(watcher),
            watched,
        }
    }

    /// Makes a reader follow exactly these folders.
    fn follow(&self, reader: &Arc<Notify>, wanted: &Wanted) -> Followed {
        let mut watcher = lock(&self.watcher);
        let Ok(watcher) = watcher.as_mut() else {
            return Followed {
                is_new: false,
                is_complete: false,
            };
        };
        let change = lock(&self.watched).follow(reader, wanted);
        for path in &change.ended {
            // It fails if the folder is gone, and its watch with it.
            watcher.unwatch(path).ok();
        }
        let mut followed = Followed {
            is_new: change.is_joined,
            is_complete: true,
        };
        for (inode, path) in change.begun {
            match watcher.watch(&path, RecursiveMode::NonRecursive) {
                Ok(()) => followed.is_new = true,
                Err(error) => {
                    tracing::debug!(folder = %path.display(), %error, "a folder cannot be watched for changes: its files are read at intervals");
                    lock(&self.watched).remove(inode);
                    followed.is_complete = false;
                }
            }
        }
        followed
    }
}

/// The calls to the system's watch that a reader needs.
#[derive(Default)]
struct Change {
    ended: Vec<PathBuf>,
    begun: Vec<(Inode, PathBuf)>,
    /// Whether the reader is new at a folder that is already watched.
    is_joined: bool,
}

impl Watched {
    /// Makes a reader follow exactly these folders.
    fn follow(&mut self, reader: &Arc<Notify>, wanted: &Wanted) -> Change {
        let mut change = Change::default();
        let (mut known, mut replaced) = (BTreeSet::new(), Vec::new());
        for (inode, folder) in &mut self.folders {
            folder.readers.retain(|other| {
                let is_same = other.changed.as_ptr() == Arc::as_ptr(reader);
                if is_same {
                    known.insert(*inode);
                }
                !is_same && other.changed.strong_count() > 0
            });
        }
        for (inode, (path, names)) in wanted {
            // Events name the folder in this form.
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            let folder = self.folders.entry(*inode).or_insert_with(|| Folder {
                path: path.clone(),
                is_lost: true,
                readers: Vec::new(),
            });
            if folder.is_lost {
                if folder.path != path && self.by_path.get(&folder.path) == Some(inode) {
                    self.by_path.remove(&folder.path);
                    change.ended.push(folder.path.clone());
                }
                if let Some(before) = self.by_path.insert(path.clone(), *inode) {
                    change.ended.push(path.clone());
                    replaced.extend((before != *inode).then_some(before));
                }
                change.begun.push((*inode, path.clone()));
                folder.path = path;
                folder.is_lost = false;
            } else if !known.contains(inode) {
                change.is_joined = true;
            }
            let changed = Arc::downgrade(reader);
            let names = names.clone();
            folder.readers.push(Reader { changed, names });
        }
        // The system watches a path once: the folder that had it may exist and be reached by another one.
        for inode in replaced {
            // unless it was found by its other path just now
            let is_lost = |folder: &&mut Folder| self.by_path.get(&folder.path) != Some(&inode);
            if let Some(folder) = self.folders.get_mut(&inode).filter(is_lost) {
                folder.lose();
            }
        }
        let idle = self
            .folders
            .iter()
            .filter(|(_, folder)| folder.readers.is_empty());
        let idle: Vec<Inode> = idle.map(|(inode, _)| *inode).collect();
        change
            .ended
            .extend(idle.into_iter().filter_map(|inode| self.remove(inode)));
        change
    }

    /// Forgets a folder. Returns its path, if it is no longer watched.
    fn remove(&mut self, inode: Inode) -> Option<PathBuf> {
        let path = self.folders.remove(&inode)?.path;
        // Another folder may have its path now.
        let is_own = self.by_path.get(&path) == Some(&inode);
        if is_own {
            self.by_path.remove(&path);
        }
        is_own.then_some(path)
    }

    /// Wakes the readers that an event may concern.
    fn tell(&mut self, event: notify::Result<Event>) {
        let Ok(event) = event else {
            return self.wake_all();
        };
        if !is_change(event.kind) {
            return;
        }
        if event.need_rescan() || event.paths.is_empty() {
            return self.wake_all();
        }
        let is_gone = matches!(
            event.kind,
            EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))
        );
        for path in &event.paths {
            if is_gone {
                // The system's watch ends for the folders below, too.
                let from = self
                    .by_path
                    .range::<Path, _>((Included(path.as_path()), Unbounded));
                for (_, inode) in from.take_while(|(below, _)| below.starts_with(path)) {
                    self.folders
                        .get_mut(inode)
                        .into_iter()
                        .for_each(Folder::lose);
                }
            } else if let Some(folder) = self.folder_at(path) {
                folder.readers.iter().for_each(Reader::wake);
            }
            let name = path.file_name();
            if let Some(folder) = path.parent().and_then(|it| self.folder_at(it)) {
                let is_wanted = |reader: &&Reader| match (&reader.names, name) {
                    (Some(names), Some(name)) => names.contains(name),
                    (None, _) | (_, None) => true,
                };
                folder
                    .readers
                    .iter()
                    .filter(is_wanted)
                    .for_each(Reader::wake);
            }
        }
    }

    fn folder_at(&mut self, path: &Path) -> Option<&mut Folder> {
        self.folders.get_mut(self.by_path.get(path)?)
    }

    fn wake_all(&self) {
        let readers = self.folders.values().flat_map(|folder| &folder.readers);
        readers.for_each(Reader::wake);
    }
}

impl Folder {
    /// Notes that the watch is gone, and wakes the readers: they look for the folder again.
    fn lose(&mut self) {
        self.is_lost = true;
        self.readers.iter().for_each(Reader::wake);
    }
}

impl Reader {
    fn wake(&self) {
        if let Some(changed) = self.changed.upgrade() {
            changed.notify_one();
        }
    }
}

/// Waits for an event, and then for a pause of `quiet`, but at most for `longest`.
async fn wait(changed: &Notify, quiet: Duration, longest: Duration) {
    changed.notified().await;
    let until_quiet = async {
        while tokio::time::timeout(quiet, changed.notified())
            .await
            .is_ok()
        {}
    };
    // In both cases it is time to read.
    tokio::time::timeout(longest, until_quiet).await.ok();
}

/// A watch on a set of folders, not on the folders below them.
#[derive(Debug, Default)]
pub struct FolderWatch {
    changed: Arc<Notify>,
    is_complete: bool,
}

impl FolderWatch {
    /// Whether all folders are watched.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Watches exactly these folders. True when one is new: earlier changes in it were not reported, so the caller has
    /// to read again.
    pub fn follow(&mut self, folders: &BTreeMap<PathBuf, Inode>) -> bool {
        let folders = folders.iter();
        let wanted = folders.map(|(path, inode)| (*inode, (path.clone(), None)));
        let followed = SYSTEM.follow(&self.changed, &wanted.collect());
        self.is_complete = followed.is_complete;
        followed.is_new
    }

    /// Waits for an event, and then for a pause of `quiet`, but at most for `longest`.
    pub async fn changed(&self, quiet: Duration, longest: Duration) {
        wait(&self.changed, quiet, longest).await;
    }
}

/// A watch on single files, by their folders.
#[derive(Debug, Default)]
pub struct FileWatch {
    changed: Arc<Notify>,
}

impl FileWatch {
    /// Waits until one of the files may have changed: until an event for it, or for a link that leads to it, or for
    /// `poll`. Without a watch on some folder it waits for [`POLL_UNWATCHED`] at most. A new folder counts as a change,
    /// as earlier events in it were not reported. The files need not exist.
    pub async fn next<P: AsRef<Path>>(
        &mut self,
        files: impl IntoIterator<Item = P>,
        poll: Duration,
    ) {
        let files = files.into_iter().map(|file| file.as_ref().to_owned());
        let files: Vec<PathBuf> = files.collect();
        let changed = Arc::clone(&self.changed);
        // The files may be on a slow disk.
        let following = tokio::task::spawn_blocking(move || follow_files(&changed, &files));
        let is_complete = following.await.unwrap_or(false);
        let poll = if is_complete {
            poll
        } else {
            poll.min(POLL_UNWATCHED)
        };
        tokio::select! {
            () = wait(&self.changed, QUIET, LONGEST_WAIT) => {}
            () = tokio::time::sleep(poll) => {}
        }
    }
}

/// Follows exactly these files: their names and those of the links that lead to them, in their folders. Wakes the
/// reader if a folder is new. Returns whether all folders are watched.
fn follow_files(reader: &Arc<Notify>, files: &[PathBuf]) -> bool {
    let mut names = BTreeMap::new();
    for file in files {
        add_names_of(file, &mut names);
    }
    let mut wanted = Wanted::new();
    let mut is_homeless = false;
    for (path, names) in names {
        match std::fs::metadata(&path) {
            Ok(metadata) => {
                let (_, all) = wanted
                    .entry(Inode::of(&metadata))
                    .or_insert_with(|| (path, Some(BTreeSet::new())));
                if let Some(all) = all {
                    all.extend(names);
                }
            }
            Err(_) => is_homeless = true,
        }
    }
    let followed = SYSTEM.follow(reader, &wanted);
    if followed.is_new {
        reader.notify_one();
    }
    followed.is_complete && !is_homeless
}

/// Adds the name of a file, and those of the links that lead to it, to their folders.
fn add_names_of(file: &Path, names: &mut BTreeMap<PathBuf, BTreeSet<OsString>>) {
    let mut add = |path: &Path| {
        let own = names.entry(parent_of(path)).or_default();
        own.extend(path.file_name().map(OsString::from));
    };
    let mut path = file.to_owned();
    for _ in 0..MOST_LINKS {
        add(&path);
        let followed = path.ancestors().find_map(|link| {
            let target = link.read_link().ok()?;
            let below = path.strip_prefix(link).ok()?;
            add(link);
            let target = parent_of(link).join(target);
            // Joining an empty path would add a slash.
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

/// Whether an event may be a change. Reading a file causes events too, so counting them would never end.
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

    /// Longer than any test may take.
    const NEVER: Duration = Duration::from_secs(3600);

    /// A watch on one file, which was read.
    struct One {
        watch: FileWatch,
        file: PathBuf,
    }

    impl One {
        async fn on(file: PathBuf) -> Self {
            let mut watch = FileWatch::default();
            watch.next([&file], NEVER).await;
            let is_watched = follow_files(&watch.changed, std::slice::from_ref(&file));
            assert!(is_watched, "the system has no watch for {file:?}");
            Self { watch, file }
        }

        /// Whether a change is seen within this time.
        async fn sees(&mut self, limit: Duration) -> bool {
            let next = self.watch.next([&self.file], NEVER);
            tokio::time::timeout(limit, next).await.is_ok()
        }

        /// Waits for a change, which must be noticed long before the poll.
        async fn check(&mut self, what: &str) {
            assert!(
                self.sees(Duration::from_secs(10)).await,
                "{what} is not seen"
            );
            while self.sees(Duration::from_millis(100)).await {}
        }

        async fn check_nothing(&mut self, what: &str) {
            assert!(
                !self.sees(Duration::from_millis(200)).await,
                "{what} is seen"
            );
        }
    }

    /// These folders below another, as they are now.
    fn folders(root: &Path, paths: &[&str]) -> BTreeMap<PathBuf, Inode> {
        let inode = |path: &PathBuf| Inode::of(&fs::metadata(path).unwrap());
        let paths = paths.iter().map(|path| root.join(path));
        paths.map(|path| (path.clone(), inode(&path))).collect()
    }

    async fn changed(watch: &FolderWatch, what: &str) {
        let changed = watch.changed(QUIET, LONGEST_WAIT);
        let changed = tokio::time::timeout(Duration::from_secs(10), changed).await;
        assert!(changed.is_ok(), "{what} is not seen");
    }

    #[tokio::test]
    async fn a_file_that_is_written_renamed_over_or_removed_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let mut one = One::on(file.clone()).await;
        fs::write(&file, "one").unwrap();
        one.check("a new file").await;
        fs::write(folder.path().join("next"), "two").unwrap();
        one.check_nothing("another file").await;
        fs::rename(folder.path().join("next"), &file).unwrap();
        one.check("a rename").await;
        fs::remove_file(&file).unwrap();
        one.check("a removal").await;
        fs::read_dir(folder.path()).unwrap().for_each(drop);
        one.check_nothing("a reader of the folder").await;
    }

    #[tokio::test]
    async fn a_file_is_seen_by_a_relative_path_too() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let name = folder.path().file_name().unwrap();
        let file = Path::new(name).join("file");
        let mut one = One::on(file.clone()).await;
        fs::write(&file, "one").unwrap();
        one.check("a new file").await;
    }

    #[tokio::test]
    async fn a_folder_that_is_replaced_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("folder");
        let file = folder.join("file");
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "one").unwrap();
        let mut one = One::on(file.clone()).await;
        // The new folder may have the inode of the old one.
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        one.check("the removal").await;
        fs::write(&file, "two").unwrap();
        one.check("a file of the new folder").await;
        fs::rename(&folder, root.path().join("old")).unwrap();
        fs::create_dir(&folder).unwrap();
        one.check("the folder's rename").await;
        fs::write(&file, "three").unwrap();
        one.check("a file of the third folder").await;
    }

    #[tokio::test]
    async fn readers_of_one_folder_by_two_paths_do_not_end_each_other() {
        let root = tempfile::tempdir().unwrap();
        let (folder, link) = (root.path().join("folder"), root.path().join("link"));
        fs::create_dir(&folder).unwrap();
        symlink(&folder, &link).unwrap();
        let mut one = One::on(folder.join("file")).await;
        let mut other = One::on(link.join("file")).await;
        fs::write(folder.join("file"), "one").unwrap();
        one.check("a change").await;
        other.check("a change by another path").await;
        drop(one);
        // Another reader finds that the first has ended.
        let _third = One::on(root.path().join("third")).await;
        other.check_nothing("the end of a reader").await;
        fs::write(folder.join("file"), "two").unwrap();
        other.check("a change after the end of a reader").await;
    }

    /// findings-server 1: the system's watch ends for all folders below one that is renamed.
    #[tokio::test]
    async fn a_folder_below_a_renamed_one_is_watched_again() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir_all(at("old/child")).unwrap();
        let folders = |paths: &[&str]| folders(root.path(), paths);
        let mut watch = FolderWatch::default();
        assert!(watch.follow(&folders(&["", "old", "old/child"])));
        fs::rename(at("old"), at("new")).unwrap();
        changed(&watch, "the rename").await;
        watch.follow(&folders(&["", "new", "new/child"]));
        fs::write(at("new/child/file"), "one").unwrap();
        changed(&watch, "a file in the child").await;
    }

    /// findings-server 2: a path that leads to another folder takes over the system's watch of that path.
    #[tokio::test]
    async fn a_link_that_leads_to_another_folder_ends_no_other_watch() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        fs::create_dir(at("first")).unwrap();
        fs::create_dir(at("second")).unwrap();
        symlink("first", at("link")).unwrap();
        let mut by_link = FolderWatch::default();
        by_link.follow(&folders(root.path(), &["link"]));
        let mut direct = FolderWatch::default();
        direct.follow(&folders(root.path(), &["first"]));
        symlink("second", at("next")).unwrap();
        fs::rename(at("next"), at("link")).unwrap();
        assert!(by_link.follow(&folders(root.path(), &["link"])));
        changed(&direct, "that another folder took the path").await;
        direct.follow(&folders(root.path(), &["first"]));
        fs::write(at("first/file"), "one").unwrap();
        changed(&direct, "a file of the first folder").await;
        fs::write(at("second/file"), "two").unwrap();
        changed(&by_link, "a file of the second folder").await;
    }

    /// Updates a ConfigMap as kubelet does: `file` is a link to `..data/file`, `..data` is a link to a folder with a
    /// date, and only `..data` is replaced.
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
        let mut one = One::on(at("file")).await;
        symlink("..2", at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        one.check("the swap").await;
        assert_eq!(fs::read_to_string(at("file")).unwrap(), "two");
    }

    #[tokio::test]
    async fn what_a_link_leads_to_in_another_folder_is_watched_too() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let target = there.path().join("target");
        fs::write(&target, "one").unwrap();
        symlink(&target, here.path().join("file")).unwrap();
        let mut one = One::on(here.path().join("file")).await;
        fs::write(&target, "two").unwrap();
        one.check("the target").await;
    }

    #[tokio::test(start_paused = true)]
    async fn without_its_folder_a_file_is_polled_more_often() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing/file");
        let begin = tokio::time::Instant::now();
        FileWatch::default().next([missing], NEVER).await;
        assert_eq!(begin.elapsed().as_secs(), POLL_UNWATCHED.as_secs());
    }
}
