//! Entries of the database that are no longer needed.

use crate::journal::codec::{self, MANY, SEGMENT};

/// A range of keys that are no longer needed.
#[derive(Debug)]
pub(super) struct Garbage {
    pub(super) low: Vec<u8>,
    /// The end of the range, exclusive.
    pub(super) high: Vec<u8>,
}

/// All entries of an id except its name and head.
pub(super) fn garbage_of(id: u32) -> [Garbage; 12] {
    MANY.map(|kind| Garbage {
        low: codec::zone_key(kind, id).to_vec(),
        high: codec::zone_key(kind, id + 1).to_vec(),
    })
}

/// The descriptions of an id's segments that begin at most with this version.
pub(super) fn descriptions(id: u32, seq: u64) -> Garbage {
    Garbage {
        low: codec::zone_key(SEGMENT, id).to_vec(),
        high: codec::segment_key(id, seq + 1).to_vec(),
    }
}
