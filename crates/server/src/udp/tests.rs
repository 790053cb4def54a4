//! Tests of datagrams on loopback: the addresses that replies come from.

use dns::testing::query;
use dns::{Rcode, Rtype};
use futures_util::FutureExt;
use ops::testing::soon;
use tokio::net::UdpSocket;
use zone::testing::zone;

use super::*;
use crate::Listener;
use crate::testing::{Setup, run_also_on};
use crate::{Handler, Next, Outcome as Said, Question, Request};

/// Answers one name, after a while.
struct Slow;

impl Handler for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        question.name != b"\x04slow\x01z\x00"
    }

    fn answer<'a>(&'a self, _request: &'a mut Request, _next: Next) -> BoxFuture<'a, Said> {
        let said = Said::failed("slow", Rcode(9), "later");
        async {
            tokio::task::yield_now().await;
            said
        }
        .boxed()
    }
}

#[tokio::test]
async fn replies_of_a_listener_on_all_addresses_leave_from_the_one_that_was_asked() {
    let mut setup = Setup::new(vec![zone("z.", 5, &["www A 10.0.0.1"])]);
    setup.handlers = [vec![Arc::new(Slow)], vec![]];
    let all =
        ["0.0.0.0:0", "[::]:0"].map(|all| Listener::bind(all.parse().unwrap(), 2, &[]).unwrap());
    let [v4, v6] = [0, 1].map(|which: usize| all[which].address().port());
    let running = run_also_on(&setup.server(), all.into());
    // Addresses of this machine that the routes would not choose (except for `::1`, the only one).
    for (address, port) in [("127.0.0.5", v4), ("127.1.2.3", v4), ("::1", v6)] {
        for (qname, rcode) in [("www.z.", 0), ("slow.z.", 9)] {
            let ours = if port == v4 { "127.0.0.1:0" } else { "[::1]:0" };
            let client = UdpSocket::bind(ours).await.unwrap();
            let asked = SocketAddr::new(address.parse().unwrap(), port);
            client
                .send_to(&query(7, qname, Rtype::A), asked)
                .await
                .unwrap();
            let mut reply = [0; 512];
            let (_, from) = soon(client.recv_from(&mut reply)).await.unwrap();
            assert_eq!((from, reply[3] & 15), (asked, rcode), "{qname} at {asked}");
        }
    }
    drop(running);
}

/// Drops every query, at once or a little later.
struct Dropping;

impl Handler for Dropping {
    fn name(&self) -> &'static str {
        "acl"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Said> {
        let is_slow = request.qtype == Rtype::AAAA;
        async move {
            if is_slow {
                tokio::task::yield_now().await;
            }
            Said::Dropped
        }
        .boxed()
    }
}

#[tokio::test]
async fn what_a_handler_drops_is_counted_though_not_answered() {
    let mut setup = Setup::new(vec![]);
    setup.handlers = [vec![Arc::new(Dropping)], vec![]];
    let server = setup.server();
    let tallies = crate::tally::Tallies::new(std::iter::empty());
    let keys = [Some(".".to_owned())];
    let tally = crate::tally::Tally::new(&tallies, "dns://:53", &keys);
    let running = run_also_on(&server, vec![]);
    running.answering.replace(&server, tally);
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut connection = running.connect().await;
    for qtype in [Rtype::A, Rtype::AAAA] {
        let query = query(7, "a.", qtype);
        datagrams.send_to(&query, running.address).await.unwrap();
        connection.send(&query).await;
    }
    let of = tallies.all().into_iter().find(|it| it.1 == ".").unwrap().2;
    soon(async {
        while of.replies().map(|(_, _, count)| count).sum::<u64>() < 4 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let replies: Vec<_> = of.replies().collect();
    assert_eq!(replies, [("NOERROR".to_owned(), "", 4)]);
    let protos: Vec<_> = of.requests().map(|it| (it.0, it.2, it.3)).collect();
    let want = ["udp", "tcp"].map(|proto| [(proto, "A", 1), (proto, "AAAA", 1)]);
    assert_eq!(protos, want.concat());
}

#[tokio::test]
async fn what_comes_to_all_addresses_of_ipv6_says_to_which() {
    let listener = Listener::bind("[::]:0".parse().unwrap(), 1, &[]).unwrap();
    let port = listener.address().port();
    let [ours] = <[UdpSocket; 1]>::try_from(listener.into_udp()).unwrap();
    let client = UdpSocket::bind("[::1]:0").await.unwrap();
    client.send_to(b"x", ("::1", port)).await.unwrap();
    let mut inbox = Inbox::new(64, true);
    loop {
        soon(ours.readable()).await.unwrap();
        if inbox.receive(&ours).is_ok() {
            break;
        }
    }
    let (octets, way) = inbox.get(0);
    let here = crate::way::Ours::V6("::1".parse().unwrap(), 0);
    assert_eq!((octets, way.ours), (&b"x"[..], Some(here)));
    let mut outbox = Outbox::default();
    // Two datagrams together, and one alone.
    for _ in 0..2 {
        outbox.add(octets, way);
    }
    outbox.send(&ours, |_, error| panic!("{error}")).await;
    outbox.add(octets, way);
    outbox.send(&ours, |_, error| panic!("{error}")).await;
    for _ in 0..3 {
        let (_, from) = soon(client.recv_from(&mut [0; 9])).await.unwrap();
        assert_eq!(from, SocketAddr::new("::1".parse().unwrap(), port));
    }
}

/// Answers questions for one type a little later, all others never.
struct Silent;

impl Handler for Silent {
    fn name(&self) -> &'static str {
        "silent"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, request: &'a mut Request, _next: Next) -> BoxFuture<'a, Said> {
        let is_silent = request.qtype != Rtype::A;
        async move {
            if is_silent {
                std::future::pending::<()>().await;
            }
            tokio::task::yield_now().await;
            Said::failed("silent", Rcode(9), "later")
        }
        .boxed()
    }
}

#[tokio::test]
async fn security_14_a_client_whose_queries_wait_leaves_places_to_others() {
    let mut setup = Setup::new(vec![]);
    setup.handlers = [vec![Arc::new(Silent)], vec![]];
    let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), 1, &[]).unwrap();
    let address = listener.address();
    let running = run_also_on(&setup.server(), vec![listener]);
    let greedy = UdpSocket::bind("127.0.0.2:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.3:0").await.unwrap();
    let silent = query(7, "a.", Rtype::AAAA);
    // More than all places, until the first has none.
    soon(async {
        let overload = &running.stats.udp_overload;
        let mut sent = 0;
        while sent < MAX_WAITING || overload.get() == 0 {
            greedy.send_to(&silent, address).await.unwrap();
            sent += 1;
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut reply = [0; 512];
    let asked = query(8, "a.", Rtype::A);
    other.send_to(&asked, address).await.unwrap();
    soon(other.recv_from(&mut reply)).await.unwrap();
    assert_eq!((reply[1], reply[3] & 15), (8, 9));
}

/// Says much of errors.
struct Talkative;

impl Handler for Talkative {
    fn name(&self) -> &'static str {
        "talkative"
    }

    fn passes(&self, _question: &Question<'_>) -> bool {
        false
    }

    fn answer<'a>(&'a self, _request: &'a mut Request, _next: Next) -> BoxFuture<'a, Said> {
        let mut reply = crate::Reply::empty("talkative", Rcode::SERVFAIL, 0);
        reply.extended = vec![(22, "é".repeat(120)); 20];
        std::future::ready(Said::Reply(reply)).boxed()
    }
}

#[tokio::test]
async fn security_a_reply_with_extended_errors_is_never_larger_than_the_client_takes() {
    let mut setup = Setup::new(vec![]);
    setup.handlers = [vec![Arc::new(Talkative)], vec![]];
    let running = run_also_on(&setup.server(), vec![]);
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let long = format!("{}t.", "label-of-sixteen.".repeat(14));
    for (qname, size, want) in [("a.", 512_u16, 2), ("a.", 1232, 2), (&long, 512, 1)] {
        let mut query = query(7, qname, Rtype::A);
        query[11] = 1;
        // A cookie has a reply's octets, too.
        query.extend([0, 0, 41]);
        query.extend(size.to_be_bytes());
        query.extend([0, 0, 0, 0, 0, 12, 0, 10, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        client.send_to(&query, running.address).await.unwrap();
        let mut reply = vec![0; 4096];
        let (length, _) = soon(client.recv_from(&mut reply)).await.unwrap();
        assert!(length <= usize::from(size), "{length}");
        let errors = reply[..length]
            .windows(6)
            .filter(|it| it[..2] == [0, 15] && it[4..] == [0, 22]);
        assert_eq!(errors.count(), want, "{qname} {size}");
    }
}
