//! One connection or socket towards an upstream: how a query goes out and its reply comes in.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dns::{BadReply, Response, flags};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UdpSocket};
use tokio::time::Instant;
use tokio_rustls::client::TlsStream;

use crate::forward::handler::https::HttpsConnection;
use crate::forward::handler::query::Message;
use crate::forward::handler::sockets::SocketPermit;
use crate::forward::handler::upstream::UpstreamTls;

/// Over what a query goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
    /// A connection over TLS.
    Tls,
    /// HTTP over TLS.
    Https,
}

impl Transport {
    /// All of them, in the order of their places.
    pub(super) const ALL: [Self; 4] = [Self::Udp, Self::Tcp, Self::Tls, Self::Https];

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
            Self::Https => "https",
        }
    }

    /// Its place among all.
    pub(super) const fn place(self) -> usize {
        match self {
            Self::Udp => 0,
            Self::Tcp => 1,
            Self::Tls => 2,
            Self::Https => 3,
        }
    }
}

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
    /// One of the sockets that there may be; a check of health needs none.
    _permit: Option<SocketPermit>,
}

impl Connection {
    /// Opens one.
    pub(super) async fn open(
        address: SocketAddr,
        source: Option<IpAddr>,
        transport: Transport,
        tls: Option<&UpstreamTls>,
        permit: Option<SocketPermit>,
    ) -> io::Result<Self> {
        let any: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let channel = match (transport, tls) {
            (Transport::Udp, _) => {
                // Port 0: the kernel chooses one that nobody can guess.
                let socket = UdpSocket::bind((source.unwrap_or(any), 0)).await?;
                socket.connect(address).await?;
                Channel::Udp(socket)
            }
            (Transport::Tls | Transport::Https, Some(tls)) => {
                let stream = stream(address, source).await?;
                let name = tls.name.clone();
                let stream = tls.connector.connect(name, stream).await?;
                match &tls.https {
                    None => Channel::Tls(Box::new(stream)),
                    Some(https) => {
                        let https = HttpsConnection::open(https.clone(), stream).await?;
                        Channel::Https(Box::new(https))
                    }
                }
            }
            (Transport::Tcp | Transport::Tls | Transport::Https, _) => {
                Channel::Tcp(stream(address, source).await?)
            }
        };
        let now = Instant::now();
        Ok(Self {
            channel,
            created: now,
            used: now,
            is_used: false,
            _permit: permit,
        })
    }

    /// Our address, if it can be told.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        match &self.channel {
            Channel::Udp(socket) => socket.local_addr().ok(),
            Channel::Tcp(stream) => stream.local_addr().ok(),
            Channel::Tls(stream) => stream.get_ref().0.local_addr().ok(),
            Channel::Https(https) => https.local,
        }
    }

    /// Whether it takes one more query, as far as is known without looking at the network.
    pub(super) fn is_open(&self) -> bool {
        match &self.channel {
            Channel::Udp(_) | Channel::Tcp(_) | Channel::Tls(_) => true,
            Channel::Https(https) => https.is_open(),
        }
    }

    /// Sends a query.
    pub(super) async fn send(&mut self, query: &Message) -> io::Result<()> {
        match &mut self.channel {
            Channel::Udp(socket) => socket.send(&query.octets).await.map(drop),
            Channel::Tcp(stream) => write(stream, &query.octets).await,
            Channel::Tls(stream) => write(stream, &query.octets).await,
            // It goes out when the reply is waited for.
            Channel::Https(_) => Ok(()),
        }
    }

    /// Takes the reply with this ID. Others are passed over: of earlier queries, or made up by somebody.
    pub(super) async fn receive(&mut self, query: &Message, id: u16) -> io::Result<Response> {
        match &mut self.channel {
            Channel::Udp(socket) => datagram(socket, query, id).await,
            Channel::Tcp(stream) => from_stream(stream, id).await,
            Channel::Tls(stream) => from_stream(stream, id).await,
            Channel::Https(https) => https.exchange(query, id).await,
        }
    }
}

/// Opens a connection.
async fn stream(address: SocketAddr, source: Option<IpAddr>) -> io::Result<TcpStream> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = source {
        socket.bind((source, 0).into())?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Writes a message with its length in front.
async fn write<S: AsyncWriteExt + Unpin>(stream: &mut S, octets: &[u8]) -> io::Result<()> {
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    let framed = [&length.to_be_bytes(), octets].concat();
    stream.write_all(&framed).await?;
    stream.flush().await
}

/// Reads messages until the one with this ID.
async fn from_stream<S: AsyncReadExt + Unpin>(stream: &mut S, id: u16) -> io::Result<Response> {
    loop {
        let mut octets = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut octets).await?;
        let response = Response::decode(&octets).map_err(bad)?;
        if response.id == id {
            return Ok(response);
        }
    }
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

/// A reply that cannot be read, as an error of a connection.
fn bad(error: BadReply) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
