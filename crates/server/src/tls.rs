//! TLS on connections: our certificate, the client's certificate, the handshake.
//!
//! TLS 1.3 only, as transfers demand it (RFC 9103 section 7.2). A client that offers ALPN tokens without one of the
//! listener's fails in the handshake. One that offers none is served, but gets no transfer (section 7.1).
//!
//! A client's certificate is checked against lists of revoked ones (RFC 5280 section 5), if there are any. As with OpenSSL, each
//! authority in the chain needs a list then, and a list has an end: a client of whom nothing is known any more is refused.
//!
//! # Not implemented
//! - OCSP (RFC 6960): it asks a third party during the handshake, or takes the client's word for it.
//! - Early data (RFC 9103 section 7.2 leaves it to the transport): it can be replayed.
//! - A choice of certificate by the client's server name: a listener has one certificate.

use std::fmt;
use std::io;
use std::sync::Arc;

use arc_swap::ArcSwap;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicServerConfig};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{AlertDescription, CertificateError, ClientConfig, RootCertStore, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use transfer::TlsPeer;

use crate::Proto;

/// The ALPN token of DNS over TLS (RFC 7858, registered by RFC 9103 section 12).
const DOT: &[u8] = b"dot";
/// The ALPN token of HTTP/2 (RFC 9113 section 3.1).
const H2: &[u8] = b"h2";
/// The ALPN token of HTTP/1.1 (RFC 7301 section 6).
const HTTP_1_1: &[u8] = b"http/1.1";
/// The ALPN token of HTTP/3 (RFC 9114 section 3.1).
const H3: &[u8] = b"h3";
/// The ALPN token of DNS over QUIC (RFC 9250 section 4.1.1).
const DOQ: &[u8] = b"doq";

/// The contents of a TLS listener's files.
#[derive(Clone)]
pub struct TlsMaterial {
    /// Our certificates, the server's own first, as PEM.
    pub certificates: Vec<u8>,
    /// Its private key, as PEM.
    pub key: Vec<u8>,
    /// The authorities of clients' certificates, and whether clients need one.
    pub clients: Option<TlsClients>,
}

/// The verification of clients.
#[derive(Clone)]
pub struct TlsClients {
    /// The authorities of their certificates, as PEM.
    pub authorities: Vec<u8>,
    /// The lists of certificates that these and the authorities below them have revoked, as PEM.
    pub revoked: Option<Vec<u8>>,
    /// Whether a client without a certificate is refused.
    pub is_required: bool,
}

/// The error for unusable certificates or keys.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file of certificates is unusable.
    #[error("no certificate can be read from the certificate file")]
    Certificate,
    /// The file of the key is unusable.
    #[error("no private key can be read from the key file")]
    Key,
    /// The file of authorities is unusable.
    #[error("no certificate can be read from the CA file")]
    Authority,
    /// The file of revoked certificates is unusable.
    #[error("no list of revoked certificates can be read from the CRL file")]
    Revoked,
    /// Certificate and key do not match.
    #[error("certificate and key are not usable: {0}")]
    Pair(#[source] rustls::Error),
    /// QUIC needs a cipher suite that is missing.
    #[error("TLS is not usable for QUIC: {0}")]
    Quic(#[from] NoInitialCipherSuite),
    /// Clients cannot be verified.
    #[error("the CA or CRL file is not usable: {0}")]
    Verifier(#[source] rustls::server::VerifierBuilderError),
}

/// Both sides' settings of connections between servers that have the same authorities.
#[derive(Debug, Clone)]
pub struct MutualTls {
    /// For the side that accepts: a client without a certificate of these authorities is refused.
    pub server: Arc<ServerConfig>,
    /// For the side that connects: it shows its certificate, and the server needs one of these authorities.
    pub client: Arc<ClientConfig>,
}

impl MutualTls {
    /// TLS 1.3 with certificates on both sides and one ALPN token. No session is resumed.
    ///
    /// # Errors
    /// [`TlsError`]; [`TlsError::Authority`] also when the material has no authorities.
    pub fn new(material: &TlsMaterial, token: &[u8]) -> Result<Self, TlsError> {
        let clients = material.clients.clone().ok_or(TlsError::Authority)?;
        let roots = authorities(&clients.authorities)?;
        let material = TlsMaterial {
            clients: Some(TlsClients {
                is_required: true,
                ..clients
            }),
            ..material.clone()
        };
        let mut server = configure(&material)?;
        server.alpn_protocols = vec![token.to_vec()];
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has cipher suites for TLS 1.3")
            .with_root_certificates(roots);
        let (chain, key) = own_pair(&material)?;
        let mut client = builder
            .with_client_auth_cert(chain, key)
            .map_err(TlsError::Pair)?;
        client.alpn_protocols = vec![token.to_vec()];
        client.resumption = rustls::client::Resumption::disabled();
        Ok(Self {
            server: Arc::new(server),
            client: Arc::new(client),
        })
    }
}

/// The current TLS settings. They can be replaced; open connections continue with the old ones.
pub struct TlsIdentity(ArcSwap<Offers>);

/// A configuration for each set of ALPN tokens.
struct Offers {
    /// DNS over TLS.
    dot: Arc<ServerConfig>,
    /// HTTP/2 and HTTP/1.1.
    https: Arc<ServerConfig>,
    /// HTTP/1.1 alone.
    http1: Arc<ServerConfig>,
    /// HTTP/3.
    https3: Arc<QuicServerConfig>,
    /// DNS over QUIC.
    doq: Arc<QuicServerConfig>,
}

impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsIdentity").finish_non_exhaustive()
    }
}

/// A connection after its handshake, with the client's TLS session.
pub(crate) struct Shaken {
    pub stream: TlsStream<TcpStream>,
    /// The client.
    pub peer: TlsPeer,
    /// Whether HTTP/2 was chosen.
    pub is_h2: bool,
}

impl TlsIdentity {
    /// TLS with this material.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        Ok(Self(ArcSwap::from_pointee(Offers::new(material)?)))
    }

    /// Replaces the material for new connections. Old sessions are not resumed.
    ///
    /// # Errors
    /// [`TlsError`]; then nothing changes.
    pub fn replace(&self, material: &TlsMaterial) -> Result<(), TlsError> {
        self.0.store(Arc::new(Offers::new(material)?));
        Ok(())
    }

    /// The handshake of a TCP connection, for HTTPS or DNS over TLS.
    pub(crate) async fn accept(&self, stream: TcpStream, proto: Proto) -> io::Result<Shaken> {
        let offers = self.0.load();
        let acceptor = TlsAcceptor::from(Arc::clone(match proto {
            Proto::Https => &offers.https,
            Proto::Udp | Proto::Tcp | Proto::Tls | Proto::Https3 | Proto::Quic => &offers.dot,
        }));
        drop(offers);
        let stream = acceptor.accept(stream).await?;
        let (_, session) = stream.get_ref();
        let token = session.alpn_protocol();
        let certificates = session.peer_certificates();
        let peer = TlsPeer {
            has_dot: token == Some(DOT),
            certificate: certificates
                .and_then(|chain| chain.first())
                .map(|certificate| certificate.clone().into_owned()),
        };
        let is_h2 = token == Some(H2);
        Ok(Shaken {
            stream,
            peer,
            is_h2,
        })
    }

    /// The handshake of a connection for HTTP/1.1 that carries no DNS. Gives the client's certificate, too.
    ///
    /// # Errors
    /// When the connection or the handshake fails.
    pub async fn accept_http(
        &self,
        stream: TcpStream,
    ) -> io::Result<(TlsStream<TcpStream>, TlsPeer)> {
        let acceptor = TlsAcceptor::from(Arc::clone(&self.0.load().http1));
        let stream = acceptor.accept(stream).await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let peer = TlsPeer {
            has_dot: false,
            certificate: certificates
                .and_then(|chain| chain.first())
                .map(|certificate| certificate.clone().into_owned()),
        };
        Ok((stream, peer))
    }

    /// The TLS settings of QUIC, for HTTP/3 or DNS over QUIC.
    pub(crate) fn quic(&self, proto: Proto) -> Arc<QuicServerConfig> {
        let offers = self.0.load();
        Arc::clone(match proto {
            Proto::Https3 => &offers.https3,
            Proto::Udp | Proto::Tcp | Proto::Tls | Proto::Https | Proto::Quic => &offers.doq,
        })
    }
}

/// Whether a handshake failed because the client's certificate is revoked, or because the lists do not tell any more.
pub(crate) fn is_revoked(error: &io::Error) -> bool {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    matches!(
        cause,
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Revoked
                | CertificateError::UnknownRevocationStatus
                | CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. }
        ))
    )
}

/// Why a handshake failed, for people. The peer sends an alert where it does not take our certificate: the fix is on its side, or
/// in the certificate.
pub(crate) fn shown(error: &io::Error) -> String {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
    let is_distrust = matches!(
        cause,
        Some(rustls::Error::AlertReceived(
            AlertDescription::UnknownCA
                | AlertDescription::BadCertificate
                | AlertDescription::UnsupportedCertificate
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateUnknown
        ))
    );
    match is_distrust {
        true => format!("the peer does not trust our certificate ({error})"),
        false => error.to_string(),
    }
}

/// The client's TLS session on a QUIC connection.
pub(crate) fn quic_peer(connection: &quinn::Connection) -> TlsPeer {
    let identity = connection.peer_identity();
    let chain = identity.and_then(|it| it.downcast::<Vec<CertificateDer<'static>>>().ok());
    TlsPeer {
        has_dot: false,
        certificate: chain.and_then(|chain| chain.into_iter().next()),
    }
}

impl Offers {
    fn new(material: &TlsMaterial) -> Result<Self, TlsError> {
        let base = configure(material)?;
        let with = |tokens: &[&[u8]]| {
            let mut config = base.clone();
            config.alpn_protocols = tokens.iter().map(|token| token.to_vec()).collect();
            Arc::new(config)
        };
        Ok(Self {
            dot: with(&[DOT]),
            https: with(&[H2, HTTP_1_1]),
            http1: with(&[HTTP_1_1]),
            https3: Arc::new(QuicServerConfig::try_from(with(&[H3]))?),
            doq: Arc::new(QuicServerConfig::try_from(with(&[DOQ]))?),
        })
    }
}

/// The certificates of a PEM file; `None` when it has none, or a broken one.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}

/// The lists of revoked certificates of a PEM file; `None` when it has none, or a broken one.
fn revoked(pem: &[u8]) -> Option<Vec<CertificateRevocationListDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(pem).collect();
    all.ok().filter(|all| !all.is_empty())
}

/// The authorities of a PEM file.
fn authorities(pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(pem).ok_or(TlsError::Authority)? {
        roots.add(authority).map_err(|_| TlsError::Authority)?;
    }
    Ok(roots)
}

/// Our certificates and their key.
fn own_pair(
    material: &TlsMaterial,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let chain = certificates(&material.certificates).ok_or(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&material.key).map_err(|_| TlsError::Key)?;
    Ok((chain, key))
}

/// The configuration for rustls, without ALPN tokens.
fn configure(material: &TlsMaterial) -> Result<ServerConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has cipher suites for TLS 1.3");
    let builder = match &material.clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = authorities(&clients.authorities)?;
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = match &clients.revoked {
                None => verifier,
                Some(pem) => verifier
                    .with_crls(revoked(pem).ok_or(TlsError::Revoked)?)
                    .enforce_revocation_expiration(),
            };
            let verifier = if clients.is_required {
                verifier
            } else {
                verifier.allow_unauthenticated()
            };
            builder.with_client_cert_verifier(verifier.build().map_err(TlsError::Verifier)?)
        }
    };
    let (chain, key) = own_pair(material)?;
    let mut config = builder
        .with_single_cert(chain, key)
        .map_err(TlsError::Pair)?;
    if material.clients.is_some() {
        // A resumed session is not verified again: the certificate may have expired or be revoked meanwhile.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(config)
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
