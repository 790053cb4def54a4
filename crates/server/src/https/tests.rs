//! Tests of requests over HTTPS on loopback: their responses, and the limits of connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use dns::Rtype;
use dns::testing::{answers, query, with_opt};
use futures_util::FutureExt;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::TokioExecutor;
use ops::testing::soon;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::*;
use crate::testing::{Running, Setup, Waiting, run_also_on, www};
use crate::tls::testing::Authority;
use crate::{Listener, Proto, TlsIdentity};

/// A server with a listener for HTTPS.
struct Site {
    running: Running,
    /// Its address.
    address: SocketAddr,
    /// The authority that signed its certificate.
    authority: Authority,
}

/// The client's end of a connection.
enum Asks {
    H2(http2::SendRequest<Full<Bytes>>),
    H1(http1::SendRequest<Full<Bytes>>),
}

impl Site {
    fn start(mut setup: Setup) -> Self {
        let authority = Authority::new();
        let material = authority.material("dns.example", None);
        setup.tls = Some(Arc::new(TlsIdentity::new(&material).unwrap()));
        let listener =
            Listener::bind_encrypted(([127, 0, 0, 1], 0).into(), Proto::Https, &[]).unwrap();
        let address = listener.address();
        Self {
            running: run_also_on(&setup.server(), vec![listener]),
            address,
            authority,
        }
    }

    async fn stream(
        &self,
        alpn: &[&str],
    ) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        let connector = TlsConnector::from(Arc::new(self.authority.client(alpn, None)));
        let name = ServerName::try_from("dns.example").unwrap();
        soon(connector.connect(name, stream)).await
    }

    /// A connection with HTTP/2 or HTTP/1.1.
    async fn connect(&self, tasks: &mut JoinSet<()>, token: &str) -> Asks {
        let io = TokioIo::new(self.stream(&[token]).await.unwrap());
        if token == "h2" {
            let (sender, driver) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
            tasks.spawn(driver.map(drop));
            Asks::H2(sender)
        } else {
            let (sender, driver) = http1::handshake(io).await.unwrap();
            tasks.spawn(driver.map(drop));
            Asks::H1(sender)
        }
    }

    async fn until_empty(&self) {
        soon(async {
            while self.running.stats.tcp_open.get() > 0 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
}

impl Asks {
    /// The status and the body of the response to a request.
    async fn send(&mut self, request: Request<Full<Bytes>>) -> hyper::Result<(u16, Vec<u8>)> {
        let response = match self {
            Self::H2(sender) => soon(sender.send_request(request)).await?,
            Self::H1(sender) => soon(sender.send_request(request)).await?,
        };
        let status = response.status().as_u16();
        let body = soon(response.into_body().collect()).await?;
        Ok((status, body.to_bytes().to_vec()))
    }

    async fn post(&mut self, message: &[u8]) -> hyper::Result<(u16, Vec<u8>)> {
        self.send(post(message)).await
    }

    /// Puts a message with GET.
    async fn get(&mut self, message: &[u8]) -> hyper::Result<(u16, Vec<u8>)> {
        let text = URL_SAFE_NO_PAD.encode(message);
        let uri = format!("https://dns.example/dns-query?dns={text}");
        let request = Request::get(uri).header("host", "dns.example");
        self.send(request.body(Full::default()).unwrap()).await
    }
}

fn post(message: &[u8]) -> Request<Full<Bytes>> {
    Request::post("https://dns.example/dns-query")
        .header("host", "dns.example")
        .header("content-type", "application/dns-message")
        .body(Full::from(message.to_vec()))
        .unwrap()
}

#[tokio::test]
async fn queries_are_answered_over_both_versions_and_with_both_methods() {
    let site = Site::start(Setup::small());
    let mut tasks = JoinSet::new();
    for token in ["h2", "http/1.1"] {
        let mut client = site.connect(&mut tasks, token).await;
        for _ in 0..2 {
            let (status, reply) = client.post(&www()).await.unwrap();
            assert_eq!(status, 200, "{token}");
            assert_eq!(answers(&[reply]), ["www.z. 60 IN A 10.0.0.1"]);
            let (status, reply) = client.get(&www()).await.unwrap();
            assert_eq!(status, 200, "{token}");
            assert_eq!(answers(&[reply]), ["www.z. 60 IN A 10.0.0.1"]);
        }
    }
    let replies = site
        .running
        .stats
        .replies(Proto::Https, dns::Rcode::NOERROR);
    assert_eq!(replies.get(), 8);
    assert!(site.stream(&["dot"]).await.is_err());
}

#[tokio::test]
async fn a_bad_request_has_its_status_and_the_connection_stays() {
    let site = Site::start(Setup::small());
    let mut tasks = JoinSet::new();
    let mut client = site.connect(&mut tasks, "h2").await;
    let with = |method: &str, path: &str, content_type: &str, body: Vec<u8>| {
        Request::builder()
            .method(method)
            .uri(format!("https://dns.example{path}"))
            .header("content-type", content_type)
            .body(Full::from(body))
            .unwrap()
    };
    let message = "application/dns-message";
    let mut response = www();
    response[2] |= 0x80;
    let mut cut = www();
    cut.pop();
    for (request, want) in [
        (with("POST", "/", message, www()), 404),
        (with("PUT", "/dns-query", message, www()), 405),
        (with("POST", "/dns-query", "text/plain", www()), 415),
        (with("POST", "/dns-query", message, cut), 400),
        (with("POST", "/dns-query", message, vec![]), 400),
        (with("POST", "/dns-query", message, response), 400),
        (
            with("POST", "/dns-query", message, vec![0; REQUEST_OCTETS + 1]),
            413,
        ),
        (with("GET", "/dns-query", message, vec![]), 400),
    ] {
        let shown = format!("{request:?}");
        assert_eq!(client.send(request).await.unwrap().0, want, "{shown}");
    }
    assert_eq!(client.post(&www()).await.unwrap().0, 200);
}

/// RFC 8484 section 4.2.1: a reply with any response code has the HTTP status 200.
#[tokio::test]
async fn transfers_are_refused_and_replies_are_padded() {
    let site = Site::start(Setup::small());
    let mut tasks = JoinSet::new();
    let mut client = site.connect(&mut tasks, "h2").await;
    for qtype in [Rtype::AXFR, Rtype::IXFR] {
        let (status, reply) = client.post(&query(0, "z.", qtype)).await.unwrap();
        assert_eq!((status, reply[3] & 15), (200, 5), "{qtype}");
    }
    assert_eq!(site.running.stats.transfers_denied.get(), 0);
    // RFC 8467 section 4.1: to a multiple of 468 octets.
    let padded = with_opt(www(), 1232, 0, &[0, 12, 0, 0]);
    let (_, reply) = client.post(&padded).await.unwrap();
    assert_eq!(reply.len(), 468);
}

#[tokio::test]
async fn requests_of_one_connection_wait_side_by_side_and_a_panic_is_a_servfail() {
    for (max_streams, inside) in [(250, 3), (2, 2)] {
        let (mut setup, waiting) = Waiting::setup();
        setup.settings.https.max_streams = max_streams;
        let site = Site::start(setup);
        let mut tasks = JoinSet::new();
        let Asks::H2(sender) = site.connect(&mut tasks, "h2").await else {
            unreachable!("it speaks HTTP/2");
        };
        // The client knows the limit after its first response.
        waiting.permits.add_permits(1);
        let mut client = Asks::H2(sender.clone());
        let (status, _) = client.post(&query(0, "x.", Rtype::A)).await.unwrap();
        assert_eq!((status, waiting.permits.forget_permits(1)), (200, 1));
        let mut asking = JoinSet::new();
        for qtype in [Rtype::A, Rtype::MX, Rtype::AAAA] {
            let mut client = Asks::H2(sender.clone());
            asking.spawn(async move { client.post(&query(0, "x.", qtype)).await });
        }
        waiting.until_arrived(1 + inside).await;
        assert_eq!(waiting.arrived(), 1 + inside);
        waiting.permits.add_permits(1);
        let mut rcodes = Vec::new();
        while let Some(ended) = soon(asking.join_next()).await {
            let (status, reply) = ended.unwrap().unwrap();
            rcodes.push((status, reply[3] & 15));
        }
        rcodes.sort_unstable();
        assert_eq!(rcodes, [(200, 0), (200, 0), (200, 2)]);
        assert_eq!(site.running.stats.panics.get(), 1);
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_off_is_not_open() {
    let (mut setup, waiting) = Waiting::setup();
    setup.settings.tcp.drain_timeout = Duration::from_millis(10);
    let site = Site::start(setup);
    let mut tasks = JoinSet::new();
    let mut client = site.connect(&mut tasks, "h2").await;
    tasks.spawn(async move { client.post(&www()).map(drop).await });
    waiting.until_arrived(1).await;
    assert_eq!(site.running.stats.tcp_open.get(), 1);
    site.running.cancel.cancel();
    site.until_empty().await;
    assert_eq!(waiting.permits.available_permits(), 0);
}

#[tokio::test]
async fn a_client_with_too_many_connections_is_refused_and_others_are_not() {
    let mut setup = Setup::small();
    setup.settings.tcp.max_per_client = 2;
    setup.settings.https.max_connections = 3;
    let site = Site::start(setup);
    let _idle = [
        site.stream(&["h2"]).await.unwrap(),
        site.stream(&["h2"]).await.unwrap(),
    ];
    assert!(site.stream(&["h2"]).await.is_err());
    assert_eq!(site.running.stats.tcp_refused.get(), 1);
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let stream = socket.connect(site.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(site.authority.client(&["h2"], None)));
    let name = ServerName::try_from("dns.example").unwrap();
    assert!(soon(connector.connect(name, stream)).await.is_ok());
}

/// findings-server 5: it held its place as long as an idle connection.
#[tokio::test]
async fn half_a_first_header_is_ended_after_the_time_of_a_first_request() {
    let mut setup = Setup::small();
    setup.settings.tcp.first_request_timeout = Duration::from_millis(50);
    setup.settings.tcp.idle_timeout = Duration::from_secs(3600);
    let site = Site::start(setup);
    let mut stream = site.stream(&["http/1.1"]).await.unwrap();
    stream.write_all(b"POST /dns-query HTTP").await.unwrap();
    let mut rest = Vec::new();
    // Whether TLS is closed or cut is not the matter.
    let _ended = soon(stream.read_to_end(&mut rest)).await;
    assert_eq!(site.running.stats.tcp_timed_out.get(), 1);
}

#[tokio::test]
async fn idle_connections_and_unfinished_requests_are_ended() {
    let mut setup = Setup::small();
    setup.settings.tcp.first_request_timeout = Duration::from_millis(50);
    setup.settings.tcp.idle_timeout = Duration::from_millis(100);
    setup.settings.tcp.stall_timeout = Duration::from_millis(100);
    let site = Site::start(setup);
    let stats = &site.running.stats;
    let mut tasks = JoinSet::new();
    // No request at all, in either version.
    for token in ["h2", "http/1.1"] {
        let mut stream = site.stream(&[token]).await.unwrap();
        let mut rest = Vec::new();
        // It does not matter whether TLS is closed or cut.
        let _ended = soon(stream.read_to_end(&mut rest)).await;
    }
    // Half a request.
    let mut stream = site.stream(&["http/1.1"]).await.unwrap();
    let head = "POST /dns-query HTTP/1.1\r\nhost: a\r\ncontent-type: application/dns-message\r\n\
                content-length: 30\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut said = Vec::new();
    let _ended = soon(stream.read_to_end(&mut said)).await;
    assert!(
        said.starts_with(b"HTTP/1.1 408"),
        "{}",
        String::from_utf8_lossy(&said)
    );
    // A connection that was used.
    let mut client = site.connect(&mut tasks, "h2").await;
    assert_eq!(client.post(&www()).await.unwrap().0, 200);
    site.until_empty().await;
    assert!(client.post(&www()).await.is_err());
    assert!(stats.tcp_timed_out.get() >= 3);
}

#[tokio::test]
async fn a_connection_over_http_1_that_was_used_stays_as_long_as_it_may_be_idle() {
    let mut setup = Setup::small();
    setup.settings.tcp.first_request_timeout = Duration::from_millis(50);
    setup.settings.tcp.idle_timeout = Duration::from_millis(400);
    let site = Site::start(setup);
    let mut tasks = JoinSet::new();
    let mut client = site.connect(&mut tasks, "http/1.1").await;
    let asked = tokio::time::Instant::now();
    assert_eq!(client.post(&www()).await.unwrap().0, 200);
    site.until_empty().await;
    let stayed = asked.elapsed();
    assert!(stayed >= Duration::from_millis(400), "{stayed:?}");
    assert_eq!(site.running.stats.tcp_timed_out.get(), 1);
}

#[tokio::test]
async fn a_connection_ends_with_its_last_request() {
    let mut setup = Setup::small();
    setup.settings.tcp.max_queries = Some(2);
    // No timeout closes it.
    setup.settings.tcp.first_request_timeout = Duration::from_secs(3600);
    setup.settings.tcp.idle_timeout = Duration::from_secs(3600);
    let site = Site::start(setup);
    let mut tasks = JoinSet::new();
    for token in ["h2", "http/1.1"] {
        let mut client = site.connect(&mut tasks, token).await;
        for _ in 0..2 {
            assert_eq!(client.post(&www()).await.unwrap().0, 200);
        }
        site.until_empty().await;
        assert!(client.post(&www()).await.is_err(), "{token}");
    }
}

#[tokio::test]
async fn a_server_that_ends_answers_once_more() {
    let site = Site::start(Setup::small());
    let mut tasks = JoinSet::new();
    let mut client = site.connect(&mut tasks, "h2").await;
    assert_eq!(client.post(&www()).await.unwrap().0, 200);
    site.running.draining.store(true, Ordering::Relaxed);
    assert_eq!(client.post(&www()).await.unwrap().0, 200);
    site.until_empty().await;
}
