//! The findings of each case. `tests` tries real secondaries, sound and broken.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use dns::Query;
use dns::tsig::{self, Key, Keys, Verdict};
use ops::{Clock, SystemClock};

use super::*;

/// An answer with this serial.
fn soa(serial: u32) -> Reached<SoaAnswer> {
    Reached::Answered(SoaAnswer {
        rcode: Rcode::NOERROR,
        serial: Some(Serial::decode(serial)),
    })
}

/// A good answer to NOTIFY.
fn taken() -> NotifyAnswer {
    NotifyAnswer {
        rcode: Rcode::NOERROR,
        tsig_error: 0,
        is_signed: true,
        clock_ahead: Some(0),
    }
}

/// Our serial before and after.
fn ours(before: u32, after: u32) -> Option<Ours> {
    let [before, after] = [before, after].map(Serial::decode);
    Some(Ours { before, after })
}

/// The diagnosis of a secondary at serial 5, ours being 5.
fn of(notify: NotifyAnswer) -> String {
    let findings = Findings {
        udp: soa(5),
        tcp: soa(5),
        notify: Reached::Answered(notify),
        ours: ours(5, 5),
        requests: None,
        is_catalog: false,
    };
    let key: Name = "k.".parse().unwrap();
    diagnose(&findings, Some(&key)).to_string()
}

#[test]
fn each_fault_is_named_with_its_mend() {
    let cases = [
        (taken(), "same serial 5"),
        (
            NotifyAnswer {
                tsig_error: 17,
                rcode: Rcode::NOTAUTH,
                is_signed: false,
                ..taken()
            },
            "BADKEY",
        ),
        (
            NotifyAnswer {
                tsig_error: 16,
                rcode: Rcode::NOTAUTH,
                is_signed: false,
                ..taken()
            },
            "BADSIG",
        ),
        (
            NotifyAnswer {
                tsig_error: 18,
                clock_ahead: Some(-400),
                ..taken()
            },
            "400 s behind",
        ),
        (
            NotifyAnswer {
                clock_ahead: Some(200),
                ..taken()
            },
            "200 s ahead",
        ),
        (
            NotifyAnswer {
                is_signed: false,
                ..taken()
            },
            "not signed",
        ),
        (
            NotifyAnswer {
                rcode: Rcode::REFUSED,
                ..taken()
            },
            "refuses NOTIFY",
        ),
    ];
    for (notify, want) in cases {
        let said = of(notify);
        assert!(said.contains(want), "{notify:?}: {said}");
        assert_eq!(said.starts_with("OK"), notify == taken(), "{said}");
    }
}

#[test]
fn serials_are_compared_by_their_arithmetic() {
    for (own, theirs, want) in [
        (5, 4, "behind"),
        (5, 6, "ahead"),
        (1, u32::MAX, "behind"),
        (u32::MAX, 1, "ahead"),
    ] {
        let findings = Findings {
            udp: soa(theirs),
            tcp: soa(theirs),
            notify: Reached::Answered(taken()),
            ours: ours(own, own),
            requests: None,
            is_catalog: false,
        };
        let said = diagnose(&findings, None).to_string();
        assert!(said.starts_with("FAIL") && said.contains(want), "{said}");
    }
}

/// Knot shows a catalog only to peers that may transfer it. NSD and Unbound need not read it.
#[test]
fn a_secondary_need_not_show_the_catalog() {
    let refused = |rcode| {
        let soa = || {
            Reached::Answered(SoaAnswer {
                rcode,
                serial: None,
            })
        };
        let notify = NotifyAnswer { rcode, ..taken() };
        (soa(), soa(), Reached::Answered(notify))
    };
    for (rcode, is_catalog, is_well) in [
        (Rcode::REFUSED, true, true),
        (Rcode::NOTAUTH, true, true),
        (Rcode::SERVFAIL, true, false),
        (Rcode::REFUSED, false, false),
    ] {
        let (udp, tcp, notify) = refused(rcode);
        let findings = Findings {
            udp,
            tcp,
            notify,
            ours: None,
            requests: None,
            is_catalog,
        };
        let said = diagnose(&findings, None).to_string();
        assert_eq!(said.starts_with("OK"), is_well, "{said}");
    }
}

/// Knot shows it over TCP alone: its serial counts as any other.
#[test]
fn a_catalog_that_is_shown_over_tcp_alone_is_compared() {
    for (theirs, want) in [(5, "OK: "), (6, "FAIL: its serial 6 is ahead")] {
        let findings = Findings {
            udp: Reached::Answered(SoaAnswer {
                rcode: Rcode::REFUSED,
                serial: None,
            }),
            tcp: soa(theirs),
            notify: Reached::Answered(taken()),
            ours: ours(5, 5),
            requests: None,
            is_catalog: true,
        };
        let said = diagnose(&findings, None).to_string();
        assert!(said.starts_with(want) && said.contains("serial"), "{said}");
    }
}

#[test]
fn ways_that_are_closed_are_told_apart() {
    let closed = || Reached::Closed;
    for (udp, tcp, want) in [
        (
            closed(),
            closed(),
            "not reached over UDP nor over TCP: no server listens on TCP",
        ),
        (soa(5), closed(), "no server listens on TCP"),
        (Reached::Silent, soa(5), "no answer over UDP"),
    ] {
        let findings = Findings {
            udp,
            tcp,
            notify: Reached::Silent,
            ours: None,
            requests: None,
            is_catalog: false,
        };
        let said = diagnose(&findings, None).to_string();
        assert!(said.contains(want), "{said}");
    }
}

/// The key of a secondary.
fn key() -> Key {
    let name = "k.".parse().unwrap();
    Key::new(&name, "hmac-sha256".parse().unwrap(), b"sixteen octets!!")
}

/// A clock that is ahead.
#[derive(Debug)]
struct Ahead(Duration);

impl Clock for Ahead {
    fn now(&self) -> Instant {
        SystemClock.now()
    }

    fn wall(&self) -> SystemTime {
        SystemClock.wall() + self.0
    }
}

#[test]
fn badtime_tells_how_far_the_clocks_differ() {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = socket.local_addr().unwrap();
    // A secondary that checks keys by a right clock, while ours is ten minutes ahead.
    let answer = move || {
        let keys = Keys::new([key()]);
        let mut raw = [0; 512];
        loop {
            let (length, peer) = socket.recv_from(&mut raw).unwrap();
            let query = Query::parse(&raw[..length]).unwrap();
            let mut reply = raw[..2].to_vec();
            let rcode = if query.tsig_at.is_some() { 9 } else { 5 };
            reply.extend_from_slice(&[0x80 | raw[2] & 0x78, rcode, 0, 0, 0, 0, 0, 0, 0, 0]);
            let Some(at) = query.tsig_at else {
                socket.send_to(&reply, peer).unwrap();
                continue;
            };
            let now = transfer::unix_seconds(&SystemClock);
            match tsig::verify(&keys, &raw[..length], at, now) {
                Verdict::Refused(refusal) => refusal.sign(&mut reply, 0, now),
                other @ (Verdict::Valid(_) | Verdict::Malformed) => panic!("{other:?}"),
            }
            socket.send_to(&reply, peer).unwrap();
            return;
        }
    };
    let patient = Patient {
        zone: "z.".parse().unwrap(),
        address,
        key: Some(Arc::new(key())),
        source: None,
        is_catalog: false,
    };
    let findings = std::thread::scope(|scope| {
        scope.spawn(answer);
        probe(&patient, None, &Ahead(Duration::from_secs(600))).findings
    });
    let Reached::Answered(notify) = findings.notify else {
        panic!("{findings:?}");
    };
    assert_eq!(notify.tsig_error, 18);
    let ahead = notify.clock_ahead.unwrap();
    assert!((-602..=-598).contains(&ahead), "{ahead}");
}

/// The answer of a secondary with this serial.
fn answer_to(question: &[u8], serial: u32) -> Vec<u8> {
    let mut raw = question.to_vec();
    raw[2] |= 0x84;
    raw[6..8].copy_from_slice(&[0, 1]);
    raw.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 5, 0, 22, 0, 0]);
    raw.extend_from_slice(&serial.to_be_bytes());
    raw.extend_from_slice(&[0; 16]);
    raw
}

/// How a secondary treats a connection.
type OnConnection = fn(TcpStream);

/// Gives what our server says, if it can be asked.
type OurServer<'a> = &'a dyn Fn(&Patient) -> Option<Standing>;

/// Probes a secondary that says these serials by UDP, one after the other, NOTIFY included, and then the last
/// for ever.
fn probed(serials: &[u32], on_connection: OnConnection, ours: OurServer<'_>) -> Findings {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    let is_done = AtomicBool::new(false);
    let patient = Patient {
        zone: "z.".parse().unwrap(),
        address,
        key: None,
        source: None,
        is_catalog: false,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| on_connection(tcp.accept().unwrap().0));
        scope.spawn(|| {
            let mut serials = serials.iter().peekable();
            let mut raw = [0; 512];
            loop {
                let (length, peer) = udp.recv_from(&mut raw).unwrap();
                if is_done.load(Ordering::Relaxed) {
                    return;
                }
                let serial = **serials.peek().unwrap();
                if serials.len() > 1 {
                    serials.next();
                }
                let answer = answer_to(&raw[..length], serial);
                udp.send_to(&answer, peer).unwrap();
            }
        });
        let before = ours(&patient).map(|it| it.serial);
        let probed = probe(&patient, before, &SystemClock);
        let findings = probed.complete(ours(&patient), SystemClock.now());
        is_done.store(true, Ordering::Relaxed);
        let waker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        waker.send_to(&[0], address).unwrap();
        findings
    })
}

/// Answers one question as a secondary of serial 5.
fn answer_once(stream: TcpStream) {
    answer_with(stream, &|question| answer_to(question, 5)).unwrap();
}

/// Answers one question with this.
fn answer_with(mut stream: TcpStream, answer: &dyn Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut question)?;
    let answer = answer(&question);
    let length = u16::try_from(answer.len()).unwrap();
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(&answer)
}

/// The answer to a signed question with serial 8, signed or not; to another with serial 5.
fn answer_by_key(question: &[u8], signs: bool) -> Vec<u8> {
    let Some(at) = Query::parse(question).unwrap().tsig_at else {
        return answer_to(question, 5);
    };
    let now = transfer::unix_seconds(&SystemClock);
    let Verdict::Valid(mut session) = tsig::verify(&Keys::new([key()]), question, at, now) else {
        panic!("the question is not signed well");
    };
    let mut bare = question[..at].to_vec();
    bare[10..12].fill(0);
    let mut answer = answer_to(&bare, 8);
    if signs {
        session.sign(&mut answer, 0, now);
    }
    answer
}

/// The findings about a catalog at a secondary that refuses everything over UDP.
fn probed_catalog(signs: bool) -> Findings {
    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).unwrap();
    let is_done = AtomicBool::new(false);
    let patient = Patient {
        zone: "catalog.".parse().unwrap(),
        address,
        key: Some(Arc::new(key())),
        source: None,
        is_catalog: true,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                let (stream, _) = tcp.accept().unwrap();
                let answer = |question: &[u8]| answer_by_key(question, signs);
                let answered = answer_with(stream, &answer);
                assert!(answered.is_ok() || is_done.load(Ordering::Relaxed));
            }
        });
        scope.spawn(|| {
            let mut raw = [0; 512];
            while !is_done.load(Ordering::Relaxed) {
                let (length, peer) = udp.recv_from(&mut raw).unwrap();
                let mut refused = raw[..length.min(12)].to_vec();
                refused[2..].fill(0);
                refused[2] = 0x80 | raw[2] & 0x78;
                refused[3] = 5;
                udp.send_to(&refused, peer).unwrap();
            }
        });
        let findings = probe(&patient, None, &SystemClock).findings;
        is_done.store(true, Ordering::Relaxed);
        let waker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        waker.send_to(&[0; 12], address).unwrap();
        drop(TcpStream::connect(address).unwrap());
        findings
    })
}

#[test]
fn a_catalog_that_is_refused_by_udp_is_asked_over_tcp_and_believed_if_signed() {
    for (signs, want) in [(true, Some(Serial::decode(8))), (false, None)] {
        let findings = probed_catalog(signs);
        assert!(
            matches!(&findings.udp, Reached::Answered(answer) if answer.rcode == Rcode::REFUSED),
            "{findings:?}"
        );
        let Reached::Answered(tcp) = findings.tcp else {
            panic!("{findings:?}");
        };
        let rcode = Rcode::NOERROR;
        assert_eq!(
            tcp,
            SoaAnswer {
                rcode,
                serial: want
            }
        );
    }
}

/// What our server says with this serial, of a secondary that asked just now.
fn standing(serial: u32) -> Option<Standing> {
    Some(Standing {
        serial: Serial::decode(serial),
        asked: Some(Duration::ZERO),
        key: None,
        denied: None,
    })
}

#[test]
fn why_a_secondary_lacks_a_version_is_told_by_its_requests() {
    let said = |theirs, has_asked, key: Option<&str>, denied: Option<(&str, u64)>| {
        let findings = Findings {
            udp: soa(theirs),
            tcp: soa(theirs),
            notify: Reached::Answered(taken()),
            ours: ours(5, 5),
            requests: Some(Requests {
                has_asked,
                key: key.map(ToOwned::to_owned),
                denied: denied.map(|(reason, seconds)| (reason.to_owned(), seconds)),
            }),
            is_catalog: false,
        };
        diagnose(&findings, Some(&"k.".parse().unwrap())).to_string()
    };
    let refused = said(4, true, None, Some(("the rule requires TLS", 3)));
    assert!(
        refused.starts_with("FAIL: its serial 4 is behind ours, 5; we refused its request 3 s ago: the rule requires TLS;"),
        "{refused}"
    );
    let silent = said(4, false, None, None);
    assert!(
        silent.starts_with("FAIL: its serial 4 is behind ours, 5; the secondary has not asked us since it was notified; correct the primary's address"),
        "{silent}"
    );
    let other = said(4, true, None, None);
    assert!(
        other.contains("see its log for failed transfers"),
        "{other}"
    );
    let old = said(5, true, Some("old."), None);
    assert!(
        old.starts_with("OK")
            && old.contains("key k., clock +0 s, but its last request had the key old."),
        "{old}"
    );
    let same = said(5, true, Some("k."), None);
    assert!(!same.contains("last request"), "{same}");
}

#[test]
fn a_secondary_that_follows_a_zone_that_changes_is_well() {
    let asked = AtomicU32::new(0);
    // Ours is 7, and 9 at the second look.
    let ours = |_: &Patient| {
        let before = asked.fetch_add(1, Ordering::Relaxed);
        standing(7 + 2 * before)
    };
    let findings = probed(&[5, 5, 8], answer_once, &ours);
    let said = diagnose(&findings, None).to_string();
    assert!(said.ends_with("serial 8 follows ours, now 9"), "{said}");
    assert!(said.starts_with("OK"), "{said}");
}

#[test]
fn a_secondary_that_took_what_came_meanwhile_is_not_ahead() {
    let asked = AtomicU32::new(0);
    let ours = |_: &Patient| {
        let before = asked.fetch_add(1, Ordering::Relaxed);
        standing(7 + before)
    };
    let findings = probed(&[5, 8], answer_once, &ours);
    let said = diagnose(&findings, None).to_string();
    assert!(said.ends_with("same serial 8"), "{said}");
}

#[test]
fn a_connection_that_is_closed_without_an_answer_is_told_as_that() {
    let close: OnConnection = |mut stream| {
        let mut question = [0; 21];
        stream.read_exact(&mut question).unwrap();
    };
    let findings = probed(&[5], close, &|_| None);
    let said = diagnose(&findings, None).to_string();
    assert!(
        said.contains("no answer over TCP: it closes the connection"),
        "{said}"
    );
}

#[test]
fn an_answer_that_comes_drop_by_drop_is_given_up() {
    let drip: OnConnection = |mut stream| {
        stream.write_all(&[1, 0]).unwrap();
        // As long as someone listens.
        while stream.write_all(&[0]).is_ok() {
            std::thread::park_timeout(Duration::from_millis(50));
        }
    };
    let findings = probed(&[5], drip, &|_| None);
    assert!(matches!(findings.tcp, Reached::Silent), "{findings:?}");
}
