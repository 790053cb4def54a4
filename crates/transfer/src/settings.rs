//! Limits of transfers and times of NOTIFY, with their defaults.

use std::time::Duration;

/// Limits of transfers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferSettings {
    /// The most transfers at once.
    pub max_at_once: usize,
    /// The most transfers at once of one peer: an address, or one key at it.
    pub max_per_peer: usize,
    /// The time limit of a transfer.
    pub max_time: Duration,
    /// The octets that a message should not exceed.
    pub message_octets: usize,
}

/// Times of NOTIFY.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotifySettings {
    /// The shortest time between two NOTIFYs of changes to one secondary.
    pub interval: Duration,
    /// The time to wait for an answer to the first try. It doubles with each try.
    pub first_timeout: Duration,
    /// The longest wait.
    pub max_timeout: Duration,
    /// Tries before a NOTIFY is given up (RFC 1996 section 3.6 suggests five).
    pub tries: u32,
}

impl Default for TransferSettings {
    fn default() -> Self {
        Self {
            max_at_once: 32,
            max_per_peer: 24,
            max_time: Duration::from_secs(2 * 60 * 60),
            message_octets: 16_384,
        }
    }
}

impl Default for NotifySettings {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(100),
            first_timeout: Duration::from_secs(1),
            max_timeout: Duration::from_secs(60),
            tries: 5,
        }
    }
}
