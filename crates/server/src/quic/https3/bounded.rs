//! Bounds the data that the peer may send in one stream of HTTP/3. The crate h3 stores a frame until it is complete,
//! whatever its length.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use h3::error::Code;
use h3::quic::{
    Connection, ConnectionErrorIncoming, OpenStreams, RecvStream, SendStream, StreamErrorIncoming,
    StreamId, WriteBuf,
};

/// The most octets of a stream in one direction. A client has few of them, and its control stream lasts as long as the
/// connection.
const ONE_WAY_OCTETS: usize = 256 << 10;

/// A connection whose streams are bounded.
pub struct BoundedConnection {
    /// The connection.
    connection: h3_quinn::Connection,
    /// The most octets of a stream in both directions: its header, its message, and what frames them.
    most_octets: usize,
}

/// Opens streams of it.
#[derive(Clone)]
pub struct BoundedOpener {
    /// Opens streams without a bound.
    connection: h3_quinn::OpenStreams,
    /// The most octets of a stream.
    most_octets: usize,
}

/// A bounded stream.
pub struct Bounded<S> {
    /// The stream.
    stream: S,
    /// The bytes that may still arrive.
    left: usize,
}

/// A stream has more bytes than it may have.
#[derive(Debug, thiserror::Error)]
#[error("a stream is larger than it may be")]
struct TooLarge;

impl BoundedConnection {
    /// Bounds what the other side may send in each stream of a connection, in one of both directions to `most_octets`.
    #[must_use]
    pub fn new(connection: quinn::Connection, most_octets: usize) -> Self {
        Self {
            connection: h3_quinn::Connection::new(connection),
            most_octets,
        }
    }
}

const fn bounded<S>(stream: S, left: usize) -> Bounded<S> {
    Bounded { stream, left }
}

impl Connection<Bytes> for BoundedConnection {
    type RecvStream = Bounded<h3_quinn::RecvStream>;
    type OpenStreams = BoundedOpener;

    fn poll_accept_recv(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::RecvStream, ConnectionErrorIncoming>> {
        Connection::<Bytes>::poll_accept_recv(&mut self.connection, cx)
            .map_ok(|stream| bounded(stream, ONE_WAY_OCTETS))
    }

    fn poll_accept_bidi(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Self::BidiStream, ConnectionErrorIncoming>> {
        let most_octets = self.most_octets;
        Connection::<Bytes>::poll_accept_bidi(&mut self.connection, cx)
            .map_ok(|stream| bounded(stream, most_octets))
    }

    fn opener(&self) -> Self::OpenStreams {
        BoundedOpener {
            connection: Connection::<Bytes>::opener(&self.connection),
            most_octets: self.most_octets,
        }
    }
}

/// Both types open streams in the same way.
macro_rules! opens_streams {
    ($type:ty) => {
        impl OpenStreams<Bytes> for $type {
            type BidiStream = Bounded<h3_quinn::BidiStream<Bytes>>;
            type SendStream = h3_quinn::SendStream<Bytes>;

            fn poll_open_bidi(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::BidiStream, StreamErrorIncoming>> {
                let most_octets = self.most_octets;
                OpenStreams::<Bytes>::poll_open_bidi(&mut self.connection, cx)
                    .map_ok(|stream| bounded(stream, most_octets))
            }

            fn poll_open_send(
                &mut self,
                cx: &mut Context<'_>,
            ) -> Poll<Result<Self::SendStream, StreamErrorIncoming>> {
                OpenStreams::<Bytes>::poll_open_send(&mut self.connection, cx)
            }

            fn close(&mut self, code: Code, reason: &[u8]) {
                OpenStreams::<Bytes>::close(&mut self.connection, code, reason);
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
