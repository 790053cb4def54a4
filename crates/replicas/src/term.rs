//! A term of leadership: from the acquired Lease over greeting and proof of freshness to commits, and to the release.

use dns::{Name, Serial};

use std::collections::{BTreeMap, BTreeSet};

use crate::ceiling::{Ceiling, RESERVE, RESERVE_MAX, later};
use crate::chain::{Chains, Epoch, ReplicaId, Tip};
use crate::fault::Fault;
use crate::knowledge::Knowledge;
use crate::leader::Leader;
use crate::promotion::newest_of;
use crate::record::{NEWEST_MAX, Record};
use crate::settings::{Boottime, Now, Settings};

/// How far a term is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// The epoch is being written to the own disk.
    Vowing,
    /// The other replicas are asked since then.
    Greeting(Boottime),
    /// Steps of earlier epochs are replicated and announced; the own watch is being proven fresh.
    Proving,
    /// Commits are taken.
    Open,
    /// No commits are taken; the Lease is released when all is announced, or then.
    Releasing(Boottime),
    /// The Lease is given to replicas that know more.
    Yielding(BTreeSet<ReplicaId>),
}

/// The right to make the next version of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permit {
    /// The zone.
    pub zone: Name,
    /// The epoch.
    pub epoch: Epoch,
    /// The version before it.
    pub previous: Tip,
    /// The serial to use.
    pub serial: Serial,
}

/// Why no version can be made now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// This replica does not lead, or its term is not open.
    NotLeading,
    /// The last version of the zone is not announced yet.
    Unannounced,
    /// The ceiling is being raised.
    Ceiling,
    /// The store takes no steps.
    Store,
}

/// A version for which NOTIFY waits.
#[derive(Debug)]
pub struct Notice {
    /// The version.
    pub tip: Tip,
    /// When it was announced.
    pub since: Boottime,
}

/// A term.
#[derive(Debug)]
pub struct Term {
    /// Its epoch.
    pub epoch: Epoch,
    /// How far it is.
    pub phase: Phase,
    /// The followers.
    pub leader: Leader,
    /// What this replica knew before the term.
    pub before: Knowledge,
    /// The first serials of the term are above this.
    pub floor: Ceiling,
    /// The last serial of each zone that a permit named in this term.
    pub permitted: BTreeMap<Name, Serial>,
    /// Whether each zone needs a new version.
    pub must_publish: bool,
    /// Versions for which NOTIFY waits.
    pub notices: BTreeMap<Name, Notice>,
    /// The reserve of serials above what is needed.
    reserve: u32,
    /// Zones that need more serials now.
    needs: BTreeMap<Name, Serial>,
    /// Whether a zone used three quarters of its reserve since the last renewal.
    was_short: bool,
}

impl Term {
    /// A term that begins with the Lease that was written.
    #[must_use]
    pub fn new(record: &Record, before: Knowledge, settings: &Settings, now: Boottime) -> Self {
        Self {
            epoch: record.epoch,
            phase: Phase::Vowing,
            leader: Leader::new(record.epoch, settings.clone(), now),
            before,
            floor: record.ceiling.clone(),
            permitted: BTreeMap::new(),
            must_publish: record.must_publish,
            notices: BTreeMap::new(),
            reserve: RESERVE,
            needs: BTreeMap::new(),
            was_short: false,
        }
    }

    /// Whether followers are served: the other replicas were asked, and nobody knows more.
    #[must_use]
    pub const fn is_replicating(&self) -> bool {
        match self.phase {
            Phase::Proving | Phase::Open | Phase::Releasing(_) => true,
            Phase::Vowing | Phase::Greeting(_) | Phase::Yielding(_) => false,
        }
    }

    /// Whether a version of this epoch was made, so that nobody who knows more is waited for.
    #[must_use]
    pub fn has_made(&self) -> bool {
        !self.permitted.is_empty()
    }

    /// The serial of the next version of a zone.
    #[must_use]
    pub fn next_serial(&self, zone: &Name, newest: &Tip, wall: u32, settings: &Settings) -> Serial {
        let mut after = newest.known_serial();
        if !settings.lacks(Fault::Floor) {
            let used = self.permitted.get(zone).copied();
            after = later(after, used.or_else(|| self.floor.of(zone)));
        }
        let clock = Serial::decode(wall);
        after.map_or(clock, |after| after.next(1).later(clock))
    }

    /// Notes that a zone needs a serial that is not reserved.
    pub fn need(&mut self, zone: &Name, serial: Serial) {
        self.needs.insert(zone.clone(), serial);
    }

    /// Whether each zone has an announced version of this term.
    fn has_published(&self, chains: &Chains) -> bool {
        let epoch = self.epoch;
        chains.values().all(|it| it.announced().epoch == epoch)
    }

    /// What the holder wants to be written, with the ceiling that is in the Lease now.
    pub fn renewal(&mut self, record: &Record, chains: &Chains, now: Now) -> (Record, bool) {
        let mut next = record.clone();
        if let Phase::Yielding(better) = &self.phase {
            next.holder = None;
            next.in_sync = better.clone();
            next.ceiling.join(&self.floor);
            return (next, true);
        }
        if !self.is_replicating() {
            return (next, false);
        }
        let me = self.before.replica.clone();
        let mut members = record.in_sync.clone();
        members.remove(&me);
        next.in_sync = self.leader.in_sync(&members, chains, now.boot);
        next.in_sync.insert(me);
        next.newest = newest_of(chains, NEWEST_MAX);
        self.must_publish &= !self.has_published(chains);
        next.must_publish = self.must_publish;
        let mut is_urgent = next.in_sync != record.in_sync;
        if self.phase == Phase::Open {
            let is_needed = !self.needs.is_empty();
            next.ceiling = self.next_ceiling(record, chains, now);
            self.was_short |= self.is_short(record, chains);
            is_urgent |= is_needed || self.was_short;
        }
        (next, is_urgent)
    }

    /// The release of the Lease.
    #[must_use]
    pub fn release(record: &Record, chains: &Chains) -> Record {
        Record {
            holder: None,
            newest: newest_of(chains, NEWEST_MAX),
            ..record.clone()
        }
    }

    /// Whether a zone has used three quarters of its reserve.
    fn is_short(&self, record: &Record, chains: &Chains) -> bool {
        let newest = |zone: &Name| chains.get(zone).and_then(|it| it.newest().known_serial());
        self.permitted.keys().any(|zone| {
            newest(zone).is_some_and(|it| record.ceiling.is_short(zone, it, self.reserve))
        })
    }

    /// The ceiling to write.
    fn next_ceiling(&self, record: &Record, chains: &Chains, now: Now) -> Ceiling {
        let newest = chains.iter().filter_map(|(zone, chain)| {
            // A zone that made nothing in this term goes on above its floor.
            let serial = later(
                chain.newest().known_serial(),
                self.permitted.get(zone).copied(),
            );
            serial.map(|serial| (zone, serial))
        });
        let needs = self.needs.iter().map(|(zone, serial)| (zone, *serial));
        let clock = Serial::decode(now.wall);
        record
            .ceiling
            .reserved(clock, newest.chain(needs), self.reserve)
    }

    /// A renewal was written: after bursts that needed it early, the next reserve is twice as large.
    pub fn renewed(&mut self, ceiling: &Ceiling) {
        self.reserve = if std::mem::take(&mut self.was_short) {
            (self.reserve * 2).min(RESERVE_MAX)
        } else {
            RESERVE
        };
        self.needs
            .retain(|zone, serial| !ceiling.covers(zone, *serial));
    }
}
