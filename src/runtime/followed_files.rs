//! Key files and certificates are read again when they change.
//!
//! Their folders are watched, so a replaced file or a moved link, as Secrets have in a pod, is seen at once. The
//! content decides whether something changed. It is taken once two looks find the same: files that belong
//! together are not taken in halves. If the new content is wrong, that is logged and the old stays in use.

use std::path::PathBuf;
use std::time::Duration;

use ops::watch::FileWatch;
use ring::digest::{SHA256, digest};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

/// How often the files are read although the system reports no change.
const POLL: Duration = Duration::from_secs(30);
/// How long after a change they are read again.
const SECOND_LOOK: Duration = Duration::from_millis(200);

/// Puts the new content into use, or gives its problems with their places.
pub(crate) type Take = Box<dyn FnMut() -> Result<(), Vec<String>> + Send>;

/// Files that are read together.
pub(crate) struct Reload {
    /// The kind of content, for the log.
    what: &'static str,
    /// The files.
    files: Vec<PathBuf>,
    /// The content in use.
    seen: Contents,
    /// The content at the last look, if it is not in use yet.
    waiting: Option<Contents>,
    /// Takes new content into use.
    take: Take,
}

impl Reload {
    /// Files whose content is in use. `seen` is their state before they were read.
    pub(crate) fn new(what: &'static str, files: Vec<PathBuf>, seen: Contents, take: Take) -> Self {
        Self {
            what,
            files,
            seen,
            waiting: None,
            take,
        }
    }

    /// Reads the files and puts new content into use. Gives the outcome of a change.
    fn look(&mut self) -> Option<Result<(), Vec<String>>> {
        let now = Contents::of(&self.files);
        let before = self.waiting.take();
        if now == self.seen {
            return None;
        }
        if before.as_ref() != Some(&now) {
            self.waiting = Some(now);
            return None;
        }
        self.seen = now;
        Some((self.take)())
    }

    /// Takes what the files hold now: it may be newer than what is in use. What is wrong by now was right
    /// then, and stays in use.
    pub(crate) fn settle(&mut self) {
        let _wrong_now = (self.take)();
    }

    /// Looks at the files and logs the outcome.
    fn look_and_log(&mut self) {
        match self.look() {
            None => {}
            Some(Ok(())) => tracing::info!(what = self.what, "changed files are in use"),
            Some(Err(problems)) => {
                for error in problems {
                    let what = self.what;
                    tracing::error!(
                        what,
                        error,
                        "changed files have errors; the old ones stay in use"
                    );
                }
            }
        }
    }
}

/// The state of some files: a digest of each, `None` for one that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contents(Vec<Option<Vec<u8>>>);

impl Contents {
    /// The current state.
    pub(crate) fn of(files: &[PathBuf]) -> Self {
        let digest_of = |file: &PathBuf| {
            let octets = std::fs::read(file).ok()?;
            Some(digest(&SHA256, &octets).as_ref().to_vec())
        };
        Self(files.iter().map(digest_of).collect())
    }
}

/// Looks at the files whenever one of them may have changed, until cancelled.
///
/// # Errors
/// When looking panicked.
pub(crate) async fn run(
    mut reloads: Vec<Reload>,
    cancel: CancellationToken,
) -> Result<(), JoinError> {
    if reloads.is_empty() {
        cancel.cancelled().await;
        return Ok(());
    }
    let files = |reloads: &[Reload]| -> Vec<PathBuf> {
        let files = reloads.iter().flat_map(|reload| &reload.files);
        files.cloned().collect()
    };
    let mut watch = FileWatch::default();
    loop {
        let is_waiting = reloads.iter().any(|reload| reload.waiting.is_some());
        let followed = files(&reloads);
        let next_look = async {
            if is_waiting {
                tokio::time::sleep(SECOND_LOOK).await;
            } else {
                watch.next(followed, POLL).await;
            }
        };
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = next_look => {}
        }
        let looked = tokio::task::spawn_blocking(move || {
            reloads.iter_mut().for_each(Reload::look_and_log);
            reloads
        });
        reloads = looked.await?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn each_change_of_content_is_taken_once_and_a_touch_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "one").unwrap();
        let taken = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&taken);
        let take: Take = Box::new(move || match count.fetch_add(1, Ordering::Relaxed) {
            1 => Err(vec!["wrong".to_owned()]),
            _ => Ok(()),
        });
        let files = vec![file.clone()];
        let seen = Contents::of(&files);
        let mut reload = Reload::new("keys", files, seen, take);
        assert_eq!(reload.look(), None);
        std::fs::write(&file, "one").unwrap();
        assert_eq!((reload.look(), reload.look()), (None, None));
        std::fs::write(&file, "two").unwrap();
        assert_eq!((reload.look(), reload.look()), (None, Some(Ok(()))));
        assert_eq!(reload.look(), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(reload.look(), None);
        assert_eq!(reload.look(), Some(Err(vec!["wrong".to_owned()])));
        assert_eq!(reload.look(), None);
        std::fs::write(&file, "half").unwrap();
        assert_eq!(reload.look(), None);
        // It was still being written.
        std::fs::write(&file, "whole").unwrap();
        assert_eq!((reload.look(), reload.look()), (None, Some(Ok(()))));
        assert_eq!(taken.load(Ordering::Relaxed), 3);
    }

    #[test]
    fn a_change_between_reading_and_following_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "one").unwrap();
        let files = vec![file.clone()];
        let seen = Contents::of(&files);
        std::fs::write(&file, "two").unwrap();
        let mut reload = Reload::new("keys", files, seen, Box::new(|| Ok(())));
        assert_eq!((reload.look(), reload.look()), (None, Some(Ok(()))));
    }
}
