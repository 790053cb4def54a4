//! The index of large steps: for each of them a sorted list of short hashes, written in the background.
//!
//! A step that touches thousands of names would have as many index entries, which would slow down its commit. It has
//! one entry instead that marks it as large. Later, upkeep writes the first four bytes of the hashes that its entries
//! would have had, in order, cut into parts of equal count ([`FILTER`]). Hashes are evenly distributed, so the
//! position of a hash tells which part would hold it, and a search reads one or two parts instead of the whole step.
//! Two short hashes can be equal by chance; then the step is read without need. As long as there is no list, every
//! search reads the step.

use std::sync::Arc;

use crate::Step;
use crate::journal::codec::{self, FILTER};
use crate::journal::store::{Entries, StoreError, paged};
use crate::journal::topic::Topic;

/// The number of short hashes in a part.
const PRINTS: usize = 800;
/// The number of records hashed for each entry that upkeep may write.
const RECORDS_PER_ENTRY: usize = 16;
/// A part costs as much as this many entries, because it is longer.
const ENTRIES_PER_PART: usize = 8;
/// Hashes are collected in heaps by this many of their first bits, and sorted one heap at a time.
const HEAP_BITS: u32 = 10;

/// The key of the entry that marks a step as large.
pub(super) fn large_key(id: u32, seq: u64) -> [u8; 13] {
    let mut key = [codec::LARGE; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// The number of parts in the list of a large step, from its entry; 0 while there is no list.
pub(super) fn parts_in(key: &[u8], value: &[u8]) -> Option<u32> {
    match codec::unseal(key, value)? {
        [] => Some(0),
        parts => Some(u32::from_be_bytes(parts.try_into().ok()?)),
    }
}

/// The number of parts in the list of a large step, if the store has an undamaged entry.
pub(super) fn entry(store: &dyn Entries, id: u32, seq: u64) -> Result<Option<u32>, StoreError> {
    let key = large_key(id, seq);
    let value = store.get(&key)?;
    Ok(value.and_then(|value| parts_in(&key, &value)))
}

/// Whether a large step with this many parts may concern a topic. Damage excludes nothing.
pub(super) fn may_concern(
    store: &dyn Entries,
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
    // There is no list yet, or the hash is between two parts.
    Ok(parts == 0)
}

/// The list of a large step that is being written.
#[derive(Debug)]
pub(super) struct LargeStepJob {
    pub(super) id: u32,
    pub(super) seq: u64,
    /// `None` when the step must be read.
    pub(super) step: Option<Arc<Step>>,
    /// The number of bytes of the removed and of the added records that were hashed.
    at: [usize; 2],
    /// The short hashes so far, in heaps by their first bits.
    heaps: Vec<Vec<u32>>,
    /// The next heap to sort.
    heap: usize,
    /// Sorted hashes that are not written yet.
    sorted: Vec<u32>,
    /// The next part to write; `None` while records are hashed.
    next: Option<u32>,
}

impl LargeStepJob {
    pub(super) fn new(id: u32, seq: u64, step: Option<Arc<Step>>) -> Self {
        Self {
            id,
            seq,
            step,
            at: [0; 2],
            heaps: Vec::new(),
            heap: 0,
            sorted: Vec::new(),
            next: None,
        }
    }

    /// Adds a portion to a batch. Returns whether the list is complete: its last entry makes it valid. The cost of a
    /// portion does not depend on the size of the step.
    pub(super) fn portion(
        &mut self,
        step: &Step,
        entries: usize,
        mut put: impl FnMut(&[u8], Vec<u8>),
    ) -> bool {
        let Some(mut part) = self.next else {
            self.hash(step, entries.saturating_mul(RECORDS_PER_ENTRY));
            return false;
        };
        for _ in 0..entries.div_ceil(ENTRIES_PER_PART) {
            let prints = self.next_part();
            if prints.is_empty() {
                let key = large_key(self.id, self.seq);
                put(&key, codec::seal(&key, part.to_be_bytes().to_vec()));
                return true;
            }
            let key = codec::part_key(FILTER, self.id, self.seq, part);
            let octets = prints
                .iter()
                .flat_map(|print| print.to_be_bytes())
                .collect();
            put(&key, codec::seal(&key, octets));
            part += 1;
        }
        self.next = Some(part);
        false
    }

    /// The next hashes in order, as many as fit into a part; none at the end.
    fn next_part(&mut self) -> Vec<u32> {
        while self.sorted.len() < PRINTS {
            let Some(heap) = self.heaps.get_mut(self.heap) else {
                break;
            };
            let mut heap = std::mem::take(heap);
            heap.sort_unstable();
            heap.dedup();
            self.sorted.append(&mut heap);
            self.heap += 1;
        }
        let rest = self.sorted.split_off(PRINTS.min(self.sorted.len()));
        std::mem::replace(&mut self.sorted, rest)
    }

    /// Hashes some records. The causes, which are fewer, are hashed after the last record.
    fn hash(&mut self, step: &Step, records: usize) {
        let heaps = &mut self.heaps;
        heaps.resize(1 << HEAP_BITS, Vec::new());
        let mut add = |print: u32| heaps[(print >> (u32::BITS - HEAP_BITS)) as usize].push(print);
        let mut room = records;
        for (list, at) in [&step.removed, &step.added].into_iter().zip(&mut self.at) {
            let mut rest = list.iter_behind(*at);
            let mut last: &[u8] = &[];
            while room > 0
                && let Some(rr) = rest.next()
            {
                if rr.owner != last {
                    last = rr.owner;
                    add(Topic::owner(rr.owner).print());
                }
                add(Topic::record(rr).print());
                room -= 1;
            }
            *at = list.as_octets().len() - rest.octets_left();
        }
        if room > 0 {
            for cause in step.causes.iter().flatten() {
                add(Topic::object(cause.kind, &cause.key).print());
            }
            self.next = Some(0);
        }
    }
}

/// Whether the list of a step is stored as it would be written.
pub(super) fn is_stored(store: &dyn Entries, step: &Step, id: u32) -> Result<bool, StoreError> {
    let mut job = LargeStepJob::new(id, step.seq, None);
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

/// The numbers of a zone's large steps that have no list yet.
pub(super) fn without_list(store: &dyn Entries, id: u32) -> Result<Vec<u64>, StoreError> {
    let mut found = Vec::new();
    let end = codec::zone_key(codec::LARGE, id + 1);
    for entry in paged(store, &large_key(id, 0), &end, 64) {
        let (key, value) = entry?;
        if parts_in(&key, &value) == Some(0) {
            found.extend(codec::seq_of(&key));
        }
    }
    Ok(found)
}
