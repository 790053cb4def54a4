//! Limits requests to the API server: the average rate, the burst after a pause, and the number of unanswered
//! requests.
//!
//! tower's `RateLimit` has no burst. Its `ConcurrencyLimit` releases a request when its answer begins, in the middle
//! of a list. Here a watch counts until it is open; if it counted until its end, the next kind could never be listed.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::source::ApiLimits;

#[derive(Debug)]
pub(super) struct Throttle {
    /// The lock is held for one access.
    pace: Mutex<Pace>,
    /// Permits for unanswered requests; `None` when there is no limit.
    room: Option<Semaphore>,
}

/// The permit for an unanswered request.
#[derive(Debug)]
#[must_use = "the request counts as unanswered as long as this is held"]
pub(super) struct UnderWay<'a> {
    _room: Option<SemaphorePermit<'a>>,
}

impl Throttle {
    pub(super) fn new(limits: ApiLimits) -> Self {
        let room = |bound: NonZeroU32| {
            let bound = usize::try_from(bound.get()).unwrap_or(Semaphore::MAX_PERMITS);
            Semaphore::new(bound.min(Semaphore::MAX_PERMITS))
        };
        Self {
            pace: Mutex::new(Pace::new(limits.interval, limits.burst)),
            room: limits.in_flight.map(room),
        }
    }

    /// Waits until a request may be sent.
    pub(super) async fn enter(&self) -> UnderWay<'_> {
        let room = match &self.room {
            Some(room) => Some(room.acquire().await.expect("the room is never closed")),
            None => None,
        };
        let now = Instant::now();
        let start = {
            let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
            pace.take(now)
        };
        if start > now {
            tokio::time::sleep_until(start).await;
        }
        UnderWay { _room: room }
    }
}

/// The rate limit: a token bucket, stored as the time at which it is full again.
#[derive(Debug)]
struct Pace {
    /// The time for one token.
    interval: Duration,
    /// How long before the bucket is full a token can be taken: the time of all tokens but one.
    ahead: Duration,
    /// The time when the bucket is full; in the past if it is full now.
    full: Option<Instant>,
}

impl Pace {
    fn new(interval: Duration, burst: NonZeroU32) -> Self {
        Self {
            interval,
            ahead: interval.saturating_mul(burst.get() - 1),
            full: None,
        }
    }

    /// Takes a token and returns the time at which it may be used.
    fn take(&mut self, now: Instant) -> Instant {
        let full = self.full.map_or(now, |full| full.max(now));
        // On overflow, the rate is as slow as possible.
        self.full = full.checked_add(self.interval).or(Some(full));
        let start = full.checked_sub(self.ahead);
        start.map_or(now, |start| start.max(now))
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// Limits as they are written.
    fn limits(interval_ms: u64, burst: u32, in_flight: u32) -> ApiLimits {
        ApiLimits {
            interval: Duration::from_millis(interval_ms),
            burst: NonZeroU32::new(burst).unwrap(),
            in_flight: NonZeroU32::new(in_flight),
        }
    }

    /// Milliseconds after which each of some requests, all made at once, may go.
    fn starts(interval_ms: u64, burst: u32, count: usize) -> Vec<u128> {
        let limits = limits(interval_ms, burst, 0);
        let mut pace = Pace::new(limits.interval, limits.burst);
        let now = Instant::now();
        (0..count)
            .map(|_| (pace.take(now) - now).as_millis())
            .collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_rest_at_the_pace() {
        assert_eq!(starts(100, 1, 4), [0, 100, 200, 300]);
        assert_eq!(starts(100, 3, 6), [0, 0, 0, 100, 200, 300]);
        let mut pace = Pace::new(Duration::from_millis(100), NonZeroU32::new(2).unwrap());
        let now = Instant::now();
        let after = |ms| now + Duration::from_millis(ms);
        assert_eq!(pace.take(now), now);
        assert_eq!(pace.take(now), now);
        assert_eq!(pace.take(after(50)), after(100));
        // rested: no more than the burst has gathered
        assert_eq!(pace.take(after(10_000)), after(10_000));
        assert_eq!(pace.take(after(10_000)), after(10_000));
        assert_eq!(pace.take(after(10_000)), after(10_100));
    }

    #[test]
    fn in_any_time_no_more_go_than_burst_and_pace_allow() {
        let starts = starts(7, 5, 200);
        for (first, start) in starts.iter().enumerate() {
            for (more, end) in starts[first..].iter().enumerate() {
                let allowed = 5 + (end - start) / 7;
                assert!(more as u128 <= allowed, "{more} from {start} to {end}");
            }
        }
    }

    #[test]
    fn no_more_are_under_way_than_may_be() {
        let throttle = Throttle::new(limits(1, 100, 2));
        let first = throttle.enter().now_or_never().expect("there is room");
        let second = throttle.enter().now_or_never().expect("there is room");
        assert!(throttle.enter().now_or_never().is_none());
        drop(first);
        assert!(throttle.enter().now_or_never().is_some());
        drop(second);
    }

    #[tokio::test]
    async fn a_request_waits_for_its_turn() {
        let throttle = Throttle::new(limits(3_600_000, 2, 0));
        assert!(throttle.enter().now_or_never().is_some());
        assert!(throttle.enter().now_or_never().is_some());
        assert!(throttle.enter().now_or_never().is_none());
    }
}
