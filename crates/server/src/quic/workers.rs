//! Places for requests of DNS over QUIC, of all connections of a listener together. A reload may change how many there are.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The places.
#[derive(Debug, Clone)]
pub(super) struct Workers {
    permits: Arc<Semaphore>,
    /// Locked for one look and one write.
    count: Arc<Mutex<Count>>,
}

#[derive(Debug, Default)]
struct Count {
    most: usize,
    /// Places that are taken and no longer exist.
    debt: usize,
}

/// A place that is taken.
#[derive(Debug)]
pub(super) struct Worker {
    permit: Option<OwnedSemaphorePermit>,
    workers: Workers,
}

impl Workers {
    /// No places.
    pub(super) fn new() -> Self {
        Self {
            permits: Arc::new(Semaphore::new(0)),
            count: Arc::default(),
        }
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on there are so many places. What is in progress continues.
    pub(super) fn resize(&self, most: usize) {
        let most = most.min(Semaphore::MAX_PERMITS);
        let mut count = self.count();
        let (fewer, more) = (
            count.most.saturating_sub(most),
            most.saturating_sub(count.most),
        );
        count.most = most;
        let paid = count.debt.min(more);
        count.debt -= paid;
        self.permits.add_permits(more - paid);
        count.debt += fewer - self.permits.forget_permits(fewer);
    }

    /// Waits for a place.
    pub(super) async fn take(&self) -> Worker {
        // The semaphore is never closed, so this cannot fail.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        let workers = self.clone();
        Worker { permit, workers }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut count = self.workers.count();
        if count.debt > 0 {
            count.debt -= 1;
            self.permit
                .take()
                .into_iter()
                .for_each(OwnedSemaphorePermit::forget);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    /// findings-server 4: connections from before a reload had places of their own.
    #[test]
    fn all_share_the_places_that_there_are_now() {
        let workers = Workers::new();
        let take = || workers.take().now_or_never();
        assert!(take().is_none());
        workers.resize(3);
        let [one, two, three] = [take(), take(), take()].map(Option::unwrap);
        workers.resize(1);
        drop(one);
        drop(two);
        assert!(take().is_none());
        // Two more again, while one is still in use.
        workers.resize(2);
        let four = take().unwrap();
        assert!(take().is_none());
        workers.resize(0);
        workers.resize(3);
        let five = take().unwrap();
        assert!(take().is_none());
        drop((three, four, five));
        workers.resize(usize::MAX);
        assert!(take().is_some());
    }
}
