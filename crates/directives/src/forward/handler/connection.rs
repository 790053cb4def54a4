//! One connection or socket to an upstream: sends queries and receives replies.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use dns::{BadReply, Response, flags};
use server::Proto;
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::forward::handler::https::HttpsConnection;
use crate::forward::handler::query::Message;
use crate::forward::handler::quic::QuicConnection;
use crate::forward::handler::route::{Route, Secured, UpstreamTls};
use crate::forward::handler::sockets::SocketPermit;
use crate::forward::handler::stream::{self, bad};

/// The most queries at once on one connection: HTTP/2 servers accept as many (RFC 9113 section 6.5.2).
const MOST_STREAMS: usize = 100;

/// The transport of a connection.
#[derive(Debug)]
enum Channel {
    /// A connected socket: the kernel accepts datagrams from the upstream alone.
    Udp(UdpSocket),
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    Https(Box<HttpsConnection>),
    Quic(Box<QuicConnection>),
}

/// An open connection, with its age.
#[derive(Debug)]
pub(super) struct Connection {
    channel: Channel,
    /// The time at which it was opened.
    pub(super) created: Instant,
    /// When its query took it.
    pub(super) taken: Instant,
    /// When it had its last reply, or was made.
    pub(super) used: Instant,
    /// Since when queries that share it have had no reply.
    pub(super) silent_since: Option<Instant>,
    /// Whether it was used before.
    pub(super) is_used: bool,
    /// Counts the socket against the limit. Health checks have none. All queries of the connection hold it.
    permit: Arc<Option<SocketPermit>>,
}

impl Connection {
    /// Opens a connection.
    pub(super) async fn open(
        route: &Route,
        transport: Proto,
        permit: Option<SocketPermit>,
    ) -> io::Result<Self> {
        let channel = match &route.tls {
            None if transport == Proto::Udp => {
                let socket = UdpSocket::bind(route.local_address()).await?;
                socket.connect(route.address).await?;
                Channel::Udp(socket)
            }
            None => Channel::Tcp(tcp(route).await?),
            Some(tls) => match &tls.protocol {
                Secured::Tls => Channel::Tls(Box::new(shake_hands(route, tls).await?)),
                Secured::Https(https) => {
                    let stream = shake_hands(route, tls).await?;
                    let tasks = route.tasks.starter();
                    let https = HttpsConnection::open(Arc::clone(https), stream, &tasks).await?;
                    Channel::Https(Box::new(https))
                }
                Secured::Https3(_) | Secured::Quic => {
                    Channel::Quic(Box::new(QuicConnection::open(route, tls).await?))
                }
            },
        };
        let now = Instant::now();
        Ok(Self {
            channel,
            created: now,
            taken: now,
            used: now,
            silent_since: None,
            is_used: false,
            permit: Arc::new(permit),
        })
    }

    /// A handle of the same connection for one more query, if it carries several at once.
    pub(super) fn share(&mut self) -> Option<Self> {
        let channel = match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => return None,
            Channel::Https(https) => Channel::Https(Box::new(https.share()?)),
            Channel::Quic(quic) => Channel::Quic(quic.clone()),
        };
        let taken = Instant::now();
        self.silent_since.get_or_insert(taken);
        Some(Self {
            channel,
            taken,
            permit: Arc::clone(&self.permit),
            ..*self
        })
    }

    /// Notes that a reply came.
    pub(super) fn note_reply(&mut self) {
        self.used = Instant::now();
        self.is_used = true;
        self.silent_since = None;
    }

    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.permit, &other.permit)
    }

    /// Whether it carries several queries at once.
    pub(super) fn is_shareable(&self) -> bool {
        match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => false,
            Channel::Https(https) => https.is_shareable(),
            Channel::Quic(_) => true,
        }
    }

    /// Whether it carries the most queries that it may.
    pub(super) fn is_full(&self) -> bool {
        Arc::strong_count(&self.permit) > MOST_STREAMS
    }

    /// Our address, if it is known.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match &self.channel {
            Channel::Udp(socket) => socket.local_addr().ok(),
            Channel::Tcp(stream) => stream.local_addr().ok(),
            Channel::Tls(stream) => stream.get_ref().0.local_addr().ok(),
            Channel::Https(https) => https.local,
            Channel::Quic(_) => None,
        }
    }

    /// Whether it accepts one more query. This does not look at the network.
    pub(super) fn is_open(&self) -> bool {
        match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => true,
            Channel::Https(https) => https.is_open(),
            Channel::Quic(quic) => quic.is_open(),
        }
    }

    pub(super) async fn send(&mut self, query: &Message) -> io::Result<()> {
        match &mut self.channel {
            Channel::Udp(socket) => socket.send(&query.octets).await.map(drop),
            Channel::Tcp(stream) => stream::write(stream, &query.octets).await,
            Channel::Tls(stream) => stream::write(stream, &query.octets).await,
            // It is sent when the reply is waited for.
            Channel::Https(_) | Channel::Quic(_) => Ok(()),
        }
    }

    /// Takes the reply with this ID. Others are ignored: of earlier queries, or forged.
    pub(super) async fn receive(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        match &mut self.channel {
            Channel::Udp(socket) => datagram(socket, query).await,
            Channel::Tcp(stream) => stream::read(stream, id).await,
            Channel::Tls(stream) => stream::read(stream, id).await,
            Channel::Https(https) => https.exchange(query, id).await,
            Channel::Quic(quic) => quic.exchange(query, id).await,
        }
    }
}

async fn tcp(route: &Route) -> io::Result<TcpStream> {
    let socket = match route.address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if route.source.is_some() {
        socket.bind(route.local_address())?;
    }
    let stream = socket.connect(route.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn shake_hands(route: &Route, tls: &UpstreamTls) -> io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    connector.connect(tls.name.clone(), tcp(route).await?).await
}

/// Takes datagrams until the reply to the query comes (RFC 5452 section 9.1). One that was cut, as it is larger than was
/// asked for, is a truncated reply: the client comes again by TCP.
async fn datagram(socket: &UdpSocket, query: &Message) -> io::Result<Response> {
    let mut buffer = vec![0; usize::from(query.most_octets)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let octets = &buffer[..length];
        if !query.is_answered_by(octets) {
            continue;
        }
        return match Response::decode(octets) {
            Ok(response) => Ok(response),
            Err(BadReply::Ends {
                flags: its_flags, ..
            }) => Ok(Response {
                flags: its_flags | flags::TC,
                rcode: dns::Rcode(its_flags & 15),
                ..Response::decode(&query.as_reply()).map_err(bad)?
            }),
            Err(error @ (BadReply::NoHeader | BadReply::Malformed { .. })) => Err(bad(error)),
        };
    }
}
