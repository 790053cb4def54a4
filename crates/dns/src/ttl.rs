//! Time to live, in seconds.

use std::fmt;
use std::time::Duration;

/// A TTL: 0 to 2^31-1 seconds (RFC 2181 section 8).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ttl(u32);

impl Ttl {
    /// The largest TTL (RFC 2181 section 8).
    pub const MAX: Self = Self(0x7fff_ffff);
    /// No caching.
    pub const ZERO: Self = Self(0);

    /// A TTL of `seconds`. More than 2^31-1 is read as 0: RFC 2181 section 8 demands it of values with the top bit set.
    #[must_use]
    pub const fn decode(seconds: u32) -> Self {
        if seconds > Self::MAX.0 {
            Self::ZERO
        } else {
            Self(seconds)
        }
    }

    /// The seconds, as on the wire.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.0
    }
}

/// The duration is longer than a TTL can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} seconds are more than a TTL can hold (2147483647)")]
pub struct TtlTooLong(u64);

impl TryFrom<Duration> for Ttl {
    type Error = TtlTooLong;

    fn try_from(duration: Duration) -> Result<Self, TtlTooLong> {
        u32::try_from(duration.as_secs())
            .ok()
            .filter(|seconds| *seconds <= Self::MAX.0)
            .map(Self)
            .ok_or(TtlTooLong(duration.as_secs()))
    }
}

impl fmt::Display for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
