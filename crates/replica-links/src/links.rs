//! Links between followers and leaders over TLS, and the connections on which replicas ask each other.
//!
//! One listener takes both. A connection is authenticated first, within a time and within a number of such connections. Then the
//! first exchange says what it is for. Each link has one task, which reads and writes at the same time: it gives each frame as an event, and sends what is in
//! its queue. The queue is bounded; a peer that does not read loses its link.

mod connect;
mod listener;
mod session;

use replicas::ceiling::Ceiling;
use replicas::chain::Epoch;
use replicas::frame::{Frame, LinkId};
use replicas::knowledge::Knowledge;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::identity::Identity;
use crate::limits::LinkLimits;

pub use listener::Listener;

pub(crate) use connect::{ask, dial};
pub(crate) use listener::accept;

/// What links say to the loop.
#[derive(Debug)]
pub(crate) enum LinkEvent {
    /// A follower's link is open.
    Accepted(LinkId, LinkHandle),
    /// An own link is open.
    Connected(Attempt, LinkId, LinkHandle),
    /// An own link could not be opened.
    Failed(Attempt),
    /// A frame came.
    Frame(LinkId, Frame),
    /// The link is closed.
    Closed(LinkId),
    /// Another replica asks.
    Question(Epoch, Ceiling, oneshot::Sender<Knowledge>),
}

/// The number of an attempt to open a link.
pub(crate) type Attempt = u64;

/// The end of a link in the loop. Dropping it closes the link after what is in its queue.
#[derive(Debug)]
pub(crate) struct LinkHandle {
    frames: mpsc::Sender<Frame>,
    stop: CancellationToken,
}

impl LinkHandle {
    /// A handle with room for so many frames, and what is sent by it.
    #[cfg(test)]
    pub(crate) fn with_room(frames: usize) -> (Self, mpsc::Receiver<Frame>) {
        let (sender, sent) = mpsc::channel(frames);
        let stop = CancellationToken::new();
        let frames = sender;
        (Self { frames, stop }, sent)
    }

    /// What ends the link at once.
    #[cfg(test)]
    pub(crate) fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Queues a frame. If there is no room, or the link has ended, it is closed at once and `false` comes back.
    pub(crate) fn send(&self, frame: Frame) -> bool {
        let is_sent = self.frames.try_send(frame).is_ok();
        if !is_sent {
            self.stop.cancel();
        }
        is_sent
    }
}

/// Counts of connections that were refused.
#[derive(Debug, Default)]
pub struct LinkStats {
    /// Without a certificate of a replica, too late in the handshake, or with no common format.
    pub unauthenticated: AtomicU64,
    /// Because there were too many.
    pub full: AtomicU64,
    /// Links that were closed because their peer does not read.
    pub overflown: AtomicU64,
}

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Arc<Identity>,
    pub(crate) limits: LinkLimits,
    pub(crate) stats: Arc<LinkStats>,
    pub(crate) events: mpsc::Sender<LinkEvent>,
    links: Semaphore,
    questions: Semaphore,
    last_link: AtomicU64,
}

impl Shared {
    pub(crate) fn new(
        identity: Arc<Identity>,
        limits: LinkLimits,
        events: mpsc::Sender<LinkEvent>,
    ) -> Self {
        Self {
            identity,
            limits,
            stats: Arc::default(),
            events,
            links: Semaphore::new(limits.links),
            questions: Semaphore::new(limits.questions),
            last_link: AtomicU64::new(0),
        }
    }

    /// A number that no link had.
    fn next_link(&self) -> LinkId {
        self.last_link.fetch_add(1, Ordering::Relaxed) + 1
    }
}

#[cfg(test)]
mod tests;
