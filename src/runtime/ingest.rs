//! The data side: sources, zone files, and the writer's thread, which follow one plan.
//!
//! A new configuration reaches the running writer as the difference of two plans. Sources and files that both plans have go
//! on untouched.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use arc_swap::ArcSwap;
use directives::config::{self, Replicas};
use kubernetes::source::{SourceStats, Wanted};
use ops::metrics::Metrics;
use ops::{Clock, HandlerMetrics, Tasks, panic_text};
use provenance::Operator;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use transfer::AskedSecondary;
use writer::{AskId, BatchSettings, Input, PlanChange, SourceId, SourceSender};
use zone::journal::{Journal, KeptCorefile, Reader};

use crate::failure::{WriterEnded, one_line};
use crate::plan::clusters::PlannedCluster;
use crate::runtime::archiver::{Archiver, Archives};
use crate::runtime::deployment::{DeployedCluster, DeployedFile, Deployment, has_version};
use crate::runtime::observed::Observed;
use crate::runtime::peer_serials::{ask_secondaries, follow_peers};
use crate::runtime::replicas::{Member, MemberParts, WriterSide};
use crate::runtime::sources::Source;
use crate::runtime::writer_thread::{self, Writer, WriterThread};
use crate::runtime::zone_files::OpenFile;

/// Changes that wait for the writer before sources are held back.
const WAITING_CHANGES: usize = 1024;
/// Questions of readers that wait for the writer: a change waits behind no more of them.
pub(crate) const WAITING_QUESTIONS: usize = 1;
/// How long until a source that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(2);

/// Secondaries that are to be asked what they have.
pub(crate) type ToAsk = Vec<AskedSecondary>;

/// Sources and files that are open and not followed yet, by number.
#[derive(Default)]
pub(crate) struct Opened {
    sources: BTreeMap<SourceId, Source>,
    files: BTreeMap<SourceId, OpenFile>,
}

/// Why the writer does not follow another deployment.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConfigured {
    /// It continues with the one that it has.
    #[error("a zone cannot be restored: {0}")]
    Refused(String),
    #[error(transparent)]
    Ended(#[from] WriterEnded),
}

/// The data side as it runs.
pub(crate) struct Data {
    /// What it follows.
    pub(crate) deployment: Arc<Deployment>,
    /// What can be seen of it.
    pub(crate) observed: Arc<Observed>,
    /// Reads the history.
    pub(crate) reader: Reader,
    /// The writer's inputs; `None` once the writer is to end.
    inputs: Option<mpsc::Sender<Input>>,
    /// The places of questions that wait for the writer.
    pub(crate) questions: Arc<Semaphore>,
    /// The writer's thread.
    writer: WriterThread,
    /// Ends single sources and followers of files.
    running: BTreeMap<SourceId, CancellationToken>,
    /// Ends all of them.
    stop: CancellationToken,
    /// The next asking of secondaries.
    next_ask: AskId,
    /// This process as one of several replicas.
    pub(crate) member: Option<Member>,
}

/// The directive for one of several replicas, with the API server of its block.
pub(crate) type WantedReplica<'a> = (&'a Replicas, Option<&'a config::Source>);

/// What the data side needs of the process.
pub(crate) struct Surroundings {
    /// Hears of versions.
    pub(crate) metrics: Arc<Metrics>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// How the writer gathers changes.
    pub(crate) batch: BatchSettings,
    /// The counters of directives.
    pub(crate) handlers: HandlerMetrics,
}

impl Data {
    /// Starts the writer and waits until its store is open and all versions in it are restored.
    pub(crate) async fn open(
        observed: Arc<Observed>,
        change: Option<String>,
        awaits_secondaries: bool,
        around: &Surroundings,
        replica: Option<(WantedReplica<'_>, &mut Tasks)>,
    ) -> anyhow::Result<Self> {
        let (tx, inputs) = mpsc::channel(WAITING_CHANGES);
        let next_ask = AskId(0);
        let deployment = Arc::clone(&observed.deployment);
        // A replica asks its secondaries before it leads.
        let awaits_secondaries = awaits_secondaries && replica.is_none();
        let started = match replica {
            Some((wanted, tasks)) => {
                Some(start_replica(wanted, &observed, around, &tx, tasks).await?)
            }
            None => None,
        };
        let (member, replica) = started.unzip();
        if let Some(member) = &member {
            observed.set_role(&member.role);
        }
        let writer = Writer {
            state: observed.state().path.clone(),
            deployment: Arc::clone(&deployment),
            inputs,
            clock: Arc::clone(&around.clock),
            metrics: Arc::clone(&around.metrics),
            troubles: Arc::clone(&observed.troubles),
            awaits_secondaries: awaits_secondaries.then_some(next_ask),
            change,
            secondaries: Arc::clone(observed.secondary_table()),
            batch: around.batch,
            replica,
        };
        let (writer, opened) = writer.start()?;
        let Ok(reader) = opened.await else {
            join(writer).await?;
            bail!("the writer ended at the start");
        };
        Ok(Self {
            deployment,
            observed,
            reader,
            inputs: Some(tx),
            questions: Arc::new(Semaphore::new(WAITING_QUESTIONS)),
            writer,
            running: BTreeMap::new(),
            stop: CancellationToken::new(),
            next_ask,
            member,
        })
    }

    /// The writer's inputs.
    fn inputs(&self) -> Result<mpsc::Sender<Input>, WriterEnded> {
        self.inputs.clone().ok_or(WriterEnded)
    }

    /// The writer's inputs for a caller that outlives the writer.
    pub(crate) fn weak_inputs(&self) -> Option<mpsc::WeakSender<Input>> {
        self.inputs.as_ref().map(mpsc::Sender::downgrade)
    }

    /// Starts what writes versions to the archives.
    pub(crate) fn archive(
        &self,
        archives: &Arc<ArcSwap<Archives>>,
        tasks: &mut Tasks,
        clock: &Arc<dyn Clock>,
    ) {
        if let Some(inputs) = self.weak_inputs() {
            let archiver = Archiver {
                reader: self.reader.clone(),
                inputs,
                archives: Arc::clone(archives),
                states: Arc::clone(&self.observed.archives),
                clock: Arc::clone(clock),
            };
            archiver.start(tasks);
        }
    }

    /// Opens the sources of another deployment that do not run here, and reads its new files.
    pub(crate) async fn try_out(
        &self,
        deployment: &Deployment,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<Opened> {
        let mut opened = Opened::default();
        for file in &deployment.plan.files {
            let DeployedFile { source, stats } = deployment.file(file);
            if !self.running.contains_key(source) {
                let file = OpenFile::read(file, Arc::clone(stats), clock)?;
                opened.files.insert(*source, file);
            }
        }
        for cluster in &deployment.plan.clusters {
            let DeployedCluster { stats, handles } = deployment.cluster(cluster);
            if !self.running.contains_key(&handles.source) {
                let source = open(cluster, clock, stats).await?;
                opened.sources.insert(handles.source, source);
            }
        }
        Ok(opened)
    }

    /// Tells the writer which Corefile is in use from now on.
    ///
    /// # Errors
    /// When the writer has ended.
    pub(crate) async fn note_corefile(
        &self,
        (digest, text): (&str, &str),
        by: Operator,
    ) -> Result<(), WriterEnded> {
        let corefile = KeptCorefile {
            since_ms: 0,
            digest: digest.to_owned(),
            text: text.to_owned(),
        };
        let input = Input::Corefile { corefile, by };
        self.inputs()?.send(input).await.map_err(|_| WriterEnded)
    }

    /// Has the running writer follow another deployment. New zones are restored from the store when this is done.
    ///
    /// # Errors
    /// [`NotConfigured::Refused`] when the store cannot be read: nothing has changed then.
    pub(crate) async fn configure(
        &mut self,
        deployment: &Arc<Deployment>,
        changes: Vec<PlanChange>,
        cause: Option<String>,
        awaits_secondaries: bool,
    ) -> Result<(), NotConfigured> {
        let (done, result) = oneshot::channel();
        let awaits_secondaries = awaits_secondaries.then_some(self.next_ask);
        let configure = deployment.configure(changes, cause, awaits_secondaries, done);
        let input = Input::Configure(Box::new(configure));
        self.inputs()?.send(input).await.map_err(|_| WriterEnded)?;
        let result = result.await.map_err(|_| WriterEnded)?;
        result.map_err(NotConfigured::Refused)?;
        self.observed = Arc::new(self.observed.around(deployment));
        self.deployment = Arc::clone(deployment);
        Ok(())
    }

    /// Starts the sources and files of the deployment that do not run yet, and ends those that it does not have. `opened` has
    /// sources that are open already.
    pub(crate) async fn follow(
        &mut self,
        mut opened: Opened,
        tasks: &mut Tasks,
        clock: &Arc<dyn Clock>,
    ) -> anyhow::Result<()> {
        let wanted = self.deployment.sources();
        self.running.retain(|source, stop| {
            let is_wanted = wanted.contains(source);
            if !is_wanted {
                stop.cancel();
            }
            is_wanted
        });
        let inputs = self.inputs()?;
        let deployment = Arc::clone(&self.deployment);
        for file in &deployment.plan.files {
            let source = deployment.file(file).source;
            if let Some(stop) = self.starts(source) {
                let file = match opened.files.remove(&source) {
                    Some(file) => file,
                    None => OpenFile::read_at_start(file, &deployment, clock),
                };
                file.follow(source, &inputs, &stop, tasks);
            }
        }
        for zone in &deployment.plan.etcd {
            let number = deployment.etcd_source(zone);
            if let Some(cancel) = self.starts(number) {
                let source = zone.source(clock);
                let sender = SourceSender::new(number, inputs.clone());
                let stop = cancel.clone();
                tasks.spawn_until("etcd", &stop, async move {
                    source.run(|event| sender.send_etcd(event), cancel).await;
                    Ok::<_, std::convert::Infallible>(())
                });
            }
        }
        for cluster in &deployment.plan.clusters {
            let DeployedCluster { stats, handles } = deployment.cluster(cluster);
            let Some(stop) = self.starts(handles.source) else {
                continue;
            };
            let source = match opened.sources.remove(&handles.source) {
                Some(source) => Some(source),
                None => first_open(&deployment, cluster, clock, stats).await?,
            };
            let (from, wanted) = (cluster.source.clone(), cluster.wanted.clone());
            let (clock, stats) = (Arc::clone(clock), Arc::clone(stats));
            let sender = SourceSender::new(handles.source, inputs.clone());
            let cancel = stop.clone();
            tasks.spawn_until("source", &stop, async move {
                let source = match source {
                    Some(source) => Some(source),
                    None => open_later(&from, &wanted, &clock, &stats, &cancel).await,
                };
                if let Some(source) = source {
                    source.run(sender, cancel).await;
                }
                Ok::<_, std::convert::Infallible>(())
            });
        }
        Ok(())
    }

    /// The token that ends a source, if it does not run yet.
    fn starts(&mut self, source: SourceId) -> Option<CancellationToken> {
        if self.running.contains_key(&source) {
            return None;
        }
        let stop = self.stop.child_token();
        self.running.insert(source, stop.clone());
        Some(stop)
    }

    /// Asks secondaries for their serials. The writer is told even where there are none: it may wait.
    pub(crate) fn ask(&mut self, to_ask: ToAsk, tasks: &mut Tasks, clock: &Arc<dyn Clock>) {
        if let Some(member) = &self.member {
            member.ask_also(&to_ask);
        }
        if let Some(inputs) = &self.inputs {
            let table = self.observed.secondary_table();
            let ask = self.next_ask;
            ask_secondaries(ask, to_ask, table, inputs, &self.stop, tasks, clock);
            self.next_ask = AskId(ask.0 + 1);
        }
    }

    /// Tells the writer of peers that have a later serial than ours, until the end.
    pub(crate) fn follow_peers(&self, tasks: &mut Tasks) {
        if let Some(inputs) = &self.inputs {
            let table = self.observed.secondary_table();
            follow_peers(table, inputs, &self.stop, tasks);
        }
    }

    /// Whether the writer is no more.
    pub(crate) fn has_ended(&self) -> bool {
        self.writer.is_finished()
    }

    /// Tells sources and files to end; the writer does when they have.
    pub(crate) fn stop(&mut self) {
        self.inputs = None;
        self.stop.cancel();
    }

    /// Ends everything; gives the store.
    pub(crate) async fn end(mut self) -> anyhow::Result<Journal> {
        self.stop();
        join(self.writer).await
    }
}

/// Opens the store, and starts this process as one of several replicas.
async fn start_replica(
    (replicas, api): WantedReplica<'_>,
    observed: &Arc<Observed>,
    around: &Surroundings,
    inputs: &mpsc::Sender<Input>,
    tasks: &mut Tasks,
) -> anyhow::Result<(Member, WriterSide)> {
    let (state, clock) = (observed.state().path.clone(), Arc::clone(&around.clock));
    let open = move || writer_thread::open(&state, &clock);
    let (journal, is_copy) = tokio::task::spawn_blocking(open).await??;
    let parts = MemberParts {
        replicas,
        api,
        deployment: &observed.deployment,
        journal,
        is_copy,
        clock: &around.clock,
        metrics: &around.metrics,
        handlers: &around.handlers,
        table: observed.secondary_table(),
        inputs: inputs.downgrade(),
    };
    Member::start(parts, tasks).await
}

/// Waits for the end of a writer; gives its store.
async fn join(writer: WriterThread) -> anyhow::Result<Journal> {
    match tokio::task::spawn_blocking(|| writer.join()).await? {
        Ok(ended) => ended,
        Err(panic) => Err(anyhow!("the writer panicked: {}", panic_text(&*panic))),
    }
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
    from: &config::Source,
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
