//! What is said of a key at most once a minute: anyone may send again what it signed long ago.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use dns::Name;

/// How long nothing more is said of a key.
const PAUSE: Duration = Duration::from_secs(60);

/// The keys of which something was said. Only names of configured keys may come here: they are not forgotten.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// When it was said last, by key. Locked for one look and one write.
    last: Mutex<HashMap<Name, Instant>>,
}

impl Seldom {
    /// Whether something may be said of a key now; if so it is taken as said.
    pub(crate) fn is_due(&self, key: &Name, now: Instant) -> bool {
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
    use super::*;
    use ops::{Clock, HandClock};

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
