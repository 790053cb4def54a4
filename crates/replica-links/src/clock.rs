//! The clocks of a replica, and its random numbers.

use dns::Serial;
use ops::{Clock, SystemClock};
use replicas::settings::Now;
use ring::rand::{SecureRandom, SystemRandom};

use std::fmt;
use std::time::UNIX_EPOCH;

/// What is read when an event is given.
pub trait Clocks: fmt::Debug + Send + Sync {
    /// The time since the start of the machine, the time of day, and a new random number.
    fn now(&self) -> Now;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClocks(SystemRandom);

impl SystemClocks {
    /// Clocks with a source of random numbers.
    #[must_use]
    pub fn new() -> Self {
        Self(SystemRandom::new())
    }
}

impl Default for SystemClocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Clocks for SystemClocks {
    fn now(&self) -> Now {
        let boot = ops::boottime();
        let wall = SystemClock.wall().duration_since(UNIX_EPOCH);
        let mut random = [0; 4];
        if self.0.fill(&mut random).is_err() {
            // It only spreads candidates: the time does that, too.
            random = boot.subsec_nanos().to_be_bytes();
        }
        Now {
            boot,
            wall: Serial::from_wall(wall.unwrap_or_default().as_secs()).encode(),
            random: u32::from_be_bytes(random),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_run_and_random_numbers_differ() {
        let clocks = SystemClocks::new();
        let (first, second) = (clocks.now(), clocks.now());
        assert!(first.boot > std::time::Duration::ZERO && first.boot <= second.boot);
        // The machine's clock is past 2020.
        assert!(first.wall > 1_577_836_800 && first.wall <= second.wall);
        let third = clocks.now();
        assert!(first.random != second.random || second.random != third.random);
    }
}
