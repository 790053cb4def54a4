//! DNS over HTTPS towards an upstream (RFC 8484): by HTTP/2 all queries share a connection, by HTTP/1.1 each has one to
//! itself.
//!
//! # Not implemented
//! - Paths other than `/dns-query`.
//! - Caching headers: the TTLs of the reply count.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dns::{MAX_MESSAGE_OCTETS, Response};
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Uri};
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use server::Starter;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::config::DohMethod;
use crate::forward::handler::query::Message;
use crate::forward::handler::stream::bad;

/// The path of queries, which all servers have.
const PATH: &str = "/dns-query";
/// The type of queries and replies (RFC 8484 section 6).
const MESSAGE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The most bytes of a reply's header.
pub(super) const HEADER_OCTETS: u32 = 16 << 10;
/// The bytes that may arrive before they are read: of one reply, and of all replies on a connection.
pub(super) const WINDOWS: [u32; 2] = [64 << 10, 1 << 20];

/// The parts of a request that are the same for all queries.
#[derive(Debug)]
pub(crate) struct Https {
    /// The request's method.
    method: DohMethod,
    /// What is asked for, in the form for a server that has its name from elsewhere (RFC 9112 section 3.2.1).
    origin_form: Uri,
    /// The same with scheme and host.
    pub(super) absolute_form: Uri,
    /// The host, where it is a field of its own.
    host: HeaderValue,
}

/// An HTTP status that is not that of a reply with a message.
#[derive(Debug, thiserror::Error)]
#[error("HTTP status {0}")]
struct BadStatus(StatusCode);

pub(super) struct HttpsConnection {
    https: Arc<Https>,
    /// Our address, if it is known.
    pub(super) local: Option<SocketAddr>,
    /// Sends requests. The connection ends when it is dropped.
    sender: Sender,
}

/// Sends requests.
enum Sender {
    /// One at a time.
    Http1(http1::SendRequest<Full<Bytes>>),
    /// Many at once.
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl fmt::Debug for HttpsConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpsConnection({:?})", self.local)
    }
}

impl HttpsConnection {
    /// Opens HTTP in the version that the server has chosen. `tasks` drive the connection.
    pub(super) async fn open(
        https: Arc<Https>,
        stream: TlsStream<TcpStream>,
        tasks: &Starter,
    ) -> io::Result<Self> {
        let (socket, session) = stream.get_ref();
        let local = socket.local_addr().ok();
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let stream = TokioIo::new(stream);
        let sender = if is_http2 {
            let (sender, driver) = http2::Builder::new(tasks.clone())
                .timer(TokioTimer::new())
                .initial_stream_window_size(WINDOWS[0])
                .initial_connection_window_size(WINDOWS[1])
                .max_header_list_size(HEADER_OCTETS)
                .handshake(stream)
                .await
                .map_err(fault)?;
            // A query notices by itself when the connection has ended.
            tasks.start(async { drop(driver.await) });
            Sender::Http2(sender)
        } else {
            let (sender, driver) = http1::handshake(stream).await.map_err(fault)?;
            tasks.start(async { drop(driver.await) });
            Sender::Http1(sender)
        };
        Ok(Self {
            https,
            local,
            sender,
        })
    }

    /// A handle of the same connection for one more query, if it carries several at once.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self {
                https: Arc::clone(&self.https),
                local: self.local,
                sender: Sender::Http2(sender.clone()),
            }),
        }
    }

    /// Whether it carries several queries at once.
    pub(super) const fn is_shareable(&self) -> bool {
        match &self.sender {
            Sender::Http1(_) => false,
            Sender::Http2(_) => true,
        }
    }

    /// Whether it accepts one more query, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Sends a query and receives its reply.
    pub(super) async fn exchange(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        let reply = match &mut self.sender {
            Sender::Http1(sender) => {
                let mut request = self.https.request(query, &self.https.origin_form)?;
                let host = self.https.host.clone();
                request.headers_mut().insert(HOST, host);
                sender.ready().await.map_err(fault)?;
                let sent = sender.send_request(request.map(Full::new)).await;
                sent.map_err(fault)?
            }
            Sender::Http2(sender) => {
                let request = self.https.request(query, &self.https.absolute_form)?;
                sender.ready().await.map_err(lost)?;
                let sent = sender.send_request(request.map(Full::new)).await;
                sent.map_err(lost)?
            }
        };
        decode(&read(reply).await?, id)
    }
}

impl Https {
    /// Queries for a host, which is the name of the server or its address, with the port unless that is the one of HTTPS.
    ///
    /// # Errors
    /// When it is no host.
    pub(crate) fn new(method: DohMethod, host: &str) -> Result<Self, http::Error> {
        let authority: Authority = host.parse()?;
        Ok(Self {
            method,
            origin_form: Uri::from_static(PATH),
            host: HeaderValue::try_from(host)?,
            absolute_form: Uri::builder()
                .scheme("https")
                .authority(authority)
                .path_and_query(PathAndQuery::from_static(PATH))
                .build()?,
        })
    }

    /// A query as a request. Its ID is 0, so that equal queries are equal requests (RFC 8484 section 4.1).
    pub(super) fn request(&self, query: &Message, uri: &Uri) -> io::Result<Request<Bytes>> {
        let octets = query.without_id();
        let request = Request::builder().header(ACCEPT, MESSAGE);
        let request = match self.method {
            DohMethod::Post => request
                .method(Method::POST)
                .uri(uri.clone())
                .header(CONTENT_TYPE, MESSAGE)
                .header(CONTENT_LENGTH, octets.len())
                .body(octets.into()),
            DohMethod::Get => {
                let text = URL_SAFE_NO_PAD.encode(&octets);
                request
                    .method(Method::GET)
                    .uri(format!("{uri}?dns={text}"))
                    .body(Bytes::new())
            }
        };
        request.map_err(io::Error::other)
    }
}

/// The body of a reply.
async fn read(reply: http::Response<Incoming>) -> io::Result<Bytes> {
    check_status(reply.status())?;
    let body = Limited::new(reply.into_body(), MAX_MESSAGE_OCTETS).collect();
    Ok(body.await.map_err(fault)?.to_bytes())
}

/// Only a reply with the status 200 has a message.
pub(super) fn check_status(status: StatusCode) -> io::Result<()> {
    if status == StatusCode::OK {
        return Ok(());
    }
    Err(io::Error::other(BadStatus(status)))
}

/// Whether an error is what a reply says: the connection is good.
pub(super) fn is_reply(error: &io::Error) -> bool {
    let cause = error.get_ref();
    error.kind() == io::ErrorKind::InvalidData || cause.is_some_and(|it| it.is::<BadStatus>())
}

/// The message in a reply, with the ID of its query.
pub(super) fn decode(octets: &[u8], id: u16) -> io::Result<Response> {
    let response = Response::decode(octets).map_err(bad)?;
    Ok(Response { id, ..response })
}

/// The error for a lost connection or stream.
pub(super) fn lost(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
}

/// An error of HTTP as an I/O error, of the kind of the system's error below it. A closed connection becomes an end of
/// file.
fn fault(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    let error = error.into();
    let first: &(dyn Error + 'static) = &*error;
    let kind = std::iter::successors(Some(first), |&error| error.source()).find_map(kind_of);
    io::Error::new(kind.unwrap_or(io::ErrorKind::Other), error)
}

/// The kind of this error alone, without its causes.
fn kind_of(error: &(dyn Error + 'static)) -> Option<io::ErrorKind> {
    if let Some(error) = error.downcast_ref::<io::Error>() {
        return Some(error.kind());
    }
    let error = error.downcast_ref::<hyper::Error>()?;
    let has_ended = error.is_closed() || error.is_canceled() || error.is_incomplete_message();
    has_ended.then_some(io::ErrorKind::UnexpectedEof)
}
