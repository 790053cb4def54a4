//! The outside becomes facts.
//!
//! Two sources, an API server and a folder of manifests, give the same facts through the same
//! functions ([`convert`]). A source sends [`SourceEvent`]s: what changed, whether it can still see
//! its outside, and what is wrong with single objects. Nothing of the Kubernetes client leaves this
//! module.
//!
//! - What a source cannot read it leaves out and reports; it never guesses and never stops for it.
//! - A list that breaks off is never sent. An outside that cannot be seen changes nothing.
//! - Problems are said once, and again only after they changed or went away.

pub mod api_server;
pub mod convert;
mod intern;
mod liveness;
mod managed;
pub mod manifests;
mod objects;
mod problem;
mod stats;
mod wanted;

use std::time::{Instant, SystemTime};

pub use intern::Interner;
pub use problem::{About, Problem};
pub use stats::{ErrorClass, KindStats, SourceStats};
pub use wanted::{ApiLimits, Keep, Wanted};

use self::liveness::Turn;
use crate::facts::{Change, Part};

/// What a source tells the pipeline.
#[derive(Debug, Clone)]
pub enum SourceEvent {
    /// Something changed, or a kind was listed completely.
    Changed {
        /// The change.
        change: Change,
        /// When it arrived here, before it was parsed (the clock's `now`).
        seen: Instant,
        /// When what an EndpointSlice tells happened, where it came by watch and says so.
        triggered: Option<SystemTime>,
    },
    /// The source has not seen its outside for longer than it may; what was sent still stands.
    Stale {
        /// What of its outside.
        part: Part,
        /// Since when nothing is known.
        since: SystemTime,
        /// Why, for people.
        reason: String,
    },
    /// The source sees all of this part of its outside: sent when that is so for the first time, and after `Stale`.
    Fresh(Part),
    /// Something is wrong with an object, a file or a permission.
    Problem(Problem),
}

impl SourceEvent {
    /// What is announced about a part.
    fn of_turn(part: Part, turn: Turn) -> Self {
        match turn {
            Turn::Stale { since, reason } => Self::Stale {
                part,
                since,
                reason,
            },
            Turn::Fresh => Self::Fresh(part),
        }
    }
}
