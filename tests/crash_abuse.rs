//! Tests what strangers can do to the sockets: nonsense, silence, slowness, resets, and too many transfers at once.
//! Ordinary queries are answered all the while. Memory and descriptors are as before afterwards.
//!
//! The limits of times are wide: they distinguish a server that hangs from one that is busy. Measurements are printed.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::certificates::{self, Certificates};
use crate::support::ports;
use crate::support::process::{let_pass, now, wait_for};
use crate::support::strangers::{
    Ends, PARTS, ZONE, ask_until, footprint, from_address, good, list_of, requests,
};
use crate::support::wire::{self, Connection, Query};
use crate::support::zonewright::Zonewright;
use fuzz::Fuzz;
use socket2::{Domain, SockRef, Socket, Type};

/// Messages on each transport.
const MESSAGES: usize = 10_000;
/// The time for memory and descriptors to return.
const RETURN: Duration = Duration::from_secs(60);
/// The limit of additional resident memory, in KiB.
const MORE_MEMORY: usize = 48 * 1024;
/// The slowest that one of a hundred ordinary queries may be on a busy machine. The aim is 10 ms.
const SLOWEST: Duration = Duration::from_millis(250);

/// A server with plain and TLS sockets.
struct Subject {
    zonewright: Zonewright,
    certificates: Certificates,
    tls: SocketAddr,
}

impl Subject {
    /// A server whose zone has this number of Services.
    fn start(services: usize) -> Self {
        let mut zonewright = Zonewright::prepare(&[ZONE]);
        let folder = zonewright.folder().join("manifests");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("all.json"), list_of(services).to_string()).unwrap();
        let certificates = Certificates::new(zonewright.folder().to_owned());
        certificates.write("ns.example");
        let tls = ports::free_address();
        zonewright.configure_with_keys(
            &format!("tls://{ZONE}:{}", tls.port()),
            &format!(
                "    kubernetes {{\n        manifests {}\n    }}\n{}    transfer {{\n        allow \
                 127.0.0.1 127.0.1.0/24\n    }}\n",
                folder.display(),
                certificates.line(),
            ),
        );
        zonewright.start();
        // Memory that is allocated once is there before the measurement.
        assert!(wire::axfr(zonewright.address(), ZONE).is_ok());
        Self {
            zonewright,
            certificates,
            tls,
        }
    }

    /// Open descriptors, and resident memory in KiB.
    fn footprint(&mut self) -> (usize, usize) {
        footprint(self.zonewright.process().id())
    }

    /// Waits until descriptors and memory are about what they were.
    fn returns_to(&mut self, what: &str, before: (usize, usize)) {
        let last = std::cell::Cell::new(before);
        wait_for(
            &format!("{what}: {before:?} again"),
            RETURN,
            || format!("{:?}", last.get()),
            || {
                last.set(self.footprint());
                let (open, resident) = last.get();
                (open <= before.0 + 2 && resident <= before.1 + MORE_MEMORY).then_some(())
            },
        );
        eprintln!(
            "{what}: descriptors and KiB {before:?} before, {:?} after",
            last.get()
        );
        assert!(self.zonewright.process().ended().is_none());
        assert!(!self.zonewright.log().contains("panicked"));
    }

    /// Does work while ordinary queries are asked, and checks the time of their answers.
    fn while_queries_go_on<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let (server, done) = (self.zonewright.address(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| ask_until(server, &done));
            let ends = Ends(&done);
            let result = work();
            drop(ends);
            let mut took = asking.join().expect("the queries are answered");
            took.sort();
            let (middle, slow) = (took[took.len() / 2], took[took.len() * 99 / 100]);
            eprintln!(
                "{what}: {} ordinary queries, p50 {middle:?}, p99 {slow:?}",
                took.len()
            );
            assert!(slow < SLOWEST, "{what}: p99 {slow:?}");
            result
        })
    }
}

/// Sends changed messages as datagrams; counts the answers.
fn abuse_udp(server: SocketAddr, fuzz: &mut Fuzz<'_>) -> usize {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(server).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let mut buffer = vec![0; 65_536];
    let mut answers = 0;
    for number in 0..MESSAGES {
        let sent = socket.send(&fuzz.input());
        assert!(sent.is_ok(), "{sent:?}");
        if number % 32 == 0 {
            // In step with the server: what it cannot take in would be dropped unseen.
            let id = 0xa000 + u16::try_from(number % 4096).unwrap();
            socket.send(&good(id)).unwrap();
            loop {
                let length = socket.recv(&mut buffer).expect("a good query is answered");
                answers += 1;
                if buffer[..2] == id.to_be_bytes() && length > 40 {
                    break;
                }
            }
        }
    }
    answers
}

/// Sends changed messages over connections that `connect` makes; counts answers and connections.
fn abuse_stream<S: Read + Write>(
    mut connect: impl FnMut() -> std::io::Result<S>,
    fuzz: &mut Fuzz<'_>,
) -> (usize, usize) {
    let (mut answers, mut connections) = (0, 0);
    let mut open: Option<S> = None;
    for number in 0..MESSAGES {
        let stream = match &mut open {
            Some(stream) => stream,
            none => {
                connections += 1;
                none.insert(connect().expect("a connection can be made"))
            }
        };
        let message = fuzz.input();
        let length = u16::try_from(message.len()).unwrap();
        let mut octets = [&length.to_be_bytes()[..], &message].concat();
        let id = 0xa000 + u16::try_from(number % 4096).unwrap();
        let good = good(id);
        if number % 8 == 7 {
            octets.extend(u16::try_from(good.len()).unwrap().to_be_bytes());
            octets.extend(&good);
        }
        let is_open = stream.write_all(&octets).is_ok()
            && (number % 8 != 7 || read_until(stream, id, &mut answers));
        if !is_open {
            open = None;
        }
    }
    (answers, connections)
}

/// Reads messages up to the one with this ID; false when the connection is closed before.
fn read_until(stream: &mut impl Read, id: u16, answers: &mut usize) -> bool {
    loop {
        let mut length = [0; 2];
        if stream.read_exact(&mut length).is_err() {
            return false;
        }
        let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
        if stream.read_exact(&mut message).is_err() {
            return false;
        }
        *answers += 1;
        assert!(message.len() >= 12 && message[2] & 0x80 != 0, "{message:?}");
        if message[..2] == id.to_be_bytes() {
            return true;
        }
    }
}

/// 10 000 changed messages on each transport. What they are comes from a seed.
#[test]
fn changed_messages_harm_nobody_on_udp_tcp_and_tls() {
    let mut subject = Subject::start(300);
    let before = subject.footprint();
    let (server, tls) = (subject.zonewright.address(), subject.tls);
    let config = subject.certificates.client();
    let mut fuzz = Fuzz::new(requests(), PARTS);
    let start = now();
    let counts = subject.while_queries_go_on("changed messages", || {
        let udp = abuse_udp(server, &mut fuzz);
        let tcp = abuse_stream(|| from_address(1, server), &mut fuzz);
        let tls = abuse_stream(
            || from_address(2, tls).map(|stream| certificates::connect(&config, stream)),
            &mut fuzz,
        );
        (udp, tcp, tls)
    });
    eprintln!(
        "{MESSAGES} on each in {:?}: answers and connections {counts:?}",
        now() - start
    );
    assert!(counts.0 > MESSAGES / 4 && counts.1.0 > MESSAGES / 8 && counts.2.0 > MESSAGES / 8);
    subject.returns_to("changed messages", before);
    assert!(wire::axfr(server, ZONE).is_ok());
}

/// Opens 500 silent connections, and 50 that send an octet a second.
#[test]
fn idle_and_slow_connections_delay_nobody() {
    let mut subject = Subject::start(300);
    let before = subject.footprint();
    let (server, tls) = (subject.zonewright.address(), subject.tls);
    let during = subject.while_queries_go_on("idle and slow connections", || {
        let to = |number: usize| {
            if number.is_multiple_of(2) {
                server
            } else {
                tls
            }
        };
        let idle: Vec<TcpStream> = (0..500)
            .map(|number| from_address(number, to(number)).expect("it is accepted"))
            .collect();
        let mut slow: Vec<TcpStream> = (0..50)
            .map(|number| from_address(number, to(number)).expect("it is accepted"))
            .collect();
        let octets = [&[0, 60][..], &good(1)].concat();
        for octet in octets.iter().take(12) {
            for stream in &mut slow {
                // Whoever takes too long is closed.
                let _is_open = stream.write_all(&[*octet]).is_ok();
            }
            let_pass(Duration::from_secs(1));
        }
        (idle.len(), slow.len())
    });
    assert_eq!(during, (500, 50));
    subject.returns_to("idle and slow connections", before);
}

/// Four kinds of clients that reset: at once, in the handshake, after it, in a transfer.
fn reset_one(number: usize, subject: &Subject, config: &Arc<rustls::ClientConfig>) {
    let stream = TcpStream::connect(subject.tls).expect("connections are accepted");
    SockRef::from(&stream)
        .set_linger(Some(Duration::ZERO))
        .unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    match number % 4 {
        0 => drop(stream),
        1 => {
            let mut stream = stream;
            stream
                .write_all(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
                .unwrap();
        }
        kind => {
            let mut client = certificates::connect(config, stream);
            let query = Query::new(ZONE, if kind == 2 { wire::SOA } else { 252 }).encode();
            let length = u16::try_from(query.len()).unwrap();
            client
                .write_all(&[&length.to_be_bytes()[..], &query].concat())
                .expect("the handshake is made");
            let mut answer = [0; 64];
            client
                .read_exact(&mut answer[..30])
                .expect("an answer begins");
        }
    }
}

/// The time a process has computed, in ticks of 10 ms.
fn computed(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let rest = stat.rsplit_once(") ").unwrap().1;
    let fields: Vec<&str> = rest.split(' ').collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn f09_ten_thousand_resets_leave_nothing_behind() {
    let mut subject = Subject::start(2000);
    let before = subject.footprint();
    let config = subject.certificates.client();
    let next = AtomicUsize::new(0);
    let start = now();
    subject.while_queries_go_on("resets", || {
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= 10_000 {
                            break;
                        }
                        reset_one(number, &subject, &config);
                    }
                });
            }
        });
    });
    eprintln!("10 000 resets in {:?}", now() - start);
    subject.returns_to("resets", before);
    // No thread spins on closed connections.
    let id = subject.zonewright.process().id();
    let ticks = computed(id);
    let_pass(Duration::from_secs(1));
    assert!(
        computed(id) - ticks < 30,
        "{} ticks in a second",
        computed(id) - ticks
    );
}

/// An AXFR on its own connection, read as octets: the number of messages, or the response code.
fn transfer(from: Ipv4Addr, server: SocketAddr) -> Result<(usize, usize), u8> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
    socket.connect(&server.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut connection = Connection(stream);
    connection.send(&Query::new(ZONE, 252).encode()).unwrap();
    let (mut messages, mut octets, mut soas) = (0, 0, 0);
    while soas < 2 {
        let message = connection.receive().expect("a message");
        if message[3] & 15 != 0 {
            return Err(message[3] & 15);
        }
        messages += 1;
        octets += message.len();
        let first = if messages == 1 { 1 } else { 0 };
        // The closing SOA is the last record: its message ends with the timers, of which the last is left out.
        let timers = [0, 0, 1, 44, 0, 0, 0, 30, 0, 1, 81, 128];
        let ends = message[..message.len() - 4].ends_with(&timers);
        soas += first + usize::from(ends && messages > 1);
    }
    Ok((messages, octets))
}

/// 200 streams of a large zone at once, beside clients who may not have it.
#[test]
fn a16_two_hundred_transfers_beside_refused_ones_are_all_whole() {
    let mut subject = Subject::start(6_000);
    let server = subject.zonewright.address();
    let whole = transfer(Ipv4Addr::LOCALHOST, server).expect("the zone is given");
    let before = subject.footprint();
    let (over, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = AtomicBool::new(false);
    let start = now();
    subject.while_queries_go_on("200 transfers", || {
        std::thread::scope(|scope| {
            let _ends = Ends(&done);
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(transfer(Ipv4Addr::new(127, 0, 0, 2), server), Err(5));
                        refused.fetch_add(1, Ordering::Relaxed);
                        let_pass(Duration::from_millis(2));
                    }
                });
            }
            let over = &over;
            let taking: Vec<_> = (1..=200_u8)
                .map(|host| {
                    scope.spawn(move || {
                        loop {
                            match transfer(Ipv4Addr::new(127, 0, 1, host), server) {
                                Ok(got) => break assert_eq!(got, whole),
                                Err(code) => assert_eq!(code, 2, "over the limit is SERVFAIL"),
                            }
                            over.fetch_add(1, Ordering::Relaxed);
                            let_pass(Duration::from_millis(20));
                        }
                    })
                })
                .collect();
            for one in taking {
                one.join().expect("a transfer ends well");
            }
            wait_for("enough are refused", RETURN, String::new, || {
                (refused.load(Ordering::Relaxed) > 200).then_some(())
            });
        });
    });
    eprintln!(
        "200 transfers of {whole:?} messages and octets in {:?}; {over:?} over the limit, {refused:?} refused",
        now() - start
    );
    subject.returns_to("200 transfers", before);
}
