//! DNS over HTTPS on a connection: HTTP/2, and HTTP/1.1 for clients that choose it.
//!
//! The codec is hyper's, the limits are ours. hickory-server's own listener answers no GET and no HTTP/1.1, gives no
//! status to a bad request, and has no limit of connections.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::activity::Leave;
use crate::doh;
use crate::message::REQUEST_OCTETS;
use crate::own_tasks::OwnTasks;
use crate::requests::Requests;
use crate::{Proto, Stats};

/// The most bytes of a request's header.
const HEADER_OCTETS: u32 = 16 << 10;
/// The bytes that a client may send before they are read: in one stream, and on the whole connection.
const WINDOWS: [u32; 2] = [8 << 10, 64 << 10];

/// The time that hyper waits for a header beyond our own timeouts.
const HEADER_MARGIN: Duration = Duration::from_secs(1);
/// How long an idle connection may take to end.
const GOODBYE: Duration = Duration::from_secs(1);

/// Serves the requests of a connection until the client or the server closes it.
pub(crate) async fn serve(
    requests: Requests,
    stream: TlsStream<TcpStream>,
    is_h2: bool,
    stats: &Stats,
    cancel: &CancellationToken,
) {
    let settings = requests.settings();
    let peer = requests.client.peer;
    let requests = Arc::new(requests);
    let service = {
        let requests = Arc::clone(&requests);
        service_fn(move |request| {
            let requests = Arc::clone(&requests);
            async move { Ok::<_, std::convert::Infallible>(requests.respond(request).await) }
        })
    };
    let leave = requests.leave(&settings.tcp, &stats.tcp_timed_out, cancel);
    let stall = settings.tcp.stall_timeout;
    let io = TokioIo::new(stream);
    let ended = if is_h2 {
        let streams = OwnTasks::default();
        let connection = http2::Builder::new(streams.starter())
            .timer(TokioTimer::new())
            .max_concurrent_streams(settings.stream_limits(Proto::Https).max_streams)
            .max_header_list_size(HEADER_OCTETS)
            .initial_stream_window_size(WINDOWS[0])
            .initial_connection_window_size(WINDOWS[1])
            .serve_connection(io, service);
        run(
            connection,
            http2::Connection::graceful_shutdown,
            leave,
            stall,
        )
        .await
    } else {
        // hyper's time begins with the previous reply, and is not counted. Our own timeout comes first.
        let header_timeout = settings.tcp.unused_timeout();
        let header_timeout = header_timeout.saturating_add(HEADER_MARGIN);
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(header_timeout)
            .max_buf_size(HEADER_OCTETS as usize)
            .serve_connection(io, service);
        run(
            connection,
            http1::Connection::graceful_shutdown,
            leave,
            stall,
        )
        .await
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "an HTTPS connection broke");
    }
}

/// Drives a connection to its end. When it has to be closed, its requests are still answered, within `stall`. An idle one
/// has no request, or half a header.
async fn run<C>(
    connection: C,
    shut_down: impl Fn(Pin<&mut C>),
    leave: impl Future<Output = Leave>,
    stall: Duration,
) -> hyper::Result<()>
where
    C: Future<Output = hyper::Result<()>>,
{
    let mut connection = pin!(connection);
    let leave = tokio::select! {
        ended = connection.as_mut() => return ended,
        leave = leave => leave,
    };
    shut_down(connection.as_mut());
    let patience = match leave {
        Leave::Idle => stall.min(GOODBYE),
        Leave::Enough => stall,
    };
    timeout(patience, connection).await.unwrap_or(Ok(()))
}

impl Requests {
    /// The response to a request.
    async fn respond(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let _in_progress = self.begin();
        let carried = doh::find(&request);
        let body = read(request.into_body());
        let response = match self.reply_over_http(carried, body).await {
            Ok(message) => doh::found(&message).map(|()| Full::new(message)),
            Err(status) => doh::failed(status).map(|()| Full::default()),
        };
        self.count_code(response.status().as_u16());
        response
    }
}

/// The message in a body.
async fn read(body: Incoming) -> Result<Vec<u8>, StatusCode> {
    match Limited::new(body, REQUEST_OCTETS).collect().await {
        Ok(body) => Ok(body.to_bytes().into()),
        Err(error) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}

#[cfg(test)]
mod tests;
