//! What callers on the control socket ask of the process itself: `reload`, `stop`, `promote`, `notify`.

use std::net::SocketAddr;
use std::time::Duration;

use dns::Name;
use history::AuditError;
use provenance::Operator;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

/// Wishes that wait for the process. A caller waits for a place.
const WAITING: usize = 8;
/// How long a caller waits: a reload may open sources for 30 s.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// What a caller asks for, with the way of the answer.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// Read the Corefile and put it into use. The answer says why that failed.
    Reload(oneshot::Sender<Result<(), String>>),
    /// End as at SIGTERM.
    Stop(oneshot::Sender<()>),
    /// Let this replica lead although versions may be lost. The answer says why that is not possible.
    Promote(oneshot::Sender<Result<(), String>>),
    /// Notify the secondaries of a zone again. The answer has their addresses.
    Notify(Name, oneshot::Sender<Vec<SocketAddr>>),
}

/// A wish, and the caller.
#[derive(Debug)]
pub(crate) struct CallerWish {
    pub(crate) by: Operator,
    pub(crate) wanted: Wanted,
}

/// The way to the process.
#[derive(Debug, Clone)]
pub(crate) struct Wishes(mpsc::Sender<CallerWish>);

impl Wishes {
    /// The way to the process, and its end there.
    pub(crate) fn new() -> (Self, mpsc::Receiver<CallerWish>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Hands a wish over and waits for the answer; for a thread of the runtime that may wait.
    pub(crate) fn ask<T>(
        &self,
        by: &Operator,
        wanted: impl FnOnce(oneshot::Sender<T>) -> Wanted,
    ) -> Result<T, AuditError> {
        let (asked, answer) = oneshot::channel();
        let wish = CallerWish {
            by: by.clone(),
            wanted: wanted(asked),
        };
        let asks = async {
            self.0.send(wish).await.ok()?;
            answer.await.ok()
        };
        let waits = async { tokio::time::timeout(ANSWERED_WITHIN, asks).await };
        match Handle::current().block_on(waits) {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(AuditError::Refused(
                "the server is shutting down".to_owned(),
            )),
            Err(_) => {
                let why = "the server did not answer in time; its log says whether it was done";
                Err(AuditError::Refused(why.to_owned()))
            }
        }
    }
}
