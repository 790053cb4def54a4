//! Reading the history while the journal goes on: for log, show, diff and blame.

use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, RwLock};

use dns::{Name, Serial};
use ops::in_parallel;

use crate::journal::codec::StreamError;
use crate::journal::head::Head;
use crate::journal::index::Finder;
use crate::journal::load::{self, State};
use crate::journal::partial_step::PartialStep;
use crate::journal::serial_floor::Losses;
use crate::journal::store::{Store, StoreError};
use crate::journal::topic::Topic;
use crate::journal::{Stored, Zones, large_steps, partial_step, step};
use crate::{Contents, Step, Version};

/// How many steps back from a version at hand cost less than reading the zone's base.
const NEAR_STEPS: u64 = 2000;
/// So many steps are read by two threads.
const MANY_STEPS: u64 = 100;
/// How often a read is tried again when the history moved under it.
pub(super) const TRIES: usize = 3;

/// Why something of the history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store has no such zone.
    #[error("the store has no zone {0}")]
    NoZone(Name),
    /// The version is not kept, or not there yet.
    #[error("zone {apex} has versions {oldest} to {newest} in its history, not {seq}")]
    NoVersion {
        /// The zone.
        apex: Name,
        /// The version asked for.
        seq: u64,
        /// The oldest that is kept.
        oldest: u64,
        /// The newest.
        newest: u64,
    },
    /// What is stored is damaged.
    #[error("version {seq} of zone {apex} cannot be read: {what}")]
    Damaged {
        /// The zone.
        apex: Name,
        /// The version asked for.
        seq: u64,
        /// What is wrong.
        what: String,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A zone as the store knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredZone {
    /// Its name, in lower case.
    pub apex: Name,
    /// The serial of the newest version.
    pub serial: Serial,
    /// The number of the newest version.
    pub newest: u64,
    /// The number of the oldest step that is kept.
    pub oldest: u64,
    /// The octets that are kept: steps and snapshots, the indexes aside.
    pub octets: u64,
}

/// Reads the history. Cheap to clone; each call sees what was durable when it was made.
#[derive(Clone)]
pub struct Reader {
    pub(super) store: Store,
    /// The zones' heads, as the journal keeps them.
    pub(super) zones: Arc<RwLock<Zones>>,
    pub(super) losses: Losses,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Reader {
    /// The zones in the store, by name.
    #[must_use]
    pub fn zones(&self) -> Vec<StoredZone> {
        let zones = self.zones.read().unwrap_or_else(PoisonError::into_inner);
        zones.values().map(Stored::describe).collect()
    }

    /// A zone in the store.
    #[must_use]
    pub fn zone(&self, apex: &Name) -> Option<StoredZone> {
        self.stored(apex).ok().map(|stored| stored.describe())
    }

    /// The zones of which all is lost and no version tells.
    #[must_use]
    pub fn lost(&self) -> Vec<Name> {
        let lost = self.losses.all().into_iter().map(|(apex, _)| apex);
        lost.filter(|apex| self.stored(apex).is_err()).collect()
    }

    /// What the journal knows of a zone.
    pub(super) fn stored(&self, apex: &Name) -> Result<Stored, ReadError> {
        let zones = self.zones.read().unwrap_or_else(PoisonError::into_inner);
        zones
            .get(apex)
            .cloned()
            .ok_or_else(|| ReadError::NoZone(apex.clone()))
    }

    /// One step of a zone.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such step, or it cannot be read.
    pub fn step(&self, apex: &Name, seq: u64) -> Result<Step, ReadError> {
        let mut tries = 0;
        loop {
            let stored = self.stored(apex)?;
            if !(stored.head.oldest..=stored.head.seq).contains(&seq) {
                return Err(no_version(apex, seq, &stored));
            }
            tries += 1;
            match load::read_step(&self.store, &stored.apex, stored.id, seq) {
                Ok(step) => return Ok(step),
                Err(StreamError::Damaged(_)) if tries < TRIES => {}
                Err(error) => return Err(unreadable(apex, seq, error)),
            }
        }
    }

    /// What one step does to one name. Of a large step nothing else is read; of others all is given.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such step, or it cannot be read.
    pub fn step_of(&self, apex: &Name, seq: u64, name: &Name) -> Result<PartialStep, ReadError> {
        let stored = self.stored(apex)?;
        if large_steps::entry(&self.store, stored.id, seq)?.is_some() && seq >= stored.head.oldest {
            let part = partial_step::read_part(&self.store, &stored.apex, stored.id, seq, name);
            if let Ok(part) = part {
                return Ok(part);
            }
        }
        // Also what moved or is damaged: this knows which.
        let step = self.step(apex, seq)?;
        let (removed, added) = (step.removed.len(), step.added.len());
        Ok(PartialStep {
            step,
            removed,
            added,
        })
    }

    /// Serial and time of a version whose step is kept: cheaper than the step.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such step, or it cannot be read.
    pub fn moment(&self, apex: &Name, seq: u64) -> Result<(Serial, u64), ReadError> {
        let stored = self.stored(apex)?;
        if !(stored.head.oldest..=stored.head.seq).contains(&seq) {
            return Err(no_version(apex, seq, &stored));
        }
        step::peek_version(&self.store, stored.id, seq)
            .map(|(serial, time_ms, _)| (serial, time_ms))
            .map_err(|error| unreadable(apex, seq, error))
    }

    /// The number of the version with a serial, where its step is kept. Costs a binary search.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such zone, or it cannot be read.
    pub fn seq_of(&self, apex: &Name, serial: Serial) -> Result<Option<u64>, ReadError> {
        let Head { oldest, seq, .. } = self.stored(apex)?.head;
        let serial_of = |seq| Ok::<_, ReadError>(self.moment(apex, seq)?.0);
        let last = last_of((oldest, seq), |seq| {
            Ok::<_, ReadError>(!serial_of(seq)?.is_after(serial))
        })?;
        let is_it = last >= oldest && serial_of(last)? == serial;
        Ok(is_it.then_some(last))
    }

    /// Calls with the numbers of the kept steps among these that may concern a topic, falling, until it gives
    /// false or an error. Costs what is found, not what is kept, but for steps from before the indexes.
    ///
    /// # Errors
    /// What the call gives, or [`ReadError`].
    pub fn find<E: From<ReadError>>(
        &self,
        apex: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        mut call: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let stored = self.stored(apex)?;
        let Head {
            indexed,
            oldest,
            seq,
            ..
        } = stored.head;
        let (low, high) = (oldest.max(*seqs.start()), seq.min(*seqs.end()));
        let mut finder = Finder::new(topic, stored.id, indexed, low, high);
        while low <= high
            && let Some(seq) = finder.next(&self.store).map_err(ReadError::from)?
        {
            if !call(seq)? {
                break;
            }
        }
        Ok(())
    }

    /// The kept steps of a zone whose numbers lie within `seqs`, the oldest first: cheaper than one by one. Of a zone that is
    /// not there, none.
    ///
    /// # Errors
    /// [`ReadError`] when one cannot be read.
    pub fn steps(
        &self,
        apex: &Name,
        seqs: RangeInclusive<u64>,
    ) -> Result<Vec<Arc<Step>>, ReadError> {
        let Ok(stored) = self.stored(apex) else {
            return Ok(Vec::new());
        };
        let Head { oldest, seq, .. } = stored.head;
        let seqs = oldest.max(*seqs.start())..=seq.min(*seqs.end());
        let read = |seqs| load::read_steps(&self.store, &stored, seqs, true);
        let (first, last) = (*seqs.start(), *seqs.end());
        let all = if last.saturating_sub(first) < MANY_STEPS {
            read(seqs.clone())
        } else {
            let middle = first.midpoint(last);
            let (low, high) = in_parallel(|| read(first..=middle), || read(middle + 1..=last));
            low.and_then(|mut steps| {
                steps.extend(high?);
                Ok(steps)
            })
        };
        all.or_else(|_| {
            // The history may have moved meanwhile; and this knows which one is damaged.
            let one = |seq| self.step(apex, seq).map(Arc::new);
            seqs.map(one).collect()
        })
    }

    /// The contents of a version that is kept. `near` is a later version of the same history, such as
    /// the one being served: going back from it is cheaper when it is not far.
    ///
    /// # Errors
    /// [`ReadError`] when the version is not kept, or cannot be read.
    pub fn contents_at(
        &self,
        apex: &Name,
        seq: u64,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        let mut tries = 0;
        loop {
            let stored = self.stored(apex)?;
            let lowest = stored.head.oldest.saturating_sub(1).max(1);
            if !(lowest..=stored.head.seq).contains(&seq) {
                return Err(no_version(apex, seq, &stored));
            }
            tries += 1;
            match self.build(seq, near, &stored) {
                Ok(state) => return Ok(state.contents),
                Err(StreamError::Damaged(_)) if tries < TRIES => {}
                Err(error) => return Err(unreadable(apex, seq, error)),
            }
        }
    }

    /// Builds a version from the nearest contents.
    fn build(
        &self,
        seq: u64,
        near: Option<&Version>,
        stored: &Stored,
    ) -> Result<State, StreamError> {
        let from_base = stored.head.nearest(seq).seq.abs_diff(seq);
        let near = near.filter(|near| {
            near.seq >= seq
                && near.seq <= stored.head.seq
                && near.seq - seq <= from_base.saturating_add(NEAR_STEPS)
        });
        let mut state = match near {
            Some(near) => State {
                seq: near.seq,
                serial: near.serial,
                time_ms: near.time_ms,
                contents: near.contents.clone(),
                link: near.link,
            },
            None => load::read_near(&self.store, stored, seq)?,
        };
        while state.seq > seq {
            let step = load::read_step(&self.store, &stored.apex, stored.id, state.seq)?;
            state.retreat(&step)?;
        }
        while state.seq < seq {
            let step = load::read_step(&self.store, &stored.apex, stored.id, state.seq + 1)?;
            state.advance(&step)?;
        }
        Ok(state)
    }
}

/// The last of some versions for which this holds; the one before the oldest when it holds for none. Costs a
/// binary search: it has to hold for all before one for which it holds, as serials and times rise with numbers.
///
/// # Errors
/// What `holds` gives.
pub fn last_of<E>(
    (oldest, newest): (u64, u64),
    mut holds: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    let (mut low, mut high) = (oldest, newest + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low - 1)
}

/// The error for a version that is not there.
pub(super) fn no_version(apex: &Name, seq: u64, stored: &Stored) -> ReadError {
    ReadError::NoVersion {
        apex: apex.clone(),
        seq,
        oldest: stored.head.oldest,
        newest: stored.head.seq,
    }
}

/// The error for a version that does not read.
pub(super) fn unreadable(apex: &Name, seq: u64, error: StreamError) -> ReadError {
    match error {
        StreamError::Damaged(what) => ReadError::Damaged {
            apex: apex.clone(),
            seq,
            what: what.to_owned(),
        },
        StreamError::Store(error) => error.into(),
    }
}
