//! `run`: the server, from its parts to its end.
//!
//! Order of the start: configuration, store (restored versions are served from here on), sockets, sources.
//! Order of the end: not ready, keep answering for the lame-duck time, stop accepting, let transfers end,
//! close the store. A second signal ends at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::app::ahead::ask_secondaries;
use crate::app::commands::load;
use crate::app::failure::{Failure, one_line};
use crate::app::files::start_files;
use crate::app::inputs::hold_inputs;
use crate::app::listeners::{bind_http, bind_servers};
use crate::app::observe::{Observed, samples, status};
use crate::app::past::StoredPast;
use crate::app::plan::{Planned, interface_addresses, plan};
use crate::app::reload;
use crate::app::source::Source;
use crate::app::startup::Gates;
use crate::app::writer::{Opened, Writer, WriterThread};
use crate::audit::serve_control;
use crate::cli::{Configuration, State};
use crate::cluster::Part;
use crate::corefile::Config;
use crate::ops::http::{self, Ends};
use crate::ops::metrics::Metrics;
use crate::ops::{Clock, HandlerMetrics, SystemClock, TaskEnd, Tasks, panic_text};
use crate::pipeline::Input;
use crate::serve::{Server, Settings};
use crate::source::{SourceEvent, SourceStats, Wanted};

/// Changes that wait for the writer before sources are held back.
const WAITING_CHANGES: usize = 1024;
/// How long until a source that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(2);
/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// `run`.
///
/// # Errors
/// When the configuration, a socket or the state folder is not usable, or when a part failed.
pub fn run(configuration: &Configuration, state: &State) -> Result<(), Failure> {
    let loaded = load(configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::running(error.to_string()))?;
    let ended = runtime.block_on(Process::start_and_wait(&loaded.config, state));
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended
}

/// The running process.
struct Process {
    /// The tasks.
    tasks: Tasks,
    /// The writer's thread.
    writer: WriterThread,
    /// Cancelled to end the sources, and with them the writer.
    sources: CancellationToken,
    /// What `/ready` answers from.
    ends: Ends,
    /// Set to ask the clients of connections to go.
    draining: Vec<Arc<AtomicBool>>,
    /// How long to go on answering after the first signal.
    lameduck: Duration,
}

impl Process {
    /// Starts everything, waits for a signal or a failure, ends everything.
    async fn start_and_wait(config: &Config, state: &State) -> Result<(), Failure> {
        let term = signal(SignalKind::terminate()).map_err(|e| Failure::running(e.to_string()))?;
        let int = signal(SignalKind::interrupt()).map_err(|e| Failure::running(e.to_string()))?;
        let mut signals = Signals { term, int };
        let process = tokio::select! {
            started = Self::start(config, state) => started?,
            () = signals.next() => return Ok(()),
        };
        process.wait(&mut signals).await
    }

    /// Builds the parts and starts them.
    async fn start(config: &Config, state: &State) -> anyhow::Result<Self> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let planned = plan(config, &interface_addresses);
        let counts = HandlerMetrics::default();
        let bound = bind_servers(config, &planned, Settings::default(), &clock, &counts)?;
        let observed = Arc::new(Observed::new(&planned, &bound, &clock, &state.state));
        let (servers, reloads) = (bound.servers, bound.reloads);
        let reads = Arc::clone(&observed);
        let metrics = Arc::new(Metrics::new(Arc::new(move || samples(&reads)), &counts));
        let ends = ends(&observed, &metrics);
        let http = bind_all_http(config, &ends).await?;

        let (tx, inputs) = mpsc::channel(WAITING_CHANGES);
        let clusters = planned
            .clusters
            .iter()
            .map(|one| (one.plan.clone(), one.kept.clone()))
            .collect();
        let files = planned
            .files
            .iter()
            .map(|one| (one.plan.clone(), one.kept))
            .collect();
        let told: Vec<_> = servers.iter().flat_map(Server::told).collect();
        let writer = Writer {
            state: state.state.clone(),
            clusters,
            files,
            catalogs: planned.catalogs.clone(),
            inputs,
            clock: Arc::clone(&clock),
            metrics,
            problems: Arc::clone(&observed.problems),
            warnings: Arc::clone(&observed.warnings),
            awaits_secondaries: !told.is_empty(),
        };
        let (writer, Opened { reader, gauges }) = open(writer).await?;
        observed.set_gauges(gauges);

        let cancel = CancellationToken::new();
        let sources = CancellationToken::new();
        let mut tasks = Tasks::new(cancel.clone());
        let draining = servers.iter().map(Server::draining).collect();
        start_servers(servers, &Gates::of(&planned), &mut tasks);
        tasks.spawn(
            "keys and certificates",
            reload::run(reloads, cancel.clone()),
        );
        for (name, listener, ends) in http {
            tasks.spawn(name, http::serve(listener, ends, cancel.clone()));
        }
        let asks = Arc::clone(&observed);
        let status_of = Arc::new(move || status(&asks));
        let zones = Arc::clone(&planned.zones);
        let past =
            StoredPast::of_server(reader, zones, status_of, tx.downgrade(), Arc::clone(&clock));
        let control = serve_control(state.state.clone(), Arc::new(past), cancel.clone());
        tasks.spawn("control socket", control);
        ask_secondaries(told, &tx, &mut tasks, &clock);
        start_files(&planned, &observed.files, &tx, &sources, &mut tasks, &clock)?;
        start_sources(&planned, &observed, &tx, &sources, &mut tasks, &clock).await?;
        hold_inputs(tx, &sources, &mut tasks);
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "started");
        Ok(Self {
            tasks,
            writer,
            sources,
            ends,
            draining,
            lameduck: lameduck_of(config),
        })
    }

    /// Waits for the end and brings it about.
    async fn wait(self, signals: &mut Signals) -> Result<(), Failure> {
        let Self {
            mut tasks,
            writer,
            sources,
            ends,
            draining,
            lameduck,
        } = self;
        let mut writer = Some(writer);
        let failed = loop {
            tokio::select! {
                () = signals.next() => break None,
                end = tasks.next_end() => break Some(describe(end)),
                () = tokio::time::sleep(Duration::from_millis(200)) => {
                    if writer.as_ref().is_some_and(std::thread::JoinHandle::is_finished) {
                        let ended = writer.take().map_or(Ok(()), join_writer);
                        break Some(ended.err().unwrap_or_else(|| anyhow!("the writer ended")));
                    }
                }
            }
        };
        ends.stopping.store(true, Ordering::Relaxed);
        draining
            .iter()
            .for_each(|flag| flag.store(true, Ordering::Relaxed));
        match &failed {
            None => tracing::info!(lameduck_ms = lameduck.as_millis(), "shutting down"),
            Some(error) => tracing::error!(error = one_line(error), "a part failed; ending"),
        }
        if failed.is_none() && !lameduck.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(lameduck) => {}
                () = signals.next() => return Err(Failure::running("ended by a second signal")),
            }
        }
        sources.cancel();
        tasks.cancel().cancel();
        let all_ended = async { while tasks.next_end().await.is_some() {} };
        tokio::select! {
            ended = tokio::time::timeout(GRACE, all_ended) => {
                if ended.is_err() {
                    tracing::warn!("some tasks did not end in time");
                }
            }
            () = signals.next() => return Err(Failure::running("ended by a second signal")),
        }
        drop(tasks);
        let closed = match writer {
            Some(writer) => tokio::task::spawn_blocking(|| join_writer(writer)).await,
            None => Ok(Ok(())),
        };
        match (failed, closed) {
            (Some(error), _) => Err(Failure::running(one_line(&error))),
            (None, Ok(Ok(()))) => {
                tracing::info!("ended");
                Ok(())
            }
            (None, Ok(Err(error))) => Err(Failure::running(one_line(&error))),
            (None, Err(error)) => Err(Failure::running(error.to_string())),
        }
    }
}

/// Starts the writer and waits until its store is open.
async fn open(writer: Writer) -> anyhow::Result<(WriterThread, Opened)> {
    let (thread, opened) = writer.start()?;
    match opened.await {
        Ok(opened) => Ok((thread, opened)),
        Err(_) => match join_writer(thread) {
            Err(error) => Err(error),
            Ok(()) => bail!("the writer ended at the start"),
        },
    }
}

/// How long to go on answering after the first signal: the longest that a block says.
fn lameduck_of(config: &Config) -> Duration {
    let blocks = config.servers.iter();
    let healths = blocks.filter_map(|block| block.health.as_ref());
    let times = healths.map(|health| health.lameduck);
    times.max().unwrap_or_default()
}

/// The signals that end the process.
struct Signals {
    /// SIGTERM.
    term: Signal,
    /// SIGINT.
    int: Signal,
}

impl Signals {
    /// Waits for the next one.
    async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}

/// What a task's end means.
fn describe(end: Option<Result<(), TaskEnd>>) -> anyhow::Error {
    match end {
        Some(Err(end)) => end.into(),
        Some(Ok(())) | None => anyhow!("a task ended"),
    }
}

/// What the writer's thread ended with.
fn join_writer(writer: WriterThread) -> anyhow::Result<()> {
    match writer.join() {
        Ok(ended) => ended,
        Err(panic) => bail!("the writer panicked: {}", panic_text(&*panic)),
    }
}

/// What the HTTP ends answer from.
fn ends(observed: &Arc<Observed>, metrics: &Arc<Metrics>) -> Ends {
    let observed = Arc::clone(observed);
    let metrics = Arc::clone(metrics);
    Ends {
        metrics: Some(Arc::new(move || metrics.text())),
        health: true,
        ready: Some(Arc::new(move || observed.not_ready())),
        stopping: Arc::default(),
    }
}

/// An HTTP listener with its name and what it answers.
type BoundHttp = (&'static str, tokio::net::TcpListener, Ends);

/// Binds the listeners of `prometheus`, `health` and `ready`, each address once.
async fn bind_all_http(config: &Config, ends: &Ends) -> anyhow::Result<Vec<BoundHttp>> {
    let mut wanted: Vec<(crate::corefile::HttpAddress, Ends)> = Vec::new();
    for block in &config.servers {
        let parts = [
            (block.prometheus.as_ref().map(|it| &it.address), "metrics"),
            (block.health.as_ref().map(|it| &it.address), "health"),
            (block.ready.as_ref().map(|it| &it.address), "ready"),
        ];
        for (address, part) in parts {
            let Some(address) = address else { continue };
            let place = match wanted.iter().position(|(known, _)| known == address) {
                Some(place) => place,
                None => {
                    let stopping = Arc::clone(&ends.stopping);
                    wanted.push((
                        address.clone(),
                        Ends {
                            stopping,
                            ..Ends::default()
                        },
                    ));
                    wanted.len() - 1
                }
            };
            let there = &mut wanted[place].1;
            match part {
                "metrics" => there.metrics = ends.metrics.clone(),
                "health" => there.health = true,
                _ => there.ready = ends.ready.clone(),
            }
        }
    }
    let mut bound = Vec::new();
    for (address, ends) in wanted {
        let what = match (&ends.metrics, ends.health) {
            (Some(_), _) => "prometheus",
            (None, true) => "health",
            (None, false) => "ready",
        };
        bound.push((what, bind_http(&address, what).await?, ends));
    }
    Ok(bound)
}

/// Starts the servers' tasks, which begin when the gate of their server opens.
fn start_servers(servers: Vec<Server>, gates: &Gates, tasks: &mut Tasks) {
    let cancel = tasks.cancel().clone();
    for server in servers {
        let gate = gates.for_zones(&server.zones());
        for (name, task) in server.run(&cancel) {
            // Names live as long as the process: there are as many as sockets and secondaries.
            let name: &'static str = Box::leak(name.into_boxed_str());
            let (gate, cancel) = (gate.clone(), cancel.clone());
            tasks.spawn(name, async move {
                tokio::select! {
                    () = gate => {}
                    () = cancel.cancelled() => {}
                }
                task.await;
                Ok::<_, std::convert::Infallible>(())
            });
        }
    }
}

/// Starts the sources and what carries their events to the writer.
async fn start_sources(
    planned: &Planned<'_>,
    observed: &Arc<Observed>,
    inputs: &mpsc::Sender<Input>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<()> {
    for (place, cluster) in planned.clusters.iter().enumerate() {
        let from = &cluster.kubernetes.source;
        let wanted = &cluster.wanted;
        let stats = Arc::clone(&observed.sources[place].stats);
        let opened = Source::open(from, wanted.clone(), Arc::clone(clock), Arc::clone(&stats))
            .await
            .with_context(|| {
                format!(
                    "{}: {}",
                    cluster.kubernetes.place,
                    cluster.kubernetes.word()
                )
            });
        let is_restored = cluster
            .plan
            .zones()
            .all(|plan| plan.zone.current().is_some());
        let source = match opened {
            Ok(source) => Some(source),
            Err(error) if is_restored => {
                let error = one_line(&error);
                tracing::error!(
                    error,
                    "the stored versions are served as stale; the source is tried again"
                );
                None
            }
            Err(error) => return Err(error),
        };
        let (tx, events) = mpsc::channel(WAITING_CHANGES);
        let (from, wanted) = (from.clone(), wanted.clone());
        let (clock, cancel) = (Arc::clone(clock), stop.clone());
        tasks.spawn("source", async move {
            let source = match source {
                Some(source) => Some(source),
                None => open_later(&from, &wanted, &clock, &stats, &cancel).await,
            };
            if let Some(source) = source {
                source.run(tx, cancel).await;
            }
            Ok::<_, std::convert::Infallible>(())
        });
        let carry = carry(place, events, inputs.clone());
        tasks.spawn("carrier", async move {
            carry.await;
            Ok::<_, std::convert::Infallible>(())
        });
    }
    Ok(())
}

/// Tries to open a source until it can be opened; `None` when cancelled before.
async fn open_later(
    from: &crate::corefile::Source,
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

/// Carries a source's events to the writer until the source ends.
async fn carry(
    cluster: usize,
    mut events: mpsc::Receiver<SourceEvent>,
    inputs: mpsc::Sender<Input>,
) {
    while let Some(event) = events.recv().await {
        let input = match event {
            SourceEvent::Changed { change, seen } => Input::Change {
                cluster,
                change,
                seen,
            },
            SourceEvent::Stale {
                part,
                since,
                reason,
            } => {
                match part {
                    Part::Cluster => tracing::error!(
                        reason,
                        "the source is away; the last version is served as stale"
                    ),
                    Part::Imports => tracing::error!(
                        reason,
                        "ServiceImports are away; the last version of their zones is served as stale"
                    ),
                }
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
