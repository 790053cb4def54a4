//! Versions of a zone, and the place where readers find the current one.
//!
//! The types enforce the order of a commit: a [`Candidate`] is built from a draft, the journal turns it into a
//! [`Journaled`], and only that can be published. Readers hold an `Arc<Version>` for a whole answer or a whole
//! transfer. It carries the steps that lead to it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use dns::{Name, Rdata, RrRef, Rtype, Serial, SuffixMap};
use imbl::Vector;
use provenance::Cause;
use tokio::sync::watch;

use crate::gate::HeldChange;
use crate::hold::Hold;
use crate::net_cache::NetCache;
use crate::{ContentTree, Contents, Draft, Hash, LeftBehind, Link, Net, Node, Step};

/// One version of a zone: contents under a serial, for ever.
#[derive(Debug, Clone)]
pub struct Version {
    /// The number of the version: from 1, without gaps, never on the wire.
    pub seq: u64,
    /// The serial.
    pub serial: Serial,
    /// The time when it was made, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The records without the SOA's serial.
    pub contents: Contents,
    /// The SOA's data, including the serial.
    pub soa_rdata: Rdata,
    /// The latest steps up to this version that are kept in memory, oldest first.
    pub history: Vector<Arc<Step>>,
    /// The serial that secondaries may still have from before a reset of the serial.
    pub left_behind: Option<LeftBehind>,
    /// The size of the steps in `history`.
    history_octets: usize,
    /// Its hashes; `None` for versions stored before there were hashes.
    pub link: Option<Link>,
    /// The tree that gives the content's hash.
    tree: ContentTree,
    condensed: NetCache,
    /// The earliest end of a signature, once it was asked for.
    signatures_end: OnceLock<Option<u32>>,
}

impl Version {
    /// A version read from the store. Costs a pass over the zone.
    #[must_use]
    pub(crate) fn restore(
        seq: u64,
        serial: Serial,
        time_ms: u64,
        contents: Contents,
        history: History,
        link: Option<Link>,
    ) -> Self {
        let tree = ContentTree::of(&contents);
        Self::new(seq, serial, time_ms, contents, history, link, tree)
    }

    fn new(
        seq: u64,
        serial: Serial,
        time_ms: u64,
        contents: Contents,
        history: History,
        link: Option<Link>,
        tree: ContentTree,
    ) -> Self {
        let soa_rdata = contents.soa().rdata(serial);
        Self {
            seq,
            serial,
            time_ms,
            contents,
            soa_rdata,
            history: history.steps,
            left_behind: None,
            history_octets: history.octets,
            link,
            tree,
            condensed: NetCache::default(),
            signatures_end: OnceLock::new(),
        }
    }

    fn kept_history(&self) -> History {
        History {
            steps: self.history.clone(),
            octets: self.history_octets,
        }
    }

    /// Whether a peer with this serial has not followed a reset of the serial yet.
    #[must_use]
    pub fn leaves_behind(&self, serial: Serial) -> bool {
        self.left_behind
            .is_some_and(|left| left.includes(serial, self.serial))
    }

    /// The SOA record.
    #[must_use]
    pub fn soa_record(&self) -> RrRef<'_> {
        RrRef {
            owner: self.contents.apex().as_wire(),
            rtype: Rtype::SOA,
            ttl: self.contents.soa().ttl,
            data: self.soa_rdata.as_octets(),
            tag: 0,
        }
    }

    /// The hash of the content.
    #[must_use]
    pub fn content_hash(&self) -> Hash {
        self.tree.content_hash(&self.contents)
    }

    /// The earliest end of a signature in a zone that is signed, in seconds since 1970 UTC; `None` in others. The first call
    /// costs a pass over such a zone.
    #[must_use]
    pub fn signatures_end(&self) -> Option<u32> {
        let read = || {
            let nodes = self.contents.nodes();
            let rrsets = nodes.flat_map(Node::rrsets);
            let signatures = rrsets.filter(|rrset| rrset.rtype == Rtype::RRSIG);
            let data = signatures.flat_map(|rrset| rrset.data());
            // RFC 4034 section 3.1: covered type, algorithm, labels and original TTL come first.
            data.filter_map(|data| data.get(8..)?.first_chunk())
                .map(|octets| u32::from_be_bytes(*octets))
                .min()
        };
        let is_signed = self.contents.is_signed();
        *self.signatures_end.get_or_init(|| is_signed.then(read)?)
    }

    /// The size of the steps that are kept in memory.
    #[must_use]
    pub const fn history_octets(&self) -> usize {
        self.history_octets
    }

    /// The net difference of these steps, which lead from serial `from` to this version. It is computed once for all
    /// secondaries that ask. `None` as for [`Net::of`].
    #[must_use]
    pub fn net_of(&self, from: Serial, steps: &[Arc<Step>]) -> Option<Arc<Net>> {
        self.condensed.net(from, steps)
    }

    /// The number of versions that the one with this serial is behind; `None` when the history in memory does not reach
    /// back to it. Costs a search through that many steps.
    #[must_use]
    pub fn behind(&self, serial: Serial) -> Option<usize> {
        if serial == self.serial {
            return Some(0);
        }
        // Newest first. A serial names one version, so the first hit is the only one.
        let leads_from = |step: &Arc<Step>| step.from.as_ref().is_some_and(|it| it.0 == serial);
        let place = self.history.iter().rev().position(leads_from)?;
        Some(place + 1)
    }

    /// The steps from the version with this serial to this one, oldest first; `None` when the history in memory does
    /// not reach back to it. Empty for the version's own serial.
    #[must_use]
    pub fn steps_from(&self, serial: Serial) -> Option<Vec<Arc<Step>>> {
        let latest = self.history.iter().rev().take(self.behind(serial)?);
        let mut steps: Vec<_> = latest.map(Arc::clone).collect();
        steps.reverse();
        Some(steps)
    }
}

/// The latest steps that lead to a version, oldest first, with their size.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    pub(crate) steps: Vector<Arc<Step>>,
    octets: usize,
}

impl History {
    /// Adds the newest step and drops the oldest until the limits hold.
    pub(crate) fn push(&mut self, step: Arc<Step>, limits: MemoryLimits) {
        self.octets += step.octets();
        self.steps.push_back(step);
        while self.steps.len() > limits.steps || self.octets > limits.octets {
            let Some(dropped) = self.steps.pop_front() else {
                return;
            };
            self.octets -= dropped.octets();
        }
    }

    /// Adds a step before the oldest; false when there is no room.
    pub(crate) fn push_front(&mut self, step: Arc<Step>, limits: MemoryLimits) -> bool {
        let fits = self.steps.len() < limits.steps && self.octets + step.octets() <= limits.octets;
        if fits {
            self.octets += step.octets();
            self.steps.push_front(step);
        }
        fits
    }
}

/// A version that is built but not durable yet.
#[derive(Debug)]
pub struct Candidate {
    version: Version,
    step: Arc<Step>,
}

/// Why a step of another replica leads to no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It does not follow the version.
    Other,
    /// It does not lead to the hash that it names.
    Hash,
}

/// The limits of the history that a version carries in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryLimits {
    /// The most steps.
    pub steps: usize,
    /// The largest size of their records, in bytes.
    pub octets: usize,
}

impl Candidate {
    /// Builds the version after `previous`, or the first, from a draft that is not empty. Times never go back: after
    /// the clock was set back, the version has the time of the one before.
    #[must_use]
    pub fn new(
        previous: Option<&Version>,
        draft: Draft,
        serial: Serial,
        time_ms: u64,
        causes: Vec<Vec<Cause>>,
        limits: MemoryLimits,
    ) -> Self {
        let Draft {
            contents,
            removed,
            added,
            soa_changed: _,
        } = draft;
        let time_ms = previous.map_or(time_ms, |version| time_ms.max(version.time_ms));
        let step = Step {
            seq: previous.map_or(1, |version| version.seq + 1),
            time_ms,
            from: previous.map(|version| (version.serial, version.contents.soa().clone())),
            serial,
            soa: contents.soa().clone(),
            removed,
            added,
            causes,
            records: contents.record_count(),
            link: None,
        };
        let left_behind = previous.and_then(|before| {
            let (from, to) = (&before.contents, &contents);
            let from = (before.serial, from.soa());
            LeftBehind::after_step(before.left_behind, from, (serial, to.soa()), time_ms)
        });
        Self::linked(previous, step, contents, left_behind, limits)
    }

    /// The version that a step of another replica leads to.
    ///
    /// # Errors
    /// [`Misfit`] when the step does not follow the version, or does not lead to the hash that it names.
    pub(crate) fn after_step(
        previous: Option<&Version>,
        apex: &Name,
        mut step: Step,
        left_behind: Option<LeftBehind>,
        limits: MemoryLimits,
    ) -> Result<Self, Misfit> {
        let seq = previous.map_or(1, |version| version.seq + 1);
        let from = previous.map(|version| (version.serial, version.contents.soa()));
        let is_next = match (&step.from, from) {
            (None, None) => true,
            (Some((serial, soa)), Some((before, of_before))) => {
                *serial == before && soa == of_before && step.serial.is_after(before)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        let is_later = previous.is_none_or(|version| version.time_ms <= step.time_ms);
        if !is_next || !is_later || step.seq != seq {
            return Err(Misfit::Other);
        }
        let empty;
        let before = match previous {
            Some(version) => &version.contents,
            None => {
                empty = Contents::empty(apex, step.soa.clone());
                &empty
            }
        };
        let contents = step.apply(before).map_err(|_| Misfit::Other)?;
        if contents.record_count() != step.records {
            return Err(Misfit::Other);
        }
        let named = step.link.take();
        let made = Self::linked(previous, step, contents, left_behind, limits);
        if named.is_none() || made.version.link != named {
            return Err(Misfit::Hash);
        }
        Ok(made)
    }

    /// Computes the hashes of a version.
    fn linked(
        previous: Option<&Version>,
        mut step: Step,
        contents: Contents,
        left_behind: Option<LeftBehind>,
        limits: MemoryLimits,
    ) -> Self {
        let tree = tree_after(previous, &step, &contents);
        let before = previous.and_then(|version| version.link);
        let before = before.map_or(Hash::ZERO, |link| link.hash);
        let content = tree.content_hash(&contents);
        let link = Link::of(&step, contents.apex(), before, content);
        step.link = Some(link);
        let step = Arc::new(step);
        let mut history = previous.map(Version::kept_history).unwrap_or_default();
        if step.from.is_some() {
            history.push(Arc::clone(&step), limits);
        }
        let (seq, serial, time_ms) = (step.seq, step.serial, step.time_ms);
        let version = Version::new(seq, serial, time_ms, contents, history, Some(link), tree);
        let version = Version {
            left_behind,
            ..version
        };
        Self { version, step }
    }

    /// A version as it was read from the store, with the step that led to it.
    pub(crate) const fn stored(version: Version, step: Arc<Step>) -> Self {
        Self { version, step }
    }

    /// Notes that all secondaries had followed the reset of an earlier version.
    #[must_use]
    pub fn after_all_followed(mut self) -> Self {
        let from = self.step.from.as_ref().map(|(serial, _)| *serial);
        let left = self.version.left_behind.zip(from);
        let left = left.filter(|(left, _)| left.reset == self.version.serial);
        self.version.left_behind = left.map(|(left, serial)| LeftBehind { serial, ..left });
        self
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.version
    }

    /// The step that leads to it.
    #[must_use]
    pub const fn step(&self) -> &Arc<Step> {
        &self.step
    }

    /// Marks the candidate as durable. For the journal, and for tests without one.
    #[must_use]
    pub fn journaled(self) -> Journaled {
        Journaled(self)
    }
}

fn tree_after(previous: Option<&Version>, step: &Step, contents: &Contents) -> ContentTree {
    let Some(previous) = previous else {
        return ContentTree::of(contents);
    };
    let touched: BTreeSet<Vec<u8>> = step.touched(contents.apex()).collect();
    // A piece has about 16 owners: when most pieces are touched, hashing all of them costs less.
    if touched.len() > contents.owner_count() / 16 + 1 {
        ContentTree::of(contents)
    } else {
        previous.tree.updated(contents, &touched)
    }
}

/// A version that is durable but not published yet.
#[derive(Debug)]
pub struct Journaled(Candidate);

impl Journaled {
    /// The zone it is a version of.
    #[must_use]
    pub const fn apex(&self) -> &Name {
        self.0.version.contents.apex()
    }

    /// The version.
    #[must_use]
    pub const fn version(&self) -> &Version {
        &self.0.version
    }
}

/// A zone as readers know it: its name and its current version.
#[derive(Debug)]
pub struct Zone {
    /// In lower case.
    apex: Name,
    /// `None` before the first version.
    current: ArcSwapOption<Version>,
    /// The time when the source was lost, milliseconds since 1970 UTC; 0 while it is connected.
    stale_since_ms: AtomicU64,
    held: ArcSwapOption<HeldChange>,
    hold: ArcSwapOption<Hold>,
    /// Receives the number of each new version.
    published: watch::Sender<u64>,
}

impl Zone {
    /// A zone without a version.
    #[must_use]
    pub fn new(apex: &Name) -> Self {
        Self {
            apex: apex.to_lower(),
            current: ArcSwapOption::empty(),
            stale_since_ms: AtomicU64::new(0),
            held: ArcSwapOption::empty(),
            hold: ArcSwapOption::empty(),
            published: watch::Sender::new(0),
        }
    }

    /// The zone's name, in lower case.
    #[must_use]
    pub const fn apex(&self) -> &Name {
        &self.apex
    }

    /// The current version, for as long as the caller needs it.
    #[must_use]
    pub fn current(&self) -> Option<Arc<Version>> {
        self.current.load_full()
    }

    /// The current version for one lookup: cheaper than [`Self::current`].
    #[must_use]
    pub fn peek(&self) -> arc_swap::Guard<Option<Arc<Version>>> {
        self.current.load()
    }

    /// Makes a durable version the current one, then wakes subscribers.
    pub fn publish(&self, version: Journaled) -> Arc<Version> {
        let version = Arc::new(version.0.version);
        self.show(Arc::clone(&version));
        version
    }

    /// Makes a version that was read from the store the current one.
    pub fn restore(&self, version: Version) {
        self.show(Arc::new(version));
    }

    fn show(&self, version: Arc<Version>) {
        let seq = version.seq;
        self.current.store(Some(version));
        self.published.send_replace(seq);
    }

    /// A receiver that wakes at each new version.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.published.subscribe()
    }

    /// The time when the source was lost, milliseconds since 1970 UTC; `None` while it is connected.
    #[must_use]
    pub fn stale_since_ms(&self) -> Option<u64> {
        Some(self.stale_since_ms.load(Ordering::Relaxed)).filter(|since| *since > 0)
    }

    /// The change that the gate or an operator holds back.
    #[must_use]
    pub fn held(&self) -> Option<Arc<HeldChange>> {
        self.held.load_full()
    }

    /// Sets the change that is held back.
    pub fn set_held(&self, held: Option<HeldChange>) {
        self.held.store(held.map(Arc::new));
    }

    /// The operator's freeze or rollback.
    #[must_use]
    pub fn hold(&self) -> Option<Arc<Hold>> {
        self.hold.load_full()
    }

    /// Sets the operator's freeze or rollback.
    pub fn set_hold(&self, hold: Option<Hold>) {
        self.hold.store(hold.map(Arc::new));
    }

    /// Whether the served version may be outdated at a name in wire form: the source is lost, or a change there is held back.
    #[must_use]
    pub fn may_be_old(&self, name: &[u8]) -> bool {
        let is_held = |held: &Arc<HeldChange>| held.holds_name(name);
        self.stale_since_ms.load(Ordering::Relaxed) > 0
            || self.held.load().as_ref().is_some_and(is_held)
    }

    /// Sets when the source was lost; `None` when it is connected.
    pub fn set_stale_since_ms(&self, since: Option<u64>) {
        self.stale_since_ms
            .store(since.unwrap_or(0), Ordering::Relaxed);
    }
}

/// The zones of the process, found by the longest matching name. They do not change once the configuration is read.
#[derive(Debug, Default)]
pub struct ZoneSet {
    zones: Vec<Arc<Zone>>,
    /// Lower-case wire names to positions in `zones`.
    index: SuffixMap<usize>,
}

impl ZoneSet {
    /// A set of zones. Of two zones with the same name, the first counts.
    #[must_use]
    pub fn new(zones: Vec<Arc<Zone>>) -> Self {
        let mut index = SuffixMap::default();
        for (place, zone) in zones.iter().enumerate() {
            index.add(zone.apex().as_wire(), place);
        }
        Self { zones, index }
    }

    /// All zones, in the order of the configuration.
    #[must_use]
    pub fn all(&self) -> &[Arc<Zone>] {
        &self.zones
    }

    /// The zone with exactly this name.
    #[must_use]
    pub fn get(&self, apex: &Name) -> Option<&Arc<Zone>> {
        self.index
            .get(apex.to_lower().as_wire())
            .map(|place| &self.zones[*place])
    }

    /// The zone with the longest name that is equal to or above this name, given in lower-case wire form.
    #[must_use]
    pub fn find(&self, lower_wire: &[u8]) -> Option<&Arc<Zone>> {
        self.place(lower_wire).map(|place| &self.zones[place])
    }

    /// The place in [`ZoneSet::all`] of the zone that [`ZoneSet::find`] finds.
    #[must_use]
    pub fn place(&self, lower_wire: &[u8]) -> Option<usize> {
        self.index.find(lower_wire).copied()
    }
}
