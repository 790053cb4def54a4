//! How much of the past is kept.

use std::time::Duration;

/// How much history of a zone is kept on disk. The newest step is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How old the oldest step may be.
    pub keep: Duration,
    /// How many steps are kept.
    pub versions: u64,
    /// The most octets of their records.
    pub octets: u64,
}

impl Retention {
    /// 30 days, 10 000 versions, 64 MiB: a month to look back, and more than any secondary needs.
    pub const DEFAULT: Self = Self {
        keep: Duration::from_secs(30 * 86400),
        versions: 10_000,
        octets: 64 << 20,
    };
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}
