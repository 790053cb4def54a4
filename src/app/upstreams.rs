//! The upstreams of `forward`: names become addresses, files of certificates become TLS.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

use crate::corefile::{self, Target, TargetHost, TlsFiles};
use crate::dns::{Name, Response, Rtype};
use crate::live::{Forward, Upstream, UpstreamTls};
use crate::ops::HandlerMetrics;

/// How long the address of an upstream may take.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);

/// The handler of one `forward`.
pub(super) fn forward(
    config: &corefile::Forward,
    has_next: bool,
    metrics: &HandlerMetrics,
) -> anyhow::Result<Forward> {
    let place = || format!("{}: forward", config.place);
    let is_tls = config.targets.iter().any(|target| target.is_tls);
    let connector = if is_tls {
        Some(connector(&config.tls).with_context(place)?)
    } else {
        None
    };
    let mut upstreams = Vec::new();
    let mut known: Vec<SocketAddr> = Vec::new();
    for target in &config.targets {
        for address in addresses(target, &config.resolvers).with_context(place)? {
            if known.contains(&address) {
                continue;
            }
            known.push(address);
            let tls = match &connector {
                Some(connector) if target.is_tls => Some(UpstreamTls {
                    connector: connector.clone(),
                    name: server_name(config, target, address.ip()).with_context(place)?,
                }),
                Some(_) | None => None,
            };
            upstreams.push(Upstream::new(address, tls, config, metrics));
        }
    }
    Ok(Forward::new(config.clone(), upstreams, has_next, metrics))
}

/// The addresses of a target.
fn addresses(target: &Target, resolvers: &[SocketAddr]) -> anyhow::Result<Vec<SocketAddr>> {
    let found: Vec<IpAddr> = match &target.host {
        TargetHost::Address(address) => vec![*address],
        TargetHost::Name(name) if resolvers.is_empty() => {
            let found = (name.as_str(), target.port).to_socket_addrs();
            let found = found.with_context(|| format!("no address of {name}"))?;
            found.map(|address| address.ip()).collect()
        }
        TargetHost::Name(name) => lookup(name, resolvers)?,
    };
    let with_port = |address| SocketAddr::new(address, target.port);
    Ok(found.into_iter().map(with_port).collect())
}

/// Asks resolvers, one after the other, for the addresses of a name.
fn lookup(name: &str, resolvers: &[SocketAddr]) -> anyhow::Result<Vec<IpAddr>> {
    let apex: Name = format!("{}.", name.trim_end_matches('.')).parse()?;
    let mut why = anyhow::anyhow!("none has one");
    for resolver in resolvers {
        let mut found = Vec::new();
        for qtype in [Rtype::A, Rtype::AAAA] {
            match lookup_one(&apex, qtype, *resolver) {
                Ok(addresses) => found.extend(addresses),
                Err(error) => why = error.context(format!("resolver {resolver}")),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    Err(why.context(format!("no address of {name}")))
}

/// Asks one resolver for addresses of one kind.
fn lookup_one(name: &Name, qtype: Rtype, resolver: SocketAddr) -> anyhow::Result<Vec<IpAddr>> {
    let any: SocketAddr = if resolver.is_ipv4() {
        ([0, 0, 0, 0], 0).into()
    } else {
        ([0_u16; 8], 0).into()
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(LOOKUP_LIMIT))?;
    let id = crate::live::random_id();
    let mut query = id.to_be_bytes().to_vec();
    query.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    query.extend_from_slice(name.as_wire());
    query.extend_from_slice(&qtype.0.to_be_bytes());
    query.extend_from_slice(&[0, 1]);
    socket.send(&query)?;
    let mut buffer = [0; 512];
    let length = socket.recv(&mut buffer)?;
    let response = Response::decode(&buffer[..length])?;
    let question = response.question.as_ref().map(|it| (&it.0, it.1));
    if response.id != id || question != Some((name, qtype)) {
        bail!("the reply is to another question");
    }
    let address = |data: &[u8]| match <[u8; 4]>::try_from(data) {
        Ok(v4) => Some(IpAddr::from(v4)),
        Err(_) => <[u8; 16]>::try_from(data)
            .ok()
            .map(|it| IpAddr::from(it).to_canonical()),
    };
    let answers = response.sections[0].iter();
    let fitting = answers.filter(|record| record.rtype == qtype);
    Ok(fitting
        .filter_map(|record| address(record.rdata.as_octets()))
        .collect())
}

/// The name in an upstream's certificate: its own, that of all, or its address.
fn server_name(
    config: &corefile::Forward,
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

/// TLS towards upstreams.
fn connector(files: &TlsFiles) -> anyhow::Result<TlsConnector> {
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
    let config = match &files.identity {
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
    };
    Ok(TlsConnector::from(Arc::new(config)))
}
