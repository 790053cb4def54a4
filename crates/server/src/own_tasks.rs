//! Tasks that a library starts on behalf of a connection or a socket: they end with it, and their panics are logged.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::{JoinError, JoinSet};

/// Starts tasks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Starter(Arc<Mutex<JoinSet<()>>>);

/// The tasks that were started: dropping this ends them.
#[derive(Debug, Default)]
pub(crate) struct OwnTasks(Starter);

impl OwnTasks {
    /// Starts tasks that end with these.
    pub(crate) fn starter(&self) -> Starter {
        self.0.clone()
    }
}

impl Starter {
    /// Starts a task.
    pub(crate) fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Locked for a look at those that ended, and one that begins.
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = tasks.try_join_next() {
            log_end(ended);
        }
        tasks.spawn(task);
    }
}

impl Drop for OwnTasks {
    fn drop(&mut self) {
        // The tasks may hold starters themselves.
        let mut tasks = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.abort_all();
    }
}

/// Says when a connection's task panicked.
pub(crate) fn log_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task failed");
    }
}
