//! Limits of connections between replicas.

use std::time::Duration;

/// The limits. The defaults are for the largest installation: five replicas in sync, and some that only follow.
#[derive(Debug, Clone, Copy)]
pub struct LinkLimits {
    /// Links of followers at a time.
    pub links: usize,
    /// Questions of other replicas at a time.
    pub questions: usize,
    /// Connections whose peer is not authenticated yet. A new one takes the place of the oldest.
    pub handshakes: usize,
    /// The same for one source.
    pub handshakes_of_source: usize,
    /// The time for the handshake and the first exchange.
    pub handshake_timeout: Duration,
    /// The time for an own connection: address, TCP, handshake and first exchange.
    pub connect_timeout: Duration,
    /// Frames that wait to be sent on one link; with more the link is closed. The bytes of payloads are bounded by the leader.
    pub queued_frames: usize,
    /// A link on which nothing arrives, or nothing can be written, for this long is closed. Leader and follower say something several times a
    /// second.
    pub idle_timeout: Duration,
}

impl Default for LinkLimits {
    fn default() -> Self {
        Self {
            links: 32,
            questions: 32,
            handshakes: 64,
            handshakes_of_source: 16,
            handshake_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            queued_frames: 16_384,
            idle_timeout: Duration::from_secs(10),
        }
    }
}
