//! Builds versions from the store: the base, then the steps after it, each of them checked.

use std::ops::RangeInclusive;
use std::sync::Arc;

use dns::{Name, Serial};

use crate::journal::codec::{self, STEP, Stream, StreamError, Streamed};
use crate::journal::head::{Base, Head};
use crate::journal::store::{Entries, StoreError};
use crate::journal::{Stored, step};
use crate::version::History;
use crate::{Contents, Link, MemoryLimits, Step, Version};

/// A version that is being built.
#[derive(Debug, Clone)]
pub(super) struct State {
    pub(super) seq: u64,
    pub(super) serial: Serial,
    pub(super) time_ms: u64,
    pub(super) contents: Contents,
    /// Its hashes; `None` when its step has none or was not read.
    pub(super) link: Option<Link>,
}

/// The newest undamaged version, and the fault after it.
pub(super) struct Sound {
    pub(super) version: Version,
    /// The reason why the steps after it cannot be used; `None` when there are none.
    pub(super) fault: Option<String>,
}

pub(super) fn read_base(store: &dyn Entries, stored: &Stored) -> Streamed<State> {
    read_snapshot(store, stored, stored.head.base)
}

/// Reads the base or older snapshot that is nearest to a version.
pub(super) fn read_near(store: &dyn Entries, stored: &Stored, seq: u64) -> Streamed<State> {
    read_snapshot(store, stored, stored.head.nearest(seq))
}

/// Reads a snapshot, or a first step as one.
pub(super) fn read_snapshot(store: &dyn Entries, stored: &Stored, base: Base) -> Streamed<State> {
    let apex = &stored.apex;
    let (read, link) = if base.snapshot {
        let read = step::read_snapshot(store, apex, stored.id, base.seq)?;
        (read, None)
    } else {
        let first = step::read_raw_step(store, stored.id, base.seq)?;
        let link = first.link();
        let read = first.into_contents(apex).ok_or(StreamError::Damaged(
            "the first version's records are inconsistent",
        ))?;
        (read, link)
    };
    let (contents, serial, time_ms) = read;
    Ok(State {
        seq: base.seq,
        serial,
        time_ms,
        contents,
        link,
    })
}

pub(super) fn read_step(store: &dyn Entries, apex: &Name, id: u32, seq: u64) -> Streamed<Step> {
    Ok(step::read_raw_step(store, id, seq)?.into_step(apex))
}

/// Reads consecutive steps. Causes are left out unless they are wanted.
pub(super) fn read_steps(
    store: &dyn Entries,
    stored: &Stored,
    seqs: RangeInclusive<u64>,
    why: bool,
) -> Streamed<Vec<Arc<Step>>> {
    let mut stream = Stream::through(store, STEP, stored.id, &seqs);
    let read = |seq| {
        let raw = step::take_raw_step(&mut stream, seq, why)?;
        stream.go_on()?;
        Ok(Arc::new(raw.into_step(&stored.apex)))
    };
    seqs.map(read).collect()
}

impl State {
    /// Applies the next step. The state is unchanged when the step does not fit.
    pub(super) fn advance(&mut self, step: &Step) -> Streamed<()> {
        const UNFIT: StreamError =
            StreamError::Damaged("a step does not fit the version before it");
        let linked = step
            .from
            .as_ref()
            .is_some_and(|(serial, soa)| *serial == self.serial && soa == self.contents.soa());
        if !linked || step.seq != self.seq + 1 {
            return Err(UNFIT);
        }
        let contents = step.apply(&self.contents).map_err(|_| UNFIT)?;
        if contents.record_count() != step.records {
            return Err(UNFIT);
        }
        *self = Self {
            seq: step.seq,
            serial: step.serial,
            time_ms: step.time_ms,
            contents,
            link: step.link,
        };
        Ok(())
    }

    /// Reverts the newest step. The time of the version before is unknown: 0.
    pub(super) fn retreat(&mut self, step: &Step) -> Streamed<()> {
        const UNFIT: StreamError = StreamError::Damaged("a step does not fit the version after it");
        let (serial, _) = step.from.as_ref().ok_or(UNFIT)?;
        if step.seq != self.seq || step.serial != self.serial {
            return Err(UNFIT);
        }
        let contents = step.revert(&self.contents).map_err(|_| UNFIT)?;
        *self = Self {
            seq: step.seq - 1,
            serial: *serial,
            time_ms: 0,
            contents,
            link: None,
        };
        Ok(())
    }
}

/// Restores the newest undamaged version of a zone. Damage of the base is an error; damage after it ends the replay.
pub(super) fn restore(
    store: &dyn Entries,
    stored: &Stored,
    limits: MemoryLimits,
) -> Streamed<Sound> {
    let Stored { apex, head, .. } = stored;
    let mut state = read_base(store, stored)?;
    let mut history = History::default();
    let mut fault = None;
    while state.seq < head.seq {
        let next = read_step(store, apex, stored.id, state.seq + 1)
            .and_then(|step| state.advance(&step).map(|()| step));
        match next {
            Ok(step) if step.seq >= head.oldest => history.push(Arc::new(step), limits),
            // Needed from the base on, but no longer part of the history.
            Ok(_) => {}
            Err(StreamError::Damaged(what)) => {
                fault = Some(what.to_owned());
                break;
            }
            Err(StreamError::Store(error)) => return Err(error.into()),
        }
    }
    if fault.is_none() && state.serial != head.serial {
        return Err(StreamError::Damaged(
            "the newest version has another serial",
        ));
    }
    // No step was dropped, so there may be room for steps from before the base.
    if history.steps.len() as u64 == state.seq.saturating_sub(head.base.seq) {
        extend_back(store, stored, &mut history, limits);
    }
    let State {
        seq,
        serial,
        time_ms,
        contents,
        link,
    } = state;
    let link = match link {
        // A snapshot has no hashes; its step has them.
        None if seq == head.base.seq && head.base.snapshot => {
            match step::peek_link(store, stored.id, seq) {
                Ok(link) => link,
                // The step has left the history or cannot be read.
                Err(StreamError::Damaged(_)) => None,
                Err(error @ StreamError::Store(_)) => return Err(error),
            }
        }
        link => link,
    };
    let mut version = Version::restore(seq, serial, time_ms, contents, history, link);
    version.left_behind = head.left_behind;
    Ok(Sound { version, fault })
}

/// Adds undamaged steps from before the base to the history.
fn extend_back(store: &dyn Entries, stored: &Stored, history: &mut History, limits: MemoryLimits) {
    let Head { oldest, base, .. } = stored.head;
    let mut after = history.steps.front().and_then(|step| step.from.clone());
    for seq in (oldest..=base.seq).rev() {
        let Ok(step) = read_step(store, &stored.apex, stored.id, seq) else {
            return;
        };
        let linked = after
            .as_ref()
            .is_none_or(|(serial, soa)| *serial == step.serial && *soa == step.soa);
        if !linked || step.from.is_none() {
            return;
        }
        after.clone_from(&step.from);
        if !history.push_front(Arc::new(step), limits) {
            return;
        }
    }
}

/// The number of the first step of a zone in the store.
pub(super) fn first_stored(store: &dyn Entries, id: u32) -> Result<Option<u64>, StoreError> {
    let low = codec::part_key(STEP, id, 0, 0);
    let high = codec::part_key(STEP, id, u64::MAX, u32::MAX);
    let found = store.range(&low, &high, 1)?;
    Ok(found.first().and_then(|(key, _)| codec::seq_of(key)))
}
