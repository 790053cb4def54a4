//! What each finding comes to. Real secondaries, well and broken, are tried in `tests`.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::*;
use crate::dns::Query;
use crate::dns::tsig::{self, Key, Keys, Verdict};
use crate::ops::{Clock, SystemClock};

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

/// The diagnosis of a secondary at serial 5, ours being 5.
fn of(notify: NotifyAnswer) -> String {
    let findings = Findings {
        udp: soa(5),
        tcp: soa(5),
        notify: Reached::Answered(notify),
    };
    let key: Name = "k.".parse().unwrap();
    diagnose(&findings, Some(Serial::decode(5)), Some(&key)).to_string()
}

#[test]
fn each_fault_is_named_with_its_mend() {
    let cases = [
        (taken(), "serial 5 as ours"),
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
        assert_eq!(said.starts_with("well"), notify == taken(), "{said}");
    }
}

#[test]
fn serials_are_compared_by_their_arithmetic() {
    for (ours, theirs, want) in [
        (5, 4, "behind"),
        (5, 6, "ahead"),
        (1, u32::MAX, "behind"),
        (u32::MAX, 1, "ahead"),
    ] {
        let findings = Findings {
            udp: soa(theirs),
            tcp: soa(theirs),
            notify: Reached::Answered(taken()),
        };
        let said = diagnose(&findings, Some(Serial::decode(ours)), None).to_string();
        assert!(said.starts_with("ILL") && said.contains(want), "{said}");
    }
}

#[test]
fn ways_that_are_closed_are_told_apart() {
    let closed = || Reached::Closed;
    for (udp, tcp, want) in [
        (
            closed(),
            closed(),
            "not reached over UDP either: nobody listens on TCP",
        ),
        (soa(5), closed(), "nobody listens on TCP"),
        (Reached::Silent, soa(5), "no answer over UDP"),
    ] {
        let findings = Findings {
            udp,
            tcp,
            notify: Reached::Silent,
        };
        let said = diagnose(&findings, None, None).to_string();
        assert!(said.contains(want), "{said}");
    }
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
    let key = || {
        let name = "k.".parse().unwrap();
        Key::new(&name, "hmac-sha256".parse().unwrap(), b"sixteen octets!!")
    };
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
            let now = crate::transfer::unix_seconds(&SystemClock);
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
        ours: None,
    };
    let findings = std::thread::scope(|scope| {
        scope.spawn(answer);
        probe(&patient, &Ahead(Duration::from_secs(600)))
    });
    let Reached::Answered(notify) = findings.notify else {
        panic!("{findings:?}");
    };
    assert_eq!(notify.tsig_error, 18);
    let ahead = notify.clock_ahead.unwrap();
    assert!((-602..=-598).contains(&ahead), "{ahead}");
}
