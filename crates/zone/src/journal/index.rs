//! Finds the steps that touch a name, add or remove a record, or come from an object, without reading the whole
//! history.
//!
//! A step's index entries are written in the batch that moves the head, and are removed with the step. They are only
//! hints: two hashes of 8 bytes can be equal, and a failed commit can leave entries behind. So every step found this
//! way is read and checked. A step with more than [`LARGE_RECORDS`] records, such as the first version of a large
//! zone, has a single entry that marks it as large, and later a list ([`large_steps`]). Steps from before
//! [`Head::indexed`](super::head::Head) are read one by one.

use crate::Step;
use crate::journal::codec;
use crate::journal::large_steps::{self, large_key};
use crate::journal::store::{Batch, Entries, StoreError};
use crate::journal::topic::Topic;

/// The most records and causes of a step with index entries of its own.
const LARGE_RECORDS: usize = 1000;
/// The number of index entries read at once.
const PAGE: usize = 64;

/// Whether a step is too large for index entries of its own.
pub(super) fn is_large(step: &Step) -> bool {
    let causes: usize = step.causes.iter().map(Vec::len).sum();
    step.removed.len() + step.added.len() + causes > LARGE_RECORDS
}

/// The keys of a step's index entries, sorted: neighbouring entries are cheaper to write.
pub(super) fn keys_of(step: &Step, id: u32) -> Vec<IndexKey> {
    if is_large(step) {
        return vec![IndexKey::Large(large_key(id, step.seq))];
    }
    let mut keys = Vec::new();
    let mut last: &[u8] = &[];
    for rr in step.removed.iter().chain(&step.added) {
        if rr.owner != last {
            last = rr.owner;
            keys.push(Topic::owner(rr.owner));
        }
        keys.push(Topic::record(rr));
    }
    for cause in step.causes.iter().flatten() {
        keys.push(Topic::object(cause.kind, &cause.key));
    }
    let key = |topic: Topic| IndexKey::Topic(topic.key(id, step.seq));
    let mut keys: Vec<_> = keys.into_iter().map(key).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum IndexKey {
    Topic([u8; 21]),
    Large([u8; 13]),
}

impl std::ops::Deref for IndexKey {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Topic(key) => key,
            Self::Large(key) => key,
        }
    }
}

pub(super) fn put(batch: &mut Batch, step: &Step, id: u32) {
    for key in keys_of(step, id) {
        let value = codec::seal(&key, Vec::new());
        batch.put(&key, value);
    }
}

/// Whether the store has an undamaged index entry with this key.
pub(super) fn has(store: &dyn Entries, key: &[u8]) -> Result<bool, StoreError> {
    let value = store.get(key)?;
    let Some(value) = value else {
        return Ok(false);
    };
    Ok(if key.first() == Some(&codec::LARGE) {
        large_steps::parts_in(key, &value).is_some()
    } else {
        codec::unseal(key, &value) == Some(&[])
    })
}

/// Finds the numbers of steps that may concern a topic, in descending order, a page at a time.
#[derive(Debug)]
pub(super) struct Finder {
    topic: Topic,
    id: u32,
    /// The first step in the indexes.
    indexed: u64,
    low: u64,
    topic_source: Source,
    large_source: Source,
    /// The next step that is not in the indexes; below `low` at the end.
    plain: Option<u64>,
}

/// Numbers of steps from one kind of index entries, in descending order.
#[derive(Debug)]
struct Source {
    /// Numbers read ahead, in ascending order, each with the number of parts of its list.
    page: Vec<(u64, u32)>,
    /// The lowest number read so far; `None` when all were read.
    below: Option<u64>,
}

impl Source {
    fn peek(
        &mut self,
        store: &dyn Entries,
        low: &[u8],
        key: impl Fn(u64) -> Vec<u8>,
    ) -> Result<Option<(u64, u32)>, StoreError> {
        if self.page.is_empty()
            && let Some(below) = self.below
        {
            let found = store.range_back(low, &key(below), PAGE)?;
            let seq_of = |key: &[u8]| Some(u64::from_be_bytes(*key.last_chunk::<8>()?));
            self.page = found
                .iter()
                .rev()
                .filter_map(|(key, value)| {
                    Some((seq_of(key)?, large_steps::parts_in(key, value).unwrap_or(0)))
                })
                .collect();
            let lowest = self.page.first().map(|(seq, _)| *seq);
            self.below = lowest.filter(|_| found.len() == PAGE);
        }
        Ok(self.page.last().copied())
    }
}

impl Finder {
    /// Searches the steps from `low` to `high` for a topic.
    pub(super) fn new(topic: Topic, id: u32, indexed: u64, low: u64, high: u64) -> Self {
        let source = || Source {
            page: Vec::new(),
            below: Some(high.saturating_add(1)),
        };
        Self {
            topic,
            id,
            indexed,
            low,
            topic_source: source(),
            large_source: source(),
            plain: Some(high.min(indexed.saturating_sub(1))),
        }
    }

    pub(super) fn next(&mut self, store: &dyn Entries) -> Result<Option<u64>, StoreError> {
        let (topic, id) = (self.topic, self.id);
        let first = self.low.max(self.indexed);
        loop {
            let by_topic = self
                .topic_source
                .peek(store, &topic.key(id, first), |seq| {
                    topic.key(id, seq).to_vec()
                })?;
            let large = self
                .large_source
                .peek(store, &large_key(id, first), |seq| {
                    large_key(id, seq).to_vec()
                })?;
            match (by_topic, large) {
                (Some((seq, _)), large) if large.is_none_or(|(large, _)| large <= seq) => {
                    self.topic_source.page.pop();
                    if large.is_some_and(|(large, _)| large == seq) {
                        self.large_source.page.pop();
                    }
                    return Ok(Some(seq));
                }
                (_, Some((seq, parts))) => {
                    self.large_source.page.pop();
                    if large_steps::may_concern(store, id, seq, parts, &topic)? {
                        return Ok(Some(seq));
                    }
                }
                (_, None) => break,
            }
        }
        let next = self.plain.filter(|seq| *seq >= self.low && *seq > 0);
        self.plain = next.map(|seq| seq - 1);
        Ok(next)
    }
}
