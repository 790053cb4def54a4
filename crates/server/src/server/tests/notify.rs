//! Tests of NOTIFY over loopback; nothing sleeps. Its timing is tested with `telling`.
//!
//! Test names begin with the case's number in the transfer list (`tests/transfer_list.rs`). D7 (20 000 zones) has no
//! test: each target has a task of its own for each zone. D10: `to` alone names the servers to notify, never NS
//! records; the tests of `transfer` check that each is notified once. D11 needs DNSSEC.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use dns::testing::{key, line, name, soa};
use dns::{Query, Rcode, Rtype, Soa, Ttl, tsig};
use futures_util::FutureExt;
use hickory_proto::op::Message;
use ops::testing::{NOW, both_ways, soon};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;
use transfer::{NOTIFY_UDP_TRIES, Secondary};
use zone::testing::{contents, publish, zone};
use zone::{Contents, Zone};

use crate::testing::{Running, Setup};

/// A secondary's socket.
async fn secondary() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

/// A zone and a server that notifies these targets of it. A target that refuses is notified again after a second.
fn telling(targets: &[(SocketAddr, &[&str])]) -> (Arc<Zone>, Running) {
    let zone = Arc::new(Zone::new(&name("z.")));
    let soa = Soa {
        retry: Ttl::decode(1),
        ..soa(zone.apex(), 60)
    };
    publish(&zone, 1, &Contents::empty(zone.apex(), soa));
    let mut setup = Setup::new(vec![Arc::clone(&zone)]);
    setup.settings.notify.first_timeout = Duration::from_millis(50);
    for (target, keys) in targets {
        setup.secondaries.push(Secondary {
            zone: name("z."),
            target: *target,
            keys: keys.iter().map(|key| name(key)).collect(),
            source: None,
        });
    }
    (zone, setup.start())
}

/// The next datagram and its sender.
async fn receive(socket: &UdpSocket) -> (Vec<u8>, SocketAddr) {
    let mut raw = vec![0; 1500];
    let (octets, from) = soon(socket.recv_from(&mut raw)).await.unwrap();
    raw.truncate(octets);
    (raw, from)
}

/// The serial in a NOTIFY.
fn told(raw: &[u8]) -> String {
    let message = Message::from_vec(raw).unwrap();
    line(&message.answers[0])
        .split(' ')
        .nth(6)
        .unwrap()
        .to_owned()
}

/// RFC 1996 sections 3.1, 3.5, 3.7.
#[tokio::test]
async fn d1_a_notify_has_the_form_of_rfc_1996() {
    let socket = secondary().await;
    let (_zone, _running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    let (raw, _) = receive(&socket).await;
    assert_eq!(raw[2..4], [0x24, 0], "opcode 4, AA, a request");
    assert_eq!(raw[4..12], [0, 1, 0, 1, 0, 0, 0, 0]);
    let query = Query::parse(&raw).unwrap();
    assert_eq!(
        (query.name(), query.qtype(), query.qclass()),
        (&b"\x01z\x00"[..], Rtype::SOA, 1)
    );
    assert_eq!(told(&raw), "1");
}

#[tokio::test]
async fn d3_a_notify_is_repeated_until_a_response_with_its_id_comes() {
    let socket = secondary().await;
    let target = socket.local_addr().unwrap();
    let (zone, running) = telling(&[(target, &[])]);
    let (first, from) = receive(&socket).await;
    // A message with another ID, or a request, does not end the NOTIFY.
    let mut wrong = first.clone();
    wrong[0] ^= 1;
    wrong[2] |= 0x80;
    socket.send_to(&wrong, from).await.unwrap();
    socket.send_to(&first, from).await.unwrap();
    let (second, from) = receive(&socket).await;
    assert_eq!(told(&second), "1");
    assert_eq!(running.stats.notify_acknowledged.get(), 0);
    // REFUSED is an answer.
    let mut refused = second[..12].to_vec();
    refused[2] |= 0x80;
    refused[3] = 5;
    refused[4..8].fill(0);
    socket.send_to(&refused, from).await.unwrap();
    publish(&zone, 2, &contents("z.", 60, &["a A 10.0.0.2"]));
    loop {
        let (raw, _) = receive(&socket).await;
        if told(&raw) == "2" {
            break;
        }
    }
    let status = &running.table.snapshot()[0];
    let acknowledged = status
        .acknowledged
        .map(|(serial, rcode, _)| (serial.encode(), rcode.0));
    assert_eq!(acknowledged, Some((1, 5)));
    assert_eq!(status.notified.map(|(serial, _)| serial.encode()), Some(2));
}

#[tokio::test]
async fn d2_d9_each_target_is_told_with_its_own_key_and_a_dead_one_delays_nobody() {
    let (signed, unsigned) = (secondary().await, secondary().await);
    let dead = secondary().await;
    let (_zone, running) = telling(&[
        (dead.local_addr().unwrap(), &[]),
        (signed.local_addr().unwrap(), &["k."]),
        (unsigned.local_addr().unwrap(), &[]),
    ]);
    drop(dead);
    let (raw, from) = receive(&signed).await;
    let at = Query::parse(&raw)
        .unwrap()
        .tsig_at
        .expect("this target has a key");
    let keys = tsig::Keys::new([key("k.")]);
    let tsig::Verdict::Valid(mut session) = tsig::verify(&keys, &raw, at, NOW) else {
        panic!("the NOTIFY verifies")
    };
    let (plain, _) = receive(&unsigned).await;
    assert_eq!(Query::parse(&plain).unwrap().tsig_at, None);
    // An unsigned NOERROR may be forged, so it does not end the NOTIFY.
    let mut reply = raw[..12].to_vec();
    reply[2] |= 0x80;
    reply[4..12].fill(0);
    signed.send_to(&reply, from).await.unwrap();
    let (again, from) = receive(&signed).await;
    assert_eq!(running.stats.notify_acknowledged.get(), 0);
    let at = Query::parse(&again).unwrap().tsig_at.unwrap();
    if let tsig::Verdict::Valid(fresh) = tsig::verify(&keys, &again, at, NOW) {
        session = fresh;
    }
    reply[..2].copy_from_slice(&again[..2]);
    session.sign(&mut reply, 0, NOW);
    signed.send_to(&reply, from).await.unwrap();
    let acknowledged = async {
        while running.stats.notify_acknowledged.get() == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(acknowledged).await;
}

#[tokio::test]
async fn d5_the_last_notify_has_the_final_serial() {
    let socket = secondary().await;
    let (zone, _running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    receive(&socket).await;
    for serial in 2..=50 {
        publish(
            &zone,
            serial,
            &contents("z.", 60, &[&format!("a A 10.0.0.{serial}")]),
        );
    }
    let mut datagrams = 0;
    loop {
        let (raw, _) = receive(&socket).await;
        datagrams += 1;
        if told(&raw) == "50" {
            break;
        }
    }
    assert!(datagrams < 10, "{datagrams} datagrams for one burst");
}

/// The response to a message, with this code.
fn response(to: &[u8], rcode: u8) -> Vec<u8> {
    let mut reply = to[..12].to_vec();
    reply[2] |= 0x80;
    reply[3] = rcode;
    reply[4..12].fill(0);
    reply
}

/// Waits until this number of NOTIFYs is answered.
async fn until_acknowledged(running: &Running, count: u64) {
    let acknowledged = async {
        while running.stats.notify_acknowledged.get() < count {
            tokio::task::yield_now().await;
        }
    };
    soon(acknowledged).await;
}

#[tokio::test]
async fn d3_a_response_from_elsewhere_ends_nothing() {
    let (socket, stranger) = (secondary().await, secondary().await);
    let (_zone, running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    let (first, from) = receive(&socket).await;
    stranger.send_to(&response(&first, 0), from).await.unwrap();
    receive(&socket).await;
    assert_eq!(running.stats.notify_acknowledged.get(), 0);
}

#[tokio::test]
async fn d4_an_answer_with_any_code_is_noted() {
    for rcode in [5, 4, 3, 9] {
        let socket = secondary().await;
        let (_zone, running) = telling(&[(socket.local_addr().unwrap(), &[])]);
        let (raw, from) = receive(&socket).await;
        socket.send_to(&response(&raw, rcode), from).await.unwrap();
        let noted = async {
            while running.stats.notify_refused.get() == 0 {
                tokio::task::yield_now().await;
            }
        };
        soon(noted).await;
        assert_eq!(running.stats.notify_acknowledged.get(), 0);
        let status = &running.table.snapshot()[0];
        let code = status.acknowledged.map(|(_, rcode, _)| rcode.0);
        assert_eq!(code, Some(u16::from(rcode)));
        assert_eq!(status.given_up, 0);
    }
}

/// A secondary that is just starting refuses a NOTIFY and accepts it a moment later. It is notified again, over UDP as
/// it answers.
#[tokio::test]
async fn d4_who_refuses_is_told_the_same_serial_again_until_it_takes_it() {
    let (socket, listener) = both_ways().await;
    let (_zone, running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    for _ in 0..4 {
        let (raw, from) = receive(&socket).await;
        assert_eq!(told(&raw), "1");
        socket.send_to(&response(&raw, 5), from).await.unwrap();
    }
    let (raw, from) = receive(&socket).await;
    socket.send_to(&response(&raw, 0), from).await.unwrap();
    until_acknowledged(&running, 1).await;
    assert_eq!(running.stats.notify_refused.get(), 4);
    assert!(listener.accept().now_or_never().is_none(), "a connection");
}

#[tokio::test]
async fn d6_what_is_repeated_after_an_update_tells_the_new_serial() {
    let socket = secondary().await;
    let (zone, _running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    let (first, _) = receive(&socket).await;
    assert_eq!(told(&first), "1");
    publish(&zone, 2, &contents("z.", 60, &["a A 10.0.0.2"]));
    let mut serials = Vec::new();
    while serials.len() < 4 {
        let (raw, _) = receive(&socket).await;
        serials.push(told(&raw));
    }
    let new = serials.iter().position(|serial| serial == "2").unwrap();
    assert!(
        serials[new..].iter().all(|serial| serial == "2"),
        "{serials:?}"
    );
}

#[tokio::test]
async fn d8_whoever_is_told_finds_the_serial_on_every_socket() {
    let socket = secondary().await;
    let (zone, running) = telling(&[(socket.local_addr().unwrap(), &[])]);
    receive(&socket).await;
    for serial in 2..=20 {
        let address = format!("a A 10.0.0.{serial}");
        publish(&zone, serial, &contents("z.", 60, &[&address]));
        let raw = loop {
            let (raw, from) = receive(&socket).await;
            socket.send_to(&response(&raw, 0), from).await.unwrap();
            if told(&raw) == serial.to_string() {
                break raw;
            }
        };
        // The NOTIFY's question as a query, from several ports, so that it reaches several sockets.
        let mut query = raw[..12].to_vec();
        query[2..12].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        query.extend_from_slice(&[1, b'z', 0, 0, 6, 0, 1]);
        for _ in 0..4 {
            let client = secondary().await;
            client.send_to(&query, running.address).await.unwrap();
            let (reply, _) = receive(&client).await;
            assert_eq!(told(&reply), serial.to_string());
        }
    }
}

#[tokio::test]
async fn d9_a_target_whose_key_is_missing_is_not_told() {
    let (keyless, other) = (secondary().await, secondary().await);
    let (zone, running) = telling(&[
        (keyless.local_addr().unwrap(), &["missing."]),
        (other.local_addr().unwrap(), &[]),
    ]);
    // Of several versions, with the other's repetitions between them: a late datagram would be there by the end.
    for serial in 1..4 {
        publish(
            &zone,
            serial,
            &contents("z.", 60, &[&format!("a A 10.0.0.{serial}")]),
        );
        for _ in 0..2 {
            receive(&other).await;
        }
        loop {
            let (raw, from) = receive(&other).await;
            other.send_to(&response(&raw, 0), from).await.unwrap();
            if told(&raw) == serial.to_string() {
                break;
            }
        }
    }
    until_acknowledged(&running, 1).await;
    let mut raw = [0; 512];
    let silent = keyless.try_recv_from(&mut raw).unwrap_err();
    assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn a_target_that_knows_one_of_its_keys_is_told_with_that() {
    let socket = secondary().await;
    let target = socket.local_addr().unwrap();
    let (_zone, running) = telling(&[(target, &["missing.", "other.", "k."])]);
    let (raw, from) = receive(&socket).await;
    // "missing." is in no file of ours. The secondary does not know "other." (BADKEY: NOTAUTH, unsigned).
    socket.send_to(&response(&raw, 9), from).await.unwrap();
    let (raw, from) = receive(&socket).await;
    let reply = signed_response(&raw, 0).expect("the second is signed by the key that is known");
    socket.send_to(&reply, from).await.unwrap();
    until_acknowledged(&running, 1).await;
}

/// A signed response to a NOTIFY with this code, if key "k." signed the NOTIFY.
fn signed_response(raw: &[u8], rcode: u8) -> Option<Vec<u8>> {
    let at = Query::parse(raw).unwrap().tsig_at?;
    let keys = tsig::Keys::new([key("k.")]);
    let tsig::Verdict::Valid(mut session) = tsig::verify(&keys, raw, at, NOW) else {
        return None;
    };
    let mut reply = response(raw, rcode);
    session.sign(&mut reply, 0, NOW);
    Some(reply)
}

#[tokio::test]
async fn what_a_target_refuses_under_the_key_it_knows_is_what_is_noted() {
    let socket = secondary().await;
    let target = socket.local_addr().unwrap();
    let (_zone, running) = telling(&[(target, &["other.", "k."])]);
    // The secondary does not know "other.": NOTAUTH, unsigned. Slow tries begin with "k." and end with "other.".
    for (place, is_known) in [false, true, true, false].into_iter().enumerate() {
        let (raw, from) = receive(&socket).await;
        let signed = signed_response(&raw, 5);
        assert_eq!(signed.is_some(), is_known, "{place}");
        let reply = signed.unwrap_or_else(|| response(&raw, 9));
        socket.send_to(&reply, from).await.unwrap();
        let count = place as u64 + 1;
        let heard = async {
            while running.stats.notify_refused.get() < count {
                tokio::task::yield_now().await;
            }
        };
        soon(heard).await;
    }
    let noted = running.table.snapshot()[0].refused();
    assert_eq!(noted.map(|(_, rcode)| rcode), Some(Rcode::REFUSED));
}

#[tokio::test]
async fn a_target_of_ipv6_is_told_from_the_source_that_is_configured() {
    let socket = UdpSocket::bind("[::1]:0").await.unwrap();
    let zone = zone("z.", 1, &["a A 10.0.0.1"]);
    let mut setup = Setup::new(vec![Arc::clone(&zone)]);
    setup.secondaries.push(Secondary {
        zone: name("z."),
        target: socket.local_addr().unwrap(),
        keys: vec![],
        source: Some("::1".parse().unwrap()),
    });
    let running = setup.start();
    let (raw, from) = receive(&socket).await;
    assert_eq!(
        (told(&raw).as_str(), from.ip().to_string().as_str()),
        ("1", "::1")
    );
    socket.send_to(&response(&raw, 0), from).await.unwrap();
    until_acknowledged(&running, 1).await;
}

#[tokio::test]
async fn where_datagrams_are_not_answered_tcp_is_tried() {
    // It receives datagrams and never answers.
    let (deaf, listener) = both_ways().await;
    let (_zone, running) = telling(&[(deaf.local_addr().unwrap(), &["k."])]);
    for _ in 0..=NOTIFY_UDP_TRIES {
        receive(&deaf).await;
    }
    let (mut stream, _) = soon(listener.accept()).await.unwrap();
    let length = soon(stream.read_u16()).await.unwrap();
    let mut raw = vec![0; usize::from(length)];
    soon(stream.read_exact(&mut raw)).await.unwrap();
    assert_eq!(told(&raw), "1");
    let at = Query::parse(&raw).unwrap().tsig_at.unwrap();
    let keys = tsig::Keys::new([key("k.")]);
    let tsig::Verdict::Valid(mut session) = tsig::verify(&keys, &raw, at, NOW) else {
        panic!("the NOTIFY verifies")
    };
    let mut reply = response(&raw, 0);
    session.sign(&mut reply, 0, NOW);
    let mut framed = u16::try_from(reply.len()).unwrap().to_be_bytes().to_vec();
    framed.extend_from_slice(&reply);
    stream.write_all(&framed).await.unwrap();
    until_acknowledged(&running, 1).await;
}
