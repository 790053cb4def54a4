//! What the database holds for replicas: which version of a zone is announced, the epochs of versions, and what became
//! durable with a version.
//!
//! The entry with seq 0 and part 0 is the *state* of a zone: the number of the announced version (8), then for each epoch the
//! number of its first version (8) and the epoch (8). A zone without it was never replicated: all its versions are announced,
//! and their epoch is 0. The others are *notes*: parts of a few bytes for versions that have something to note. A part is a flag,
//! whether it is the last one, and bytes.
//!
//! A state that cannot be read counts as missing: no version is believed to be announced that was not.

use std::sync::Arc;

use dns::Serial;

use crate::journal::codec::{
    self, PART_OCTETS, REPLICA, counted, number, part_key, put_counted, put_number, seal, unseal,
};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::{Hash, LeftBehind};

/// So many epochs of a zone are known, the latest. Versions of earlier ones have the epoch of the oldest one that is known.
const EPOCHS_MOST: usize = 128;
/// The flag of the last part.
const LAST: u8 = 1;
/// The parts that are read at once.
const PAGE: usize = 64;

/// A version of a zone as replicas name it, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tip {
    /// The number of the term of leadership in which it was made; 0 without replicas.
    pub epoch: u64,
    /// Its number in the history of the zone; 0 is no version.
    pub seq: u64,
    /// Its serial.
    pub serial: Serial,
    /// Its hash.
    pub hash: Hash,
}

impl Tip {
    /// Before the first version.
    pub const NONE: Self = Self {
        epoch: 0,
        seq: 0,
        serial: Serial::decode(0),
        hash: Hash::ZERO,
    };
}

/// The announced version of a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    /// Its number; 0 for none.
    pub(super) seq: u64,
    pub(super) serial: Serial,
    pub(super) hash: Option<Hash>,
}

impl Announced {
    /// No version.
    pub(super) const NONE: Self = Self {
        seq: 0,
        serial: Serial::decode(0),
        hash: None,
    };
}

/// Pairs of the number of a version and the epoch from it on, in order.
type Epochs = Vec<(u64, u64)>;

/// What replicas know of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Replicated {
    pub(super) announced: Announced,
    pub(super) epochs: Arc<Epochs>,
}

impl Replicated {
    /// A zone that is replicated from now on, whose version was announced.
    pub(super) fn after(announced: Announced) -> Self {
        Self {
            announced,
            epochs: Arc::default(),
        }
    }

    /// The epoch of a version.
    pub(super) fn epoch_of(&self, seq: u64) -> u64 {
        let mut epochs = self.epochs.iter().rev();
        let found = epochs.find(|(first, _)| *first <= seq);
        found.map_or(0, |(_, epoch)| *epoch)
    }

    /// Notes the epoch of the newest version. Says whether it is another than that of the version before.
    pub(super) fn begin(&mut self, seq: u64, epoch: u64) -> bool {
        let is_new = self.epoch_of(seq) != epoch;
        if is_new {
            let epochs = Arc::make_mut(&mut self.epochs);
            epochs.push((seq, epoch));
            let excess = epochs.len().saturating_sub(EPOCHS_MOST);
            epochs.drain(..excess);
        }
        is_new
    }

    /// Forgets what is after a version.
    pub(super) fn cut(&mut self, seq: u64) {
        Arc::make_mut(&mut self.epochs).retain(|(first, _)| *first <= seq);
    }

    /// Adds the entry to a batch.
    pub(super) fn put(&self, batch: &mut Batch, id: u32) {
        let key = part_key(REPLICA, id, 0, 0);
        let mut out = self.announced.seq.to_be_bytes().to_vec();
        for (first, epoch) in &*self.epochs {
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&epoch.to_be_bytes());
        }
        batch.put(&key, seal(&key, out));
    }

    /// Reads the number of the announced version, and the epochs; `None` for a zone that was never replicated.
    pub(super) fn read(store: &dyn Entries, id: u32) -> Result<Option<(u64, Epochs)>, StoreError> {
        let key = part_key(REPLICA, id, 0, 0);
        let Some(value) = store.get(&key)? else {
            return Ok(None);
        };
        let Some((seq, rest)) = unseal(&key, &value).and_then(|it| it.split_first_chunk::<8>())
        else {
            return Ok(Some((0, Vec::new())));
        };
        let (numbers, _) = rest.as_chunks::<8>();
        let numbers: Vec<u64> = numbers.iter().map(|it| u64::from_be_bytes(*it)).collect();
        let (pairs, _) = numbers.as_chunks::<2>();
        let epochs = pairs.iter().map(|[first, epoch]| (*first, *epoch));
        Ok(Some((u64::from_be_bytes(*seq), epochs.collect())))
    }
}

/// What became durable with a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Notes {
    /// What holds after the version.
    pub(super) left_behind: Option<LeftBehind>,
    /// The number of the first act that was noted with it, and how many there are.
    pub(super) acts: (u64, u64),
    /// The digest of the Corefile that was noted with it; empty for none.
    pub(super) corefile: String,
    /// What the program keeps with the version.
    pub(super) state: Vec<u8>,
}

impl Notes {
    /// Whether there is nothing to note.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the parts to a batch.
    pub(super) fn put(&self, batch: &mut Batch, id: u32, seq: u64) {
        if self.is_empty() {
            return;
        }
        let mut out = Vec::new();
        put_left_behind(&mut out, self.left_behind);
        put_number(&mut out, self.acts.0);
        put_number(&mut out, self.acts.1);
        put_counted(&mut out, self.corefile.as_bytes());
        put_counted(&mut out, &self.state);
        let mut chunks = out.chunks(PART_OCTETS).peekable();
        let mut part = 0;
        while let Some(chunk) = chunks.next() {
            let key = part_key(REPLICA, id, seq, part);
            let flag = if chunks.peek().is_none() { LAST } else { 0 };
            batch.put(&key, seal(&key, [&[flag], chunk].concat()));
            part += 1;
        }
    }

    /// Reads what was noted with a version. What cannot be read is nothing.
    pub(super) fn read(store: &dyn Entries, id: u32, seq: u64) -> Result<Self, StoreError> {
        let (low, high) = notes_range(id, seq, seq);
        let mut octets = Vec::new();
        for entry in paged(store, &low, &high, PAGE) {
            let (key, value) = entry?;
            let Some((flag, chunk)) = unseal(&key, &value).and_then(|it| it.split_first()) else {
                return Ok(Self::default());
            };
            octets.extend_from_slice(chunk);
            if *flag == LAST {
                return Ok(Self::decode(&octets).unwrap_or_default());
            }
        }
        Ok(Self::default())
    }

    fn decode(mut rest: &[u8]) -> Option<Self> {
        let rest = &mut rest;
        let left_behind = take_left_behind(rest)?;
        let acts = (number(rest)?, number(rest)?);
        let corefile = String::from_utf8(counted(rest)?.to_vec()).ok()?;
        let state = counted(rest)?.to_vec();
        Some(Self {
            left_behind,
            acts,
            corefile,
            state,
        })
    }
}

/// The keys of the notes of some versions; the end is exclusive.
pub(super) fn notes_range(id: u32, first: u64, last: u64) -> (Vec<u8>, Vec<u8>) {
    let low = part_key(REPLICA, id, first.max(1), 0).to_vec();
    let high = part_key(REPLICA, id, last.saturating_add(1), 0).to_vec();
    (low, high)
}

/// The numbers of the versions with notes, from one version to another.
pub(super) fn noted(
    store: &dyn Entries,
    id: u32,
    first: u64,
    last: u64,
) -> impl Iterator<Item = Result<u64, StoreError>> {
    let (low, high) = notes_range(id, first, last);
    let all = paged(store, &low, &high, PAGE);
    let begins = |(key, _): &(_, _)| {
        let key: &[u8] = std::ops::Deref::deref(key);
        key.ends_with(&0_u32.to_be_bytes())
    };
    all.filter_map(move |entry| match entry {
        Ok(entry) if !begins(&entry) => None,
        Ok((key, _)) => codec::seq_of(&key).map(Ok),
        Err(error) => Some(Err(error)),
    })
}

/// Appends the serial that secondaries may still have.
pub(super) fn put_left_behind(out: &mut Vec<u8>, left: Option<LeftBehind>) {
    out.push(u8::from(left.is_some()));
    if let Some(left) = left {
        for serial in [left.serial, left.reset] {
            put_number(out, u64::from(serial.encode()));
        }
        put_number(out, left.until_ms);
    }
}

/// Takes it from the start of some bytes. The outer `None` is damage.
#[allow(
    clippy::option_option,
    reason = "an absent value and a damaged one differ"
)]
pub(super) fn take_left_behind(rest: &mut &[u8]) -> Option<Option<LeftBehind>> {
    let (flag, after) = rest.split_first()?;
    *rest = after;
    match flag {
        0 => return Some(None),
        1 => {}
        2.. => return None,
    }
    let mut serial = || u32::try_from(number(rest)?).ok().map(Serial::decode);
    let (serial, reset) = (serial()?, serial()?);
    let until_ms = number(rest)?;
    Some(Some(LeftBehind {
        serial,
        reset,
        until_ms,
    }))
}
