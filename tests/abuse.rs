//! Some minutes with strangers at twenty addresses who do what they can, all at once: garbage, chains of pointers, half
//! messages, idle connections, pipelined transfers, storms of signatures, random names for a slow upstream. Meanwhile a
//! named secondary (BIND) follows ten changes a second, a resolver asks by UDP and TCP, and memory and descriptors are
//! watched.
//!
//! `ABUSE_SECONDS` says how long (20 unless it does; `make abuse` takes 3 minutes), `ZW_SEED` what the strangers send. They keep
//! to a rate: this is about whose turn it is, not about a machine that has no time left. So that a busy machine fails no
//! test, the times of queries are compared with those of a server that only sends back what it gets, and a change's
//! time counts without that in which a thread that only sleeps came too late.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fastrand::Rng;
use fuzz::Fuzz;
use ops::{Clock, SystemClock};
use serde_json::json;
use socket2::{Domain, Socket, Type};

use crate::support::certificates::Certificates;
use crate::support::process::{let_pass, now, wait_for};
use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::strangers::{
    Ends, NAME, PARTS, ZONE, footprint, from_address, good, list_of, requests,
};
use crate::support::upstream::Upstream;
use crate::support::wire::{self, Query};
use crate::support::zonewright::{self, Zonewright};
use crate::support::{needs, ports};

/// The addresses of the strangers.
const STRANGERS: usize = 20;
/// Connections that all strangers together hold open without a word, or in the middle of one: more than a listener has.
const IDLE: usize = 1200;
/// The namespaces that change in turn: one alone causes a version a second.
const NAMESPACES: usize = 20;
/// The time between two changes.
const CHANGE: Duration = Duration::from_millis(100);
/// The longest that a change may take to the secondary.
const LAG: Duration = Duration::from_secs(1);
/// The slowest that one of a hundred of the resolver's queries may be.
const SLOWEST: Duration = Duration::from_millis(10);
/// The limit of additional resident memory, in KiB, at any time.
const MORE_MEMORY: usize = 64 * 1024;
/// The same afterwards: 1800 versions more are known.
const KEPT_MEMORY: usize = 24 * 1024;
/// The time for memory and descriptors to return.
const RETURN: Duration = Duration::from_secs(60);

/// How long the strangers are there.
fn length() -> Duration {
    let given = std::env::var("ABUSE_SECONDS").ok();
    Duration::from_secs(given.map_or(20, |text| text.parse().expect("a number of seconds")))
}

/// The times in which the machine let nobody run: a thread that only sleeps came too late by so much.
#[derive(Debug, Default)]
struct Stalls(Mutex<Vec<(Instant, Duration)>>);

impl Stalls {
    fn watch(&self, done: &AtomicBool) {
        let nap = Duration::from_millis(5);
        while !done.load(Ordering::Relaxed) {
            let start = now();
            let_pass(nap);
            let late = start.elapsed().saturating_sub(nap);
            if late > Duration::from_millis(2) {
                self.0.lock().unwrap().push((now(), late));
            }
        }
    }

    /// So much of the time between two moments.
    fn between(&self, start: Instant, end: Instant) -> Duration {
        let all = self.0.lock().unwrap();
        let within = all.iter().rev().take_while(|(until, _)| *until > start);
        let within = within.map(|(until, late)| {
            let begin = (*until)
                .checked_sub(*late)
                .map_or(start, |begin| begin.max(start));
            (*until).min(end).saturating_duration_since(begin)
        });
        within.sum()
    }
}

/// What the strangers did, and what they heard.
#[derive(Debug, Default)]
struct Counts {
    datagrams: AtomicUsize,
    chains: AtomicUsize,
    halves: AtomicUsize,
    idle: AtomicUsize,
    transfers_refused: AtomicUsize,
    signatures_refused: AtomicUsize,
    random_names: AtomicUsize,
}

fn count(counter: &AtomicUsize) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A server with one zone and an upstream, on one port and one for TLS.
struct Subject {
    zonewright: Zonewright,
    tls: SocketAddr,
    _upstream: Upstream,
}

impl Subject {
    fn start(secondary: u16, key: &Key) -> Self {
        let mut zonewright = Zonewright::prepare(&[ZONE]);
        let folder = zonewright.folder().join("manifests");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("all.json"), list_of(300).to_string()).unwrap();
        change(&folder, 0);
        let certificates = Certificates::new(zonewright.folder().to_owned());
        certificates.write("ns.example");
        let (tls, upstream) = (ports::free_address(), Upstream::start(1, "slow400"));
        let port = zonewright.address().port();
        let lines = format!(
            "    kubernetes {{\n        manifests {}\n    }}\n{}    history {{\n        versions 100\n    }}\n    \
             tsig {{\n        secret {} {} {}\n    }}\n    transfer {{\n        to 127.0.0.1:{secondary} key {}\n    }}\n}}\n\
             .:{port} {{\n    bind 127.0.0.1\n    forward . {}\n",
            folder.display(),
            certificates.line(),
            key.name,
            key.secret,
            key.algorithm,
            key.name,
            upstream.address,
        );
        zonewright.configure_with_keys(&format!("tls://{ZONE}:{}", tls.port()), &lines);
        zonewright.start();
        Self {
            zonewright,
            tls,
            _upstream: upstream,
        }
    }

    /// The manifests.
    fn folder(&self) -> std::path::PathBuf {
        self.zonewright.folder().join("manifests")
    }
}

/// The address that the name has after this change.
fn address_of(change: usize) -> String {
    format!("10.97.{}.{}", change / 250, change % 250 + 1)
}

/// Writes a change.
fn change(folder: &Path, number: usize) {
    let namespace = format!("n{}", number % NAMESPACES);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": "changing", "namespace": namespace },
        "spec": { "clusterIPs": [address_of(number)], "ports": [{ "name": "http", "port": 80, "protocol": "TCP" }] },
    });
    let aside = folder.join(".changing");
    fs::write(&aside, service.to_string()).unwrap();
    fs::rename(aside, folder.join(format!("{namespace}.json"))).unwrap();
}

/// Ten changes a second, numbered from 1; notes the moment of each.
fn make_changes(folder: &Path, written: &Mutex<Vec<Instant>>, done: &AtomicBool) {
    let (start, first) = (now(), written.lock().unwrap().len() + 1);
    for number in first.. {
        let due = CHANGE * u32::try_from(number - first + 1).unwrap();
        let_pass(due.saturating_sub(start.elapsed()));
        if done.load(Ordering::Relaxed) {
            return;
        }
        change(folder, number);
        written.lock().unwrap().push(now());
    }
}

/// Asks the secondary until it has all changes after those before; gives how long each took.
fn follow(
    secondary: SocketAddr,
    (written, before): (&Mutex<Vec<Instant>>, usize),
    stalls: &Stalls,
    done: &AtomicBool,
) -> Vec<Duration> {
    let (mut lags, mut over) = (Vec::new(), None);
    loop {
        let all = written.lock().unwrap().clone();
        let number = before + lags.len() + 1;
        if number > all.len() {
            if done.load(Ordering::Relaxed) {
                return lags;
            }
        } else {
            if done.load(Ordering::Relaxed) {
                let since = *over.get_or_insert_with(now);
                assert!(
                    since.elapsed() < RETURN,
                    "the secondary lacks change {number} of {}",
                    all.len()
                );
            }
            let name = format!("changing.n{}.svc.{ZONE}", number % NAMESPACES);
            let found = zonewright::addresses(secondary, &name).unwrap_or_default();
            // This change, or a later one of the namespace.
            let mut fitting = (number..=all.len()).step_by(NAMESPACES);
            if fitting.any(|number| found == [address_of(number)]) {
                let (moment, written) = (now(), all[number - 1]);
                let lag = moment - written;
                lags.push(lag.saturating_sub(stalls.between(written, moment)));
                continue;
            }
        }
        let_pass(Duration::from_millis(5));
    }
}

/// A server that only sends back what it gets: what it takes is the machine's.
fn echo(socket: &UdpSocket, done: &AtomicBool) {
    let mut buffer = [0; 512];
    socket
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    while !done.load(Ordering::Relaxed) {
        if let Ok((length, client)) = socket.recv_from(&mut buffer) {
            socket.send_to(&buffer[..length], client).unwrap();
        }
    }
}

/// A resolver's queries by UDP; every one is answered. Gives their times, and those of the echo between them.
fn resolve(
    server: SocketAddr,
    echo: SocketAddr,
    done: &AtomicBool,
) -> (Vec<Duration>, Vec<Duration>) {
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 2, 1), 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    let (mut took, mut echoed, mut buffer) = (Vec::new(), Vec::new(), [0; 512]);
    let mut ask = |query: &[u8], to: SocketAddr| {
        let start = now();
        socket.send_to(query, to).unwrap();
        let (length, from) = socket
            .recv_from(&mut buffer)
            .expect("a resolver's query is answered");
        assert!(from == to && buffer[..2] == query[..2] && buffer[3] & 15 == 0);
        (length, start.elapsed())
    };
    while !done.load(Ordering::Relaxed) {
        let query = good(u16::try_from(took.len() % 60_000).unwrap());
        let (length, time) = ask(&query, server);
        assert!(length > query.len());
        took.push(time);
        echoed.push(ask(&query, echo).1);
        let_pass(Duration::from_millis(2));
    }
    (took, echoed)
}

/// The same by TCP, each on a connection of its own, and by TLS's port as far as the connection.
fn resolve_by_tcp(server: SocketAddr, tls: SocketAddr, done: &AtomicBool) -> Vec<Duration> {
    let mut took = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let start = now();
        let mut stream = connect(Ipv4Addr::new(127, 0, 2, 1), server)
            .expect("a resolver's connection is accepted");
        stream
            .write_all(&framed(&good(7)))
            .expect("its query is taken");
        let reply = receive(&mut stream).expect("its query by TCP is answered");
        assert!(reply.len() > 40 && reply[3] & 15 == 0);
        took.push(start.elapsed());
        drop(
            connect(Ipv4Addr::new(127, 0, 2, 1), tls)
                .expect("a resolver's connection for TLS is accepted"),
        );
        let_pass(Duration::from_millis(50));
    }
    took
}

fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect_timeout(&to.into(), Duration::from_secs(5))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A message as streams have it.
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).unwrap();
    [&length.to_be_bytes()[..], message].concat()
}

fn receive(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(message)
}

/// A socket of a stranger.
fn datagrams(number: usize, server: SocketAddr) -> UdpSocket {
    let host = u8::try_from(number % STRANGERS).unwrap() + 1;
    let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, host), 0)).unwrap();
    socket.connect(server).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

/// Does something `rate` times a second, with its number, until the end.
fn at_rate(rate: u32, done: &AtomicBool, mut act: impl FnMut(usize)) {
    let start = now();
    let mut number = 0_u32;
    while !done.load(Ordering::Relaxed) {
        act(usize::try_from(number).unwrap());
        number += 1;
        let due = Duration::from_secs(1) * number / rate;
        let_pass(
            due.saturating_sub(start.elapsed())
                .min(Duration::from_millis(50)),
        );
    }
}

/// A message of almost 64 KiB: an IXFR whose records have names that end in a chain of pointers, each to the one before.
fn chain() -> Vec<u8> {
    let mut message = vec![0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    // The question: the root, IXFR, IN.
    message.extend([0, 0, 251, 0, 1]);
    // A record that is nothing but pointers, as far as pointers reach.
    message.extend([0, 255, 0, 0, 1, 0, 0, 0, 0]);
    let room = (0x3ffe - message.len() - 2) / 2;
    message.extend(u16::try_from(room * 2).unwrap().to_be_bytes());
    let mut target = 12_u16;
    for _ in 0..room {
        let here = u16::try_from(message.len()).unwrap();
        message.extend((0xc000 | target).to_be_bytes());
        target = here;
    }
    let mut records = 1_u16;
    while message.len() < 65_500 {
        message.extend((0xc000 | target).to_be_bytes());
        message.extend([0, 6, 0, 1, 0, 0, 0, 0, 0, 0]);
        records += 1;
    }
    message[8..10].copy_from_slice(&records.to_be_bytes());
    message
}

/// What the strangers share.
#[derive(Clone, Copy)]
struct Strangers<'a> {
    server: SocketAddr,
    tls: SocketAddr,
    key: &'a Key,
    counts: &'a Counts,
    seed: u64,
    done: &'a AtomicBool,
}

impl<'a> Strangers<'a> {
    /// Starts all of them.
    fn start<'scope>(self, scope: &'scope Scope<'scope, 'a>) {
        scope.spawn(move || self.garbage());
        scope.spawn(move || self.chains());
        scope.spawn(move || {
            let message = b"\xff\xff\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01s";
            self.hold(self.server, message);
        });
        scope.spawn(move || self.hold(self.tls, b"\x16\x03\x01\x02\x00\x01"));
        scope.spawn(move || self.transfers());
        scope.spawn(move || self.signatures());
        scope.spawn(move || self.random_names());
    }

    /// A socket of each.
    fn sockets(self) -> Vec<UdpSocket> {
        (0..STRANGERS)
            .map(|it| datagrams(it, self.server))
            .collect()
    }

    fn garbage(self) {
        let sockets = self.sockets();
        let mut fuzz = Fuzz::with_seed(self.seed, requests(), PARTS);
        at_rate(1000, self.done, |number| {
            let _is_sent = sockets[number % STRANGERS].send(&fuzz.input()).is_ok();
            count(&self.counts.datagrams);
        });
    }

    /// Chains of pointers, by both ways.
    fn chains(self) {
        let (chain, mut open, sockets) = (chain(), None, self.sockets());
        at_rate(40, self.done, |number| {
            // What fits a datagram on loopback.
            let _is_sent = sockets[number % STRANGERS].send(&chain[..60_000]).is_ok();
            let mut stream: Option<TcpStream> = open
                .take()
                .or_else(|| from_address(number % STRANGERS, self.server).ok());
            let is_sent = stream
                .as_mut()
                .is_some_and(|stream| stream.write_all(&framed(&chain)).is_ok());
            if is_sent {
                count(&self.counts.chains);
                let is_answered = stream
                    .as_mut()
                    .is_some_and(|stream| receive(stream).is_ok());
                open = stream.filter(|_| is_answered);
            }
        });
    }

    /// Idle connections and half messages: what is closed is opened again.
    fn hold(self, to: SocketAddr, half: &[u8]) {
        let mut held: Vec<Option<TcpStream>> = (0..IDLE).map(|_| None).collect();
        at_rate(150, self.done, |number| {
            let place = &mut held[number % IDLE];
            drop(place.take());
            let Ok(mut stream) = from_address(number % STRANGERS, to) else {
                return;
            };
            if number.is_multiple_of(2) {
                let _is_sent = stream.write_all(half).is_ok();
                count(&self.counts.halves);
            } else {
                count(&self.counts.idle);
            }
            *place = Some(stream);
        });
    }

    /// Transfers of what is not theirs, many at once on a connection.
    fn transfers(self) {
        let refused = &self.counts.transfers_refused;
        let ixfr = Query {
            serial: Some(1),
            ..Query::new(ZONE, wire::IXFR)
        };
        let axfr = Query::new(ZONE, wire::AXFR).encode();
        let many = [framed(&axfr), framed(&ixfr.encode())].concat().repeat(50);
        at_rate(10, self.done, |number| {
            let Ok(mut stream) = from_address(number % STRANGERS, self.server) else {
                return;
            };
            let is_sent = stream.write_all(&many).is_ok();
            // Some read nothing.
            let replies = if is_sent && number % 3 > 0 { 100 } else { 0 };
            for _ in 0..replies {
                let Ok(reply) = receive(&mut stream) else {
                    return;
                };
                assert_ne!(reply[3] & 15, 0, "a stranger gets no zone");
                count(refused);
            }
        });
    }

    /// Signatures of a key that there is, and of keys that there are not.
    fn signatures(self) {
        let (sockets, mut rng, mut buffer) =
            (self.sockets(), Rng::with_seed(self.seed + 1), [0; 1024]);
        at_rate(500, self.done, |number| {
            let socket = &sockets[number % STRANGERS];
            let name = match number.is_multiple_of(2) {
                true => self.key.name.clone(),
                false => format!("k{}", rng.u32(..)),
            };
            let _is_sent = socket.send(&signed(&name, &mut rng)).is_ok();
            while let Ok(length) = socket.recv(&mut buffer) {
                // NOTAUTH, with BADSIG, BADKEY or BADTIME (RFC 8945 section 5.2).
                if length > 12 && buffer[3] & 15 == 9 {
                    count(&self.counts.signatures_refused);
                }
            }
        });
    }

    /// Names that nobody has asked for before.
    fn random_names(self) {
        let (sockets, mut rng) = (self.sockets(), Rng::with_seed(self.seed + 2));
        at_rate(300, self.done, |number| {
            let name = format!("r{:016x}.example.test", rng.u64(..));
            let query = Query {
                recursion_desired: true,
                ..Query::new(&name, wire::A)
            };
            let _is_sent = sockets[number % STRANGERS].send(&query.encode()).is_ok();
            count(&self.counts.random_names);
        });
    }
}

/// A query with a signature that nobody made.
fn signed(key: &str, rng: &mut Rng) -> Vec<u8> {
    let mut message = good(rng.u16(..));
    message[11] = 1;
    for label in key.trim_end_matches('.').split('.') {
        message.push(u8::try_from(label.len()).unwrap());
        message.extend(label.as_bytes());
    }
    message.extend(b"\x00\x00\xfa\x00\xff\x00\x00\x00\x00\x00\x3d\x0bhmac-sha256\x00");
    let seconds = SystemClock
        .wall()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    message.extend(&seconds.to_be_bytes()[2..]);
    message.extend([1, 44, 0, 32]);
    message.extend((0..32).map(|_| rng.u8(..)));
    message.extend([message[0], message[1], 0, 0, 0, 0]);
    message
}

/// The middle one, the slowest of a hundred, and the slowest.
fn spread(mut took: Vec<Duration>) -> [Duration; 3] {
    took.sort();
    let last = took.len().checked_sub(1).expect("there are some");
    [took[last / 2], took[last * 99 / 100], took[last]]
}

/// What others saw.
struct Seen {
    lags: Vec<Duration>,
    udp: Vec<Duration>,
    /// Of the echo.
    echo: Vec<Duration>,
    tcp: Vec<Duration>,
    /// The most descriptors, and the most memory in KiB.
    most: (usize, usize),
}

/// Lets everybody go on for a time, with or without the strangers.
fn go_on(
    subject: &mut Subject,
    (secondary, key): (SocketAddr, &Key),
    written: &Mutex<Vec<Instant>>,
    strangers: Option<(&Counts, u64)>,
    time: Duration,
) -> Seen {
    let (done, strangers_done, stalls) = (
        AtomicBool::new(false),
        AtomicBool::new(false),
        Stalls::default(),
    );
    let (server, tls, folder) = (subject.zonewright.address(), subject.tls, subject.folder());
    let id = subject.zonewright.process().id();
    std::thread::scope(|scope| {
        let (done, stalls) = (&done, &stalls);
        let ends = (Ends(done), Ends(&strangers_done));
        scope.spawn(|| stalls.watch(done));
        let before = written.lock().unwrap().len();
        let folder = &folder;
        scope.spawn(move || make_changes(folder, written, done));
        let lags = scope.spawn(move || follow(secondary, (written, before), stalls, done));
        let echoing = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let echo_at = echoing.local_addr().unwrap();
        scope.spawn(move || echo(&echoing, done));
        let udp = scope.spawn(move || resolve(server, echo_at, done));
        let tcp = scope.spawn(move || resolve_by_tcp(server, tls, done));
        if let Some((counts, seed)) = strangers {
            let done = &strangers_done;
            let strangers = Strangers {
                server,
                tls,
                key,
                counts,
                seed,
                done,
            };
            strangers.start(scope);
        }
        let (start, mut most) = (now(), (0, 0));
        while start.elapsed() < time
            && !(lags.is_finished() || udp.is_finished() || tcp.is_finished())
        {
            let (open, resident) = footprint(id);
            most = (most.0.max(open), most.1.max(resident));
            let_pass(Duration::from_millis(200));
        }
        drop(ends);
        let (udp, echo) = udp.join().expect("a resolver's queries are answered");
        Seen {
            lags: lags.join().expect("the secondary follows"),
            udp,
            echo,
            tcp: tcp
                .join()
                .expect("a resolver's queries by TCP are answered"),
            most,
        }
    })
}

#[test]
fn whatever_strangers_do_at_once_the_secondary_follows_and_resolvers_are_answered() {
    if needs::lacks(&["bind"]) {
        return;
    }
    let seed = fuzz::seed();
    let port = ports::free();
    let key = Key {
        name: "bind.key".to_owned(),
        ..Key::example()
    };
    let mut subject = Subject::start(port, &key);
    let mut plan = Plan::new(subject.zonewright.address(), &[ZONE]);
    plan.key = Some(key.clone());
    plan.emitted = Some(
        subject
            .zonewright
            .emitted(Kind::Bind, ports::loopback(port)),
    );
    let bind = Secondary::start_on(Kind::Bind, &plan, port);
    wait_for(
        "BIND has the zone",
        RETURN,
        || bind.log(),
        || zonewright::addresses(bind.address(), NAME).filter(|found| !found.is_empty()),
    );
    let written = Mutex::default();
    let sides = (bind.address(), &key);
    // What is allocated once is there before the measurement; the figures are printed beside the others.
    let calm = go_on(&mut subject, sides, &written, None, Duration::from_secs(5));
    let id = subject.zonewright.process().id();
    let before = footprint(id);
    let counts = Counts::default();
    let seen = go_on(
        &mut subject,
        sides,
        &written,
        Some((&counts, seed)),
        length(),
    );
    let after = std::cell::Cell::new(before);
    wait_for(
        &format!("{before:?} again"),
        RETURN,
        || format!("{:?}", after.get()),
        || {
            after.set(footprint(id));
            let (open, resident) = after.get();
            (open <= before.0 + 2 && resident <= before.1 + KEPT_MEMORY).then_some(())
        },
    );
    show("calm", &calm);
    show("strangers", &seen);
    eprintln!(
        "descriptors and KiB: {before:?} before, {:?} at most, {:?} after; {counts:?}",
        seen.most,
        after.get()
    );
    check_work(counts);
    check_times(seen, before);
    assert!(subject.zonewright.process().ended().is_none());
    assert!(!subject.zonewright.log().contains("panicked"));
}

/// Prints what others saw.
fn show(what: &str, seen: &Seen) {
    let times = |took: &[Duration]| format!("{} {:?}", took.len(), spread(took.to_vec()));
    eprintln!(
        "{what}: changes {}, queries by UDP {}, an echo {}, by TCP {} (number; p50, p99, worst)",
        times(&seen.lags),
        times(&seen.udp),
        times(&seen.echo),
        times(&seen.tcp),
    );
}

/// The length of the test in seconds.
fn seconds() -> usize {
    usize::try_from(length().as_secs()).unwrap()
}

/// Checks that the strangers did something.
fn check_work(counts: Counts) {
    let Counts {
        datagrams,
        chains,
        halves,
        idle,
        transfers_refused,
        signatures_refused,
        random_names,
    } = counts;
    for (what, least, count) in [
        ("datagrams", 200, datagrams),
        ("chains", 5, chains),
        ("halves", 30, halves),
        ("idle", 30, idle),
        ("transfers", 30, transfers_refused),
        ("signatures", 50, signatures_refused),
        ("random names", 100, random_names),
    ] {
        let count = count.into_inner();
        assert!(count >= least * seconds(), "{count} {what}");
    }
}

/// Checks that nobody else noticed.
fn check_times(seen: Seen, before: (usize, usize)) {
    let Seen {
        lags,
        udp,
        echo,
        tcp,
        most,
    } = seen;
    assert!(lags.len() >= seconds() * 7, "{} changes", lags.len());
    assert!(
        udp.len() >= seconds() * 30 && tcp.len() >= seconds(),
        "{}, {}",
        udp.len(),
        tcp.len()
    );
    let [_, _, slowest] = spread(lags);
    assert!(slowest <= LAG, "a change took {slowest:?} to the secondary");
    let ([_, slow, _], [_, of_machine, _]) = (spread(udp), spread(echo));
    assert!(
        slow < SLOWEST.max(of_machine * 3),
        "p99 of a resolver's queries is {slow:?}, of an echo {of_machine:?}"
    );
    assert!(
        most.1 <= before.1 + MORE_MEMORY,
        "{before:?} before, {most:?} at most"
    );
}
