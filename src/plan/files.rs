//! The zone files of a configuration: planned, read at the start, followed.

use std::sync::Arc;

use anyhow::bail;
use directives::config::Config;
use dns::Name;
use ops::{Clock, SystemClock, Tasks};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::{ClusterPlan, FileInput, FilePlan, Input};
use zone::journal::Retention;
use zone::{Zone, ZoneSet};
use zonefile::follow::{FileEvent, FileStats, Follower, Settings, log_problems};
use zonefile::{BadFile, Role};

use crate::failure::Failure;
use crate::plan::clusters::{Planned, kept, memory_limits, zone_of};

/// Events of a file that wait to be carried.
const WAITING_EVENTS: usize = 4;

/// One file as one zone, or under one.
#[derive(Debug)]
pub struct PlannedFile {
    /// Where the Corefile names it.
    pub place: corefile::Place,
    /// How it is followed.
    pub settings: Settings,
    /// What it is to the writer.
    pub plan: FilePlan,
    /// What is kept of its zone; of no use where it lies under one.
    pub kept: Retention,
}

impl PlannedFile {
    /// Reads the file, for commands that look and leave.
    pub(crate) fn read_once(&self, clock: Arc<dyn Clock>) -> anyhow::Result<FileInput> {
        let seen = clock.now();
        let stats = Arc::new(FileStats::default());
        match Follower::new(self.settings.clone(), clock, stats).read() {
            Ok(content) => Ok(FileInput::Read {
                content: Arc::new(content),
                seen,
            }),
            Err(bad) => bail!("{}", self.shown(&bad)),
        }
    }

    /// What is wrong with the file, and where the Corefile names it.
    fn shown(&self, bad: &BadFile) -> String {
        format!("{bad}\n{}: this file cannot be used", self.place)
    }
}

/// Plans the files under the zones of a cluster; `cluster` is its place.
pub(crate) fn plan_overlays(
    config: &Config,
    plan: &ClusterPlan,
    cluster: usize,
    files: &mut Vec<PlannedFile>,
) {
    for (zone, zone_plan) in plan.zones().enumerate() {
        let apex = zone_plan.zone.apex();
        // Blocks that write the same zone agree on it.
        let mut blocks = config.servers.iter();
        let Some((file, names)) = blocks.find_map(|block| block.overlay_of(apex)) else {
            continue;
        };
        files.push(PlannedFile {
            place: file.place.clone(),
            settings: settings(file, apex, Role::Overlay, names),
            plan: FilePlan::Overlay { cluster, zone },
            kept: Retention::DEFAULT,
        });
    }
}

/// Plans the zones that are files.
pub(crate) fn plan_file_zones(
    config: &Config,
    files: &mut Vec<PlannedFile>,
    zones: &mut Vec<Arc<Zone>>,
    there: &ZoneSet,
) {
    for block in &config.servers {
        for (apex, file) in block.file_zones() {
            // A second block with the same zone shares it.
            if zones.iter().any(|zone| zone.apex() == apex) {
                continue;
            }
            let zone = zone_of(there, apex);
            let kept = kept(block.for_zone(apex));
            zones.push(Arc::clone(&zone));
            files.push(PlannedFile {
                place: file.place.clone(),
                settings: settings(file, apex, Role::Zone, vec![apex.clone()]),
                plan: FilePlan::Zone {
                    zone,
                    limits: memory_limits(kept),
                },
                kept,
            });
        }
    }
}

/// How a file is followed.
fn settings(
    file: &directives::config::ZoneFile,
    apex: &Name,
    role: Role,
    names: Vec<Name>,
) -> Settings {
    Settings {
        path: file.path.clone(),
        apex: apex.clone(),
        role,
        names,
        reload: file.reload,
    }
}

/// Reads all files of a configuration, for `check`.
pub(crate) fn check_files(config: &Config) -> Result<(), Failure> {
    let planned = crate::plan::clusters::plan(config, &|_| Vec::new());
    let wrong: Vec<String> = planned
        .files
        .iter()
        .filter_map(|file| file.read_once(Arc::new(SystemClock)).err())
        .map(|error| error.to_string())
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Failure::unusable(wrong.join("\n")))
    }
}

/// Whether every zone that a file is part of has a version from the store.
fn is_restored(planned: &Planned<'_>, plan: &FilePlan) -> bool {
    match plan {
        FilePlan::Zone { zone, limits: _ } => zone.current().is_some(),
        FilePlan::Overlay { cluster, zone } => planned
            .clusters
            .get(*cluster)
            .and_then(|cluster| cluster.plan.zones().nth(*zone))
            .is_some_and(|plan| plan.zone.current().is_some()),
    }
}

/// Reads the files and starts what follows them. A file that cannot be used is a reason not to start,
/// unless its zone has a version from an earlier run: that is served as stale.
pub(crate) fn start_files(
    planned: &Planned<'_>,
    stats: &[Arc<FileStats>],
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<()> {
    for (place, (file, stats)) in planned.files.iter().zip(stats).enumerate() {
        let settings = file.settings.clone();
        let mut follower = Follower::new(settings, Arc::clone(clock), Arc::clone(stats));
        let seen = clock.now();
        let first = match follower.read() {
            Ok(content) => FileEvent::Read {
                content: Arc::new(content),
                seen,
            },
            Err(bad) if is_restored(planned, &file.plan) => {
                log_problems(&file.settings.apex, &bad);
                FileEvent::Bad {
                    since: clock.wall(),
                }
            }
            Err(bad) => bail!("{}", file.shown(&bad)),
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
