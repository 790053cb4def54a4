//! Fixed roles: a Lease that is always the same, for installations without an API server.

use std::collections::BTreeSet;

use crate::ceiling::Ceiling;
use crate::chain::ReplicaId;
use crate::knowledge::Knowledge;
use crate::lease::{Answer, Call};
use crate::record::{Record, Seen};

/// The role that the configuration gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FixedRole {
    /// `role primary`: it leads. It is the operator who sees to it that only one does.
    Primary,
    /// `follow ADDRESS`: it follows, and never leads.
    Follow(String),
}

/// What answers in place of the API server, at once and always.
#[derive(Debug)]
pub struct Fixed {
    /// The record that is kept.
    record: Record,
    /// How often it was written.
    version: u64,
    /// Whether it never leads.
    only_follows: bool,
}

impl Fixed {
    /// The record with which a role begins.
    #[must_use]
    pub fn new(role: FixedRole, knowledge: &Knowledge) -> Self {
        let mut record = Record {
            epoch: knowledge.vow.epoch,
            ..Record::default()
        };
        let only_follows = role != FixedRole::Primary;
        match role {
            FixedRole::Primary => {
                let mut ceiling = Ceiling::default();
                knowledge.raise(&mut ceiling);
                record.ceiling = ceiling;
                record.in_sync = BTreeSet::from([knowledge.replica.clone()]);
            }
            FixedRole::Follow(address) => {
                // No replica has this name: the leader's own is not known, and not needed.
                record.holder = Some(ReplicaId::from(""));
                record.address = address;
            }
        }
        Self {
            record,
            version: 0,
            only_follows,
        }
    }

    /// Answers a call.
    pub fn answer(&mut self, call: Call) -> Answer {
        match call {
            Call::Get => Answer::Read(self.seen()),
            Call::Put { record, .. } | Call::Create(record) => {
                self.record = record;
                self.version += 1;
                Answer::Written(self.seen())
            }
        }
    }

    /// The record as an API server would give it.
    fn seen(&self) -> Seen {
        Seen {
            uid: String::new(),
            version: self.version.to_string(),
            record: self.record.clone(),
        }
    }

    /// Whether it never leads.
    #[must_use]
    pub const fn only_follows(&self) -> bool {
        self.only_follows
    }
}
