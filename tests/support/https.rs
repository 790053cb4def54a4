//! A small client of HTTPS (HTTP/1.1) for tests: one request on each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

use super::certificates::connect;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that trusts an authority, with a certificate or without.
#[derive(Debug, Clone)]
pub struct Https {
    pub address: SocketAddr,
    config: Arc<ClientConfig>,
}

/// A response.
#[derive(Debug, Clone)]
pub struct Said {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Said {
    /// The lines of the body.
    pub fn lines(&self) -> Vec<Value> {
        let lines = self.body.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{self:?}")))
            .collect()
    }
}

impl Https {
    /// A client of this address; `own` are its certificate and its key.
    pub fn new(address: SocketAddr, authority: &Path, own: Option<(&Path, &Path)>) -> Self {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(authority).unwrap() {
            roots.add(root.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots);
        let config = match own {
            None => config.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_file(certificate).unwrap();
                let key = PrivateKeyDer::from_pem_file(key).unwrap();
                config
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        let config = Arc::new(config);
        Self { address, config }
    }

    /// Sends a request with these headers; none when the connection fails.
    pub fn send(&self, method: &str, target: &str, headers: &[String]) -> Option<Said> {
        let stream = TcpStream::connect(self.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        let mut stream = connect(&self.config, stream);
        let headers: String = headers.iter().map(|it| format!("{it}\r\n")).collect();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: ns.example\r\n{headers}connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).ok()?;
        let mut octets = Vec::new();
        // The end of a connection without its alert is no failure here.
        let _ended = stream.read_to_end(&mut octets);
        let text = String::from_utf8(octets).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
        let body = match is_chunked {
            true => unchunked(body).unwrap_or_else(|| panic!("the answer broke off: {body}")),
            false => body.to_owned(),
        };
        let head = head.to_owned();
        Some(Said { status, head, body })
    }

    /// Sends a GET with a token, if there is one.
    ///
    /// # Panics
    /// When the connection fails.
    pub fn get(&self, target: &str, token: Option<&str>) -> Said {
        let header = token.map(|token| format!("authorization: Bearer {token}"));
        let headers: Vec<String> = header.into_iter().collect();
        self.send("GET", target, &headers)
            .unwrap_or_else(|| panic!("{target}: no answer"))
    }
}

/// The text of a chunked body; none when it has no end.
fn unchunked(mut body: &str) -> Option<String> {
    let mut text = String::new();
    loop {
        let (size, rest) = body.split_once("\r\n")?;
        let size = usize::from_str_radix(size.trim(), 16).ok()?;
        if size == 0 {
            return Some(text);
        }
        text.push_str(rest.get(..size)?);
        body = rest.get(size..)?.strip_prefix("\r\n")?;
    }
}
