//! A folder of manifests as the source: `*.yaml`, `*.yml` and `*.json` below it, followed as they change.
//!
//! - A file may hold many documents and lists, as kubectl dumps them. Other kinds are counted and ignored.
//! - A file that does not parse keeps its last good content. So does a folder that cannot be read.
//! - A file can be missing or empty for a moment, as editors leave it, before its objects are removed.
//! - If an object is in several files, the last file by name counts.
//! - Each namespace that an object names counts as existing.
//!
//! Folders are watched, not files: a ConfigMap's files are links whose target is swapped. After any event, all files
//! with a changed stamp are read again. A slow poll does the same, for file systems without events.

mod folder;
mod parse;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ops::Clock;
use ops::watch::{self, FolderWatch, POLL_UNWATCHED};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use self::folder::{Folder, Reread};
use super::liveness::{Liveness, Turn};
use super::{EventSink, Problem, SourceEvent, SourceStats, Unheard, Wanted};
use crate::facts::Part;

/// The settings for following a folder.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The time between two polls.
    pub poll: Duration,
    /// The time to wait for more events after one.
    pub quiet: Duration,
    /// The longest wait for more events.
    pub longest_wait: Duration,
    /// The time that a file may be missing or empty before its objects are removed.
    pub grace: Duration,
    /// The time that the folder may be unreadable before the source is stale.
    pub patience: Duration,
}

impl Settings {
    /// The time until the folder is read again without an event.
    const fn poll_after(&self, is_watched: bool) -> Duration {
        if is_watched {
            self.poll
        } else {
            POLL_UNWATCHED
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(30),
            quiet: Duration::from_millis(15),
            longest_wait: Duration::from_millis(50),
            grace: Duration::from_millis(200),
            patience: Duration::from_secs(10),
        }
    }
}

/// The reason why a folder cannot be followed.
#[derive(Debug, Error)]
#[error("manifests folder {}: {reason}; name a folder that exists and can be read", dir.display())]
pub struct FolderError {
    /// The folder.
    pub dir: PathBuf,
    /// The reason.
    pub reason: String,
}

/// A readable folder of manifests.
#[derive(Debug)]
pub struct ManifestSource {
    root: PathBuf,
    wanted: Wanted,
    settings: Settings,
    clock: Arc<dyn Clock>,
    stats: Arc<SourceStats>,
}

impl ManifestSource {
    /// Checks that the folder exists and can be read.
    ///
    /// # Errors
    ///
    /// When it does not exist or cannot be read.
    pub fn open(
        root: &Path,
        wanted: Wanted,
        settings: Settings,
        clock: Arc<dyn Clock>,
        stats: Arc<SourceStats>,
    ) -> Result<Self, FolderError> {
        match std::fs::read_dir(root) {
            Ok(_) => Ok(Self {
                root: root.to_owned(),
                wanted,
                settings,
                clock,
                stats,
            }),
            Err(error) => Err(FolderError {
                dir: root.to_owned(),
                reason: error.to_string(),
            }),
        }
    }

    /// Reads the folder once, for commands that do not follow it. Returns its lists and problems.
    #[must_use]
    pub fn read_once(&self) -> (Vec<crate::facts::Change>, Vec<Problem>) {
        let stats = Arc::clone(&self.stats);
        let mut folder = Folder::new(
            self.root.clone(),
            self.wanted.clone(),
            Duration::ZERO,
            stats,
        );
        let read = folder.reread(self.clock.now(), self.clock.wall());
        (read.changes, read.problems)
    }

    /// Follows the folder until cancelled, or until the receiver is gone.
    pub async fn run(self, tx: impl EventSink, cancel: CancellationToken) {
        tokio::select! {
            () = cancel.cancelled() => {}
            () = self.follow(&tx) => {}
        }
    }

    /// Follows the folder until the receiver is gone.
    async fn follow(self, tx: &impl EventSink) {
        let Self {
            root,
            wanted,
            settings,
            clock,
            stats,
        } = self;
        let mut folder = Folder::new(root, wanted, settings.grace, Arc::clone(&stats));
        let mut liveness = Liveness::new(1, settings.patience, clock.now(), clock.wall());
        let mut watch = FolderWatch::default();
        if let Some(problem) = watch::problem().map(Problem::of_source) {
            stats.board().add(std::slice::from_ref(&problem));
            if tx.send(SourceEvent::Problem(problem)).await.is_err() {
                return;
            }
        }
        loop {
            let seen = clock.now();
            let wall = clock.wall();
            let reading = tokio::task::spawn_blocking(move || {
                let read = folder.reread(seen, wall);
                (folder, read)
            });
            let read;
            (folder, read) = match reading.await {
                Ok(back) => back,
                // A panic there becomes a panic here. The task is cancelled only when the runtime ends.
                Err(error) => match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => return,
                },
            };
            match &read.unreadable {
                Some(reason) => liveness.failed(0, seen, wall, reason.clone()),
                None => {
                    stats.touch(wall);
                    liveness.live(0);
                }
            }
            // Changes between reading a folder and watching it gave no event.
            let at_once = watch.follow(&read.folders);
            let again = if at_once {
                Some(Duration::ZERO)
            } else {
                read.again
            };
            let turn = liveness.turn(clock.now());
            if let Some(turn) = &turn {
                stats.set_stale(matches!(turn, Turn::Stale { .. }));
            }
            // The watch of a removed folder went with it, so its return gives no event.
            let is_away = read.unreadable.is_some();
            if send(tx, read, turn, seen).await.is_err() {
                return;
            }
            let poll = settings.poll_after(watch.is_complete() && !is_away);
            let due = liveness
                .due()
                .map(|due| due.saturating_duration_since(clock.now()));
            let wait = [Some(poll), again, due]
                .into_iter()
                .flatten()
                .min()
                .unwrap_or(poll);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = watch.changed(settings.quiet, settings.longest_wait) => {}
            }
        }
    }
}

async fn send(
    tx: &impl EventSink,
    read: Reread,
    turn: Option<Turn>,
    seen: Instant,
) -> Result<(), Unheard> {
    let changes = read.changes.into_iter().map(|change| SourceEvent::Changed {
        change,
        seen,
        triggered: None,
    });
    let problems = read.problems.into_iter().map(SourceEvent::Problem);
    let turn = turn
        .into_iter()
        .map(|turn| SourceEvent::of_turn(Part::Cluster, turn));
    // What a reading finds is judged and published together.
    tx.send_all(problems.chain(changes).chain(turn).collect())
        .await
}

#[cfg(test)]
mod tests;
