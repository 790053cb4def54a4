//! The orders of a replica, carried out on the journal.

use dns::Name;
use replicas::chain::{Chain, Chains, Part, Snapshot, Step, Tip};
use replicas::frame::LinkId;
use replicas::knowledge::Vow;
use replicas::leader::{Fetch, Fetched};
use replicas::store::{Order, Refusal};
use zone::journal::{
    Journal, LoadError, OpenStepError, Opened, Parcel, Portion, ReadError, ReplicateError, Sending,
    Staged, StoreError,
};
use zone::{Journaled, MemoryLimits, Version};

use std::collections::{BTreeMap, VecDeque};

use crate::kept::Kept;
use crate::tips::{journal_tip, tip_of};

/// The most zones for which parts are held that are not complete.
const STAGED_MOST: usize = 64;

/// A zone: its versions from the announced one on.
#[derive(Debug, Default)]
struct OpenZone {
    /// The announced version.
    announced: Option<Version>,
    /// Durable versions after it, oldest first.
    later: VecDeque<Journaled>,
}

impl OpenZone {
    /// The newest durable version.
    fn newest(&self) -> Option<&Version> {
        let later = self.later.back().map(Journaled::version);
        later.or(self.announced.as_ref())
    }

    /// Whether a version is among them, or is the time before the first while none is announced.
    fn has(&self, tip: &Tip) -> bool {
        if tip.seq == 0 {
            return self.announced.is_none();
        }
        let is_it = |version: &Version| {
            let hash = version.link.map(|link| *link.hash.as_octets());
            version.seq == tip.seq && hash.unwrap_or_default() == tip.hash
        };
        let mut later = self.later.iter().map(Journaled::version);
        later.any(is_it) || self.announced.as_ref().is_some_and(is_it)
    }
}

/// The parts of a version that is not there yet.
#[derive(Debug)]
struct Incoming {
    tip: Tip,
    /// The number of the next part.
    next: u32,
    staged: Staged,
}

/// A large step or a snapshot that a follower gets in parts.
#[derive(Debug)]
struct Outgoing {
    zone: Name,
    /// The version from which a step starts; `None` for a snapshot.
    from: Option<Tip>,
    parcel: Parcel,
    /// How many parts were sent.
    sent: u32,
}

/// Why the process has to end.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// What is on the disk is not known.
    #[error("the journal has to be read again: {0}")]
    Unknown(#[source] ReplicateError),
    /// A zone cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The journal cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What a replica starts with.
#[derive(Debug)]
pub struct Found {
    /// The id of the state folder and the vow.
    pub kept: Kept,
    /// The versions of all configured zones.
    pub chains: Chains,
    /// The announced version of each zone that has one: it is served from the start.
    pub announced: Vec<Version>,
    /// What was lost, in sentences for an operator.
    pub notes: Vec<String>,
}

/// The journal of a replica.
#[derive(Debug)]
pub struct Disk {
    journal: Journal,
    kept: Kept,
    zones: BTreeMap<Name, OpenZone>,
    incoming: BTreeMap<Name, Incoming>,
    /// By link and zone: parts of several zones can take turns.
    outgoing: BTreeMap<(LinkId, Name), Outgoing>,
    limits: MemoryLimits,
    /// Whether an order was refused because of the store, and no write worked since.
    is_refusing: bool,
}

/// Orders that become durable with one sync.
#[derive(Debug, Default)]
struct Group {
    opened: Vec<Opened>,
    /// The vow that is kept with them.
    vow: Option<Vow>,
    /// The places of their orders.
    places: Vec<usize>,
}

impl Disk {
    /// Reads the journal of a folder. `draw` gives a new random id, for a folder that has none: it is durable when this returns.
    /// `is_copy` says that the folder is a copy of another one: then it gets an id of its own.
    ///
    /// # Errors
    /// [`DiskError`] when the journal cannot be read or written.
    pub fn open(
        mut journal: Journal,
        zones: &[Name],
        limits: MemoryLimits,
        is_copy: bool,
        draw: impl FnOnce() -> String,
    ) -> Result<(Self, Found), DiskError> {
        let kept = journal.kept()?.and_then(|octets| Kept::decode(&octets));
        let kept = match kept {
            Some(kept) if !is_copy => kept,
            Some(_) | None => {
                let kept = Kept::new(draw());
                let written = journal.commit_opened(Vec::new(), Some(&kept.encode()));
                written.map_err(DiskError::Unknown)?;
                kept
            }
        };
        let mut found = Found {
            kept: kept.clone(),
            chains: Chains::new(),
            announced: Vec::new(),
            notes: Vec::new(),
        };
        let mut open = BTreeMap::new();
        for apex in zones {
            let apex = apex.to_lower();
            let chain = journal.load_chain(&apex, limits)?;
            found.notes.extend(chain.notes);
            let tip = chain
                .announced
                .as_ref()
                .map_or(Tip::NONE, |(tip, _)| tip_of(tip));
            let later = chain.later.iter().map(|(tip, _)| tip_of(tip)).collect();
            found.chains.insert(apex.clone(), Chain::new(tip, later));
            let zone = OpenZone {
                announced: chain.announced.map(|(_, version)| version),
                later: chain.later.into_iter().map(|(_, it)| it).collect(),
            };
            found.announced.extend(zone.announced.clone());
            open.insert(apex, zone);
        }
        let disk = Self {
            journal,
            kept,
            zones: open,
            incoming: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            limits,
            is_refusing: false,
        };
        Ok((disk, found))
    }

    /// The journal, for what is not replicated.
    pub const fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Ends with the journal.
    #[must_use]
    pub fn into_journal(self) -> Journal {
        self.journal
    }

    /// Carries out orders one after the other. What they gave, in the same order, is durable. Orders that follow each other
    /// share one sync, except snapshots and truncations.
    ///
    /// # Errors
    /// [`DiskError::Unknown`] when nothing is known of the disk: none of the orders may be answered.
    pub fn carry_out(&mut self, orders: Vec<Order>) -> Result<Vec<Result<(), Refusal>>, DiskError> {
        let mut results = vec![Ok(()); orders.len()];
        let mut group = Group::default();
        for (place, order) in orders.into_iter().enumerate() {
            let result = match order {
                Order::Keep(vow) => {
                    group.vow = Some(vow);
                    group.places.push(place);
                    Ok(())
                }
                Order::Stage(part) => self.stage(&part),
                Order::Append(step) => {
                    let opened = self.open_step(&step, &group);
                    // A batch takes one Corefile.
                    let has_corefile = opened.as_ref().is_ok_and(Opened::has_corefile);
                    if has_corefile && group.opened.iter().any(Opened::has_corefile) {
                        self.flush(std::mem::take(&mut group), &mut results)?;
                    }
                    opened.map(|opened| {
                        group.opened.push(opened);
                        group.places.push(place);
                    })
                }
                Order::Truncate(zone, tip) => {
                    self.flush(std::mem::take(&mut group), &mut results)?;
                    self.truncate(&zone, &tip)?
                }
                Order::Replace(snapshot) => {
                    self.flush(std::mem::take(&mut group), &mut results)?;
                    self.replace(&snapshot)?
                }
            };
            results[place] = result;
        }
        self.flush(group, &mut results)?;
        self.is_refusing |= results.contains(&Err(Refusal::Store));
        Ok(results)
    }

    /// Makes a group durable.
    fn flush(
        &mut self,
        group: Group,
        results: &mut [Result<(), Refusal>],
    ) -> Result<(), DiskError> {
        let Group {
            opened,
            vow,
            places,
        } = group;
        if places.is_empty() {
            return Ok(());
        }
        let kept = vow.map(|vow| Kept {
            vow,
            folder: self.kept.folder.clone(),
        });
        let octets = kept.as_ref().map(Kept::encode);
        match self.journal.commit_opened(opened, octets.as_deref()) {
            Ok(journaled) => {
                self.kept = kept.unwrap_or_else(|| self.kept.clone());
                for version in journaled {
                    let zone = self.zones.entry(version.apex().clone()).or_default();
                    zone.later.push_back(version);
                }
                Ok(())
            }
            Err(error) => {
                let refusal = refusal(error)?;
                for place in places {
                    results[place] = Err(refusal);
                }
                Ok(())
            }
        }
    }

    /// Holds a part of a version that this replica is about to propose.
    ///
    /// # Errors
    /// [`Refusal`] when it is not the next one, or malformed.
    pub fn prepare(&mut self, part: &Part) -> Result<(), Refusal> {
        self.stage(part)
    }

    /// Holds a part.
    fn stage(&mut self, part: &Part) -> Result<(), Refusal> {
        if part.number == 0 {
            self.incoming.remove(&part.zone);
            if self.incoming.len() >= STAGED_MOST {
                return Err(Refusal::Store);
            }
            let incoming = Incoming {
                tip: part.tip,
                next: 0,
                staged: Staged::default(),
            };
            self.incoming.insert(part.zone.clone(), incoming);
        }
        let incoming = self.incoming.get_mut(&part.zone);
        let fits = |it: &&mut Incoming| it.tip == part.tip && it.next == part.number;
        let incoming = incoming.filter(fits).ok_or(Refusal::WrongHash)?;
        incoming.next += 1;
        let taken = incoming.staged.take(&part.payload);
        taken.map_err(|error| {
            tracing::warn!(zone = %part.zone, %error, "a part of a version is refused");
            self.incoming.remove(&part.zone);
            Refusal::WrongHash
        })
    }

    /// The parts of a version that came.
    fn staged(&mut self, zone: &Name, tip: &Tip) -> Staged {
        let incoming = self.incoming.remove(zone);
        let incoming = incoming.filter(|it| it.tip == *tip);
        incoming.map_or_else(Staged::default, |it| it.staged)
    }

    /// Applies a step to the newest version of its zone.
    fn open_step(&mut self, step: &Step, group: &Group) -> Result<Opened, Refusal> {
        let staged = self.staged(&step.zone, &step.tip);
        let in_group = group.opened.iter().rev().map(Opened::version);
        let newest = in_group
            .into_iter()
            .find(|version| *version.contents.apex() == step.zone)
            .or_else(|| self.zones.get(&step.zone).and_then(OpenZone::newest));
        let tip = journal_tip(&step.tip);
        let payload = (staged, &*step.payload);
        let opened = Journal::open_step(&step.zone, newest, &tip, payload, self.limits);
        opened.map_err(|error| self.refuse(&step.zone, error))
    }

    /// Says why a step or snapshot is refused.
    fn refuse(&self, zone: &Name, error: OpenStepError) -> Refusal {
        tracing::warn!(%zone, %error, "a version of another replica is refused");
        match error {
            // Behind an order that the store refused nothing follows.
            OpenStepError::Unfit if self.is_refusing => Refusal::Store,
            OpenStepError::Unfit | OpenStepError::Payload(_) | OpenStepError::WrongHash => {
                Refusal::WrongHash
            }
        }
    }

    /// Drops what follows a version.
    fn truncate(&mut self, apex: &Name, tip: &Tip) -> Result<Result<(), Refusal>, DiskError> {
        let zone = self.zones.entry(apex.clone()).or_default();
        if !zone.has(tip) {
            return Ok(Err(Refusal::WrongHash));
        }
        match self.journal.truncate(apex, tip.seq) {
            Ok(()) => {
                zone.later
                    .retain(|version| version.version().seq <= tip.seq);
                Ok(Ok(()))
            }
            Err(error) => refusal(error).map(Err),
        }
    }

    /// Takes a snapshot in place of a zone.
    fn replace(&mut self, snapshot: &Snapshot) -> Result<Result<(), Refusal>, DiskError> {
        let staged = self.staged(&snapshot.zone, &snapshot.tip);
        let tip = journal_tip(&snapshot.tip);
        let payload = (staged, &*snapshot.payload);
        let opened = Journal::open_snapshot(&snapshot.zone, &tip, payload, self.limits);
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return Ok(Err(self.refuse(&snapshot.zone, error))),
        };
        match self.journal.commit_opened(vec![opened], None) {
            Ok(journaled) => {
                let zone = OpenZone {
                    announced: None,
                    later: journaled.into(),
                };
                self.zones.insert(snapshot.zone.clone(), zone);
                Ok(Ok(()))
            }
            Err(error) => refusal(error).map(Err),
        }
    }

    /// Marks a version as announced, without a sync, and gives it with all before it that were not, oldest first.
    pub fn show(&mut self, apex: &Name, tip: &Tip) -> Vec<Journaled> {
        let Some(zone) = self.zones.get_mut(apex).filter(|zone| zone.has(tip)) else {
            return Vec::new();
        };
        let mut shown = Vec::new();
        let is_shown = |it: &Journaled| it.version().seq <= tip.seq;
        while zone.later.front().is_some_and(is_shown) {
            shown.extend(zone.later.pop_front());
        }
        if let Some(last) = shown.last() {
            zone.announced = Some(last.version().clone());
            if let Err(error) = self.journal.announce(last.version()) {
                // It is announced again after a restart.
                tracing::warn!(zone = %apex, %error, "the mark of the announced version is not written");
            }
        }
        shown
    }

    /// Reads the journal for a follower, or continues with what it gets in parts. `None` when nothing can be sent to it: its
    /// link is closed.
    pub fn fetch(&mut self, fetch: &Fetch) -> Option<Fetched> {
        let outgoing = self.outgoing.remove(&(fetch.link, fetch.zone.clone()));
        let outgoing = outgoing.filter(|it| fetch.parts > 0 && it.sent == fetch.parts);
        if let Some(outgoing) = outgoing {
            return Some(self.send(outgoing, fetch));
        }
        let known: Vec<_> = fetch.known.iter().map(journal_tip).collect();
        let sending = self.journal.sending(&fetch.zone, &known, fetch.max_bytes);
        let failed = |error: ReadError| {
            tracing::warn!(zone = %fetch.zone, %error, "the journal cannot be read for a follower");
        };
        let zone = fetch.zone.clone();
        match sending.map_err(failed).ok()?? {
            Sending::Snapshot(parcel) => {
                let outgoing = Outgoing {
                    zone,
                    from: None,
                    parcel: *parcel,
                    sent: 0,
                };
                Some(self.send(outgoing, fetch))
            }
            Sending::Steps { from, mut steps } => {
                let from = tip_of(&from);
                if steps.first().is_none_or(Parcel::is_inline) {
                    let steps = steps.iter_mut().map(|it| step_of(&zone, it)).collect();
                    return Some(Fetched::Steps { from, steps });
                }
                let parcel = steps.swap_remove(0);
                let outgoing = Outgoing {
                    zone,
                    from: Some(from),
                    parcel,
                    sent: 0,
                };
                Some(self.send(outgoing, fetch))
            }
        }
    }

    /// The next parts of what a follower gets, or the step or snapshot after them.
    fn send(&mut self, mut outgoing: Outgoing, fetch: &Fetch) -> Fetched {
        let mut parts = Vec::new();
        let mut room = fetch.max_bytes.max(1);
        let (zone, tip) = (outgoing.zone.clone(), tip_of(outgoing.parcel.tip()));
        let last = loop {
            if room == 0 {
                break None;
            }
            match outgoing.parcel.next_portion() {
                Portion::Part(payload) => {
                    room = room.saturating_sub(payload.len());
                    parts.push(Part {
                        zone: zone.clone(),
                        tip,
                        number: outgoing.sent,
                        payload: payload.into(),
                    });
                    outgoing.sent += 1;
                }
                Portion::Last(payload) => break Some(payload),
            }
        };
        match last {
            Some(payload) if parts.is_empty() => match outgoing.from {
                Some(from) => {
                    let previous = *outgoing.parcel.previous().as_octets();
                    let steps = vec![Step {
                        zone,
                        tip,
                        previous,
                        payload: payload.into(),
                    }];
                    Fetched::Steps { from, steps }
                }
                None => Fetched::Snapshot(Snapshot {
                    zone,
                    tip,
                    payload: payload.into(),
                }),
            },
            Some(_) | None => {
                self.outgoing
                    .insert((fetch.link, outgoing.zone.clone()), outgoing);
                Fetched::Parts(parts)
            }
        }
    }

    /// A link is closed: what was being sent on it is forgotten.
    pub fn forget(&mut self, link: LinkId) {
        self.outgoing.retain(|(of, _), _| *of != link);
    }

    /// Whether the store refuses orders.
    #[must_use]
    pub const fn is_refusing(&self) -> bool {
        self.is_refusing
    }

    /// Tries a small write, and says whether it is durable.
    ///
    /// # Errors
    /// [`DiskError::Unknown`] when nothing is known of the disk.
    pub fn try_again(&mut self) -> Result<bool, DiskError> {
        let octets = self.kept.encode();
        match self.journal.commit_opened(Vec::new(), Some(&octets)) {
            Ok(_) => {
                self.is_refusing = false;
                Ok(true)
            }
            Err(error) => refusal(error).map(|_| false),
        }
    }
}

/// The step of a parcel without parts.
pub(crate) fn step_of(zone: &Name, parcel: &mut Parcel) -> Step {
    let (Portion::Last(payload) | Portion::Part(payload)) = parcel.next_portion();
    Step {
        zone: zone.clone(),
        tip: tip_of(parcel.tip()),
        previous: *parcel.previous().as_octets(),
        payload: payload.into(),
    }
}

/// What an order is answered that nothing is left of.
fn refusal(error: ReplicateError) -> Result<Refusal, DiskError> {
    match error {
        ReplicateError::Refused(error) => {
            tracing::warn!(%error, "the journal takes no versions");
            Ok(Refusal::Store)
        }
        ReplicateError::NoVersion { .. } => Ok(Refusal::WrongHash),
        ReplicateError::Unknown(_) => Err(DiskError::Unknown(error)),
    }
}
