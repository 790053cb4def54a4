//! What the program speaks to a running replica with.

use dns::{Name, Serial};
use replicas::chain::{Epoch, Step};
use replicas::replica::Event;
use replicas::status::Status;
use replicas::term::Permit;
use tokio::sync::{mpsc, oneshot, watch};

use std::collections::BTreeMap;

/// What waits to be taken by the loop.
const INPUTS: usize = 256;

/// The loop has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the replica has ended")]
pub struct Gone;

/// Why there is no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// This replica does not lead, or its term is not open.
    #[error("this replica does not lead")]
    NotLeading,
    /// The store takes no steps.
    #[error("the store takes no steps")]
    Store,
    /// A later question for the zone took its place.
    #[error("another permit was asked for")]
    Replaced,
    /// The loop has ended.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A question for a permit.
#[derive(Debug)]
pub(super) struct Asking {
    /// The zone.
    pub(super) zone: Name,
    /// The serial is not before this one.
    pub(super) least: Option<Serial>,
    /// Receives the answer.
    pub(super) reply: oneshot::Sender<Result<Permit, Refused>>,
}

/// What the program says to the loop.
#[derive(Debug)]
pub(super) enum Input {
    Event(Event),
    Permit(Asking),
    Leave(oneshot::Sender<()>),
}

/// A running replica.
#[derive(Debug, Clone)]
pub struct Handle {
    inputs: mpsc::Sender<Input>,
    status: watch::Receiver<Status>,
}

impl Handle {
    /// A handle, and what it says.
    pub(super) fn new(status: watch::Receiver<Status>) -> (Self, mpsc::Receiver<Input>) {
        let (inputs, taken) = mpsc::channel(INPUTS);
        (Self { inputs, status }, taken)
    }

    /// The right to make the next version of a zone. Waits until the last one is announced and the ceiling is high enough; one question for
    /// each zone waits at a time.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn permit(&self, zone: Name) -> Result<Permit, Refused> {
        self.permit_from(zone, None).await
    }

    /// The same with a serial of at least `least`.
    ///
    /// # Errors
    /// [`Refused`].
    pub async fn permit_from(&self, zone: Name, least: Option<Serial>) -> Result<Permit, Refused> {
        let (reply, answer) = oneshot::channel();
        self.say(Input::Permit(Asking { zone, least, reply }))
            .await?;
        // Without an answer another question took its place, or the loop has ended.
        answer.await.unwrap_or_else(|_| {
            Err(if self.inputs.is_closed() {
                Refused::Gone(Gone)
            } else {
                Refused::Replaced
            })
        })
    }

    /// Proposes the step for a permit. It is shown, or declined.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn propose(&self, step: Step) -> Result<(), Gone> {
        self.say(Input::Event(Event::Propose(step))).await
    }

    /// The own watch is as new as the API server was when the proof was asked for; with the serials that the secondaries have.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn proven(&self, epoch: Epoch, serials: BTreeMap<Name, Serial>) -> Result<(), Gone> {
        self.say(Input::Event(Event::Proven(epoch, serials))).await
    }

    /// The own watch works, or does not.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn watch_ok(&self, is_ok: bool) -> Result<(), Gone> {
        self.say(Input::Event(Event::WatchOk(is_ok))).await
    }

    /// An operator accepts that announced versions are lost, and wants this replica to lead.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn accept_loss(&self) -> Result<(), Gone> {
        self.say(Input::Event(Event::AcceptLoss)).await
    }

    /// Hands over, because the process is about to end: no versions are made any more, and the Lease is released when all are
    /// announced. Returns when the replica neither holds the Lease nor can get it any more. While the API server is away that takes up to
    /// the renew deadline, so the caller sets a limit. The replica goes on to answer questions of others, but follows nobody.
    ///
    /// # Errors
    /// [`Gone`].
    pub async fn leave(&self) -> Result<(), Gone> {
        let (reply, left) = oneshot::channel();
        self.say(Input::Leave(reply)).await?;
        left.await.map_err(|_| Gone)
    }

    /// What it shows of itself; not older than a tenth of a second while the loop runs.
    #[must_use]
    pub fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    async fn say(&self, input: Input) -> Result<(), Gone> {
        self.inputs.send(input).await.map_err(|_| Gone)
    }
}
