//! Tests over real sockets on loopback, with dig and kdig if they are installed.

use std::process::{Command, Stdio};

use dns::Rtype;
use dns::testing::{answers, ixfr, name, query};
use hickory_proto::op::Message;
use zone::testing::{contents, lines_of, publish, zone};

use super::*;
use crate::Listener;
use crate::testing::{Running, Setup};

mod notify;

/// A zone of some size.
fn lines() -> Vec<String> {
    let hosts = (0..2000).map(|n| format!("host{n} A 10.0.{}.{}", n / 250, n % 250));
    hosts
        .chain(["@ NS ns".to_owned(), "ns A 10.0.0.10".to_owned()])
        .collect()
}

fn running() -> (Arc<Zone>, Running) {
    let lines = lines();
    let zone = zone(
        "z.",
        1,
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    (Arc::clone(&zone), Setup::new(vec![zone]).start())
}

#[tokio::test]
async fn queries_are_answered_on_both_transports() {
    let (_zone, running) = running();
    let raw = query(7, "host5.z.", Rtype::A);
    let by_udp = running.udp(&raw).await;
    let by_tcp = running.transfer(&raw).await;
    assert_eq!(by_udp.answers.len(), 1);
    assert_eq!(
        Message::from_vec(&by_tcp[0]).unwrap().answers,
        by_udp.answers
    );
}

#[tokio::test]
async fn a_secondary_follows_by_axfr_and_ixfr() {
    let (zone, running) = running();
    let mut held = answers(&running.transfer(&query(1, "z.", Rtype::AXFR)).await);
    held.pop();
    assert_eq!(held, lines_of(&zone.current().unwrap()));
    let mut next = lines();
    next[3] = "host3 A 192.0.2.1".to_owned();
    let next: Vec<&str> = next.iter().map(String::as_str).collect();
    let version = publish(&zone, 2, &contents("z.", 60, &next));
    let steps = answers(&running.transfer(&ixfr(2, "z.", 1)).await);
    assert_eq!(steps.len(), 6);
    assert_eq!(answers(&running.transfer(&ixfr(2, "z.", 2)).await).len(), 1);
    let mut whole = answers(&running.transfer(&query(3, "z.", Rtype::AXFR)).await);
    whole.pop();
    assert_eq!(whole, lines_of(&version));
    use transfer::TransferKind::{Axfr, Ixfr};
    use transfer::TransferOutcome::Done;
    assert_eq!(running.stats.transfers(Axfr, Done).get(), 2);
    assert_eq!(running.stats.transfers(Ixfr, Done).get(), 1);
    assert_eq!(running.stats.transfers_up_to_date.get(), 1);
}

#[tokio::test]
async fn a_peer_that_is_ahead_of_us_is_reported_and_not_called_up_to_date() {
    // security 2 and 4: it counted as up to date, and nobody was told.
    let (_zone, running) = running();
    let mut signed = ixfr(2, "z.", 9);
    dns::tsig::sign_request(&dns::testing::key("k."), &mut signed, ops::testing::NOW);
    // Anybody can write the address of a datagram.
    for (request, serial, is_datagram, proof) in [
        (ixfr(2, "z.", 7), 7, true, zone::Proof::Nothing),
        (ixfr(2, "z.", 8), 8, false, zone::Proof::Exchange),
        (signed, 9, false, zone::Proof::Signature),
    ] {
        let reply = match is_datagram {
            true => vec![running.udp_raw(&request).await],
            false => running.transfer(&request).await,
        };
        assert_eq!(answers(&reply).len(), 1);
        let reports = ops::testing::soon(running.table.ahead.take()).await;
        let [report] = &reports[..] else {
            panic!("one report: {reports:?}");
        };
        let told = (&report.zone, report.serial.encode(), report.proof);
        assert_eq!(told, (&name("z."), serial, proof));
    }
    assert_eq!(running.stats.transfers_up_to_date.get(), 0);
    assert_eq!(running.stats.transfers_ahead.get(), 3);
}

#[tokio::test]
async fn a_finished_transfer_is_known_of_its_secondary() {
    let zone = zone("z.", 9, &["a A 10.0.0.1"]);
    let mut setup = Setup::new(vec![Arc::clone(&zone)]);
    setup.secondaries.push(Secondary {
        zone: name("z."),
        target: "127.0.0.1:9".parse().unwrap(),
        keys: vec![],
        source: None,
    });
    let mut running = setup.start();
    running.transfer(&query(1, "z.", Rtype::AXFR)).await;
    running.cancel.cancel();
    while running.tasks.join_next().await.is_some() {}
    let status = &running.table.snapshot()[0];
    assert_eq!(status.serial.map(dns::Serial::encode), Some(9));
    assert_eq!(
        status.transfer.map(|(kind, _)| kind),
        Some(transfer::TransferKind::Axfr)
    );
    let version = zone.current().unwrap();
    assert!(running.table.has(status.target, &version));
}

#[test]
fn a_secondary_is_asked_once_in_the_ways_that_its_keys_allow() {
    let of = |(port, keys): (u16, &[&str])| Secondary {
        zone: name("z."),
        target: ([192, 0, 2, 1], port).into(),
        keys: keys.iter().map(|key| name(key)).collect(),
        source: None,
    };
    let mut setup = Setup::new(vec![]);
    let all: [(u16, &[&str]); 3] = [
        (53, &["k.", "none.", "other."]),
        (54, &["none."]),
        (55, &[]),
    ];
    setup.secondaries = all.map(of).into();
    let server = setup.server();
    let asked: Vec<_> = server
        .asked()
        .map(|(secondary, ways)| {
            let keys = ways
                .into_iter()
                .map(|key| key.map(|key| key.name().to_string()));
            (secondary.target.port(), keys.collect::<Vec<_>>())
        })
        .collect();
    let with = |key: &str| Some(key.to_owned());
    // A secondary stays in the list when none of its keys is known, so that clients who wait for its answers get them.
    let want = [
        (53, vec![with("k."), with("other.")]),
        (54, vec![]),
        (55, vec![None]),
    ];
    assert_eq!(asked, want);
}

#[tokio::test]
async fn a_busy_address_is_named() {
    let (_zone, running) = running();
    let error = Listener::bind(running.address, 1, &[])
        .unwrap_err()
        .to_string();
    assert!(error.contains(&running.address.to_string()), "{error}");
}

#[tokio::test]
async fn told_to_stop_all_tasks_end() {
    let (_zone, mut running) = running();
    let _idle = running.connect().await;
    running.cancel.cancel();
    ops::testing::soon(async { while running.tasks.join_next().await.is_some() {} }).await;
}

/// Runs a program. Returns its output; `None` when `ZW_MISSING` declares it missing.
async fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let missing = std::env::var("ZW_MISSING").unwrap_or_default();
    if missing.split(',').any(|kind| kind == program) {
        println!("NOT RUN: ZW_MISSING declares {program} missing");
        return None;
    }
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let ended = tokio::task::spawn_blocking(move || command.output())
        .await
        .unwrap();
    let output = ended.unwrap_or_else(|error| {
        panic!("{program}: {error}: install it, or declare it in ZW_MISSING")
    });
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// dig and kdig verify each signature of a stream.
#[tokio::test(flavor = "multi_thread")]
async fn dig_and_kdig_verify_a_signed_transfer() {
    let lines = lines();
    let zone = zone(
        "z.",
        1,
        &lines.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut setup = Setup::new(vec![zone]);
    setup.access = vec!["127.0.0.1 k."];
    // dig signs with the time of day, so the server must too.
    let running = setup.start_at_real_time();
    let port = running.address.port().to_string();
    // "a secret of thirty-two octets..." in base64.
    let key = "hmac-sha256:k:YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBvY3RldHMuLi4=";
    for program in ["dig", "kdig"] {
        for kind in ["AXFR", "IXFR=0"] {
            let arguments = ["@127.0.0.1", "-p", &port, "z.", kind, "-y", key, "+tcp"];
            let Some(text) = output(program, &arguments).await else {
                continue;
            };
            let hosts = text.lines().filter(|line| line.starts_with("host")).count();
            assert_eq!(hosts, 2000, "{program} {kind}: {text}");
            for fault in ["failed", "couldn't verify", "WARNING", ";; ERROR"] {
                assert!(!text.contains(fault), "{program} {kind}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn sockets_and_connections_go_on_with_what_answers_now() {
    let one = Setup::new(vec![zone("z.", 1, &["a A 10.0.0.1"])]);
    let running = one.start();
    let mut client = running.connect().await;
    let question = query(1, "a.z.", Rtype::A);
    let said = |message: Vec<u8>| answers(&[message]);
    client.send(&question).await;
    assert_eq!(
        said(client.receive().await.unwrap()),
        ["a.z. 60 IN A 10.0.0.1"]
    );
    let two = Setup::new(vec![zone("z.", 1, &["a A 10.0.0.2"])]);
    running.answering.replace(&two.server(), None);
    client.send(&question).await;
    assert_eq!(
        said(client.receive().await.unwrap()),
        ["a.z. 60 IN A 10.0.0.2"]
    );
    assert_eq!(
        said(running.udp_raw(&question).await),
        ["a.z. 60 IN A 10.0.0.2"]
    );
}
