//! The API server's Lease: compare-and-swap by resource version, deletion, and a store that is restored from a backup.

use std::collections::BTreeMap;

use crate::ceiling::Ceiling;
use crate::chain::Epoch;
use crate::lease::{Answer, Call};
use crate::record::{Record, Seen};

/// The API server.
#[derive(Debug, Default)]
pub(super) struct Api {
    /// The Lease.
    pub(super) lease: Option<Seen>,
    /// The last resource version.
    version: u64,
    /// How often the Lease was created.
    created: u64,
    /// Every Lease that there was.
    pub(super) history: Vec<Seen>,
    /// The highest ceiling that was written in each epoch.
    pub(super) ceilings: BTreeMap<Epoch, Ceiling>,
    /// Writes that were accepted.
    pub(super) writes: u64,
}

impl Api {
    /// Answers a call.
    pub(super) fn answer(&mut self, call: Call, random: &mut fastrand::Rng) -> Answer {
        match call {
            Call::Get => self.lease.clone().map_or(Answer::NotFound, Answer::Read),
            Call::Put { version, record } => match &self.lease {
                None => Answer::NotFound,
                // Without a version a PUT replaces whatever is there.
                Some(lease) if !version.is_empty() && lease.version != version => Answer::Conflict,
                Some(lease) => {
                    let uid = lease.uid.clone();
                    self.write(uid, record, random)
                }
            },
            Call::Create(_) if self.lease.is_some() => Answer::Conflict,
            Call::Create(record) => {
                self.created += 1;
                self.write(format!("uid-{}", self.created), record, random)
            }
        }
    }

    /// Writes the Lease. Other objects use resource versions, too.
    fn write(&mut self, uid: String, record: Record, random: &mut fastrand::Rng) -> Answer {
        self.writes += 1;
        self.version += 1 + random.u64(..4);
        let ceiling = self.ceilings.entry(record.epoch).or_default();
        ceiling.join(&record.ceiling);
        let seen = Seen {
            uid,
            version: self.version.to_string(),
            record,
        };
        self.lease = Some(seen.clone());
        self.history.push(seen.clone());
        Answer::Written(seen)
    }

    /// Deletes the Lease.
    pub(super) fn delete(&mut self) {
        self.lease = None;
    }

    /// Restores the store from a backup: resource versions go back, too, and may come again.
    pub(super) fn restore(&mut self, random: &mut fastrand::Rng) {
        if self.history.is_empty() {
            return;
        }
        let age = 1 + random.usize(..self.history.len());
        let seen = self.history[self.history.len() - age].clone();
        self.version = seen.version.parse().expect("it is a number");
        self.lease = Some(seen);
    }
}
