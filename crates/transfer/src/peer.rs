//! The identity of a peer: its address without port, and its TLS certificate.

use std::net::{IpAddr, SocketAddr};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// An address and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// The address; never IPv4 mapped into IPv6.
    pub ip: IpAddr,
    /// The interface number of a link-local IPv6 address; 0 if it is not known, and for all other addresses.
    pub link: u32,
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        let link = match address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
            SocketAddr::V4(_) | SocketAddr::V6(_) => 0,
        };
        Self {
            ip: address.ip().to_canonical(),
            link,
        }
    }
}

/// A peer that connected over TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsPeer {
    /// Whether the ALPN token `dot` was chosen.
    pub has_dot: bool,
    /// The verified certificate.
    pub certificate: Option<CertificateDer<'static>>,
}

impl TlsPeer {
    /// Whether the certificate has this name among its alternative names; the common name does not count.
    #[must_use]
    pub fn has_name(&self, name: &ServerName<'_>) -> bool {
        let certificate = self.certificate.as_ref();
        let parsed = certificate.and_then(|der| ParsedCertificate::try_from(der).ok());
        parsed.is_some_and(|parsed| rustls::client::verify_server_name(&parsed, name).is_ok())
    }
}
