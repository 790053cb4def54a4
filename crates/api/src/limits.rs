//! The limits of readers: how often they ask, and how much at once.

use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use history::{ReaderTimes, Shares};
use quick_cache::sync::Cache;
use tokio::time::Instant;

/// The limits of a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections. One source may have a quarter of them.
    pub max_connections: usize,
    /// The requests of a reader in a second, on average.
    pub requests_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: 1024,
            requests_per_second: 20,
        }
    }
}

/// How long a reader may take for an answer.
pub(crate) const ANSWER_TIMES: ReaderTimes = ReaderTimes {
    pause: Duration::from_secs(30),
    most: Duration::from_secs(540),
};
/// The seconds of requests that a reader may save up.
const BURST_SECONDS: u32 = 5;
/// The readers whose rate is remembered.
const READERS: usize = 4096;
/// The most questions at once.
const QUESTIONS: usize = 256;
/// The most questions of a reader at once.
const QUESTIONS_OF_READER: usize = 4;

/// How often each of some callers asks: the average rate is limited, and the burst after a pause.
#[derive(Debug)]
pub(crate) struct Rates<K> {
    /// For each caller the time at which its saved requests are all there again.
    full_at: Cache<K, Arc<Mutex<Instant>>>,
}

impl<K: Hash + Eq + Clone> Default for Rates<K> {
    fn default() -> Self {
        Self {
            full_at: Cache::new(READERS),
        }
    }
}

impl<K: Hash + Eq + Clone> Rates<K> {
    /// Whether a caller may ask now.
    pub(crate) fn take(&self, caller: &K, per_second: u32) -> bool {
        let now = Instant::now();
        let full_at = match self.full_at.get(caller) {
            Some(known) => known,
            None => {
                let new = Arc::new(Mutex::new(now));
                self.full_at.insert(caller.clone(), Arc::clone(&new));
                new
            }
        };
        let mut full_at = full_at.lock().unwrap_or_else(PoisonError::into_inner);
        let next = (*full_at).max(now) + Duration::from_secs(1) / per_second.max(1);
        let may = next <= now + Duration::from_secs(BURST_SECONDS.into());
        if may {
            *full_at = next;
        }
        may
    }
}

/// Places for questions.
pub(crate) fn questions() -> Shares {
    Shares::new(QUESTIONS, QUESTIONS_OF_READER)
}

#[cfg(test)]
mod tests {
    use history::NoPlace;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_caller_asks_at_its_rate_with_a_burst_after_a_pause() {
        let rates = Rates::default();
        let asked = |caller: &str| {
            let times = (0..1000).take_while(|_| rates.take(&caller.to_owned(), 20));
            times.count()
        };
        assert_eq!(asked("one"), 100);
        assert_eq!(asked("other"), 100);
        assert_eq!(asked("one"), 0);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(asked("one"), 40);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(asked("one"), 100);
    }

    #[test]
    fn a_reader_has_so_many_questions_at_once_and_so_have_all() {
        let questions = questions();
        let take = |reader: usize| questions.take(&reader.to_string());
        let mut taken: Vec<_> = (0..QUESTIONS_OF_READER).map(|_| take(0).unwrap()).collect();
        assert_eq!(take(0).unwrap_err(), NoPlace::OfReader);
        for reader in 1..QUESTIONS / QUESTIONS_OF_READER {
            taken.extend((0..QUESTIONS_OF_READER).map(|_| take(reader).unwrap()));
        }
        assert_eq!(take(1000).unwrap_err(), NoPlace::AtAll);
        drop(taken.pop());
        drop(take(1000).unwrap());
    }
}
