//! The clock as an argument, so that tests can set it.

use std::time::{Instant, SystemTime};

/// Tells the time.
pub trait Clock: Send + Sync {
    /// A moment on the monotonic clock.
    fn now(&self) -> Instant;
    /// The time of day.
    fn wall(&self) -> SystemTime;
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that asks the machine"
    )]
    fn now(&self) -> Instant {
        Instant::now()
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the one place that asks the machine"
    )]
    fn wall(&self) -> SystemTime {
        SystemTime::now()
    }
}
