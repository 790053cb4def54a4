//! Limits a log line to one a minute: anyone may replay a message that a key signed long ago, or that caused a panic.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The time without a further line about a subject.
const PAUSE: Duration = Duration::from_secs(60);

/// The subjects that were logged. Clients must not choose them, as they are never removed: names of configured keys are
/// fine.
#[derive(Debug)]
pub(crate) struct Seldom<K> {
    /// The time of the last line. Locked for one read and one write.
    last: Mutex<HashMap<K, Instant>>,
}

impl<K> Default for Seldom<K> {
    fn default() -> Self {
        let last = Mutex::default();
        Self { last }
    }
}

impl<K: Clone + Eq + Hash> Seldom<K> {
    /// Whether a line about a subject is due. If it is, it counts as logged.
    pub(crate) fn is_due(&self, key: &K, now: Instant) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let before = last.get(key);
        if before.is_some_and(|before| now.saturating_duration_since(*before) < PAUSE) {
            return false;
        }
        last.insert(key.clone(), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use dns::Name;
    use ops::{Clock, HandClock};

    use super::*;

    #[test]
    fn of_each_key_something_is_said_once_a_minute() {
        let (seldom, clock) = (Seldom::default(), HandClock::at(0));
        let [one, other] = ["k.", "other."].map(|name| name.parse::<Name>().unwrap());
        assert!(seldom.is_due(&one, clock.now()));
        assert!(!seldom.is_due(&one, clock.now()) && seldom.is_due(&other, clock.now()));
        clock.advance(59);
        assert!(!seldom.is_due(&"K.".parse().unwrap(), clock.now()));
        clock.advance(1);
        assert!(seldom.is_due(&one, clock.now()) && !seldom.is_due(&one, clock.now()));
    }
}
