//! Bounds what a client may send in one stream of HTTP/3. The crate h3 holds a frame until it is whole, whatever its length.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};

/// The most octets of a stream: a header, a message, and what frames them.
const MOST_OCTETS: usize = 32 << 10;

/// A connection whose streams are bounded.
pub(super) struct BoundedConnection(h3_quinn::Connection);

/// What opens streams of it.
pub(super) struct BoundedOpener(h3_quinn::OpenStreams);

/// A bounded stream.
pub(super) struct Bounded<S> {
    /// The stream.
    stream: S,
    /// Octets that may still come.
    left: usize,
}

/// A stream has more octets than it may have.
#[derive(Debug, thiserror::Error)]
#[error("a stream is larger than {MOST_OCTETS} octets")]
struct TooLarge;

impl BoundedConnection {
    /// Bounds the streams of a connection.
    pub(super) fn new(connection: quinn::Connection) -> Self {
        Self(h3_quinn::Connection::new(connection))
    }
}

/// Bounds a stream.
const fn bounded<S>(stream: S) -> Bounded<S> {
    Bounded {
        stream,
        left: MOST_OCTETS,
    }
}

impl Connection<Bytes> for BoundedConnection {
    type RecvStream = Bounded<h3_quinn::RecvStream>;
    type OpenStreams = BoundedOpener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        Connection::<Bytes>::poll_accept_recv(&mut self.0, cx).map_ok(bounded)
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        Connection::<Bytes>::poll_accept_bidi(&mut self.0, cx).map_ok(bounded)
    }

    fn opener(&self) -> Self::OpenStreams {
        BoundedOpener(Connection::<Bytes>::opener(&self.0))
    }
}

/// Opening is the same for both.
macro_rules! opens_streams {
    ($type:ty) => {
        impl OpenStreams<Bytes> for $type {
            type BidiStream = Bounded<h3_quinn::BidiStream<Bytes>>;
            type SendStream = h3_quinn::SendStream<Bytes>;

            fn poll_open_bidi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
                OpenStreams::<Bytes>::poll_open_bidi(&mut self.0, cx).map_ok(bounded)
            }

            fn poll_open_send(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
                OpenStreams::<Bytes>::poll_open_send(&mut self.0, cx)
            }

            fn close(&mut self, code: Code, reason: &[u8]) {
                OpenStreams::<Bytes>::close(&mut self.0, code, reason);
            }
        }
    };
}

opens_streams!(BoundedConnection);
opens_streams!(BoundedOpener);

impl<S: RecvStream> RecvStream for Bounded<S> {
    type Buf = S::Buf;

    fn poll_data(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<Self::Buf>, StreamErrorIncoming>> {
        let read = std::task::ready!(self.stream.poll_data(cx))?;
        let octets = read.as_ref().map_or(0, Buf::remaining);
        let left = self.left.checked_sub(octets);
        self.left = left.ok_or_else(|| StreamErrorIncoming::Unknown(Box::new(TooLarge)))?;
        Poll::Ready(Ok(read))
    }

    fn stop_sending(&mut self, error_code: u64) {
        self.stream.stop_sending(error_code);
    }

    fn recv_id(&self) -> StreamId {
        self.stream.recv_id()
    }
}

impl<S: SendStream<Bytes>> SendStream<Bytes> for Bounded<S> {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_ready(cx)
    }

    fn send_data<T: Into<WriteBuf<Bytes>>>(&mut self, data: T) -> Result<(), StreamErrorIncoming> {
        self.stream.send_data(data)
    }

    fn poll_finish(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), StreamErrorIncoming>> {
        self.stream.poll_finish(cx)
    }

    fn reset(&mut self, reset_code: u64) {
        self.stream.reset(reset_code);
    }

    fn send_id(&self) -> StreamId {
        self.stream.send_id()
    }
}
