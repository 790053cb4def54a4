//! How many sockets towards upstreams there may be: strangers' queries must not take the descriptors that
//! connections and the store need.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The sockets of the whole process towards upstreams, idle ones included.
#[derive(Debug, Clone)]
pub struct UpstreamSockets {
    /// A permit for each.
    free: Arc<Semaphore>,
    /// How many there may be.
    most: usize,
}

/// One socket: held while it is open.
#[derive(Debug)]
pub(super) struct SocketPermit {
    /// Of all.
    _permit: OwnedSemaphorePermit,
}

impl UpstreamSockets {
    /// So many sockets.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
        }
    }

    /// How many there may be.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// One more, if there may be.
    pub(super) fn take(&self) -> Option<SocketPermit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(SocketPermit { _permit: permit })
    }

    /// Whether sockets may lie idle: not when more than half are taken.
    pub(super) fn has_plenty(&self) -> bool {
        self.free.available_permits() > self.most / 2
    }
}

impl Default for UpstreamSockets {
    /// As many as a process may have that was told nothing: 1024 descriptors, half of them.
    fn default() -> Self {
        Self::new(512)
    }
}
