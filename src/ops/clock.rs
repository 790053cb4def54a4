//! The clock as an argument: only this file asks the machine what time it is.

use std::fmt;
use std::time::{Instant, SystemTime};

/// Tells the time. Deciding code gets it as an argument, so that tests can set it.
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
