//! The Lease as a step function: who holds it, until when, and which call to the API server is next.
//!
//! - Every write is a compare-and-swap by `resourceVersion`. There is one call at a time.
//! - Only the time at which *this* replica saw the Lease change counts. No time in the Lease is read.
//! - A leader's lease runs from the moment it *sent* the last renewal that succeeded: everybody else sees that renewal later.
//! - The answer of a write may be lost, and the write may still arrive after the next call. Until the Lease has another version,
//!   a replica that such a write adds to the in-sync set counts as a member.
//!
//! Compared with client-go's `leaderelection`: a release writes with the version of the own last write, and not with one that was just
//! read, so it cannot clear a successor's Lease.

use std::collections::BTreeSet;

use crate::ceiling::Ceiling;
use crate::chain::{Epoch, ReplicaId};
use crate::fault::Fault;
use crate::record::{Record, Seen};
use crate::settings::{Boottime, Settings};

/// The number of a call to the API server, with which its answer comes back.
pub type CallId = u64;

/// A call to the API server. The edge makes it once, without retries, with [`Settings::call_timeout`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// GET without `resourceVersion`, which the API server answers from the quorum.
    Get,
    /// PUT with the `resourceVersion` that was read.
    Put {
        /// `metadata.resourceVersion` of the request.
        version: String,
        /// The new content.
        record: Record,
    },
    /// POST.
    Create(Record),
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The Lease, for a GET.
    Read(Seen),
    /// The Lease as written, for a PUT or POST.
    Written(Seen),
    /// 409: another version, or a Lease that exists already.
    Conflict,
    /// 404.
    NotFound,
    /// Anything else. A write may have arrived, or may still arrive.
    Failed,
}

/// What happened to the Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseEvent {
    /// An answer.
    Answered(CallId, Answer),
    /// The watch gave the Lease. It may be older than what is known.
    Watched(Seen),
    /// Time went by.
    Tick,
}

/// What this replica wants of the Lease when it does not hold it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wish {
    /// To know it.
    Observe,
    /// To hold it, with this content.
    Take(Record),
    /// To make it, without a holder.
    Create,
}

/// What a holder wants to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// The content; without a holder it is a release.
    pub record: Record,
    /// Now, and not with the next renewal.
    pub is_urgent: bool,
}

/// Why a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// No renewal succeeded in time.
    Expired,
    /// Another replica took it, or it was written by hand.
    Taken,
    /// It was deleted.
    Deleted,
    /// The Lease has a lower epoch: the API server's store was restored from a backup.
    Restored,
    /// Given up.
    Released,
}

/// What the lease asks of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseAction {
    /// It is held now, in this epoch; the content is what was written.
    Acquired(Record),
    /// It is not held any more.
    Lost(Loss),
    /// A renewal succeeded.
    Renewed,
}

/// The call that is not answered yet.
#[derive(Debug)]
struct Outstanding {
    /// Its number.
    id: CallId,
    /// What it is for.
    purpose: Purpose,
    /// When it was sent.
    sent: Boottime,
}

/// What a call is for.
#[derive(Debug)]
enum Purpose {
    /// To read.
    Get,
    /// To make it, without a holder.
    Create,
    /// To become the holder, by a PUT of this.
    Acquire(Record),
    /// To stay the holder, or to release.
    Renew {
        /// The version that it replaces.
        base: String,
        /// The content.
        record: Record,
    },
}

/// A lease that is held.
#[derive(Debug)]
struct Held {
    /// Its epoch.
    epoch: Epoch,
    /// When the last renewal that succeeded was sent.
    renewed: Boottime,
    /// A conflict says that somebody wrote: until that is read, nothing is committed.
    is_doubtful: bool,
    /// Writes that may still arrive: the version that each replaces, and its in-sync set.
    unresolved: Vec<(String, BTreeSet<ReplicaId>)>,
}

/// The lease of one replica.
#[derive(Debug)]
pub struct Lease {
    /// This replica.
    me: ReplicaId,
    /// Times.
    settings: Settings,
    /// The Lease as last read or written.
    seen: Option<Seen>,
    /// When it was last seen to change.
    observed: Boottime,
    /// When the API server last answered with the Lease.
    read: Option<Boottime>,
    /// Since when it is missing.
    missing: Option<Boottime>,
    /// The lease, when this replica holds it.
    held: Option<Held>,
    /// The call on the way.
    outstanding: Option<Outstanding>,
    /// When the next call is due.
    due: Boottime,
    /// The number of the last call.
    last_call: CallId,
    /// Renewals that failed.
    failures: u64,
    /// A write may have changed the Lease: it is read before the next write of a replica that does not hold it.
    is_unsure: bool,
}

impl Lease {
    /// A lease that nothing is known of.
    #[must_use]
    pub fn new(me: ReplicaId, settings: Settings) -> Self {
        Self {
            me,
            settings,
            seen: None,
            observed: Boottime::ZERO,
            read: None,
            missing: None,
            held: None,
            outstanding: None,
            due: Boottime::ZERO,
            last_call: 0,
            failures: 0,
            is_unsure: false,
        }
    }

    /// The Lease as last read or written.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.seen.as_ref().map(|seen| &seen.record)
    }

    /// The uid of the Lease as last read or written.
    #[must_use]
    pub fn uid(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| &*seen.uid)
    }

    /// When the API server last answered with the Lease.
    #[must_use]
    pub const fn last_read(&self) -> Option<Boottime> {
        self.read
    }

    /// Since when there is no Lease.
    #[must_use]
    pub const fn missing_since(&self) -> Option<Boottime> {
        self.missing
    }

    /// The epoch in which it is held.
    #[must_use]
    pub fn epoch(&self) -> Option<Epoch> {
        self.held.as_ref().map(|held| held.epoch)
    }

    /// Whether a call is not answered yet.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.outstanding.is_some()
    }

    /// Whether a call that would make this replica the holder is not answered yet.
    #[must_use]
    pub fn is_acquiring(&self) -> bool {
        let purpose = self.outstanding.as_ref().map(|it| &it.purpose);
        purpose.is_some_and(|it| matches!(it, Purpose::Acquire(_)))
    }

    /// Calls that failed.
    #[must_use]
    pub const fn failures(&self) -> u64 {
        self.failures
    }

    /// Whether a commit may go ahead: it is held, without doubt, and for longer than the margin.
    #[must_use]
    pub fn is_mine(&self, now: Boottime) -> bool {
        let settings = &self.settings;
        self.held.as_ref().is_some_and(|held| {
            let end = held.renewed + settings.renew_deadline;
            !held.is_doubtful && now + settings.lease_margin < end
        })
    }

    /// Since when another replica may take the Lease: its holder released it, or it did not change for the lease duration. A holder
    /// that finds its own name may take it at once.
    #[must_use]
    pub fn open_since(&self, now: Boottime) -> Option<Boottime> {
        let holder = &self.record()?.holder;
        if holder.is_none() || holder.as_ref() == Some(&self.me) {
            return Some(self.observed);
        }
        let end = self.observed + self.settings.lease_duration;
        (end <= now).then_some(end)
    }

    /// The replicas whose acknowledgement a commit needs: the in-sync set, with those that a write on the way adds.
    #[must_use]
    pub fn required(&self) -> BTreeSet<ReplicaId> {
        let mut required = self
            .record()
            .map_or_else(BTreeSet::new, |record| record.in_sync.clone());
        if self.settings.lacks(Fault::AddedLate) {
            return required;
        }
        if let Some(held) = &self.held {
            required.extend(held.unresolved.iter().flat_map(|it| it.1.iter().cloned()));
        }
        if let Some(Purpose::Renew { record, .. }) = self.outstanding.as_ref().map(|it| &it.purpose)
        {
            required.extend(record.in_sync.iter().cloned());
        }
        required
    }

    /// Gives it up in memory: another replica has a higher epoch.
    pub fn surrender(&mut self) {
        self.held = None;
        self.due = Boottime::ZERO;
    }

    /// Takes an event, and looks at the clock.
    pub fn take(&mut self, event: LeaseEvent, now: Boottime) -> Vec<LeaseAction> {
        let mut actions = Vec::new();
        match event {
            LeaseEvent::Answered(id, answer) => {
                if let Some(call) = self.outstanding.take_if(|call| call.id == id) {
                    self.take_answer(call, answer, now, &mut actions);
                }
            }
            LeaseEvent::Watched(seen) => self.take_watched(seen, now),
            LeaseEvent::Tick => {}
        }
        let is_late = |call: &mut Outstanding| call.sent + self.settings.call_timeout <= now;
        if let Some(call) = self.outstanding.take_if(is_late) {
            self.take_answer(call, Answer::Failed, now, &mut actions);
        }
        let deadline = self.settings.renew_deadline;
        if self
            .held
            .take_if(|it| it.renewed + deadline <= now)
            .is_some()
        {
            actions.push(LeaseAction::Lost(Loss::Expired));
        }
        actions
    }

    /// Takes the Lease from the watch if it is newer than what is known; a holder reads it first.
    fn take_watched(&mut self, seen: Seen, now: Boottime) {
        let number = |seen: &Seen| seen.version.parse::<u64>().unwrap_or_default();
        let known = self.seen.as_ref();
        if known.is_some_and(|it| number(&seen) <= number(it)) {
            return;
        }
        if self.held.is_some() || self.outstanding.is_some() {
            self.due = Boottime::ZERO;
            return;
        }
        self.observe(seen, now);
    }

    /// Takes the Lease as the API server has it.
    fn observe(&mut self, seen: Seen, now: Boottime) {
        let is_same = |it: &Seen| (&it.uid, &it.version) == (&seen.uid, &seen.version);
        if !self.seen.as_ref().is_some_and(is_same) {
            self.observed = now;
        }
        self.read = Some(now);
        self.is_unsure = false;
        self.missing = None;
        self.seen = Some(seen);
    }

    /// Takes an answer.
    fn take_answer(
        &mut self,
        call: Outstanding,
        answer: Answer,
        now: Boottime,
        actions: &mut Vec<LeaseAction>,
    ) {
        self.due = now + self.settings.retry_period;
        match answer {
            Answer::Read(seen) => self.take_read(seen, now, actions),
            Answer::Written(seen) => self.take_written(call, seen, now, actions),
            Answer::Conflict => {
                self.due = now;
                self.is_unsure = true;
                if let Some(held) = &mut self.held {
                    held.is_doubtful = true;
                }
            }
            Answer::NotFound => {
                self.seen = None;
                self.is_unsure = false;
                self.read = None;
                self.missing.get_or_insert(now);
                if self.held.take().is_some() {
                    actions.push(LeaseAction::Lost(Loss::Deleted));
                }
            }
            Answer::Failed => {
                self.failures += 1;
                self.is_unsure = true;
                if let (Some(held), Purpose::Renew { base, record }) =
                    (&mut self.held, call.purpose)
                {
                    held.unresolved.push((base, record.in_sync));
                }
            }
        }
    }

    /// Takes the answer of a read: whether a holder still is one.
    fn take_read(&mut self, seen: Seen, now: Boottime, actions: &mut Vec<LeaseAction>) {
        let is_recreated = self.seen.as_ref().is_some_and(|it| it.uid != seen.uid);
        if let Some(held) = &mut self.held {
            let record = &seen.record;
            let loss = if is_recreated {
                Some(Loss::Deleted)
            } else if record.epoch < held.epoch {
                Some(Loss::Restored)
            } else if record.epoch > held.epoch || record.holder.as_ref() != Some(&self.me) {
                Some(Loss::Taken)
            } else {
                None
            };
            held.is_doubtful = false;
            // A write that replaces another version cannot arrive any more.
            held.unresolved.retain(|(base, _)| *base == seen.version);
            if let Some(loss) = loss {
                self.held = None;
                actions.push(LeaseAction::Lost(loss));
            } else {
                self.due = now;
            }
        }
        self.observe(seen, now);
    }

    /// Takes the answer of a write that arrived.
    fn take_written(
        &mut self,
        call: Outstanding,
        seen: Seen,
        now: Boottime,
        actions: &mut Vec<LeaseAction>,
    ) {
        self.observe(seen, now);
        let (renewed, me) = (call.sent, &self.me);
        match call.purpose {
            Purpose::Get | Purpose::Create => {}
            Purpose::Acquire(record) if record.holder.as_ref() == Some(me) => {
                self.held = Some(Held {
                    epoch: record.epoch,
                    renewed,
                    is_doubtful: false,
                    unresolved: Vec::new(),
                });
                actions.push(LeaseAction::Acquired(record));
            }
            Purpose::Acquire(_) => {}
            Purpose::Renew { record, .. } => {
                let Some(held) = &mut self.held else {
                    return;
                };
                if record.holder.is_none() {
                    self.held = None;
                    actions.push(LeaseAction::Lost(Loss::Released));
                    return;
                }
                held.renewed = renewed;
                held.is_doubtful = false;
                held.unresolved.clear();
                actions.push(LeaseAction::Renewed);
            }
        }
    }

    /// The next call, if one is due. `wish` counts while it is not held, `renewal` while it is. Both are made from what [`Self::take`]
    /// left: a content that was made for an older Lease must not replace a newer one.
    pub fn call(
        &mut self,
        wish: Wish,
        renewal: Option<Renewal>,
        now: Boottime,
    ) -> Option<(CallId, Call)> {
        if self.outstanding.is_some() {
            return None;
        }
        let is_due = self.due <= now;
        let version = self.seen.as_ref().map(|seen| seen.version.clone());
        let next = match (&self.held, renewal, version) {
            (Some(held), Some(renewal), Some(base)) if !held.is_doubtful => {
                let failed = !held.unresolved.is_empty();
                (is_due || renewal.is_urgent && !failed).then(|| self.renew(base, renewal.record))
            }
            (Some(_), ..) => is_due.then_some((Call::Get, Purpose::Get)),
            (None, _, version) => match (wish, version) {
                (Wish::Take(record), Some(version)) if !self.is_unsure => {
                    let version = self.swapped(version);
                    let purpose = Purpose::Acquire(record.clone());
                    Some((Call::Put { version, record }, purpose))
                }
                (Wish::Create, None) if self.missing.is_some() && !self.is_unsure => {
                    Some((Call::Create(Record::default()), Purpose::Create))
                }
                (Wish::Observe | Wish::Take(_) | Wish::Create, _) => {
                    is_due.then_some((Call::Get, Purpose::Get))
                }
            },
        };
        let (call, purpose) = next?;
        self.last_call += 1;
        let (id, sent) = (self.last_call, now);
        self.outstanding = Some(Outstanding { id, purpose, sent });
        Some((id, call))
    }

    /// The call that renews.
    fn renew(&self, base: String, record: Record) -> (Call, Purpose) {
        let is_release = record.holder.is_none();
        let version = if is_release && self.settings.lacks(Fault::BlindRelease) {
            String::new()
        } else {
            self.swapped(base.clone())
        };
        let purpose = Purpose::Renew {
            base,
            record: record.clone(),
        };
        (Call::Put { version, record }, purpose)
    }

    /// The version that a write compares with.
    fn swapped(&self, version: String) -> String {
        if self.settings.lacks(Fault::BlindWrite) {
            return String::new();
        }
        version
    }

    /// The ceiling in the Lease as last confirmed.
    #[must_use]
    pub fn ceiling(&self) -> Option<&Ceiling> {
        self.record().map(|record| &record.ceiling)
    }
}

#[cfg(test)]
mod tests;
