//! DNS over HTTPS towards an upstream (RFC 8484): one query at a time over a connection that is kept.
//!
//! # Not implemented
//! HTTP/2, which RFC 8484 section 5.2 recommends: HTTP/1.1 alone is offered. Paths other than `/dns-query`. What the
//! headers say about caching: the TTLs of the reply count.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dns::Response;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::config::DohMethod;
use crate::forward::handler::query::Message;

/// The path of queries: the one that all servers have.
const PATH: &str = "/dns-query";
/// The type of queries and replies (RFC 8484 section 6).
const MESSAGE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The largest message.
const MOST_OCTETS: usize = 65_535;

/// Moves the octets of a connection.
type Driver = http1::Connection<TokioIo<TlsStream<TcpStream>>, Full<Bytes>>;

/// How queries are put.
#[derive(Debug, Clone)]
pub struct Https {
    /// What the request's method is.
    pub method: DohMethod,
    /// The name of the server, or its address.
    pub host: HeaderValue,
}

/// A connection.
pub(super) struct HttpsConnection {
    /// How queries are put.
    https: Https,
    /// Our address, if it can be told.
    pub(super) local: Option<SocketAddr>,
    /// Takes requests.
    sender: SendRequest<Full<Bytes>>,
    /// Moves octets while it is polled: beside each exchange, and not in between. Nothing once the connection
    /// has ended: requests to a driver that is not polled any more would wait for ever.
    driver: Option<Driver>,
}

impl fmt::Debug for HttpsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpsConnection({:?})", self.local)
    }
}

impl HttpsConnection {
    /// Begins to speak HTTP.
    pub(super) async fn open(https: Https, stream: TlsStream<TcpStream>) -> io::Result<Self> {
        let local = stream.get_ref().0.local_addr().ok();
        let (sender, driver) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(fault)?;
        Ok(Self {
            https,
            local,
            sender,
            driver: Some(driver),
        })
    }

    /// Whether it takes one more query, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some() && !self.sender.is_closed()
    }

    /// Asks and takes the reply.
    pub(super) async fn exchange(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        let request = self.https.request(query)?;
        let Self { sender, driver, .. } = self;
        let Some(moving) = driver else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        let exchange = async {
            sender.ready().await.map_err(fault)?;
            read(sender.send_request(request).await.map_err(fault)?).await
        };
        tokio::pin!(exchange);
        let octets = tokio::select! {
            octets = &mut exchange => octets?,
            // What was read before the connection ended, in whichever way, may be all.
            _ended = moving => {
                *driver = None;
                exchange.await?
            }
        };
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let response = Response::decode(&octets).map_err(invalid)?;
        Ok(Response { id, ..response })
    }
}

impl Https {
    /// A query as a request; its ID is 0, so that all who ask the same send the same (RFC 8484 section 4.1).
    fn request(&self, query: &Message) -> io::Result<Request<Full<Bytes>>> {
        let mut octets = query.octets.clone();
        octets[..2].fill(0);
        let request = Request::builder()
            .header(HOST, self.host.clone())
            .header(ACCEPT, MESSAGE);
        let request = match self.method {
            DohMethod::Post => request
                .method(Method::POST)
                .uri(PATH)
                .header(CONTENT_TYPE, MESSAGE)
                .body(Full::from(octets)),
            DohMethod::Get => {
                let text = URL_SAFE_NO_PAD.encode(&octets);
                request
                    .method(Method::GET)
                    .uri(format!("{PATH}?dns={text}"))
                    .body(Full::default())
            }
        };
        request.map_err(io::Error::other)
    }
}

/// The octets of a reply.
async fn read(reply: http::Response<Incoming>) -> io::Result<Bytes> {
    if reply.status() != StatusCode::OK {
        let text = format!("HTTP status {}", reply.status());
        return Err(io::Error::other(text));
    }
    let body = Limited::new(reply.into_body(), MOST_OCTETS).collect().await;
    Ok(body.map_err(fault)?.to_bytes())
}

/// An error of HTTP as one of a connection: of the kind that the system's had, and what is closed has ended.
fn fault(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    let error = error.into();
    let first: &(dyn Error + 'static) = &*error;
    let kind = std::iter::successors(Some(first), |&error| error.source()).find_map(kind_of);
    io::Error::new(kind.unwrap_or(io::ErrorKind::Other), error)
}

/// What kind of an error this one is, its causes aside.
fn kind_of(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return Some(error.kind());
    }
    let error = error.downcast_ref::<hyper::Error>()?;
    let has_ended = error.is_closed() || error.is_canceled() || error.is_incomplete_message();
    has_ended.then_some(io::ErrorKind::UnexpectedEof)
}
