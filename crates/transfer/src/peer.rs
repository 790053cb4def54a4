//! The identity of a peer: its address without port, and its TLS certificate.

use std::net::{IpAddr, SocketAddr};

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use webpki::EndEntityCert;

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
    /// The DNS names of the certificate.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let parsed = self.certificate.as_ref().map(EndEntityCert::try_from);
        let Some(Ok(certificate)) = parsed else {
            return Vec::new();
        };
        let names = certificate.valid_dns_names();
        names.map(ToOwned::to_owned).collect()
    }

    /// Whether the certificate has this name among its alternative names. A wildcard there fits no name: who holds such a
    /// certificate need not be whom `tls NAME` means. The common name does not count.
    #[must_use]
    pub fn has_name(&self, name: &ServerName<'_>) -> bool {
        let Some(der) = &self.certificate else {
            return false;
        };
        let fits = ParsedCertificate::try_from(der)
            .is_ok_and(|parsed| rustls::client::verify_server_name(&parsed, name).is_ok());
        // An address has no wildcards.
        let ServerName::DnsName(wanted) = name else {
            return fits;
        };
        let wanted = wanted.as_ref().trim_end_matches('.');
        let has_it = |certificate: EndEntityCert<'_>| {
            let mut names = certificate.valid_dns_names();
            names.any(|name| name.trim_end_matches('.').eq_ignore_ascii_case(wanted))
        };
        fits && EndEntityCert::try_from(der).is_ok_and(has_it)
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn a_name_is_the_certificates_own_and_not_one_that_its_wildcard_fits() {
        let names = ["Ns1.example.org", "*.example.net", "192.0.2.1"];
        let params = CertificateParams::new(names.map(ToOwned::to_owned)).unwrap();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let peer = TlsPeer {
            has_dot: true,
            certificate: Some(certificate.der().clone()),
        };
        let has = |name: &str| peer.has_name(&ServerName::try_from(name.to_owned()).unwrap());
        assert!(has("ns1.example.org") && has("ns1.EXAMPLE.org.") && has("192.0.2.1"));
        for name in [
            "ns1.example.net",
            "example.net",
            "ns2.example.org",
            "192.0.2.2",
        ] {
            assert!(!has(name), "{name}");
        }
        assert_eq!(peer.names(), ["Ns1.example.org", "*.example.net"]);
        assert!(!TlsPeer::default().has_name(&ServerName::try_from("ns1.example.org").unwrap()));
    }
}
