//! What steps and snapshots hold in the simulation, and their hashes.

use dns::{Name, Serial};

use std::sync::Arc;

use crate::chain::{Epoch, Hash, Step, Tip};

/// A version as a journal stores it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stored {
    /// The version.
    pub(super) tip: Tip,
    /// The hash of the version before it.
    pub(super) previous: Hash,
    /// The state of the source from which it was made.
    pub(super) fact: u64,
}

/// Mixes a number into another one.
fn mix(state: u64, value: u64) -> u64 {
    let mut next = (state ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    next ^= next >> 29;
    next.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ (next >> 32)
}

/// The hash of a version.
pub(super) fn hash_of(previous: &Hash, serial: Serial, fact: u64) -> Hash {
    let mut state = mix(u64::from(serial.encode()), fact);
    for chunk in previous.chunks(8) {
        let bytes = chunk.try_into().expect("the hash has 32 bytes");
        state = mix(state, u64::from_le_bytes(bytes));
    }
    let mut hash = [0; 32];
    for (place, chunk) in hash.chunks_mut(8).enumerate() {
        let word = mix(state, place as u64);
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    hash
}

impl Stored {
    /// The version that follows another one.
    pub(super) fn after(previous: &Tip, epoch: Epoch, serial: Serial, fact: u64) -> Self {
        let hash = hash_of(&previous.hash, serial, fact);
        let seq = previous.seq + 1;
        Self {
            tip: Tip {
                epoch,
                seq,
                serial,
                hash,
            },
            previous: previous.hash,
            fact,
        }
    }

    /// Whether its hash is that of its content.
    pub(super) fn is_sound(&self) -> bool {
        self.tip.hash == hash_of(&self.previous, self.tip.serial, self.fact)
    }

    /// As a step.
    pub(super) fn step(&self, zone: &Name) -> Step {
        let mut payload = self.fact.to_le_bytes().to_vec();
        // Sizes differ, so that windows fill.
        payload.resize(8 + usize::from(self.tip.hash[0]) * 8, 0);
        Step {
            zone: zone.clone(),
            tip: self.tip,
            previous: self.previous,
            payload: payload.into(),
        }
    }

    /// What a step holds. A step that lacks parts is not sound.
    pub(super) fn of_step(step: &Step) -> Self {
        let fact = step.payload.first_chunk();
        Self {
            tip: step.tip,
            previous: step.previous,
            fact: fact.map_or(u64::MAX, |fact| u64::from_le_bytes(*fact)),
        }
    }
}

/// Writes versions as the payload of a snapshot.
pub(super) fn encode(versions: &[Stored]) -> Arc<[u8]> {
    let mut bytes = Vec::new();
    for version in versions {
        let Tip {
            epoch,
            seq,
            serial,
            hash,
        } = version.tip;
        bytes.extend(epoch.0.to_le_bytes());
        bytes.extend(seq.to_le_bytes());
        bytes.extend(version.fact.to_le_bytes());
        bytes.extend(u64::from(serial.encode()).to_le_bytes());
        bytes.extend(hash);
        bytes.extend(version.previous);
    }
    bytes.into()
}

/// Reads the payload of a snapshot; `None` if it is none: parts of a step that never came may be before it.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Stored>> {
    let word = |chunk: &[u8], place: usize| {
        let bytes = &chunk[place * 8..place * 8 + 8];
        u64::from_le_bytes(bytes.try_into().expect("it has eight bytes"))
    };
    let read = |chunk: &[u8]| {
        Some(Stored {
            tip: Tip {
                epoch: Epoch(word(chunk, 0)),
                seq: word(chunk, 1),
                serial: Serial::decode(u32::try_from(word(chunk, 3)).ok()?),
                hash: chunk[32..64].try_into().expect("it has 32 bytes"),
            },
            previous: chunk[64..96].try_into().expect("it has 32 bytes"),
            fact: word(chunk, 2),
        })
    };
    let chunks = bytes.chunks_exact(96);
    if !chunks.remainder().is_empty() {
        return None;
    }
    chunks.map(read).collect()
}
