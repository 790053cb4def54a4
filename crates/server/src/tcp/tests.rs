//! Tests of connections over loopback: order, limits, timeouts. The clock is the machine's; limits are short.

use dns::Rtype;
use dns::testing::{answers, ixfr, key, query};
use dns::tsig;
use ops::testing::{NOW, soon};
use tokio::net::TcpSocket;
use zone::testing::{contents, publish, zone};

use super::*;
use crate::TcpSettings;
use crate::testing::{Client, Running, Setup};

/// A zone that is too large for the buffers of a connection that nobody reads.
fn large() -> Vec<String> {
    (0..300).map(|n| format!("big{n} TYPE10 60000")).collect()
}

fn running(settings: TcpSettings) -> Running {
    let lines = large();
    let mut lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    lines.push("www A 10.0.0.1");
    let mut setup = Setup::new(vec![zone("z.", 1, &lines)]);
    setup.settings.tcp = settings;
    setup.start()
}

/// The messages of a transfer of the large zone. Each large record has its own, the first with the SOA. The rest is in
/// the last.
const MESSAGES: usize = 301;

async fn transfer(client: &mut Client) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < MESSAGES {
        messages.push(client.receive().await.expect("the transfer goes on"));
    }
    messages
}

fn ends(messages: &[Vec<u8>]) -> [String; 2] {
    let first = answers(&messages[..1]).swap_remove(0);
    let last = answers(&messages[messages.len() - 1..]).pop();
    [first, last.expect("the last message has records")]
}

async fn until(condition: impl Fn() -> bool) {
    soon(async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn answers_overtake_transfers_and_transfers_share_a_connection() {
    let running = running(TcpSettings::default());
    let mut client = running.connect().await;
    client.send(&query(1, "z.", Rtype::AXFR)).await;
    client.send(&query(2, "z.", Rtype::AXFR)).await;
    client.send(&query(3, "www.z.", Rtype::A)).await;
    let mut by_id = std::collections::BTreeMap::<u8, Vec<Vec<u8>>>::new();
    let mut order = Vec::new();
    loop {
        let message = client.receive().await.unwrap();
        order.push(message[1]);
        by_id.entry(message[1]).or_default().push(message);
        if order.len() == 2 * MESSAGES + 1 {
            break;
        }
    }
    assert_eq!(answers(&by_id[&3]), ["www.z. 60 IN A 10.0.0.1"]);
    for id in [1, 2] {
        let [first, last] = ends(&by_id[&id]);
        assert_eq!(first, last);
    }
    let place = order.iter().position(|id| *id == 3).unwrap();
    assert!(place < 100, "the answer came as message {place}");
    assert_ne!(order[..300], [1; 300], "the transfers took turns");
}

/// Sends 50 requests of all kinds at once: each gets a whole reply, under its own ID.
#[tokio::test]
async fn f01_fifty_requests_on_one_connection_are_all_answered_by_id() {
    let zone = zone("z.", 1, &["www A 10.0.0.1", "pad TYPE10 2000"]);
    let lines = ["www A 10.0.0.2", "pad TYPE10 2000"];
    publish(&zone, 2, &contents("z.", 60, &lines));
    let running = Setup::new(vec![zone]).start();
    let mut client = running.connect().await;
    for id in 0..50 {
        let raw = match id % 3 {
            0 => query(id, "z.", Rtype::SOA),
            1 => query(id, "z.", Rtype::AXFR),
            _ => ixfr(id, "z.", 1),
        };
        client.send(&raw).await;
    }
    let mut records = [0; 50];
    for _ in 0..50 {
        let message = client.receive().await.unwrap();
        let id = usize::from(message[1]);
        records[id] += answers(&[message]).len();
    }
    for (id, count) in records.into_iter().enumerate() {
        // The SOA alone; SOA, two records, SOA; four SOAs around a removed and an added record.
        assert_eq!(count, [1, 4, 6][id % 3], "request {id}");
    }
}

/// Each transfer on a connection is a chain of its own, with its own key.
#[tokio::test]
async fn e10_two_signed_transfers_at_once_are_two_chains() {
    use hickory_proto::rr::TSigner;
    use hickory_proto::rr::rdata::tsig::TsigAlgorithm;
    let running = running(TcpSettings::default());
    let mut client = running.connect().await;
    let mut previous = Vec::new();
    for (id, who) in [(1, "k."), (2, "other.")] {
        let mut raw = query(id, "z.", Rtype::AXFR);
        previous.push(tsig::sign_request(&key(who), &mut raw, NOW));
        client.send(&raw).await;
    }
    let signers = ["k.", "other."].map(|who| {
        let secret = b"a secret of thirty-two octets...".to_vec();
        let name = hickory_proto::rr::Name::from_ascii(who).unwrap();
        TSigner::new(secret, TsigAlgorithm::HmacSha256, name, 300).unwrap()
    });
    let (mut seen, mut turns, mut last) = ([0_usize; 2], 0, 0);
    while seen[0] < MESSAGES || seen[1] < MESSAGES {
        let message = client.receive().await.unwrap();
        let which = usize::from(message[1]) - 1;
        previous[which] = signers[which]
            .verify_message_byte(&message, Some(&previous[which]), seen[which] == 0)
            .unwrap_or_else(|error| panic!("message {} of {which}: {error}", seen[which]))
            .0;
        seen[which] += 1;
        turns += usize::from(which != last);
        last = which;
    }
    assert!(turns > 10, "they were interleaved: {turns}");
}

#[tokio::test]
async fn f02_requests_in_single_octets_are_read_and_nonsense_closes() {
    let running = running(TcpSettings::default());
    let mut client = running.connect().await;
    let raw = query(1, "www.z.", Rtype::A);
    let mut octets = vec![0, u8::try_from(raw.len()).unwrap()];
    octets.extend_from_slice(&raw);
    for octet in octets {
        client.0.write_all(&[octet]).await.unwrap();
        client.0.flush().await.unwrap();
    }
    assert!(client.receive().await.is_some());
    for nonsense in [&[0, 0][..], &[0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
        let mut client = running.connect().await;
        client.0.write_all(nonsense).await.unwrap();
        assert!(client.receive().await.is_none(), "{nonsense:?}");
    }
}

#[tokio::test]
async fn a_half_closed_connection_gets_its_answers() {
    let running = running(TcpSettings::default());
    let mut client = running.connect().await;
    client.send(&query(1, "z.", Rtype::AXFR)).await;
    client.0.shutdown().await.unwrap();
    let [first, last] = ends(&transfer(&mut client).await);
    assert_eq!(first, last);
    assert!(client.receive().await.is_none());
}

/// security 9: "1000 idle TCP connections … lock every secondary out for good".
#[tokio::test]
async fn idle_connections_make_room_for_new_ones() {
    let running = running(TcpSettings {
        max_connections: 2,
        ..TcpSettings::default()
    });
    let ask = async |client: &mut Client| {
        client.send(&query(1, "www.z.", Rtype::A)).await;
        client.receive().await.is_some()
    };
    let mut idle = Vec::new();
    for _ in 0..2 {
        let mut client = running.connect().await;
        assert!(ask(&mut client).await);
        idle.push(client);
    }
    until(|| running.stats.tcp_open.get() == 2).await;
    let mut third = running.connect().await;
    assert!(ask(&mut third).await);
    // The first was idle longer.
    assert!(idle[0].receive().await.is_none());
    assert!(ask(&mut idle[1]).await);
    assert_eq!(running.stats.tcp_refused.get(), 1);
}

/// security 9: "no places reserved for secondaries".
#[tokio::test]
async fn security_09_a_place_is_kept_for_peers_that_transfer_names() {
    let mut setup = Setup::small();
    setup.access = vec!["127.0.0.1"];
    setup.settings.tcp = TcpSettings {
        max_connections: 8,
        max_per_client: 8,
        ..TcpSettings::default()
    };
    let running = setup.start();
    let mut open = Vec::new();
    let mut connect = async |from: [u8; 4]| {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let mut client = Client(socket.connect(running.address).await.unwrap());
        client.send(&query(1, "www.z.", Rtype::A)).await;
        assert!(client.receive().await.is_some());
        open.push(client);
    };
    // The eighth stranger has the place of the one that was idle for longest.
    for _ in 0..8 {
        connect([127, 0, 0, 2]).await;
    }
    assert_eq!(running.stats.tcp_refused.get(), 1);
    until(|| running.stats.tcp_open.get() == 7).await;
    connect([127, 0, 0, 1]).await;
    assert_eq!(running.stats.tcp_refused.get(), 1);
    assert_eq!(running.stats.tcp_open.get(), 8);
}

/// security 9: "no age limit".
#[tokio::test]
async fn an_old_connection_ends_between_requests() {
    let running = running(TcpSettings {
        max_age: Duration::from_millis(50),
        ..TcpSettings::default()
    });
    let mut client = running.connect().await;
    while client.0.write_all(&framed_www()).await.is_ok() && client.receive().await.is_some() {}
    assert_eq!(running.stats.tcp_timed_out.get(), 0);
}

/// A request with its length in front.
fn framed_www() -> Vec<u8> {
    let message = query(1, "www.z.", Rtype::A);
    let length = u16::try_from(message.len()).unwrap_or_default();
    [length.to_be_bytes().as_slice(), &message].concat()
}

#[tokio::test]
async fn connections_are_limited_in_all_and_for_each_client() {
    for settings in [
        TcpSettings {
            max_connections: 2,
            ..TcpSettings::default()
        },
        TcpSettings {
            max_per_client: 2,
            ..TcpSettings::default()
        },
    ] {
        let running = running(settings);
        let mut kept = Vec::new();
        for _ in 0..2 {
            let mut client = running.connect().await;
            // In use: nobody reads the rest.
            client.send(&query(1, "z.", Rtype::AXFR)).await;
            assert!(client.receive().await.is_some());
            kept.push(client);
        }
        let mut third = running.connect().await;
        assert!(third.receive().await.is_none());
        kept.pop();
        until(|| running.stats.tcp_open.get() == 1).await;
        // The place is free when the task has ended, a moment after the connection is no longer counted.
        soon(async {
            loop {
                let mut client = running.connect().await;
                if client.0.write_all(&[0, 0]).await.is_err() {
                    continue;
                }
                if running.stats.tcp_accepted.get() > 2 {
                    break;
                }
                client.receive().await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn f03_silent_connections_are_closed_before_and_after_the_first_request() {
    // Each limit by itself, beside one that is never reached: it is the one that ends the connection.
    let (short, never) = (Duration::from_millis(60), Duration::from_secs(3600));
    let before = running(TcpSettings {
        first_request_timeout: short,
        idle_timeout: never,
        ..TcpSettings::default()
    });
    let mut silent = before.connect().await;
    assert!(silent.receive().await.is_none());
    assert_eq!(before.stats.tcp_timed_out.get(), 1);
    let after = running(TcpSettings {
        first_request_timeout: never,
        idle_timeout: short,
        ..TcpSettings::default()
    });
    let mut once = after.connect().await;
    once.send(&query(1, "www.z.", Rtype::A)).await;
    assert!(once.receive().await.is_some());
    assert!(once.receive().await.is_none());
    assert_eq!(after.stats.tcp_timed_out.get(), 1);
}

#[tokio::test]
async fn f03_a_client_that_takes_nothing_is_closed_and_others_are_not_slowed() {
    let running = running(TcpSettings {
        stall_timeout: Duration::from_millis(200),
        ..TcpSettings::default()
    });
    let mut stalled = running.connect().await;
    stalled.send(&query(1, "z.", Rtype::AXFR)).await;
    until(|| running.stats.tcp_open.get() == 1).await;
    let mut other = running.connect().await;
    other.send(&query(2, "z.", Rtype::AXFR)).await;
    transfer(&mut other).await;
    until(|| running.stats.tcp_timed_out.get() == 1).await;
    let broken = transfer::TransferOutcome::Broken;
    let kind = transfer::TransferKind::Axfr;
    until(|| running.stats.transfers(kind, broken).get() == 1).await;
    drop(stalled);
}

/// Its client reads all the time, so it never stalls.
#[tokio::test]
async fn f03_a_transfer_that_takes_too_long_ends_with_its_connection() {
    let lines = large();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let mut setup = Setup::new(vec![zone("z.", 1, &lines)]);
    setup.settings.transfer.max_time = Duration::from_millis(100);
    let running = setup.start();
    let mut slow = running.connect().await;
    slow.send(&query(1, "z.", Rtype::AXFR)).await;
    let broken = transfer::TransferOutcome::Broken;
    let kind = transfer::TransferKind::Axfr;
    until(|| running.stats.transfers(kind, broken).get() == 1).await;
    let mut messages = 0;
    while slow.receive().await.is_some() {
        messages += 1;
    }
    assert!(messages < MESSAGES, "{messages} messages, then the end");
    assert_eq!(running.stats.tcp_timed_out.get(), 0);
}

#[tokio::test]
async fn a14_a15_a_reader_that_pauses_gets_its_own_version_whole() {
    let lines = large();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let zone = zone("z.", 1, &lines);
    let running = Setup::new(vec![Arc::clone(&zone)]).start();
    let mut client = running.connect().await;
    client.send(&query(1, "z.", Rtype::AXFR)).await;
    let mut messages = vec![client.receive().await.unwrap()];
    for serial in 2..20 {
        publish(&zone, serial, &contents("z.", 60, &["only A 10.0.0.1"]));
    }
    while messages.len() < MESSAGES {
        messages.push(client.receive().await.unwrap());
    }
    let [first, last] = ends(&messages);
    assert!(first.contains(" 1 300 "), "{first}");
    assert_eq!(first, last);
    assert_eq!(answers(&messages[MESSAGES - 1..]).len(), 1);
}

/// Answers only questions for `www.z.`, which the next handler gets.
struct Silent;

impl crate::Handler for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn passes(&self, question: &crate::Question<'_>) -> bool {
        question.name == b"\x03www\x01z\x00"
    }

    fn answer<'a>(
        &'a self,
        _request: &'a mut crate::Request,
        _next: crate::Next,
    ) -> futures_util::future::BoxFuture<'a, crate::Outcome> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn queries_that_wait_for_others_take_no_place_of_transfers_and_hold_up_no_end() {
    let mut setup = Setup::new(vec![zone("z.", 1, &["www A 10.0.0.1"])]);
    setup.handlers = [vec![Arc::new(Silent)], vec![]];
    setup.settings.tcp.max_transfers = 1;
    setup.settings.tcp.max_waiting = 4;
    setup.settings.tcp.drain_timeout = Duration::from_millis(100);
    let mut running = setup.start();
    let mut client = running.connect().await;
    // Data arrives at once, so a request without an answer was not read.
    client.0.set_nodelay(true).unwrap();
    for id in 0..3 {
        client.send(&query(id, "x.z.", Rtype::A)).await;
    }
    client.send(&query(9, "www.z.", Rtype::A)).await;
    let reply = client.receive().await.expect("it is answered");
    assert_eq!(reply[..2], [0, 9]);
    client.send(&query(10, "z.", Rtype::AXFR)).await;
    let reply = client.receive().await.expect("it is transferred");
    assert_eq!(reply[..2], [0, 10]);
    // With the most waiting queries nothing more is read, and the end is noticed all the same.
    client.send(&query(4, "x.z.", Rtype::A)).await;
    client.send(&query(11, "www.z.", Rtype::A)).await;
    // More turns than the server could ever need for it.
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    let nothing = client.0.try_read(&mut [0; 1]).map_err(|error| error.kind());
    assert_eq!(nothing, Err(ErrorKind::WouldBlock));
    running.cancel.cancel();
    soon(async { while running.tasks.join_next().await.is_some() {} }).await;
}

#[tokio::test]
async fn a_request_gets_memory_as_it_comes_and_not_by_the_length_that_it_announces() {
    let mut request = Vec::new();
    let mut half: &[u8] = b"\xff\xff\x00\x01\x01\x00";
    let read = read_request(&mut half, &mut request).await;
    assert_eq!(read.unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(request.capacity() < 1024, "{}", request.capacity());
    let long = [&[0xff, 0xff][..], &vec![7; 65_535], &[0, 12], &[8; 12]].concat();
    let mut both = long.as_slice();
    assert!(read_request(&mut both, &mut request).await.unwrap());
    assert_eq!(request, [7; 65_535]);
    assert!(read_request(&mut both, &mut request).await.unwrap());
    assert_eq!(request, [8; 12]);
    assert!(!read_request(&mut both, &mut request).await.unwrap());
}
