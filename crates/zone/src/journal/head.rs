//! A zone's head: the range of its history, and what contents are built from.

use std::sync::Arc;

use dns::Serial;

use crate::journal::codec::{self, OLDER, SNAPSHOT, STEP, seal, unseal};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::{Hash, LeftBehind};

/// The number of older snapshots' entries read at once.
const PAGE: usize = 64;

/// The start of the replay that gives a zone's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    pub(super) seq: u64,
    /// Whether it is a snapshot; otherwise it is the first step.
    pub(super) snapshot: bool,
    pub(super) octets: u64,
}

impl Base {
    /// The kind of its keys.
    pub(super) const fn kind(self) -> u8 {
        if self.snapshot { SNAPSHOT } else { STEP }
    }
}

/// The entry that says which part of a zone's history counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Head {
    /// The serial of the newest version.
    pub(super) serial: Serial,
    pub(super) seq: u64,
    /// The number of the oldest kept step.
    pub(super) oldest: u64,
    /// The size of the kept steps.
    pub(super) kept_octets: u64,
    pub(super) base: Base,
    /// The size of the steps after the base.
    pub(super) since_base: u64,
    /// The first step in the indexes.
    pub(super) indexed: u64,
    /// The hash of the newest version; `None` for versions stored before there were hashes.
    pub(super) hash: Option<Hash>,
    /// The size of the steps from the newest of the older snapshots to the base.
    pub(super) since_older: u64,
    /// The serial that secondaries may still have from before a reset of the serial. Written at the end of the entry, if
    /// there is one.
    pub(super) left_behind: Option<LeftBehind>,
    /// Kept snapshots that are older than the base, oldest first. Each has an entry of its own, because every commit
    /// writes the head and there may be hundreds of them.
    pub(super) older: Arc<Vec<Base>>,
}

impl Head {
    /// The number of the first step that must stay in the database.
    pub(super) fn first_needed(&self) -> u64 {
        let base = self.base;
        self.oldest.min(if base.snapshot {
            base.seq + 1
        } else {
            base.seq
        })
    }

    /// The base or older snapshot that is nearest to a version.
    pub(super) fn nearest(&self, seq: u64) -> Base {
        let all = self.older.iter().copied().chain([self.base]);
        let nearest = all.min_by_key(|base| base.seq.abs_diff(seq));
        nearest.unwrap_or(self.base)
    }

    /// The size of what is kept, without the indexes.
    pub(super) fn octets(&self) -> u64 {
        let snapshots = self.older.iter().chain([&self.base]);
        self.kept_octets + snapshots.map(|base| base.octets).sum::<u64>()
    }

    pub(super) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(61);
        out.extend_from_slice(&self.serial.encode().to_be_bytes());
        for number in [
            self.seq,
            self.oldest,
            self.kept_octets,
            self.base.seq,
            self.base.octets,
            self.since_base,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(u8::from(self.base.snapshot));
        out.extend_from_slice(&self.indexed.to_be_bytes());
        out.push(u8::from(self.hash.is_some()));
        out.extend_from_slice(self.hash.unwrap_or_default().as_octets());
        out.extend_from_slice(&self.since_older.to_be_bytes());
        if let Some(left) = self.left_behind {
            out.extend_from_slice(&left.serial.encode().to_be_bytes());
            out.extend_from_slice(&left.reset.encode().to_be_bytes());
            out.extend_from_slice(&left.until_ms.to_be_bytes());
        }
        seal(key, out)
    }

    /// Decodes the entry. Older snapshots have entries of their own.
    pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let payload = unseal(key, value)?;
        let (serial, rest) = payload.split_first_chunk::<4>()?;
        let (numbers, snapshot) = rest.split_first_chunk::<48>()?;
        let number = |index: usize| {
            let octets = numbers[index * 8..index * 8 + 8].try_into();
            u64::from_be_bytes(octets.expect("the slice has eight octets"))
        };
        let (snapshot, rest) = snapshot.split_first()?;
        let (indexed, hash, since_older, left_behind) = match rest {
            // From the previous layout.
            [] => (number(0) + 1, None, 0, None),
            rest => {
                let (indexed, rest) = rest.split_first_chunk::<8>()?;
                let (has_hash, rest) = rest.split_first()?;
                let (hash, rest) = rest.split_first_chunk::<32>()?;
                let (since_older, rest) = rest.split_first_chunk::<8>()?;
                (
                    u64::from_be_bytes(*indexed),
                    (*has_hash == 1).then_some(Hash::from_octets(*hash)),
                    u64::from_be_bytes(*since_older),
                    decode_left_behind(rest)?,
                )
            }
        };
        Some(Self {
            serial: Serial::decode(u32::from_be_bytes(*serial)),
            seq: number(0),
            oldest: number(1),
            kept_octets: number(2),
            base: Base {
                seq: number(3),
                snapshot: *snapshot == 1,
                octets: number(4),
            },
            since_base: number(5),
            indexed,
            hash,
            since_older,
            left_behind,
            older: Arc::default(),
        })
    }
}

/// Decodes the end of the entry. The outer `None` is damage.
#[allow(
    clippy::option_option,
    reason = "an absent value and a damaged one differ"
)]
fn decode_left_behind(rest: &[u8]) -> Option<Option<LeftBehind>> {
    if rest.is_empty() {
        return Some(None);
    }
    let (serial, rest) = rest.split_first_chunk::<4>()?;
    let (reset, until_ms) = rest.split_first_chunk::<4>()?;
    Some(Some(LeftBehind {
        serial: Serial::decode(u32::from_be_bytes(*serial)),
        reset: Serial::decode(u32::from_be_bytes(*reset)),
        until_ms: u64::from_be_bytes(until_ms.try_into().ok()?),
    }))
}

/// The key of an older snapshot's entry.
pub(super) fn older_key(id: u32, seq: u64) -> [u8; 13] {
    let mut key = [OLDER; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// Adds the changes of the list of older snapshots to a batch.
pub(super) fn put_older(batch: &mut Batch, id: u32, before: &Arc<Vec<Base>>, now: &Arc<Vec<Base>>) {
    if Arc::ptr_eq(before, now) {
        return;
    }
    for left in before.iter().filter(|base| !now.contains(base)) {
        batch.delete(&older_key(id, left.seq));
    }
    for new in now.iter().filter(|base| !before.contains(base)) {
        let key = older_key(id, new.seq);
        let value = seal(&key, new.octets.to_be_bytes().to_vec());
        batch.put(&key, value);
    }
}

/// Reads the list of a zone's older snapshots.
pub(super) fn read_older(store: &dyn Entries, id: u32) -> Result<Arc<Vec<Base>>, StoreError> {
    let mut older = Vec::new();
    for entry in paged(
        store,
        &older_key(id, 0),
        &codec::zone_key(OLDER, id + 1),
        PAGE,
    ) {
        let (key, value) = entry?;
        let octets = unseal(&key, &value).and_then(|octets| octets.try_into().ok());
        older.extend(codec::seq_of(&key).zip(octets).map(|(seq, octets)| Base {
            seq,
            snapshot: true,
            octets: u64::from_be_bytes(octets),
        }));
    }
    Ok(Arc::new(older))
}

/// The size of a step, for the limits, besides its records: numbers, causes, hashes, keys.
const STEP_OCTETS: u64 = 256;

/// The size of a step as it counts towards the limits.
pub(super) fn counted_octets(octets: usize) -> u64 {
    octets as u64 + STEP_OCTETS
}
