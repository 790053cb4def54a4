//! What a journal gives another replica: the steps after a version that both have, or a snapshot to begin with.

use std::sync::Arc;

use dns::Name;

use crate::journal::acts;
use crate::journal::codec::{StreamError, unseal};
use crate::journal::corefiles;
use crate::journal::load;
use crate::journal::parcel::{Attached, Parcel};
use crate::journal::reader::{ReadError, Reader, unreadable};
use crate::journal::replica_entries::{Announced, Notes, Tip, noted};
use crate::journal::store::{Entries, StoreError, paged};
use crate::journal::{Journal, Stored, step};

/// The acts that are read at once.
const PAGE: usize = 256;

/// What another replica gets of a zone.
#[derive(Debug)]
pub enum Sending {
    /// The steps after a version that it has, in order; none if it has all.
    Steps {
        /// The version.
        from: Tip,
        /// The steps, without gaps; the later ones may follow in the next answer.
        steps: Vec<Parcel>,
    },
    /// A snapshot at the oldest version that can be checked. The steps after it follow.
    Snapshot(Box<Parcel>),
}

impl Journal {
    /// What a replica gets that has these versions of a zone, the oldest first: the steps after the last of them that is
    /// in the history here, of about `max_bytes`, at least one; otherwise a snapshot. Versions that are not announced are
    /// sent, too. `None` when nothing can be sent: there is no version, or none with a hash.
    ///
    /// # Errors
    /// [`ReadError`] when the history cannot be read.
    pub fn sending(
        &self,
        apex: &Name,
        known: &[Tip],
        max_bytes: usize,
    ) -> Result<Option<Sending>, ReadError> {
        let apex = apex.to_lower();
        let Some(stored) = self.zones().get(&apex).cloned() else {
            return Ok(None);
        };
        let failed = |seq| {
            let apex = apex.clone();
            move |error: StreamError| unreadable(&apex, seq, error)
        };
        for tip in known.iter().rev() {
            if self.continues(&stored, tip).map_err(failed(tip.seq))? {
                let steps = self.steps_after(&stored, tip.seq, max_bytes);
                let (from, steps) = (*tip, steps.map_err(failed(tip.seq + 1))?);
                return Ok(Some(Sending::Steps { from, steps }));
            }
        }
        let oldest = stored.head.oldest;
        let first = self.first_hashed(&stored).map_err(failed(oldest))?;
        let Some(first) = first else {
            return Ok(None);
        };
        let parcel = self.parcel(&stored, first).map_err(failed(first))?;
        let before = match first {
            ..=1 => None,
            2.. => {
                let reader = Reader {
                    is_durable: true,
                    ..self.reader().local()
                };
                Some(reader.contents_at(&apex, first - 1, None)?)
            }
        };
        let acts = self.acts_until(&stored, first)?;
        let parcel = parcel.with_past(before, acts);
        Ok(Some(Sending::Snapshot(Box::new(parcel))))
    }

    /// Whether the steps after a version are in the history, and it is the same version here.
    fn continues(&self, stored: &Stored, tip: &Tip) -> Result<bool, StreamError> {
        let (oldest, newest) = (stored.head.oldest, stored.head.seq);
        if tip.seq == 0 {
            let link = step::peek_link(&self.store, stored.id, oldest)?;
            return Ok(*tip == Tip::NONE && oldest == 1 && link.is_some());
        }
        if tip.seq < oldest || tip.seq > newest {
            return Ok(false);
        }
        let link = step::peek_link(&self.store, stored.id, tip.seq)?;
        let (serial, ..) = step::peek_version(&self.store, stored.id, tip.seq)?;
        let own = stored.tip(Announced {
            seq: tip.seq,
            serial,
            hash: link.map(|link| link.hash),
        });
        // Steps from before there were hashes cannot be checked.
        let is_sendable =
            tip.seq == newest || step::peek_link(&self.store, stored.id, tip.seq + 1)?.is_some();
        Ok(own == *tip && is_sendable)
    }

    /// The steps after a version.
    fn steps_after(
        &self,
        stored: &Stored,
        after: u64,
        max_bytes: usize,
    ) -> Result<Vec<Parcel>, StreamError> {
        let mut steps: Vec<Parcel> = Vec::new();
        let mut octets = 0;
        for seq in after + 1..=stored.head.seq {
            let parcel = self.parcel(stored, seq)?;
            octets += parcel.octets();
            // What comes in parts comes alone.
            if !steps.is_empty() && (octets > max_bytes || !parcel.is_inline()) {
                break;
            }
            let is_alone = !parcel.is_inline();
            steps.push(parcel);
            if is_alone {
                break;
            }
        }
        Ok(steps)
    }

    /// The first version of the history whose hash can be checked.
    fn first_hashed(&self, stored: &Stored) -> Result<Option<u64>, StreamError> {
        for seq in stored.head.oldest..=stored.head.seq {
            if step::peek_link(&self.store, stored.id, seq)?.is_some() {
                return Ok(Some(seq));
            }
        }
        Ok(None)
    }

    /// The step to a version, with what became durable with it.
    fn parcel(&self, stored: &Stored, seq: u64) -> Result<Parcel, StreamError> {
        let step = load::read_step(&self.store, &stored.apex, stored.id, seq)?;
        let notes = Notes::read(&self.store, stored.id, seq)?;
        let (first, count) = notes.acts;
        let mut acts = Vec::new();
        for number in first..first.saturating_add(count) {
            let key = acts::key_of(&stored.apex, number);
            let value = self.store.get(&key)?;
            // The oldest acts go when there are too many.
            acts.extend(
                value
                    .and_then(|value| acts::open(&key, &value))
                    .map(|(_, act)| act),
            );
        }
        let corefile = match &*notes.corefile {
            "" => None,
            digest => corefiles::with_digest(&self.store, digest)?,
        };
        let left_behind = match seq == stored.head.seq {
            true => stored.head.left_behind,
            false => notes.left_behind,
        };
        let attached = Attached {
            acts,
            corefile,
            state: notes.state,
        };
        let epoch = stored.epoch_of(seq);
        Ok(Parcel::of_step(
            epoch,
            Arc::new(step),
            left_behind,
            attached,
        ))
    }

    /// The acts that were noted with a version and before it, as they are stored.
    fn acts_until(&self, stored: &Stored, seq: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut end = u64::MAX;
        for version in noted(&self.store, stored.id, seq + 1, stored.head.seq) {
            let (first, count) = Notes::read(&self.store, stored.id, version?)?.acts;
            if count > 0 {
                end = first;
                break;
            }
        }
        let [low, high] = acts::range_of(&stored.apex);
        let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
        for entry in paged(&self.store, &low, &high, PAGE) {
            let (key, value) = entry?;
            let number = acts::number_of(&key);
            if number >= end {
                break;
            }
            let Some(act) = unseal(&key, &value).filter(|_| acts::open(&key, &value).is_some())
            else {
                // What is before a damaged one joins nothing.
                all.clear();
                continue;
            };
            all.push((number, act.to_vec()));
        }
        Ok(all)
    }
}
