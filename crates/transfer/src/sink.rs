//! The destination of a transfer's messages.

use dns::RrRef;

use crate::Packer;
use crate::packer::Push;

/// The peer has closed the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// Takes the messages of a reply, and waits while there is no room for more.
pub trait Sink: Send {
    /// Passes one message on.
    fn send(&mut self, message: Vec<u8>) -> impl Future<Output = Result<(), Closed>> + Send;

    /// Passes the last message on. Returns when the network has its last octet.
    fn finish(&mut self, message: Vec<u8>) -> impl Future<Output = Result<(), Closed>> + Send;
}

/// The reason why a transfer ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StreamError {
    /// The peer has closed the connection.
    #[error("the connection is closed")]
    Closed,
    /// A record fits no message.
    #[error("a record is too large for any message")]
    TooLarge,
    /// It took longer than its time limit, though the peer never stalled.
    #[error("it took longer than a transfer may")]
    TooLong,
}

impl From<Closed> for StreamError {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

/// Puts records into messages, and sends full ones.
pub(crate) async fn put<'a, S: Sink>(
    packer: &mut Packer,
    sink: &mut S,
    records: impl IntoIterator<Item = RrRef<'a>>,
) -> Result<(), StreamError> {
    let mut records = records.into_iter();
    let mut next = records.next();
    while let Some(rr) = next {
        match packer.push(rr) {
            Push::Taken => next = records.next(),
            Push::Full => sink.send(packer.message()).await?,
            Push::TooLarge => return Err(StreamError::TooLarge),
        }
    }
    Ok(())
}
