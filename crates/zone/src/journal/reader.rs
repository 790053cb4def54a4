//! Reads the history while the journal continues to write: for log, show, diff and blame.

use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, RwLock};

use dns::{Name, Serial};
use ops::in_parallel;

use crate::journal::archive::{self, Archived};
use crate::journal::codec::{StreamError, Streamed};
use crate::journal::head::Head;
use crate::journal::index::Finder;
use crate::journal::load::{self, State};
use crate::journal::partial_step::PartialStep;
use crate::journal::segment::Segments;
use crate::journal::segment_opened::Remote;
use crate::journal::serial_floor::Losses;
use crate::journal::serial_search::{KnownTurns, SerialPlace};
use crate::journal::store::{Entries, StoreError};
use crate::journal::topic::Topic;
use crate::journal::{EarlyDrops, Stored, Zones, large_steps, partial_step, step};
use crate::{Contents, Step, Version};

/// Going back this many steps from a version in memory costs less than reading the zone's base.
const NEAR_STEPS: u64 = 2000;
/// From this many steps on, two threads read them.
const MANY_STEPS: u64 = 100;
const UNFIT: StreamError =
    StreamError::Damaged("a step of the archive does not fit the version after it");
/// The number of times that a read is tried again when the history changed during it.
const TRIES: usize = 3;

/// The reason why a part of the history cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The store does not have this zone.
    #[error("the store has no zone {0}")]
    NoZone(Name),
    /// The version is no longer kept, or does not exist yet.
    #[error("zone {apex} has versions {oldest} to {newest} in its history, not {seq}")]
    NoVersion {
        /// The zone.
        apex: Name,
        /// The requested version.
        seq: u64,
        /// The oldest kept version.
        oldest: u64,
        /// The newest version.
        newest: u64,
    },
    /// The version is damaged in the store.
    #[error("version {seq} of zone {apex} cannot be read: {what}")]
    Damaged {
        /// The zone.
        apex: Name,
        /// The requested version.
        seq: u64,
        /// The damage.
        what: String,
    },
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Records of later versions were dropped.
    #[error(
        "version {seq} of zone {apex} cannot be built: the records of versions {first} to {last} were dropped, because one namespace had too many versions"
    )]
    Stripped {
        /// The zone.
        apex: Name,
        /// The requested version.
        seq: u64,
        /// The first version without records.
        first: u64,
        /// The last version without records.
        last: u64,
    },
}

/// A zone in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredZone {
    /// The zone's name, in lower case.
    pub apex: Name,
    /// The serial of the newest version.
    pub serial: Serial,
    /// The number of the newest version.
    pub newest: u64,
    /// The number of the oldest kept step.
    pub oldest: u64,
    /// The size of the kept steps and snapshots, without the indexes.
    pub octets: u64,
    /// Versions that were dropped too early.
    pub early: EarlyDrops,
}

/// Reads the history. Cheap to clone; each call sees the versions that were durable when it started.
#[derive(Clone)]
pub struct Reader {
    pub(super) store: Arc<dyn Entries>,
    /// The zones, shared with the journal.
    pub(super) zones: Arc<RwLock<Zones>>,
    pub(super) losses: Losses,
    /// What was read of the parts that are kept elsewhere.
    pub(super) remote: Arc<Remote>,
    pub(super) turns: KnownTurns,
    /// Whether only the database is read.
    pub(super) is_local: bool,
    /// Whether it is a segment that is read.
    pub(super) is_segment: bool,
    /// Whether versions count that are durable and not announced.
    pub(super) is_durable: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reader")
    }
}

impl Reader {
    /// A reader of the database alone: it waits for no archive.
    #[must_use]
    pub fn local(self) -> Self {
        Self {
            is_local: true,
            ..self
        }
    }

    /// The zones in the store, ordered by name.
    #[must_use]
    pub fn zones(&self) -> Vec<StoredZone> {
        let zones = self.zones.read().unwrap_or_else(PoisonError::into_inner);
        let seen = zones
            .values()
            .filter_map(|stored| self.seen(stored.clone()));
        seen.map(|stored| stored.describe()).collect()
    }

    /// A zone in the store, if it has one with this name.
    #[must_use]
    pub fn zone(&self, apex: &Name) -> Option<StoredZone> {
        self.stored(apex).ok().map(|stored| stored.describe())
    }

    /// The zones that lost all versions, and have no version that records this.
    #[must_use]
    pub fn lost(&self) -> Vec<Name> {
        let lost = self.losses.all().into_iter().map(|(apex, _)| apex);
        lost.filter(|apex| self.stored(apex).is_err()).collect()
    }

    /// Which versions of a zone after its newest one may be lost, as long as no version has recorded the loss.
    #[must_use]
    pub fn doubt(&self, apex: &Name) -> Option<String> {
        let newest = self.stored(apex).ok()?.head.serial;
        let (_, _, what) = self.losses.known(apex, Some(newest))?;
        Some(what)
    }

    pub(super) fn stored(&self, apex: &Name) -> Result<Stored, ReadError> {
        let zones = self.zones.read().unwrap_or_else(PoisonError::into_inner);
        let stored = zones.get(apex).cloned();
        let stored = stored.and_then(|stored| self.seen(stored));
        let mut stored = stored.ok_or_else(|| ReadError::NoZone(apex.clone()))?;
        if self.is_local {
            stored.segments = Segments::default();
        }
        Ok(stored)
    }

    /// The zone up to the newest version that counts.
    fn seen(&self, stored: Stored) -> Option<Stored> {
        if self.is_durable {
            Some(stored)
        } else {
            stored.seen()
        }
    }

    /// Reads a step of a zone.
    ///
    /// # Errors
    /// [`ReadError`] when the step does not exist or cannot be read.
    pub fn step(&self, apex: &Name, seq: u64) -> Result<Step, ReadError> {
        self.anywhere(apex, seq, &|reader| reader.step_here(apex, seq))
    }

    fn step_here(&self, apex: &Name, seq: u64) -> Result<Step, ReadError> {
        self.retry(
            seq,
            || self.with_step(apex, seq),
            |stored| read_any_step(&*self.store, stored, seq),
        )
    }

    /// The versions from before the oldest kept step that did not leave with their time, oldest first. Empty for a zone
    /// that is not in the store.
    #[must_use]
    pub fn archived(&self, apex: &Name) -> Vec<Archived> {
        let stored = self.stored(apex);
        stored.map_or_else(|_| Vec::new(), |it| it.archive.iter().cloned().collect())
    }

    /// Reads a version of the zone that `stored` returns. Tries again when it is damaged, because the history may have
    /// changed during the read.
    pub(super) fn retry<T>(
        &self,
        seq: u64,
        stored: impl Fn() -> Result<Stored, ReadError>,
        read: impl Fn(&Stored) -> Result<T, StreamError>,
    ) -> Result<T, ReadError> {
        let mut tries = 0;
        loop {
            let stored = stored()?;
            tries += 1;
            match read(&stored) {
                Ok(value) => return Ok(value),
                Err(StreamError::Damaged(_)) if tries < TRIES => {}
                Err(error) => return Err(unreadable(&stored.apex, seq, error)),
            }
        }
    }

    /// The zone; an error when it has no step to this version.
    fn with_step(&self, apex: &Name, seq: u64) -> Result<Stored, ReadError> {
        self.kept(apex, seq, |first| first)
    }

    /// The zone; an error when the contents of this version cannot be built.
    pub(super) fn with_contents(&self, apex: &Name, seq: u64) -> Result<Stored, ReadError> {
        self.kept(apex, seq, |first| first.saturating_sub(1).max(1))
    }

    fn kept(&self, apex: &Name, seq: u64, lowest: fn(u64) -> u64) -> Result<Stored, ReadError> {
        let stored = self.stored(apex)?;
        let is_kept = (lowest(stored.first())..=stored.head.seq).contains(&seq);
        if is_kept || stored.archive.get(seq).is_some() {
            Ok(stored)
        } else {
            Err(ReadError::NoVersion {
                apex: apex.clone(),
                seq,
                oldest: stored.first(),
                newest: stored.head.seq,
            })
        }
    }

    /// Reads what one step does to one name. Of a large step only this part is read; other steps come complete.
    ///
    /// # Errors
    /// [`ReadError`] when the step does not exist or cannot be read.
    pub fn step_of(&self, apex: &Name, seq: u64, name: &Name) -> Result<PartialStep, ReadError> {
        self.anywhere(apex, seq, &|reader| reader.step_of_here(apex, seq, name))
    }

    fn step_of_here(&self, apex: &Name, seq: u64, name: &Name) -> Result<PartialStep, ReadError> {
        let stored = self.stored(apex)?;
        if large_steps::entry(&*self.store, stored.id, seq)?.is_some() && seq >= stored.head.oldest
        {
            let part = partial_step::read_part(&*self.store, &stored.apex, stored.id, seq, name);
            if let Ok(part) = part {
                return Ok(part);
            }
        }
        // Also for a step that is gone or damaged: this returns the right error.
        let step = self.step_here(apex, seq)?;
        let (removed, added) = (step.removed.len(), step.added.len());
        Ok(PartialStep {
            step,
            removed,
            added,
        })
    }

    /// The serial and time of a version whose step is kept. Cheaper than reading the step.
    ///
    /// # Errors
    /// [`ReadError`] when the step does not exist or cannot be read.
    pub fn moment(&self, apex: &Name, seq: u64) -> Result<(Serial, u64), ReadError> {
        let stored = self.stored(apex)?;
        if let Some(moment) = self.described_moment(&stored, seq) {
            return Ok(moment);
        }
        self.anywhere(apex, seq, &|reader| reader.moment_here(apex, seq))
    }

    fn moment_here(&self, apex: &Name, seq: u64) -> Result<(Serial, u64), ReadError> {
        let stored = self.with_step(apex, seq)?;
        if let Some(entry) = stored.archive.get(seq) {
            return Ok((entry.serial, entry.time_ms));
        }
        step::peek_version(&*self.store, stored.id, seq)
            .map(|(serial, time_ms, _)| (serial, time_ms))
            .map_err(|error| unreadable(apex, seq, error))
    }

    /// The number of the version with a serial, if its step is kept: of several, the newest. Costs what [`Self::place_of`] does.
    ///
    /// # Errors
    /// [`ReadError`] when the zone does not exist or cannot be read.
    pub fn seq_of(&self, apex: &Name, serial: Serial) -> Result<Option<u64>, ReadError> {
        if let SerialPlace::At(seq) = self.place_of(apex, serial, u64::MAX)? {
            return Ok(Some(seq));
        }
        let stored = self.stored(apex)?;
        let archived = stored.archive.iter().rfind(|entry| entry.serial == serial);
        Ok(archived.map(|entry| entry.seq))
    }

    /// Calls `call` with the numbers of kept steps in `seqs` that may concern a topic, in descending order, until it
    /// returns false or an error. Costs the steps found, plus the steps from before the indexes.
    ///
    /// # Errors
    /// The error of `call`, or [`ReadError`].
    pub fn find<E: From<ReadError>>(
        &self,
        apex: &Name,
        topic: Topic,
        seqs: RangeInclusive<u64>,
        mut call: impl FnMut(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let stored = self.stored(apex)?;
        let range = (*seqs.start(), *seqs.end());
        // What leaves the database meanwhile is looked for elsewhere: the head moves before entries go.
        let mut last = range.1;
        let mut noting = |seq: u64| {
            last = seq.saturating_sub(1);
            call(seq)
        };
        if !self.find_here(&stored, topic, range, &mut noting)? {
            return Ok(());
        }
        let now = self.stored(apex)?;
        self.find_beyond(&now, topic, (range.0, last), &mut call)
    }

    /// Like [`Self::find`], in this store alone. Returns whether `call` wants more.
    pub(super) fn find_here<E: From<ReadError>>(
        &self,
        stored: &Stored,
        topic: Topic,
        (low, high): (u64, u64),
        call: &mut dyn FnMut(u64) -> Result<bool, E>,
    ) -> Result<bool, E> {
        let Head {
            indexed,
            oldest,
            seq,
            ..
        } = stored.head;
        let (low, high) = (oldest.max(low), seq.min(high));
        let mut finder = Finder::new(topic, stored.id, indexed, low, high);
        while low <= high
            && let Some(seq) = finder.next(&*self.store).map_err(ReadError::from)?
        {
            if !call(seq)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The kept steps of a zone in `seqs`, oldest first: cheaper than reading them one by one. Empty for a zone that
    /// is not in the store.
    ///
    /// # Errors
    /// [`ReadError`] when a step cannot be read.
    pub fn steps(
        &self,
        apex: &Name,
        seqs: RangeInclusive<u64>,
    ) -> Result<Vec<Arc<Step>>, ReadError> {
        let Ok(stored) = self.stored(apex) else {
            return Ok(Vec::new());
        };
        let mut before = self.steps_beyond(&stored, &seqs)?;
        let Head { oldest, seq, .. } = stored.head;
        let seqs = oldest.max(*seqs.start())..=seq.min(*seqs.end());
        let read = |seqs| load::read_steps(&*self.store, &stored, seqs, true);
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
        let all = all.or_else(|_| {
            // The history may have changed during the read. This also finds out which step is damaged.
            let one = |seq| self.step(apex, seq).map(Arc::new);
            seqs.map(one).collect::<Result<Vec<_>, _>>()
        })?;
        before.extend(all);
        Ok(before)
    }

    /// The contents of a kept version. `near` is a later version of the same history, such as the served one: going
    /// back from it costs less when it is near.
    ///
    /// # Errors
    /// [`ReadError`] when the version is not kept or cannot be read.
    pub fn contents_at(
        &self,
        apex: &Name,
        seq: u64,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        if let Some(beyond) = self.contents_beyond(apex, seq)? {
            return beyond.contents_at(apex, seq, None);
        }
        let found = self.contents_here(apex, seq, near);
        match self.contents_beyond(apex, seq)? {
            // It has left the database meanwhile.
            Some(beyond) => beyond.contents_at(apex, seq, None),
            None => found,
        }
    }

    fn contents_here(
        &self,
        apex: &Name,
        seq: u64,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        self.retry(
            seq,
            || self.with_records(apex, seq),
            |stored| {
                let from = seq.max(stored.first().saturating_sub(1));
                let mut contents = match self.contents_beyond(apex, from) {
                    Ok(None) => self.build(from, near, stored)?.contents,
                    Ok(Some(beyond)) => streamed(beyond.contents_at(apex, from, None))?,
                    Err(error) => return streamed(Err(error)),
                };
                for step in archived_steps(&*self.store, stored, seq, u64::MAX)?
                    .iter()
                    .rev()
                {
                    contents = step.revert(&contents).map_err(|_| UNFIT)?;
                }
                Ok(contents)
            },
        )
    }

    /// The zone; an error when the contents of this version cannot be built.
    pub(super) fn with_records(&self, apex: &Name, seq: u64) -> Result<Stored, ReadError> {
        let stored = self.with_contents(apex, seq)?;
        let is_bare = |it: &&Archived| it.seq > seq && !it.has_records;
        let bare = stored.archive.iter().rfind(is_bare);
        match bare.map(|it| (it.first, it.seq)) {
            None => Ok(stored),
            Some((first, last)) => Err(ReadError::Stripped {
                apex: apex.clone(),
                seq,
                first,
                last,
            }),
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
            None => load::read_near(&*self.store, stored, seq)?,
        };
        while state.seq > seq {
            let step = load::read_step(&*self.store, &stored.apex, stored.id, state.seq)?;
            state.retreat(&step)?;
        }
        while state.seq < seq {
            let step = load::read_step(&*self.store, &stored.apex, stored.id, state.seq + 1)?;
            state.advance(&step)?;
        }
        Ok(state)
    }
}

/// What was read from a segment for a version before it.
fn streamed<T>(read: Result<T, ReadError>) -> Streamed<T> {
    read.map_err(|error| match error {
        ReadError::Store(error) => StreamError::Store(error),
        ReadError::NoZone(_)
        | ReadError::NoVersion { .. }
        | ReadError::Damaged { .. }
        | ReadError::Stripped { .. } => {
            StreamError::Damaged("the version after it cannot be read from the archive")
        }
    })
}

/// Reads a step of the history or the archive.
fn read_any_step(store: &dyn Entries, stored: &Stored, seq: u64) -> Streamed<Step> {
    match stored.archive.get(seq) {
        Some(_) => archive::read_step(store, &stored.apex, stored.id, seq),
        None => load::read_step(store, &stored.apex, stored.id, seq),
    }
}

/// Reads the steps of the archive after one version, up to another, oldest first.
pub(super) fn archived_steps(
    store: &dyn Entries,
    stored: &Stored,
    after: u64,
    last: u64,
) -> Streamed<Vec<Arc<Step>>> {
    let entries = stored.archive.iter().rev();
    let later = entries.take_while(|entry| entry.seq > after);
    let among = later.filter(|entry| entry.seq <= last);
    let mut steps = among
        .map(|entry| read_any_step(store, stored, entry.seq).map(Arc::new))
        .collect::<Streamed<Vec<_>>>()?;
    steps.reverse();
    Ok(steps)
}

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
