//! Proves the harness itself: each secondary follows a primary that is not ours.
//!
//! Knot is the primary. It makes incremental transfers from the differences between two zone files,
//! so every secondary gets one full and one incremental transfer, unsigned and signed.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::process::{Process, wait_for};
use crate::support::secondary::{Key, Kind, PATIENCE, Plan, Secondary, Transfers};
use crate::support::wire::{self, Increment, Query, Record};
use crate::support::{needs, ports};
use rustix::process::Signal;
use tempfile::TempDir;

const ZONE: &str = "cluster.example";

/// A second zone that stays as it is, one that resolvers like to answer by themselves.
const REVERSE: &str = "96.10.in-addr.arpa";

fn reverse() -> Vec<Record> {
    [
        "96.10.in-addr.arpa. 5 IN SOA ns.dns.cluster.example. hostmaster.cluster.example. 7 300 30 86400 5",
        "96.10.in-addr.arpa. 5 IN NS ns.dns.cluster.example.",
        "1.0.96.10.in-addr.arpa. 5 IN PTR web.default.svc.cluster.example.",
    ]
    .map(Record::parse)
    .to_vec()
}

/// The lines of [`ZONE`] with this serial and these more.
fn zone_text(serial: u32, more: &str) -> String {
    format!(
        "$ORIGIN {ZONE}.
@ 5 SOA ns.dns hostmaster {serial} 300 30 86400 5
@ 5 NS ns.dns
ns.dns 5 A 127.0.0.1
web.default.svc 5 A 10.96.0.1
web.default.svc 5 AAAA fd00:10:96::1
_http._tcp.web.default.svc 5 SRV 0 100 80 web.default.svc
dns-version 5 TXT \"1.1.0\"
{more}"
    )
}

struct Primary {
    process: Process,
    folder: TempDir,
    port: u16,
}

impl Primary {
    /// Serves the first version, and notifies these ports of every change.
    fn start(key: Option<&Key>, secondaries: &[u16]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let port = ports::free();
        fs::write(
            folder.path().join("zone"),
            zone_text(1, "old 5 A 10.96.0.9\n"),
        )
        .unwrap();
        let lines = wire::texts(&reverse()).join("\n") + "\n";
        fs::write(folder.path().join("reverse"), lines).unwrap();
        let configuration = Self::configuration(folder.path(), port, key, secondaries);
        let file = folder.path().join("knot.conf");
        fs::write(&file, configuration).unwrap();
        let mut command = Command::new(needs::program("knotd"));
        let mut process = Process::spawn(
            "primary",
            command.arg("-c").arg(&file),
            &folder.path().join("log"),
        );
        process.wait_for("the zone at the primary", PATIENCE, || {
            wire::serial(ports::loopback(port), ZONE)
        });
        Self {
            process,
            folder,
            port,
        }
    }

    fn configuration(folder: &Path, port: u16, key: Option<&Key>, secondaries: &[u16]) -> String {
        let folder = folder.display();
        let signed = key
            .map(|key| format!("\n    key: {}", key.name))
            .unwrap_or_default();
        let keys = key.map_or_else(String::new, |key| {
            let Key {
                name,
                algorithm,
                secret,
            } = key;
            format!("key:\n  - id: {name}\n    algorithm: {algorithm}\n    secret: {secret}\n")
        });
        let remotes: String = secondaries
            .iter()
            .map(|port| format!("  - id: at{port}\n    address: 127.0.0.1@{port}{signed}\n"))
            .collect();
        let names: Vec<String> = secondaries.iter().map(|port| format!("at{port}")).collect();
        let notify = match names.as_slice() {
            [] => String::new(),
            names => format!("    notify: [{}]\n", names.join(", ")),
        };
        let remotes = match remotes.as_str() {
            "" => String::new(),
            list => format!("remote:\n{list}"),
        };
        format!(
            "server:
  rundir: {folder}
  listen: 127.0.0.1@{port}
log:
  - target: stderr
    any: info
database:
  storage: {folder}
{keys}{remotes}acl:
  - id: transfer
    address: 127.0.0.1
    action: transfer{signed}
template:
  - id: default
    zonefile-sync: -1
    zonefile-load: difference
    journal-content: changes
    acl: transfer
{notify}zone:
  - domain: {ZONE}
    file: {folder}/zone
  - domain: {REVERSE}
    file: {folder}/reverse
"
        )
    }

    /// Replaces the zone file and has it read again.
    fn publish(&mut self, text: &str) {
        fs::write(self.folder.path().join("zone"), text).unwrap();
        self.process.signal(Signal::HUP);
    }
}

/// One full transfer, one incremental after NOTIFY, the same contents after each, and again after
/// the secondary was restarted.
fn check_follows(kind: Kind, key: Option<Key>) {
    if needs::lacks(&["knot", kind.name()]) {
        return;
    }
    let port = ports::free();
    let mut primary = Primary::start(key.as_ref(), &[port]);
    let mut plan = Plan::new(ports::loopback(primary.port), &[ZONE, REVERSE]);
    plan.key = key;
    let mut secondary = Secondary::start_on(kind, &plan, port);
    secondary.wait_for_serial(ZONE, 1, PATIENCE);
    let first = expected(1, &["old.cluster.example. 5 IN A 10.96.0.9"]);
    secondary.assert_holds(ZONE, &first);
    secondary.wait_for_serial(REVERSE, 7, PATIENCE);
    secondary.assert_holds(REVERSE, &reverse());
    assert_eq!(secondary.transfers(), Transfers { axfr: 2, ixfr: 0 });

    primary.publish(&zone_text(2, "new 5 A 10.96.0.10\n"));
    secondary.wait_for_serial(ZONE, 2, PATIENCE);
    let second = expected(2, &["new.cluster.example. 5 IN A 10.96.0.10"]);
    secondary.assert_holds(ZONE, &second);
    assert_eq!(secondary.transfers(), Transfers { axfr: 2, ixfr: 1 });

    // It still has its contents, and continues from there.
    secondary.restart();
    secondary.wait_for_serial(ZONE, 2, PATIENCE);
    secondary.assert_holds(ZONE, &second);
    secondary.assert_holds(REVERSE, &reverse());
    primary.publish(&zone_text(3, ""));
    secondary.wait_for_serial(ZONE, 3, PATIENCE);
    secondary.assert_holds(ZONE, &expected(3, &[]));
    assert_eq!(secondary.transfers(), Transfers { axfr: 2, ixfr: 2 });

    secondary.kill();
    assert_eq!(secondary.serial(ZONE), None);
}

/// The records of [`zone_text`].
fn expected(serial: u32, more: &[&str]) -> Vec<Record> {
    let soa = format!("{ZONE}. 5 IN SOA ns.dns.{ZONE}. hostmaster.{ZONE}. {serial} 300 30 86400 5");
    let fixed = [
        "cluster.example. 5 IN NS ns.dns.cluster.example.",
        "ns.dns.cluster.example. 5 IN A 127.0.0.1",
        "web.default.svc.cluster.example. 5 IN A 10.96.0.1",
        "web.default.svc.cluster.example. 5 IN AAAA fd00:10:96::1",
        "_http._tcp.web.default.svc.cluster.example. 5 IN SRV 0 100 80 web.default.svc.cluster.example.",
        "dns-version.cluster.example. 5 IN TXT \"1.1.0\"",
    ];
    [soa.as_str()]
        .iter()
        .chain(&fixed)
        .chain(more)
        .map(|line| Record::parse(line))
        .collect()
}

#[test]
fn bind_follows() {
    check_follows(Kind::Bind, None);
}

#[test]
fn bind_follows_signed() {
    check_follows(Kind::Bind, Some(Key::example()));
}

#[test]
fn knot_follows() {
    check_follows(Kind::Knot, None);
}

#[test]
fn knot_follows_signed() {
    check_follows(Kind::Knot, Some(Key::example()));
}

#[test]
fn nsd_follows() {
    check_follows(Kind::Nsd, None);
}

#[test]
fn nsd_follows_signed() {
    check_follows(Kind::Nsd, Some(Key::example()));
}

#[test]
fn powerdns_follows() {
    check_follows(Kind::Pdns, None);
}

#[test]
fn powerdns_follows_signed() {
    check_follows(Kind::Pdns, Some(Key::example()));
}

#[test]
fn unbound_follows() {
    check_follows(Kind::Unbound, None);
}

/// Tests the oracle: it sees an extra, a missing and a different record.
#[test]
fn contents_that_differ_are_told() {
    if needs::lacks(&["knot", "unbound"]) {
        return;
    }
    let mut primary = Primary::start(None, &[]);
    let plan = Plan::new(ports::loopback(primary.port), &[ZONE]);
    for kind in [Kind::Knot, Kind::Unbound] {
        let mut secondary = Secondary::start(kind, &plan);
        secondary.wait_for_serial(ZONE, 1, PATIENCE);
        let right = expected(1, &["old.cluster.example. 5 IN A 10.96.0.9"]);
        secondary.assert_holds(ZONE, &right);
        let others = [
            expected(1, &[]),
            expected(1, &["old.cluster.example. 5 IN A 10.96.0.8"]),
            expected(1, &["old.cluster.example. 6 IN A 10.96.0.9"]),
            expected(2, &["old.cluster.example. 5 IN A 10.96.0.9"]),
        ];
        for wrong in others {
            assert_ne!(secondary.contents(ZONE, &wrong), wire::texts(&wrong));
        }
    }
    assert!(primary.process.terminate(PATIENCE).success());
}

/// The client's transfers, read from Knot: full, incremental, nothing newer, and the chain applied.
#[test]
fn client_reads_full_and_incremental_transfers() {
    if needs::lacks(&["knot"]) {
        return;
    }
    let mut primary = Primary::start(None, &[]);
    let address = ports::loopback(primary.port);
    let first = wire::axfr(address, ZONE).unwrap();
    assert_eq!(
        wire::texts(&first),
        wire::texts(&expected(1, &["old.cluster.example. 5 IN A 10.96.0.9"]))
    );
    for serial in [2, 3] {
        primary.publish(&zone_text(
            serial,
            &format!("new{serial} 5 A 10.96.0.{serial}\n"),
        ));
        primary.process.wait_for("the next version", PATIENCE, || {
            (wire::serial(address, ZONE) == Some(serial)).then_some(())
        });
    }
    let Increment::Steps(steps) = wire::ixfr(address, ZONE, 1).unwrap() else {
        panic!("not incremental");
    };
    assert_eq!(
        steps
            .iter()
            .map(|step| (step.from, step.to))
            .collect::<Vec<_>>(),
        [(1, 2), (2, 3)]
    );
    let last = wire::axfr(address, ZONE).unwrap();
    assert_eq!(
        wire::texts(&wire::apply(&first, &steps).unwrap()),
        wire::texts(&last)
    );
    assert!(wire::apply(&last, &steps).is_err());
    assert!(wire::apply(&first[..3], &steps).is_err());
    assert_eq!(wire::ixfr(address, ZONE, 3).unwrap(), Increment::Current(3));
    let Increment::Full(full) = wire::ixfr(address, ZONE, 1_000).unwrap_or_else(|error| {
        panic!("a serial that never was: {error}");
    }) else {
        return; // newer than the primary's: "nothing newer" is right too
    };
    assert_eq!(wire::texts(&full), wire::texts(&last));
}

/// Messages as a client may see them broken: an error, never a panic or a loop.
#[test]
fn broken_messages_are_errors() {
    let good = Query::new("web.default.svc.cluster.example", wire::A)
        .edns(1232)
        .encode();
    assert_eq!(
        wire::Message::decode(&good).unwrap().questions[0].0,
        "web.default.svc.cluster.example."
    );
    for length in 0..good.len() {
        assert!(
            wire::Message::decode(&good[..length]).is_err(),
            "cut to {length}"
        );
    }
    let mut looping = good.clone();
    looping[12..14].copy_from_slice(&[0xc0, 12]);
    assert!(
        wire::Message::decode(&looping)
            .unwrap_err()
            .contains("ptr: 12")
    );
    assert!(wire::Message::decode(&[good, vec![0]].concat()).is_err());
}

/// A failed wait shows the awaited condition and the log of the process.
#[test]
fn an_awaited_condition_that_never_comes_shows_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new("sh");
    command.args(["-c", "echo I am here; exec sleep 60"]);
    let mut process = Process::spawn("sleeper", &mut command, &log);
    wait_for("the log", PATIENCE, String::new, || {
        process.log().contains("here").then_some(())
    });
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        process.wait_for("a miracle", std::time::Duration::from_millis(30), || {
            None::<()>
        });
    }));
    let text = *outcome.unwrap_err().downcast::<String>().unwrap();
    assert!(
        text.contains("a miracle") && text.contains("I am here"),
        "{text}"
    );
    assert!(!process.terminate(PATIENCE).success());
}
