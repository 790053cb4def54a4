//! The running process: start, reload, end.
//!
//! Order of the start: configuration, store (restored versions can be served now), sockets, sources.
//! Order of a reload: the new Corefile is read and checked, everything that may fail is done beside what runs, then it
//! is put into use. A bad one changes nothing. Order of the end: not ready, keep answering for the lame-duck time, stop
//! accepting, let transfers end, close the store. A second signal ends at once.

use std::ops::ControlFlow;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, anyhow};
use arc_swap::ArcSwap;
use corefile::GoDuration;
use directives::config::{Config, DebugLines, Loaded, Rejected, handler_metrics};
use history::{ControlSocket, Past, PastNow, SandboxLine, serve_control};
use ops::http::HttpEndpoints;
use ops::metrics::Metrics;
use ops::watch::FileWatch;
use ops::{Clock, HandlerMetrics, SystemClock, Tasks, telemetry};
use provenance::Operator;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::PlanChange;

use crate::cli::args::{Configuration, Start};
use crate::cli::commands::read;
use crate::failure::{Failure, WriterEnded, one_line};
use crate::plan::addresses::interface_addresses;
use crate::plan::difference::difference;
use crate::plan::model::Plan;
use crate::runtime::archiver::{Archives, archives};
use crate::runtime::banner;
use crate::runtime::caller_wishes::{CallerWish, Wanted, Wishes};
use crate::runtime::coredns_metrics;
use crate::runtime::deployment::Deployment;
use crate::runtime::descriptors;
use crate::runtime::health;
use crate::runtime::history_access::StoredPast;
use crate::runtime::http_endpoints::{self, ObservedNow};
use crate::runtime::ingest::{Data, NotConfigured, Opened, Surroundings};
use crate::runtime::observed::{Observed, samples};
use crate::runtime::reload::{Reloads, ReloadsNow, Rhythm, log_zones};
use crate::runtime::replicas::Member;
use crate::runtime::secret_ids::SecretIds;
use crate::runtime::serving::{Prepared, Serving};
use crate::runtime::shutdown::{close, describe, ended_by, lameduck_of, outcome};
use crate::runtime::signals::{Signals, Wish};
use crate::runtime::startup_gate::Gates;
use crate::runtime::state_folder::StateFolder;
use crate::runtime::troubles::given_zones;

/// How long tasks may take to end.
const GRACE: Duration = Duration::from_secs(10);
/// How often the writer is checked.
const LOOK: Duration = Duration::from_millis(200);
/// How long new sources may take to open.
const OPENING: Duration = Duration::from_secs(30);

enum Event {
    /// It is time to look at the Corefile.
    Due,
    Wish(Wish),
    /// A caller on the control socket wants something.
    Asked(CallerWish),
    Failed(anyhow::Error),
}

/// The running process.
pub(crate) struct Process {
    /// Where the Corefile is.
    configuration: Configuration,
    /// Its configuration.
    config: Config,
    /// Digest and text of the Corefile in use.
    in_use: (String, String),
    /// The digest of the Corefile that was read last, good or bad.
    seen: String,
    /// Gives ids to its secrets.
    ids: SecretIds,
    tasks: Tasks,
    serving: Serving,
    data: Data,
    observed: ObservedNow,
    /// The answers of HTTP listeners.
    ends: HttpEndpoints,
    /// The history for the control socket.
    past: Arc<ArcSwap<StoredPast>>,
    /// The same, for those who answer from it.
    past_now: PastNow,
    /// The wishes of callers on the control socket, and the way for them.
    wishes: (Wishes, mpsc::Receiver<CallerWish>),
    /// The zones with an archive, for the archiver.
    archives: Arc<ArcSwap<Archives>>,
    /// Counts reloads.
    reloads: ReloadsNow,
    around: Surroundings,
}

/// A configuration that can be put into use.
struct Ready {
    config: Config,
    /// Its text.
    text: String,
    prepared: Prepared,
    /// The data side, if it changes.
    data: Option<ReadyData>,
}

/// The data side of a new configuration.
struct ReadyData {
    /// The new plan with its handles.
    deployment: Arc<Deployment>,
    changes: Vec<PlanChange>,
    /// The sources that are new.
    opened: Opened,
    /// The change of the Corefile that it comes with.
    change: Option<String>,
}

/// Why a reload failed.
enum NotReloaded {
    /// Nothing changed.
    Refused(anyhow::Error),
    /// The process cannot go on.
    Broken(anyhow::Error),
}

/// The sockets for questions of a server.
fn control_sockets(state: &Path, start: &Start) -> Result<Vec<ControlSocket>, Failure> {
    let mut sockets = vec![ControlSocket::of_state(state)];
    if let (Some(path), Some(group)) = (&start.read_socket, &start.read_group) {
        let socket = ControlSocket::for_readers(path.clone(), group).map_err(|error| {
            Failure::unusable(format!("{error}; name another one with --read-group"))
        })?;
        sockets.push(socket);
    }
    Ok(sockets)
}

impl Process {
    /// Starts everything, waits for a signal or a failure, ends everything.
    pub(crate) async fn start_and_wait(
        loaded: Loaded,
        configuration: &Configuration,
        (state, start): (&StateFolder, &Start),
        sandbox: SandboxLine,
    ) -> Result<(), Failure> {
        let sockets = control_sockets(&state.path, start)?;
        let mut signals = Signals::listen()?;
        descriptors::raise_limit();
        let process = tokio::select! {
            started = Self::start(loaded, configuration, (state, start), sockets, sandbox) => started?,
            _ = signals.end() => return Ok(()),
        };
        if !start.quiet {
            banner::print(&process.config, &process.seen)?;
        }
        process.wait(&mut signals).await
    }

    /// Builds the parts and starts them.
    async fn start(
        loaded: Loaded,
        configuration: &Configuration,
        (state, start): (&StateFolder, &Start),
        sockets: Vec<ControlSocket>,
        sandbox: SandboxLine,
    ) -> anyhow::Result<Self> {
        let config = loaded.config;
        let mut ids = SecretIds::of(&state.path).context("the ids of secrets")?;
        let (digest, text) = (ids.digest(&loaded.digest), ids.text(&loaded.text));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let reloads = ReloadsNow::new(Reloads::of(&state.path, &digest));
        let plan = Plan::new(&config, &interface_addresses);
        let counts = handler_metrics();
        let requests = &counts.requests;
        let deployment = Deployment::new(plan, requests, &Deployment::default());
        let deployment = Arc::new(deployment);
        let mut serving = Serving::new(&clock, &counts, start.server_settings(), &config)?;
        let first = serving.observe(&deployment, state, sandbox);
        let observed: ObservedNow = Arc::new(ArcSwap::new(Arc::clone(&first)));
        let around = Surroundings {
            metrics: metrics_of(&observed, &serving, &reloads, &counts),
            clock: Arc::clone(&clock),
            batch: start.batch(),
            handlers: counts.clone(),
        };
        let metrics = Arc::clone(&around.metrics);
        let ends = http_endpoints::ends(&observed, Arc::new(move || metrics.text()));
        let prepared = serving
            .prepare(&config, &deployment, http_endpoints::wanted(&config, &ends))
            .await?;
        let awaits = prepared.has_secondaries();
        let change = reloads.change(&digest);
        let mut tasks = Tasks::new(CancellationToken::new());
        let replica = Member::wanted_at(&config).map(|wanted| (wanted, &mut tasks));
        let mut data = Data::open(first, change, awaits, &around, replica).await?;
        ids.keep();
        let by = Operator::default();
        data.note_corefile((&digest, &text), by).await?;
        reloads.started(&digest);
        let gates = Gates::of(&deployment);
        let wishes = Wishes::new();
        let past = StoredPast::of_data(&data, &config, &observed, &wishes.0, &clock);
        let past = Arc::new(ArcSwap::from_pointee(past));
        let now = Arc::clone(&past);
        let past_now: PastNow =
            Arc::new(move || Arc::<StoredPast>::clone(&now.load()) as Arc<dyn Past + Send + Sync>);
        let to_ask = serving.take(prepared, &past_now, Some(&gates), &mut tasks);
        serve_sockets(sockets, &past_now, &serving, &mut tasks);
        look_at_health(&serving, &around, &mut tasks);
        let archives = Arc::new(ArcSwap::from_pointee(archives(&config)));
        data.archive(&archives, &mut tasks, &clock);
        data.ask(to_ask, &mut tasks, &clock);
        data.follow_peers(&mut tasks);
        data.follow(Opened::default(), &mut tasks, &clock).await?;
        apply(&config, &observed.load());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), "started");
        Ok(Self {
            configuration: configuration.clone(),
            config,
            in_use: (digest.clone(), text),
            seen: digest,
            ids,
            tasks,
            serving,
            data,
            observed,
            ends,
            past,
            past_now,
            wishes,
            archives,
            reloads,
            around,
        })
    }

    /// Waits for the end and brings it about.
    async fn wait(mut self, signals: &mut Signals) -> Result<(), Failure> {
        let mut watch = FileWatch::default();
        let failed = loop {
            let corefile = self.configuration.corefile.clone();
            let due = pin!(Rhythm::of(&self.config).wait(&corefile, &mut watch));
            let (by, asked) = match self.next_event(due, signals).await {
                Event::Due => (None, None),
                Event::Wish(Wish::Quit) => {
                    tracing::info!("SIGQUIT: ending at once");
                    return Ok(());
                }
                Event::Wish(Wish::End(signal)) => {
                    tracing::info!("{signal}: Shutting down servers then terminating");
                    break None;
                }
                Event::Wish(Wish::Reload) => {
                    tracing::info!("SIGUSR1: reloading");
                    (Some("SIGUSR1".into()), None)
                }
                Event::Asked(CallerWish { by, wanted }) => match wanted {
                    Wanted::Reload(asked) => {
                        tracing::info!(%by, "reloading");
                        (Some(by), Some(asked))
                    }
                    Wanted::Stop(asked) => {
                        tracing::info!(%by, "Shutting down servers then terminating");
                        // The caller may be gone.
                        let _gone = asked.send(());
                        break None;
                    }
                    Wanted::Promote(asked) => {
                        let promoted = self.observed.load().promote(&by).await;
                        let _gone = asked.send(promoted);
                        continue;
                    }
                    Wanted::Notify(zone, asked) => {
                        tracing::info!(%by, %zone, "notifying again");
                        let notified = self.serving.notify_again(&zone, &mut self.tasks);
                        let _gone = asked.send(notified);
                        continue;
                    }
                },
                Event::Failed(error) => break Some(error),
            };
            match self.look(by, signals).await {
                Ok(ControlFlow::Continue(outcome)) => {
                    let _gone = asked.map(|asked| asked.send(outcome));
                }
                Ok(ControlFlow::Break(Wish::Quit)) => return Ok(()),
                Ok(ControlFlow::Break(Wish::End(_) | Wish::Reload)) => break None,
                Err(error) => break Some(error),
            }
        };
        self.end(failed, signals).await
    }

    /// Waits for a signal, for the time to look at the Corefile, or for a part that ends.
    async fn next_event(
        &mut self,
        mut due: Pin<&mut impl Future<Output = ()>>,
        signals: &mut Signals,
    ) -> Event {
        loop {
            tokio::select! {
                wish = signals.next() => return Event::Wish(wish),
                Some(wish) = self.wishes.1.recv() => return Event::Asked(wish),
                () = &mut due => return Event::Due,
                end = self.tasks.next_end() => match end {
                    Some(Ok(())) => {}
                    end => return Event::Failed(describe(end)),
                },
                () = tokio::time::sleep(LOOK) => {
                    if self.data.has_ended() {
                        return Event::Failed(WriterEnded.into());
                    }
                }
            }
        }
    }

    /// Reads the Corefile. If it changed, or `by` asks for it, it is put into use unless it has a problem. A signal to end
    /// interrupts this. Returns why it is not in use.
    ///
    /// # Errors
    /// When the process cannot go on.
    async fn look(
        &mut self,
        by: Option<Operator>,
        signals: &mut Signals,
    ) -> anyhow::Result<ControlFlow<Wish, Result<(), String>>> {
        let configuration = self.configuration.clone();
        let read = tokio::select! {
            read = tokio::task::spawn_blocking(move || read(&configuration)) => read?,
            wish = signals.end() => return Ok(ControlFlow::Break(wish)),
        };
        let digest = self.ids.digest(match &read {
            Ok(loaded) => &loaded.digest,
            Err(rejected) => &rejected.digest,
        });
        if by.is_none() && digest == self.seen {
            return Ok(ControlFlow::Continue(Ok(())));
        }
        self.seen = digest;
        let loaded = match read {
            Ok(loaded) => loaded,
            Err(rejected) => {
                self.refuse_text(&rejected);
                return Ok(ControlFlow::Continue(Err(rejected.to_string())));
            }
        };
        tracing::info!("Reloading");
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        if loaded.config.state_folder() != self.config.state_folder() {
            tracing::warn!("`state` changed: the folder stays until the next start");
        }
        let by = by.unwrap_or_default();
        let reloading = async {
            let ready = self.make_ready(loaded).await?;
            self.reload(ready, by).await
        };
        let reloaded = tokio::select! {
            reloaded = reloading => reloaded,
            wish = signals.end() => {
                tracing::info!("the reload is interrupted");
                return Ok(ControlFlow::Break(wish));
            }
        };
        match reloaded {
            Ok(()) => {
                apply(&self.config, &self.observed.load());
                self.reloads.taken(&self.seen);
                self.say_not_in_use(Vec::new());
                let digest = &self.seen;
                tracing::info!("plugin/reload: Running configuration SHA512 = {digest}");
                tracing::info!("Reloading complete");
                Ok(ControlFlow::Continue(Ok(())))
            }
            Err(NotReloaded::Refused(error)) => {
                let error = one_line(&error);
                self.refused(vec![error.clone()]);
                tracing::error!(
                    error,
                    "plugin/reload: Corefile changed but reload failed; the old configuration stays"
                );
                Ok(ControlFlow::Continue(Err(error)))
            }
            Err(NotReloaded::Broken(error)) => Err(error),
        }
    }

    /// Counts a refused Corefile, and says why it is not in use.
    fn refused(&self, problems: Vec<String>) {
        self.reloads.refused();
        self.say_not_in_use(problems);
    }

    /// Says in `status` why the last Corefile is not in use.
    fn say_not_in_use(&self, problems: Vec<String>) {
        self.observed.load().troubles.refused.set(problems);
    }

    /// Logs the problems of a Corefile.
    fn refuse_text(&self, rejected: &Rejected) {
        self.refused(rejected.problems.iter().map(ToString::to_string).collect());
        for problem in &rejected.problems {
            tracing::error!("{problem}");
        }
        let problems = rejected.problems.len();
        tracing::warn!(
            problems,
            "plugin/reload: Corefile parse failed; the old configuration stays"
        );
    }

    /// Does everything that may fail before a configuration is put into use.
    async fn make_ready(&self, loaded: Loaded) -> Result<Ready, NotReloaded> {
        let Loaded { config, text, .. } = loaded;
        if let Some(why) = self.observed.load().state().refuses(&config) {
            return Err(NotReloaded::Refused(anyhow!(why)));
        }
        let text = self.ids.text(&text);
        let data = &self.data;
        let plan = Plan::new(&config, &interface_addresses);
        let changes = difference(&data.deployment.plan, &plan);
        let deployment = if changes.is_empty() {
            Arc::clone(&data.deployment)
        } else {
            let requests = &self.serving.metrics.requests;
            Arc::new(Deployment::new(plan, requests, &data.deployment))
        };
        self.check_replica(&config, &deployment)?;
        let wanted = http_endpoints::wanted(&config, &self.ends);
        let prepared = self.serving.prepare(&config, &deployment, wanted).await;
        let prepared = prepared.map_err(NotReloaded::Refused)?;
        if changes.is_empty() {
            let data = None;
            return Ok(Ready {
                config,
                text,
                prepared,
                data,
            });
        }
        let opening = data.try_out(&deployment, &self.around.clock);
        let opened = match tokio::time::timeout(OPENING, opening).await {
            Ok(opened) => opened,
            Err(late) => Err(late).context("the sources did not open in time"),
        };
        Ok(Ready {
            config,
            text,
            prepared,
            data: Some(ReadyData {
                deployment,
                changes,
                opened: opened.map_err(NotReloaded::Refused)?,
                change: self.reloads.change(&self.seen),
            }),
        })
    }

    /// Whether the replicas of a configuration are those of the start.
    fn check_replica(&self, config: &Config, new: &Deployment) -> Result<(), NotReloaded> {
        let refusal = match &self.data.member {
            Some(member) => member.refuses(config, new),
            None => Member::wanted(config).map(|_| "`replicas` needs a restart".to_owned()),
        };
        refusal.map_or(Ok(()), |why| Err(NotReloaded::Refused(anyhow!(why))))
    }

    /// Puts a configuration into use: the writer first, so that new zones have their stored versions before they are served.
    async fn reload(&mut self, ready: Ready, by: Operator) -> Result<(), NotReloaded> {
        let Ready {
            config,
            text,
            prepared,
            data,
        } = ready;
        let clock = Arc::clone(&self.around.clock);
        let corefile = (&*self.seen, &*text);
        let noted = self.data.note_corefile(corefile, by).await;
        noted.map_err(|ended| NotReloaded::Broken(ended.into()))?;
        let mut opened = None;
        if let Some(new) = data {
            let before = Arc::clone(&self.data.deployment);
            let has_new_zones = {
                let before = &before.zones;
                let mut zones = new.deployment.zones.all().iter();
                zones.any(|zone| before.get(zone.apex()).is_none())
            };
            let awaits = has_new_zones && prepared.has_secondaries();
            let ReadyData {
                deployment,
                changes,
                change,
                ..
            } = new;
            let configured = self.data.configure(&deployment, changes, change, awaits);
            if let Err(error) = configured.await {
                let (digest, text) = &self.in_use;
                // If the writer has ended, this fails too.
                let nobody = Operator::default();
                let _noted = self.data.note_corefile((digest, text), nobody).await;
                return Err(match error {
                    NotConfigured::Refused(_) => NotReloaded::Refused(error.into()),
                    NotConfigured::Ended(_) => NotReloaded::Broken(error.into()),
                });
            }
            self.observed.store(Arc::clone(&self.data.observed));
            log_zones(&before.zones, &deployment.zones);
            opened = Some(new.opened);
        }
        let past = StoredPast::of_data(&self.data, &config, &self.observed, &self.wishes.0, &clock);
        self.past.store(Arc::new(past));
        self.archives.store(Arc::new(archives(&config)));
        let to_ask = self
            .serving
            .take(prepared, &self.past_now, None, &mut self.tasks);
        self.data.ask(to_ask, &mut self.tasks, &clock);
        if let Some(opened) = opened {
            let following = self.data.follow(opened, &mut self.tasks, &clock);
            following.await.map_err(NotReloaded::Broken)?;
        }
        self.config = config;
        self.in_use = (self.seen.clone(), text);
        Ok(())
    }

    /// Ends everything.
    async fn end(
        self,
        failed: Option<anyhow::Error>,
        signals: &mut Signals,
    ) -> Result<(), Failure> {
        let Self {
            config,
            mut tasks,
            serving,
            mut data,
            ends,
            ..
        } = self;
        let lameduck = lameduck_of(&config);
        ends.stopping.store(true, Ordering::Relaxed);
        serving.common.draining.store(true, Ordering::Relaxed);
        match &failed {
            None if lameduck.is_zero() => {}
            None => {
                let lameduck = GoDuration(lameduck);
                tracing::info!("plugin/health: Going into lameduck mode for {lameduck}");
            }
            Some(error) => tracing::error!(target: telemetry::FATAL, "{}", one_line(error)),
        }
        if failed.is_none() && (!lameduck.is_zero() || data.member.is_some()) {
            let leaving = async {
                if let Some(member) = &data.member {
                    member.leave().await;
                }
                tokio::time::sleep(lameduck).await;
            };
            tokio::select! {
                () = leaving => {}
                wish = signals.end() => return ended_by(wish),
            }
        }
        data.stop();
        serving.stop();
        tasks.cancel().cancel();
        let all_ended = async { while tasks.next_end().await.is_some() {} };
        tokio::select! {
            ended = tokio::time::timeout(GRACE, all_ended) => {
                if ended.is_err() {
                    tracing::warn!("some tasks did not end in time");
                }
            }
            wish = signals.end() => return ended_by(wish),
        }
        drop(tasks);
        let is_orderly = failed.is_none();
        let closed = close(data).await;
        if is_orderly {
            // After the last version.
            tokio::select! {
                () = serving.notes.write_last() => {}
                wish = signals.end() => return ended_by(wish),
            }
        }
        outcome(failed, closed)?;
        tracing::info!("ended");
        Ok(())
    }
}

/// Starts to answer questions on the sockets.
fn serve_sockets(
    sockets: Vec<ControlSocket>,
    past: &PastNow,
    serving: &Serving,
    tasks: &mut Tasks,
) {
    for socket in sockets {
        let reading = Arc::clone(&serving.history_api.reading);
        let cancel = tasks.cancel().clone();
        let serving = serve_control(socket, Arc::clone(past), reading, cancel);
        tasks.spawn("control socket", serving);
    }
}

/// Starts what asks our own `/health`.
fn look_at_health(serving: &Serving, around: &Surroundings, tasks: &mut Tasks) {
    let health = health::run(
        Arc::clone(&serving.health),
        Arc::clone(&around.metrics),
        Arc::clone(&around.clock),
        tasks.cancel().clone(),
    );
    tasks.spawn("health of ourselves", health);
}

/// All metrics of the process.
fn metrics_of(
    observed: &ObservedNow,
    serving: &Serving,
    reloads: &ReloadsNow,
    handlers: &HandlerMetrics,
) -> Arc<Metrics> {
    let common = serving.common.clone();
    let history_api = Arc::clone(&serving.history_api.counts);
    let (observed, reloads) = (Arc::clone(observed), Arc::<Reloads>::clone(reloads));
    let gather = move || {
        let mut all = samples(&observed.load());
        coredns_metrics::samples(&common, &mut all);
        reloads.samples(&mut all);
        history_api.samples(&mut all);
        all
    };
    Arc::new(Metrics::new(Arc::new(gather), handlers))
}

/// Applies what concerns the whole process: logs more where a block has `debug`, and warnings of zones that are transferred.
fn apply(config: &Config, observed: &Observed) {
    let mut blocks = config.servers.iter();
    telemetry::set_debug(blocks.any(|block| block.has::<DebugLines>()));
    observed.troubles.give(given_zones(config));
}
