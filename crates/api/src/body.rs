//! The body of a response: a text, or an answer that comes in pieces.
//!
//! An answer that breaks off has no end in HTTP either: the connection is closed, so that nobody takes a part for all.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use history::Piece;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc;

use crate::progress::InProgress;
use crate::refusal::Refusal;

/// The body of a response.
#[derive(Debug)]
pub(crate) struct AnswerBody {
    /// What is next.
    ready: VecDeque<Bytes>,
    rest: Rest,
    /// The request is in progress until its body is sent.
    _progress: InProgress,
}

/// What follows.
#[derive(Debug)]
enum Rest {
    /// Nothing.
    Nothing,
    /// The pieces of an answer.
    Pieces(mpsc::Receiver<Piece>),
    /// The connection is closed.
    BrokenOff,
}

/// The answer has no end.
#[derive(Debug, thiserror::Error)]
#[error("the answer broke off")]
pub(crate) struct BrokenOff;

impl AnswerBody {
    /// A text.
    pub(crate) fn whole(parts: impl IntoIterator<Item = Bytes>, progress: InProgress) -> Self {
        let parts = parts.into_iter().filter(|part| !part.is_empty());
        Self {
            ready: parts.collect(),
            rest: Rest::Nothing,
            _progress: progress,
        }
    }

    /// An answer that is still being made, with the pieces that are there.
    pub(crate) fn streamed(
        first: impl IntoIterator<Item = Bytes>,
        pieces: mpsc::Receiver<Piece>,
        progress: InProgress,
    ) -> Self {
        Self {
            rest: Rest::Pieces(pieces),
            ..Self::whole(first, progress)
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BrokenOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokenOff>>> {
        if let Some(part) = self.ready.pop_front() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        let pieces = match &mut self.rest {
            Rest::Nothing => return Poll::Ready(None),
            Rest::BrokenOff => return Poll::Ready(Some(Err(BrokenOff))),
            Rest::Pieces(pieces) => pieces,
        };
        let text = match std::task::ready!(pieces.poll_recv(cx)) {
            Some(Piece::Text(text)) => text,
            Some(Piece::End(Ok(()))) => {
                self.rest = Rest::Nothing;
                return Poll::Ready(None);
            }
            Some(Piece::End(Err(error))) => {
                self.rest = Rest::BrokenOff;
                Refusal::from(error).line().into_bytes()
            }
            None => {
                self.rest = Rest::BrokenOff;
                return Poll::Ready(Some(Err(BrokenOff)));
            }
        };
        Poll::Ready(Some(Ok(Frame::data(text.into()))))
    }

    fn is_end_stream(&self) -> bool {
        self.ready.is_empty() && matches!(self.rest, Rest::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest {
            Rest::Nothing => {
                let octets = self.ready.iter().map(|part| part.len() as u64).sum();
                SizeHint::with_exact(octets)
            }
            Rest::Pieces(_) | Rest::BrokenOff => SizeHint::default(),
        }
    }
}
