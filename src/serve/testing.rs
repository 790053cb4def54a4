//! For tests: zones from lines of text, messages read by an independent decoder, servers on loopback.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hickory_server::proto::op::Message;
use hickory_server::proto::rr::Record as HickoryRecord;
use hickory_server::proto::serialize::binary::{BinEncodable, BinEncoder, NameEncoding};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::corefile::Network;
use crate::dns::tsig::{Algorithm, Key, KeyRing, Keys};
use crate::dns::{CookieSecret, Name, Rdata, RecordText, Rtype, Serial, Soa, Ttl};
use crate::live::{Block, BlockZones, Handler, LiveNames, Router, Shape};
use crate::ops::Clock;
use crate::serve::{
    Answering, Common, Identity, Listener, Parts, Server, Settings, Stats, TlsIdentity,
};
use crate::transfer::{Access, Peers, Rule, Secondary, SecondaryTable, TlsDemand};
use crate::zone::{Candidate, Contents, Edit, MemoryLimits, Node, Version, Zone, ZoneSet};

/// The wall clock of tests.
pub(crate) const NOW: u64 = 1_700_000_000;

/// A clock whose wall stands still and whose moments are tokio's.
#[derive(Debug)]
pub(crate) struct TestClock;

impl Clock for TestClock {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn wall(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(NOW)
    }
}

/// A name from text.
pub(crate) fn name(text: &str) -> Name {
    text.parse().unwrap()
}

/// Whom a rule is for, from `ADDRESS[%LINK]`, `ADDRESS/BITS` or `*`.
pub(crate) fn peers(text: &str) -> Peers {
    if text == "*" {
        return Peers::Any;
    }
    let of_link = text.split_once('%');
    let (range, link) = of_link.map_or((text, 0), |(of, link)| (of, link.parse().unwrap()));
    let one = range.parse().map(Network::of);
    let network = one.or_else(|_| range.parse()).unwrap().to_canonical();
    Peers::Net {
        network: network.into(),
        link,
    }
}

/// The SOA fields of test zones, with another TTL if wanted.
pub(crate) fn soa(apex: &Name, ttl: u32) -> Soa {
    Soa {
        mname: apex.child("ns").unwrap(),
        rname: apex.child("hostmaster").unwrap(),
        refresh: Ttl::decode(300),
        retry: Ttl::decode(30),
        expire: Ttl::decode(86_400),
        minimum: Ttl::decode(7),
        ttl: Ttl::decode(ttl),
    }
}

/// A record from `owner [ttl] type data`, names relative to the apex.
pub(crate) fn record(line: &str, apex: &Name) -> (Name, (Rtype, Ttl, Rdata)) {
    let mut words = line.split_whitespace().peekable();
    let owner = Name::parse_in(words.next().unwrap(), apex).unwrap();
    let ttl = words.peek().and_then(|word| word.parse().ok());
    if ttl.is_some() {
        words.next();
    }
    let rtype: Rtype = words.next().unwrap().parse().unwrap();
    let data: Vec<&str> = words.collect();
    let target = || Name::parse_in(data.last().unwrap(), apex).unwrap();
    let number = |at: usize| data[at].parse::<u16>().unwrap();
    let rdata = match rtype {
        Rtype::A | Rtype::AAAA => Rdata::address(data[0].parse().unwrap()).1,
        Rtype::SRV => Rdata::srv(number(0), number(1), number(2), &target()),
        Rtype::MX => {
            let mut octets = number(0).to_be_bytes().to_vec();
            octets.extend_from_slice(target().as_wire());
            Rdata::from_octets(&octets).unwrap()
        }
        Rtype::TXT => Rdata::txt(data[0]),
        Rtype::DS if data[0] == "1" => Rdata::from_octets(&[7]).unwrap(),
        Rtype(10) => Rdata::from_octets(&vec![7; usize::from(number(0))]).unwrap(),
        _ => Rdata::name(&target()),
    };
    (owner, (rtype, Ttl::decode(ttl.unwrap_or(60)), rdata))
}

/// Contents from lines of text.
pub(crate) fn contents(apex: &str, soa_ttl: u32, lines: &[&str]) -> Contents {
    let apex = name(apex);
    let mut contents = Contents::empty(&apex, soa(&apex, soa_ttl));
    let mut nodes: HashMap<Name, Vec<_>> = HashMap::new();
    for (owner, rest) in lines.iter().map(|line| record(line, &apex)) {
        nodes.entry(owner).or_default().push(rest);
    }
    for (owner, mut records) in nodes {
        contents.insert(Node::build(&owner, &apex, &mut records).unwrap());
    }
    contents
}

/// Makes contents the zone's next version.
pub(crate) fn publish(zone: &Zone, serial: u32, next: &Contents) -> Arc<Version> {
    let current = zone.current();
    let empty = Contents::empty(zone.apex(), next.soa().clone());
    let before = current.as_ref().map_or(&empty, |version| &version.contents);
    let mut edit = Edit::new(before);
    edit.set_soa(next.soa().clone());
    edit.replace_subtree(b"", next.nodes().map(|node| (node.clone(), 0)).collect(), 0);
    let limits = MemoryLimits {
        steps: 1000,
        octets: 1 << 26,
    };
    let draft = edit.finish();
    let (serial, time_ms) = (Serial::decode(serial), u64::from(serial));
    let candidate = Candidate::new(current.as_deref(), draft, serial, time_ms, vec![], limits);
    zone.publish(candidate.journaled())
}

/// A zone with one version.
pub(crate) fn zone(apex: &str, serial: u32, lines: &[&str]) -> Arc<Zone> {
    let zone = Arc::new(Zone::new(&name(apex)));
    publish(&zone, serial, &contents(apex, 60, lines));
    zone
}

/// Octets of a value, names uncompressed.
fn plain(value: &impl BinEncodable) -> Vec<u8> {
    let mut octets = Vec::new();
    let mut encoder = BinEncoder::new(&mut octets);
    encoder.set_name_encoding(NameEncoding::Uncompressed);
    value.emit(&mut encoder).unwrap();
    octets
}

/// A record, as hickory read it, as a line of text of ours.
pub(crate) fn line(record: &HickoryRecord) -> String {
    let octets = plain(record);
    let owner = crate::dns::wire_name_len(&octets).unwrap();
    RecordText(crate::dns::RrRef {
        owner: &octets[..owner],
        rtype: Rtype(record.record_type().into()),
        ttl: Ttl::decode(record.ttl),
        data: &octets[owner + 10..],
        tag: 0,
    })
    .to_string()
}

/// All lines of a version, SOA first.
pub(crate) fn lines_of(version: &Version) -> Vec<String> {
    let apex = version.contents.apex();
    let soa = crate::dns::Record {
        owner: apex.clone(),
        rtype: Rtype::SOA,
        ttl: version.contents.soa().ttl,
        rdata: version.soa_rdata.clone(),
    };
    let mut lines = vec![RecordText(soa.view()).to_string()];
    for node in version.contents.nodes() {
        let owner = node.owner_wire(apex);
        lines.extend(node.records(&owner, 0).map(|rr| RecordText(rr).to_string()));
    }
    lines
}

/// A query for a name and a type.
pub(crate) fn query(id: u16, qname: &str, qtype: Rtype) -> Vec<u8> {
    let mut octets = id.to_be_bytes().to_vec();
    octets.extend_from_slice(&[1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    octets.extend_from_slice(name(qname).as_wire());
    octets.extend_from_slice(&qtype.0.to_be_bytes());
    octets.extend_from_slice(&[0, 1]);
    octets
}

/// Counts one record more in a section (1 to 3).
pub(crate) fn count(octets: &mut [u8], section: usize) {
    octets[5 + 2 * section] += 1;
}

/// Adds an OPT record.
pub(crate) fn with_opt(mut octets: Vec<u8>, size: u16, version: u8, options: &[u8]) -> Vec<u8> {
    count(&mut octets, 3);
    octets.extend_from_slice(&[0, 0, 41]);
    octets.extend_from_slice(&size.to_be_bytes());
    octets.extend_from_slice(&[0, version, 0x80, 0]);
    octets.extend_from_slice(&u16::try_from(options.len()).unwrap().to_be_bytes());
    octets.extend_from_slice(options);
    octets
}

/// An IXFR query: the SOA in the authority section has root names and TTL 0, as some secondaries send it.
pub(crate) fn ixfr(id: u16, apex: &str, serial: u32) -> Vec<u8> {
    let mut octets = query(id, apex, Rtype::IXFR);
    count(&mut octets, 2);
    octets.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 0, 0, 22, 0, 0]);
    octets.extend_from_slice(&serial.to_be_bytes());
    octets.extend_from_slice(&[0; 16]);
    octets
}

/// The key of tests.
pub(crate) fn key(name: &str) -> Key {
    Key::new(
        &self::name(name),
        Algorithm::Sha256,
        b"a secret of thirty-two octets...",
    )
}

/// A server on loopback.
pub(crate) struct Running {
    /// Where it listens, UDP and TCP.
    pub(crate) address: SocketAddr,
    /// Its counters.
    pub(crate) stats: Arc<Stats>,
    /// What its secondaries have.
    pub(crate) table: Arc<SecondaryTable>,
    /// Asks the clients of connections to go.
    pub(crate) draining: Arc<AtomicBool>,
    /// What answers.
    pub(crate) answering: Answering,
    /// Stops it.
    pub(crate) cancel: CancellationToken,
    /// Its tasks.
    pub(crate) tasks: JoinSet<()>,
}

/// What of a server a test sets.
pub(crate) struct Setup {
    /// The zones.
    pub(crate) zones: Vec<Arc<Zone>>,
    /// What answers for names that no version holds.
    pub(crate) live: HashMap<Name, LiveNames>,
    /// The handlers in front of the zones, and those behind them.
    pub(crate) handlers: [Vec<Arc<dyn Handler>>; 2],
    /// What is done to replies on their way out.
    pub(crate) shape: Shape,
    /// The names that are asked of the next when a zone does not have them.
    pub(crate) fallthrough: Vec<Name>,
    /// Rules for all zones, as `peers[ key]`.
    pub(crate) access: Vec<&'static str>,
    /// More rules for all zones.
    pub(crate) rules: Vec<Rule>,
    /// Who is told.
    pub(crate) secondaries: Vec<Secondary>,
    /// Limits and times.
    pub(crate) settings: Settings,
    /// What stands in front of TLS connections.
    pub(crate) tls: Option<Arc<TlsIdentity>>,
}

impl Setup {
    /// Zones that anyone may transfer.
    pub(crate) fn new(zones: Vec<Arc<Zone>>) -> Self {
        Self {
            zones,
            live: HashMap::new(),
            handlers: [vec![], vec![]],
            shape: Shape::default(),
            fallthrough: vec![],
            access: vec!["*"],
            rules: vec![],
            secondaries: vec![],
            settings: Settings::default(),
            tls: None,
        }
    }

    /// The server, not bound.
    pub(crate) fn server(self) -> Server {
        self.server_with(Arc::new(TestClock))
    }

    /// The server with a clock.
    pub(crate) fn server_with(self, clock: Arc<dyn Clock>) -> Server {
        let common = Common::new(&self.settings);
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
        let below = |zone: &Arc<Zone>| (zone.apex().clone(), self.fallthrough.clone());
        let fallthrough = self.zones.iter().map(below).collect();
        let set = ZoneSet::new(self.zones.clone());
        let zones = BlockZones::new(set, self.live, fallthrough);
        let block = Block::new(before, zones, after, self.shape);
        Server::new(Parts {
            router: Arc::new(Router::new(vec![(vec![Name::root()], block)])),
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
                cookies: CookieSecret::new([7; 16]),
            },
            settings: self.settings,
            clock,
            query_log: None,
            tls: self.tls,
            common,
        })
    }

    /// Starts it with the machine's clock.
    pub(crate) fn start_at_real_time(self) -> Running {
        run(&self.server_with(Arc::new(crate::ops::SystemClock)))
    }

    /// Starts it on a free port of 127.0.0.1.
    pub(crate) fn start(self) -> Running {
        run(&self.server())
    }
}

/// Starts a server on a free port of 127.0.0.1.
pub(crate) fn run(server: &Server) -> Running {
    run_also_on(server, vec![])
}

/// Starts a server on a free port of 127.0.0.1 and on other listeners.
pub(crate) fn run_also_on(server: &Server, more: Vec<Listener>) -> Running {
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

/// Waits no longer than a test may take.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("what the test waits for does not come")
}

impl Running {
    /// The answer to a datagram.
    pub(crate) async fn udp_raw(&self, request: &[u8]) -> Vec<u8> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.send_to(request, self.address).await.unwrap();
        let mut reply = vec![0; 65_535];
        let octets = soon(socket.recv(&mut reply)).await.unwrap();
        reply.truncate(octets);
        reply
    }

    /// The answer to a datagram, read.
    pub(crate) async fn udp(&self, request: &[u8]) -> Message {
        Message::from_vec(&self.udp_raw(request).await).unwrap()
    }

    /// A connection.
    pub(crate) async fn connect(&self) -> Client {
        Client(TcpStream::connect(self.address).await.unwrap())
    }

    /// The messages of a transfer, on a connection of its own.
    pub(crate) async fn transfer(&self, request: &[u8]) -> Vec<Vec<u8>> {
        let mut client = self.connect().await;
        client.send(request).await;
        client.transfer().await
    }
}

/// A connection.
pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    /// Sends a message.
    pub(crate) async fn send(&mut self, message: &[u8]) {
        let mut octets = u16::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        octets.extend_from_slice(message);
        self.0.write_all(&octets).await.unwrap();
    }

    /// The next message; `None` at the end.
    pub(crate) async fn receive(&mut self) -> Option<Vec<u8>> {
        let length = soon(self.0.read_u16()).await.ok()?;
        let mut message = vec![0; usize::from(length)];
        soon(self.0.read_exact(&mut message)).await.ok()?;
        Some(message)
    }

    /// The messages of one transfer: until a record closes what the first opened.
    pub(crate) async fn transfer(&mut self) -> Vec<Vec<u8>> {
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

/// Whether these records are a whole reply to AXFR or IXFR.
fn is_whole(lines: &[String]) -> bool {
    let is_soa = |line: &String| line.contains(" IN SOA ");
    let soas = lines.iter().filter(|line| **line == lines[0]).count();
    match (lines.first(), lines.get(1)) {
        (None, _) | (Some(_), None) => true,
        // Differences: the new SOA opens, ends what goes, and closes.
        (Some(_), Some(second)) if is_soa(second) && *second != lines[0] => soas == 3,
        (Some(_), Some(_)) => soas == 2,
    }
}

/// The records of the answer sections of messages.
pub(crate) fn answers(messages: &[Vec<u8>]) -> Vec<String> {
    messages
        .iter()
        .flat_map(|message| Message::from_vec(message).unwrap().answers)
        .map(|record| line(&record))
        .collect()
}

/// A socket of this machine for datagrams, and one for connections at the same port.
pub(crate) async fn both_ways() -> (UdpSocket, TcpListener) {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        if let Ok(listener) = TcpListener::bind(address).await {
            return (socket, listener);
        }
    }
}
