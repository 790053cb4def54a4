//! What the store knows of a cluster's facts, as values. See [`crate::remember`].

use std::collections::BTreeSet;
use std::time::Instant;

use provenance::FactKey;
use zone::journal::Beside;

/// What the store knows of a cluster's facts.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Whether the store was asked for those of the last run.
    pub(super) is_asked: bool,
    /// The objects whose facts differ from the store's.
    pub(super) unsaved: BTreeSet<FactKey>,
    /// Whether the store has all others, with a header.
    pub(super) is_whole: bool,
    /// Whether the header is to be written again: another Corefile is in use.
    pub(super) is_header_due: bool,
    /// Whether so many objects changed that they were not taken down: all facts are to be written again.
    pub(super) is_overrun: bool,
    /// When facts may be written again.
    pub(super) next: Option<Instant>,
    /// What its facts are compared with.
    pub(super) since: Since,
}

/// What the facts of the store are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Since {
    /// The first lists of a run.
    #[default]
    Start,
    /// The lists of a source that a change of the configuration restarted.
    Restart {
        /// Whether the store had all facts then.
        is_saved: bool,
    },
}

impl Memory {
    /// The memory of a cluster whose source was restarted by a change of the configuration. `is_saved`: the store has all
    /// its facts.
    pub(super) fn restarted(is_saved: bool) -> Self {
        Self {
            since: Since::Restart { is_saved },
            ..Self::default()
        }
    }
}

/// What is written at once.
pub(super) struct Portion {
    pub(super) due: Vec<FactKey>,
    pub(super) entries: Vec<Beside>,
    /// Whether the store has all facts then.
    pub(super) is_last: bool,
}
