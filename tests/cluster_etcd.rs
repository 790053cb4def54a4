//! Zones from a real etcd: changes, leases, compaction, an etcd that is away or was restored, and a mass loss.

use std::time::Duration;

use serde_json::Value;

use crate::support::etcd::Etcd;
use crate::support::needs;
use crate::support::process::wait_for;
use crate::support::zonewright::Zonewright;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);
const ZONE: &str = "example.org";

fn lacks() -> bool {
    needs::lacks(&["apiserver"])
}

fn host(address: &str) -> String {
    format!(r#"{{"host":"{address}","port":-1}}"#)
}

fn key(name: &str) -> String {
    format!("/skydns/org/example/{name}")
}

/// An etcd with these keys, and a zonewright that has read them.
fn pair(more: &str, keys: &[(&str, &str)]) -> (Etcd, Zonewright) {
    let etcd = Etcd::start();
    for (name, address) in keys {
        etcd.put(&key(name), &host(address));
    }
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure(&zonewright, &etcd, more);
    zonewright.start();
    (etcd, zonewright)
}

fn configure(zonewright: &Zonewright, etcd: &Etcd, more: &str) {
    let url = etcd.url();
    let lines = format!(
        "    etcd {{\n        endpoint {url}\n{more}\n    }}\n    transfer {{\n        allow *\n    }}\n"
    );
    zonewright.configure(&lines);
}

#[track_caller]
fn wait_addresses(zonewright: &Zonewright, name: &str, want: &[&str]) {
    wait(zonewright, &format!("{name} has {want:?}"), || {
        let found = zonewright.addresses(&format!("{name}.{ZONE}"))?;
        (found == want).then_some(())
    });
}

fn wait(zonewright: &Zonewright, what: &str, condition: impl FnMut() -> Option<()>) {
    wait_for(what, PATIENCE, || zonewright.log(), condition);
}

/// The zone's state in `status`.
fn zone_status(zonewright: &Zonewright) -> Value {
    zonewright.status()["zones"][0].clone()
}

#[test]
fn a_change_is_served_transferred_and_has_its_key_and_revision() {
    if lacks() {
        return;
    }
    let (etcd, zonewright) = pair("", &[("a", "192.0.2.1")]);
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    let revision = etcd.put(&key("b"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    let records = zonewright.zone(ZONE);
    assert!(
        records
            .iter()
            .any(|record| record.text().contains("192.0.2.2"))
    );
    let log = zonewright.command(&["log", ZONE]);
    let want = format!("{} (revision {revision})", key("b"));
    assert!(log.contains(&want), "{want} is not in {log}");
    etcd.delete(&key("b"));
    wait_addresses(&zonewright, "b", &[]);
    etcd.put(&key("c"), "nonsense");
    wait(&zonewright, "the bad value is reported", || {
        let problems = zonewright.status()["problems"].to_string();
        problems
            .contains("/skydns/org/example/c: not a service")
            .then_some(())
    });
    etcd.put(&key("c"), &host("192.0.2.3"));
    wait_addresses(&zonewright, "c", &["192.0.2.3"]);
    assert_eq!(zonewright.rendered(ZONE), zonewright.served(ZONE));
}

#[test]
fn a_lease_that_ends_takes_its_name_along_and_bounds_its_ttl() {
    if lacks() {
        return;
    }
    let (etcd, zonewright) = pair("        min-lease-ttl 40", &[]);
    let lease = etcd.lease(600);
    etcd.put_with(&key("leased"), &host("192.0.2.7"), lease);
    wait_addresses(&zonewright, "leased", &["192.0.2.7"]);
    let record = zonewright
        .zone(ZONE)
        .into_iter()
        .map(|record| record.text());
    let record: Vec<String> = record.filter(|text| text.starts_with("leased.")).collect();
    assert!(record[0].contains(" 600 "), "{record:?}");
    etcd.revoke(lease);
    wait_addresses(&zonewright, "leased", &[]);
}

#[test]
fn the_last_version_is_served_while_etcd_is_away_also_after_a_restart() {
    if lacks() {
        return;
    }
    let (mut etcd, mut zonewright) = pair("", &[("a", "192.0.2.1"), ("b", "192.0.2.2")]);
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    etcd.kill();
    let is_stale = |zonewright: &Zonewright| {
        let stale = zone_status(zonewright)
            .to_string()
            .contains("\"staleSinceMs\":1");
        let error = zonewright.extended_error(ZONE);
        (stale && error == Some(3)).then_some(())
    };
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    zonewright.stop();
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    let serial = zonewright.serial(ZONE);
    etcd.start_again();
    let is_fresh = || (zonewright.extended_error(ZONE).is_none()).then_some(());
    wait(&zonewright, "the zone is fresh", is_fresh);
    assert_eq!(zonewright.serial(ZONE), serial, "nothing has changed");
    // A change that happened while it was away is known by its key.
    etcd.put(&key("c"), &host("192.0.2.3"));
    wait_addresses(&zonewright, "c", &["192.0.2.3"]);
}

#[test]
fn a_compaction_loses_nothing() {
    if lacks() {
        return;
    }
    let (mut etcd, zonewright) = pair("", &[("a", "192.0.2.1")]);
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    let revision = etcd.put(&key("b"), &host("192.0.2.2"));
    etcd.compact(revision);
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    // Changes while nobody watches, with their history gone.
    etcd.kill();
    etcd.start_again();
    etcd.delete(&key("a"));
    let revision = etcd.put(&key("b"), &host("192.0.2.9"));
    etcd.compact(revision);
    wait_addresses(&zonewright, "b", &["192.0.2.9"]);
    wait_addresses(&zonewright, "a", &[]);
}

#[test]
fn a_restored_store_is_listed_again_and_a_mass_loss_is_held() {
    if lacks() {
        return;
    }
    let (mut etcd, zonewright) = pair("", &[("a", "192.0.2.1")]);
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    etcd.kill();
    let saved = tempfile::tempdir().unwrap();
    etcd.save(saved.path());
    etcd.start_again();
    let many: Vec<(String, String)> = (0..200_u8)
        .map(|at| (key(&format!("n{at}")), host(&format!("192.0.2.{at}"))))
        .collect();
    etcd.put_all(&many);
    wait_addresses(&zonewright, "n199", &["192.0.2.199"]);
    etcd.kill();
    etcd.restore(saved.path());
    etcd.start_again();
    wait(&zonewright, "the loss is held", || {
        let log = zonewright.log();
        log.contains("a version is held").then_some(())
    });
    wait_addresses(&zonewright, "n199", &["192.0.2.199"]);
    // The store counts again from an earlier revision: its changes are seen all the same.
    etcd.put(&key("new"), &host("192.0.2.250"));
    zonewright.command(&["release", ZONE]);
    wait_addresses(&zonewright, "new", &["192.0.2.250"]);
    wait_addresses(&zonewright, "n199", &[]);
    let log = zonewright.command(&["log", ZONE]);
    assert!(log.contains("vanished from /skydns/org/example/n"), "{log}");
}

#[test]
fn credentials_and_their_lack() {
    if lacks() {
        return;
    }
    let mut etcd = Etcd::start();
    etcd.put(&key("a"), &host("192.0.2.1"));
    etcd.demand_credentials();
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure(&zonewright, &etcd, "");
    zonewright.spawn();
    wait(&zonewright, "the refusal is logged", || {
        let log = zonewright.log();
        (log.contains("etcd is unreachable") && log.contains("user name is empty")).then_some(())
    });
    zonewright.kill();
    configure(&zonewright, &etcd, "        credentials root secret");
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    assert!(!zonewright.log().contains("secret"));
    etcd.put(&key("a"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "a", &["192.0.2.2"]);
}
