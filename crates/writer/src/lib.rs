//! The single writer: changes in, versions out.
//!
//! One thread takes the events of the sources in batches, marks dirty keys, renders them, and commits: difference, serial,
//! journal (synced), swap, notify. If a step before the swap fails, the old versions are served, and the dirty keys are
//! tried again. A batch gives each zone that differs one version, all in one write of the store.

mod acts;
mod ahead;
mod apex;
mod attribute;
mod callers;
mod catalog;
mod cluster;
mod commit;
mod configure;
mod contested;
mod corefile_cause;
mod etcd_zone;
mod files;
mod follow;
mod gauges;
mod guard;
mod hold;
mod memory;
mod name;
mod notes;
mod overlay;
mod plan;
mod remember;
mod render;
mod sender;
mod sources;
mod triggered;
mod wait;
mod why;
mod zone_edit;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use dns::{Name, RrRef, Serial};
use etcd::source::EtcdEvent;
use kubernetes::schema::Problem;
use kubernetes::source::SourceEvent;
use ops::Clock;
use provenance::{Cause, Operator};
use zone::check::Warning;
use zone::hold::Hold;
use zone::journal::{Act, Beside, KeptCorefile, Retention, Segment};
use zone::{Candidate, Journaled, PeerSerial, Version, Zone, ZoneSet};
use zonefile::follow::FileEvent;

use acts::Unnoted;
use ahead::Ahead;
use catalog::HeldCatalog;
use cluster::Cluster;
use files::HeldFile;
use guard::{Guard, Holds};
use hold::not_guarded;
use wait::{Next, within};

pub use acts::{act_of_hold, act_of_start, loss_before, tells_presence};
pub use callers::Released;
pub use cluster::{ClusterHandles, LiveTables};
pub use configure::Configure;
pub use corefile_cause::change_of_corefile;
pub use gauges::ClusterGauges;
pub use guard::{GateEvent, HoldOrder, Restored, Target, Waiting};
pub use name::service_node;
pub use plan::{CatalogPlan, ClusterPlan, EtcdPlan, ExternalPlan, FilePlan, PlanChange, ZonePlan};
pub use sender::{AskId, SourceId, SourceSender};
pub use triggered::ServiceKind;
pub use why::Reason;

/// A change that comes so long after the last commit is committed at once. An earlier one belongs to a burst, and the writer
/// waits for more of it.
const BURST: Duration = Duration::from_millis(100);
/// The most changes of one batch.
const BATCH_CHANGES: usize = 4096;
/// The time from a failed commit to the next try.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long changes of a burst are gathered for one version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// How long the writer waits for further changes after the last one.
    pub quiet: Duration,
    /// How long it waits in all.
    pub window: Duration,
    /// The versions of a zone that one namespace causes without a pause, and one name a fifth of them. After them it causes one
    /// a second; 0 is no limit.
    pub burst: u32,
}

impl Default for BatchSettings {
    fn default() -> Self {
        Self {
            quiet: Duration::from_micros(500),
            window: Duration::from_millis(20),
            burst: 50,
        }
    }
}

/// An input of the writer.
#[derive(Debug)]
pub enum Input {
    /// An event of a cluster's source.
    Source {
        /// The number of the source.
        source: SourceId,
        /// Its event.
        event: SourceEvent,
    },
    /// What a cluster's source found at once: it is published together.
    Reading {
        /// The number of the source.
        source: SourceId,
        /// Its events.
        events: Vec<SourceEvent>,
    },
    /// A zone file was read.
    File {
        /// The number of the follower.
        source: SourceId,
        /// The reading.
        event: FileEvent,
    },
    /// An event of etcd.
    Etcd {
        /// The number of the source.
        source: SourceId,
        /// Its event.
        event: EtcdEvent,
    },
    /// The configuration changed.
    Configure(Box<Configure>),
    /// This Corefile is in use from now on.
    Corefile {
        /// The Corefile.
        corefile: KeptCorefile,
        /// The operator that asked for the reload; nobody if it was found to be another.
        by: Operator,
    },
    /// An operator releases what is held of a zone.
    Release {
        /// The zone.
        zone: Name,
        /// The operator.
        by: Operator,
        /// Receives the result.
        asked: oneshot::Sender<Released>,
    },
    /// An operator freezes a zone or rolls it back.
    Hold {
        /// The zone.
        zone: Name,
        /// The hold.
        order: Box<HoldOrder>,
        /// Receives the result.
        asked: oneshot::Sender<Released>,
    },
    /// An operator wants the next serial of a zone to be above this one.
    Advance {
        /// The zone.
        zone: Name,
        /// The serial.
        serial: Serial,
        /// The operator.
        by: Operator,
        /// Receives the result.
        asked: oneshot::Sender<Released>,
    },
    /// A question about a name of a zone.
    Why {
        /// The zone.
        zone: Name,
        /// The name.
        name: Name,
        /// Receives the reasons.
        asked: oneshot::Sender<Vec<Reason>>,
        /// Its place among the questions that wait for the writer. Changes wait behind few of them.
        place: OwnedSemaphorePermit,
    },
    /// A question what a zone would publish if it were released.
    Waiting {
        /// The zone.
        zone: Name,
        /// Receives it; `None` where nothing waits.
        asked: oneshot::Sender<Option<Waiting>>,
        /// Its place, as of [`Input::Why`].
        place: OwnedSemaphorePermit,
    },
    /// Secondaries were asked for their serials.
    Secondaries {
        /// The number of the asking.
        ask: AskId,
        /// The serials of the secondaries that answered.
        serials: Vec<PeerSerial>,
    },
    /// A peer asked for the changes after a serial that is ahead of ours.
    Ahead(PeerSerial),
    /// This replica makes versions from now on. Another one did so before, or nobody.
    Lead {
        /// Whether each zone gets a version, even with the same content.
        must_publish: bool,
    },
    /// Versions of a zone were written to its archive.
    Archived {
        /// The zone.
        zone: Name,
        /// The part of its history that the archive has.
        segment: Box<Segment>,
        /// Receives whether it is noted: the versions may leave the store now.
        asked: oneshot::Sender<Result<bool, String>>,
    },
}

/// Where versions become durable. The journal is one; tests have others.
pub trait Store {
    /// Why a commit failed.
    type Error: std::fmt::Display;

    /// Makes candidates durable, all or none, before it returns.
    ///
    /// # Errors
    /// When they are not durable. None of them may be published then.
    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, Self::Error>;

    /// Whether no versions can be made here now, because another replica leads.
    fn follows(&self) -> bool {
        false
    }

    /// Why an order is refused here while [`Self::follows`] is true, for the operator.
    fn refusal(&self) -> String {
        String::new()
    }

    /// Called when this replica begins to make versions, before its first commit.
    fn lead(&mut self) {}

    /// The serial of the next version of a zone, of which at least `least` is needed. A commit of the zone comes next.
    fn serial(&mut self, apex: &Name, least: Serial) -> Serial {
        let _apex = apex;
        least
    }

    /// A serial that is not before any published serial of this zone.
    fn floor(&self, apex: &Name) -> Option<Serial>;

    /// Versions that were lost, as a cause of the next one.
    fn lost(&self, apex: &Name) -> Option<Cause> {
        let _apex = apex;
        None
    }

    /// The causes of a record of the newest version, if the history has them.
    fn origin(&mut self, apex: &Name, record: RrRef<'_>) -> Vec<Cause> {
        let (_apex, _record) = (apex, record);
        Vec::new()
    }

    /// Stores the hold of a zone, or its end, for the next run.
    ///
    /// # Errors
    /// When it is not durable.
    fn save_hold(&mut self, apex: &Name, hold: Option<&Hold>) -> Result<(), Self::Error> {
        let (_apex, _hold) = (apex, hold);
        Ok(())
    }

    /// Stores what was done to zones, as entries of their histories, and a Corefile that is in use, unless it is the one stored
    /// last: all or none.
    ///
    /// # Errors
    /// When they are not durable.
    fn note(
        &mut self,
        corefile: Option<&KeptCorefile>,
        acts: &[(Name, Act)],
    ) -> Result<(), Self::Error> {
        let (_corefile, _acts) = (corefile, acts);
        Ok(())
    }

    /// Notes that an archive has some versions of a zone. False when they are not the next ones.
    ///
    /// # Errors
    /// When it is not durable.
    fn note_segment(&mut self, apex: &Name, segment: Segment) -> Result<bool, Self::Error> {
        let (_apex, _segment) = (apex, segment);
        Ok(false)
    }

    /// Sets how much history of a zone is kept.
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

    /// Reads the entries beside a zone's versions into `each`, in the order of their keys. False if they are not known.
    fn read_beside(&mut self, apex: &Name, each: &mut dyn FnMut(&[u8], &[u8])) -> bool {
        let (_apex, _each) = (apex, each);
        false
    }

    /// Writes entries beside a zone's versions, all or none. They are durable with the next version.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn put_beside(&mut self, apex: &Name, entries: &[Beside]) -> Result<(), Self::Error> {
        let (_apex, _entries) = (apex, entries);
        Ok(())
    }

    /// Writes entries beside a zone's versions with the next commit, if that works.
    fn put_beside_next(&mut self, apex: &Name, entries: Vec<Beside>) {
        let (_apex, _entries) = (apex, entries);
    }

    /// Removes all entries beside a zone's versions.
    ///
    /// # Errors
    /// When the store cannot be written.
    fn forget_beside(&mut self, apex: &Name) -> Result<(), Self::Error> {
        let _apex = apex;
        Ok(())
    }

    /// Takes the numbers of versions that commits dropped before their time, each with its zone.
    fn take_early(&mut self) -> Vec<(Name, u64)> {
        Vec::new()
    }

    /// Called before a commit and its calls of [`Self::origin`].
    fn prepare(&mut self) {}

    /// Does a small portion of background work. Returns whether there is more.
    fn idle(&mut self) -> bool;

    /// When to call [`Self::idle`] again although there was no more to do. `None`: with the next input.
    fn again_after(&self) -> Option<Duration> {
        None
    }
}

/// Observes the writer, for metrics and logs.
pub trait Observer: Send {
    /// A version was published.
    fn published(&self, version: &Version, added: usize, removed: usize);
    /// A batch was committed in this time. `latencies` are those of its changes.
    fn committed(&self, commit: Duration, latencies: &[Duration]);
    /// A change of a Service's slices is published, with the time since it happened.
    fn programmed(&self, service: ServiceKind, latency: Duration) {
        let (_service, _latency) = (service, latency);
    }
    /// A commit failed and will be tried again.
    fn failed(&self, error: &str);
    /// A hold is over, but the store cannot forget it yet. Called once for each hold.
    fn not_forgotten(&self, zone: &Name, error: &str) {
        let (_zone, _error) = (zone, error);
    }
    /// An act or a Corefile is not in the history yet: the store refuses it. Called once until it does not.
    fn not_noted(&self, what: &str, error: &str) {
        let (_what, _error) = (what, error);
    }
    /// The problems of objects changed: all problems of all clusters, and the new ones.
    fn problems(&self, all: &mut dyn Iterator<Item = &Problem>, new: &[Problem]);
    /// An event of the gate or of a hold.
    fn gate(&self, zone: &Name, event: &GateEvent) {
        let (_zone, _event) = (zone, event);
    }
    /// The warnings of a zone changed: all, and the new ones.
    fn warnings(&self, zone: &Name, all: &[Warning], new: &[Warning]) {
        let (_zone, _all, _new) = (zone, all, new);
    }
    /// So many versions of a zone were dropped although they are younger than the history should be.
    fn dropped_early(&self, zone: &Name, versions: u64) {
        let (_zone, _versions) = (zone, versions);
    }
    /// What keys of etcd lack in a zone, and why, has changed: all of it.
    fn left_out(&self, zone: &Name, all: &BTreeSet<String>) {
        let (_zone, _all) = (zone, all);
    }
    /// A peer has a serial that is not before ours. The next serial is above it if `counts`.
    fn peer_is_ahead(&self, reported: &PeerSerial, counts: bool) {
        let (_reported, _counts) = (reported, counts);
    }
    /// The source of a cluster was listed completely for the first time.
    fn synced(&self, source: &str);
}

/// See [`Pipeline::with_followed`].
pub type HaveFollowed = Box<dyn Fn(&Version) -> bool + Send>;

/// The writer.
pub struct Pipeline<S> {
    zones: Arc<ZoneSet>,
    clusters: Vec<Cluster>,
    /// The zone files, with their followers.
    files: Vec<(SourceId, HeldFile)>,
    catalogs: Vec<HeldCatalog>,
    store: S,
    clock: Arc<dyn Clock>,
    observer: Box<dyn Observer>,
    batch: BatchSettings,
    /// When the changes that are not yet committed were seen.
    seen: Vec<Instant>,
    /// When the last commit ended.
    last_commit: Option<Instant>,
    /// The askings of secondaries that have to end before anything is published.
    awaited: BTreeSet<AskId>,
    /// Whether secondaries of a zone are known and all of them have followed the reset of its serial.
    have_followed: HaveFollowed,
    /// Zones whose holds are over and not yet forgotten by the store, and whether the failure was reported.
    over: BTreeMap<Name, bool>,
    /// The digest of the Corefile in use; empty when unknown.
    in_use: String,
    /// As `in_use`, and that of the last run until the one in use is known.
    last_corefile: String,
    /// The last change of the Corefile, and who had it read.
    last_change: (String, Operator),
    /// What was done and is not stored yet.
    unnoted: Unnoted,
}

impl<S> std::fmt::Debug for Pipeline<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pipeline")
            .field("clusters", &self.clusters.len())
            .finish_non_exhaustive()
    }
}

impl<S: Store> Pipeline<S> {
    /// A writer for these clusters. `zones` has the versions from the store.
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
            awaited: BTreeSet::new(),
            have_followed: Box::new(|_| false),
            over: BTreeMap::new(),
            in_use: String::new(),
            last_corefile: String::new(),
            last_change: (acts::THE_COREFILE.to_owned(), Operator::default()),
            unnoted: Unnoted::default(),
        }
    }

    /// Whether everything of a source's cluster was listed, with `with_imports` also ServiceImports.
    #[must_use]
    pub fn is_synced(&self, source: SourceId, with_imports: bool) -> bool {
        let mut clusters = self.clusters.iter();
        let cluster = clusters.find(|cluster| cluster.handles.source == source);
        cluster.is_some_and(|cluster| {
            cluster.state.is_synced() && (!with_imports || cluster.state.has_imports())
        })
    }

    /// Works until all senders are gone, then gives the store back. For a thread of its own.
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
                Next::Closed => {
                    self.publish_waiting();
                    self.save_all_facts();
                    return self.store;
                }
            }
            failed = !self.commit();
        }
    }

    /// Publishes changes that wait for the pace of versions, because the writer ends.
    fn publish_waiting(&mut self) {
        if self
            .guarded()
            .any(|(_, guard)| guard.waiting() != Holds::Nothing)
        {
            self.batch.burst = 0;
            for (_, guard) in self.guarded() {
                guard.wait_no_longer();
            }
            // What is not published now follows from the first list of the next run.
            let _is_published = self.commit();
        }
    }

    /// The next input. The store does background work until it comes.
    fn next_or_idle(&mut self, inputs: &mut mpsc::Receiver<Input>) -> Next {
        loop {
            match inputs.try_recv() {
                Ok(input) => return Next::Input(input),
                Err(mpsc::error::TryRecvError::Disconnected) => return Next::Closed,
                Err(mpsc::error::TryRecvError::Empty) => {}
            }
            if !self.store.idle() && !self.save_facts() {
                let end = self.deadline(self.now());
                let left = end.map(|end| end.saturating_duration_since(self.clock.now()));
                let facts = self.facts_due();
                let facts = facts.map(|due| due.saturating_duration_since(self.clock.now()));
                let left = left.into_iter().chain(self.store.again_after());
                let left = left.chain(facts).min();
                return match left {
                    None => Next::of(inputs.blocking_recv()),
                    Some(left) => within(inputs, left),
                };
            }
        }
    }

    /// Takes waiting inputs and, in a burst, those of the batch window.
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
        let BatchSettings { quiet, window, .. } = self.batch;
        let end = now + window;
        for _ in 1..BATCH_CHANGES {
            let left = end.saturating_duration_since(self.clock.now());
            match within(inputs, quiet.min(left)) {
                Next::Input(input) => self.take(input),
                Next::Nothing | Next::Closed => return,
            }
        }
    }

    /// Takes one input.
    pub fn take(&mut self, input: Input) {
        match input {
            // Only the leader may carry out an order. The caller may be gone.
            Input::Release { asked, .. }
            | Input::Hold { asked, .. }
            | Input::Advance { asked, .. }
                if self.store.follows() =>
            {
                drop(asked.send(Err(self.store.refusal())));
            }
            Input::Source { source, event } => self.take_event(source, event),
            Input::Reading { source, events } => {
                for event in events {
                    self.take_event(source, event);
                }
            }
            Input::File { source, event } => self.take_file(source, event),
            Input::Etcd { source, event } => self.take_etcd(source, event),
            Input::Configure(configure) => self.configure(*configure),
            Input::Corefile { corefile, by } => self.use_corefile(corefile, &by),
            Input::Release { zone, by, asked } => self.release(&zone, by, asked),
            Input::Advance {
                zone,
                serial,
                by,
                asked,
            } => match self.ahead_of(&zone) {
                Some((known, ahead)) => ahead.order(&known, serial, by, asked),
                // The client may be gone.
                None => drop(asked.send(Err(not_guarded(&zone)))),
            },
            Input::Why {
                zone,
                name,
                asked,
                place,
            } => {
                drop(asked.send(self.why(&zone, &name)));
                drop(place);
            }
            Input::Waiting { zone, asked, place } => {
                let guard = self.guard_of(&zone);
                drop(asked.send(guard.and_then(|(zone, guard)| guard.waiting_draft(zone))));
                drop(place);
            }
            Input::Hold { zone, order, asked } => self.hold(&zone, *order, asked),
            Input::Secondaries { ask, serials } => {
                self.awaited.remove(&ask);
                for reported in &serials {
                    self.take_serial(reported);
                }
            }
            Input::Ahead(reported) => self.take_serial(&reported),
            Input::Lead { must_publish } => self.lead(must_publish),
            Input::Archived {
                zone,
                segment,
                asked,
            } => {
                let noted = self.store.note_segment(&zone, *segment);
                drop(asked.send(noted.map_err(|error| error.to_string())));
            }
        }
    }

    /// Begins after a run whose last Corefile has this digest.
    #[must_use]
    pub fn with_last_corefile(mut self, digest: &str) -> Self {
        digest.clone_into(&mut self.last_corefile);
        self
    }

    fn use_corefile(&mut self, corefile: KeptCorefile, by: &Operator) {
        if self.in_use != corefile.digest {
            self.in_use.clone_from(&corefile.digest);
            for cluster in &mut self.clusters {
                cluster.memory.is_header_due = true;
            }
        }
        let since_ms = self.now().ms;
        let last = std::mem::replace(&mut self.last_corefile, corefile.digest.clone());
        if !last.is_empty() && last != corefile.digest {
            let change = change_of_corefile(&corefile.digest, &last);
            self.unnoted.add_reload(&self.zones, &change, by, since_ms);
            self.last_change = (change, by.clone());
        }
        self.unnoted.corefile = Some(KeptCorefile {
            since_ms,
            ..corefile
        });
    }

    /// Sets how changes are gathered.
    #[must_use]
    pub const fn with_batch(mut self, batch: BatchSettings) -> Self {
        self.batch = batch;
        self
    }

    /// Sets what tells whether secondaries of a zone are known and all of them have followed the reset of its serial. It is
    /// asked at a commit while the reset is not over.
    #[must_use]
    pub fn with_followed(mut self, have_followed: HaveFollowed) -> Self {
        self.have_followed = have_followed;
        self
    }

    /// Publishes nothing before this asking of secondaries has ended.
    #[must_use]
    pub fn awaiting_secondaries(mut self, ask: AskId) -> Self {
        self.awaited.insert(ask);
        self
    }

    /// Releases a held change with the next commit.
    fn release(&mut self, apex: &Name, by: Operator, asked: oneshot::Sender<Released>) {
        match self.guard_of(apex) {
            Some((zone, guard)) => guard.release(zone, by, asked),
            None => drop(asked.send(Err(not_guarded(apex)))),
        }
    }

    /// Takes in the serial of a peer. If it is ahead of ours and credible, the next serial is above it.
    fn take_serial(&mut self, reported: &PeerSerial) {
        let unix_seconds = self.now().ms / 1000;
        let floor = self.store.floor(&reported.zone);
        let serial = reported.serial;
        let Some((zone, ahead)) = self.ahead_of(&reported.zone) else {
            return;
        };
        let current = zone.current();
        let own = current.as_ref().map(|version| version.serial).or(floor);
        let is_behind = current.is_some_and(|version| version.leaves_behind(serial));
        if is_behind || own.is_some_and(|own| serial <= own) {
            return;
        }
        let counts =
            own.is_none_or(|own| serial.is_after(own)) && reported.counts(own, unix_seconds);
        if counts {
            ahead.raise(serial);
        }
        self.observer.peer_is_ahead(reported, counts);
    }

    /// A zone or catalog, with the serials that its next one must be above.
    fn ahead_of(&mut self, apex: &Name) -> Option<(Arc<Zone>, &mut Ahead)> {
        let place = self.catalogs.iter().position(|it| it.zone.apex() == apex);
        if let Some(place) = place {
            let catalog = &mut self.catalogs[place];
            return Some((Arc::clone(&catalog.zone), &mut catalog.ahead));
        }
        let (zone, guard) = self.guard_of(apex)?;
        Some((Arc::clone(zone), &mut guard.ahead))
    }

    /// All zones, each with its guard.
    fn guarded(&mut self) -> impl Iterator<Item = (&Arc<Zone>, &mut Guard)> {
        let of_clusters = self.clusters.iter_mut().flat_map(Cluster::guarded);
        of_clusters.chain(self.files.iter_mut().filter_map(|(_, held)| held.guarded()))
    }
}

#[cfg(test)]
mod tests;
