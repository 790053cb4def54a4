//! The upstreams of `forward`: names become addresses, files of certificates become TLS.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use directives::config::{Config, Target, TargetHost, TargetScheme, TlsFiles};
use directives::handlers::{
    BuildError, Https, OpenUpstreams, Secured, Upstream, UpstreamSockets, UpstreamTls, resolve,
};
use dns::Name;
use futures_util::future::join_all;
use ops::HandlerMetrics;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

/// The port of HTTPS (RFC 9110 section 4.2.2).
const HTTPS_PORT: u16 = 443;

/// Opens the upstreams of `forward`.
pub(crate) struct Upstreams<'a> {
    /// The addresses of upstreams that are written as names.
    pub(crate) resolved: &'a Resolved,
    /// How many sockets towards upstreams there may be.
    pub(crate) sockets: &'a UpstreamSockets,
}

impl OpenUpstreams for Upstreams<'_> {
    fn open(
        &self,
        config: &directives::config::Forward,
        metrics: &HandlerMetrics,
    ) -> Result<Vec<Upstream>, BuildError> {
        let opened = open(config, metrics, self);
        opened.map_err(|error| BuildError::new(&config.place, "forward", error))
    }
}

/// The upstreams of one `forward`.
fn open(
    config: &directives::config::Forward,
    metrics: &HandlerMetrics,
    Upstreams { resolved, sockets }: &Upstreams<'_>,
) -> anyhow::Result<Vec<Upstream>> {
    let needs_tls = |target: &Target| target.scheme != TargetScheme::Dns;
    let tls = config.targets.iter().any(needs_tls);
    let tls = tls.then(|| tls_config(&config.tls)).transpose()?;
    let mut upstreams = Vec::new();
    let mut known = Vec::new();
    for target in &config.targets {
        for address in resolved.addresses(target, &config.resolvers) {
            let place = (address, target.scheme.is_over_quic());
            if known.contains(&place) {
                continue;
            }
            known.push(place);
            let over = |tls: &ClientConfig| upstream_tls(config, target, address, tls.clone());
            let tls = tls.as_ref().filter(|_| needs_tls(target)).map(over);
            let tls = tls.transpose()?;
            let upstream = Upstream::new(address, tls, config, metrics);
            upstreams.push(upstream.with_sockets(sockets));
        }
    }
    Ok(upstreams)
}

/// The name of an upstream, and who is asked for its addresses.
type Wanted = (String, Vec<SocketAddr>);

/// The addresses of upstreams that are written as names.
#[derive(Default)]
pub(crate) struct Resolved(HashMap<Wanted, Vec<IpAddr>>);

impl Resolved {
    /// Looks up the names of all upstreams of a configuration.
    ///
    /// # Errors
    /// When a name has no address.
    pub(crate) async fn of(config: &Config) -> anyhow::Result<Self> {
        let found = look_up_all(config, None).await.into_iter();
        let found = found.map(|(key, found)| Ok((key, found?)));
        Ok(Self(found.collect::<anyhow::Result<_>>()?))
    }

    /// What is wrong with the names of upstreams, each: those too whose addresses do not come in this time.
    pub(crate) async fn problems(config: &Config, within: Duration) -> Vec<anyhow::Error> {
        let found = look_up_all(config, Some(within)).await.into_iter();
        found.filter_map(|(_, found)| found.err()).collect()
    }

    /// The addresses of a target.
    fn addresses(&self, target: &Target, resolvers: &[SocketAddr]) -> Vec<SocketAddr> {
        let found = match &target.host {
            TargetHost::Address(address) => std::slice::from_ref(address),
            TargetHost::Name(name) => {
                let found = self.0.get(&(name.clone(), resolvers.to_vec()));
                found.map_or(&[][..], Vec::as_slice)
            }
        };
        let with_port = |address: &IpAddr| SocketAddr::new(*address, target.port);
        found.iter().map(with_port).collect()
    }
}

/// Looks up the names of all upstreams of a configuration side by side, each once; `within` bounds the time of all.
async fn look_up_all(
    config: &Config,
    within: Option<Duration>,
) -> Vec<(Wanted, anyhow::Result<Vec<IpAddr>>)> {
    let mut known = HashSet::new();
    let mut all = Vec::new();
    let blocks = config.servers.iter();
    for forward in blocks.flat_map(|block| block.all::<directives::config::Forward>()) {
        for target in &forward.targets {
            let TargetHost::Name(name) = &target.host else {
                continue;
            };
            let key = (name.clone(), forward.resolvers.clone());
            if !known.insert(key.clone()) {
                continue;
            }
            all.push(async move {
                let asked = look_up(name, target.port, forward);
                let found = match within {
                    None => asked.await,
                    Some(within) => tokio::time::timeout(within, asked)
                        .await
                        .unwrap_or_else(|late| Err(late.into())),
                };
                let wrong = || format!("{}: forward: no address of {name}", forward.place);
                (key, found.with_context(wrong))
            });
        }
    }
    join_all(all).await
}

/// Looks up the name of an upstream: where the `forward` says, or as the system does.
async fn look_up(
    name: &str,
    port: u16,
    config: &directives::config::Forward,
) -> anyhow::Result<Vec<IpAddr>> {
    if config.resolvers.is_empty() {
        let found = tokio::net::lookup_host((name, port)).await?;
        return Ok(found.map(|address| address.ip()).collect());
    }
    let apex: Name = format!("{}.", name.trim_end_matches('.')).parse()?;
    Ok(resolve(&apex, &config.resolvers, config).await?)
}

/// How an upstream is asked over TLS.
fn upstream_tls(
    config: &directives::config::Forward,
    target: &Target,
    address: SocketAddr,
    mut tls: ClientConfig,
) -> anyhow::Result<UpstreamTls> {
    let name = server_name(config, target, address.ip())?;
    let host = host(&name, address);
    let https = || -> anyhow::Result<Https> {
        Ok(Https {
            method: config.doh_method,
            host: host.parse().context("no name of a server")?,
        })
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

/// The host of an upstream that is asked over HTTPS, with the port unless that is the one of HTTPS (RFC 9110
/// section 7.2).
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

/// The name in an upstream's certificate: its own, that of all, or its address.
fn server_name(
    config: &directives::config::Forward,
    target: &Target,
    address: IpAddr,
) -> anyhow::Result<ServerName<'static>> {
    match target
        .server_name
        .as_ref()
        .or(config.tls_server_name.as_ref())
    {
        Some(name) => {
            let name = name.trim_end_matches('.').to_owned();
            ServerName::try_from(name.clone()).with_context(|| format!("{name} is no server name"))
        }
        None => Ok(ServerName::IpAddress(address.into())),
    }
}

/// TLS towards upstreams that are asked so.
fn tls_config(files: &TlsFiles) -> anyhow::Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    match &files.authorities {
        Some(file) => {
            let wrong = || format!("no certificate can be read from {}", file.display());
            for certificate in CertificateDer::pem_file_iter(file).with_context(wrong)? {
                roots.add(certificate.with_context(wrong)?)?;
            }
            if roots.is_empty() {
                bail!(wrong());
            }
        }
        None => {
            // Those that cannot be read verify nothing; without any no upstream is believed.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                bail!("the system has no certificates to trust: write tls CA");
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
                .with_context(wrong)?
                .collect();
            let secret = PrivateKeyDer::from_pem_file(key)
                .with_context(|| format!("no private key can be read from {}", key.display()))?;
            builder.with_client_auth_cert(chain.with_context(wrong)?, secret)?
        }
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
    use rustls::ServerConfig;
    use tokio_rustls::{TlsAcceptor, TlsConnector};

    use super::*;
    use directives::config::{Overrides, parse_text};
    use ops::testing::soon;

    /// Shakes hands with an upstream `dns.test` that shows this certificate, where `tls` trusts that of this PEM.
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

    #[tokio::test(start_paused = true)]
    async fn each_name_without_an_address_is_a_problem_however_long_its_resolver_takes() {
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let resolver = silent.local_addr().unwrap();
        let options = format!("{{\n  resolver {resolver}\n }}");
        let text = format!(
            ". {{\n forward . a.test b.test 192.0.2.1 {options}\n forward z b.test c.test {options}\n}}\n"
        );
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let problems = Resolved::problems(&loaded.config, Duration::from_secs(1)).await;
        let problems: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let want = [
            "2:2: forward: no address of a.test",
            "2:2: forward: no address of b.test",
            "5:2: forward: no address of c.test",
        ];
        assert_eq!(problems, want.map(|what| format!("Corefile:{what}")));
        assert!(Resolved::of(&loaded.config).await.is_err());
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
