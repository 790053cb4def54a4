//! Tests of requests over QUIC and HTTP/3 on loopback: their replies, and the limits of connections.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use bytes::{Buf, Bytes};
use dns::Rtype;
use dns::testing::{answers, query, with_opt};
use http::Request;
use ops::testing::soon;
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, ConnectionError, ReadError, ReadToEndError};

use super::*;
use crate::testing::{Running, Setup, Waiting, run_also_on, www};
use crate::tls::testing::Authority;
use crate::{Listener, TlsIdentity};

struct Site {
    running: Running,
    address: SocketAddr,
    /// Its protocol.
    proto: Proto,
    /// The authority that signed its certificate.
    authority: Authority,
    /// The endpoint of its clients.
    endpoint: Endpoint,
}

impl Site {
    /// Starts a server.
    fn start(mut setup: Setup, proto: Proto) -> Self {
        let authority = Authority::new();
        let material = authority.material("dns.example", None);
        setup.tls = Some(Arc::new(TlsIdentity::new(&material).unwrap()));
        let here = (Ipv4Addr::LOCALHOST, 0).into();
        let listener = Listener::bind_encrypted(here, proto, &[]).unwrap();
        let address = listener.address();
        Self {
            running: run_also_on(&setup.server(), vec![listener]),
            address,
            proto,
            authority,
            endpoint: Endpoint::client(here).unwrap(),
        }
    }

    /// A connection from an endpoint, with an ALPN token.
    async fn connect_from(
        &self,
        endpoint: &Endpoint,
        token: &str,
    ) -> Result<quinn::Connection, ConnectionError> {
        let tls = self.authority.client(&[token], None);
        let crypto = QuicClientConfig::try_from(tls).unwrap();
        let config = ClientConfig::new(Arc::new(crypto));
        let connecting = endpoint.connect_with(config, self.address, "dns.example");
        soon(connecting.unwrap()).await
    }

    /// A connection.
    async fn connect(&self) -> quinn::Connection {
        let is_http = self.proto == Proto::Https3;
        let token = if is_http { "h3" } else { "doq" };
        self.connect_from(&self.endpoint, token).await.unwrap()
    }

    async fn until_empty(&self) {
        soon(async {
            while self.running.stats.quic_open.get() > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

/// A message with its length before it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes(), message].concat()
}

/// The data received in a stream that begins with these octets.
async fn exchange(
    connection: &quinn::Connection,
    octets: &[u8],
) -> Result<Vec<u8>, ReadToEndError> {
    let (mut send, mut receive) = soon(connection.open_bi()).await.unwrap();
    send.write_all(octets).await.unwrap();
    send.finish().unwrap();
    soon(receive.read_to_end(70_000)).await
}

/// The reply to a message.
async fn ask(connection: &quinn::Connection, message: &[u8]) -> Vec<u8> {
    let reply = exchange(connection, &framed(message)).await.unwrap();
    assert_eq!(reply, framed(&reply[2..]));
    reply[2..].to_vec()
}

/// The code that a connection was closed with.
async fn closed(connection: &quinn::Connection) -> u64 {
    let ended = soon(connection.closed()).await;
    let ConnectionError::ApplicationClosed(close) = ended else {
        panic!("{ended}");
    };
    close.error_code.into_inner()
}

#[tokio::test]
async fn each_stream_has_a_query_and_its_reply() {
    let site = Site::start(Setup::small(), Proto::Quic);
    let connection = site.connect().await;
    for _ in 0..3 {
        let reply = ask(&connection, &www()).await;
        assert_eq!(answers(&[reply]), ["www.z. 60 IN A 10.0.0.1"]);
    }
    for qtype in [Rtype::AXFR, Rtype::IXFR] {
        let reply = ask(&connection, &query(0, "z.", qtype)).await;
        assert_eq!(reply[3] & 15, 5, "{qtype}");
    }
    let padded = with_opt(www(), 1232, 0, &[0, 12, 0, 0]);
    assert_eq!(ask(&connection, &padded).await.len(), 468);
    let stats = &site.running.stats;
    assert_eq!(stats.replies(Proto::Quic, dns::Rcode::NOERROR).get(), 4);
    assert_eq!(stats.transfers_denied.get(), 0);
    let other = site.connect_from(&site.endpoint, "h3").await;
    assert!(other.is_err());
    assert_eq!(stats.tls_failed.get(), 1);
}

/// RFC 9250 section 4.3.3, and 4.2.1 for the ID.
#[tokio::test]
async fn a_protocol_error_ends_the_connection_and_not_others() {
    let site = Site::start(Setup::small(), Proto::Quic);
    let other = site.connect().await;
    let mut response = www();
    response[2] |= 0x80;
    let keepalive = with_opt(www(), 1232, 0, &[0, 11, 0, 0]);
    let mut cut = framed(&www());
    cut.pop();
    for octets in [
        framed(&query(7, "www.z.", Rtype::A)),
        framed(&response),
        framed(&keepalive),
        framed(b""),
        framed(b"no message"),
        cut,
        vec![0],
    ] {
        let connection = site.connect().await;
        let got = exchange(&connection, &octets).await;
        assert!(got.is_err(), "{octets:?}: {got:?}");
        assert_eq!(closed(&connection).await, 2, "{octets:?}");
    }
    assert_eq!(answers(&[ask(&other, &www()).await]).len(), 1);
    // A request that is too large ends its stream alone.
    let got = exchange(&other, &framed(&[0; 5000])).await;
    let code = VarInt::from_u32(4);
    assert_eq!(got, Err(ReadToEndError::Read(ReadError::Reset(code))));
    assert_eq!(answers(&[ask(&other, &www()).await]).len(), 1);
}

#[tokio::test]
async fn connections_are_limited_in_all_and_for_each_client() {
    let mut setup = Setup::small();
    setup.settings.tcp.max_per_client = 2;
    setup.settings.quic.max_connections = 3;
    let site = Site::start(setup, Proto::Quic);
    let idle = [site.connect().await, site.connect().await];
    let refused = site.connect_from(&site.endpoint, "doq").await;
    assert!(
        matches!(refused, Err(ConnectionError::ConnectionClosed(_))),
        "{refused:?}"
    );
    assert_eq!(site.running.stats.quic_refused.get(), 1);
    // Fewer than half of the places are free, so the client had to prove its address.
    let there = Endpoint::client((Ipv4Addr::new(127, 0, 0, 2), 0).into()).unwrap();
    let connection = site.connect_from(&there, "doq").await.unwrap();
    assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
    let full = Endpoint::client((Ipv4Addr::new(127, 0, 0, 3), 0).into()).unwrap();
    // security 9: the longest idle one of the client with the most makes room.
    assert!(site.connect_from(&full, "doq").await.is_ok());
    soon(idle[0].closed()).await;
    assert_eq!(site.running.stats.quic_refused.get(), 2);
    assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
    assert_eq!(answers(&[ask(&idle[1], &www()).await]).len(), 1);
}

#[tokio::test]
async fn idle_connections_and_unfinished_requests_are_ended() {
    for proto in [Proto::Quic, Proto::Https3] {
        let mut setup = Setup::small();
        setup.settings.tcp.first_request_timeout = Duration::from_millis(100);
        setup.settings.tcp.idle_timeout = Duration::from_millis(200);
        let site = Site::start(setup, proto);
        // Its client sends packets that keep the connection alive.
        let idle = site.connect().await;
        assert_eq!(
            closed(&idle).await,
            if proto == Proto::Quic { 0 } else { 0x100 }
        );
        let begun = site.connect().await;
        let (mut send, mut receive) = begun.open_bi().await.unwrap();
        send.write_all(&[0]).await.unwrap();
        let got = soon(receive.read_to_end(10)).await;
        let reset = ReadError::Reset(VarInt::from_u32(1));
        let want = if proto == Proto::Quic {
            Err(ReadToEndError::Read(reset))
        } else {
            Ok(vec![])
        };
        assert_eq!(got, want);
        site.until_empty().await;
        assert_eq!(site.running.stats.quic_timed_out.get(), 2);
    }
}

#[tokio::test]
async fn streams_wait_side_by_side_and_a_dropped_query_ends_its_stream() {
    for (workers, max_streams, inside) in [(3, 256, 3), (1024, 2, 2)] {
        let (mut setup, waiting) = Waiting::setup();
        setup.settings.quic_workers = workers;
        setup.settings.quic.max_streams = max_streams;
        let site = Site::start(setup, Proto::Quic);
        let connection = site.connect().await;
        let mut asking = JoinSet::new();
        for qtype in [Rtype::A, Rtype::MX, Rtype::TXT, Rtype::AAAA, Rtype::A] {
            let connection = connection.clone();
            asking.spawn(async move {
                let reply = exchange(&connection, &framed(&query(0, "x.", qtype))).await;
                reply.map_or(u8::MAX, |reply| reply[5] & 15)
            });
        }
        waiting.until_arrived(inside).await;
        assert_eq!(waiting.arrived(), inside);
        waiting.permits.add_permits(1);
        let mut rcodes = Vec::new();
        while let Some(ended) = soon(asking.join_next()).await {
            rcodes.push(ended.unwrap());
        }
        rcodes.sort_unstable();
        assert_eq!(rcodes, [0, 0, 0, 2, u8::MAX]);
        assert_eq!(site.running.stats.panics.get(), 1);
    }
}

#[tokio::test]
async fn a_client_that_is_slow_to_ask_holds_no_worker() {
    let mut setup = Setup::small();
    setup.settings.quic_workers = 1;
    setup.settings.tcp.first_request_timeout = Duration::from_secs(3600);
    let site = Site::start(setup, Proto::Quic);
    let slow = site.connect().await;
    let (mut send, _receive) = slow.open_bi().await.unwrap();
    send.write_all(&framed(&www())[..1]).await.unwrap();
    // Streams of a connection are accepted in order.
    let reply = ask(&slow, &www()).await;
    assert_eq!(answers(&[reply]).len(), 1);
    let other = site.connect().await;
    assert_eq!(answers(&[ask(&other, &www()).await]).len(), 1);
}

#[tokio::test]
async fn a_reload_changes_the_limits_of_new_connections() {
    let site = Site::start(Setup::small(), Proto::Quic);
    let before = site.connect().await;
    let mut setup = Setup::small();
    setup.settings.quic.max_streams = 1;
    let material = site.authority.material("dns.example", None);
    setup.tls = Some(Arc::new(TlsIdentity::new(&material).unwrap()));
    site.running.answering.replace(&setup.server(), None);
    let after = site.connect().await;
    for (connection, is_limited) in [(before, false), (after, true)] {
        assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
        let _first = soon(connection.open_bi()).await.unwrap();
        let mut second = std::pin::pin!(connection.open_bi());
        let opened = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx)));
        assert_eq!(opened.await.is_pending(), is_limited);
    }
}

#[tokio::test]
async fn a_connection_ends_with_its_last_request_and_with_the_server() {
    let mut setup = Setup::small();
    setup.settings.tcp.max_queries = Some(2);
    let site = Site::start(setup, Proto::Quic);
    let connection = site.connect().await;
    for _ in 0..2 {
        assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
    }
    assert_eq!(closed(&connection).await, 0);
    let connection = site.connect().await;
    site.running.draining.store(true, Ordering::Relaxed);
    assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
    assert_eq!(closed(&connection).await, 0);
    site.running.draining.store(false, Ordering::Relaxed);
    let connection = site.connect().await;
    assert_eq!(answers(&[ask(&connection, &www()).await]).len(), 1);
    let Running {
        cancel, mut tasks, ..
    } = site.running;
    cancel.cancel();
    assert_eq!(closed(&connection).await, 0);
    while let Some(ended) = soon(tasks.join_next()).await {
        ended.unwrap();
    }
}

#[tokio::test]
async fn a_connection_that_is_cut_off_is_not_open() {
    let (mut setup, waiting) = Waiting::setup();
    setup.settings.tcp.drain_timeout = Duration::from_millis(10);
    let site = Site::start(setup, Proto::Quic);
    let connection = site.connect().await;
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    let request = framed(&query(0, "x.", Rtype::A));
    send.write_all(&request).await.unwrap();
    waiting.until_arrived(1).await;
    assert_eq!(site.running.stats.quic_open.get(), 1);
    site.running.cancel.cancel();
    site.until_empty().await;
    assert_eq!(waiting.permits.available_permits(), 0);
}

/// An HTTP/3 client.
struct H3 {
    sender: h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    _driver: JoinSet<()>,
}

impl H3 {
    async fn begin(connection: quinn::Connection) -> Self {
        let connection = h3_quinn::Connection::new(connection);
        let (mut driver, sender) = soon(h3::client::new(connection)).await.unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            std::future::poll_fn(|cx| driver.poll_close(cx)).await;
        });
        Self {
            sender,
            _driver: tasks,
        }
    }

    /// The status and the body of the response to a request.
    async fn send(
        &mut self,
        request: Request<()>,
        body: Vec<u8>,
    ) -> Result<(u16, Vec<u8>), h3::error::StreamError> {
        let mut stream = soon(self.sender.send_request(request)).await?;
        if !body.is_empty() {
            // The server may have refused already.
            let _sent = stream.send_data(Bytes::from(body)).await;
        }
        let _finished = stream.finish().await;
        let response = soon(stream.recv_response()).await?;
        let mut message = Vec::new();
        while let Some(mut data) = soon(stream.recv_data()).await? {
            message.extend_from_slice(&data.copy_to_bytes(data.remaining()));
        }
        Ok((response.status().as_u16(), message))
    }
}

/// A request of HTTP/3.
fn head(method: &str, path: &str, content_type: &str) -> Request<()> {
    Request::builder()
        .method(method)
        .uri(format!("https://dns.example{path}"))
        .header("content-type", content_type)
        .body(())
        .unwrap()
}

#[tokio::test]
async fn requests_over_http_3_are_answered_or_have_their_status() {
    let site = Site::start(Setup::small(), Proto::Https3);
    let mut client = H3::begin(site.connect().await).await;
    let message = "application/dns-message";
    let mut cut = www();
    cut.pop();
    let get = "/dns-query?dns=AAABAAABAAAAAAAAA3d3dwF6AAABAAE";
    for (request, body, want) in [
        (head("POST", "/dns-query", message), www(), 200),
        (head("GET", get, message), vec![], 200),
        (head("POST", "/", message), www(), 404),
        (head("PUT", "/dns-query", message), www(), 405),
        (head("POST", "/dns-query", "text/plain"), www(), 415),
        (head("POST", "/dns-query", message), cut, 400),
        (head("POST", "/dns-query", message), vec![], 400),
        (head("POST", "/dns-query", message), vec![0; 5000], 413),
        (head("POST", "/dns-query", message), www(), 200),
    ] {
        let shown = format!("{request:?}");
        let (status, reply) = client.send(request, body).await.unwrap();
        assert_eq!(status, want, "{shown}");
        if want == 200 {
            assert_eq!(answers(&[reply]), ["www.z. 60 IN A 10.0.0.1"]);
        }
    }
    let (_, reply) = client
        .send(
            head("POST", "/dns-query", message),
            query(0, "z.", Rtype::AXFR),
        )
        .await
        .unwrap();
    assert_eq!(reply[3] & 15, 5);
}

/// RFC 9114 section 4.1.2: a client may take an early stop of its request for an error.
#[tokio::test]
async fn a_refused_request_over_http_3_may_send_its_body() {
    let site = Site::start(Setup::small(), Proto::Https3);
    let mut client = H3::begin(site.connect().await).await;
    let request = head("POST", "/", "application/dns-message");
    let mut stream = soon(client.sender.send_request(request)).await.unwrap();
    let body = Bytes::from(www());
    stream.send_data(body.slice(..5)).await.unwrap();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    stream.send_data(body.slice(5..)).await.unwrap();
    stream.finish().await.unwrap();
    let response = soon(stream.recv_response()).await.unwrap();
    assert_eq!(response.status().as_u16(), 404);
}

/// The codec stores a frame until it is complete. Here one of 16 MB.
#[tokio::test]
async fn a_stream_that_is_too_large_is_ended() {
    let site = Site::start(Setup::small(), Proto::Https3);
    let connection = site.connect().await;
    let (mut send, _receive) = connection.open_bi().await.unwrap();
    // A frame HEADERS (1) with a length of four octets (RFC 9000 section 16).
    send.write_all(&[1, 0x81, 0, 0, 0]).await.unwrap();
    let sent = soon(async {
        for _ in 0..16 {
            send.write_all(&[0; 1 << 20]).await?;
        }
        Ok::<_, quinn::WriteError>(())
    })
    .await;
    assert!(sent.is_err());
    let mut client = H3::begin(site.connect().await).await;
    let request = head("POST", "/dns-query", "application/dns-message");
    assert_eq!(client.send(request, www()).await.unwrap().0, 200);
}

/// findings-server 8: the control stream lasts as long as the connection.
#[tokio::test]
async fn a_control_stream_may_have_more_octets_than_a_request() {
    let site = Site::start(Setup::small(), Proto::Https3);
    let connection = site.connect().await;
    let mut control = connection.open_uni().await.unwrap();
    // A control stream (0), and an empty frame SETTINGS (4).
    control.write_all(&[0, 4, 0]).await.unwrap();
    // Frames of a reserved type that mean nothing (RFC 9114 section 7.2.8).
    let frame: Vec<u8> = [0x21, 30].into_iter().chain([0; 30]).collect();
    let sent = soon(control.write_all(&frame.repeat(4096))).await;
    assert_eq!((sent, connection.close_reason()), (Ok(()), None));
}

#[tokio::test]
async fn the_last_reply_over_http_3_arrives() {
    let mut setup = Setup::small();
    setup.settings.tcp.max_queries = Some(2);
    let site = Site::start(setup, Proto::Https3);
    let mut client = H3::begin(site.connect().await).await;
    let request = || head("POST", "/dns-query", "application/dns-message");
    for _ in 0..2 {
        assert_eq!(client.send(request(), www()).await.unwrap().0, 200);
    }
    site.until_empty().await;
    assert!(client.send(request(), www()).await.is_err());
}
