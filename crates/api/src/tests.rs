//! The listener with real connections: methods, sizes, limits.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arc_swap::ArcSwap;
use dns::{Name, Rtype, Serial};
use history::{AuditError, Grounds, HistoryLine, Order, Past, PastNow, Status};
use ops::testing::soon;
use provenance::Operator;
use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use server::{TlsIdentity, TlsMaterial};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use zone::journal::{PartVerdict, PartialStep, SerialPlace, Topic, Verdict};
use zone::{Contents, Hash, Net, Step};

use crate::reviewer::Reviewer;
use crate::{Access, Counts, Limits, Serving, Site, serve};

/// A history without zones.
struct Empty;

fn none<T>() -> Result<T, AuditError> {
    Err(AuditError::Store("nothing is here".to_owned()))
}

impl Past for Empty {
    fn zones(&self) -> Vec<Name> {
        Vec::new()
    }

    fn range(&self, _: &Name) -> Option<(u64, u64)> {
        None
    }

    fn step(&self, _: &Name, _: u64) -> Result<Arc<Step>, AuditError> {
        none()
    }

    fn steps(&self, _: &Name, _: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError> {
        none()
    }

    fn step_of(&self, _: &Name, _: u64, _: &Name) -> Result<PartialStep, AuditError> {
        none()
    }

    fn place_of(&self, _: &Name, _: Serial, _: u64) -> Result<SerialPlace, AuditError> {
        none()
    }

    fn moment(&self, _: &Name, _: u64) -> Result<(Serial, u64), AuditError> {
        none()
    }

    fn find(
        &self,
        _: &Name,
        _: Topic,
        _: RangeInclusive<u64>,
        _: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        none()
    }

    fn contents(&self, _: &Name, _: u64) -> Result<Contents, AuditError> {
        none()
    }

    fn contents_of(&self, _: &Name, _: u64, _: &Name) -> Result<Contents, AuditError> {
        none()
    }

    fn difference(&self, _: &Name, _: u64, _: u64) -> Result<Option<Net>, AuditError> {
        none()
    }

    fn verify(&self, _: &Name, _: &[Hash]) -> Result<Verdict, AuditError> {
        none()
    }

    fn verify_here(&self, _: &Name, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        none()
    }

    fn verify_segment(&self, _: &Name, _: u64, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        none()
    }

    fn status(&self) -> Option<Status> {
        None
    }

    fn history(&self, _: &Name) -> Option<HistoryLine> {
        None
    }

    fn order(&self, _: &Name, _: Order, _: &Operator) -> Result<Serial, AuditError> {
        panic!("a reader gave an order")
    }

    fn grounds(&self, _: &Name, _: Rtype) -> Result<Grounds, AuditError> {
        none()
    }

    fn now_ms(&self) -> u64 {
        0
    }
}

/// Accepts each token, as the account of that name, which may read everything.
#[derive(Debug)]
struct Open;

mod open {
    use futures_util::future::BoxFuture;
    use kubernetes::source::api_server::reviews::{Account, ReviewError};

    use super::{Open, Reviewer};

    impl Reviewer for Open {
        fn account<'a>(
            &'a self,
            token: &'a str,
        ) -> BoxFuture<'a, Result<Option<Account>, ReviewError>> {
            let name = token.to_owned();
            let account = Account {
                name,
                ..Account::default()
            };
            Box::pin(async { Ok(Some(account)) })
        }

        fn may_read<'a>(
            &'a self,
            _: &'a Account,
            _: Option<&'a str>,
        ) -> BoxFuture<'a, Result<bool, ReviewError>> {
            Box::pin(async { Ok(true) })
        }
    }
}

struct Running {
    address: SocketAddr,
    client: TlsConnector,
    counts: Arc<Counts>,
    cancel: CancellationToken,
    tasks: JoinSet<()>,
}

impl Running {
    async fn start(limits: Limits) -> Self {
        let params = CertificateParams::new(vec!["api.example".to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let material = TlsMaterial {
            certificates: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            clients: None,
        };
        let site = Site {
            tls: Arc::new(TlsIdentity::new(&material).unwrap()),
            access: Access::new(Some(Arc::new(Open)), None),
            limits,
        };
        let past: Arc<dyn Past + Send + Sync> = Arc::new(Empty);
        let past: PastNow = Arc::new(move || Arc::clone(&past));
        let counts: Arc<Counts> = Arc::default();
        let serving = Serving {
            past,
            reading: Arc::new(Semaphore::new(1)),
            counts: Arc::clone(&counts),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (cancel, mut tasks) = (CancellationToken::new(), JoinSet::new());
        let site = Arc::new(ArcSwap::from_pointee(site));
        tasks.spawn(serve(listener, site, serving, cancel.clone()));
        Self {
            address,
            client: connector(certificate.der().clone()),
            counts,
            cancel,
            tasks,
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("api.example").unwrap();
        soon(self.client.connect(name, stream)).await.unwrap()
    }

    /// What comes back for a request until the connection ends.
    async fn send(&self, request: &str) -> String {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        read(&mut stream).await
    }

    /// The status and the body of a request with the token `alice`.
    async fn ask(&self, method: &str, target: &str, more: &str) -> (u16, String) {
        let said = self
            .send(&format!(
                "{method} {target} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer alice\r\n{more}connection: close\r\n\r\n"
            ))
            .await;
        let (head, body) = said.split_once("\r\n\r\n").expect("a response");
        let status = head.split(' ').nth(1).expect("a status");
        (status.parse().unwrap(), body.to_owned())
    }

    fn count(&self, name: &str, labels: &[&str]) -> f64 {
        let mut samples = Vec::new();
        self.counts.samples(&mut samples);
        let is_it = |it: &&ops::metrics::Sample| it.metric.name == name && it.labels == labels;
        samples.iter().find(is_it).map_or(0.0, |it| it.value)
    }
}

fn connector(authority: CertificateDer<'static>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// All that comes on a connection until it ends.
async fn read(stream: &mut TlsStream<TcpStream>) -> String {
    let mut got = Vec::new();
    // Whether it is closed or reset is not the matter.
    let _ended = soon(stream.read_to_end(&mut got)).await;
    String::from_utf8(got).unwrap()
}

#[tokio::test]
async fn requests_that_do_more_than_ask_are_refused() {
    let running = Running::start(Limits::default()).await;
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for endpoint in crate::endpoint::ENDPOINTS {
            let (status, _) = running
                .ask(method, &endpoint.path().replace("{zone}", "z"), "")
                .await;
            assert_eq!(status, 405, "{method} {}", endpoint.name);
        }
    }
    let (status, body) = running
        .ask("GET", "/v1/status", "content-length: 3\r\n")
        .await;
    assert_eq!(status, 413, "{body}");
    let long = format!("/v1/log?name={}", "a".repeat(5000));
    assert_eq!(running.ask("GET", &long, "").await.0, 414);
    let large = format!("x: {}\r\n", "a".repeat(20_000));
    assert_eq!(running.ask("GET", "/v1/status", &large).await.0, 431);
    let many = "x: y\r\n".repeat(100);
    assert_eq!(running.ask("GET", "/v1/status", &many).await.0, 431);
    let (status, body) = running.ask("HEAD", "/v1/zones/z/show", "").await;
    assert_eq!((status, body.as_str()), (400, ""));
    let failure = "{\"error\":\"no zone z. here\",\"exit\":2,\"fault\":\"wrong\",\"schema\":1}\n";
    let said = running.ask("GET", "/v1/zones/z/show", "").await;
    assert_eq!(said, (400, failure.to_owned()));
    assert_eq!(running.ask("GET", "/v1/status", "").await.0, 500);
}

#[tokio::test]
async fn a_reader_that_asks_too_often_is_limited_and_others_are_not() {
    let limits = Limits {
        requests_per_second: 1,
        ..Limits::default()
    };
    let running = Running::start(limits).await;
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(running.ask("GET", "/v1/zones/z/show", "").await.0);
    }
    assert_eq!(statuses[..5], [400; 5]);
    assert!(statuses.contains(&429), "{statuses:?}");
    let other = "GET /v1/zones/z/show HTTP/1.1\r\nhost: a\r\nauthorization: Bearer bob\r\nconnection: close\r\n\r\n";
    assert!(running.send(other).await.starts_with("HTTP/1.1 400"));
    let limited = statuses.iter().filter(|it| **it == 429).count();
    let counted = running.count("zonewright_history_api_requests", &["none", "limited"]);
    assert_eq!(counted.to_string(), limited.to_string());
}

#[tokio::test]
async fn one_source_has_a_quarter_of_the_connections() {
    let limits = Limits {
        max_connections: 8,
        ..Limits::default()
    };
    let mut running = Running::start(limits).await;
    let _kept = [running.connect().await, running.connect().await];
    let mut third = TcpStream::connect(running.address).await.unwrap();
    let mut got = Vec::new();
    // Whether it is closed or reset is not the matter.
    let _ended = soon(third.read_to_end(&mut got)).await;
    assert!(got.is_empty());
    let refused = running.count("zonewright_history_api_refused", &["limit"]);
    assert_eq!(refused.to_string(), "1");
    running.cancel.cancel();
    soon(running.tasks.join_next()).await;
}

#[tokio::test]
async fn a_connection_without_tls_and_one_without_a_token_get_nothing() {
    let running = Running::start(Limits::default()).await;
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut got = Vec::new();
    // It is closed or reset after the alert.
    let _ended = soon(plain.read_to_end(&mut got)).await;
    assert!(got.len() < 16, "an alert at most");
    let failed = running.count("zonewright_history_api_refused", &["handshake"]);
    assert_eq!(failed.to_string(), "1");
    for endpoint in crate::endpoint::ENDPOINTS {
        let target = endpoint.path().replace("{zone}", "z");
        let said = running
            .send(&format!(
                "GET {target} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"
            ))
            .await;
        assert!(said.starts_with("HTTP/1.1 401"), "{target}: {said}");
        assert!(said.contains("www-authenticate: Bearer"), "{said}");
    }
    let described = "GET /openapi.json HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let described = running.send(described).await;
    assert!(
        described.contains("content-type: application/json")
            && described.contains("/v1/zones/{zone}/log")
    );
}
