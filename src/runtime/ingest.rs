//! The data side: sources, zone files, and the writer's thread, which follow one plan.
//!
//! When a new configuration plans other zones it ends and another begins with the same store; what is
//! served meanwhile are the versions that are there.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use kubernetes::facts::Part;
use kubernetes::source::{SourceEvent, SourceStats, Wanted};
use ops::metrics::Metrics;
use ops::{Clock, Tasks, panic_text};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use transfer::AskedSecondary;
use writer::{Ended, Input, ZonePlan};
use zone::Zone;
use zone::journal::{Journal, Reader};

use crate::failure::one_line;
use crate::plan::clusters::PlannedCluster;
use crate::runtime::deployment::{Deployment, has_version};
use crate::runtime::inputs::hold_inputs;
use crate::runtime::observed::Observed;
use crate::runtime::sources::Source;
use crate::runtime::startup_serials::ask_secondaries;
use crate::runtime::writer_thread::{Place, Writer, WriterThread};
use crate::runtime::zone_files::{read_once, start_files};

/// Changes that wait for the writer before sources are held back.
const WAITING_CHANGES: usize = 1024;
/// How long until a source that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(2);

/// Secondaries that are to be asked what they have.
pub(crate) type ToAsk = Vec<AskedSecondary>;

/// The data side as it runs.
pub(crate) struct Data {
    /// What it follows.
    pub(crate) deployment: Arc<Deployment>,
    /// What can be seen of it.
    pub(crate) observed: Arc<Observed>,
    /// Reads the history.
    pub(crate) reader: Reader,
    /// The way to the writer; weak, so that it ends when nobody feeds it.
    pub(crate) inputs: mpsc::WeakSender<Input>,
    /// The writer's thread.
    writer: WriterThread,
    /// Ends sources, files and, with them, the writer.
    stop: CancellationToken,
}

/// What the data side needs of the process.
pub(crate) struct Surroundings {
    /// Hears of versions.
    pub(crate) metrics: Arc<Metrics>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
}

impl Data {
    /// Starts the writer and waits until its store is open and all versions in it are restored. The sender
    /// is for [`Self::follow`], and must not be kept.
    pub(crate) async fn open(
        store: Place,
        observed: Arc<Observed>,
        change: Option<String>,
        awaits_secondaries: bool,
        around: &Surroundings,
    ) -> anyhow::Result<(Self, mpsc::Sender<Input>)> {
        let (tx, inputs) = mpsc::channel(WAITING_CHANGES);
        let deployment = Arc::clone(&observed.deployment);
        let writer = Writer {
            store,
            state: observed.state().to_owned(),
            deployment: Arc::clone(&deployment),
            inputs,
            clock: Arc::clone(&around.clock),
            metrics: Arc::clone(&around.metrics),
            problems: Arc::clone(&observed.problems),
            warnings: Arc::clone(&observed.warnings),
            awaits_secondaries,
            change,
        };
        let (writer, opened) = writer.start()?;
        let Ok(reader) = opened.await else {
            join(writer).await?;
            bail!("the writer ended at the start");
        };
        let data = Self {
            deployment,
            observed,
            reader,
            inputs: tx.downgrade(),
            writer,
            stop: CancellationToken::new(),
        };
        Ok((data, tx))
    }

    /// Starts what feeds the writer: files, sources, and the question what secondaries have.
    pub(crate) async fn follow(
        &self,
        (inputs, opened): (mpsc::Sender<Input>, Vec<Source>),
        to_ask: ToAsk,
        tasks: &mut Tasks,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<()> {
        let Self {
            deployment,
            observed,
            stop,
            ..
        } = self;
        let table = observed.secondary_table();
        ask_secondaries(to_ask, table, &inputs, stop, tasks, clock);
        start_files(deployment, &inputs, stop, tasks, clock)?;
        self.start_sources(opened, &inputs, tasks, clock).await?;
        hold_inputs(inputs, stop, tasks);
        Ok(())
    }

    /// Asks secondaries that were not there when the sources were started.
    pub(crate) fn ask(&self, to_ask: ToAsk, tasks: &mut Tasks, clock: &Arc<dyn Clock>) {
        if let Some(inputs) = self.inputs.upgrade() {
            let table = self.observed.secondary_table();
            ask_secondaries(to_ask, table, &inputs, &self.stop, tasks, clock);
        }
    }

    /// Whether the writer is no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.writer.is_finished()
    }

    /// Tells sources and files to end; the writer does when they have.
    pub(crate) fn stop(&self) {
        self.stop.cancel();
    }

    /// Ends everything; gives the store, and what the next writer goes on with.
    pub(crate) async fn end(self) -> anyhow::Result<Ended<Journal>> {
        self.stop.cancel();
        join(self.writer).await
    }

    /// Starts the sources and what carries their events to the writer; `opened`: those that are open
    /// already, all or none.
    async fn start_sources(
        &self,
        opened: Vec<Source>,
        inputs: &mpsc::Sender<Input>,
        tasks: &mut Tasks,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<()> {
        let stop = &self.stop;
        let mut opened = opened.into_iter();
        for (place, cluster) in self.deployment.plan.clusters.iter().enumerate() {
            let stats = Arc::clone(&self.deployment.cluster(cluster).stats);
            let source = match opened.next() {
                Some(source) => Some(source),
                None => first_open(&self.deployment, cluster, clock, &stats).await?,
            };
            let (from, wanted) = (cluster.source.clone(), cluster.wanted.clone());
            let (tx, events) = mpsc::channel(WAITING_CHANGES);
            let (clock, cancel) = (Arc::clone(clock), stop.clone());
            tasks.spawn_until("source", stop, async move {
                let source = match source {
                    Some(source) => Some(source),
                    None => open_later(&from, &wanted, &clock, &stats, &cancel).await,
                };
                if let Some(source) = source {
                    source.run(tx, cancel).await;
                }
                Ok::<_, std::convert::Infallible>(())
            });
            let zones = zones_of(&self.deployment, cluster);
            let carry = carry(place, zones, events, inputs.clone());
            tasks.spawn_until("carrier", stop, async move {
                carry.await;
                Ok::<_, std::convert::Infallible>(())
            });
        }
        Ok(())
    }
}

/// The folder of the store, to be opened.
pub(crate) fn in_folder(state: &Path) -> Place {
    Place::Folder(state.to_owned())
}

/// Waits for the end of a writer; gives what it leaves.
async fn join(writer: WriterThread) -> anyhow::Result<Ended<Journal>> {
    match tokio::task::spawn_blocking(|| writer.join()).await? {
        Ok(ended) => ended,
        Err(panic) => Err(anyhow!("the writer panicked: {}", panic_text(&*panic))),
    }
}

/// Opens all sources of a plan, and reads its files, to see that they can be used.
pub(crate) async fn try_out(
    deployment: &Deployment,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Vec<Source>> {
    for file in &deployment.plan.files {
        read_once(file, Arc::clone(clock))?;
    }
    let mut opened = Vec::new();
    for cluster in &deployment.plan.clusters {
        let stats = &deployment.cluster(cluster).stats;
        opened.push(open(cluster, clock, stats).await?);
    }
    Ok(opened)
}

/// Opens the source of a cluster.
async fn open(
    cluster: &PlannedCluster,
    clock: &Arc<dyn Clock>,
    stats: &Arc<SourceStats>,
) -> anyhow::Result<Source> {
    let (wanted, clock) = (cluster.wanted.clone(), Arc::clone(clock));
    Source::open(&cluster.source, wanted, clock, Arc::clone(stats))
        .await
        .with_context(|| format!("{}: {}", cluster.place, cluster.word))
}

/// Opens the source of a cluster at the start; one that cannot be opened is tried again when all zones
/// have versions from the store.
async fn first_open(
    deployment: &Deployment,
    cluster: &PlannedCluster,
    clock: &Arc<dyn Clock>,
    stats: &Arc<SourceStats>,
) -> anyhow::Result<Option<Source>> {
    let is_restored = || {
        let mut zones = cluster.plan.zones();
        zones.all(|plan| has_version(deployment, &plan.name))
    };
    match open(cluster, clock, stats).await {
        Ok(source) => Ok(Some(source)),
        Err(error) if is_restored() => {
            let error = one_line(&error);
            tracing::error!(
                error,
                "the stored versions are served as stale; the source is tried again"
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Tries to open a source until it can be opened; `None` when cancelled before.
async fn open_later(
    from: &directives::config::Source,
    wanted: &Wanted,
    clock: &Arc<dyn Clock>,
    stats: &Arc<SourceStats>,
    cancel: &CancellationToken,
) -> Option<Source> {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return None,
            () = tokio::time::sleep(OPEN_AGAIN) => {}
        }
        let (clock, stats) = (Arc::clone(clock), Arc::clone(stats));
        if let Ok(source) = Source::open(from, wanted.clone(), clock, stats).await {
            return Some(source);
        }
    }
}

/// The zones that each part of a cluster's outside is the source of.
type ByPart = [(Part, Vec<Arc<Zone>>); 2];

/// The zones of a cluster by what they are made of.
fn zones_of(deployment: &Deployment, cluster: &PlannedCluster) -> ByPart {
    let zone_of = |plan: &ZonePlan| deployment.zones.get(&plan.name).map(Arc::clone);
    let all = cluster.plan.zones().filter_map(zone_of);
    let imports = cluster.plan.clusterset.iter().filter_map(zone_of);
    [
        (Part::Cluster, all.collect()),
        (Part::Imports, imports.collect()),
    ]
}

/// What it means that a part is away.
fn say_away(part: Part, zones: &ByPart) -> &'static str {
    let mut parts = zones.iter().filter(|(its, _)| *its == part);
    let has_version = parts.any(|(_, zones)| zones.iter().any(|zone| zone.current().is_some()));
    match (part, has_version) {
        (Part::Cluster, true) => "the source is away; the last version is served as stale",
        (Part::Cluster, false) => {
            "the source is away; nothing can be answered until it is there: there is no version yet"
        }
        (Part::Imports, true) => {
            "ServiceImports are away; the last version of their zones is served as stale"
        }
        (Part::Imports, false) => {
            "ServiceImports are away; their zones cannot be answered until they are there"
        }
    }
}

/// Carries a source's events to the writer until the source ends.
async fn carry(
    cluster: usize,
    zones: ByPart,
    mut events: mpsc::Receiver<SourceEvent>,
    inputs: mpsc::Sender<Input>,
) {
    while let Some(event) = events.recv().await {
        let input = match event {
            SourceEvent::Changed {
                change,
                seen,
                triggered,
            } => Input::Change {
                cluster,
                change,
                seen,
                triggered,
            },
            SourceEvent::Stale {
                part,
                since,
                reason,
            } => {
                tracing::error!(reason, "{}", say_away(part, &zones));
                Input::Stale {
                    cluster,
                    part,
                    since,
                }
            }
            SourceEvent::Fresh(part) => {
                match part {
                    Part::Cluster => tracing::info!(cluster, "the source is there"),
                    Part::Imports => tracing::info!(cluster, "ServiceImports are there"),
                }
                Input::Fresh { cluster, part }
            }
            SourceEvent::Problem(problem) => {
                tracing::warn!("{problem}");
                continue;
            }
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::Name;
    use zone::Version;

    #[test]
    fn a_source_that_was_never_there_leaves_nothing_to_answer() {
        let zone = Arc::new(Zone::new(&Name::parse("z").unwrap()));
        let zones: ByPart = [
            (Part::Cluster, vec![Arc::clone(&zone)]),
            (Part::Imports, vec![]),
        ];
        let said = say_away(Part::Cluster, &zones);
        assert!(said.contains("nothing can be answered"), "{said}");
        let version = zone::testing::zone("z.", 1, &[]).current().unwrap();
        zone.restore(Version::clone(&version));
        let said = say_away(Part::Cluster, &zones);
        assert!(said.contains("served as stale"), "{said}");
        let said = say_away(Part::Imports, &zones);
        assert!(said.contains("cannot be answered"), "{said}");
    }
}
