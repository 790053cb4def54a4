//! The route to an upstream: its address and its protocol.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use server::{OwnTasks, Proto};

use crate::forward::handler::https::Https;

/// The protocol over TLS.
#[derive(Debug, Clone)]
pub(crate) enum Secured {
    /// DNS over TLS (RFC 7858).
    Tls,
    /// DNS over HTTPS (RFC 8484), by HTTP/2 or HTTP/1.1.
    Https(Arc<Https>),
    /// DNS over HTTPS, by HTTP/3.
    Https3(Arc<Https>),
    /// DNS over QUIC (RFC 9250).
    Quic,
}

/// The TLS settings of an upstream.
#[derive(Clone)]
pub(crate) struct UpstreamTls {
    /// The trusted certificates, and the protocols to offer.
    pub(crate) config: Arc<ClientConfig>,
    /// The name that its certificate must have.
    pub(crate) name: ServerName<'static>,
    /// The protocol.
    pub(crate) protocol: Secured,
}

impl fmt::Debug for UpstreamTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamTls({:?})", self.name)
    }
}

#[derive(Debug)]
pub(super) struct Route {
    /// Its address.
    pub(super) address: SocketAddr,
    /// Our own address for it.
    pub(super) source: Option<IpAddr>,
    /// Its TLS settings, if it uses TLS.
    pub(super) tls: Option<UpstreamTls>,
    pub(super) tasks: OwnTasks,
}

impl Route {
    /// The address that our sockets are bound to. The kernel chooses a port that nobody can guess.
    pub(super) fn local_address(&self) -> SocketAddr {
        let any: IpAddr = match self.address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        SocketAddr::new(self.source.unwrap_or(any), 0)
    }

    /// The transport of a query: `wanted`, unless TLS decides it.
    pub(super) fn transport(&self, wanted: Proto) -> Proto {
        match self.tls.as_ref().map(|tls| &tls.protocol) {
            None => wanted,
            Some(Secured::Tls) => Proto::Tls,
            Some(Secured::Https(_)) => Proto::Https,
            Some(Secured::Https3(_)) => Proto::Https3,
            Some(Secured::Quic) => Proto::Quic,
        }
    }
}
