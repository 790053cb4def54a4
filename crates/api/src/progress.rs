//! Whether a connection is in use, and when it has to be closed.

use std::pin::pin;
use std::time::Duration;

use ops::Usage;
use tokio::sync::watch;
use tokio::time::sleep;

use crate::limits::ANSWER_TIMES;

/// How long a client may take to its first request.
pub(crate) const FIRST_REQUEST: Duration = Duration::from_secs(10);
/// How long a connection may be idle.
pub(crate) const IDLE: Duration = Duration::from_secs(30);
/// How long a client may take to read the end of an answer that is made.
pub(crate) const LAST_PIECES: Duration = Duration::from_secs(60);
/// The age at which a connection is closed: certificates are looked at in the handshake.
const AGE: Duration = Duration::from_secs(600);

/// The state of a connection.
#[derive(Debug)]
pub(crate) struct Progress(watch::Sender<Load>, Usage);

#[derive(Debug, Clone, Copy, Default)]
struct Load {
    /// The requests so far.
    begun: u64,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// No request is in progress.
    #[default]
    Idle,
    /// A request is read, or its answer is made.
    Asked,
    /// The answer is made, and its last pieces are not sent yet.
    Made,
}

/// A request in progress. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct InProgress {
    loads: watch::Sender<Load>,
    number: u64,
    usage: Usage,
}

/// The making of an answer. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Making(watch::Sender<Load>, u64);

impl Progress {
    pub(crate) fn new(usage: Usage) -> Self {
        Self(watch::Sender::default(), usage)
    }

    /// Counts a request that begins.
    pub(crate) fn begin(&self) -> InProgress {
        self.0.send_modify(|load| {
            load.begun += 1;
            load.phase = Phase::Asked;
        });
        self.1.work();
        InProgress {
            number: self.0.borrow().begun,
            loads: self.0.clone(),
            usage: self.1.clone(),
        }
    }

    /// Whether no request is in progress.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.borrow().phase == Phase::Idle
    }

    /// Waits until the connection has to be closed.
    pub(crate) async fn over(&self) {
        let mut loads = self.0.subscribe();
        let mut old = pin!(sleep(AGE));
        loop {
            let load = *loads.borrow_and_update();
            let patience = match (load.phase, load.begun) {
                (Phase::Idle, 0) => FIRST_REQUEST,
                (Phase::Idle, _) => IDLE,
                (Phase::Asked, _) => ANSWER_TIMES.most + LAST_PIECES,
                (Phase::Made, _) => LAST_PIECES,
            };
            tokio::select! {
                () = &mut old => return,
                () = sleep(patience) => return,
                // The sender lives as long as `self`.
                changed = loads.changed() => if changed.is_err() {
                    return;
                },
            }
        }
    }
}

impl InProgress {
    /// The answer is being made.
    pub(crate) fn making(&self) -> Making {
        Making(self.loads.clone(), self.number)
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        self.loads.send_modify(|load| load.phase = Phase::Idle);
        self.usage.rest();
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.send_modify(|load| {
            if load.begun == self.1 && load.phase == Phase::Asked {
                load.phase = Phase::Made;
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_closed_when_it_is_idle_or_its_client_reads_no_more() {
        let progress = Progress::new(Usage::default());
        let waited = async || {
            let began = Instant::now();
            progress.over().await;
            began.elapsed().as_secs()
        };
        assert_eq!(waited().await, FIRST_REQUEST.as_secs());
        let first = progress.begin();
        let making = first.making();
        let mut over = Box::pin(progress.over());
        advance(ANSWER_TIMES.most / 2).await;
        assert!((&mut over).now_or_never().is_none());
        drop(over);
        drop(making);
        assert_eq!(waited().await, LAST_PIECES.as_secs());
        let late = first.making();
        drop(first);
        assert_eq!(waited().await, IDLE.as_secs());
        // A request was left before its answer was made, and the next is in progress.
        let _next = progress.begin();
        drop(late);
        assert_eq!(waited().await, AGE.as_secs());
    }
}
