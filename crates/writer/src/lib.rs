//! The single writer: changes in, versions out.
//!
//! One thread takes what the sources say, in batches, marks what is dirty, renders it, and commits:
//! difference, serial, journal (synced), swap, tell. Whatever fails before the swap leaves the old
//! versions serving; the dirty keys stay dirty and are tried again. One batch gives each zone that
//! really differs one version, all in one write of the store.

mod apex;
mod attribute;
mod catalog;
mod cluster;
mod commit;
mod configure;
mod files;
mod gauges;
mod guard;
mod hold;
mod name;
mod notes;
mod overlay;
mod plan;
mod render;
mod sender;
mod sources;
mod triggered;
mod wait;
mod why;
mod zone_edit;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use dns::{Name, RrRef, Serial};
use kubernetes::schema::Problem;
use kubernetes::source::SourceEvent;
use ops::Clock;
use provenance::Cause;
use zone::check::Warning;
use zone::hold::Hold;
use zone::journal::Retention;
use zone::{Candidate, Journaled, Version, Zone, ZoneSet};
use zonefile::follow::FileEvent;

use catalog::HeldCatalog;
use cluster::Cluster;
use files::HeldFile;
use guard::Guard;
use hold::not_guarded;
use wait::{Next, within};

pub use cluster::{ClusterHandles, LiveTables};
pub use configure::Configure;
pub use gauges::ClusterGauges;
pub use guard::{GateEvent, HoldOrder, Released, Restored, Target};
pub use name::service_node;
pub use plan::{CatalogPlan, ClusterPlan, ExternalPlan, FilePlan, PlanChange, ZonePlan};
pub use sender::{SourceId, SourceSender};
pub use triggered::ServiceKind;
pub use why::Reason;

/// A change that comes so long after the last commit is committed at once; one that comes earlier
/// belongs to a burst, and the writer waits for more of it.
const BURST: Duration = Duration::from_millis(100);
/// The most changes of one batch.
const BATCH_CHANGES: usize = 4096;
/// How long after a failed commit the next is tried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How changes of a burst are gathered for one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// How long the writer waits for further changes after the last one.
    pub quiet: Duration,
    /// How long it gathers in all.
    pub window: Duration,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            quiet: Duration::from_micros(500),
            window: Duration::from_millis(20),
        }
    }
}

/// What the writer is told.
#[derive(Debug)]
pub enum Input {
    /// A cluster's source saw something.
    Source {
        /// Which source.
        source: SourceId,
        /// The event.
        event: SourceEvent,
    },
    /// A zone file was read.
    File {
        /// Which follower.
        source: SourceId,
        /// The event.
        event: FileEvent,
    },
    /// The configuration changed.
    Configure(Box<Configure>),
    /// Someone wants what is held of a zone to be published.
    Release {
        /// The zone.
        zone: Name,
        /// Who wants it.
        by: Arc<str>,
        /// Where to say what came of it.
        asked: oneshot::Sender<Released>,
    },
    /// Someone wants a zone to stay as it is or to go back to an old content.
    Hold {
        /// The zone.
        zone: Name,
        /// What is wanted.
        order: Box<HoldOrder>,
        /// Where to say what came of it.
        asked: oneshot::Sender<Released>,
    },
    /// Someone wants to know about a name of a zone.
    Why {
        /// The zone.
        zone: Name,
        /// The name.
        name: Name,
        /// Where to say what is known.
        asked: oneshot::Sender<Vec<Reason>>,
    },
    /// The serials that secondaries have, as far as they said: nothing is published before this came.
    Secondaries(Vec<(Name, Serial)>),
}

/// Where versions become durable. The journal is one; tests have others.
pub trait Store {
    /// Why a commit failed.
    type Error: std::fmt::Display;

    /// Makes candidates durable, all or none, before it returns.
    ///
    /// # Errors
    /// When they are not durable; nothing of them may be shown then.
    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, Self::Error>;

    /// A serial that is not before any serial of this zone that was ever shown.
    fn floor(&self, apex: &Name) -> Option<Serial>;

    /// What the next version has to say of versions that were lost before it.
    fn lost(&self, apex: &Name) -> Option<Cause> {
        let _apex = apex;
        None
    }

    /// The causes of a record of the newest version, as the history knows them; none where it does not.
    fn origin(&mut self, apex: &Name, record: RrRef<'_>) -> Vec<Cause> {
        let (_apex, _record) = (apex, record);
        Vec::new()
    }

    /// Keeps an operator's order about a zone, or that there is none any more, over restarts.
    ///
    /// # Errors
    /// When it is not durable.
    fn save_hold(&mut self, apex: &Name, hold: Option<&Hold>) -> Result<(), Self::Error> {
        let (_apex, _hold) = (apex, hold);
        Ok(())
    }

    /// Sets how much of a zone's past is kept.
    fn set_retention(&mut self, apex: &Name, retention: Retention) {
        let (_apex, _retention) = (apex, retention);
    }

    /// Restores a zone that came with a change of the configuration: its newest version, as stale since `now_ms`.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn restore(
        &mut self,
        zone: &Zone,
        retention: Retention,
        now_ms: u64,
    ) -> Result<(), Self::Error> {
        let (_zone, _retention, _now_ms) = (zone, retention, now_ms);
        Ok(())
    }

    /// A commit is about to ask for [`Self::origin`]s, and to be made.
    fn prepare(&mut self) {}

    /// Does a small portion of housekeeping; says whether there is more.
    fn idle(&mut self) -> bool;

    /// When [`Self::idle`] wants to be called again though there was no more to do; `None` for not before the next
    /// input.
    fn again_after(&self) -> Option<Duration> {
        None
    }
}

/// Hears what the writer does: metrics, logs.
pub trait Observer: Send {
    /// A version was published.
    fn published(&self, version: &Version, added: usize, removed: usize);
    /// A batch was committed: how long the commit took, when its changes were seen.
    fn committed(&self, commit: Duration, latencies: &[Duration]);
    /// What a slice of a Service told is published, this long after it happened.
    fn programmed(&self, service: ServiceKind, latency: Duration) {
        let (_service, _latency) = (service, latency);
    }
    /// A commit failed and will be tried again.
    fn failed(&self, error: &str);
    /// An order about a zone is over, but the store cannot forget it yet; said once while that lasts.
    fn not_forgotten(&self, zone: &Name, error: &str) {
        let (_zone, _error) = (zone, error);
    }
    /// The problems of a cluster's objects changed: all that there are in all clusters, and those that are new.
    fn problems(&self, all: &mut dyn Iterator<Item = &Problem>, new: &[Problem]);
    /// The gate did something.
    fn gate(&self, zone: &Name, event: &GateEvent) {
        let (_zone, _event) = (zone, event);
    }
    /// What some secondaries refuse of a zone changed: all there is, and what is new.
    fn warnings(&self, zone: &Name, all: &[Warning], new: &[Warning]) {
        let (_zone, _all, _new) = (zone, all, new);
    }
    /// A cluster's sources were listed completely for the first time.
    fn synced(&self, cluster: usize);
}

/// The writer.
pub struct Pipeline<S> {
    /// The zones as readers know them.
    zones: Arc<ZoneSet>,
    /// The clusters.
    clusters: Vec<Cluster>,
    /// The zone files, with their followers.
    files: Vec<(SourceId, HeldFile)>,
    /// The catalogs.
    catalogs: Vec<HeldCatalog>,
    store: S,
    clock: Arc<dyn Clock>,
    observer: Box<dyn Observer>,
    batch: BatchSettings,
    /// When the changes that are not yet committed were seen.
    seen: Vec<Instant>,
    /// When the last commit ended.
    last_commit: Option<Instant>,
    /// Whether nothing is published before it is known what secondaries have.
    awaits_secondaries: bool,
    /// The zones whose orders are over and still to be forgotten by the store; whether it was said that it cannot.
    over: BTreeMap<Name, bool>,
}

impl<S> std::fmt::Debug for Pipeline<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("clusters", &self.clusters.len())
            .finish_non_exhaustive()
    }
}

impl<S: Store> Pipeline<S> {
    /// A writer for these clusters, whose zones are in `zones`. They hold what the store knew already.
    pub fn new(
        zones: Arc<ZoneSet>,
        clusters: Vec<(ClusterPlan, ClusterHandles)>,
        store: S,
        clock: Arc<dyn Clock>,
        observer: Box<dyn Observer>,
    ) -> Self {
        let clusters = clusters.into_iter();
        let clusters = clusters.map(|(plan, handles)| Cluster::new(plan, handles, &zones));
        Self {
            clusters: clusters.collect(),
            zones,
            files: Vec::new(),
            catalogs: Vec::new(),
            store,
            clock,
            observer,
            batch: BatchSettings::default(),
            seen: Vec::new(),
            last_commit: None,
            awaits_secondaries: false,
            over: BTreeMap::new(),
        }
    }

    /// Whether everything of a source's cluster was listed; ServiceImports only when `with_imports` says so.
    #[must_use]
    pub fn is_synced(&self, source: SourceId, with_imports: bool) -> bool {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.handles.source == source);
        cluster.is_some_and(|cluster| {
            cluster.state.is_synced() && (!with_imports || cluster.state.has_imports())
        })
    }

    /// Works until all senders are gone; then hands the store back. For a thread of its own.
    pub fn run(mut self, inputs: &mut mpsc::Receiver<Input>) -> S {
        let mut failed = false;
        loop {
            let first = if failed {
                within(inputs, RETRY_AFTER)
            } else {
                self.next_or_idle(inputs)
            };
            match first {
                Next::Input(input) => {
                    self.take(input);
                    self.gather(inputs);
                }
                Next::Nothing => {}
                Next::Closed => return self.store,
            }
            failed = !self.commit();
        }
    }

    /// The next input; housekeeping of the store fills the time until it comes.
    fn next_or_idle(&mut self, inputs: &mut mpsc::Receiver<Input>) -> Next {
        loop {
            match inputs.try_recv() {
                Ok(input) => return Next::Input(input),
                Err(mpsc::error::TryRecvError::Disconnected) => return Next::Closed,
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            if !self.store.idle() {
                let end = self.deadline(self.now());
                let left = end.map(|end| end.saturating_duration_since(self.clock.now()));
                let left = left.into_iter().chain(self.store.again_after()).min();
                return match left {
                    None => Next::of(inputs.blocking_recv()),
                    Some(left) => within(inputs, left),
                };
            }
        }
    }

    /// Takes in what else is waiting and, within a burst, what comes within the batch window.
    fn gather(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        let now = self.clock.now();
        let in_burst = |last| now.saturating_duration_since(last) < BURST;
        if !self.last_commit.is_some_and(in_burst) {
            for _ in 1..BATCH_CHANGES {
                match inputs.try_recv() {
                    Ok(input) => self.take(input),
                    Err(_) => return,
                }
            }
            return;
        }
        let BatchSettings { quiet, window } = self.batch;
        let end = now + window;
        for _ in 1..BATCH_CHANGES {
            let left = end.saturating_duration_since(self.clock.now());
            match within(inputs, quiet.min(left)) {
                Next::Input(input) => self.take(input),
                Next::Nothing | Next::Closed => return,
            }
        }
    }

    /// Takes one input in.
    pub fn take(&mut self, input: Input) {
        match input {
            Input::Source { source, event } => self.take_event(source, event),
            Input::File { source, event } => self.take_file(source, event),
            Input::Configure(configure) => self.configure(*configure),
            Input::Release { zone, by, asked } => self.release(&zone, &by, asked),
            // Who asked may be gone.
            Input::Why { zone, name, asked } => drop(asked.send(self.why(&zone, &name))),
            Input::Hold { zone, order, asked } => self.hold(&zone, *order, asked),
            Input::Secondaries(serials) => self.take_serials(&serials),
        }
    }

    /// Gathers changes by these settings.
    #[must_use]
    pub const fn with_batch(mut self, batch: BatchSettings) -> Self {
        self.batch = batch;
        self
    }

    /// Publishes nothing before [`Input::Secondaries`] came.
    #[must_use]
    pub fn awaiting_secondaries(mut self) -> Self {
        self.awaits_secondaries = true;
        self
    }

    /// Lets a held change out with the next commit.
    fn release(&mut self, apex: &Name, by: &Arc<str>, asked: oneshot::Sender<Released>) {
        match self.guard_of(apex) {
            Some((zone, guard)) => guard.release(zone.apex(), by, asked),
            // Who asked may be gone.
            None => drop(asked.send(Err(not_guarded(apex)))),
        }
    }

    /// Takes in what secondaries have: where one is ahead of us, the next serial is above its.
    fn take_serials(&mut self, serials: &[(Name, Serial)]) {
        self.awaits_secondaries = false;
        for (apex, serial) in serials {
            let later = |known: Option<Serial>| known.map_or(*serial, |known| known.later(*serial));
            for catalog in &mut self.catalogs {
                let zone = &catalog.zone;
                let own = zone.current().map(|version| version.serial);
                if zone.apex() == apex && own.is_none_or(|own| serial.is_after(own)) {
                    catalog.ahead = Some(later(catalog.ahead));
                }
            }
            if let Some((zone, guard)) = self.guarded().find(|(zone, _)| zone.apex() == apex) {
                let own = zone.current().map(|version| version.serial);
                if own.is_none_or(|own| serial.is_after(own)) {
                    guard.ahead = Some(later(guard.ahead));
                }
            }
        }
    }

    /// All zones, each with its guard.
    fn guarded(&mut self) -> impl Iterator<Item = (&Arc<Zone>, &mut Guard)> {
        let of_clusters = self.clusters.iter_mut().flat_map(Cluster::guarded);
        of_clusters.chain(self.files.iter_mut().filter_map(|(_, held)| held.guarded()))
    }
}

#[cfg(test)]
mod tests;
