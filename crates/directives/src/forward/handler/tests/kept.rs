//! Tests of reused connections, and of their ends.

use std::io;

use ops::testing::soon;
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::*;

/// The way in which a server ends a connection after its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It announces the end in the reply, and closes.
    Said,
    /// It closes.
    Closed,
    /// It is gone: it refuses further packets.
    Reset,
}

/// A server that forwards over HTTPS, and the listener of its upstream.
async fn over_https(lines: &str) -> (TcpListener, TlsAcceptor, Arc<Router>) {
    let (config, upstream) = tls();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let over = UpstreamTls {
        config: Arc::new(config),
        name: ServerName::try_from("dns.test").unwrap(),
        protocol: Secured::Https(https()),
    };
    let address = listener.local_addr().unwrap();
    let server = alone(forward(lines, &[address], Some(&over)));
    (listener, TlsAcceptor::from(Arc::new(upstream)), server)
}

/// Answers one query over HTTP and ends the connection.
async fn serve_one(stream: &mut TlsStream<TcpStream>, ending: Ending) -> io::Result<()> {
    let mut octets = Vec::new();
    let end = loop {
        octets.push(stream.read_u8().await?);
        if octets.ends_with(b"\r\n\r\n") {
            break octets.len();
        }
    };
    let head = String::from_utf8_lossy(&octets[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).unwrap();
    let length: usize = length.lines().next().unwrap().parse().unwrap();
    let mut query = vec![0; length];
    stream.read_exact(&mut query).await?;
    let reply = reply_to(&query);
    let more = match ending {
        Ending::Said => "connection: close\r\n",
        Ending::Closed | Ending::Reset => "",
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\n{more}content-length: {}\r\n\r\n",
        reply.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&reply).await?;
    stream.flush().await
}

#[tokio::test]
async fn over_https_a_kept_connection_that_has_ended_costs_no_attempt() {
    for ending in [Ending::Said, Ending::Closed, Ending::Reset] {
        let lines = "forward . https://192.0.2.1 {\n max_connect_attempts 1\n}";
        let (listener, acceptor, server) = over_https(lines).await;
        for turn in 0..3 {
            let mut request = request("a.t. A");
            let asking = Arc::clone(&server).answer(&mut request);
            let serving = async {
                let (stream, _) = listener.accept().await.unwrap();
                let mut stream = acceptor.accept(stream).await.unwrap();
                serve_one(&mut stream, ending).await.unwrap();
                stream
            };
            let (outcome, mut stream) = soon(async { tokio::join!(asking, serving) }).await;
            let said = text(&outcome, 1);
            assert_eq!(said, "NOERROR | a.t. 9 IN A 10.1.2.3", "{ending:?} {turn}");
            // It ends while nobody reads.
            match ending {
                Ending::Said | Ending::Closed => stream.shutdown().await.unwrap(),
                Ending::Reset => {
                    let socket = socket2::SockRef::from(stream.get_ref().0);
                    socket.set_linger(Some(Duration::ZERO)).unwrap();
                }
            }
        }
    }
}

#[tokio::test]
async fn a_socket_is_taken_while_its_query_waits_and_the_last_one_lies_not_idle() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let sockets = UpstreamSockets::new(1);
    let (config, metrics) = (config("forward . 192.0.2.1"), handler_metrics());
    let address = socket.local_addr().unwrap();
    let upstream = Upstream::new(address, None, &config, &metrics).with_sockets(&sockets);
    let forward = ForwardHandler::new(config, vec![upstream], false, &metrics);
    let server = chain(vec![], vec![Arc::new(forward)]);
    let ask = async |question: &str| {
        let mut request = request(question);
        text(&Arc::clone(&server).answer(&mut request).await, 1)
    };
    let serve = async {
        let mut buffer = [0; 512];
        let (length, peer) = socket.recv_from(&mut buffer).await.unwrap();
        // The first query waits: there is no socket for a second.
        let second = ask("b.t. A").await;
        assert!(
            second.starts_with("SERVFAIL: the sockets that wait"),
            "{second}"
        );
        let reply = reply_to(&buffer[..length]);
        socket.send_to(&reply, peer).await.unwrap();
    };
    let (first, ()) = soon(async { tokio::join!(ask("a.t. A"), serve) }).await;
    assert_eq!(first, "NOERROR | a.t. 9 IN A 10.1.2.3");
    assert!(sockets.take().is_some());
}

#[tokio::test]
async fn over_http_1_1_connections_open_side_by_side() {
    let (listener, acceptor, server) = over_https("forward . https://192.0.2.1").await;
    let ask = async |question: &str| {
        let mut request = request(question);
        text(&Arc::clone(&server).answer(&mut request).await, 1)
    };
    let serve = async {
        let (first, _) = listener.accept().await.unwrap();
        let mut first = acceptor.accept(first).await.unwrap();
        // Both others dial before either of them has shaken hands.
        let (second, _) = listener.accept().await.unwrap();
        let (third, _) = listener.accept().await.unwrap();
        for stream in [second, third] {
            let mut stream = acceptor.accept(stream).await.unwrap();
            serve_one(&mut stream, Ending::Closed).await.unwrap();
        }
        serve_one(&mut first, Ending::Closed).await.unwrap();
    };
    let asked = async { tokio::join!(ask("a.t. A"), ask("b.t. A"), ask("c.t. A")) };
    let (answers, ()) = soon(async { tokio::join!(asked, serve) }).await;
    for answer in [answers.0, answers.1, answers.2] {
        assert!(answer.starts_with("NOERROR"), "{answer}");
    }
}
