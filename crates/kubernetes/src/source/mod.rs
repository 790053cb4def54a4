//! Turns the outside into facts.
//!
//! Two sources, an API server and a folder of manifests, produce the same facts through the same functions
//! ([`convert`]). A source sends [`SourceEvent`]s: changes, the loss and return of its connection, and problems of
//! single objects. The Kubernetes client is used only in this module.
//!
//! - A source leaves out and reports what it cannot read. It never guesses and never stops.
//! - An incomplete list is never sent. A lost connection changes nothing.
//! - A problem is reported once, and again only after it changed or was solved.

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

use tokio::sync::mpsc;

pub use intern::Interner;
pub use problem::{About, Problem};
pub use stats::{ErrorClass, KindStats, SourceStats};
pub use wanted::{ApiLimits, Keep, Wanted};

use self::liveness::Turn;
use crate::facts::{Change, Part};

/// An event of a source.
#[derive(Debug, Clone)]
pub enum SourceEvent {
    /// An object changed, or a kind was listed completely.
    Changed {
        /// The change.
        change: Change,
        /// The time when it arrived here, before it was parsed (the clock's `now`).
        seen: Instant,
        /// The time when the change behind an EndpointSlice happened, if the slice came by watch and says so.
        triggered: Option<SystemTime>,
    },
    /// The source was disconnected for too long. The facts stay as they are.
    Stale {
        /// The affected part of the cluster.
        part: Part,
        /// The time when the connection was lost.
        since: SystemTime,
        /// The reason, for people.
        reason: String,
    },
    /// The source is connected to this part of the cluster: sent for the first time, and after `Stale`.
    Fresh(Part),
    /// A problem with an object, a file or a permission.
    Problem(Problem),
}

/// The receiver of a source's events is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unheard;

/// Takes the events of one source.
pub trait EventSink: Clone + Send + Sync + 'static {
    /// Hands an event over; waits while too many others wait.
    ///
    /// # Errors
    /// [`Unheard`] when the receiver is gone.
    fn send(&self, event: SourceEvent) -> impl Future<Output = Result<(), Unheard>> + Send;

    /// Hands events over that belong together; waits as [`Self::send`] does.
    ///
    /// # Errors
    /// [`Unheard`] when the receiver is gone.
    fn send_all(
        &self,
        events: Vec<SourceEvent>,
    ) -> impl Future<Output = Result<(), Unheard>> + Send {
        async move {
            for event in events {
                self.send(event).await?;
            }
            Ok(())
        }
    }
}

impl EventSink for mpsc::Sender<SourceEvent> {
    async fn send(&self, event: SourceEvent) -> Result<(), Unheard> {
        Self::send(self, event).await.map_err(|_| Unheard)
    }
}

impl SourceEvent {
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
