//! How an upstream is reached: its address, and what is spoken with it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use server::OwnTasks;

use crate::forward::handler::https::Https;

/// Over what a query goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    /// A datagram.
    Udp,
    /// A connection.
    Tcp,
    /// A connection over TLS.
    Tls,
    /// HTTP/2 or HTTP/1.1 over TLS.
    Https,
    /// HTTP/3 over QUIC.
    Https3,
    /// A stream of QUIC.
    Quic,
}

impl Transport {
    /// All of them, in the order of their places.
    pub(super) const ALL: [Self; 6] = [
        Self::Udp,
        Self::Tcp,
        Self::Tls,
        Self::Https,
        Self::Https3,
        Self::Quic,
    ];

    /// Its name in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tcp-tls",
            Self::Https => "https",
            Self::Https3 => "https3",
            Self::Quic => "quic",
        }
    }

    /// Its network, as Go names it.
    pub(super) const fn network(self) -> &'static str {
        match self {
            Self::Udp | Self::Https3 | Self::Quic => "udp",
            Self::Tcp | Self::Tls | Self::Https => "tcp",
        }
    }

    /// Its place among all.
    pub(super) const fn place(self) -> usize {
        self as usize
    }

    /// Whether TLS protects it.
    pub(super) const fn is_encrypted(self) -> bool {
        !matches!(self, Self::Udp | Self::Tcp)
    }
}

/// The protocol that is spoken over TLS.
#[derive(Debug, Clone)]
pub(crate) enum Secured {
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484), by HTTP/2 or HTTP/1.1.
    Https(Https),
    /// The same by HTTP/3.
    Https3(Https),
    /// DNS over QUIC (RFC 9250).
    Quic,
}

/// How an upstream is asked over TLS.
#[derive(Clone)]
pub(crate) struct UpstreamTls {
    /// The certificates that are trusted, and the protocols that are offered.
    pub(crate) config: Arc<ClientConfig>,
    /// The name in its certificate.
    pub(crate) name: ServerName<'static>,
    /// The protocol.
    pub(crate) protocol: Secured,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamTls({:?})", self.name)
    }
}

/// How an upstream is reached.
#[derive(Debug)]
pub(super) struct Route {
    /// Where it is.
    pub(super) address: SocketAddr,
    /// Our address towards it.
    pub(super) source: Option<IpAddr>,
    /// How it is asked over TLS, if it is.
    pub(super) tls: Option<UpstreamTls>,
    /// Move the octets of connections that carry several queries at once.
    pub(super) tasks: OwnTasks,
}

impl Route {
    /// The address that our sockets are bound to; the kernel chooses a port that nobody can guess.
    pub(super) fn local_address(&self) -> SocketAddr {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(self.source.unwrap_or(any), 0)
    }

    /// The transport of a query: without TLS the wanted one.
    pub(super) fn transport(&self, wanted: Transport) -> Transport {
        match self.tls.as_ref().map(|tls| &tls.protocol) {
            None => wanted,
            Some(Secured::Tls) => Transport::Tls,
            Some(Secured::Https(_)) => Transport::Https,
            Some(Secured::Https3(_)) => Transport::Https3,
            Some(Secured::Quic) => Transport::Quic,
        }
    }
}
