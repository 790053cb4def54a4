//! Reads owners from the middle of a snapshot or first step: one owner, found by binary search, or all from one on.
//!
//! The parts of such a stream say whether they begin with a record, and records are in canonical order. Streams from
//! before parts said so have to be read from the start.

use crate::Node;
use crate::journal::codec::{self, SNAPSHOT, Stream, StreamError, Streamed};
use crate::journal::step;
use crate::journal::store::{Entries, Octets, StoreError};

/// Whether a stream says where its records begin.
pub(super) fn can_seek(
    store: &dyn Entries,
    kind: u8,
    id: u32,
    seq: u64,
) -> Result<bool, StoreError> {
    let first = store.get(&codec::part_key(kind, id, seq, 0))?;
    Ok(first.is_some_and(|value| codec::begins_with_record(&value)))
}

/// The node with a sort key, and its tag, in a stream that [`can_seek`]. If the stream of a step was read up to the
/// number of its nodes, it is passed as `before`.
pub(super) fn node_at(
    store: &dyn Entries,
    stream: (u8, u32, u64),
    before: Option<Stream<'_>>,
    key: &[u8],
) -> Streamed<Option<(Node, u32)>> {
    let is_before = |node: &(Node, u32)| node.0.key() < key;
    let next =
        nodes_from(store, stream, before, key)?.find(|node| !node.as_ref().is_ok_and(is_before));
    Ok(next.transpose()?.filter(|(node, _)| node.key() == key))
}

/// The nodes of a stream with their tags, in canonical order, from the part that contains a sort key, or from the
/// start if the stream cannot be read from the middle. `before` as for [`node_at`].
pub(super) fn nodes_from<'a>(
    store: &'a dyn Entries,
    (kind, id, seq): (u8, u32, u64),
    before: Option<Stream<'a>>,
    key: &[u8],
) -> Streamed<impl Iterator<Item = Streamed<(Node, u32)>> + use<'a>> {
    let parts = Parts {
        store,
        kind,
        id,
        seq,
    };
    // The apex is the first node.
    let start = if key.is_empty() {
        0
    } else {
        parts.last_before(key)?
    };
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
    let next = move || {
        if stream.is_at_end() {
            return None;
        }
        Some(if kind == SNAPSHOT {
            step::take_node(&mut stream).map(|node| (node, 0))
        } else {
            step::take_tagged_node(&mut stream)
        })
    };
    Ok(std::iter::from_fn(next))
}

/// The sort key of a node near the middle of a stream; `None` when there is none, or the stream cannot be read from
/// the middle.
pub(super) fn middle(
    store: &dyn Entries,
    (kind, id, seq): (u8, u32, u64),
) -> Streamed<Option<Vec<u8>>> {
    let parts = Parts {
        store,
        kind,
        id,
        seq,
    };
    if !can_seek(store, kind, id, seq)? {
        return Ok(None);
    }
    let end = parts.last()? + 1;
    for part in end.div_ceil(2)..end {
        if let Some(key) = parts.first_key(part)? {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

struct Parts<'a> {
    store: &'a dyn Entries,
    kind: u8,
    id: u32,
    seq: u64,
}

impl Parts<'_> {
    fn value(&self, part: u32) -> Streamed<Octets> {
        let key = codec::part_key(self.kind, self.id, self.seq, part);
        let value = self.store.get(&key)?;
        value.ok_or(StreamError::Damaged("a part is missing"))
    }

    /// The checksum at the end of a part.
    fn sum_of(&self, part: u32) -> Streamed<u32> {
        let value = self.value(part)?;
        let sum = value
            .last_chunk::<4>()
            .ok_or(StreamError::Damaged("a part is too short"))?;
        Ok(u32::from_be_bytes(*sum))
    }

    fn last(&self) -> Streamed<u32> {
        let low = codec::part_key(self.kind, self.id, self.seq, 0);
        let high = codec::part_key(self.kind, self.id, self.seq, u32::MAX);
        let found = self.store.range_back(&low, &high, 1)?;
        let part = found
            .first()
            .and_then(|(key, _)| Some(u32::from_be_bytes(*key.last_chunk::<4>()?)));
        part.ok_or(StreamError::Damaged("a part is missing"))
    }

    /// The last part that begins with a node whose key is not above `key`; the first part when there is none.
    fn last_before(&self, key: &[u8]) -> Streamed<u32> {
        let (mut start, mut low, mut high) = (0, 0, self.last()? + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            // A long record fills parts that do not begin with a record.
            let mut at = middle;
            let mut below = None;
            while at > low && below.is_none() {
                below = self.first_key(at)?.map(|first| *first <= *key);
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

    /// The sort key of the node with which a part begins; `None` when it does not begin with a node. Not for the
    /// first part.
    fn first_key(&self, part: u32) -> Streamed<Option<Vec<u8>>> {
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
        Ok(Some(first.to_vec()))
    }
}
