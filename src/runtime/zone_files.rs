//! The zone files of a plan: read once, and followed while the server runs.

use std::sync::Arc;

use anyhow::anyhow;
use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::{Input, SourceId, SourceSender};
use zonefile::BadFile;
use zonefile::follow::{FileEvent, FileStats, Follower, log_problems, log_warnings};

use crate::plan::files::PlannedFile;
use crate::runtime::deployment::{DeployedFile, Deployment, has_version};

/// Reads a file for a command that does not follow it.
pub(crate) fn read_once(file: &PlannedFile, clock: Arc<dyn Clock>) -> anyhow::Result<FileEvent> {
    Ok(OpenFile::read(file, Arc::default(), &clock)?.first)
}

/// What is wrong with a file, and where the Corefile names it.
fn unusable(file: &PlannedFile, bad: &BadFile) -> anyhow::Error {
    anyhow!("{bad}\n{}: this file cannot be used", file.place)
}

/// A file that was read and is not followed yet. Its first reading is kept: a second one could fail.
pub(crate) struct OpenFile {
    follower: Follower,
    first: FileEvent,
}

impl OpenFile {
    /// Reads a file.
    pub(crate) fn read(
        file: &PlannedFile,
        stats: Arc<FileStats>,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Self> {
        Self::read_or(file, stats, clock, |bad| Err(unusable(file, &bad)))
    }

    /// Reads a file at the start of the program. While it cannot be used, a version from an earlier run is served as
    /// stale. Without one the names of the file are SERVFAIL.
    pub(crate) fn read_at_start(
        file: &PlannedFile,
        deployment: &Deployment,
        clock: &Arc<dyn Clock>,
    ) -> Self {
        let DeployedFile { stats, .. } = deployment.file(file);
        let read = Self::read_or(file, Arc::clone(stats), clock, |bad| {
            if !has_version(deployment, file.plan.zone()) {
                stats.set_missing();
            }
            log_problems(&file.settings.apex, &bad);
            let since = clock.wall();
            Ok::<_, std::convert::Infallible>(FileEvent::Bad { since })
        });
        match read {
            Ok(file) => file,
        }
    }

    fn read_or<E>(
        file: &PlannedFile,
        stats: Arc<FileStats>,
        clock: &Arc<dyn Clock>,
        or: impl FnOnce(BadFile) -> Result<FileEvent, E>,
    ) -> Result<Self, E> {
        let mut follower = Follower::new(file.settings.clone(), Arc::clone(clock), stats);
        let seen = clock.now();
        let first = match follower.read() {
            Ok(content) => {
                log_warnings(&content);
                FileEvent::Read {
                    content: Arc::new(content),
                    seen,
                }
            }
            Err(bad) => or(bad)?,
        };
        Ok(Self { follower, first })
    }

    /// Sends the first reading to the writer and follows the file.
    pub(crate) fn follow(
        self,
        source: SourceId,
        inputs: &mpsc::Sender<Input>,
        stop: &CancellationToken,
        tasks: &mut Tasks,
    ) {
        let Self { follower, first } = self;
        let sender = SourceSender::new(source, inputs.clone());
        let cancel = stop.clone();
        tasks.spawn_until("zone file", stop, async move {
            if sender.send_file(first).await {
                follower.run(|event| sender.send_file(event), cancel).await;
            }
            Ok::<_, std::convert::Infallible>(())
        });
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};
    use ops::SystemClock;

    use super::*;
    use crate::plan::model::Plan;

    #[tokio::test]
    async fn a_file_that_turns_bad_after_it_was_read_is_still_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("db");
        let text = "$TTL 60\n@ SOA ns h 1 1h 2h 3h 4h\n@ NS ns\nns A 192.0.2.1\n";
        std::fs::write(&path, text).unwrap();
        let corefile = format!("z.test {{\n file {}\n}}\n", path.display());
        let loaded = parse_text("Corefile", &corefile, &Overrides::default(), &|_| None).unwrap();
        let plan = Plan::new(&loaded.config, &|_| Vec::new());
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let file = OpenFile::read(&plan.files[0], Arc::default(), &clock).unwrap();
        std::fs::write(&path, "nonsense").unwrap();
        let (inputs, mut heard) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        file.follow(SourceId(7), &inputs, &stop, &mut tasks);
        let first = heard.recv().await.unwrap();
        let Input::File { source, event } = first else {
            panic!("another input: {first:?}");
        };
        assert_eq!(source, SourceId(7));
        assert!(matches!(event, FileEvent::Read { .. }), "{event:?}");
        stop.cancel();
    }
}
