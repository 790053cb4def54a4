//! Tests of the answers of secondaries, over UDP and TCP, and of the serials taken from them.

use std::net::SocketAddr;

use dns::HEADER_OCTETS;
use dns::tsig::Algorithm;
use futures_util::FutureExt;
use ops::SystemClock;
use ops::testing::soon;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UdpSocket;

use super::*;

/// The wait for an answer that comes.
const LONG: Duration = Duration::from_secs(3600);
/// The wait for an answer that never comes.
const SHORT: Duration = Duration::from_millis(300);

/// The answers of a secondary to a question.
type Script = fn(&[u8]) -> Vec<Vec<u8>>;

fn zone() -> Name {
    "z.example.".parse().unwrap()
}

fn key_named(name: &str) -> Key {
    let name = name.parse().unwrap();
    Key::new(&name, Algorithm::Sha256, b"0123456789abcdef")
}

fn key() -> Arc<Key> {
    Arc::new(key_named("k."))
}

/// The answer with this serial, signed; `None` to a question that is not signed with the secondary's key.
fn signed_answer(question: &[u8], serial: u32) -> Option<Vec<u8>> {
    let (keys, now) = (
        tsig::Keys::new([key_named("k.")]),
        unix_seconds(&SystemClock),
    );
    let verdict = tsig::verify(&keys, question, tsig_place(question)?, now);
    let tsig::Verdict::Valid(mut session) = verdict else {
        return None;
    };
    let mut octets = answer(question, serial);
    session.sign(&mut octets, 0, now);
    Some(octets)
}

/// An answer with a SOA of this serial, not signed.
fn answer(question: &[u8], serial: u32) -> Vec<u8> {
    let end = HEADER_OCTETS + zone().as_wire().len() + 4;
    let mut raw = question[..end].to_vec();
    raw[2] = 0x84;
    raw[6..12].copy_from_slice(&[0, 1, 0, 0, 0, 0]);
    raw.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1, 0, 0, 0, 5, 0, 22, 0, 0]);
    raw.extend_from_slice(&serial.to_be_bytes());
    raw.extend_from_slice(&[0; 16]);
    raw
}

/// Asks a secondary with this script, with its key or without one.
async fn asked(script: Script, is_signed: bool) -> Vec<(Name, Serial)> {
    let settings = AskSettings {
        tries: 2,
        wait: Duration::from_millis(200),
    };
    asked_in_ways(script, vec![is_signed.then(key)], settings).await
}

/// Asks a secondary with this script, with each of these keys.
async fn asked_in_ways(
    script: Script,
    ways: Vec<Option<Arc<Key>>>,
    settings: AskSettings,
) -> Vec<(Name, Serial)> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = socket.local_addr().unwrap();
    let answering = async {
        let mut raw = vec![0; 512];
        loop {
            let (octets, from) = socket.recv_from(&mut raw).await.unwrap();
            for answer in script(&raw[..octets]) {
                socket.send_to(&answer, from).await.unwrap();
            }
        }
    };
    let secondary = Secondary {
        zone: zone(),
        target,
        keys: ways
            .iter()
            .flatten()
            .map(|key| key.name().clone())
            .collect(),
        source: None,
    };
    let asking = ask_serials(vec![(secondary, ways)], settings, Arc::new(SystemClock));
    tokio::select! {
        found = asking => serials(found),
        () = answering => unreachable!("it answers for ever"),
    }
}

#[tokio::test]
async fn a_secondary_says_its_serial() {
    let found = asked(|raw| vec![answer(raw, 4_000_000_000)], false).await;
    assert_eq!(found, [(zone(), Serial::decode(4_000_000_000))]);
}

#[tokio::test]
async fn what_is_no_answer_is_passed_over() {
    let script: Script = |raw| {
        let mut other_id = answer(raw, 1);
        other_id[0] ^= 1;
        let mut other_name = answer(raw, 2);
        other_name[HEADER_OCTETS + 1] = b'y';
        let mut query = answer(raw, 3);
        query[2] = 0;
        vec![other_id, other_name, query, vec![0; 5], answer(raw, 7)]
    };
    assert_eq!(asked(script, false).await, [(zone(), Serial::decode(7))]);
}

#[tokio::test]
async fn a_secondary_without_the_zone_or_without_a_voice_says_nothing() {
    let refused: Script = |raw| {
        let mut refused = answer(raw, 1);
        refused[3] |= 5;
        vec![refused]
    };
    let silent: Script = |_| Vec::new();
    let cut: Script = |raw| {
        let mut cut = answer(raw, 1);
        cut.truncate(cut.len() - 1);
        vec![cut]
    };
    for script in [refused, silent, cut] {
        assert_eq!(asked(script, false).await, []);
    }
}

#[tokio::test]
async fn with_a_key_only_what_it_signed_counts() {
    let lie: Script = |raw| vec![answer(raw, 9)];
    assert_eq!(asked(lie, true).await, []);
    let signed: Script = |raw| {
        let signed = signed_answer(raw, 11).expect("the question is signed");
        vec![answer(raw, 10), signed]
    };
    assert_eq!(asked(signed, true).await, [(zone(), Serial::decode(11))]);
}

#[tokio::test]
async fn of_two_keys_the_one_that_is_refused_does_not_keep_the_answer_back() {
    let script: Script = |raw| {
        let mut refused = answer(raw, 1);
        refused[3] |= 9;
        vec![signed_answer(raw, 11).unwrap_or(refused)]
    };
    let ways = || ["old.", "k."].map(|name| Some(Arc::new(key_named(name))));
    let settings = AskSettings {
        tries: 1,
        wait: Duration::from_secs(3600),
    };
    let asked = asked_in_ways(script, ways().into(), settings);
    let found = soon(asked).await;
    assert_eq!(found, [(zone(), Serial::decode(11))], "once");
}

async fn ask_at(target: SocketAddr) -> Vec<(Name, Serial)> {
    let secondary = Secondary {
        zone: zone(),
        target,
        keys: vec![],
        source: None,
    };
    let settings = AskSettings {
        tries: 5,
        wait: Duration::from_millis(200),
    };
    serials(
        ask_serials(
            vec![(secondary, vec![None])],
            settings,
            Arc::new(SystemClock),
        )
        .await,
    )
}

/// The zone and serial of each that said one.
fn serials(found: Vec<PeerSerial>) -> Vec<(Name, Serial)> {
    let pairs = found.into_iter();
    pairs
        .map(|reported| (reported.zone, reported.serial))
        .collect()
}

#[tokio::test]
async fn a_secondary_that_starts_while_it_is_asked_says_its_serial() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = socket.local_addr().unwrap();
    drop(socket);
    let mut asking = Box::pin(ask_at(target));
    // The first datagram reached no socket.
    assert!((&mut asking).now_or_never().is_none());
    let socket = UdpSocket::bind(target).await.unwrap();
    let starting = async {
        let mut raw = vec![0; 512];
        let (octets, from) = socket.recv_from(&mut raw).await.unwrap();
        let answer = answer(&raw[..octets], 8);
        socket.send_to(&answer, from).await.unwrap();
        std::future::pending::<()>().await;
    };
    let found = tokio::select! {
        found = asking => found,
        () = starting => unreachable!("it never ends"),
    };
    assert_eq!(found, [(zone(), Serial::decode(8))]);
}

/// Asks a secondary once, with this time limit. The secondary refuses unsigned over UDP, and answers this over TCP.
async fn asked_over_tcp(wait: Duration, script: fn(&[u8]) -> Vec<u8>) -> Vec<(Name, Serial)> {
    let (socket, listener) = ops::testing::both_ways().await;
    let refusing = async {
        let mut raw = vec![0; 512];
        loop {
            let (octets, from) = socket.recv_from(&mut raw).await.unwrap();
            let mut refused = answer(&raw[..octets], 1);
            refused[3] |= 5;
            socket.send_to(&refused, from).await.unwrap();
        }
    };
    let answering = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let length = stream.read_u16().await.unwrap();
        let mut raw = vec![0; usize::from(length)];
        stream.read_exact(&mut raw).await.unwrap();
        let answer = script(&raw);
        let length = u16::try_from(answer.len()).unwrap();
        stream.write_u16(length).await.unwrap();
        stream.write_all(&answer).await.unwrap();
        std::future::pending::<()>().await;
    };
    let secondary = Secondary {
        zone: zone(),
        target: listener.local_addr().unwrap(),
        keys: vec![key().name().clone()],
        source: None,
    };
    let settings = AskSettings { tries: 1, wait };
    let told = vec![(secondary, vec![Some(key())])];
    let asking = ask_serials(told, settings, Arc::new(SystemClock));
    tokio::select! {
        found = asking => serials(found),
        () = refusing => unreachable!("it answers for ever"),
        () = answering => unreachable!("it never ends"),
    }
}

#[tokio::test]
async fn one_that_refuses_by_udp_is_asked_over_tcp_with_the_same_key() {
    let truth = |raw: &[u8]| signed_answer(raw, 12).expect("it is signed");
    let found = soon(asked_over_tcp(LONG, truth)).await;
    assert_eq!(found, [(zone(), Serial::decode(12))]);
    let lie = asked_over_tcp(SHORT, |raw| answer(raw, 13)).await;
    assert_eq!(lie, []);
}

#[tokio::test]
async fn an_answer_to_an_earlier_try_counts() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let target = socket.local_addr().unwrap();
    let slow = async {
        let mut first = vec![0; 512];
        let (octets, from) = socket.recv_from(&mut first).await.unwrap();
        first.truncate(octets);
        let mut second = vec![0; 512];
        socket.recv_from(&mut second).await.unwrap();
        socket.send_to(&answer(&first, 9), from).await.unwrap();
        std::future::pending::<()>().await;
    };
    let found = tokio::select! {
        found = ask_at(target) => found,
        () = slow => unreachable!("it never ends"),
    };
    assert_eq!(found, [(zone(), Serial::decode(9))]);
}
