//! Tasks that a library starts for a connection or a socket: they end with it, and their panics are logged.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use hyper::rt::Executor;
use quinn::{AsyncTimer, AsyncUdpSocket, Runtime, TokioRuntime};
use tokio::task::{JoinError, JoinSet};

/// Starts tasks.
#[derive(Debug, Clone, Default)]
pub struct Starter(Arc<Mutex<JoinSet<()>>>);

/// The started tasks. Dropping this ends them.
#[derive(Debug, Default)]
pub struct OwnTasks(Starter);

impl OwnTasks {
    /// A handle to start tasks that end with these.
    #[must_use]
    pub fn starter(&self) -> Starter {
        self.0.clone()
    }
}

impl Starter {
    /// Starts a task.
    pub fn start(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Locked to remove ended tasks and to add one.
        let mut tasks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(ended) = tasks.try_join_next() {
            log_end(ended);
        }
        tasks.spawn(task);
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Starter {
    fn execute(&self, task: F) {
        self.start(task);
    }
}

impl Runtime for Starter {
    fn new_timer(&self, at: Instant) -> Pin<Box<dyn AsyncTimer>> {
        TokioRuntime.new_timer(at)
    }

    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.start(task);
    }

    fn wrap_udp_socket(&self, socket: UdpSocket) -> io::Result<Arc<dyn AsyncUdpSocket>> {
        TokioRuntime.wrap_udp_socket(socket)
    }
}

impl Drop for OwnTasks {
    fn drop(&mut self) {
        // The tasks may hold starters themselves.
        let mut tasks = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.abort_all();
    }
}

/// Logs the panic of a connection's task.
pub(crate) fn log_end(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection's task failed");
    }
}
