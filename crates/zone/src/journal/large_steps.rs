//! The index of large steps: for each of them a sorted list of short hashes, made in the background.
//!
//! A step that touches thousands of names would write as many index entries, in the way of its commit. It has
//! one that says so; upkeep later writes the first four octets of the hashes that the entries would have had,
//! in order, cut into parts of equal count ([`FILTER`]). As hashes are even, the part that would hold one is
//! known at once, so a search reads one or two parts for a large step instead of all of it. Four octets meet by
//! chance once in a while: then the step is read for nothing. Until the list is there the step is read always.

use std::sync::Arc;

use crate::Step;
use crate::journal::codec::{self, FILTER};
use crate::journal::store::{Store, StoreError};
use crate::journal::topic::Topic;

/// Short hashes in one part.
const PRINTS: usize = 800;
/// Records that are hashed for each entry that upkeep may write.
const RECORDS_PER_ENTRY: usize = 16;
/// Entries that upkeep may write for each part, which is longer than others.
const ENTRIES_PER_PART: usize = 8;
/// Hashes are gathered by so many of their first bits, and sorted a heap at a time.
const HEAP_BITS: u32 = 10;

/// The key that says that a step is large.
pub(super) fn large_key(id: u32, seq: u64) -> [u8; 13] {
    let mut key = [codec::LARGE; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// What the entry of a large step says: how many parts its list has, 0 while there is none.
pub(super) fn parts_in(key: &[u8], value: &[u8]) -> Option<u32> {
    match codec::unseal(key, value)? {
        [] => Some(0),
        parts => Some(u32::from_be_bytes(parts.try_into().ok()?)),
    }
}

/// The entry of a large step, if the store has it, sound.
pub(super) fn entry(store: &Store, id: u32, seq: u64) -> Result<Option<u32>, StoreError> {
    let key = large_key(id, seq);
    let value = store.get(&key)?;
    Ok(value.and_then(|value| parts_in(&key, &value)))
}

/// Whether a large step with so many parts may concern a topic. What is damaged rules nothing out.
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

/// The list of a large step in the making.
#[derive(Debug)]
pub(super) struct LargeStepJob {
    pub(super) id: u32,
    pub(super) seq: u64,
    /// The step; `None` when it is to be read.
    pub(super) step: Option<Arc<Step>>,
    /// How many octets of the removed and of the added records were hashed.
    at: [usize; 2],
    /// The short hashes so far, in heaps by their first bits.
    heaps: Vec<Vec<u32>>,
    /// The next heap to be sorted.
    heap: usize,
    /// Hashes that are sorted and not written yet.
    sorted: Vec<u32>,
    /// The next part to be written; `None` while records are hashed.
    next: Option<u32>,
}

impl LargeStepJob {
    /// The list of a step that is to be made.
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

    /// Does a portion, which is to be written in one batch; says whether the list is complete: the last entry
    /// makes it count. What a portion costs does not depend on how large the step is.
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

    /// The next hashes in order, as many as a part has; none at the end.
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

    /// Hashes some records; the causes, which are fewer, with the last.
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
pub(super) fn is_stored(store: &Store, step: &Step, id: u32) -> Result<bool, StoreError> {
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
pub(super) fn without_list(store: &Store, id: u32) -> Result<Vec<u64>, StoreError> {
    let (mut found, end) = (Vec::new(), codec::zone_key(codec::LARGE, id + 1));
    let mut from = large_key(id, 0).to_vec();
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
