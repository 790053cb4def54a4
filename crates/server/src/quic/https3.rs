//! DNS over HTTPS on a connection of QUIC: HTTP/3.
//!
//! The codec is the crate h3, within a limit of our own, as it would store a header of any length.

mod bounded;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, Bytes};
use h3::error::{Code, ConnectionError, StreamError};
use h3::server::{Connection, RequestResolver, RequestStream};
use http::StatusCode;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::debug;

use self::bounded::Bounded;
use crate::doh;
use crate::message::REQUEST_OCTETS;
use crate::own_tasks::log_end;
use crate::quic::QuicConnection;
use crate::requests::Requests;

pub use self::bounded::BoundedConnection;

/// The most bytes of a stream: header, message and frames.
const STREAM_OCTETS: usize = 32 << 10;
/// The most bytes of a request's header.
const HEADER_OCTETS: u64 = 16 << 10;
/// The most requests of a connection: h3 stores a note of each that broke off.
const MOST_REQUESTS: u64 = 1 << 16;
/// The shortest time for which last replies may be in transit.
const SHORTEST_DELIVERY: Duration = Duration::from_millis(50);

/// A connection of h3.
type H3 = Connection<BoundedConnection, Bytes>;
/// One of its requests.
type Exchange = RequestStream<Bounded<h3_quinn::BidiStream<Bytes>>, Bytes>;

/// Serves a connection to its end.
pub(crate) async fn serve(mut of: QuicConnection) {
    let most = of.settings.tcp.max_queries.unwrap_or(MOST_REQUESTS);
    of.settings.tcp.max_queries = Some(most.min(MOST_REQUESTS));
    if let Err(error) = serve_streams(&of).await {
        debug!(peer = %of.requests.client.peer, %error, "an HTTP/3 connection ended");
    }
}

/// Serves requests until the client or the server closes the connection.
async fn serve_streams(of: &QuicConnection) -> Result<(), ConnectionError> {
    let mut leave = std::pin::pin!(of.leave());
    let mut builder = h3::server::builder();
    builder.max_field_section_size(HEADER_OCTETS);
    let building = builder.build(BoundedConnection::new(of.connection.clone(), STREAM_OCTETS));
    let mut connection: H3 = tokio::select! {
        () = &mut leave => return Ok(()),
        built = building => built?,
    };
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            () = &mut leave => break,
            Some(ended) = streams.join_next() => log_end(ended),
            accepted = connection.accept() => match accepted? {
                None => break,
                Some(resolver) => {
                    let requests = Arc::clone(&of.requests);
                    streams.spawn(async move {
                        let peer = requests.client.peer;
                        if let Err(error) = requests.exchange(resolver).await {
                            debug!(%peer, %error, "an HTTP/3 request broke");
                        }
                    });
                }
            },
        }
    }
    connection.shutdown(0).await?;
    of.finish(&mut streams).await;
    // Closing drops data in transit.
    let delivery = (3 * of.connection.rtt()).max(SHORTEST_DELIVERY);
    tokio::time::sleep(delivery).await;
    Ok(())
}

impl Requests {
    /// Reads a request and sends its response.
    async fn exchange(
        &self,
        resolver: RequestResolver<BoundedConnection, Bytes>,
    ) -> Result<(), StreamError> {
        let _in_progress = self.begin();
        // A client that sends no header gets no response.
        let Ok(resolved) = timeout(self.patience(), resolver.resolve_request()).await else {
            return Ok(());
        };
        let (request, mut exchange) = resolved?;
        let carried = doh::find(&request);
        let (head, body) = match self.reply_over_http(carried, read(&mut exchange)).await {
            Ok(message) => (doh::found(&message), message),
            Err(status) => (doh::failed(status), Bytes::new()),
        };
        self.count_code(head.status().as_u16());
        let sending = async {
            exchange.send_response(head).await?;
            if !body.is_empty() {
                exchange.send_data(body).await?;
            }
            exchange.finish().await
        };
        timeout(self.stall(), sending).await.unwrap_or(Ok(()))
    }
}

/// The message in a body.
async fn read(exchange: &mut Exchange) -> Result<Vec<u8>, StatusCode> {
    let mut message = Vec::new();
    loop {
        match exchange.recv_data().await {
            Ok(Some(data)) if message.len() + data.remaining() > REQUEST_OCTETS => {
                // RFC 9114 section 4.1.2: the client need not send the rest, and that is no error.
                exchange.stop_sending(Code::H3_NO_ERROR);
                return Err(StatusCode::PAYLOAD_TOO_LARGE);
            }
            Ok(Some(mut data)) => {
                message.extend_from_slice(&data.copy_to_bytes(data.remaining()));
            }
            Ok(None) => return Ok(message),
            Err(_) => return Err(StatusCode::BAD_REQUEST),
        }
    }
}
