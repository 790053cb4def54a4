//! The zone files of a plan: read once, and followed while the server runs.

use std::sync::Arc;

use anyhow::bail;
use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::{FileInput, Input};
use zonefile::BadFile;
use zonefile::follow::{FileEvent, FileStats, Follower, log_problems};

use crate::plan::files::PlannedFile;
use crate::runtime::deployment::{Deployment, has_version};

/// Events of a file that wait to be carried.
const WAITING_EVENTS: usize = 4;

/// Reads a file, for commands that look and leave.
pub(crate) fn read_once(file: &PlannedFile, clock: Arc<dyn Clock>) -> anyhow::Result<FileInput> {
    let seen = clock.now();
    let stats = Arc::new(FileStats::default());
    match Follower::new(file.settings.clone(), clock, stats).read() {
        Ok(content) => Ok(FileInput::Read {
            content: Arc::new(content),
            seen,
        }),
        Err(bad) => bail!("{}", shown(file, &bad)),
    }
}

/// What is wrong with a file, and where the Corefile names it.
fn shown(file: &PlannedFile, bad: &BadFile) -> String {
    format!("{bad}\n{}: this file cannot be used", file.place)
}

/// Reads the files and starts what follows them. A file that cannot be used is a reason not to start,
/// unless its zone has a version from an earlier run: that is served as stale.
pub(crate) fn start_files(
    deployment: &Deployment,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<()> {
    for (place, file) in deployment.plan.files.iter().enumerate() {
        let settings = file.settings.clone();
        let stats = deployment.file_stats(file);
        let mut follower = Follower::new(settings, Arc::clone(clock), stats);
        let seen = clock.now();
        let first = match follower.read() {
            Ok(content) => FileEvent::Read {
                content: Arc::new(content),
                seen,
            },
            Err(bad) if has_version(deployment, file.plan.zone()) => {
                log_problems(&file.settings.apex, &bad);
                FileEvent::Bad {
                    since: clock.wall(),
                }
            }
            Err(bad) => bail!("{}", shown(file, &bad)),
        };
        let (tx, mut events) = mpsc::channel(WAITING_EVENTS);
        let cancel = stop.clone();
        tasks.spawn_until("zone file", stop, async move {
            follower.run(tx, cancel).await;
            Ok::<_, std::convert::Infallible>(())
        });
        let inputs = inputs.clone();
        tasks.spawn_until("file carrier", stop, async move {
            let mut next = Some(first);
            while let Some(event) = next {
                let input = input_of(event);
                if inputs
                    .send(Input::File { file: place, input })
                    .await
                    .is_err()
                {
                    break;
                }
                next = events.recv().await;
            }
            Ok::<_, std::convert::Infallible>(())
        });
    }
    Ok(())
}

/// What the writer is told.
fn input_of(event: FileEvent) -> FileInput {
    match event {
        FileEvent::Read { content, seen } => FileInput::Read { content, seen },
        FileEvent::Bad { since } => FileInput::Bad { since },
    }
}
