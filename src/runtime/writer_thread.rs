//! The writer's thread: opens the store there, restores what it held, runs the pipeline, closes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use archive::Stores;
use dns::{Name, RrRef, Serial};
use kubernetes::schema::Problem;
use ops::metrics::Metrics;
use ops::{Clock, SystemClock, TimeText, millis, panic_text};
use provenance::Cause;
use tokio::sync::{mpsc, oneshot};
use transfer::SecondaryTable;
use writer::{
    AskId, BatchSettings, GateEvent, Input, Observer, Pipeline, Restored, ServiceKind, Store,
    act_of_hold, act_of_start, loss_before, tells_presence,
};
use zone::check::Warning;
use zone::gate::Why;
use zone::hold::Hold;
use zone::journal::{Act, Beside, Journal, KeptCorefile, LoadError, Reader, Retention, Segment};
use zone::{
    Candidate, Edit, Journaled, MemoryLimits, PeerSerial, Version, Zone, ZoneSet, next_serial,
};

use crate::runtime::deployment::Deployment;
use crate::runtime::holds::{Holds, Orders};
use crate::runtime::origins::Origins;
use crate::runtime::problem_log::log_problems;
use crate::runtime::replicas::WriterSide;
use crate::runtime::troubles::{PeerAhead, Troubles};

/// The journal as the pipeline's store.
struct JournalStore {
    /// The journal.
    journal: Journal,
    /// What operators ordered.
    holds: Holds,
    /// Causes of records of old versions.
    origins: Origins,
}

impl Store for JournalStore {
    type Error = StoreError;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, Self::Error> {
        self.origins.forget();
        // The candidates are built anew at the next try, with what came meanwhile.
        self.journal
            .commit(candidates)
            .map_err(|(error, _candidates)| StoreError::Commit(error))
    }

    fn floor(&self, apex: &Name) -> Option<Serial> {
        self.journal.floor(apex)
    }

    fn lost(&self, apex: &Name) -> Option<Cause> {
        self.journal.lost(apex).map(|lost| lost.cause())
    }

    fn origin(&mut self, apex: &Name, record: RrRef<'_>) -> Vec<Cause> {
        self.origins.of(apex, record)
    }

    fn take_early(&mut self) -> Vec<(Name, u64)> {
        self.journal.take_early()
    }

    fn read_beside(&mut self, apex: &Name, each: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        match self.journal.read_beside(apex, each) {
            Ok(known) => known.is_some(),
            Err(error) => {
                tracing::debug!(zone = %apex, %error, "the facts of the last run cannot be read");
                false
            }
        }
    }

    fn put_beside(&mut self, apex: &Name, entries: &[Beside]) -> Result<(), Self::Error> {
        Ok(self.journal.put_beside(apex, entries)?)
    }

    fn put_beside_next(&mut self, apex: &Name, entries: Vec<Beside>) {
        self.journal.put_beside_next(apex, entries);
    }

    fn forget_beside(&mut self, apex: &Name) -> Result<(), Self::Error> {
        Ok(self.journal.forget_beside(apex)?)
    }

    fn save_hold(&mut self, apex: &Name, hold: Option<&Hold>) -> Result<(), Self::Error> {
        Ok(self.holds.set(apex, hold)?)
    }

    fn note(
        &mut self,
        corefile: Option<&KeptCorefile>,
        acts: &[(Name, Act)],
    ) -> Result<(), Self::Error> {
        Ok(self.journal.note(corefile, acts)?)
    }

    fn note_segment(&mut self, apex: &Name, segment: Segment) -> Result<bool, Self::Error> {
        Ok(self.journal.note_segment(apex, segment)?)
    }

    fn set_retention(&mut self, apex: &Name, retention: Retention) {
        self.journal.set_retention(apex, retention);
    }

    fn restore(
        &mut self,
        zone: &Zone,
        retention: Retention,
        now_ms: u64,
    ) -> Result<(), Self::Error> {
        Ok(restore(&mut self.journal, zone, retention, now_ms)?)
    }

    fn prepare(&mut self) {
        self.journal.prepare();
    }

    fn idle(&mut self) -> bool {
        self.journal.idle()
    }

    fn again_after(&self) -> Option<Duration> {
        self.journal.again_after()
    }
}

/// Why something did not become durable.
#[derive(Debug, thiserror::Error)]
enum StoreError {
    /// A version.
    #[error(transparent)]
    Commit(zone::journal::CommitError),
    /// An order.
    #[error(transparent)]
    Hold(#[from] std::io::Error),
    /// A zone that was to be restored.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// An act, a Corefile, or facts beside the versions.
    #[error(transparent)]
    Beside(#[from] zone::journal::StoreError),
}

/// What the thread is given.
pub(crate) struct Writer {
    /// The state folder, which has the store.
    pub(crate) state: PathBuf,
    /// What it is to write.
    pub(crate) deployment: Arc<Deployment>,
    /// What the sources say.
    pub(crate) inputs: mpsc::Receiver<Input>,
    /// The time.
    pub(crate) clock: Arc<dyn Clock>,
    /// What hears of versions.
    pub(crate) metrics: Arc<Metrics>,
    /// What is wrong, for status.
    pub(crate) troubles: Arc<Troubles>,
    /// The asking of secondaries that has to end before anything is published.
    pub(crate) awaits_secondaries: Option<AskId>,
    /// Which change of the Corefile the plans come with.
    pub(crate) change: Option<String>,
    /// The secondaries, which may have to follow the reset of a serial.
    pub(crate) secondaries: Arc<SecondaryTable>,
    /// How changes are gathered.
    pub(crate) batch: BatchSettings,
    /// The store of one of several replicas.
    pub(crate) replica: Option<WriterSide>,
}

/// The thread: it ends with the store when nobody has anything to say to it any more.
pub(crate) type WriterThread = JoinHandle<anyhow::Result<Journal>>;

impl Writer {
    /// Starts the thread; the store is open when the receiver gives what reads the history.
    pub(crate) fn start(self) -> anyhow::Result<(WriterThread, oneshot::Receiver<Reader>)> {
        let (tx, rx) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || self.run(tx))
            .context("the writer's thread cannot start")?;
        Ok((thread, rx))
    }

    /// Opens, restores, works.
    fn run(mut self, opened: oneshot::Sender<Reader>) -> anyhow::Result<Journal> {
        if let Some(side) = self.replica.take() {
            return self.run_as_replica(side, opened);
        }
        let (mut journal, _) = open(&self.state, &self.clock)?;
        journal.announce_all()?;
        let deployment = Arc::clone(&self.deployment);
        let now_ms = millis(self.clock.wall());
        restore_all(&mut journal, &deployment, now_ms)?;
        let reader = journal.reader();
        let holds =
            Holds::read(&self.state).context("the file of freezes and rollbacks cannot be read")?;
        let Deployment { plan, zones, .. } = &*deployment;
        let orderly = zones.all().iter();
        let orderly = orderly.filter(|zone| plan.catalog(zone.apex()).is_none());
        let orders = holds.restore(orderly, &reader);
        let now_ms = millis(self.clock.wall());
        let last_corefile = note_unnoted(&mut journal, zones, &orders.going_on, now_ms);
        let store = JournalStore {
            origins: Origins::new(journal.reader()),
            journal,
            holds,
        };
        let (pipeline, mut inputs) = self.pipeline(store, orders, &last_corefile);
        // Who waited for this may be gone; then there are no senders either, and the end is near.
        drop(opened.send(reader));
        Ok(pipeline.run(&mut inputs).journal)
    }

    /// The same as a replica, whose journal is open.
    fn run_as_replica(
        self,
        side: WriterSide,
        opened: oneshot::Sender<Reader>,
    ) -> anyhow::Result<Journal> {
        let WriterSide {
            store,
            reader,
            disk,
        } = side;
        let last_corefile = last_corefile(&reader);
        let (pipeline, mut inputs) = self.pipeline(store, Orders::default(), &last_corefile);
        // As above.
        drop(opened.send(reader));
        // The journal's thread ends when nobody asks it any more.
        drop(pipeline.run(&mut inputs));
        match disk.join() {
            Ok(journal) => Ok(journal?),
            Err(panic) => Err(anyhow!("the journal panicked: {}", panic_text(&*panic))),
        }
    }

    /// The writer, and what it is told.
    fn pipeline<S: Store>(
        self,
        store: S,
        orders: Orders,
        last_corefile: &str,
    ) -> (Pipeline<S>, mpsc::Receiver<Input>) {
        let Self {
            state: _,
            deployment,
            inputs,
            clock,
            metrics,
            troubles,
            awaits_secondaries,
            change,
            secondaries,
            batch,
            replica: _,
        } = self;
        let Deployment { plan, zones, .. } = &*deployment;
        let observer = Box::new(Ears {
            metrics,
            troubles,
            early: std::sync::Mutex::default(),
        });
        let clusters = plan.clusters.iter().map(|cluster| {
            let handles = deployment.cluster(cluster).handles.clone();
            (cluster.plan.clone(), handles)
        });
        let pipeline = Pipeline::new(
            Arc::clone(zones),
            clusters.collect(),
            store,
            clock,
            observer,
        );
        let Orders { going_on, over } = orders;
        let pipeline = pipeline
            .with_files(deployment.files())
            .with_catalogs(plan.catalogs.clone())
            .with_holds(going_on, over)
            .with_batch(batch)
            .with_followed(Box::new(move |version| secondaries.have_followed(version)))
            .with_change(change.as_deref())
            .with_last_corefile(last_corefile);
        let pipeline = match awaits_secondaries {
            Some(ask) => pipeline.awaiting_secondaries(ask),
            None => pipeline,
        };
        (pipeline, inputs)
    }
}

/// Opens the store. Says whether its folder is a copy.
pub(crate) fn open(state: &Path, clock: &Arc<dyn Clock>) -> anyhow::Result<(Journal, bool)> {
    let wall = Arc::clone(clock);
    let (mut journal, report) = Journal::open(state, Arc::new(move || millis(wall.wall())))?;
    journal.set_objects(Arc::new(Stores::new()));
    // They are told also where the store cannot begin.
    for note in &report.notes {
        tracing::warn!("{note}");
    }
    let is_copy = journal.is_copy()?;
    for note in journal.begin()? {
        tracing::warn!("{note}");
    }
    Ok((journal, is_copy))
}

/// Notes the holds that go on as acts, where a crash came before they were noted, and which zones the Corefile has no more or
/// has again. Gives the digest of the last Corefile; empty when unknown.
fn note_unnoted(
    journal: &mut Journal,
    zones: &ZoneSet,
    going_on: &[(Name, Restored)],
    now_ms: u64,
) -> String {
    let reader = journal.reader();
    let mut acts = Vec::new();
    for zone in reader.zones() {
        let is_here = zones.get(&zone.apex).is_some();
        let newest = reader.moment(&zone.apex, zone.newest);
        // What cannot be read is not known.
        if let (Ok(last), Ok((serial, time_ms))) =
            (reader.last_act(&zone.apex, tells_presence), newest)
        {
            let served = (serial, zone.newest);
            let act = act_of_start(is_here, last.as_ref(), served, now_ms.max(time_ms));
            acts.extend(act.map(|act| (zone.apex, act)));
        }
    }
    for (apex, Restored { hold, .. }) in going_on {
        let is_it = |act: &Act| {
            act.what == hold.as_str() && act.by == hold.by && act.time_ms >= hold.since_ms
        };
        let noted = reader.last_act(apex, is_it);
        if !matches!(noted, Ok(Some(_)))
            && let Some(version) = zones.get(apex).and_then(|zone| zone.current())
        {
            let act = act_of_hold(hold, (version.serial, version.seq), hold.since_ms);
            acts.push((apex.clone(), act));
        }
    }
    if let Err(error) = journal.note(None, &acts) {
        tracing::error!(%error, "what was done before this start is not in the history");
    }
    last_corefile(&reader)
}

/// The digest of the last Corefile; empty when unknown.
fn last_corefile(reader: &Reader) -> String {
    let last = reader.corefiles().unwrap_or_default().pop().flatten();
    last.map_or_else(String::new, |corefile| corefile.digest)
}

/// Puts the versions that the store holds back into all zones.
fn restore_all(journal: &mut Journal, deployment: &Deployment, now_ms: u64) -> anyhow::Result<()> {
    for (name, retention) in deployment.retentions() {
        if let Some(zone) = deployment.zones.get(name) {
            journal.set_retention(name, retention);
            restore(journal, zone, retention, now_ms)?;
        }
    }
    Ok(())
}

/// Puts the version that the store holds back into its zone, which is stale until its source has been seen.
fn restore(
    journal: &mut Journal,
    zone: &Zone,
    retention: Retention,
    now_ms: u64,
) -> Result<(), LoadError> {
    let limits = retention.memory_limits();
    let loaded = journal.load(zone.apex(), limits)?;
    for note in loaded.notes {
        tracing::warn!("{note}");
    }
    let sound = loaded.version;
    let version = sound.and_then(|it| brought_forward(journal, zone, limits, it, now_ms));
    if let Some(version) = version {
        tracing::info!(
            zone = %zone.apex(),
            serial = %version.serial,
            records = version.contents.record_count(),
            "version restored from the store"
        );
        zone.restore(version);
        zone.set_stale_since_ms(Some(now_ms));
    }
    Ok(())
}

/// A version that may be shown: the one that the store held, or, when newer ones were shown and the
/// store lost them, its content under a serial above theirs. `None` when that could not be stored: then
/// the zone has no version until its source was listed, for a serial never goes back.
fn brought_forward(
    journal: &mut Journal,
    zone: &Zone,
    limits: MemoryLimits,
    sound: Version,
    now_ms: u64,
) -> Option<Version> {
    let apex = zone.apex();
    let Some(lost) = journal.lost(apex) else {
        return Some(sound);
    };
    let left = sound.left_behind.filter(|left| !left.is_over(now_ms));
    let left = left.map(|left| left.serial);
    let serial = next_serial(Some(sound.serial), journal.floor(apex), left, now_ms / 1000);
    let same = Edit::new(&sound.contents).finish();
    let causes = vec![vec![lost.cause()]];
    let next = Candidate::new(Some(&sound), same, serial, now_ms, causes, limits);
    let version = next.version().clone();
    let act = loss_before((serial, version.seq), &lost.to_string(), now_ms);
    match journal.commit(vec![next]) {
        Ok(_durable) => {
            if let Err(error) = journal.note(None, &[(apex.clone(), act)]) {
                tracing::error!(zone = %apex, %error, "that versions were lost is no act of the history, only the cause of a version");
            }
            tracing::warn!(zone = %apex, sound = %sound.serial, %serial, "the versions after this one were lost; its content has a new serial");
            Some(version)
        }
        Err((error, _)) => {
            tracing::error!(zone = %apex, %error, "versions were lost, and the content before them could not be stored again");
            None
        }
    }
}

/// Hears what the writer does.
struct Ears {
    /// Counts it.
    metrics: Arc<Metrics>,
    /// What is wrong, for status.
    troubles: Arc<Troubles>,
    /// When it was said of a zone that its history is too short.
    early: std::sync::Mutex<BTreeMap<Name, Instant>>,
}

/// How long it is not said again that a history is too short.
const SAY_EARLY_AGAIN_AFTER: Duration = Duration::from_secs(3600);

impl Observer for Ears {
    fn left_out(&self, zone: &Name, all: &BTreeSet<String>) {
        let mut left_out = self.troubles.left_out.lock();
        left_out.insert(zone.clone(), all.iter().cloned().collect());
    }

    fn dropped_early(&self, zone: &Name, versions: u64) {
        self.metrics
            .count_dropped_early(&zone.to_string(), versions);
        let now = SystemClock.now();
        let mut said = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = |at: &Instant| now.saturating_duration_since(*at) >= SAY_EARLY_AGAIN_AFTER;
        if said.get(zone).is_none_or(is_new) {
            said.insert(zone.clone(), now);
            tracing::error!(
                %zone,
                "versions younger than `keep` are dropped from the history, because `versions` or `size` allow no more"
            );
        }
    }

    fn gate(&self, zone: &Name, event: &GateEvent) {
        let outcome = event.as_str();
        match event {
            GateEvent::Held(held) => {
                let fix = match held.why {
                    Why::Shrinks { .. } | Why::SharesShrink(_) => {
                        format!("see why; to publish it: zonewright release {zone}")
                    }
                    Why::Unsound { .. } => "fix it; it is published then".to_owned(),
                    Why::OnHold { .. } => "nothing: it is on hold".to_owned(),
                };
                if held.is_whole() {
                    tracing::error!(
                        %zone, why = %held.why, fix,
                        "a version is held; the last version is served and transferred"
                    );
                } else {
                    tracing::error!(
                        %zone, why = %held.why, fix,
                        "namespaces are held as they were; changes of the others are published"
                    );
                }
            }
            GateEvent::Released { by } => {
                tracing::warn!(%zone, %by, "the held version is published: it was released")
            }
            GateEvent::Recovered { .. } => {
                tracing::info!(%zone, "nothing is held any more: the lost records are back, or the served version lacks them too")
            }
            GateEvent::Expired => tracing::error!(
                %zone,
                "the held version is published with all its losses: no operator released it in time"
            ),
            GateEvent::ShareOut {
                share,
                held: _,
                is_expired: false,
            } => {
                tracing::info!(%zone, %share, "it is not held any more: the lost records are back, or the served version lacks them too");
            }
            GateEvent::ShareOut {
                share,
                held: _,
                is_expired: true,
            } => tracing::error!(
                %zone, %share,
                "its held changes are published with all losses: no operator released them in time"
            ),
            GateEvent::OnHold(hold) => {
                let until = hold.until_ms.map(TimeText).map(tracing::field::display);
                let (by, to) = (&hold.by, hold.rollback.map(|it| it.to.to_string()));
                match to {
                    None => {
                        tracing::warn!(%zone, %by, until, "the zone is frozen: its changes wait")
                    }
                    Some(to) => {
                        tracing::warn!(%zone, to, %by, until, "the zone is rolled back to the content of an old version");
                    }
                }
            }
            GateEvent::Resumed { hold: _, by } => {
                tracing::warn!(%zone, %by, "the zone follows its sources again");
            }
        }
        self.metrics.count_gate(&zone.to_string(), outcome);
    }

    fn warnings(&self, zone: &Name, all: &[Warning], new: &[Warning]) {
        self.troubles.warn(zone, all, new);
    }

    fn published(&self, version: &Version, added: usize, removed: usize) {
        let zone = version.contents.apex().to_string();
        tracing::info!(
            zone,
            serial = %version.serial,
            records = version.contents.record_count(),
            added,
            removed,
            hash = version.link.map(|link| link.hash.to_string()),
            "version published"
        );
        self.metrics.count_version(&zone, added, removed);
    }

    fn peer_is_ahead(&self, reported: &PeerSerial, counts: bool) {
        let PeerSerial {
            zone,
            peer,
            serial,
            proof,
        } = reported;
        self.metrics.count_peer_ahead(&zone.to_string(), counts);
        let ahead = PeerAhead {
            peer: *peer,
            serial: *serial,
            is_followed: counts,
        };
        let mut peers = self.troubles.peers.lock();
        if peers.insert(zone.clone(), ahead) == Some(ahead) {
            return;
        }
        if counts {
            tracing::warn!(
                %zone, %peer, %serial, ?proof,
                "a peer has a later serial than ours: the next one is above it; was an old copy of the state folder restored?"
            );
        } else {
            tracing::warn!(
                %zone, %peer, %serial, ?proof,
                fix = "if the serial is true, give the peer a key, or: zonewright advance ZONE SERIAL",
                "a peer has a later serial than ours, and it is ignored: it is not signed, and too far away or easily forged"
            );
        }
    }

    fn committed(&self, commit: Duration, latencies: &[Duration]) {
        self.troubles.unstored.set(None);
        self.metrics.count_commit(commit, latencies);
    }

    fn programmed(&self, service: ServiceKind, latency: Duration) {
        self.metrics.count_programmed(service.as_str(), latency);
    }

    fn failed(&self, error: &str) {
        tracing::error!(
            error,
            "a version could not be stored; the last one is served. It is tried again"
        );
        self.troubles.unstored.set(Some(error.to_owned()));
        self.metrics.counts.commit_failures.inc();
    }

    fn not_forgotten(&self, zone: &Name, error: &str) {
        tracing::error!(
            %zone, error,
            "a hold is over, but cannot be removed yet; a restart may find it again. It is tried again"
        );
    }

    fn not_noted(&self, what: &str, error: &str) {
        tracing::error!(
            what,
            error,
            "what was done is not in the history yet, because the store refuses it. It is tried again"
        );
    }

    fn problems(&self, all: &mut dyn Iterator<Item = &Problem>, new: &[Problem]) {
        log_problems(new);
        let texts: Vec<String> = all.map(ToString::to_string).collect();
        self.metrics
            .counts
            .problems
            .set(i64::try_from(texts.len()).unwrap_or(i64::MAX));
        self.troubles.objects.set(texts);
    }

    fn synced(&self, source: &str) {
        tracing::info!(source, "all objects are listed");
    }
}
