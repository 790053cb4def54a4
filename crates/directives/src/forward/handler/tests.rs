//! Tests of `forward` with upstreams of this process: their order, and the names that are forwarded.

use std::net::SocketAddr;

use ops::testing::soon;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use server::Router;
use server::testing::{Counting, chain, request, text};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::config::{DohMethod, handler_metrics};

mod kept;
mod shared;

/// The first `forward` of a block with these lines.
pub(super) fn config(lines: &str) -> crate::config::Forward {
    let text = format!(". {{\n{lines}\n}}\n");
    let overrides = crate::config::Overrides::default();
    let loaded = crate::config::parse_text("Corefile", &text, &overrides, &|_| None).unwrap();
    let block = &loaded.config.servers[0];
    let forward: &crate::config::Forward = block.get().unwrap();
    crate::config::Forward {
        client_subnet: crate::forward::sends_subnet(block),
        ..forward.clone()
    }
}

/// The handler for upstreams at these addresses.
fn forward(lines: &str, addresses: &[SocketAddr], tls: Option<&UpstreamTls>) -> ForwardHandler {
    let (config, metrics) = (config(lines), handler_metrics());
    let upstream = |address: &SocketAddr| Upstream::new(*address, tls.cloned(), &config, &metrics);
    let upstreams = addresses.iter().map(upstream).collect();
    ForwardHandler::new(config.clone(), upstreams, false, &metrics)
}

/// A server with nothing but this handler.
fn alone(forward: ForwardHandler) -> Arc<Router> {
    chain(vec![], vec![Arc::new(forward)])
}

/// Addresses that no server is bound to.
fn nowhere(count: u16) -> Vec<SocketAddr> {
    (1..=count)
        .map(|port| ([192, 0, 2, 1], port).into())
        .collect()
}

/// The handler's reply to a question, with another handler after it.
async fn said(forward: ForwardHandler, question: &str) -> String {
    let server = chain(
        vec![],
        vec![Arc::new(forward), Arc::new(Counting::default())],
    );
    let mut request = request(question);
    text(&server.answer(&mut request).await, 1)
}

/// Gives the places of upstreams whose health is to be checked.
fn to_be_checked(forward: &ForwardHandler) -> mpsc::Receiver<usize> {
    forward.ill_places.lock().unwrap().take().unwrap()
}

/// The reply to a query: an address.
fn reply_to(query: &[u8]) -> Vec<u8> {
    let mut reply = query.to_vec();
    reply[2] |= 0x80;
    reply[7] = 1;
    reply.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 10, 1, 2, 3]);
    reply
}

/// How queries are put to `dns.test` over HTTPS.
fn https() -> Arc<Https> {
    Arc::new(Https::new(DohMethod::Post, "dns.test").unwrap())
}

/// The client's and the server's TLS settings, with a certificate for `dns.test`.
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

/// The next datagram, and from where.
async fn next_query(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut buffer = [0; 512];
    let (length, peer) = soon(socket.recv_from(&mut buffer)).await.unwrap();
    (buffer[..length].to_vec(), peer)
}

#[tokio::test]
async fn security_11_a_datagram_with_another_question_is_ignored_and_the_right_one_counts() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let serve = async {
        let (query, peer) = next_query(&socket).await;
        let end = query.len();
        // The name, the type, the class, and that it is a reply.
        for (place, bits) in [(13, 1), (end - 3, 1), (end - 1, 2), (2, 0x80)] {
            let mut bad = reply_to(&query);
            bad[place] ^= bits;
            let last = bad.len() - 1;
            bad[last] = 66;
            socket.send_to(&bad, peer).await.unwrap();
            // Cut within its record.
            socket.send_to(&bad[..last], peer).await.unwrap();
            // Its data is no address.
            bad[last - 4] = 3;
            socket.send_to(&bad[..last], peer).await.unwrap();
        }
        // No question at all, and two.
        for count in [0, 2] {
            let mut bad = query.clone();
            (bad[2], bad[5]) = (0x80, count);
            socket.send_to(&bad[..12], peer).await.unwrap();
            bad.extend_from_within(12..end);
            socket.send_to(&bad, peer).await.unwrap();
        }
        socket.send_to(&reply_to(&query), peer).await.unwrap();
    };
    let asked = said(forward("forward . 192.0.2.1", &[address], None), "a.t. A");
    let (answer, ()) = tokio::join!(asked, serve);
    assert_eq!(answer, "NOERROR | a.t. 9 IN A 10.1.2.3");
}

/// The port and the ID of each of twenty queries.
async fn ports_and_ids() -> [Vec<u16>; 2] {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let server = alone(forward("forward . 192.0.2.1", &[address], None));
    let [mut ports, mut ids] = [Vec::new(), Vec::new()];
    for number in 0..20 {
        let mut request = request(&format!("{number}.t. A"));
        let serve = async {
            let (query, peer) = next_query(&socket).await;
            socket.send_to(&reply_to(&query), peer).await.unwrap();
            ports.push(peer.port());
            ids.push(u16::from_be_bytes([query[0], query[1]]));
        };
        let asked = Arc::clone(&server).answer(&mut request);
        let (answer, ()) = tokio::join!(asked, serve);
        assert!(text(&answer, 1).starts_with("NOERROR"));
    }
    [ports, ids]
}

/// How many of these are not what the one before tells: the same, or one more.
fn surprises(numbers: &[u16]) -> usize {
    let pairs = numbers.windows(2);
    pairs
        .filter(|pair| pair[1].wrapping_sub(pair[0]) > 1)
        .count()
}

#[tokio::test]
async fn security_11_each_query_leaves_from_a_port_of_its_own() {
    let [mut ports, _] = ports_and_ids().await;
    ports.sort_unstable();
    ports.dedup();
    // The kernel may choose one twice.
    assert!(ports.len() > 15, "{ports:?}");
}

#[tokio::test]
async fn security_11_each_query_has_an_id_that_the_one_before_does_not_tell() {
    let [_, ids] = ports_and_ids().await;
    assert!(surprises(&ids) > 15, "{ids:?}");
    assert_eq!(surprises(&[5, 5, 6, 7, 9]), 1);
}

#[tokio::test]
async fn security_11_equal_questions_at_once_are_one_query() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let server = alone(forward("forward . 192.0.2.1", &[address], None));
    let ask = async |question: &str, flags: u16| {
        let mut request = request(question);
        request.flags |= flags;
        text(&Arc::clone(&server).answer(&mut request).await, 1)
    };
    let asked = async {
        tokio::join!(
            ask("a.t. A", 0),
            ask("a.t. A", 0),
            ask("A.t. A", 0),
            ask("a.t. A", flags::CD),
            ask("b.t. A", 0),
        )
    };
    let serve = async {
        let mut queries = Vec::new();
        for _ in 0..3 {
            let (query, peer) = next_query(&socket).await;
            let cd = if query[3] & 0x10 == 0 { "" } else { " CD" };
            queries.push(format!("{}{cd}", char::from(query[13])));
            socket.send_to(&reply_to(&query), peer).await.unwrap();
        }
        queries.sort();
        queries
    };
    let (answers, queries) = soon(async { tokio::join!(asked, serve) }).await;
    assert_eq!(queries, ["a", "a CD", "b"]);
    let (first, second, third, checking, other) = answers;
    for answer in [first, second, third, checking] {
        assert_eq!(answer.to_lowercase(), "noerror | a.t. 9 in a 10.1.2.3");
    }
    assert_eq!(other, "NOERROR | b.t. 9 IN A 10.1.2.3");
    assert!(socket.try_recv(&mut [0; 512]).is_err());
}

#[tokio::test]
async fn security_11_when_the_client_that_asked_first_goes_the_next_asks() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let server = alone(forward("forward . 192.0.2.1", &[address], None));
    let ask = async || {
        let mut request = request("a.t. A");
        text(&Arc::clone(&server).answer(&mut request).await, 1)
    };
    let mut first = Box::pin(ask());
    let mut second = Box::pin(ask());
    assert!((&mut first).now_or_never().is_none() && (&mut second).now_or_never().is_none());
    tokio::select! {
        _ = &mut first => panic!("nobody answered"),
        _ = next_query(&socket) => {}
    }
    drop(first);
    let serve = async {
        let (query, peer) = next_query(&socket).await;
        socket.send_to(&reply_to(&query), peer).await.unwrap();
    };
    let (answer, ()) = soon(async { tokio::join!(second, serve) }).await;
    assert_eq!(answer, "NOERROR | a.t. 9 IN A 10.1.2.3");
}

#[tokio::test]
async fn security_11_letters_of_the_question_are_random_if_wanted_and_the_reply_must_have_them() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let lines = "forward . 192.0.2.1 {\n random_case\n}";
    let name = "abcdefghijklmnopqrstuvwxyz-abcdefghijklmnopqrstuvwxyz-abcdefgh.t.";
    let serve = async {
        let (query, peer) = next_query(&socket).await;
        let label = &query[13..13 + 62];
        assert_eq!(label.to_ascii_lowercase(), name.as_bytes()[..62]);
        let upper = label.iter().filter(|it| it.is_ascii_uppercase()).count();
        assert!((5..55).contains(&upper), "{upper}");
        let mut other = reply_to(&query);
        other[13..13 + 62].make_ascii_lowercase();
        let end = other.len() - 1;
        other[end] = 66;
        socket.send_to(&other, peer).await.unwrap();
        socket.send_to(&reply_to(&query), peer).await.unwrap();
    };
    let question = format!("{name} A");
    let asked = said(forward(lines, &[address], None), &question);
    let (answer, ()) = soon(async { tokio::join!(asked, serve) }).await;
    assert_eq!(
        answer.to_lowercase(),
        format!("noerror | {name} 9 in a 10.1.2.3")
    );
}

#[tokio::test]
async fn security_12_the_client_s_subnet_stays_here_unless_wanted() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let subnet = [0, 8, 0, 7, 0, 1, 24, 0, 192, 0, 2];
    for (lines, goes_on) in [
        ("forward . 192.0.2.1", false),
        ("forward . 192.0.2.1 {\n client_subnet\n}", true),
        ("rewrite edns0 subnet set 24 56\nforward . 192.0.2.1", true),
    ] {
        let server = alone(forward(lines, &[address], None));
        let mut request = request("a.t. A");
        request.edns = Some(server::message::Edns {
            size: 1232,
            dnssec_ok: false,
            options: subnet.to_vec(),
        });
        let serve = async {
            let (query, peer) = next_query(&socket).await;
            let mut reply = reply_to(&query[..query.len() - 11 - 11 * usize::from(goes_on)]);
            reply[11] = 0;
            socket.send_to(&reply, peer).await.unwrap();
            query.ends_with(&subnet)
        };
        let asked = Arc::clone(&server).answer(&mut request);
        let (answer, has_subnet) = soon(async { tokio::join!(asked, serve) }).await;
        assert!(text(&answer, 1).starts_with("NOERROR"), "{lines}");
        assert_eq!(has_subnet, goes_on, "{lines}");
    }
}

#[tokio::test]
async fn a_query_that_is_given_up_from_outside_has_its_upstream_checked() {
    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = silent.local_addr().unwrap();
    tokio::time::pause();
    let lines = "forward . 192.0.2.1 {\n policy sequential\n}";
    let forward = forward(lines, &[address, nowhere(1)[0]], None);
    let mut ill = to_be_checked(&forward);
    let asked = said(forward, "a.t. A");
    let asked = tokio::time::timeout(Duration::from_secs(1), asked).await;
    assert!(asked.is_err());
    assert_eq!(ill.try_recv(), Ok(0));
    assert!(ill.try_recv().is_err());
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
    let mut ill = to_be_checked(&forward);
    let said = said(forward, "a.t. A").await;
    assert!(
        said.starts_with("SERVFAIL: the sockets that wait"),
        "{said}"
    );
    assert_eq!(ill.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
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
