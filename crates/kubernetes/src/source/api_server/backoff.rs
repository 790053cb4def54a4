//! The pauses after failures.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

/// Pauses that double, with jitter, up to a limit.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    /// The next pause, before jitter.
    next: Duration,
    jitter: u64,
}

impl Backoff {
    /// Pauses from `first` to `longest`. The jitter is random, so that replicas that lost the same server do not
    /// reconnect together.
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        // The only source of randomness in std. It affects nothing but the length of pauses.
        let jitter = RandomState::new().build_hasher().finish();
        Self {
            first,
            longest,
            next: first,
            jitter,
        }
    }

    /// The next pause: between half of the current step and all of it.
    pub(super) fn wait(&mut self) -> Duration {
        let step = self.next;
        self.next = (step * 2).min(self.longest);
        // An LCG is random enough to spread clients.
        self.jitter = self
            .jitter
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let share = u32::try_from(self.jitter >> 54).unwrap_or(0);
        step / 2 + step / 2 * share / 1024
    }

    /// Starts again with the first pause.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_over_after_reset() {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(1));
        for step in [200, 400, 800, 1000, 1000] {
            let step = Duration::from_millis(step);
            let wait = backoff.wait();
            assert!(step / 2 <= wait && wait <= step, "{wait:?} for {step:?}");
        }
        backoff.reset();
        assert!(backoff.wait() <= Duration::from_millis(200));
    }
}
