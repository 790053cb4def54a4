//! Tests of TLS connections on loopback, with certificates made here.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dns::Rtype;
use dns::testing::{answers, query, with_opt};
use hickory_proto::op::Message;
use ops::testing::soon;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, HandshakeKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream as ClientStream;
use transfer::{Peers, Rule, TlsDemand};
use zone::testing::zone;

use super::testing::{Authority, Pair};
use super::*;
use crate::Listener;
use crate::testing::{self, Running, Setup};

/// It was "received fatal alert: UnknownCA", which does not say whose fault it is.
#[test]
fn a_peer_that_ends_the_handshake_for_our_certificate_is_said_to_distrust_it() {
    let failed = |alert| {
        let error = rustls::Error::AlertReceived(alert);
        shown(&io::Error::new(io::ErrorKind::InvalidData, error))
    };
    let said = failed(AlertDescription::UnknownCA);
    assert_eq!(
        said,
        "the peer does not trust our certificate (received fatal alert: UnknownCA)"
    );
    let other = failed(AlertDescription::ProtocolVersion);
    assert_eq!(other, "received fatal alert: ProtocolVersion");
    assert_eq!(shown(&io::Error::other("reset")), "reset");
}

struct Secure {
    running: Running,
    /// Its address for TLS.
    address: SocketAddr,
    identity: Arc<TlsIdentity>,
}

impl Secure {
    /// Starts a server. `demand` applies to all peers that transfer.
    fn start(material: &TlsMaterial, mut setup: Setup, demand: TlsDemand) -> Self {
        setup.rules.push(Rule {
            peers: vec![Peers::Any],
            keys: vec![],
            tls: demand,
        });
        setup.access.clear();
        let identity = Arc::new(TlsIdentity::new(material).unwrap());
        setup.tls = Some(Arc::clone(&identity));
        let listener =
            Listener::bind_encrypted(([127, 0, 0, 1], 0).into(), Proto::Tls, &[]).unwrap();
        let address = listener.address();
        Self {
            running: testing::run_also_on(&setup.server(), vec![listener]),
            address,
            identity,
        }
    }

    async fn connect(&self, config: &ClientConfig, name: &'static str) -> io::Result<Client> {
        let stream = TcpStream::connect(self.address).await?;
        let connector = TlsConnector::from(Arc::new(config.clone()));
        let name = ServerName::try_from(name).unwrap();
        Ok(Client(soon(connector.connect(name, stream)).await?))
    }
}

struct Client(ClientStream<TcpStream>);

impl Client {
    async fn send(&mut self, message: &[u8]) {
        let mut octets = u16::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        octets.extend_from_slice(message);
        self.0.write_all(&octets).await.unwrap();
        self.0.flush().await.unwrap();
    }

    async fn receive(&mut self) -> io::Result<Vec<u8>> {
        let length = soon(self.0.read_u16()).await?;
        let mut message = vec![0; usize::from(length)];
        soon(self.0.read_exact(&mut message)).await?;
        Ok(message)
    }

    async fn ask(&mut self, raw: &[u8]) -> io::Result<(u16, usize)> {
        self.send(raw).await;
        let message = Message::from_vec(&self.receive().await?).unwrap();
        Ok((message.metadata.response_code.into(), message.answers.len()))
    }

    /// The server's certificate.
    fn shown(&self) -> Vec<u8> {
        let session: &ClientConnection = self.0.get_ref().1;
        session.peer_certificates().unwrap()[0].to_vec()
    }
}

fn small() -> Setup {
    Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])])
}

/// A zone that is too large for the buffers.
fn large() -> Setup {
    let lines: Vec<String> = (0..300).map(|n| format!("big{n} TYPE10 60000")).collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Setup::new(vec![zone("z.", 5, &lines)])
}

fn axfr() -> Vec<u8> {
    with_opt(query(7, "z.", Rtype::AXFR), 1232, 0, &[])
}

/// RFC 9103 section 7.1: the ALPN token `dot` must be chosen for a transfer; section 7.2: TLS 1.3.
#[tokio::test]
async fn f05_transfers_need_dot_and_tls_13() {
    let authority = Authority::new();
    let material = authority.material("ns.example", None);
    let secure = Secure::start(&material, small(), TlsDemand::Free);
    let dot = authority.client(&["dot"], None);
    let mut client = secure.connect(&dot, "ns.example").await.unwrap();
    assert_eq!(client.0.get_ref().1.alpn_protocol(), Some(DOT));
    assert_eq!(client.ask(&axfr()).await.unwrap(), (0, 3));
    assert_eq!(
        client.ask(&query(1, "www.z.", Rtype::A)).await.unwrap(),
        (0, 1)
    );
    // With several tokens, ours is chosen.
    let both = authority.client(&["h2", "dot"], None);
    let mut client = secure.connect(&both, "ns.example").await.unwrap();
    assert_eq!(client.ask(&axfr()).await.unwrap(), (0, 3));
    // Without tokens, queries are answered and transfers are not.
    let none = authority.client(&[], None);
    let mut client = secure.connect(&none, "ns.example").await.unwrap();
    assert_eq!(
        client.ask(&query(1, "www.z.", Rtype::A)).await.unwrap(),
        (0, 1)
    );
    assert_eq!(client.ask(&axfr()).await.unwrap(), (5, 0));
    let other = authority.client(&["h2"], None);
    assert!(secure.connect(&other, "ns.example").await.is_err());
    assert_eq!(secure.running.stats.tls_failed.get(), 1);
    let old = ClientHello12.bytes();
    let mut stream = TcpStream::connect(secure.address).await.unwrap();
    stream.write_all(&old).await.unwrap();
    let mut reply = Vec::new();
    soon(stream.read_to_end(&mut reply)).await.unwrap();
    // RFC 8446 section 6.2: alert (21), fatal (2), protocol_version (70).
    assert_eq!((reply[0], &reply[5..7]), (21, &[2, 70][..]));
}

/// A ClientHello of TLS 1.2 with one suite, and without the extension for 1.3.
struct ClientHello12;

impl ClientHello12 {
    fn bytes(&self) -> Vec<u8> {
        // Extensions: groups (x25519), point formats, signature algorithms (ecdsa and sha256). No SNI.
        let extensions: &[u8] = &[
            0, 10, 0, 4, 0, 2, 0, 29, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3,
        ];
        let mut body = vec![3, 3];
        body.extend_from_slice(&[7; 32]);
        body.extend_from_slice(&[0, 0, 2, 0xc0, 0x2b, 1, 0]);
        body.extend_from_slice(&u16::try_from(extensions.len()).unwrap().to_be_bytes());
        body.extend_from_slice(extensions);
        let mut hello = vec![1, 0];
        hello.extend_from_slice(&u16::try_from(body.len()).unwrap().to_be_bytes());
        hello.extend_from_slice(&body);
        let mut record = vec![22, 3, 1];
        record.extend_from_slice(&u16::try_from(hello.len()).unwrap().to_be_bytes());
        record.extend_from_slice(&hello);
        record
    }
}

#[tokio::test]
async fn f06_only_the_named_certificate_gets_the_zone() {
    let authority = Authority::new();
    let material = authority.material("ns.example", Some(false));
    let demand = TlsDemand::Named(ServerName::try_from("secondary.example").unwrap());
    let secure = Secure::start(&material, small(), demand);
    let right = authority.pair("secondary.example");
    let wrong = authority.pair("other.example");
    for (pair, rcode) in [(Some(&right), 0), (Some(&wrong), 5), (None, 5)] {
        let config = authority.client(&["dot"], pair);
        let mut client = secure.connect(&config, "ns.example").await.unwrap();
        assert_eq!(client.ask(&axfr()).await.unwrap().0, rcode);
        // Queries need no certificate.
        assert_eq!(
            client.ask(&query(1, "www.z.", Rtype::A)).await.unwrap(),
            (0, 1)
        );
    }
    assert_eq!(secure.running.stats.transfers_denied.get(), 2);
    // A certificate of another authority counts as none.
    let stranger = Authority::new().pair("secondary.example");
    let config = authority.client(&["dot"], Some(&stranger));
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert!(client.ask(&axfr()).await.is_err());
}

#[tokio::test]
async fn f06_a_certificate_may_be_required_of_every_client() {
    let authority = Authority::new();
    let material = authority.material("ns.example", Some(true));
    let secure = Secure::start(&material, small(), TlsDemand::Free);
    let config = authority.client(&["dot"], None);
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert!(client.ask(&query(1, "www.z.", Rtype::A)).await.is_err());
    let pair = authority.pair("anyone.example");
    let config = authority.client(&["dot"], Some(&pair));
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(client.ask(&axfr()).await.unwrap(), (0, 3));
}

/// A resumed session would count though its certificate has expired or is revoked.
#[tokio::test]
async fn no_session_is_resumed_where_client_certificates_are_verified() {
    let authority = Authority::new();
    for (clients, want) in [
        (None, HandshakeKind::Resumed),
        (Some(false), HandshakeKind::Full),
    ] {
        let material = authority.material("ns.example", clients);
        let secure = Secure::start(&material, small(), TlsDemand::Free);
        let pair = authority.pair("secondary.example");
        let config = authority.client(&["dot"], Some(&pair));
        let mut kind = None;
        for _ in 0..2 {
            let mut client = secure.connect(&config, "ns.example").await.unwrap();
            assert_eq!(client.ask(&axfr()).await.unwrap(), (0, 3));
            kind = client.0.get_ref().1.handshake_kind();
        }
        assert_eq!(kind, Some(want));
    }
}

/// RFC 5280 section 5: what is on the list is refused; so is everybody once nobody knows any more.
#[tokio::test]
async fn f06_a_revoked_certificate_is_refused_and_so_is_any_when_the_list_is_too_old() {
    let authority = Authority::new();
    let [old, new] =
        [(7, "old"), (8, "new")].map(|(number, name)| authority.numbered(name, Some(number)));
    let base = authority.material("ns.example", Some(false));
    let material = |list: Option<Vec<u8>>| {
        let mut material = base.clone();
        material.clients.as_mut().unwrap().revoked = list;
        material
    };
    let secure = Secure::start(&material(None), small(), TlsDemand::Free);
    let is_served = async |pair: Option<&Pair>| {
        let config = authority.client(&["dot"], pair);
        let mut client = secure.connect(&config, "ns.example").await.unwrap();
        client.ask(&axfr()).await.ok() == Some((0, 3))
    };
    let served = async || {
        [
            is_served(Some(&old)).await,
            is_served(Some(&new)).await,
            is_served(None).await,
        ]
    };
    assert_eq!(served().await, [true, true, true], "without a list");
    let far = 2100;
    for (what, list, want) in [
        (
            "one is revoked",
            authority.revoked(&[7], far),
            [false, true, true],
        ),
        (
            "the other is",
            authority.revoked(&[9, 8], far),
            [true, false, true],
        ),
        (
            "it has ended",
            authority.revoked(&[], 2024),
            [false, false, true],
        ),
        (
            "it is another's",
            Authority::new().revoked(&[], far),
            [false, false, true],
        ),
    ] {
        secure.identity.replace(&material(Some(list))).unwrap();
        assert_eq!(served().await, want, "{what}");
    }
    assert_eq!(secure.running.stats.tls_failed.get(), 6);
    for list in [
        "",
        "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
    ] {
        let broken = secure.identity.replace(&material(Some(list.into())));
        assert!(
            matches!(broken, Err(TlsError::Revoked | TlsError::Verifier(_))),
            "{broken:?}"
        );
    }
}

#[tokio::test]
async fn f07_who_must_use_tls_is_refused_with_ede_18_elsewhere() {
    let authority = Authority::new();
    let material = authority.material("ns.example", None);
    let secure = Secure::start(&material, small(), TlsDemand::Any);
    let mut plain = secure.running.connect().await;
    plain.send(&axfr()).await;
    let message = Message::from_vec(&plain.receive().await.unwrap()).unwrap();
    assert_eq!(u16::from(message.metadata.response_code), 5);
    let edns = message.edns.unwrap();
    let ede: Vec<u8> = edns.options().get(15.into()).unwrap().try_into().unwrap();
    assert_eq!(ede[..2], [0, 18]);
    let config = authority.client(&["dot"], None);
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(client.ask(&axfr()).await.unwrap(), (0, 3));
}

/// No port of ours is for transfers only: queries on a TLS port are DNS over TLS (RFC 7858), so REFUSED with EDE 21 has
/// no place. A zone that is not ours is refused, as everywhere.
#[tokio::test]
async fn f08_ordinary_queries_on_the_tls_port_are_answered() {
    let authority = Authority::new();
    let material = authority.material("ns.example", None);
    let secure = Secure::start(&material, small(), TlsDemand::Any);
    let config = authority.client(&["dot"], None);
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(
        client.ask(&query(1, "www.z.", Rtype::A)).await.unwrap(),
        (0, 1)
    );
    assert_eq!(
        client.ask(&query(2, "no.z.", Rtype::A)).await.unwrap(),
        (3, 0)
    );
    assert_eq!(client.ask(&query(3, "y.", Rtype::A)).await.unwrap(), (5, 0));
    let replies = secure
        .running
        .stats
        .replies(Proto::Tls, dns::Rcode::NOERROR);
    assert_eq!(replies.get(), 1);
}

/// 400 connections instead of 10 000, for the time that they take: before, during and after the handshake.
#[tokio::test]
async fn f09_clients_that_reset_leave_nothing_behind() {
    let authority = Authority::new();
    let material = authority.material("ns.example", None);
    let mut setup = large();
    setup.settings.tcp.max_per_client = 10;
    let secure = Secure::start(&material, setup, TlsDemand::Free);
    let config = authority.client(&["dot"], None);
    let stats = &secure.running.stats;
    for number in 0..400_u32 {
        match number % 4 {
            0 => reset(&TcpStream::connect(secure.address).await.unwrap()),
            1 => {
                let mut stream = TcpStream::connect(secure.address).await.unwrap();
                stream
                    .write_all(&ClientHello12.bytes()[..20])
                    .await
                    .unwrap();
                reset(&stream);
            }
            2 => {
                let client = secure.connect(&config, "ns.example").await.unwrap();
                reset(client.0.get_ref().0);
            }
            _ => {
                let mut client = secure.connect(&config, "ns.example").await.unwrap();
                client.send(&axfr()).await;
                client.receive().await.unwrap();
                reset(client.0.get_ref().0);
            }
        }
        until(|| stats.tcp_open.get() < 5).await;
    }
    until(|| stats.tcp_open.get() == 0).await;
    assert_eq!(stats.tcp_accepted.get(), 400);
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(
        client.ask(&query(1, "z.", Rtype::SOA)).await.unwrap(),
        (0, 1)
    );
}

fn reset(stream: &TcpStream) {
    let socket = socket2::SockRef::from(stream);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
}

async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn f10_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() {
    let authority = Authority::new();
    let first = authority.material("ns.example", None);
    let secure = Secure::start(&first, large(), TlsDemand::Free);
    let config = authority.client(&["dot"], None);
    let mut old = secure.connect(&config, "ns.example").await.unwrap();
    old.send(&axfr()).await;
    let mut messages = vec![old.receive().await.unwrap()];
    let mut broken = first.clone();
    broken.key.clear();
    assert!(matches!(
        secure.identity.replace(&broken),
        Err(TlsError::Key)
    ));
    broken = first.clone();
    broken.key = authority.pair("ns.example").key.into_bytes();
    assert!(matches!(
        secure.identity.replace(&broken),
        Err(TlsError::Pair(_))
    ));
    let during = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(
        during.shown(),
        old.shown(),
        "what is broken changes nothing"
    );
    let second = authority.material("ns.example", None);
    secure.identity.replace(&second).unwrap();
    let mut new = secure.connect(&config, "ns.example").await.unwrap();
    assert_ne!(new.shown(), old.shown());
    assert_eq!(new.ask(&query(1, "z.", Rtype::SOA)).await.unwrap(), (0, 1));
    while messages.len() < 301 {
        messages.push(old.receive().await.unwrap());
    }
    let lines = answers(&messages);
    assert_eq!((lines.len(), &lines[0]), (302, &lines[301]));
}

#[tokio::test]
async fn f03_a_client_that_does_not_shake_hands_is_let_go() {
    let authority = Authority::new();
    let mut setup = small();
    setup.settings.tcp.first_request_timeout = Duration::from_millis(50);
    let material = authority.material("ns.example", None);
    let secure = Secure::start(&material, setup, TlsDemand::Free);
    let mut stream = TcpStream::connect(secure.address).await.unwrap();
    let mut rest = Vec::new();
    assert_eq!(soon(stream.read_to_end(&mut rest)).await.unwrap(), 0);
    assert_eq!(secure.running.stats.tls_failed.get(), 1);
}

#[tokio::test]
async fn f04_once_the_server_ends_a_connection_is_answered_once_more_and_closed() {
    let authority = Authority::new();
    let material = authority.material("ns.example", None);
    let secure = Secure::start(&material, small(), TlsDemand::Free);
    let config = authority.client(&["dot"], None);
    let mut client = secure.connect(&config, "ns.example").await.unwrap();
    assert_eq!(
        client.ask(&query(1, "www.z.", Rtype::A)).await.unwrap(),
        (0, 1)
    );
    secure.running.draining.store(true, Ordering::Relaxed);
    client.send(&axfr()).await;
    assert_eq!(answers(&[client.receive().await.unwrap()]).len(), 3);
    assert!(client.receive().await.is_err());
}
