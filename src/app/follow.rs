//! Key files and certificates are read again when they change.
//!
//! The files are looked at every two seconds, by their content: that also sees what is replaced by a rename
//! or by moving a link, as Secrets are in a pod. What is wrong with the new content is logged, and the old
//! stays in use.

use std::path::PathBuf;
use std::time::Duration;

use ring::digest::{Digest, SHA256, digest};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at.
const INTERVAL: Duration = Duration::from_secs(2);

/// Takes the new content into use; else says what is wrong with it, each with its place.
pub(super) type Take = Box<dyn FnMut() -> Result<(), Vec<String>> + Send>;

/// Files that are read together.
pub(super) struct Reload {
    /// What they hold, for the log.
    what: &'static str,
    /// The files.
    files: Vec<PathBuf>,
    /// What each held when it was looked at last; nothing when it could not be read.
    seen: Vec<Option<Digest>>,
    /// Takes new content into use.
    take: Take,
}

impl Reload {
    /// Files whose content is in use already.
    pub(super) fn new(what: &'static str, files: Vec<PathBuf>, take: Take) -> Self {
        let seen = files.iter().map(content).collect();
        Self {
            what,
            files,
            seen,
            take,
        }
    }

    /// Looks at the files, and takes what is new into use. Gives what came of it, when there was a change.
    fn look(&mut self) -> Option<Result<(), Vec<String>>> {
        let now: Vec<_> = self.files.iter().map(content).collect();
        let is_same = |(a, b): (&Option<Digest>, &Option<Digest>)| {
            a.as_ref().map(AsRef::as_ref) == b.as_ref().map(AsRef::as_ref)
        };
        if self.seen.iter().zip(&now).all(is_same) {
            return None;
        }
        self.seen = now;
        Some((self.take)())
    }

    /// Looks, and logs what came of it.
    fn look_and_log(&mut self) {
        match self.look() {
            None => {}
            Some(Ok(())) => tracing::info!(what = self.what, "files changed and are in use"),
            Some(Err(problems)) => {
                for error in problems {
                    let what = self.what;
                    tracing::error!(
                        what,
                        error,
                        "files changed and are wrong; the old stay in use"
                    );
                }
            }
        }
    }
}

/// What tells one content of a file from another.
fn content(file: &PathBuf) -> Option<Digest> {
    Some(digest(&SHA256, &std::fs::read(file).ok()?))
}

/// Looks at all files again and again until told to stop.
///
/// # Errors
/// When looking panicked.
pub(super) async fn run(
    mut reloads: Vec<Reload>,
    cancel: CancellationToken,
) -> Result<(), JoinError> {
    if reloads.is_empty() {
        cancel.cancelled().await;
        return Ok(());
    }
    loop {
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = tokio::time::sleep(INTERVAL) => {}
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
        let mut reload = Reload::new("keys", vec![file.clone()], take);
        assert_eq!(reload.look(), None);
        std::fs::write(&file, "one").unwrap();
        assert_eq!(reload.look(), None);
        std::fs::write(&file, "two").unwrap();
        assert_eq!(reload.look(), Some(Ok(())));
        assert_eq!(reload.look(), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(reload.look(), Some(Err(vec!["wrong".to_owned()])));
        assert_eq!(reload.look(), None);
        std::fs::write(&file, "two").unwrap();
        assert_eq!(reload.look(), Some(Ok(())));
        assert_eq!(taken.load(Ordering::Relaxed), 3);
    }
}
