//! Limits the sockets to upstreams: clients' queries must not use up the file descriptors that connections and the
//! store need.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The sockets of the process to upstreams, idle ones included.
#[derive(Debug, Clone)]
pub struct UpstreamSockets {
    /// A permit for each.
    free: Arc<Semaphore>,
    /// Their most.
    most: usize,
}

/// One socket. It is held while the socket is open.
#[derive(Debug)]
pub(super) struct SocketPermit {
    _permit: OwnedSemaphorePermit,
}

impl UpstreamSockets {
    /// Allows `most` sockets.
    #[must_use]
    pub fn new(most: usize) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self {
            free: Arc::new(Semaphore::new(most)),
            most,
        }
    }

    /// The most sockets.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// One more socket, if the limit allows it.
    pub(super) fn take(&self) -> Option<SocketPermit> {
        let permit = Arc::clone(&self.free).try_acquire_owned().ok()?;
        Some(SocketPermit { _permit: permit })
    }

    /// Whether idle sockets may stay open: not if more than half of them are in use.
    pub(super) fn has_plenty(&self) -> bool {
        self.free.available_permits() > self.most / 2
    }
}

impl Default for UpstreamSockets {
    /// Half of 1024 file descriptors, the usual limit of a process.
    fn default() -> Self {
        Self::new(512)
    }
}
