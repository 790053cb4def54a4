//! Datagrams on loopback: where replies come from.

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

/// Answers one name, but not at once.
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
    // Addresses of this machine, none of them what the routes would choose (but `::1`, which is alone).
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

/// Wants no reply to anything, at once or a little later.
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
    // Two together, and one alone.
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
