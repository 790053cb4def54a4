//! The turns of those who read much of the store: how many work at once, and how many answers a reader has begun.
//!
//! An answer that is made passes its turn on after a while, and at once while its reader takes nothing. Streamed answers
//! over HTTPS have turns of their own before those that all readers share: many of them do not delay a question over the
//! control socket. A reader has only some of the places for answers that are begun.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most questions that read much of the store and are answered at once.
const MOST_READ_AT_ONCE: usize = 4;
/// The most answers that read much of the store and are begun: each may keep the contents of a zone while its reader pauses.
const BEGUN: usize = 8;
/// How many of them one reader may have.
const BEGUN_OF_READER: usize = 2;

/// The number of questions answered at once over HTTPS that read much of the store; others wait. It is one less than the
/// number of processors, but at least one. The sockets share these turns, and one more. An answer can use two threads for a
/// while. Commits and queries have priority anyway ([`ops::yield_to_others`]).
#[must_use]
pub fn read_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.saturating_sub(1).clamp(1, MOST_READ_AT_ONCE)
}

/// The turns of those who read much of the store.
#[derive(Debug, Clone)]
pub struct Turns {
    /// The answers that each reader has begun. Locked for one look and one change.
    of_readers: Arc<Mutex<HashMap<Arc<str>, Arc<Semaphore>>>>,
    /// The answers that are begun.
    begun: Arc<Semaphore>,
    /// The turns of streamed answers; `None` for the sockets.
    own: Option<Arc<Semaphore>>,
    /// Those that all readers share.
    shared: Arc<Semaphore>,
}

/// A turn. Dropping it gives it back.
#[derive(Debug)]
pub(super) struct Turn {
    _own: Option<OwnedSemaphorePermit>,
    _shared: OwnedSemaphorePermit,
}

/// The place of an answer that is begun. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Begun {
    _of_reader: OwnedSemaphorePermit,
    _place: OwnedSemaphorePermit,
}

impl Turns {
    /// The turns that all readers share: one more than streamed answers have, so that these leave one for the control socket.
    #[must_use]
    pub fn of_all() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(read_at_once() + 1))
    }

    /// Turns for streamed answers, within these that all readers share.
    #[must_use]
    pub fn within(shared: &Arc<Semaphore>) -> Self {
        Self {
            own: Some(Arc::new(Semaphore::new(read_at_once()))),
            ..Self::of_socket(shared)
        }
    }

    /// Turns for answers over a socket: those that all readers share.
    #[must_use]
    pub fn of_socket(shared: &Arc<Semaphore>) -> Self {
        Self {
            of_readers: Arc::default(),
            begun: Arc::new(Semaphore::new(BEGUN)),
            own: None,
            shared: Arc::clone(shared),
        }
    }

    /// Waits until an answer may begin. It keeps this to its end. A reader with many waits for its own, and meanwhile is not
    /// before others.
    pub(super) async fn begin(&self, reader: &str) -> Option<Begun> {
        let of_reader = self.of_reader(reader).acquire_owned().await.ok()?;
        let place = Arc::clone(&self.begun).acquire_owned().await.ok()?;
        Some(Begun {
            _of_reader: of_reader,
            _place: place,
        })
    }

    /// The places of a reader.
    fn of_reader(&self, reader: &str) -> Arc<Semaphore> {
        let all = self.of_readers.lock();
        let mut all = all.unwrap_or_else(PoisonError::into_inner);
        // Those that are in use are known elsewhere, too.
        all.retain(|_, places| Arc::strong_count(places) > 1);
        let new = || Arc::new(Semaphore::new(BEGUN_OF_READER));
        Arc::clone(all.entry(reader.into()).or_insert_with(new))
    }

    /// Waits for a turn.
    pub(super) async fn take(&self) -> Option<Turn> {
        let own = match &self.own {
            Some(own) => Some(Arc::clone(own).acquire_owned().await.ok()?),
            None => None,
        };
        let shared = Arc::clone(&self.shared).acquire_owned().await.ok()?;
        Some(Turn {
            _own: own,
            _shared: shared,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[tokio::test]
    async fn streamed_answers_leave_a_turn_for_the_control_socket() {
        let shared = Turns::of_all();
        let turns = Turns::within(&shared);
        let mut taken = Vec::new();
        for _ in 0..read_at_once() {
            taken.push(turns.take().await);
        }
        let mut next = Box::pin(turns.take());
        assert!(
            timeout(SHORT, &mut next).await.is_err(),
            "they have no more"
        );
        let of_socket = Turns::of_socket(&shared);
        let turn = timeout(SHORT, of_socket.take()).await;
        assert!(turn.expect("it is left").is_some());
    }

    #[tokio::test]
    async fn only_so_many_answers_that_read_much_are_begun() {
        let turns = Turns::within(&Turns::of_all());
        let mut begun = Vec::new();
        for reader in 0..BEGUN {
            begun.push(turns.begin(&reader.to_string()).await);
        }
        let waited = timeout(SHORT, turns.begin("another")).await;
        assert!(waited.is_err());
        drop(begun.pop());
        assert!(turns.begin("another").await.is_some());
    }

    #[tokio::test]
    async fn a_reader_cannot_begin_so_many_answers_that_others_wait() {
        let turns = Turns::within(&Turns::of_all());
        let mut begun = Vec::new();
        let mut waiting = Vec::new();
        for number in 0..BEGUN {
            let mut next = Box::pin(turns.begin("one"));
            match timeout(SHORT, &mut next).await {
                Ok(place) => begun.push(place),
                Err(_) => waiting.push(next),
            }
            assert_eq!(begun.len(), (number + 1).min(BEGUN_OF_READER));
        }
        for reader in ["another", "a third"] {
            for _ in 0..BEGUN_OF_READER {
                let place = timeout(SHORT, turns.begin(reader)).await;
                begun.push(place.expect("it has places"));
            }
        }
        drop((begun, waiting));
        drop(turns.of_reader("another"));
        let known = turns.of_readers.lock().unwrap().len();
        assert_eq!(known, 1, "others are forgotten");
    }
}
