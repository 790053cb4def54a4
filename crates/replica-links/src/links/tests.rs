//! Tests of links: who is let in, how many, and that frames arrive in order.

use dns::testing::name;
use replicas::ceiling::Ceiling;
use replicas::chain::{ReplicaId, Snapshot, Tip};
use replicas::frame::Body;
use replicas::knowledge::Vow;
use rustls::ClientConfig;
use server::MutualTls;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use std::io;
use std::time::Duration;

use super::*;
use crate::format::{ANSWER_BYTES, FORMAT, Opening, Purpose, encode_frame, take_answer};
use crate::testing::{Authority, soon};

const NAME: &str = "replicas.example";

/// A replica's side of all links.
struct Side {
    shared: Arc<Shared>,
    events: mpsc::Receiver<LinkEvent>,
    address: String,
    tasks: JoinSet<()>,
}

impl Side {
    async fn start(authority: &Authority, name: &str, limits: LinkLimits) -> Self {
        let identity = Identity::new(&authority.material(name), name).expect("it is usable");
        let (sender, events) = mpsc::channel(64);
        let shared = Arc::new(Shared::new(Arc::new(identity), limits, sender));
        let listener = Listener::bind("127.0.0.1:0".parse().expect("an address")).await;
        let listener = listener.expect("a port is free");
        let address = listener.address().expect("it is bound").to_string();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            shared,
            events,
            address,
            tasks,
        }
    }

    fn dial(&mut self, address: &str) {
        let dialling = dial(Arc::clone(&self.shared), 1, address.to_owned());
        self.tasks.spawn(dialling);
    }

    async fn event(&mut self) -> LinkEvent {
        soon("an event of a link", self.events.recv())
            .await
            .expect("the channel is open")
    }

    async fn accepted(&mut self) -> (LinkId, LinkHandle) {
        let LinkEvent::Accepted(link, handle) = self.event().await else {
            panic!("no link was accepted");
        };
        (link, handle)
    }

    async fn connected(&mut self) -> (LinkId, LinkHandle) {
        let LinkEvent::Connected(1, link, handle) = self.event().await else {
            panic!("no link was opened");
        };
        (link, handle)
    }

    async fn frame(&mut self, on: LinkId) -> Frame {
        let LinkEvent::Frame(link, frame) = self.event().await else {
            panic!("no frame came");
        };
        assert_eq!(link, on);
        frame
    }

    /// Waits until this many connections were refused for want of a certificate.
    async fn refused(&self, count: u64) {
        let stats = &self.shared.stats;
        let waiting = async {
            while stats.unauthenticated.load(Ordering::Relaxed) != count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        soon("a connection is refused", waiting).await;
    }
}

fn frame(body: Body) -> Frame {
    Frame {
        epoch: Epoch(3),
        body,
    }
}

/// Two sides with one authority.
async fn pair(limits: LinkLimits) -> (Side, Side) {
    let authority = Authority::new();
    let leader = Side::start(&authority, NAME, limits).await;
    let follower = Side::start(&authority, NAME, limits).await;
    (leader, follower)
}

#[tokio::test]
async fn frames_of_any_size_arrive_in_order_until_the_link_is_closed() {
    let (mut leader, mut follower) = pair(LinkLimits::default()).await;
    follower.dial(&leader.address);
    let (own, to_leader) = follower.connected().await;
    let (link, to_follower) = leader.accepted().await;
    assert!(to_leader.send(frame(Body::Aligned)));
    assert_eq!(leader.frame(link).await, frame(Body::Aligned));
    let payload: Vec<u8> = (0..5_000_000_u32).map(|it| it.to_le_bytes()[0]).collect();
    let snapshot = frame(Body::Snapshot(Snapshot {
        zone: name("a."),
        tip: Tip::NONE,
        payload: payload.into(),
    }));
    for frame in [
        frame(Body::Align),
        snapshot.clone(),
        frame(Body::Refused(Ceiling::default())),
    ] {
        assert!(to_follower.send(frame));
    }
    // What is queued before the end arrives.
    drop(to_follower);
    assert_eq!(follower.frame(own).await, frame(Body::Align));
    loop {
        // While a large frame arrives there may be pings.
        let next = follower.frame(own).await;
        if next != frame(Body::Ping) {
            assert!(next == snapshot);
            break;
        }
    }
    assert_eq!(
        follower.frame(own).await,
        frame(Body::Refused(Ceiling::default()))
    );
    assert!(matches!(follower.event().await, LinkEvent::Closed(link) if link == own));
    assert!(matches!(leader.event().await, LinkEvent::Closed(it) if it == link));
}

#[tokio::test]
async fn a_question_is_answered_with_what_the_other_side_knows() {
    let (mut other, asker) = pair(LinkLimits::default()).await;
    let known = Knowledge {
        replica: ReplicaId::from("b"),
        vow: Vow::default(),
        zones: std::collections::BTreeMap::new(),
        is_store_ok: true,
        is_leading: false,
    };
    let address = other.address.clone();
    let ceiling = Ceiling {
        common: Some(dns::Serial::decode(8)),
        ..Ceiling::default()
    };
    let asking = ask(&asker.shared, &address, 77, Epoch(5), &ceiling);
    let answering = async {
        let LinkEvent::Question(Epoch(5), told, reply) = other.event().await else {
            panic!("no question came");
        };
        assert_eq!(told, ceiling);
        reply.send(known.clone()).expect("it waits");
    };
    let (answer, ()) = soon("an answer", async { tokio::join!(asking, answering) }).await;
    assert_eq!(answer.expect("there is an answer"), known);
}

#[tokio::test]
async fn a_peer_with_a_certificate_of_another_authority_or_of_another_name_or_none_is_refused() {
    let authority = Authority::new();
    let leader = Side::start(&authority, NAME, LinkLimits::default()).await;
    let address = leader.address.clone();
    // Another authority.
    let stranger = Side::start(&Authority::new(), NAME, LinkLimits::default()).await;
    let none = Ceiling::default();
    let error = ask(&stranger.shared, &address, 1, Epoch(1), &none).await;
    assert!(error.is_err());
    leader.refused(1).await;
    // Another program with a certificate of the same authority.
    let material = authority.material("web.example");
    let tls = MutualTls::new(&material, b"zonewright-replica").expect("it is usable");
    assert!(opened(&address, tls.client.clone()).await.is_err());
    leader.refused(2).await;
    // No certificate.
    let without = authority.client_without_certificate(b"zonewright-replica");
    assert!(opened(&address, without).await.is_err());
    leader.refused(3).await;
    // No TLS at all.
    let mut plain = TcpStream::connect(&address).await.expect("it listens");
    plain
        .write_all(b"GET / HTTP/1.1\r\n\r\n")
        .await
        .expect("it is sent");
    leader.refused(4).await;
    // A replica.
    let replica = MutualTls::new(&authority.material(NAME), b"zonewright-replica");
    let client = replica.expect("it is usable").client;
    opened(&address, client).await.expect("a replica is let in");
    // The follower looks as closely at its leader.
    let fake = Side::start(&authority, "web.example", LinkLimits::default()).await;
    let follower = Side::start(&authority, NAME, LinkLimits::default()).await;
    let error = ask(&follower.shared, &fake.address, 1, Epoch(1), &none).await;
    assert!(error.is_err());
    assert_eq!(fake.shared.stats.full.load(Ordering::Relaxed), 0);
}

/// The first exchange with these settings.
async fn opened(address: &str, config: Arc<ClientConfig>) -> io::Result<()> {
    exchange(address, config, Opening::of(Purpose::Link)).await
}

async fn exchange(address: &str, config: Arc<ClientConfig>, opening: Opening) -> io::Result<()> {
    let stream = TcpStream::connect(address).await?;
    let name = rustls::pki_types::ServerName::try_from(NAME).expect("it is a name");
    let mut stream = TlsConnector::from(config).connect(name, stream).await?;
    stream.write_all(&opening.encode()).await?;
    let mut answer = [0; ANSWER_BYTES];
    stream.read_exact(&mut answer).await?;
    take_answer(answer).map_err(io::Error::other)
}

#[tokio::test]
async fn a_peer_with_no_common_format_is_told_so_and_refused() {
    let authority = Authority::new();
    let leader = Side::start(&authority, NAME, LinkLimits::default()).await;
    let tls = MutualTls::new(&authority.material(NAME), b"zonewright-replica");
    let later = Opening {
        lowest: FORMAT + 1,
        highest: FORMAT + 2,
        purpose: Purpose::Link,
    };
    let client = tls.expect("it is usable").client;
    let error = exchange(&leader.address, client, later)
        .await
        .expect_err("it is refused");
    assert!(error.to_string().contains("formats"), "{error}");
    leader.refused(1).await;
}

#[tokio::test]
async fn links_handshakes_and_waiting_frames_have_limits() {
    let limits = LinkLimits {
        links: 1,
        handshakes: 2,
        handshake_timeout: Duration::from_millis(300),
        queued_frames: 4,
        ..LinkLimits::default()
    };
    let (mut leader, mut follower) = pair(limits).await;
    let address = leader.address.clone();
    follower.dial(&address);
    let (own, _to_leader) = follower.connected().await;
    let (link, to_follower) = leader.accepted().await;
    // A second link is opened, and closed at once.
    follower.dial(&address);
    let (second, _handle) = follower.connected().await;
    assert!(matches!(follower.event().await, LinkEvent::Closed(it) if it == second));
    let full = || leader.shared.stats.full.load(Ordering::Relaxed);
    assert_eq!(full(), 1);

    // Peers that say nothing: the third takes the place of the first, the others run into the timeout.
    let mut silent = Vec::new();
    for _ in 0..3 {
        silent.push(TcpStream::connect(&address).await.expect("it listens"));
    }
    leader.refused(2).await;
    assert_eq!(full(), 2);

    // The follower does not read: its queue of events is full, then the sockets, then the queue of frames.
    let step = |_| {
        frame(Body::Snapshot(Snapshot {
            zone: name("a."),
            tip: Tip::NONE,
            payload: vec![0; 1 << 20].into(),
        }))
    };
    let overflow = async {
        while to_follower.send(step(())) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    soon("the queue is full", overflow).await;
    assert!(matches!(leader.event().await, LinkEvent::Closed(it) if it == link));
    let ended =
        async { while !matches!(follower.event().await, LinkEvent::Closed(it) if it == own) {} };
    soon("the follower learns it", ended).await;
}

/// One link without TLS, and the other end of its stream.
fn bare(limits: LinkLimits) -> (Side, LinkHandle, tokio::io::DuplexStream) {
    let identity = Identity::new(&Authority::new().material(NAME), NAME).expect("it is usable");
    let (sender, events) = mpsc::channel(64);
    let shared = Arc::new(Shared::new(Arc::new(identity), limits, sender));
    let (stream, far) = tokio::io::duplex(1 << 20);
    let (handle, queue) = session::queue(&shared);
    let mut tasks = JoinSet::new();
    let running = Arc::clone(&shared);
    tasks.spawn(async move { session::run(&running, 1, stream, queue).await });
    let side = Side {
        shared,
        events,
        address: String::new(),
        tasks,
    };
    (side, handle, far)
}

#[tokio::test(start_paused = true)]
async fn while_a_large_frame_arrives_slowly_the_peer_counts_as_alive() {
    let (mut side, _handle, mut far) = bare(LinkLimits::default());
    let snapshot = frame(Body::Snapshot(Snapshot {
        zone: name("a."),
        tip: Tip::NONE,
        payload: vec![7; 10_000].into(),
    }));
    let encoded = encode_frame(&snapshot).expect("it is within the limits");
    far.write_all(&encoded.start).await.expect("it is read");
    for part in encoded.payload.chunks(1000) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        far.write_all(part).await.expect("it is read");
        let last = part.as_ptr_range().end == encoded.payload.as_ptr_range().end;
        assert_eq!(side.frame(1).await, frame(Body::Ping));
        if last {
            assert_eq!(side.frame(1).await, snapshot);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_link_without_frames_or_with_bytes_that_are_none_is_closed() {
    let (mut side, _handle, far) = bare(LinkLimits::default());
    let begin = tokio::time::Instant::now();
    assert!(matches!(side.event().await, LinkEvent::Closed(1)));
    assert_eq!(begin.elapsed().as_secs(), 10);
    drop(far);
    let (mut side, _handle, mut far) = bare(LinkLimits::default());
    far.write_all(&[0, 0, 0, 1, 0, 0, 0, 0, 99])
        .await
        .expect("it is read");
    assert!(matches!(side.event().await, LinkEvent::Closed(1)));
}
