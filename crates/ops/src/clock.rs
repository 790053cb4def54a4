//! The clock as an argument: only this file reads the machine's clock.

use std::fmt;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// A source of time, given to code as an argument so that tests can set it.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Time that never goes back, for intervals and deadlines.
    fn now(&self) -> Instant;
    /// Time of day, for people and for serials.
    fn wall(&self) -> SystemTime;
}

/// The machine's own clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[allow(
    clippy::disallowed_methods,
    reason = "the one place where the clock comes from"
)]
impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}

/// The time since the machine started, `CLOCK_BOOTTIME`. Unlike [`Instant`] it includes the time in which the machine slept, so a lease
/// that ended meanwhile has ended.
#[must_use]
pub fn boottime() -> Duration {
    // Only Linux stops its monotonic clock in a sleep and has another one.
    #[cfg(target_os = "linux")]
    let clock = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(clock);
    Duration::try_from(time).unwrap_or_default()
}

/// Milliseconds since 1970 UTC.
#[must_use]
pub fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A time for people, as RFC 3339 writes it: UTC, to the millisecond. It holds milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct TimeText(pub u64);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = i64::try_from(self.0)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        match stamp {
            Some(stamp) => write!(f, "{stamp:.3}"),
            None => write!(f, "{} ms", self.0),
        }
    }
}

/// A clock for tests that moves only by [`Self::advance`].
#[cfg(any(test, feature = "testing"))]
#[derive(Debug)]
pub struct HandClock {
    start: Instant,
    /// Seconds since 1970 at the start.
    wall: u64,
    /// Seconds since the start.
    gone: std::sync::atomic::AtomicU64,
}

#[cfg(any(test, feature = "testing"))]
impl HandClock {
    /// A clock at the given second since 1970.
    #[allow(clippy::disallowed_methods, reason = "the start is any instant at all")]
    pub fn at(seconds: u64) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            start: Instant::now(),
            wall: seconds,
            gone: 0.into(),
        })
    }

    /// Moves the clock forward.
    pub fn advance(&self, seconds: u64) {
        self.gone
            .fetch_add(seconds, std::sync::atomic::Ordering::Relaxed);
    }

    fn gone(&self) -> u64 {
        self.gone.load(std::sync::atomic::Ordering::Relaxed)
    }
}

#[cfg(any(test, feature = "testing"))]
impl Clock for HandClock {
    fn now(&self) -> Instant {
        self.start + Duration::from_secs(self.gone())
    }

    fn wall(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(self.wall + self.gone())
    }
}
