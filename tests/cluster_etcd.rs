//! Zones from a real etcd: changes, leases, compaction, an etcd that is away or was restored, and a mass loss.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::Value;

use crate::support::certificates::Certificates;
use crate::support::etcd::Etcd;
use crate::support::process::wait_for;
use crate::support::proxy::Proxy;
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports};

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
    configure_at(zonewright, &etcd.url(), more);
}

fn configure_at(zonewright: &Zonewright, url: &str, more: &str) {
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

/// Whether the zone is stale, by `status` and by EDE 3.
fn is_stale(zonewright: &Zonewright) -> Option<()> {
    let stale = zone_status(zonewright)
        .to_string()
        .contains("\"staleSinceMs\":1");
    let error = zonewright.extended_error(ZONE);
    (stale && error == Some(3)).then_some(())
}

/// Waits until the zone is not stale.
fn wait_fresh(zonewright: &Zonewright) {
    let is_fresh = || (zonewright.extended_error(ZONE).is_none()).then_some(());
    wait(zonewright, "the zone is fresh", is_fresh);
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
fn a_lease_that_nobody_renews_takes_its_name_along() {
    if lacks() {
        return;
    }
    let (etcd, zonewright) = pair("", &[("stays", "192.0.2.1")]);
    let lease = etcd.lease(2);
    let revision = etcd.put_with(&key("leased"), &host("192.0.2.7"), lease);
    wait_addresses(&zonewright, "leased", &["192.0.2.7"]);
    wait_addresses(&zonewright, "leased", &[]);
    wait_addresses(&zonewright, "stays", &["192.0.2.1"]);
    // Both revisions are in the history: the one that put it, and the one that the end of the lease made.
    let log = zonewright.command(&["log", ZONE, "--name", &format!("leased.{ZONE}")]);
    for revision in [revision, revision + 1] {
        let want = format!("{} (revision {revision})", key("leased"));
        assert!(log.contains(&want), "{want} is not in {log}");
    }
}

#[test]
fn the_last_version_is_served_while_etcd_is_away_also_after_a_restart() {
    if lacks() {
        return;
    }
    let (mut etcd, mut zonewright) = pair("", &[("a", "192.0.2.1"), ("b", "192.0.2.2")]);
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    etcd.kill();
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    zonewright.stop();
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    let serial = zonewright.serial(ZONE);
    etcd.start_again();
    wait_fresh(&zonewright);
    assert_eq!(zonewright.serial(ZONE), serial, "nothing has changed");
    // A change that happened while it was away is known by its key.
    etcd.put(&key("c"), &host("192.0.2.3"));
    wait_addresses(&zonewright, "c", &["192.0.2.3"]);
}

#[test]
fn an_etcd_without_a_leader_is_away() {
    if lacks() {
        return;
    }
    // zonewright knows one member alone.
    let [etcd, mut other] = Etcd::start_two();
    etcd.put(&key("a"), &host("192.0.2.1"));
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure(&zonewright, &etcd, "");
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    assert_eq!(zonewright.extended_error(ZONE), None);
    other.kill();
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    assert!(zonewright.log().contains("no leader"));
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    other.start_again();
    wait_fresh(&zonewright);
    etcd.put(&key("b"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
}

#[test]
fn the_next_member_is_asked_when_one_is_away() {
    if lacks() {
        return;
    }
    let mut etcd = Etcd::start();
    etcd.put(&key("a"), &host("192.0.2.1"));
    let away = format!("http://{}", ports::free_address());
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure_at(&zonewright, &format!("{away} {}", etcd.url()), "");
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    wait_fresh(&zonewright);
    etcd.kill();
    wait(&zonewright, "the zone is stale", || is_stale(&zonewright));
    etcd.start_again();
    etcd.put(&key("a"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "a", &["192.0.2.2"]);
    wait_fresh(&zonewright);
}

/// A member that accepts connections and says nothing, as a stopped process does.
#[test]
fn the_next_member_is_asked_when_one_accepts_and_is_silent() {
    if lacks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().to_owned());
    certificates.write("client");
    let etcd = Etcd::start_with_tls(&certificates);
    etcd.put(&key("a"), &host("192.0.2.1"));
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let file = |kind: &str| certificates.file("client", kind).display().to_string();
    let ca = folder.path().join("ca.pem");
    let (certificate, private) = (file("pem"), file("key"));
    let tls = format!("        tls {certificate} {private} {}", ca.display());
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let members = format!("https://127.0.0.1:{port} {}", etcd.tls_url());
    configure_at(&zonewright, &members, &tls);
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    let log = zonewright.log();
    let said = format!("cannot connect to https://127.0.0.1:{port}: it says nothing within 5 s");
    assert!(log.contains(&said), "{log}");
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
    let gone = zonewright.addresses(&format!("a.{ZONE}"));
    assert_eq!(gone, Some(Vec::new()), "both are of one list");
}

/// An etcd behind a proxy that holds the second request, with a zonewright that has sent its first one.
fn held_pair(keys: &[(String, String)]) -> (Etcd, Proxy, Zonewright) {
    let etcd = Etcd::start();
    etcd.put_all(keys);
    let proxy = Proxy::start(etcd.address());
    proxy.hold();
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure_at(&zonewright, &format!("http://{}", proxy.address), "");
    zonewright.spawn();
    wait(&zonewright, "the second request is held", || {
        (proxy.held_count() > 0).then_some(())
    });
    (etcd, proxy, zonewright)
}

/// Between its list and its watch the revisions that it would watch are compacted.
#[test]
fn a_compaction_before_the_watch_begins_is_noticed() {
    if lacks() {
        return;
    }
    let (etcd, proxy, zonewright) = held_pair(&[(key("a"), host("192.0.2.1"))]);
    etcd.delete(&key("a"));
    etcd.put(&key("b"), &host("192.0.2.1"));
    let revision = etcd.put(&key("b"), &host("192.0.2.2"));
    etcd.compact(revision);
    proxy.let_go();
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    wait_addresses(&zonewright, "a", &[]);
    // No loss of etcd, so it was the compaction that ended the watch.
    let log = zonewright.log();
    assert!(!log.contains("etcd is unreachable"), "{log}");
    assert_eq!(zonewright.extended_error(ZONE), None);
}

/// A list of several pages is of one revision, and the watch begins behind it.
#[test]
fn what_changes_between_the_pages_of_a_list_is_seen() {
    if lacks() {
        return;
    }
    let many: Vec<(String, String)> = (1000..3500)
        .map(|at| (key(&format!("n{at}")), host("192.0.2.1")))
        .collect();
    let (etcd, proxy, zonewright) = held_pair(&many);
    // Of the first page, which has been sent, and of the last one.
    etcd.delete(&key("n1000"));
    etcd.put(&key("n1001"), &host("192.0.2.2"));
    etcd.delete(&key("n3499"));
    etcd.put(&key("n3498"), &host("192.0.2.2"));
    proxy.let_go();
    wait_addresses(&zonewright, "n3498", &["192.0.2.2"]);
    wait_addresses(&zonewright, "n1001", &["192.0.2.2"]);
    wait_addresses(&zonewright, "n2500", &["192.0.2.1"]);
    wait_addresses(&zonewright, "n1000", &[]);
    wait_addresses(&zonewright, "n3499", &[]);
    assert_eq!(zonewright.rendered(ZONE), zonewright.served(ZONE));
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

/// A restored store counts from an earlier revision: a key may have the revision that it had before, with another value.
#[test]
fn a_restored_store_is_believed_whatever_its_revisions() {
    if lacks() {
        return;
    }
    let (mut etcd, zonewright) = pair("", &[("a", "192.0.2.1"), ("b", "192.0.2.2")]);
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    etcd.kill();
    let saved = tempfile::tempdir().unwrap();
    etcd.save(saved.path());
    etcd.start_again();
    let before = etcd.put(&key("a"), &host("192.0.2.11"));
    etcd.put(&key("b"), &host("192.0.2.12"));
    etcd.put(&key("c"), &host("192.0.2.13"));
    wait_addresses(&zonewright, "c", &["192.0.2.13"]);
    etcd.kill();
    etcd.restore(saved.path());
    // Reads it before zonewright does: `a` has another value at the same revision, `b` its old one.
    let other_port = etcd.move_away();
    etcd.start_again();
    let again = etcd.put(&key("a"), &host("192.0.2.21"));
    assert_eq!(again, before);
    etcd.kill();
    etcd.move_to(other_port);
    etcd.start_again();
    wait_addresses(&zonewright, "a", &["192.0.2.21"]);
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    wait_addresses(&zonewright, "c", &[]);
    // Revisions that were seen before the restoration come again.
    for number in 31..36 {
        let address = format!("192.0.2.{number}");
        etcd.put(&key("a"), &host(&address));
        wait_addresses(&zonewright, "a", &[&address]);
    }
    etcd.delete(&key("a"));
    wait_addresses(&zonewright, "a", &[]);
    assert_eq!(zonewright.rendered(ZONE), zonewright.served(ZONE));
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

#[test]
fn certificates_and_their_lack() {
    if lacks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().to_owned());
    certificates.write("client");
    let etcd = Etcd::start_with_tls(&certificates);
    etcd.put(&key("a"), &host("192.0.2.1"));
    let file = |kind: &str| certificates.file("client", kind).display().to_string();
    let (certificate, private) = (file("pem"), file("key"));
    let ca = folder.path().join("ca.pem").display().to_string();
    let stranger = tempfile::tempdir().unwrap();
    Certificates::new(stranger.path().to_owned());
    let other_ca = stranger.path().join("ca.pem").display().to_string();

    let mut zonewright = Zonewright::prepare(&[ZONE]);
    for (words, reason) in [
        // Without a certificate of its own, with an authority that did not sign etcd's, with files that are missing.
        (ca.clone(), "write in etcd: tls CERT KEY [CA]"),
        (
            format!("{certificate} {private} {other_ca}"),
            "invalid peer certificate",
        ),
        (
            format!("{certificate} {private} {ca}.missing"),
            "cannot read",
        ),
    ] {
        configure_at(
            &zonewright,
            &etcd.tls_url(),
            &format!("        tls {words}"),
        );
        let known = zonewright.log().len();
        zonewright.spawn();
        wait(
            &zonewright,
            &format!("{words}: the reason is logged"),
            || {
                let log = zonewright.log().split_off(known);
                let mut lines = log.lines();
                let refused =
                    |line: &str| line.contains("etcd is unreachable") && line.contains(reason);
                lines.any(refused).then_some(())
            },
        );
        assert_eq!(zonewright.serial(ZONE), None);
        zonewright.kill();
    }
    let words = format!("        tls {certificate} {private} {ca}");
    configure_at(&zonewright, &etcd.tls_url(), &words);
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    etcd.put(&key("a"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "a", &["192.0.2.2"]);
    assert_eq!(zonewright.rendered(ZONE), zonewright.served(ZONE));
}

/// As etcd's own client: the name in the certificate is the user, and no password is needed.
#[test]
fn the_name_in_the_certificate_is_the_user() {
    if lacks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let certificates = Certificates::new(folder.path().to_owned());
    certificates.write("root");
    let mut etcd = Etcd::start_with_tls(&certificates);
    etcd.put(&key("a"), &host("192.0.2.1"));
    etcd.demand_credentials();
    let file = |kind: &str| certificates.file("root", kind).display().to_string();
    let ca = folder.path().join("ca.pem");
    let words = format!(
        "        tls {} {} {}",
        file("pem"),
        file("key"),
        ca.display()
    );
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure_at(&zonewright, &etcd.tls_url(), &words);
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
}

/// The right to read the keys of the zone is enough, also for the times of leases.
#[test]
fn a_user_who_may_read_the_zone_alone_is_enough() {
    if lacks() {
        return;
    }
    let mut etcd = Etcd::start();
    let lease = etcd.lease(600);
    etcd.put_with(&key("a"), &host("192.0.2.1"), lease);
    // One lease for keys of two zones, of which one may not be read.
    etcd.put_with("/skydns/com/other/a", &host("192.0.2.1"), lease);
    etcd.allow_reading("reader", "/skydns/org/example/");
    etcd.demand_credentials();
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    configure(&zonewright, &etcd, "        credentials reader secret");
    zonewright.start();
    wait_addresses(&zonewright, "a", &["192.0.2.1"]);
    etcd.put(&key("b"), &host("192.0.2.2"));
    wait_addresses(&zonewright, "b", &["192.0.2.2"]);
    zonewright.set_zones(&["other.com"]);
    zonewright.stop();
    configure(&zonewright, &etcd, "        credentials reader secret");
    zonewright.spawn();
    wait(&zonewright, "the refusal is logged", || {
        zonewright.log().contains("permission denied").then_some(())
    });
}
