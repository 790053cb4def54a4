//! Follows a zone file: reads it again when it or a file it includes has changed.
//!
//! A change is read when the files have not changed for a moment, so that no file is read while it is being written. The
//! problems of a bad file are reported once, and the last good content stays in use.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use dns::Name;
use ops::Clock;
use ops::watch::FileWatch;
use tokio_util::sync::CancellationToken;

use super::{BadFile, FileProblem, Role, Spot, ZoneFile, read_with};

/// The time without a change before files are read.
const QUIET: Duration = Duration::from_millis(50);
/// The most checks for that. After them, files are read in any case.
const QUIET_TRIES: usize = 20;

/// A file to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file.
    pub path: PathBuf,
    /// The zone.
    pub apex: Name,
    /// Its use.
    pub role: Role,
    /// The names that are used, with all names below them.
    pub names: Vec<Name>,
    /// The interval of polling, in addition to the system's watch; `None` reads the file once.
    pub reload: Option<Duration>,
}

/// A change of a followed file.
#[derive(Debug, Clone)]
pub enum FileEvent {
    /// The file was read.
    Read {
        /// The content.
        content: Arc<ZoneFile>,
        /// The time of the discovery.
        seen: Instant,
    },
    /// The file cannot be used.
    Bad {
        /// The time of the discovery.
        since: SystemTime,
    },
}

/// The problems of a file, for `status`.
#[derive(Debug, Default)]
pub struct FileStats {
    /// Locked for one change or one read.
    problems: Mutex<Vec<String>>,
    /// Whether its zone is served without it, because it could never be used.
    is_missing: AtomicBool,
}

impl FileStats {
    /// The current problems.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let problems = self.problems.lock();
        problems.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether its zone is served without it, because it could never be used.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        self.is_missing.load(Ordering::Relaxed)
    }

    /// Notes that its zone is served without it until it can be used.
    pub fn set_missing(&self) {
        self.is_missing.store(true, Ordering::Relaxed);
    }

    /// Replaces the problems. Returns whether they have changed.
    fn set(&self, new: Vec<String>) -> bool {
        let problems = self.problems.lock();
        let mut problems = problems.unwrap_or_else(PoisonError::into_inner);
        let differ = *problems != new;
        *problems = new;
        differ
    }
}

/// Inode, size and time of a file; `None` when it does not exist.
type Stamp = Option<(u64, u64, i64, i64)>;

type Stamps = Vec<(PathBuf, Stamp)>;

fn stamp(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.ino(), data.len(), data.mtime(), data.mtime_nsec()))
}

fn stamps(paths: impl IntoIterator<Item = PathBuf>) -> Stamps {
    let of = |path: PathBuf| {
        let stamp = stamp(&path);
        (path, stamp)
    };
    paths.into_iter().map(of).collect()
}

/// [`stamps`] for async code: a slow disk does not block the runtime.
async fn look_at(paths: Vec<PathBuf>) -> Stamps {
    match tokio::task::spawn_blocking(|| stamps(paths)).await {
        Ok(stamps) => stamps,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Logs the problems of a zone's file.
pub fn log_problems(zone: &Name, bad: &BadFile) {
    for problem in &bad.problems {
        tracing::error!("{problem}");
    }
    tracing::error!(%zone, "cannot use the zone file; the last version is served, if there is one");
}

/// Logs what the author of a zone file should know.
pub fn log_warnings(file: &ZoneFile) {
    for warning in &file.warnings {
        tracing::warn!("{warning}");
    }
}

/// Polls a file.
#[derive(Debug)]
pub struct Follower {
    settings: Settings,
    /// The files when they were read last.
    stamps: Stamps,
    clock: Arc<dyn Clock>,
    stats: Arc<FileStats>,
    /// Whether the last reading changed the problems.
    is_news: bool,
    /// The last good content of a signed zone.
    known: Option<ZoneFile>,
    /// Whether it was said what is wrong with the time of its signatures.
    is_told: bool,
}

impl Follower {
    /// A follower that has seen nothing.
    #[must_use]
    pub fn new(settings: Settings, clock: Arc<dyn Clock>, stats: Arc<FileStats>) -> Self {
        let stamps = stamps([settings.path.clone()]);
        Self {
            settings,
            stamps,
            clock,
            stats,
            is_news: false,
            known: None,
            is_told: false,
        }
    }

    /// Reads the file, blocking.
    ///
    /// # Errors
    /// [`BadFile`] with all problems.
    pub fn read(&mut self) -> Result<ZoneFile, BadFile> {
        let Settings {
            path,
            apex,
            role,
            names,
            reload: _,
        } = &self.settings;
        // Stamps are taken before a file is opened, so that a change during reading is seen.
        let mut opened = Stamps::new();
        let content = read_with(path, apex, *role, self.known.as_ref(), &mut |path| {
            if !opened.iter().any(|(known, _)| known == path) {
                opened.push((path.to_owned(), stamp(path)));
            }
            std::fs::read(path)
        });
        self.stamps = opened;
        let mut content = content.map(|content| content.within(names, apex));
        self.known = match &mut content {
            Ok(content) if content.signed.is_some() => {
                let known = content.clone();
                content.warnings.extend(self.of_signatures(content));
                self.is_told = content.warnings.len() > known.warnings.len();
                Some(known)
            }
            Ok(_) => None,
            Err(_) => self.known.take(),
        };
        let problems = match &content {
            Ok(content) => &content.warnings,
            Err(bad) => &bad.problems,
        };
        self.is_news = self
            .stats
            .set(problems.iter().map(ToString::to_string).collect());
        self.stats
            .is_missing
            .fetch_and(content.is_err(), Ordering::Relaxed);
        content
    }

    /// What is wrong with the time of a content's signatures.
    fn of_signatures(&self, content: &ZoneFile) -> Option<FileProblem> {
        let since_1970 = self.clock.wall().duration_since(SystemTime::UNIX_EPOCH);
        let warning = content
            .signed
            .as_ref()?
            .warning(since_1970.ok()?.as_secs())?;
        Some(Spot::of_file(&self.settings.path).problem(warning))
    }

    /// Says once when a signature ends while its file stays as it is.
    fn tell_end(&mut self) {
        let known = self.known.as_ref().filter(|_| !self.is_told);
        if let Some(warning) = known.and_then(|known| self.of_signatures(known)) {
            tracing::warn!("{warning}");
            let mut problems = self.stats.problems();
            problems.push(warning.to_string());
            self.stats.set(problems);
            self.is_told = true;
        }
    }

    /// The file and those it includes, as they were read last.
    fn files(&self) -> impl Iterator<Item = PathBuf> {
        self.stamps.iter().map(|(path, _)| path.clone())
    }

    /// Whether the files differ from those that were read, after waiting for the end of the change.
    async fn is_changed(&self) -> bool {
        let look = || look_at(self.files().collect());
        let mut last = look().await;
        if last == self.stamps {
            return false;
        }
        for _ in 0..QUIET_TRIES {
            tokio::time::sleep(QUIET).await;
            let now = look().await;
            if now == last {
                break;
            }
            last = now;
        }
        last != self.stamps
    }

    /// Follows the file, which has been read once, until cancelled or until `send` returns false.
    pub async fn run<F: Future<Output = bool>>(
        self,
        send: impl Fn(FileEvent) -> F,
        cancel: CancellationToken,
    ) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.follow(send) => {}
        }
    }

    async fn follow<F: Future<Output = bool>>(mut self, send: impl Fn(FileEvent) -> F) {
        let Some(reload) = self.settings.reload else {
            return std::future::pending().await;
        };
        let mut watch = FileWatch::default();
        loop {
            watch.next(self.files(), reload).await;
            if !self.is_changed().await {
                self.tell_end();
                continue;
            }
            let seen = self.clock.now();
            let reading = tokio::task::spawn_blocking(move || {
                let read = self.read();
                (self, read)
            });
            let read;
            (self, read) = match reading.await {
                Ok(back) => back,
                // A panic there becomes a panic here. The task is cancelled only when the runtime ends.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => return,
                },
            };
            let event = match read {
                Ok(content) => {
                    if self.is_news {
                        log_warnings(&content);
                    }
                    FileEvent::Read {
                        content: Arc::new(content),
                        seen,
                    }
                }
                Err(bad) => {
                    if self.is_news {
                        log_problems(&self.settings.apex, &bad);
                    }
                    FileEvent::Bad {
                        since: self.clock.wall(),
                    }
                }
            };
            if !send(event).await {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ops::HandClock;
    use ops::testing::TestClock;
    use tokio::sync::mpsc;

    /// Waits until the problems are these.
    async fn until(stats: &FileStats, want: &[&str]) {
        for _ in 0..6000 {
            let problems = stats.problems();
            let is_same = problems.len() == want.len();
            if is_same
                && problems
                    .iter()
                    .zip(want)
                    .all(|(one, want)| one.contains(want))
            {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{:?} and not {want:?}", stats.problems());
    }

    #[tokio::test]
    async fn a_signature_that_ends_while_its_file_stays_is_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        std::fs::write(&path, crate::SIGNED_TEXT).unwrap();
        let settings = Settings {
            path: path.clone(),
            apex: "signed.test.".parse().unwrap(),
            role: Role::Zone,
            names: vec!["signed.test.".parse().unwrap()],
            reload: Some(Duration::from_millis(20)),
        };
        let end = 2_777_068_800;
        let clock = HandClock::at(end);
        let stats = Arc::<FileStats>::default();
        let own = Arc::clone(&clock);
        let mut follower = Follower::new(settings, own, Arc::clone(&stats));
        assert_eq!(follower.read().unwrap().warnings, []);
        let (tx, mut events) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let send = move |event| {
            let tx = tx.clone();
            async move { tx.send(event).await.is_ok() }
        };
        tasks.spawn(follower.run(send, cancel.clone()));
        let over = "ended at 2058-01-01T00:00:00";
        tokio::time::sleep(Duration::from_millis(100)).await;
        until(&stats, &[]).await;
        clock.advance(1);
        until(&stats, &[over]).await;
        // It is not said again, and needs no other content.
        tokio::time::sleep(Duration::from_millis(100)).await;
        until(&stats, &[over]).await;
        assert!(events.try_recv().is_err());
        // Nor is it said twice when the file is read again.
        std::fs::write(&path, format!("{}\n", crate::SIGNED_TEXT)).unwrap();
        assert!(next(&mut events).await.is_ok());
        until(&stats, &[over]).await;
        cancel.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }

    /// Waits for the next event.
    async fn next(events: &mut mpsc::Receiver<FileEvent>) -> Result<usize, ()> {
        let event = tokio::time::timeout(Duration::from_secs(60), events.recv());
        match event
            .await
            .expect("an event comes")
            .expect("the follower lives")
        {
            FileEvent::Read { content, seen: _ } => Ok(content.nodes().len()),
            FileEvent::Bad { since: _ } => Err(()),
        }
    }

    #[tokio::test]
    async fn changes_of_a_file_and_its_includes_are_seen_and_problems_are_reported_once() {
        let dir = tempfile::tempdir().unwrap();
        let main = dir.path().join("main");
        let more = dir.path().join("more");
        std::fs::write(&main, "$TTL 5\na A 192.0.2.1\n$INCLUDE more\n").unwrap();
        let settings = Settings {
            path: main.clone(),
            apex: "z.".parse().unwrap(),
            role: Role::Overlay,
            names: vec!["z.".parse().unwrap()],
            reload: Some(Duration::from_secs(3600)),
        };
        let stats = Arc::<FileStats>::default();
        let mut follower = Follower::new(settings, Arc::new(TestClock), Arc::clone(&stats));
        let bad = follower.read().unwrap_err();
        assert!(bad.to_string().contains("main:3:10: cannot read"), "{bad}");
        assert_eq!(stats.problems().len(), 1);
        let (tx, mut events) = mpsc::channel(8);
        let cancel = CancellationToken::new();
        let mut tasks = tokio::task::JoinSet::new();
        let send = move |event| {
            let tx = tx.clone();
            async move { tx.send(event).await.is_ok() }
        };
        tasks.spawn(follower.run(send, cancel.clone()));
        std::fs::write(&more, "b A 192.0.2.1\n").unwrap();
        assert_eq!(next(&mut events).await, Ok(2));
        assert!(stats.problems().is_empty());
        std::fs::write(&more, "b A 192.0.2.1\nc A 192.0.2.2\n").unwrap();
        assert_eq!(next(&mut events).await, Ok(3));
        std::fs::write(&main, "a A 192.0.2.1\n").unwrap();
        assert_eq!(next(&mut events).await, Err(()));
        assert_eq!(stats.problems().len(), 1);
        std::fs::remove_file(&main).unwrap();
        assert_eq!(next(&mut events).await, Err(()));
        assert!(
            stats.problems()[0].contains("cannot be read"),
            "{:?}",
            stats.problems()
        );
        std::fs::write(&main, "$TTL 5\nx.a A 192.0.2.1\n").unwrap();
        assert_eq!(next(&mut events).await, Ok(1));
        cancel.cancel();
        tasks.join_next().await.unwrap().unwrap();
    }
}
