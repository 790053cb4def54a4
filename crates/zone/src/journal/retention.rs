//! Decides how much history is stored.

use std::time::Duration;

use crate::MemoryLimits;

/// The largest part of the history that stays in memory for IXFR.
const MEMORY_OCTETS: u64 = 16 << 20;

/// The amount of a zone's history on disk. The newest step is always kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The greatest age of the oldest step. The history should reach back as far: when the other limits drop a younger step, this
    /// is reported.
    pub keep: Duration,
    /// The most steps.
    pub versions: u64,
    /// The largest size of their records, in bytes.
    pub octets: u64,
    /// Whether only versions are dropped that are in a segment ([`Segment`](crate::journal::Segment)).
    pub is_archived: bool,
}

impl Retention {
    /// 30 days, 10 000 versions, 64 MiB: a month to look back, and more than any secondary needs.
    pub const DEFAULT: Self = Self {
        keep: Duration::from_secs(30 * 86400),
        versions: 10_000,
        octets: 64 << 20,
        is_archived: false,
    };

    /// The limits for the history that versions carry in memory.
    #[must_use]
    pub fn memory_limits(&self) -> MemoryLimits {
        let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        MemoryLimits {
            steps: number(self.versions),
            octets: number(self.octets.min(MEMORY_OCTETS)),
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self::DEFAULT
    }
}
