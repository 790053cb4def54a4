//! Opens the upstreams of `forward`, with TLS made from the files of certificates.

use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::config::block::Directive;
use crate::config::zone::HTTPS_PORT;
use crate::forward::handler::{Https, Secured, Upstream, UpstreamTls};
use crate::forward::{Forward, Target, TargetScheme, TlsFiles};
use crate::handlers::chain::{BuildError, Context};

/// An error whose `Display` includes its causes.
type Cause = Box<dyn Error + Send + Sync>;

/// An unusable file or name, and the reason.
#[derive(Debug, thiserror::Error)]
#[error("{what}")]
struct Unusable {
    what: String,
    source: Cause,
}

/// The error of something that cannot be used.
fn unusable<E: Into<Cause>>(what: impl Into<String>) -> impl FnOnce(E) -> Cause {
    |error| {
        Box::new(Unusable {
            what: what.into(),
            source: error.into(),
        })
    }
}

/// Opens the upstreams of one `forward`, each address once.
///
/// # Errors
/// When a name or a file for TLS cannot be used.
pub(super) fn open(forward: &Forward, context: &Context<'_>) -> Result<Vec<Upstream>, BuildError> {
    let opened = open_all(forward, context);
    opened.map_err(|error| BuildError::new(&forward.place, Forward::WORD, error))
}

fn open_all(config: &Forward, context: &Context<'_>) -> Result<Vec<Upstream>, Cause> {
    let needs_tls = |target: &Target| target.scheme != TargetScheme::Dns;
    let tls = config.targets.iter().any(needs_tls);
    let tls = tls.then(|| tls_config(&config.tls)).transpose()?;
    let mut upstreams = Vec::new();
    let mut known = Vec::new();
    for target in &config.targets {
        for address in context.resolved.addresses(target, &config.resolvers) {
            let place = (address, target.scheme.is_over_quic());
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            let over = |tls: &ClientConfig| upstream_tls(config, target, address, tls.clone());
            let tls = tls.as_ref().filter(|_| needs_tls(target)).map(over);
            let tls = tls.transpose()?;
            let upstream = Upstream::new(address, tls, config, context.counts.metrics);
            upstreams.push(upstream.with_sockets(context.sockets));
        }
    }
    Ok(upstreams)
}

/// The TLS settings of an upstream.
fn upstream_tls(
    config: &Forward,
    target: &Target,
    address: SocketAddr,
    mut tls: ClientConfig,
) -> Result<UpstreamTls, Cause> {
    let name = server_name(config, target, address.ip())?;
    let host = host(&name, address);
    let https = || {
        let https = Https::new(config.doh_method, &host);
        https.map(Arc::new).map_err(unusable("no name of a server"))
    };
    let (protocol, offered) = match target.scheme {
        TargetScheme::Dns | TargetScheme::Tls => (Secured::Tls, &[][..]),
        TargetScheme::Https => (Secured::Https(https()?), &["h2", "http/1.1"][..]),
        TargetScheme::Https3 => (Secured::Https3(https()?), &["h3"][..]),
        TargetScheme::Quic => (Secured::Quic, &["doq"][..]),
    };
    tls.alpn_protocols = offered.iter().map(|it| it.as_bytes().to_vec()).collect();
    Ok(UpstreamTls {
        config: Arc::new(tls),
        name,
        protocol,
    })
}

/// The host of an upstream over HTTPS, with the port unless it is that of HTTPS (RFC 9110 section 7.2).
fn host(name: &ServerName<'_>, address: SocketAddr) -> String {
    let host = match (name, address) {
        (ServerName::DnsName(name), _) => name.as_ref().to_owned(),
        (_, SocketAddr::V4(address)) => address.ip().to_string(),
        (_, SocketAddr::V6(address)) => format!("[{}]", address.ip()),
    };
    match address.port() {
        HTTPS_PORT => host,
        port => format!("{host}:{port}"),
    }
}

/// The name in an upstream's certificate: its own, the common one, or its address.
fn server_name(
    config: &Forward,
    target: &Target,
    address: IpAddr,
) -> Result<ServerName<'static>, Cause> {
    match target
        .server_name
        .as_ref()
        .or(config.tls_server_name.as_ref())
    {
        Some(name) => {
            let name = name.trim_end_matches('.').to_owned();
            let wrong = unusable(format!("{name} is not a server name"));
            ServerName::try_from(name).map_err(wrong)
        }
        None => Ok(ServerName::IpAddress(address.into())),
    }
}

/// The TLS settings of one `forward`.
fn tls_config(files: &TlsFiles) -> Result<ClientConfig, Cause> {
    let mut roots = RootCertStore::empty();
    match &files.authorities {
        Some(file) => {
            let wrong = || format!("no certificate can be read from {}", file.display());
            let all = CertificateDer::pem_file_iter(file).map_err(unusable(wrong()))?;
            for certificate in all {
                roots.add(certificate.map_err(unusable(wrong()))?)?;
            }
            if roots.is_empty() {
                return Err(wrong().into());
            }
        }
        None => {
            // Certificates that cannot be read are left out. Without any, no upstream is trusted.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no certificates to trust: write: tls CA".into());
            }
        }
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match &files.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let wrong = || format!("no certificate can be read from {}", certificate.display());
            let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate)
                .map_err(unusable(wrong()))?
                .collect();
            let chain = chain.map_err(unusable(wrong()))?;
            let no_key = format!("no private key can be read from {}", key.display());
            let secret = PrivateKeyDer::from_pem_file(key).map_err(unusable(no_key))?;
            builder.with_client_auth_cert(chain, secret)?
        }
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use ops::testing::soon;

    /// Shakes hands with an upstream `dns.test` that has this certificate, while `tls` trusts the certificate in this
    /// PEM.
    async fn shake(trusted: &str, shown: CertificateDer<'static>, key: &KeyPair) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, trusted).unwrap();
        let files = TlsFiles {
            authorities: Some(file),
            identity: None,
        };
        let connector = TlsConnector::from(Arc::new(tls_config(&files).unwrap()));
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![shown], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(server));
        let (near, far) = tokio::io::duplex(16_384);
        let name = ServerName::try_from("dns.test").unwrap();
        let both = async { tokio::join!(connector.connect(name, near), acceptor.accept(far)) };
        soon(both).await.0.err().map(|error| error.to_string())
    }

    #[tokio::test]
    async fn an_authority_s_own_certificate_is_no_upstream_s() {
        let with = |is_ca| {
            let mut params = CertificateParams::new(vec!["dns.test".to_owned()]).unwrap();
            params.is_ca = is_ca;
            params
        };
        let key = KeyPair::generate().unwrap();
        let authority = with(IsCa::Ca(BasicConstraints::Unconstrained));
        let own = authority.self_signed(&key).unwrap();
        let said = shake(&own.pem(), own.der().clone(), &key).await;
        assert!(
            said.as_deref()
                .is_some_and(|it| it.contains("CaUsedAsEndEntity")),
            "{said:?}"
        );
        let issuer = Issuer::new(authority, &key);
        let other = KeyPair::generate().unwrap();
        let signed = with(IsCa::ExplicitNoCa).signed_by(&other, &issuer).unwrap();
        assert_eq!(shake(&own.pem(), signed.der().clone(), &other).await, None);
        let alone = with(IsCa::ExplicitNoCa).self_signed(&other).unwrap();
        assert_eq!(shake(&alone.pem(), alone.der().clone(), &other).await, None);
    }

    #[test]
    fn the_host_of_a_request_has_the_port_unless_it_is_that_of_https() {
        let said = |name: &str, address: &str| {
            let name = ServerName::try_from(name.to_owned()).unwrap();
            host(&name, address.parse().unwrap())
        };
        for (name, address, want) in [
            ("dns.test", "192.0.2.1:443", "dns.test"),
            ("dns.test", "[2001:db8::1]:8443", "dns.test:8443"),
            ("192.0.2.1", "192.0.2.1:443", "192.0.2.1"),
            ("192.0.2.1", "192.0.2.1:8443", "192.0.2.1:8443"),
            ("2001:db8::1", "[2001:db8::1]:443", "[2001:db8::1]"),
            ("2001:db8::1", "[2001:db8::1]:8443", "[2001:db8::1]:8443"),
        ] {
            assert_eq!(said(name, address), want);
        }
    }
}
