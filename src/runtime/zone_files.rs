//! The zone files of a plan: read once, and followed while the server runs.

use std::sync::Arc;

use anyhow::bail;
use ops::{Clock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::{Input, SourceSender};
use zonefile::BadFile;
use zonefile::follow::{FileEvent, FileStats, Follower, log_problems};

use crate::plan::files::PlannedFile;
use crate::runtime::deployment::{DeployedFile, Deployment, has_version};

/// Reads a file, for commands that look and leave.
pub(crate) fn read_once(file: &PlannedFile, clock: Arc<dyn Clock>) -> anyhow::Result<FileEvent> {
    let seen = clock.now();
    let stats = Arc::new(FileStats::default());
    match Follower::new(file.settings.clone(), clock, stats).read() {
        Ok(content) => Ok(FileEvent::Read {
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

/// Reads a file and starts its follower. A file that cannot be used is a reason not to start, unless its zone has a
/// version from an earlier run: that is served as stale.
pub(crate) fn start_file(
    deployment: &Deployment,
    file: &PlannedFile,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<()> {
    let DeployedFile { source, stats } = deployment.file(file);
    let mut follower = Follower::new(file.settings.clone(), Arc::clone(clock), Arc::clone(stats));
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
    let sender = SourceSender::new(*source, inputs.clone());
    let cancel = stop.clone();
    tasks.spawn_until("zone file", stop, async move {
        if sender.send_file(first).await {
            follower.run(|event| sender.send_file(event), cancel).await;
        }
        Ok::<_, std::convert::Infallible>(())
    });
    Ok(())
}
