//! A Corefile that is rewritten again and again under load: no query is lost, no connection is reset, no serial
//! changes, and a slow transfer completes.
//!
//! `RELOAD_SECONDS=60 ZW_BIN=target/release/zonewright cargo test --release --test it reload` is the long form, which
//! also asks for 20 000 answers a second.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::support::process::{Process, now};
use crate::support::product::{CHANGE, START, Site, ZONES, cluster_ip, headless};
use crate::support::wire::{self, Message, Query};
use rustix::process::Signal;
use socket2::{Domain, Socket, Type};

const AXFR: u16 = 252;
const IXFR: u16 = 251;
const TXT: u16 = 16;
/// A name that is logged where queries are.
const LOGGED: &str = "logged.test.svc.cluster.local";
/// Queries of one socket that wait for their answers.
const WINDOW: u16 = 32;
/// Hosts of the large zone.
const HOSTS: usize = 24_000;
/// The bytes that the slow reader takes at once.
const SIP: usize = 16 * 1024;

/// The time of the short form.
const SHORT: Duration = Duration::from_secs(20);

/// The time of the test, and whether that is the long form.
fn length() -> (Duration, bool) {
    let seconds = std::env::var("RELOAD_SECONDS").ok();
    let seconds = seconds.map(|text| text.parse().expect("RELOAD_SECONDS is a number"));
    match seconds {
        None => (SHORT, false),
        Some(seconds) => (Duration::from_secs(seconds), true),
    }
}

/// The common state of the threads that ask.
#[derive(Default)]
struct Load {
    /// Set to end them.
    is_over: AtomicBool,
    /// The answers so far.
    answers: AtomicU64,
}

/// Checks that the answer is the expected one.
fn check(octets: &[u8]) -> u16 {
    let message = Message::decode(octets).expect("an answer can be read");
    assert_eq!(message.rcode(), 0, "{message:?}");
    assert_eq!(message.answers.len(), 1, "{message:?}");
    message.id
}

/// Asks over one UDP socket, `WINDOW` queries at a time, until it is over.
fn ask_udp(server: SocketAddr, load: &Load) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    socket.connect(server).expect("loopback can be reached");
    let patience = Some(Duration::from_secs(5));
    socket.set_read_timeout(patience).expect("it is a socket");
    let mut query = Query::new("web.test.svc.cluster.local.", 1).encode();
    let mut send = |id: u16| {
        query[..2].copy_from_slice(&id.to_be_bytes());
        socket.send(&query).expect("a datagram leaves");
    };
    let mut waiting = std::collections::BTreeSet::new();
    let mut next: u16 = 0;
    let mut buffer = [0; 512];
    loop {
        let is_over = load.is_over.load(Ordering::Relaxed);
        if is_over && waiting.is_empty() {
            return;
        }
        while !is_over && waiting.len() < usize::from(WINDOW) {
            next = next.wrapping_add(1);
            assert!(waiting.insert(next));
            send(next);
        }
        let octets = socket.recv(&mut buffer);
        let octets = octets.unwrap_or_else(|error| panic!("{} lost: {error}", waiting.len()));
        assert!(waiting.remove(&check(&buffer[..octets])));
        load.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// Asks over one connection until it is over.
fn ask_tcp(server: SocketAddr, load: &Load) {
    let mut connection = wire::Connection::open(server).expect("it listens");
    let query = Query::new("web.test.svc.cluster.local.", 1).encode();
    while !load.is_over.load(Ordering::Relaxed) {
        connection.send(&query).expect("the connection stays");
        check(&connection.receive().expect("the connection stays"));
        load.answers.fetch_add(1, Ordering::Relaxed);
    }
}

/// A transfer whose reader takes a sip now and then.
struct Slow {
    stream: TcpStream,
    octets: Vec<u8>,
}

impl Slow {
    /// Asks for the large zone, with little room for what comes.
    fn begin(server: SocketAddr) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket can be made");
        socket.set_recv_buffer_size(SIP).expect("it is a socket");
        socket.connect(&server.into()).expect("it listens");
        let mut stream = TcpStream::from(socket);
        let query = Query::new("big.test.", AXFR).encode();
        let length = u16::try_from(query.len()).expect("a query is short");
        stream.write_all(&length.to_be_bytes()).expect("it is open");
        stream.write_all(&query).expect("it is open");
        let octets = Vec::new();
        Self { stream, octets }
    }

    fn sip(&mut self) {
        let mut buffer = [0; SIP];
        let octets = self.stream.read(&mut buffer).expect("it is not reset");
        self.octets.extend_from_slice(&buffer[..octets]);
    }

    /// Reads the rest; gives the serials of the first and the last SOA and the number of records.
    fn finish(mut self) -> (u32, u32, usize) {
        let patience = Some(Duration::from_secs(20));
        self.stream.set_read_timeout(patience).expect("it is open");
        let mut records = Vec::new();
        let mut at = 0;
        let mut buffer = vec![0; 1 << 16];
        loop {
            while let Some(head) = self.octets.get(at..at + 2) {
                let length = usize::from(u16::from_be_bytes([head[0], head[1]]));
                let Some(message) = self.octets.get(at + 2..at + 2 + length) else {
                    break;
                };
                let message = Message::decode(message).expect("a message can be read");
                assert_eq!(message.rcode(), 0);
                records.extend(message.answers);
                at += 2 + length;
            }
            let last = records.last().and_then(wire::Record::serial);
            if let Some(last) = last.filter(|_| records.len() > 1) {
                let first = records[0].serial().expect("a SOA comes first");
                return (first, last, records.len());
            }
            let octets = self.stream.read(&mut buffer).expect("it is not reset");
            assert!(octets > 0, "it ended after {} records", records.len());
            self.octets.extend_from_slice(&buffer[..octets]);
        }
    }
}

struct Changing {
    site: Site,
    server: Process,
    /// The additional address of one of the Corefiles.
    other: SocketAddr,
    /// The last Corefile that was accepted.
    current: Form,
    /// The number of accepted Corefiles.
    taken: usize,
    /// The number of refused Corefiles.
    refused: usize,
}

impl Changing {
    fn start() -> Self {
        let site = Site::new();
        let both = [cluster_ip("web", 1, 80), headless("set", 1, &[1, 2])];
        site.manifest("shop.yaml", &both.join("---\n"));
        let text = "x".repeat(200);
        let soa = "$TTL 60\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.1\n";
        let hosts = format!("$GENERATE 1-{HOSTS} host$ TXT {text}\n");
        site.write("big", &format!("{soa}{hosts}"));
        let small = "$TTL 60\n@ SOA ns h 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.1\n";
        site.write("small", small);
        let other = crate::support::ports::free_address();
        let mut changing = Self {
            server: {
                site.write("Corefile", &corefile(&site, other, Form::Base));
                site.start_answering()
            },
            site,
            other,
            current: Form::Base,
            taken: 0,
            refused: 0,
        };
        let dns = changing.site.dns;
        let wait = "the large zone";
        changing
            .server
            .wait_for(wait, START, || wire::serial(dns, "big.test."));
        changing
    }

    /// Writes a form of the Corefile, signals the server, and waits until it is accepted or refused.
    fn change(&mut self, form: Form) {
        let text = corefile(&self.site, self.other, form);
        self.site.write("Corefile", &text);
        self.server.signal(Signal::USR1);
        let (line, count) = match form {
            Form::Broken | Form::Busy => {
                self.refused += 1;
                ("the old configuration stays", self.refused)
            }
            Form::Base
            | Form::Logs
            | Form::Access
            | Form::History
            | Form::MoreZones
            | Form::MoreListeners => {
                self.taken += 1;
                self.current = form;
                ("Reloading complete", self.taken)
            }
        };
        let log = self.site.path("log");
        let done = || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            (log.matches(line).count() >= count).then_some(())
        };
        self.server
            .wait_for(&format!("{form:?}: {line}"), CHANGE, done);
    }

    /// Waits until the server behaves like the last accepted form.
    fn wait_for_effects(&mut self) {
        let (site, other, want) = (&self.site, self.other, Seen::of(self.current));
        let what = format!("what is seen of {:?}", self.current);
        self.server.wait_for(&what, CHANGE, || {
            (Seen::at(site, other) == want).then_some(())
        });
    }

    /// The serials of all zones that every form has.
    fn serials(&self) -> Vec<Option<u32>> {
        let zones = ZONES.iter().copied().chain(["big.test."]);
        zones
            .map(|zone| wire::serial(self.site.dns, zone))
            .collect()
    }
}

/// The behaviour of a server that differs from form to form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seen {
    /// A query is logged.
    logs: bool,
    /// Another address may transfer.
    lets_others: bool,
    /// The served version is published.
    publishes: bool,
    /// It has the additional zone, here.
    has_more: bool,
    /// It listens on the other port.
    listens: bool,
}

impl Seen {
    /// The expected behaviour of a form.
    fn of(form: Form) -> Self {
        Self {
            logs: form == Form::Logs,
            lets_others: form == Form::Access,
            publishes: form == Form::History,
            has_more: form == Form::MoreZones,
            listens: form == Form::MoreListeners,
        }
    }

    /// The behaviour of a server.
    fn at(site: &Site, other: SocketAddr) -> Self {
        let logged = || {
            let log = fs::read_to_string(site.path("log")).unwrap_or_default();
            log.matches(LOGGED).count()
        };
        let before = logged();
        let code = |name: &str, rtype: u16| {
            let query = Query::new(name, rtype);
            let reply = wire::udp(site.dns, &query).expect("it answers");
            reply.rcode()
        };
        assert_eq!(code(&format!("{LOGGED}."), 1), 3, "there is no such name");
        Self {
            logs: logged() > before,
            lets_others: may_transfer(site.dns, [127, 0, 0, 2]),
            publishes: code("_version.cluster.local.", TXT) == 0,
            has_more: wire::serial(site.dns, "small.test.").is_some(),
            listens: wire::serial(other, "small.test.").is_some(),
        }
    }
}

/// Whether an address may transfer the large zone: its request is up to date, and not refused.
fn may_transfer(server: SocketAddr, from: [u8; 4]) -> bool {
    let socket = UdpSocket::bind(SocketAddr::from((from, 0))).expect("all of loopback is ours");
    socket.connect(server).expect("loopback can be reached");
    let patience = Some(Duration::from_secs(5));
    socket.set_read_timeout(patience).expect("it is a socket");
    let mut query = Query::new("big.test.", IXFR);
    query.serial = wire::serial(server, "big.test.");
    socket.send(&query.encode()).expect("a datagram leaves");
    let mut buffer = [0; 512];
    let octets = socket.recv(&mut buffer).expect("it answers");
    let reply = Message::decode(&buffer[..octets]).expect("an answer can be read");
    assert!([0, 5].contains(&reply.rcode()), "{reply:?}");
    reply.rcode() == 0
}

/// The difference of a Corefile from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// No difference.
    Base,
    /// Queries are logged.
    Logs,
    /// It is invalid.
    Broken,
    /// It wants a port that another process has.
    Busy,
    /// Others may transfer.
    Access,
    /// The history is shorter, and the version is published.
    History,
    /// It has one more zone.
    MoreZones,
    /// It listens on another port, too.
    MoreListeners,
}

/// The forms, in the order in which they repeat.
const FORMS: [Form; 9] = [
    Form::Logs,
    Form::Broken,
    Form::Access,
    Form::Busy,
    Form::MoreListeners,
    Form::Base,
    Form::History,
    Form::MoreZones,
    Form::Base,
];

/// The Corefile of a form.
fn corefile(site: &Site, other: SocketAddr, form: Form) -> String {
    let port = site.dns.port();
    let more = match form {
        Form::Logs => "log logged.test.svc.cluster.local",
        Form::Broken => "no_such_directive\n    ttl",
        Form::History => "history {\n        versions 200\n        publish\n    }",
        Form::Base | Form::Busy | Form::Access | Form::MoreZones | Form::MoreListeners => "",
    };
    let allow = if form == Form::Access {
        "allow 127.0.0.1 127.0.0.2"
    } else {
        "allow 127.0.0.1"
    };
    let base = site.corefile(more);
    let big = format!(
        "big.test:{port} {{\n    bind 127.0.0.1\n    file big\n    transfer {{\n        {allow}\n    }}\n}}\n"
    );
    let last = match form {
        Form::MoreZones => {
            format!("small.test:{port} {{\n    bind 127.0.0.1\n    file small\n}}\n")
        }
        Form::MoreListeners => format!(
            "small.test:{} {{\n    bind 127.0.0.1\n    file small\n}}\n",
            other.port()
        ),
        // The health listener of the first block is one of TCP.
        Form::Busy => format!(
            "small.test:{} {{\n    bind 127.0.0.1\n    file small\n}}\n",
            site.health.port()
        ),
        Form::Base | Form::Logs | Form::Broken | Form::Access | Form::History => String::new(),
    };
    format!("{base}{big}{last}")
}

#[test]
fn reloading_under_load_loses_nothing() {
    let (length, is_long) = length();
    let mut changing = Changing::start();
    let dns = changing.site.dns;
    let before = changing.serials();
    assert!(before.iter().all(Option::is_some), "{before:?}");
    let load = Arc::new(Load::default());
    let ask: [fn(SocketAddr, &Load); 5] = [ask_udp, ask_udp, ask_udp, ask_tcp, ask_tcp];
    let askers: Vec<JoinHandle<()>> = ask
        .iter()
        .map(|ask| {
            let (ask, load) = (*ask, Arc::clone(&load));
            thread::spawn(move || ask(dns, &load))
        })
        .collect();
    let mut slow = Slow::begin(dns);
    let start = now();
    let mut forms = FORMS.iter().cycle();
    while now().duration_since(start) < length {
        let form = *forms.next().expect("they come again and again");
        changing.change(form);
        slow.sip();
        assert_eq!(changing.serials(), before, "{form:?}");
        changing.wait_for_effects();
        assert!(
            askers.iter().all(|asker| !asker.is_finished()),
            "an asker gave up at {form:?}"
        );
    }
    let took = now().duration_since(start);
    load.is_over.store(true, Ordering::Relaxed);
    for asker in askers {
        asker.join().expect("no query is lost, no connection reset");
    }
    let (first, last, records) = slow.finish();
    assert_eq!((Some(first), last), (before[3], first));
    assert_eq!(records, HOSTS + 4);
    let answers = load.answers.load(Ordering::Relaxed);
    let rate = answers / took.as_secs().max(1);
    println!(
        "{answers} answers in {took:?}, {rate} a second; {} reloads, {} refused",
        changing.taken, changing.refused
    );
    assert!(
        changing.taken > 3 && changing.refused > 1,
        "too few reloads"
    );
    assert!(!is_long || rate >= 20_000, "{rate} answers a second");
    let metrics = changing.site.metrics();
    let failed = format!("coredns_reload_failed_total {}.0\n", changing.refused);
    assert!(metrics.contains(&failed), "{failed}\n{metrics}");
    let version = "coredns_reload_version_info{hash=\"sha512\",value=\"";
    assert!(metrics.contains(version), "{metrics}");
    assert!(changing.server.terminate(START).success());
}

#[test]
fn a_corefile_that_is_followed_is_taken_when_it_changes_and_a_bad_one_is_said_once() {
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let base = site.corefile("reload 2s 0s");
    site.write("Corefile", &base);
    let mut server = site.start_answering();
    let serial = wire::serial(site.dns, ZONES[0]).expect("it answers");
    site.write(
        "Corefile",
        &format!("{base}oops {{\n    nonsense\n    more\n}}\n"),
    );
    let refused = "plugin/reload: Corefile parse failed";
    let log = site.path("log");
    let count = |what: &str| {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches(what).count()
    };
    server.wait_for("the refusal", CHANGE, || {
        (count(refused) == 1).then_some(())
    });
    // All problems are reported, each with its place.
    assert_eq!(count("unknown directive"), 2);
    // Only places and comments differ: nothing to do. The next change is taken.
    site.write("Corefile", &format!("# a comment\n\n{base}"));
    let more = base
        .replace("ttl 5", "ttl 7")
        .replace("lameduck 0s", "lameduck 90s");
    site.write("Corefile", &more);
    server.wait_for("the reload", CHANGE, || {
        (count("Reloading complete") == 1).then_some(())
    });
    assert_eq!(count(refused), 1);
    // Another TTL is another content, and so another serial.
    site.new_serial(&mut server, ZONES[0], serial);
    server.signal(Signal::HUP);
    server.wait_for("SIGHUP is ignored", CHANGE, || {
        (count("SIGHUP is ignored") == 1).then_some(())
    });
    assert!(wire::serial(site.dns, ZONES[0]).is_some());
    // At once: it does not stay for the lame-duck time, which is longer than we wait.
    server.signal(Signal::QUIT);
    let ended = server.wait_for_end(START);
    assert!(ended.success());
}

#[test]
fn a_signal_to_end_is_heard_while_a_reload_waits_for_a_name() {
    let silent = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
    let resolver = silent.local_addr().expect("it is bound");
    let site = Site::new();
    site.manifest("web.yaml", &cluster_ip("web", 1, 80));
    let base = site.corefile("");
    site.write("Corefile", &base);
    let mut server = site.start_answering();
    let port = site.dns.port();
    site.write(
        "Corefile",
        &format!(
            "{base}slow.test:{port} {{\n    bind 127.0.0.1\n    forward . up.test {{\n        resolver {resolver}\n    }}\n}}\n"
        ),
    );
    server.signal(Signal::USR1);
    silent
        .set_read_timeout(Some(CHANGE))
        .expect("the socket takes it");
    let asked = silent.recv(&mut [0; 512]);
    assert!(asked.is_ok(), "the name is asked for: {asked:?}");
    assert!(server.terminate(START).success());
    let log = fs::read_to_string(site.path("log")).unwrap_or_default();
    assert!(log.contains("the reload is interrupted"), "{log}");
}
