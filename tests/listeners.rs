//! A zone is transferred on the listeners of its block, and on no other.

use std::net::SocketAddr;

use crate::support::process::wait_for;
use crate::support::product::{START, Site};
use crate::support::{ports, wire};
use rustix::process::Signal;

/// The code of the reply to a request for a zone.
fn refusal(server: SocketAddr, zone: &str) -> u16 {
    let reply = wire::tcp(server, &wire::Query::new(zone, wire::AXFR)).unwrap();
    assert!(reply.answers.is_empty(), "{zone}");
    reply.rcode()
}

/// Writes a file for each of these zones, by their names.
fn write_zones(site: &Site, zones: &[&str]) {
    for zone in zones {
        let text = format!(
            "$ORIGIN {zone}.\n$TTL 60\n@ SOA ns hm 1 300 30 86400 5\n@ NS ns\nns A 192.0.2.1\n"
        );
        site.write(zone, &text);
    }
}

/// Refused.
const REFUSED: u16 = 5;
/// Not authoritative.
const NOTAUTH: u16 = 9;

/// One block with a zone on each of two ports: each is transferred on its own port alone.
#[test]
fn a_zone_of_another_port_of_its_block_is_not_transferred() {
    let site = Site::new();
    let (one, other) = (site.dns, ports::free_address());
    write_zones(&site, &["one.example", "other.example"]);
    site.write(
        "Corefile",
        &format!(
            "one.example:{} other.example:{} {{\n bind 127.0.0.1\n file one.example one.example\n \
             file other.example other.example\n transfer {{\n  allow 127.0.0.1\n }}\n}}\n",
            one.port(),
            other.port()
        ),
    );
    let mut server = site.start();
    for (address, zone) in [(one, "one.example"), (other, "other.example")] {
        let taken = server.wait_for("its zone", START, || wire::axfr(address, zone).ok());
        assert_eq!(taken.len(), 3, "{zone}");
    }
    for (address, zone) in [(one, "other.example"), (other, "one.example")] {
        assert_eq!(wire::serial(address, zone), None, "{zone}");
        assert_eq!(refusal(address, zone), NOTAUTH, "{zone}");
    }
}

/// A block for all names has a zone that is the key of another block on the same port. The other block gets the zone's
/// questions and transfers, and does not have the zone.
#[test]
fn a_zone_whose_questions_another_block_has_is_not_transferred() {
    let site = Site::new();
    let (port, manifests) = (site.dns.port(), site.path("manifests"));
    let elsewhere = ports::free_address();
    site.write(
        "Corefile",
        &format!(
            ".:{port} .:{} {{\n bind 127.0.0.1\n kubernetes cluster.local {{\n  manifests {}\n }}\n \
             transfer {{\n  allow 127.0.0.1\n }}\n}}\n\
             cluster.local:{port} {{\n bind 127.0.0.1\n forward . 127.0.0.1:9\n}}\n",
            elsewhere.port(),
            manifests.display()
        ),
    );
    let mut server = site.start();
    let zone = "cluster.local";
    server.wait_for("its zone", START, || wire::axfr(elsewhere, zone).ok());
    assert_eq!(refusal(site.dns, zone), NOTAUTH);
}

/// A block with `bind` and one without on one port: each has its own addresses, over UDP and TCP.
#[test]
fn a_block_with_bind_stands_beside_one_without_on_the_same_port() {
    let site = Site::new();
    let port = site.dns.port();
    write_zones(&site, &["one.example", "all.example"]);
    site.write(
        "Corefile",
        &format!(
            "one.example:{port} {{\n bind 127.0.0.1 ::1\n file one.example\n}}\nall.example:{port} {{\n file all.example\n}}\n"
        ),
    );
    let mut server = site.start();
    let own: [SocketAddr; 2] = [site.dns, ([0, 0, 0, 0, 0, 0, 0, 1], port).into()];
    let other: SocketAddr = ([127, 0, 0, 2], port).into();
    for address in own {
        server.wait_for("its zone", START, || wire::serial(address, "one.example"));
    }
    server.wait_for("the other", START, || wire::serial(other, "all.example"));
    for (address, zone, code) in [
        (own[0], "all.example", REFUSED),
        (own[1], "all.example", REFUSED),
        (other, "one.example", REFUSED),
        (own[0], "one.example", 0),
        (own[1], "one.example", 0),
        (other, "all.example", 0),
    ] {
        let query = wire::Query::new(zone, wire::SOA);
        for reply in [wire::udp(address, &query), wire::tcp(address, &query)] {
            assert_eq!(reply.unwrap().rcode(), code, "{address} {zone}");
        }
    }
}

/// Blocks of a port by a reload: with `bind` and without, in any order; and never beside another process.
#[test]
fn blocks_with_bind_and_without_come_and_go_by_reloads() {
    let site = Site::new();
    let port = site.dns.port();
    let zones = ["one.example", "all.example"];
    write_zones(&site, &zones);
    let one = format!("one.example:{port} {{\n bind 127.0.0.1\n file one.example\n}}\n");
    let all = format!("all.example:{port} {{\n file all.example\n}}\n");
    let both = format!("{one}{all}");
    site.write("Corefile", &all);
    let mut server = site.start();
    let here: [SocketAddr; 2] = [site.dns, ([127, 0, 0, 2], port).into()];
    // Which zone is answered at the address of `bind`, and which at another.
    let steps = [
        (&all, ["all.example"; 2]),
        (&both, zones),
        (&all, ["all.example"; 2]),
        (&one, ["one.example", ""]),
        (&both, zones),
        (&one, ["one.example", ""]),
    ];
    for (step, (text, want)) in steps.into_iter().enumerate() {
        if step > 0 {
            site.write("Corefile", text);
            server.signal(Signal::USR1);
        }
        let answers = |address, zone| {
            let query = wire::Query::new(zone, wire::SOA);
            let replies = [wire::udp(address, &query), wire::tcp(address, &query)];
            replies.map(|it| it.is_ok_and(|it| it.rcode() == 0))
        };
        server.wait_for(&format!("step {step}"), START, || {
            let mut each = here.into_iter().zip(want);
            let are_right = each.all(|(address, want)| {
                let has = |zone| answers(address, zone) == [zone == want; 2];
                zones.into_iter().all(has)
            });
            are_right.then_some(())
        });
        if text == &both {
            for text in [&one, &all, &both] {
                let other = Site::new();
                write_zones(&other, &zones);
                other.write("Corefile", text);
                let mut second = other.start();
                wait_for("its end", START, String::new, || second.ended());
                assert!(
                    second.log().contains("find its process"),
                    "{}",
                    second.log()
                );
            }
        }
    }
    assert!(!server.log().contains("the old configuration stays"));
}

/// `bind ::` has all IPv4 addresses but the one that another block binds; the start and `status` say so.
#[test]
fn bind_to_all_ipv6_addresses_has_ipv4_beside_a_block_with_one_ipv4_address() {
    let site = Site::new();
    let port = site.dns.port();
    let metrics = ports::free_address();
    write_zones(&site, &["one.example", "all.example"]);
    site.write(
        "Corefile",
        &format!(
            "all.example:{port} {{\n bind ::\n file all.example\n prometheus {metrics}\n}}\n\
             one.example:{port} {{\n bind 127.0.0.1\n file one.example\n}}\n"
        ),
    );
    let mut server = site.start();
    let one = site.dns;
    let all: [SocketAddr; 2] = [
        ([127, 0, 0, 2], port).into(),
        ([0, 0, 0, 0, 0, 0, 0, 1], port).into(),
    ];
    server.wait_for("its zone", START, || wire::serial(one, "one.example"));
    for address in all {
        server.wait_for("the other", START, || wire::serial(address, "all.example"));
    }
    for (address, zone, code) in [
        (one, "one.example", 0),
        (one, "all.example", REFUSED),
        (all[0], "all.example", 0),
        (all[0], "one.example", REFUSED),
        (all[1], "all.example", 0),
        (all[1], "one.example", REFUSED),
    ] {
        let query = wire::Query::new(zone, wire::SOA);
        for reply in [wire::udp(address, &query), wire::tcp(address, &query)] {
            assert_eq!(reply.unwrap().rcode(), code, "{address} {zone}");
        }
    }
    let dns = |host: &str| format!("listening on {host}:{port}, udp and tcp, dns");
    let want = [
        dns("0.0.0.0"),
        dns("127.0.0.1"),
        dns("[::]"),
        format!("listening on {metrics}, tcp, http for prometheus"),
    ];
    let text = site.ask(&["status"]);
    let found: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("listening"))
        .collect();
    assert_eq!(found, want);
    for want in ["0.0.0.0", "127.0.0.1", "[::]"] {
        let logged = format!("{want}:{port}");
        let mut lines = server.log().lines().map(str::to_owned).collect::<Vec<_>>();
        lines.retain(|line| line.contains("listening") && line.contains(&logged));
        assert!(
            lines.iter().all(|line| line.contains("udp,tcp")) && lines.len() == 1,
            "{want}: {lines:?}"
        );
    }
}
