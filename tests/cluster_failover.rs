//! Three servers with one Lease at a real API server: one leads, is killed, and another one continues its serials.

use std::time::Duration;

use serde_json::{Value, json};

use crate::replicas::{Installation, replicas, sites};
use crate::schemas::check_lines;
use crate::support::apiserver::{Access, ApiServer};
use crate::support::evidence::said;
use crate::support::needs;
use crate::support::process::wait_for;
use crate::support::product::{START, Site, ZONES};
use crate::support::wire;

/// The line of a replica that begins to lead.
const LEADS: &str = "this replica leads";
/// How long a failover may take: a lease of 15 s, and the rest.
const FAILOVER: Duration = Duration::from_secs(60);
/// The path of the Lease.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases/zonewright";

fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "namespace": "default", "name": name },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    })
}

/// So many replicas at an API server.
fn start(server: &ApiServer, count: usize) -> Installation {
    let (sites, addresses, certificates) = sites(count);
    let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let kubeconfig = server.kubeconfig(Access::Admin).display().to_string();
    for (place, site) in sites.iter().enumerate() {
        let role = format!(
            "lease default/zonewright\n        id replica-{place}\n        others {}",
            all.join(" ")
        );
        let corefile = site.corefile(&replicas(addresses[place], &role, &certificates));
        let own = format!("manifests {}", site.path("manifests").display());
        site.write(
            "Corefile",
            &corefile.replace(&own, &format!("kubeconfig {kubeconfig}")),
        );
    }
    Installation::start_sites(sites)
}

/// The place of the replica that holds the Lease.
fn leader(server: &ApiServer) -> Option<usize> {
    let lease = server.get(LEASE).ok()?;
    let holder = lease["spec"]["holderIdentity"].as_str()?;
    let (id, _) = holder.split_once('/')?;
    id.strip_prefix("replica-")?.parse().ok()
}

/// How often a replica began to lead.
fn terms(installation: &Installation) -> usize {
    let logs = installation.servers.iter().map(|it| it.log());
    logs.map(|log| log.matches(LEADS).count()).sum()
}

/// Makes a Service; gives the serial that all running replicas have then. It comes after `before`.
fn change(server: &ApiServer, installation: &mut Installation, name: &str, before: u32) -> u32 {
    server.create(&service(name));
    let running = installation
        .servers
        .iter_mut()
        .position(|it| it.ended().is_none());
    let dns = installation.sites[running.expect("one is left")].dns;
    let tail = || String::from("no new serial");
    let serial = wait_for("a new serial", FAILOVER, tail, || {
        wire::serial(dns, ZONES[0]).filter(|serial| *serial > before)
    });
    installation.wait_until_all_have(serial);
    serial
}

/// Waits until another replica leads than this one.
fn next_leader(server: &ApiServer, old: usize) -> usize {
    let tail = || format!("the Lease: {:?}", server.get(LEASE));
    wait_for("another leader", FAILOVER, tail, || {
        leader(server).filter(|it| *it != old)
    })
}

#[test]
fn another_replica_continues_the_serials_of_a_leader_that_was_killed_or_handed_over() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let server = ApiServer::start();
    let mut installation = start(&server, 3);
    let first = wait_for("a leader", FAILOVER, String::new, || leader(&server));
    let mut serial = wire::serial(installation.sites[first].dns, ZONES[0]).expect("it answers");
    serial = change(&server, &mut installation, "one", serial);
    serial = change(&server, &mut installation, "two", serial);
    installation.check_histories();
    installation.servers[first].kill();
    let second = next_leader(&server, first);
    serial = change(&server, &mut installation, "three", serial);
    installation.servers[first] = installation.sites[first].start_answering();
    installation.wait_until_all_have(serial);
    serial = change(&server, &mut installation, "four", serial);
    installation.check_histories();
    let before = terms(&installation);
    let ended = installation.servers[second].terminate(START);
    assert!(
        ended.success(),
        "{}",
        installation.servers[second].log_tail()
    );
    next_leader(&server, second);
    serial = change(&server, &mut installation, "five", serial);
    assert!(terms(&installation) > before);
    installation.servers[second] = installation.sites[second].start_answering();
    installation.wait_until_all_have(serial);
    installation.check_histories();
    for site in &installation.sites {
        site.ask(&["verify"]);
    }
}

/// What `promote --accept-loss` says at a replica, with its exit code.
fn promote(site: &Site) -> (Option<i32>, String) {
    let output = site.run(&["promote", "--accept-loss", "-o", "json"]);
    let answer = String::from_utf8_lossy(&output.stdout);
    if output.status.success() {
        check_lines("process", &answer);
    }
    (output.status.code(), said(&output))
}

#[test]
fn a_replica_that_lacks_versions_leads_by_the_word_of_an_operator_alone() {
    if needs::lacks(&["apiserver"]) {
        return;
    }
    let server = ApiServer::start();
    let mut installation = start(&server, 2);
    let first = wait_for("a leader", FAILOVER, String::new, || leader(&server));
    let other = 1 - first;
    for (place, why) in [
        (first, "this replica leads already"),
        (other, "nothing needs to be lost"),
    ] {
        let (code, text) = promote(&installation.sites[place]);
        assert_eq!(code, Some(2), "{text}");
        assert!(text.contains(why), "{text}");
    }
    let serial = wire::serial(installation.sites[first].dns, ZONES[0]).expect("it answers");
    // With the second version the mark that the first one was announced is durable.
    let serial = change(&server, &mut installation, "kept", serial);
    installation.servers[other].kill();
    let lost = change(&server, &mut installation, "lost", serial);
    installation.servers[first].kill();
    installation.servers[other] = installation.sites[other].start_answering();
    let status = || installation.sites[other].ask(&["status", "-o", "json"]);
    wait_for("nobody may lead", FAILOVER, status, || {
        let status: Value = serde_json::from_str(&status()).ok()?;
        (status["replica"]["lacksEligible"] == true).then_some(())
    });
    assert_eq!(leader(&server), Some(first), "nobody took the Lease");
    let (code, text) = promote(&installation.sites[other]);
    assert_eq!(code, Some(0), "{text}");
    let tail = || format!("the Lease: {:?}", server.get(LEASE));
    wait_for("the other leads", FAILOVER, tail, || {
        (leader(&server) == Some(other)).then_some(())
    });
    // The lost version had a serial that no other content gets.
    let serial = change(&server, &mut installation, "after", lost);
    installation.servers[first] = installation.sites[first].start_answering();
    installation.wait_until_all_have(serial);
    installation.check_histories();
}
