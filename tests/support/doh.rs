//! A server of DNS over HTTPS (HTTP/1.1) whose answers are those of an [`Upstream`].

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::Certificates;
use super::ports;
use super::upstream::Upstream;

/// Starts one with the certificate of this name; it goes on as long as the process.
pub fn start(certificates: &Certificates, name: &str, upstream: Arc<Upstream>) -> SocketAddr {
    let address = ports::free_address();
    let chain = CertificateDer::from_pem_file(certificates.file(name, "pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.file(name, "key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let (config, listener) = (Arc::new(config), TcpListener::bind(address).unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (config, upstream) = (Arc::clone(&config), Arc::clone(&upstream));
            std::thread::spawn(move || {
                // The end of a connection is no failure.
                let _ended = serve(stream.unwrap(), config, &upstream).is_err();
            });
        }
    });
    address
}

/// Answers on one connection.
fn serve(stream: TcpStream, config: Arc<ServerConfig>, upstream: &Upstream) -> std::io::Result<()> {
    let connection = ServerConnection::new(config).unwrap();
    let mut stream = BufReader::new(StreamOwned::new(connection, stream));
    loop {
        let (mut head, mut length) = (String::new(), 0);
        stream.read_line(&mut head)?;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.to_ascii_lowercase();
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut query = vec![0; length];
        stream.read_exact(&mut query)?;
        let mut words = head.split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        match (method, path.split_once('?')) {
            ("POST", None) if path == "/dns-query" => {}
            ("GET", Some(("/dns-query", text))) => {
                query = URL_SAFE_NO_PAD
                    .decode(text.strip_prefix("dns=").unwrap())
                    .unwrap();
            }
            other => panic!("{other:?}"),
        }
        // But for checks of health.
        assert!(query[12] == 0 || query[..2] == [0, 0], "the ID is 0");
        let (said, status) = (upstream.stream_reply(&query), "200 OK");
        let (said, status) = match said {
            Some(said) => (said, status),
            None => (b"no".to_vec(), "503 Service Unavailable"),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/dns-message\r\nContent-Length: {}\r\n\r\n",
            said.len()
        );
        let stream = stream.get_mut();
        stream.write_all(&[head.as_bytes(), &said].concat())?;
        stream.flush()?;
        if method == "POST" && query.windows(5).any(|it| it == b"close") {
            return Ok(());
        }
    }
}
