//! What the Lease says: the holder, its epoch, the ceiling, the in-sync set and the newest serials.

use dns::{Name, Serial};

use std::collections::{BTreeMap, BTreeSet};

use crate::ceiling::Ceiling;
use crate::chain::{Epoch, ReplicaId, Tip};

/// Zones of which the Lease names the newest serial; annotations of an object may take 256 KiB together.
pub const NEWEST_MAX: usize = 256;
/// Bytes of a version's hash in the Lease.
const HASH_START: usize = 4;

/// The begin of a version's hash, to be compared with the version under the same serial elsewhere.
pub type HashStart = [u8; HASH_START];

/// The newest announced version of a zone, as the Lease has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// Its serial.
    pub serial: Serial,
    /// The begin of its hash.
    pub hash: HashStart,
}

impl From<&Tip> for Newest {
    fn from(tip: &Tip) -> Self {
        let [a, b, c, d, ..] = tip.hash;
        Self {
            serial: tip.serial,
            hash: [a, b, c, d],
        }
    }
}

/// The content of the Lease. `spec` has the holder, annotations have the rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Record {
    /// The replica that leads; `None` after a release.
    pub holder: Option<ReplicaId>,
    /// Its epoch, also after a release.
    pub epoch: Epoch,
    /// No serial above it was ever announced, in this epoch or before.
    pub ceiling: Ceiling,
    /// The replicas that hold every announced version.
    pub in_sync: BTreeSet<ReplicaId>,
    /// Where followers connect to.
    pub address: String,
    /// The newest announced version of up to [`NEWEST_MAX`] zones, at the last renewal.
    pub newest: BTreeMap<Name, Newest>,
    /// A replica that was not in sync leads: announced versions may be lost, so each zone gets a new version even with the same content.
    /// The leader clears it when all have one.
    pub must_publish: bool,
}

impl Record {
    /// Whether the Lease was just made and nobody has held it. Whoever makes a Lease does not hold it by that: its POST may arrive late,
    /// after another Lease was made, held and deleted. Only what the other replicas say *after* they could see the new Lease counts.
    #[must_use]
    pub fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

/// The Lease as the API server gave it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `metadata.uid`: another one after the Lease was deleted and made again.
    pub uid: String,
    /// `metadata.resourceVersion`, for compare-and-swap.
    pub version: String,
    /// The rest.
    pub record: Record,
}
