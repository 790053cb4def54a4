//! A connection: its requests one after another.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::progress::{IDLE, LAST_PIECES};
use crate::respond::Responder;

/// How long an idle connection may take to close.
const GOODBYE: Duration = Duration::from_secs(1);
/// The time that hyper waits beyond our own limits.
const MARGIN: Duration = Duration::from_secs(1);
/// The most bytes of the head of a request.
const HEAD_OCTETS: usize = 16 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;

/// Serves a connection until it is closed.
pub(crate) async fn serve(
    responder: Responder,
    stream: TlsStream<TcpStream>,
    cancel: &CancellationToken,
) {
    let peer = responder.peer;
    let service =
        service_fn(|request| async { Ok::<_, Infallible>(responder.respond(request).await) });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(IDLE + MARGIN)
            .max_buf_size(HEAD_OCTETS)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = responder.progress.over() => None,
        () = cancel.cancelled() => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            let patience = match cancel.is_cancelled() || responder.progress.is_idle() {
                true => GOODBYE,
                false => LAST_PIECES,
            };
            timeout(patience, connection).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        debug!(%peer, %error, "a connection of history_api broke");
    }
}
