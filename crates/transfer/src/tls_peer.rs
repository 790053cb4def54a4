//! What TLS says of a peer, once the handshake is over.

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;

/// A peer on the other side of TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsPeer {
    /// The ALPN token `dot` was chosen.
    pub has_dot: bool,
    /// Its certificate, which was verified.
    pub certificate: Option<CertificateDer<'static>>,
}

impl TlsPeer {
    /// Whether its certificate has this name among its alternative names; the common name does not count.
    #[must_use]
    pub fn has_name(&self, name: &ServerName<'_>) -> bool {
        let certificate = self.certificate.as_ref();
        let parsed = certificate.and_then(|der| ParsedCertificate::try_from(der).ok());
        parsed.is_some_and(|parsed| rustls::client::verify_server_name(&parsed, name).is_ok())
    }
}
