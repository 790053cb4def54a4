//! DNS over HTTPS towards an upstream (RFC 8484): by HTTP/2 all queries share a connection, by HTTP/1.1 each has one to
//! itself.
//!
//! # Not implemented
//! Paths other than `/dns-query`. What the headers say about caching: the TTLs of the reply count.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dns::Response;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::uri::Authority;
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

/// The path of queries: the one that all servers have.
const PATH: &str = "/dns-query";
/// The type of queries and replies (RFC 8484 section 6).
const MESSAGE: HeaderValue = HeaderValue::from_static("application/dns-message");
/// The largest message.
const MESSAGE_OCTETS: usize = 65_535;
/// The most octets of a reply's header.
pub(super) const HEADER_OCTETS: u32 = 16 << 10;
/// Octets that may come before they are read: of one reply, and of all of a connection.
const WINDOWS: [u32; 2] = [64 << 10, 1 << 20];

/// How queries are put.
#[derive(Debug, Clone)]
pub(crate) struct Https {
    /// The request's method.
    pub(crate) method: DohMethod,
    /// The name of the server or its address, with the port unless that is the one of HTTPS.
    pub(crate) host: Authority,
}

/// A connection.
pub(super) struct HttpsConnection {
    /// How queries are put.
    https: Https,
    /// Our address, if it is known.
    pub(super) local: Option<SocketAddr>,
    /// Takes requests.
    sender: Sender,
}

/// Takes requests; the connection ends with it.
enum Sender {
    /// One after the other.
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
    /// Begins to speak the version of HTTP that the server has chosen; `tasks` move the octets.
    pub(super) async fn open(
        https: Https,
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
            // Each query learns by itself that the connection has ended.
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

    /// The same connection for one more query, if it carries several at once.
    pub(super) fn share(&self) -> Option<Self> {
        match &self.sender {
            Sender::Http1(_) => None,
            Sender::Http2(sender) => Some(Self {
                https: self.https.clone(),
                local: self.local,
                sender: Sender::Http2(sender.clone()),
            }),
        }
    }

    /// Whether it takes one more query, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        match &self.sender {
            Sender::Http1(sender) => !sender.is_closed(),
            Sender::Http2(sender) => !sender.is_closed(),
        }
    }

    /// Asks and takes the reply.
    pub(super) async fn exchange(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        let reply = match &mut self.sender {
            Sender::Http1(sender) => {
                let (mut head, body) = self.https.request(query, "")?.into_parts();
                let host = HeaderValue::try_from(self.https.host.as_str());
                head.headers.insert(HOST, host.map_err(io::Error::other)?);
                sender.ready().await.map_err(fault)?;
                let request = Request::from_parts(head, Full::new(body));
                sender.send_request(request).await.map_err(fault)?
            }
            Sender::Http2(sender) => {
                let request = self.https.request(query, &self.https.origin())?;
                sender.ready().await.map_err(lost)?;
                let sent = sender.send_request(request.map(Full::new)).await;
                sent.map_err(lost)?
            }
        };
        decode(&read(reply).await?, id)
    }
}

impl Https {
    /// What the path of an absolute URI is put after.
    pub(super) fn origin(&self) -> String {
        format!("https://{}", self.host)
    }

    /// A query as a request; its ID is 0, so that all who ask the same send the same (RFC 8484 section 4.1).
    pub(super) fn request(&self, query: &Message, origin: &str) -> io::Result<Request<Bytes>> {
        let octets = query.without_id();
        let request = Request::builder().header(ACCEPT, MESSAGE);
        let request = match self.method {
            DohMethod::Post => request
                .method(Method::POST)
                .uri(format!("{origin}{PATH}"))
                .header(CONTENT_TYPE, MESSAGE)
                .header(CONTENT_LENGTH, octets.len())
                .body(octets.into()),
            DohMethod::Get => {
                let text = URL_SAFE_NO_PAD.encode(&octets);
                request
                    .method(Method::GET)
                    .uri(format!("{origin}{PATH}?dns={text}"))
                    .body(Bytes::new())
            }
        };
        request.map_err(io::Error::other)
    }
}

/// The octets of a reply.
async fn read(reply: http::Response<Incoming>) -> io::Result<Bytes> {
    check_status(reply.status())?;
    let body = Limited::new(reply.into_body(), MESSAGE_OCTETS).collect();
    Ok(body.await.map_err(fault)?.to_bytes())
}

/// Only a reply that was found has a message.
pub(super) fn check_status(status: StatusCode) -> io::Result<()> {
    if status == StatusCode::OK {
        return Ok(());
    }
    Err(io::Error::other(format!("HTTP status {status}")))
}

/// The message in a reply, with the ID of its query.
pub(super) fn decode(octets: &[u8], id: u16) -> io::Result<Response> {
    let response = Response::decode(octets).map_err(bad)?;
    Ok(Response { id, ..response })
}

/// The connection or its stream was lost.
pub(super) fn lost(error: impl Into<Box<dyn Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, error)
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
