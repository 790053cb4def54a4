//! The index of wide steps: for each of them a sorted list of short hashes, made in the background.
//!
//! A step that touches thousands of names would write as many index entries, in the way of its commit. It has
//! one that says so; upkeep later writes the first four octets of the hashes that the entries would have had,
//! in order, cut into parts of equal count ([`FILTER`]). As hashes are even, the part that would hold one is
//! known at once, so a search reads one or two parts for a wide step instead of all of it. Four octets meet by
//! chance once in a while: then the step is read for nothing. Until the list is there the step is read always.

use std::sync::Arc;

use crate::zone::Step;
use crate::zone::journal::codec::{self, FILTER};
use crate::zone::journal::index::Topic;
use crate::zone::journal::store::{Store, StoreError};

/// Short hashes in one part.
const PRINTS: usize = 800;
/// Records that are hashed for each entry that upkeep may write.
const RECORDS_PER_ENTRY: usize = 64;

/// The key that says that a step is wide.
pub(super) fn wide_key(id: u32, seq: u64) -> [u8; 13] {
    let mut key = [codec::WIDE; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// What the entry of a wide step says: how many parts its list has, 0 while there is none.
pub(super) fn parts_in(key: &[u8], value: &[u8]) -> Option<u32> {
    match codec::unseal(key, value)? {
        [] => Some(0),
        parts => Some(u32::from_be_bytes(parts.try_into().ok()?)),
    }
}

/// The entry of a wide step, if the store has it, sound.
pub(super) fn entry(store: &Store, id: u32, seq: u64) -> Result<Option<u32>, StoreError> {
    let key = wide_key(id, seq);
    let value = store.get(&key)?;
    Ok(value.and_then(|value| parts_in(&key, &value)))
}

/// Whether a wide step with so many parts may concern a topic. What is damaged rules nothing out.
pub(super) fn may_concern(
    store: &Store,
    id: u32,
    seq: u64,
    parts: u32,
    topic: &Topic,
) -> Result<bool, StoreError> {
    let print = topic.print();
    let (mut low, mut high) = (0, parts);
    let mut at = u32::try_from((u64::from(print) * u64::from(parts)) >> 32).unwrap_or(0);
    while low < high {
        let key = codec::part_key(FILTER, id, seq, at);
        let value = store.get(&key)?;
        let payload = value.as_ref().and_then(|value| codec::unseal(&key, value));
        let Some((prints, [])) = payload.map(<[u8]>::as_chunks::<4>) else {
            return Ok(true);
        };
        let number = |place: Option<&[u8; 4]>| place.map(|octets| u32::from_be_bytes(*octets));
        let (Some(first), Some(last)) = (number(prints.first()), number(prints.last())) else {
            return Ok(true);
        };
        if print < first {
            high = at;
            at = at.saturating_sub(1);
        } else if print > last {
            low = at + 1;
            at += 1;
        } else {
            return Ok(prints.binary_search(&print.to_be_bytes()).is_ok());
        }
    }
    // No list yet, or the hash lies between two parts.
    Ok(parts == 0)
}

/// The list of a wide step in the making.
#[derive(Debug)]
pub(super) struct WideJob {
    /// The zone's id.
    pub(super) id: u32,
    /// The step's number.
    pub(super) seq: u64,
    /// The step; `None` when it is to be read.
    pub(super) step: Option<Arc<Step>>,
    /// How many records were hashed.
    hashed: usize,
    /// The short hashes so far, sorted at last.
    prints: Vec<u32>,
    /// The next part to be written; `None` while records are hashed.
    next: Option<u32>,
}

impl WideJob {
    /// The list of a step that is to be made.
    pub(super) const fn new(id: u32, seq: u64, step: Option<Arc<Step>>) -> Self {
        Self {
            id,
            seq,
            step,
            hashed: 0,
            prints: Vec::new(),
            next: None,
        }
    }

    /// Does a portion, which is to be written in one batch; says whether the list is complete: the last entry
    /// makes it count.
    pub(super) fn portion(
        &mut self,
        step: &Step,
        entries: usize,
        mut put: impl FnMut(&[u8], Vec<u8>),
    ) -> bool {
        let Some(next) = self.next else {
            self.hash(step, entries.saturating_mul(RECORDS_PER_ENTRY));
            return false;
        };
        let chunks = self.prints.chunks(PRINTS);
        let parts = u32::try_from(chunks.len()).expect("a step has fewer than 2^32 records");
        let skipped = usize::try_from(next).unwrap_or(usize::MAX);
        let mut part = next;
        for chunk in chunks.skip(skipped).take(entries) {
            let key = codec::part_key(FILTER, self.id, self.seq, part);
            let octets = chunk.iter().flat_map(|print| print.to_be_bytes()).collect();
            put(&key, codec::seal(&key, octets));
            part += 1;
        }
        self.next = Some(part);
        if part < parts {
            return false;
        }
        let key = wide_key(self.id, self.seq);
        put(&key, codec::seal(&key, parts.to_be_bytes().to_vec()));
        true
    }

    /// Hashes some records; the causes, which are fewer, with the last.
    fn hash(&mut self, step: &Step, records: usize) {
        let all = step.removed.iter().chain(&step.added);
        let mut last: &[u8] = &[];
        let before = self.hashed;
        for rr in all.skip(before).take(records) {
            if rr.owner != last {
                last = rr.owner;
                self.prints.push(Topic::owner(rr.owner).print());
            }
            self.prints.push(Topic::record(rr).print());
            self.hashed += 1;
        }
        if self.hashed == before || self.hashed == step.removed.len() + step.added.len() {
            for cause in step.causes.iter().flatten() {
                self.prints
                    .push(Topic::object(cause.kind, &cause.key).print());
            }
            self.prints.sort_unstable();
            self.prints.dedup();
            self.next = Some(0);
        }
    }
}

/// Whether the list of a step is stored as it would be written.
pub(super) fn is_stored(store: &Store, step: &Step, id: u32) -> Result<bool, StoreError> {
    let mut job = WideJob::new(id, step.seq, None);
    let mut same = Ok(true);
    let mut complete = false;
    while !complete && matches!(same, Ok(true)) {
        complete = job.portion(step, usize::MAX, |key, value| {
            if let Ok(true) = same {
                let found = store.get(key);
                same = found.map(|found| found.is_some_and(|found| *found == *value));
            }
        });
    }
    same
}

/// The numbers of a zone's wide steps that have no list yet.
pub(super) fn without_list(store: &Store, id: u32) -> Result<Vec<u64>, StoreError> {
    let (mut found, end) = (Vec::new(), codec::zone_key(codec::WIDE, id + 1));
    let mut from = wide_key(id, 0).to_vec();
    loop {
        let page = store.range(&from, &end, 64)?;
        let Some((last, _)) = page.last() else {
            return Ok(found);
        };
        from = last.to_vec();
        from.push(0);
        let due = page
            .iter()
            .filter(|(key, value)| parts_in(key, value) == Some(0));
        found.extend(due.filter_map(|(key, _)| codec::seq_of(key)));
    }
}
