//! What a replica keeps beside the zones: the id of its state folder and its vow, in one entry of the journal.
//!
//! Both are lost together. Then the folder gets another id, so a replica that forgot its vow is not the one that made it.

use dns::{Name, Serial};
use replicas::ceiling::Ceiling;
use replicas::chain::Epoch;
use replicas::knowledge::Vow;
use serde::{Deserialize, Serialize};

/// The number of the format.
const FORMAT: u8 = 1;

/// What a replica keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The id of the state folder, drawn when the folder was first used.
    pub folder: String,
    /// What it vowed.
    pub vow: Vow,
}

/// The same as it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    format: u8,
    folder: String,
    epoch: u64,
    branch: u64,
    common: Option<u32>,
    above: Vec<(Vec<u8>, u32)>,
}

impl Kept {
    /// What a new folder begins with.
    #[must_use]
    pub fn new(folder: String) -> Self {
        let vow = Vow::default();
        Self { folder, vow }
    }

    /// As it is stored.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let Vow {
            epoch,
            branch,
            ceiling,
        } = &self.vow;
        let above = ceiling.above.iter();
        let stored = Stored {
            format: FORMAT,
            folder: self.folder.clone(),
            epoch: epoch.0,
            branch: branch.0,
            common: ceiling.common.map(Serial::encode),
            above: above
                .map(|(zone, serial)| (zone.as_wire().to_vec(), serial.encode()))
                .collect(),
        };
        postcard::to_allocvec(&stored).expect("numbers and texts can be encoded")
    }

    /// Reads it; `None` when it is of another format or damaged.
    pub(crate) fn decode(octets: &[u8]) -> Option<Self> {
        let stored: Stored = postcard::from_bytes(octets).ok()?;
        if stored.format != FORMAT {
            return None;
        }
        let above = stored.above.iter().map(|(zone, serial)| {
            let zone = Name::from_wire(zone).ok()?;
            Some((zone, Serial::decode(*serial)))
        });
        let ceiling = Ceiling {
            common: stored.common.map(Serial::decode),
            above: above.collect::<Option<_>>()?,
        };
        Some(Self {
            folder: stored.folder,
            vow: Vow {
                epoch: Epoch(stored.epoch),
                branch: Epoch(stored.branch),
                ceiling,
            },
        })
    }
}
