//! One owner in a snapshot or a first step: found by halving, without reading the rest.
//!
//! Parts of such streams say whether they begin with a record, and records stand in canonical order. What was
//! written before they said so has to be read whole.

use crate::zone::Node;
use crate::zone::journal::codec::{self, SNAPSHOT, Stream, StreamError, Streamed};
use crate::zone::journal::step;
use crate::zone::journal::store::{Octets, Store, StoreError};

/// Whether a stream says where its records begin.
pub(super) fn can_seek(store: &Store, kind: u8, id: u32, seq: u64) -> Result<bool, StoreError> {
    let first = store.get(&codec::part_key(kind, id, seq, 0))?;
    Ok(first.is_some_and(|value| codec::begins_with_record(&value)))
}

/// The node with a sort key, and its tag, in a stream that [`can_seek`]. `before` is that stream
/// where its beginning was read, up to the number of its nodes: of a step only.
pub(super) fn node_at(
    store: &Store,
    (kind, id, seq): (u8, u32, u64),
    before: Option<Stream<'_>>,
    key: &[u8],
) -> Streamed<Option<(Node, u32)>> {
    let parts = Parts {
        store,
        kind,
        id,
        seq,
    };
    let start = parts.last_before(key)?;
    let is_read = before.is_some();
    let mut stream = before.unwrap_or_else(|| Stream::new(store, kind, id, seq));
    if start > 0 {
        stream.go_to(start, parts.sum_of(start - 1)?);
    } else if kind == SNAPSHOT {
        step::take_snapshot_head(&mut stream)?;
    } else {
        if !is_read {
            step::take_head(&mut stream, seq)?;
        }
        stream.count()?;
    }
    while !stream.is_at_end() {
        let node = if kind == SNAPSHOT {
            (step::take_node(&mut stream)?, 0)
        } else {
            step::take_tagged_node(&mut stream)?
        };
        match node.0.key().cmp(key) {
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => return Ok(Some(node)),
            std::cmp::Ordering::Greater => break,
        }
    }
    Ok(None)
}

/// The parts of one stream.
struct Parts<'a> {
    /// The database.
    store: &'a Store,
    /// Steps or snapshots.
    kind: u8,
    /// The zone.
    id: u32,
    /// The version.
    seq: u64,
}

impl Parts<'_> {
    /// A part's value.
    fn value(&self, part: u32) -> Streamed<Octets> {
        let key = codec::part_key(self.kind, self.id, self.seq, part);
        let value = self.store.get(&key)?;
        value.ok_or(StreamError::Damaged("a part is missing"))
    }

    /// The check at a part's end.
    fn sum_of(&self, part: u32) -> Streamed<u32> {
        let value = self.value(part)?;
        let sum = value
            .last_chunk::<4>()
            .ok_or(StreamError::Damaged("a part is too short"))?;
        Ok(u32::from_be_bytes(*sum))
    }

    /// The number of the last part.
    fn last(&self) -> Streamed<u32> {
        let low = codec::part_key(self.kind, self.id, self.seq, 0);
        let high = codec::part_key(self.kind, self.id, self.seq, u32::MAX);
        let found = self.store.range_back(&low, &high, 1)?;
        let part = found
            .first()
            .and_then(|(key, _)| Some(u32::from_be_bytes(*key.last_chunk::<4>()?)));
        part.ok_or(StreamError::Damaged("a part is missing"))
    }

    /// The last part that begins with a node whose key is not above this one; the first part when none does.
    fn last_before(&self, key: &[u8]) -> Streamed<u32> {
        let (mut start, mut low, mut high) = (0, 0, self.last()? + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            // A long record fills parts that begin with none.
            let mut at = middle;
            let mut below = None;
            while at > low && below.is_none() {
                below = self.begins_below(at, key)?;
                at -= u32::from(below.is_none());
            }
            match below {
                None => low = middle,
                Some(true) => (start, low) = (at, middle),
                Some(false) => high = at,
            }
        }
        Ok(start)
    }

    /// Whether a part begins with a node whose key is not above this one; `None` when it begins with none.
    fn begins_below(&self, part: u32, key: &[u8]) -> Streamed<Option<bool>> {
        const MALFORMED: StreamError = StreamError::Damaged("a node is malformed");
        let value = self.value(part)?;
        if !codec::begins_with_record(&value) {
            return Ok(None);
        }
        let mut stream = Stream::new(self.store, self.kind, self.id, self.seq);
        stream.window = 1;
        stream.go_to(part, self.sum_of(part - 1)?);
        if self.kind != SNAPSHOT {
            stream.number()?;
        }
        stream.number()?;
        let len = stream.take(2)?.try_into().map_err(|_| MALFORMED)?;
        let first = stream.take(usize::from(u16::from_be_bytes(len)))?;
        Ok(Some(first <= key))
    }
}
