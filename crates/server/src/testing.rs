//! For tests: servers on loopback, chains of handlers, questions and replies as text.

#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

pub mod desk;

use std::collections::BTreeMap;
use std::iter;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use dns::testing::{answers, is_whole, key, name, query};
use dns::tsig::{KeyRing, Keys};
use dns::{CookieSecrets, Name, RecordText, Rtype};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hickory_proto::op::Message;
use ops::Clock;
use ops::testing::{TestClock, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use transfer::testing::peers;
use transfer::{Access, Rule, Secondary, SecondaryTable, TlsDemand};
use zone::{Zone, ZoneSet};

use crate::message::CLASS_IN;
use crate::{
    Answering, Beside, Block, BlockZones, Common, Handler, Identity, Listener, Next, Origin,
    Outcome, Parts, Proto, Question, RateLimit, Reply, Request, Router, Server, Settings, Shape,
    Stats, SynthesizedNames, TlsIdentity,
};

/// A server on loopback.
pub struct Running {
    /// Its address, for UDP and TCP.
    pub address: SocketAddr,
    /// Its counters.
    pub stats: Arc<Stats>,
    /// The state of its secondaries.
    pub table: Arc<SecondaryTable>,
    /// Whether clients should close their connections.
    pub draining: Arc<AtomicBool>,
    /// The server that answers at present.
    pub answering: Answering,
    /// Stops it.
    pub cancel: CancellationToken,
    /// Its tasks.
    pub tasks: JoinSet<()>,
}

/// The parts of a server that a test sets.
pub struct Setup {
    /// The zones.
    pub zones: Vec<Arc<Zone>>,
    /// The answers for names that no version holds, for all zones.
    pub synthesized: Vec<Arc<dyn SynthesizedNames>>,
    /// The handlers before the zones, and those after them.
    pub handlers: [Vec<Arc<dyn Handler>>; 2],
    /// The form of replies.
    pub shape: Shape,
    /// The limit on replies.
    pub rate_limit: RateLimit,
    /// Whether datagrams need a cookie.
    pub requires_cookie: bool,
    /// Names that fall through to the next handler when a zone lacks them.
    pub fallthrough: Vec<Name>,
    /// The keys of the block.
    pub keys: Vec<Name>,
    /// Rules for all zones, as `peers[ key]`.
    pub access: Vec<&'static str>,
    /// More rules for all zones.
    pub rules: Vec<Rule>,
    /// The servers to notify.
    pub secondaries: Vec<Secondary>,
    /// Limits and times.
    pub settings: Settings,
    /// The certificate and keys of TLS listeners.
    pub tls: Option<Arc<TlsIdentity>>,
}

impl Setup {
    /// A small zone. [`www`] is a question for its record.
    pub fn small() -> Self {
        Self::new(vec![zone::testing::zone("z.", 5, &["www A 10.0.0.1"])])
    }

    /// Zones that anyone may transfer.
    pub fn new(zones: Vec<Arc<Zone>>) -> Self {
        Self {
            zones,
            synthesized: vec![],
            handlers: [vec![], vec![]],
            shape: Shape::default(),
            rate_limit: RateLimit::default(),
            requires_cookie: false,
            fallthrough: vec![],
            keys: vec![Name::root()],
            access: vec!["*"],
            rules: vec![],
            secondaries: vec![],
            settings: Settings::default(),
            tls: None,
        }
    }

    /// The server, without sockets.
    pub fn server(self) -> Server {
        self.server_with(Arc::new(TestClock))
    }

    /// The server with a clock.
    pub fn server_with(self, clock: Arc<dyn Clock>) -> Server {
        let common = Common::new(&self.settings, iter::empty());
        let told = self.secondaries.iter();
        let told = told.map(|of| (of.zone.clone(), of.target, of.keys.clone()));
        common.secondaries.configure(told, clock.wall());
        let rules = self.access.iter().map(|rule| {
            let mut words = rule.split(' ');
            Rule {
                peers: vec![peers(words.next().unwrap())],
                keys: words.map(name).collect(),
                tls: TlsDemand::Free,
            }
        });
        let access = Access::new(rules.chain(self.rules).collect());
        let [before, after] = self.handlers;
        let beside = self.zones.iter().map(|zone| {
            let names = self.synthesized.clone();
            let fallthrough = self.fallthrough.clone();
            (zone.apex().clone(), Beside { names, fallthrough })
        });
        let zones = BlockZones::new(ZoneSet::new(self.zones.clone()), beside.collect());
        let mut block = Block::new(before, zones, after, self.shape);
        block.rate_limit = self.rate_limit;
        block.requires_cookie = self.requires_cookie;
        Server::new(Parts {
            router: Arc::new(Router::new(vec![(self.keys, block)])),
            access: self
                .zones
                .iter()
                .map(|z| (z.apex().clone(), access.clone()))
                .collect(),
            zones: Arc::new(ZoneSet::new(self.zones)),
            secondaries: self.secondaries,
            keys: Arc::new(KeyRing::new(Keys::new(["k.", "other.", "mixed."].map(key)))),
            identity: Identity {
                nsid: Some(b"test"[..].into()),
                cookies: CookieSecrets::new([7; 16], &[]),
            },
            settings: self.settings,
            clock,
            query_log: None,
            tls: self.tls,
            common,
        })
    }

    /// Starts it with the machine's clock.
    pub fn start_at_real_time(self) -> Running {
        run(&self.server_with(Arc::new(ops::SystemClock)))
    }

    /// Starts it on a free port of 127.0.0.1.
    pub fn start(self) -> Running {
        run(&self.server())
    }
}

/// The question for the record of [`Setup::small`].
pub fn www() -> Vec<u8> {
    query(0, "www.z.", Rtype::A)
}

/// Starts a server on a free port of 127.0.0.1.
pub fn run(server: &Server) -> Running {
    run_also_on(server, vec![])
}

/// Starts a server on a free port of 127.0.0.1 and on other listeners.
pub fn run_also_on(server: &Server, more: Vec<Listener>) -> Running {
    let shared = &server.shared;
    let here = (IpAddr::from([127, 0, 0, 1]), 0).into();
    let listener = Listener::bind(here, shared.settings.udp_sockets, &[]).unwrap();
    let address = listener.address();
    let answering = Answering::new(server, None);
    let cancel = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let listeners = more.into_iter().chain([listener]);
    let serving = listeners.flat_map(|it| it.run(&answering, &cancel));
    let telling = server.told().map(|told| told.run(cancel.clone()));
    for (_, task) in serving.chain(telling) {
        tasks.spawn(task);
    }
    Running {
        address,
        stats: Arc::clone(&shared.stats),
        table: Arc::clone(&shared.secondaries),
        draining: Arc::clone(&shared.draining),
        answering,
        cancel,
        tasks,
    }
}

impl Running {
    /// The answer to a datagram.
    pub async fn udp_raw(&self, request: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(request, self.address).await.unwrap();
        let mut reply = vec![0; 65_535];
        let octets = soon(socket.recv(&mut reply)).await.unwrap();
        reply.truncate(octets);
        reply
    }

    /// The decoded answer to a datagram.
    pub async fn udp(&self, request: &[u8]) -> Message {
        Message::from_vec(&self.udp_raw(request).await).unwrap()
    }

    /// A connection.
    pub async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// The messages of a transfer, on a connection of its own.
    pub async fn transfer(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let mut client = self.connect().await;
        client.send(request).await;
        client.transfer().await
    }
}

/// A connection.
pub struct Client(pub TcpStream);

impl Client {
    /// Sends a message.
    pub async fn send(&mut self, message: &[u8]) {
        let mut octets = u16::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        octets.extend_from_slice(message);
        self.0.write_all(&octets).await.unwrap();
    }

    /// The next message; `None` at the end.
    pub async fn receive(&mut self) -> Option<Vec<u8>> {
        let length = soon(self.0.read_u16()).await.ok()?;
        let mut message = vec![0; usize::from(length)];
        soon(self.0.read_exact(&mut message)).await.ok()?;
        Some(message)
    }

    /// The messages of one transfer, up to the record that closes it.
    pub async fn transfer(&mut self) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let mut lines = Vec::new();
        while let Some(message) = self.receive().await {
            messages.push(message);
            lines.append(&mut answers(&messages[messages.len() - 1..]));
            if is_whole(&lines) {
                break;
            }
        }
        messages
    }
}

/// A router of one block for all names, without zones.
pub fn chain(before: Vec<Arc<dyn Handler>>, after: Vec<Arc<dyn Handler>>) -> Arc<Router> {
    chain_around(before, vec![], after)
}

/// A router of one block for all names, in which missing names of all zones fall through.
pub fn chain_around(
    before: Vec<Arc<dyn Handler>>,
    zones: Vec<Arc<Zone>>,
    after: Vec<Arc<dyn Handler>>,
) -> Arc<Router> {
    let beside = zones.iter().map(|zone| {
        let fallthrough = vec![Name::root()];
        let beside = Beside {
            fallthrough,
            ..Beside::default()
        };
        (zone.apex().clone(), beside)
    });
    let beside = beside.collect();
    let zones = BlockZones::new(ZoneSet::new(zones), beside);
    let block = Block::new(before, zones, after, Shape::default());
    Arc::new(Router::new(vec![(vec![Name::root()], block)]))
}

/// A request from `NAME TYPE [CLASS]`, as 192.0.2.1 sends it by UDP without EDNS.
pub fn request(text: &str) -> Request {
    let mut words = text.split(' ');
    let name: Name = words.next().unwrap().parse().unwrap();
    let qtype = words.next().map_or(Rtype::A, |word| match word {
        "ANY" => Rtype::ANY,
        word => word.parse().unwrap(),
    });
    Request {
        id: 1,
        flags: dns::flags::RD,
        trail: vec![(name.to_lower(), qtype)],
        depth: 0,
        name,
        qtype,
        qclass: words
            .next()
            .map_or(CLASS_IN, |class| if class == "CH" { 3 } else { 255 }),
        edns: None,
        origin: Origin {
            client: ([192, 0, 2, 1], 4000).into(),
            local: ([192, 0, 2, 53], 53).into(),
            proto: Proto::Udp,
            octets: 40,
        },
        metadata: BTreeMap::new(),
    }
}

/// A server's reply to a question, as text. It must not have to wait.
pub fn ask(router: &Arc<Router>, question: &str) -> String {
    ask_request(router, &mut request(question))
}

/// A server's reply to a request, as text. It must not have to wait.
pub fn ask_request(router: &Arc<Router>, request: &mut Request) -> String {
    let class = request.qclass;
    let outcome = Arc::clone(router).answer(request).now_or_never();
    text(&outcome.expect("answered from memory"), class)
}

/// An outcome as `RCODE | answers; authority; additional`. Parts without records are left out.
pub fn text(outcome: &Outcome, class: u16) -> String {
    let class = if class == 3 { " CH " } else { " IN " };
    match outcome {
        Outcome::Dropped => "dropped".to_owned(),
        Outcome::Failed(failure) => {
            let error = failure.error.as_deref().unwrap_or("-");
            format!("{}: {error}", failure.rcode)
        }
        Outcome::Reply(reply) => {
            let mut text = reply.rcode.to_string();
            let sections = [
                (" | ", &reply.answers),
                (" ; ", &reply.authority),
                (" + ", &reply.additional),
            ];
            for (mark, records) in sections {
                for (place, record) in records.iter().enumerate() {
                    text.push_str(if place == 0 { mark } else { " " });
                    let line = RecordText(record.view()).to_string().replace('\t', " ");
                    text.push_str(&line.replacen(" IN ", class, 1));
                }
            }
            text
        }
    }
}

/// A handler whose answers wait for permits. It drops questions for TXT, and panics at questions for MX.
#[derive(Debug)]
pub struct Waiting {
    /// One permit is enough for any number of answers, one after the other.
    pub permits: Semaphore,
    /// The number of questions that came.
    arrived: watch::Sender<usize>,
}

impl Waiting {
    /// A server of this handler alone, and the handler.
    pub fn setup() -> (Setup, Arc<Self>) {
        let waiting = Arc::new(Self {
            permits: Semaphore::new(0),
            arrived: watch::Sender::default(),
        });
        let mut setup = Setup::new(vec![]);
        setup.handlers[0].push(Arc::<Self>::clone(&waiting));
        (setup, waiting)
    }

    /// The number of questions that came.
    pub fn arrived(&self) -> usize {
        *self.arrived.borrow()
    }

    /// Waits until `count` questions have arrived, and those that were sent with them.
    pub async fn until_arrived(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let came = soon(arrived.wait_for(|arrived| *arrived >= count)).await;
        drop(came.expect("the handler has the sender"));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

impl Handler for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        self.arrived.send_modify(|arrived| *arrived += 1);
        async move {
            let _permit = self.permits.acquire().await;
            assert_ne!(request.qtype, Rtype::MX, "a fault of a handler");
            match request.qtype {
                Rtype::TXT => Outcome::Dropped,
                _ => Outcome::Reply(Reply::empty("waiting", dns::Rcode::NOERROR, 0)),
            }
        }
        .boxed()
    }
}

/// A handler that answers everything with one address, `10.0.0.N`, and N more with each question.
#[derive(Debug, Default)]
pub struct Counting(std::sync::atomic::AtomicU8);

impl Handler for Counting {
    fn name(&self) -> &'static str {
        "counting"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Outcome> {
        let number = 1 + self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut reply = Reply::empty("counting", dns::Rcode::NOERROR, 0);
        let (rtype, rdata) = dns::Rdata::address([10, 0, 0, number].into());
        reply.answers.push(dns::Record {
            owner: request.name.clone(),
            rtype,
            ttl: dns::Ttl::decode(300),
            rdata,
        });
        std::future::ready(Outcome::Reply(reply)).boxed()
    }
}
