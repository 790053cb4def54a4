//! What replicas say to each other. The edge chooses the bytes; frames of one link arrive in order or not at all.

use dns::Name;

use std::collections::BTreeMap;

use crate::ceiling::Ceiling;
use crate::chain::{Epoch, Part, Snapshot, Step, Tip};
use crate::knowledge::Knowledge;

/// A connection between a follower and a leader. Each side numbers its own, and never uses a number twice.
pub type LinkId = u64;

/// A frame with the epoch of the leader for which it is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The epoch.
    pub epoch: Epoch,
    /// The rest.
    pub body: Body,
}

/// What a frame says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// Follower: the first frame of a link.
    Hello(Hello),
    /// Follower: this version of a zone and all before it are durable.
    Stored(Name, Tip),
    /// Follower: it has the parts of a version up to this number.
    Staged(Name, Tip, u32),
    /// Follower: this version is visible.
    Shown(Name, Tip),
    /// Follower: it is alive, and whether its store takes steps.
    Alive {
        /// Whether the store takes steps.
        is_store_ok: bool,
    },
    /// Follower: it has persisted that it follows this epoch in all zones.
    Aligned,
    /// Follower: the leader's epoch is lower than the one that it knows, which is that of this frame; with the ceiling that it knows.
    Refused(Ceiling),
    /// Leader: drop what follows this version of a zone.
    Continue(Name, Tip),
    /// Leader: a part of a step or snapshot that comes after it.
    Part(Part),
    /// Leader: a step.
    Step(Step),
    /// Leader: a zone in place of what the follower has.
    Snapshot(Snapshot),
    /// Leader: all zones have been continued or replaced.
    Align,
    /// Leader: this version is announced.
    Visible(Name, Tip),
    /// Leader: it is alive.
    Ping,
}

/// The follower, and what it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// The digest of its configuration.
    pub digest: u64,
    /// For each zone the announced version and those after it, all durable. A zone that has to come as a snapshot is left out.
    pub zones: BTreeMap<Name, Vec<Tip>>,
    /// What it knows otherwise.
    pub knowledge: Knowledge,
}

impl Body {
    /// Bytes of its payload, which is what flow control counts.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Part(part) => part.payload.len(),
            Self::Step(step) => step.payload.len(),
            Self::Snapshot(snapshot) => snapshot.payload.len(),
            Self::Hello(_)
            | Self::Stored(..)
            | Self::Staged(..)
            | Self::Shown(..)
            | Self::Alive { .. }
            | Self::Aligned
            | Self::Refused(_)
            | Self::Continue(..)
            | Self::Align
            | Self::Visible(..)
            | Self::Ping => 0,
        }
    }
}
