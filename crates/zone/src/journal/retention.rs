//! How much of the past is kept.

use std::time::Duration;

use crate::MemoryLimits;

/// The most octets of history that stay in memory for IXFR, whatever is kept on disk.
const MEMORY_OCTETS: u64 = 16 << 20;

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

    /// How much of it the versions carry in memory.
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
