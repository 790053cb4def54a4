//! `forward`: the order of upstreams, names that are its matter, and upstreams of this process.

use std::net::SocketAddr;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use server::Router;
use server::testing::{Counting, chain, request, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::handler_metrics;

mod kept;
mod shared;

/// What a block with these lines says of its first `forward`.
fn config(lines: &str) -> crate::config::Forward {
    let text = format!(". {{\n{lines}\n}}\n");
    let overrides = crate::config::Overrides::default();
    let loaded = crate::config::parse_text("Corefile", &text, &overrides, &|_| None).unwrap();
    loaded.config.servers[0]
        .all::<crate::config::Forward>()
        .next()
        .unwrap()
        .clone()
}

/// The handler for upstreams at these addresses.
fn forward(lines: &str, addresses: &[SocketAddr], tls: Option<&UpstreamTls>) -> ForwardHandler {
    let (config, metrics) = (config(lines), handler_metrics());
    let upstream = |address: &SocketAddr| Upstream::new(*address, tls.cloned(), &config, &metrics);
    let upstreams = addresses.iter().map(upstream).collect();
    ForwardHandler::new(config.clone(), upstreams, false, &metrics)
}

/// Addresses where nobody is.
fn nowhere(count: u16) -> Vec<SocketAddr> {
    (1..=count)
        .map(|port| ([192, 0, 2, 1], port).into())
        .collect()
}

/// What the handler says to a question, another handler behind it.
async fn said(forward: ForwardHandler, question: &str) -> String {
    let server = chain(
        vec![],
        vec![Arc::new(forward), Arc::new(Counting::default())],
    );
    let mut request = request(question);
    text(&server.answer(&mut request).await, 1)
}

/// The reply to a query: an address.
fn reply_to(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply[7] = 1;
    reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 1, 2, 3]);
    reply
}

/// Both ends of TLS with a certificate for `dns.test`.
fn tls() -> (ClientConfig, ServerConfig) {
    let made = rcgen::generate_simple_self_signed(vec!["dns.test".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    (trusting(certificate), server)
}

/// A client that trusts this certificate.
fn trusting(certificate: CertificateDer<'static>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[test]
fn each_policy_has_its_order() {
    let orders = |policy: &str, count| {
        let lines = format!("forward . 192.0.2.1 {{\n policy {policy}\n}}");
        let forward = forward(&lines, &nowhere(3), None);
        (0..count).map(|_| forward.order()).collect::<Vec<_>>()
    };
    assert_eq!(orders("sequential", 2), [[0, 1, 2], [0, 1, 2]]);
    assert_eq!(
        orders("round_robin", 4),
        [[1, 0, 2], [2, 0, 1], [0, 1, 2], [1, 0, 2]]
    );
    let mut random = orders("random", 300);
    random.sort();
    random.dedup();
    assert_eq!(random.len(), 6);
}

#[test]
fn names_that_are_excepted_or_above_pass() {
    let forward = forward(
        "forward t 192.0.2.1 {\n except no.t t\n}",
        &nowhere(1),
        None,
    );
    for (name, takes) in [("t.", true), ("a.t.", false), ("u.", false), (".", false)] {
        let name: dns::Name = name.parse().unwrap();
        assert_eq!(forward.takes(name.as_wire()), takes, "{name}");
    }
    assert!(forward.takes_all_classes());
}

#[test]
fn opening_may_take_twice_what_it_took_lately() {
    let forward = forward("forward . 192.0.2.1", &nowhere(1), None);
    let upstream = &forward.upstreams[0];
    assert_eq!(upstream.dial_limit(), Duration::from_secs(30));
    for _ in 0..40 {
        upstream.note_dial(Duration::from_millis(2));
    }
    assert_eq!(upstream.dial_limit(), Duration::from_secs(1));
    assert!(!upstream.is_down(2));
    (0..3).for_each(|_| upstream.note_failed_check());
    assert!(upstream.is_down(2) && !upstream.is_down(0) && !upstream.is_down(3));
    upstream.note_well();
    assert!(!upstream.is_down(2));
}

#[tokio::test]
async fn datagrams_of_another_id_or_source_are_passed_over() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let serve = async {
        let mut buffer = [0; 512];
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        let good = reply_to(&buffer[..length]);
        let mut bad = good.clone();
        let end = bad.len() - 1;
        bad[end] = 66;
        stranger.send_to(&bad, peer).await.unwrap();
        bad[0] ^= 1;
        socket.send_to(&bad, peer).await.unwrap();
        socket.send_to(&[1, 2, 3], peer).await.unwrap();
        socket.send_to(&good, peer).await.unwrap();
    };
    let asked = said(forward("forward . 192.0.2.1", &[address], None), "a.t. A");
    let (answer, ()) = tokio::join!(asked, serve);
    assert_eq!(answer, "NOERROR | a.t. 9 IN A 10.1.2.3");
}

#[tokio::test]
async fn over_tls_the_certificate_must_have_the_name() {
    let (config, server) = tls();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else {
                continue;
            };
            let mut query = vec![0; usize::from(stream.read_u16().await.unwrap())];
            stream.read_exact(&mut query).await.unwrap();
            let reply = reply_to(&query);
            stream
                .write_u16(u16::try_from(reply.len()).unwrap())
                .await
                .unwrap();
            stream.write_all(&reply).await.unwrap();
            stream.flush().await.unwrap();
        }
    };
    let ask = async {
        for (name, want) in [
            ("dns.test", "NOERROR | a.t. 9 IN A 10.1.2.3"),
            ("other.test", "SERVFAIL: dial tcp 127.0.0.1:"),
        ] {
            let tls = UpstreamTls {
                config: Arc::new(config.clone()),
                name: ServerName::try_from(name.to_owned()).unwrap(),
                protocol: Secured::Tls,
            };
            let lines = "forward . tls://192.0.2.1 {\n max_connect_attempts 1\n}";
            let answer = said(forward(lines, &[address], Some(&tls)), "a.t. A").await;
            assert!(answer.starts_with(want), "{answer}");
        }
    };
    tokio::select! {
        () = serve => panic!("the upstream ended"),
        () = ask => {}
    }
}

#[tokio::test]
async fn a_query_without_a_socket_fails_and_says_nothing_about_the_upstream() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let none = UpstreamSockets::new(0);
    let (config, metrics) = (config("forward . 192.0.2.1"), handler_metrics());
    let upstream = Upstream::new(address, None, &config, &metrics).with_sockets(&none);
    let forward = ForwardHandler::new(config, vec![upstream], false, &metrics);
    let said = said(forward, "a.t. A").await;
    assert!(said.starts_with("SERVFAIL: as many sockets"), "{said}");
    assert_eq!(
        metrics
            .counter(crate::forward::metrics::PROXY_HEALTHCHECK_FAILURES)
            .get_or_create(&Vec::new())
            .get(),
        0
    );
    let mut buffer = [0; 512];
    assert!(socket.try_recv(&mut buffer).is_err());
}

#[test]
fn sockets_lie_idle_only_while_most_are_free() {
    let sockets = UpstreamSockets::new(2);
    assert!(sockets.has_plenty());
    let first = sockets.take().unwrap();
    assert!(!sockets.has_plenty());
    let second = sockets.take().unwrap();
    assert!(sockets.take().is_none());
    drop(first);
    assert!(sockets.take().is_some());
    drop(second);
    assert!(sockets.has_plenty());
}

#[tokio::test]
async fn five_seconds_in_all_are_kept_whatever_one_upstream_may_take() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    tokio::time::pause();
    let began = Instant::now();
    let lines = "forward . 192.0.2.1 {\n max_connect_attempts 9\n}";
    let said = said(forward(lines, &[address], None), "a.t. A").await;
    assert!(said.starts_with("SERVFAIL"), "{said}");
    assert_eq!(began.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn the_addresses_of_a_name_are_asked_of_the_next_resolver_when_one_has_none() {
    let [deaf, knows] = [
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
        UdpSocket::bind("127.0.0.1:0").await.unwrap(),
    ];
    let resolvers = [&deaf, &knows].map(|it| it.local_addr().unwrap());
    let name: dns::Name = "up.test.".parse().unwrap();
    let answer = async |socket: &UdpSocket, has_it: bool| loop {
        let mut buffer = [0; 512];
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        let query = &buffer[..length];
        let mut reply = query.to_vec();
        reply[2] |= 0x80;
        if has_it && query[length - 3] == 1 {
            reply = reply_to(query);
        }
        socket.send_to(&reply, peer).await.unwrap();
    };
    let config = config("forward . 192.0.2.1");
    let found = tokio::select! {
        found = resolve(&name, &resolvers, &config) => found.unwrap(),
        () = answer(&deaf, false) => panic!("the first ended"),
        () = answer(&knows, true) => panic!("the second ended"),
    };
    assert_eq!(found, ["10.1.2.3".parse::<std::net::IpAddr>().unwrap()]);
}
