//! Equal questions at once are one query: each more would be one more chance for a forged reply (RFC 5452 section 5).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch::{Receiver, Sender, channel};

/// Queries under way, by what they ask.
#[derive(Debug)]
pub(super) struct Flights<T>(Mutex<UnderWay<T>>);

/// The result of each query. Locked for one look and one write.
type UnderWay<T> = HashMap<Box<[u8]>, Receiver<Option<T>>>;

/// A query that is under way until this is dropped.
struct Flight<'a, T> {
    all: &'a Flights<T>,
    key: &'a [u8],
    result: Sender<Option<T>>,
}

impl<T> Default for Flights<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Flights<T> {
    /// The result of the query for a key. An equal one that is under way is waited for; if that ends without a result, as
    /// its client has gone, this one is asked.
    pub(super) async fn join(&self, key: &[u8], ask: impl Future<Output = T>) -> T {
        loop {
            let mut other = match self.begin(key) {
                Ok(flight) => {
                    let result = ask.await;
                    flight.end(&result);
                    return result;
                }
                Err(other) => other,
            };
            let result = other.wait_for(Option::is_some).await;
            if let Some(result) = result.ok().and_then(|result| result.clone()) {
                return result;
            }
        }
    }

    /// Begins a query; gives the result of the equal one that is under way, if there is one.
    fn begin<'a>(&'a self, key: &'a [u8]) -> Result<Flight<'a, T>, Receiver<Option<T>>> {
        match self.under_way().entry(key.into()) {
            Entry::Occupied(other) => Err(other.get().clone()),
            Entry::Vacant(place) => {
                let (result, waiting) = channel(None);
                place.insert(waiting);
                Ok(Flight {
                    all: self,
                    key,
                    result,
                })
            }
        }
    }
}

impl<T> Flights<T> {
    fn under_way(&self) -> MutexGuard<'_, UnderWay<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone> Flight<'_, T> {
    /// Gives the result to the queries that wait for it.
    fn end(self, result: &T) {
        // One receiver is kept for further queries.
        if self.result.receiver_count() > 1 {
            self.result.send_replace(Some(result.clone()));
        }
    }
}

impl<T> Drop for Flight<'_, T> {
    fn drop(&mut self) {
        self.all.under_way().remove(self.key);
    }
}
