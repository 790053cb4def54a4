//! One connection or socket towards an upstream: how a query goes out and its reply comes in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use dns::{BadReply, Response, flags};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::forward::handler::https::HttpsConnection;
use crate::forward::handler::query::Message;
use crate::forward::handler::quic::QuicConnection;
use crate::forward::handler::route::{Route, Secured, Transport, UpstreamTls};
use crate::forward::handler::sockets::SocketPermit;
use crate::forward::handler::stream::{self, bad};

/// The most queries at once on one connection: servers of HTTP/2 take as many (RFC 9113 section 6.5.2).
const MOST_STREAMS: usize = 100;

/// What goes out through it.
#[derive(Debug)]
enum Channel {
    /// A socket that is connected: the kernel takes datagrams from the upstream alone.
    Udp(UdpSocket),
    /// A connection.
    Tcp(TcpStream),
    /// A connection over TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// HTTP over TLS.
    Https(Box<HttpsConnection>),
    /// QUIC.
    Quic(Box<QuicConnection>),
}

/// A connection, with its age.
#[derive(Debug)]
pub(super) struct Connection {
    /// Where octets go.
    channel: Channel,
    /// When it was made.
    pub(super) created: Instant,
    /// When it was used last.
    pub(super) used: Instant,
    /// Whether it was used before.
    pub(super) is_used: bool,
    /// One of the sockets that there may be; a check of health needs none. All queries of the connection hold it.
    permit: Arc<Option<SocketPermit>>,
}

impl Connection {
    /// Opens one.
    pub(super) async fn open(
        route: &Route,
        transport: Transport,
        permit: Option<SocketPermit>,
    ) -> io::Result<Self> {
        let channel = match &route.tls {
            None if transport == Transport::Udp => {
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
                    let https = HttpsConnection::open(https.clone(), stream, &tasks).await?;
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
            used: now,
            is_used: false,
            permit: Arc::new(permit),
        })
    }

    /// The same connection for one more query, if it carries several at once.
    pub(super) fn share(&self) -> Option<Self> {
        let channel = match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => return None,
            Channel::Https(https) => Channel::Https(Box::new(https.share()?)),
            Channel::Quic(quic) => Channel::Quic(quic.clone()),
        };
        Some(Self {
            channel,
            permit: Arc::clone(&self.permit),
            ..*self
        })
    }

    /// Whether this is the same connection.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.permit, &other.permit)
    }

    /// Whether other queries have it too, or may take it.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.permit) > 1
    }

    /// Whether it carries as many queries as it may.
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

    /// Whether it takes one more query, as far as is known without looking at the network.
    pub(super) fn is_open(&self) -> bool {
        match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => true,
            Channel::Https(https) => https.is_open(),
            Channel::Quic(quic) => quic.is_open(),
        }
    }

    /// Sends a query.
    pub(super) async fn send(&mut self, query: &Message) -> io::Result<()> {
        match &mut self.channel {
            Channel::Udp(socket) => socket.send(&query.octets).await.map(drop),
            Channel::Tcp(stream) => stream::write(stream, &query.octets).await,
            Channel::Tls(stream) => stream::write(stream, &query.octets).await,
            // It goes out when the reply is waited for.
            Channel::Https(_) | Channel::Quic(_) => Ok(()),
        }
    }

    /// Takes the reply with this ID. Others are ignored: of earlier queries, or made up by somebody.
    pub(super) async fn receive(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        match &mut self.channel {
            Channel::Udp(socket) => datagram(socket, query, id).await,
            Channel::Tcp(stream) => stream::read(stream, id).await,
            Channel::Tls(stream) => stream::read(stream, id).await,
            Channel::Https(https) => https.exchange(query, id).await,
            Channel::Quic(quic) => quic.exchange(query, id).await,
        }
    }
}

/// Opens a connection.
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

/// Opens a connection over TLS.
async fn shake_hands(route: &Route, tls: &UpstreamTls) -> io::Result<TlsStream<TcpStream>> {
    let connector = TlsConnector::from(Arc::clone(&tls.config));
    connector.connect(tls.name.clone(), tcp(route).await?).await
}

/// Takes datagrams until the one with this ID. One that was cut, as it is larger than was asked for, is a
/// truncated reply: the client comes again by TCP.
async fn datagram(socket: &UdpSocket, query: &Message, id: u16) -> io::Result<Response> {
    let mut buffer = vec![0; usize::from(query.most_octets)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        let octets = &buffer[..length];
        match Response::decode(octets) {
            Ok(response) if response.id == id => return Ok(response),
            Err(BadReply::Ends {
                id: its,
                flags: its_flags,
            }) if its == id => {
                let question = octets.get(12..12 + query.question().len());
                if question != Some(query.question()) {
                    return Err(bad(BadReply::Malformed { id }));
                }
                let question = Response::decode(&as_reply(query)).map_err(bad)?.question;
                return Ok(Response {
                    id,
                    flags: its_flags | flags::TC,
                    rcode: dns::Rcode(its_flags & 15),
                    question,
                    ..Response::default()
                });
            }
            Err(error @ BadReply::Malformed { id: its }) if its == id => return Err(bad(error)),
            Ok(_)
            | Err(BadReply::NoHeader | BadReply::Ends { .. } | BadReply::Malformed { .. }) => {}
        }
    }
}

/// The header and question of a query, which read as a reply give its question.
fn as_reply(query: &Message) -> Vec<u8> {
    let mut octets = query.octets[..query.question_end].to_vec();
    octets[6..12].fill(0);
    octets
}
