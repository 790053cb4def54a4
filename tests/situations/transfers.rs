//! Situations 78 to 90: transfers, and what counts as a change.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::site::{HTTP, PATIENCE, Site, objects, service, slice};
use crate::support::process::{now, poll_for};
use crate::support::wire::{self, AXFR, Connection, Message, Query, type_name};

#[test]
fn s78_a_transfer_has_everything_once_with_the_zone_s_ttl() {
    let site = Site::of("cluster.local", &objects(), "ttl 30", "");
    let zone = site.zone("cluster.local");
    for wanted in [
        "cluster.local. 30 IN NS ns.dns.cluster.local.",
        "ns.dns.cluster.local. 30 IN A 127.0.0.1",
        "dns-version.cluster.local. 28800 IN TXT \"1.1.0\"",
        "svc1.testns.svc.cluster.local. 30 IN A 10.0.0.1",
        "svc1.testns.svc.cluster.local. 30 IN SRV 0 100 80 svc1.testns.svc.cluster.local.",
        "_http._tcp.hdls1.testns.svc.cluster.local. 30 IN SRV 0 100 80 dup-name.hdls1.testns.svc.cluster.local.",
        "ep1a.svc1.testns.svc.cluster.local. 30 IN A 172.0.0.1",
        "external.testns.svc.cluster.local. 30 IN CNAME ext.interwebs.test.",
    ] {
        let count = zone.iter().filter(|line| *line == wanted).count();
        assert_eq!(count, 1, "{wanted}\n{zone:#?}");
    }
    let mut once = zone.clone();
    once.dedup();
    // The difference `transfer-once`.
    assert_eq!(once, zone);
}

#[test]
fn s79_a_foreign_zone_is_not_transferred() {
    let site = Site::plain();
    // RFC 5936 section 2.2.1: NOTAUTH. Below a zone that is the difference `subzone`: CoreDNS transfers names of its own
    // invention.
    for zone in ["example.org", "svc.cluster.local", "local"] {
        let reply = wire::tcp(site.address, &Query::new(zone, AXFR)).unwrap();
        assert_eq!(reply.rcode(), 9, "{zone}: {reply:?}");
        assert!(reply.answers.is_empty(), "{zone}: {reply:?}");
    }
}

#[test]
fn s80_an_increment_from_an_old_serial_and_from_the_current_one() {
    let mut site = Site::plain();
    let old = wire::serial(site.address, "cluster.local").unwrap();
    let current = wire::ixfr(site.address, "cluster.local", old).unwrap();
    assert!(format!("{current:?}").contains("Current"), "{current:?}");
    site.write(
        "later.yaml",
        &service("later", &format!("clusterIPs: [10.0.0.9], ports: [{HTTP}]")),
    );
    site.wait_for("later A");
    let mut query = Query::new("cluster.local", wire::IXFR);
    query.serial = Some(old);
    let changed = wire::transfer(site.address, &query).unwrap();
    let texts = wire::texts(&changed.records);
    assert!(
        texts
            .iter()
            .any(|line| line == "later.testns.svc.cluster.local. 5 IN A 10.0.0.9"),
        "{texts:?}"
    );
    // Where CoreDNS sends everything, we send what changed.
    assert!(
        !texts.iter().any(|line| line.starts_with("svc1.")),
        "{texts:?}"
    );
    query.serial = Some(old.wrapping_sub(86_400));
    let whole = wire::transfer(site.address, &query).unwrap();
    assert!(
        whole
            .records
            .iter()
            .any(|record| record.owner.starts_with("svc1."))
    );
}

#[test]
fn s81_two_bound_addresses_make_one_name_server_with_both() {
    let site = Site::of("cluster.local", &objects(), "", "bind 127.0.0.1 ::1");
    let zone = site.zone("cluster.local");
    let glue: Vec<&String> = zone
        .iter()
        .filter(|line| line.starts_with("ns.dns."))
        .collect();
    assert_eq!(
        glue,
        [
            "ns.dns.cluster.local. 5 IN A 127.0.0.1",
            "ns.dns.cluster.local. 5 IN AAAA ::1"
        ]
    );
    assert_eq!(
        zone.iter().filter(|line| line.contains(" IN NS ")).count(),
        1
    );
    let ends = wire::transfer(site.address, &Query::new("cluster.local", AXFR))
        .unwrap()
        .records;
    assert!(ends.len() > 2 && ends.first() == ends.last() && ends[0].serial().is_some());
}

#[test]
fn s82_who_is_not_named_is_refused_and_large_zones_take_several_messages() {
    let refused = Site::of(
        "cluster.local",
        &objects(),
        "",
        "transfer {\n allow 192.0.2.1\n }",
    );
    refused.check(
        "cluster.local. NS",
        "cluster.local. NS ns.dns.cluster.local.\n+ ns.dns.cluster.local. A 127.0.0.1",
    );
    let reply = wire::tcp(refused.address, &Query::new("cluster.local", AXFR)).unwrap();
    assert_eq!(reply.rcode(), 5);
    let many: String = (0..900)
        .map(|number| {
            service(
                &format!("many-{number}"),
                &format!(
                    "clusterIPs: [10.1.{}.{}], ports: [{HTTP}]",
                    number / 250,
                    number % 250 + 1
                ),
            )
        })
        .collect();
    let site = Site::of("cluster.local", &many, "", "");
    let transfer = wire::transfer(site.address, &Query::new("cLuStEr.LoCaL", AXFR)).unwrap();
    let sizes: Vec<usize> = transfer
        .messages
        .iter()
        .map(|message| message.size)
        .collect();
    assert!(
        transfer.records.len() > 2700 && sizes.len() >= 2,
        "{sizes:?}"
    );
    assert!(sizes.iter().all(|size| *size < 65_536), "{sizes:?}");
}

#[test]
fn s83_a_client_that_goes_away_harms_nobody() {
    let site = Site::plain();
    for _ in 0..20 {
        let mut connection = Connection::open(site.address).unwrap();
        connection
            .send(&Query::new("cluster.local", AXFR).encode())
            .unwrap();
        connection.0.flush().unwrap();
        drop(connection);
    }
    assert!(site.zone("cluster.local").len() > 20);
    site.check("svc1 A", "svc1 A 10.0.0.1");
}

/// A secondary that refuses every NOTIFY; tells of each.
fn refuser() -> (SocketAddr, mpsc::Receiver<()>) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((length, peer)) = socket.recv_from(&mut buffer) {
            let is_notify = buffer[2] & 0x78 == 0x20;
            buffer[2] |= 0x80;
            buffer[3] = 5;
            // Whoever asked may be gone.
            let _is_lost = socket.send_to(&buffer[..length], peer).is_err();
            if is_notify && tell.send(()).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// CoreDNS asks a refusing secondary three times, and only about zones of files. A refusal is an answer
/// (RFC 1996 section 3.10): it is said once for each version, however often that is told again.
#[test]
fn s84_each_refused_notify_is_reported() {
    let (first, first_told) = refuser();
    let (other, other_told) = refuser();
    let transfer = format!("transfer {{\n to {first} {other}\n }}");
    let mut site = Site::of("cluster.local", &objects(), "", &transfer);
    let told = [first_told, other_told];
    for one in &told {
        assert!(one.recv_timeout(PATIENCE).is_ok(), "no NOTIFY");
    }
    site.write("later.yaml", &service("later", "clusterIPs: [10.0.0.9]"));
    for one in &told {
        assert!(
            one.recv_timeout(PATIENCE).is_ok(),
            "no NOTIFY of the second version"
        );
    }
    for secondary in [first, other] {
        let wanted = format!("secondary={secondary} ");
        site.wait(&format!("the refusals of {secondary}"), |view| {
            let lines = view
                .log
                .lines()
                .filter(|line| line.contains("notify refused") && line.contains(&wanted));
            (lines.count() == 2).then_some(())
        });
    }
}

#[test]
fn s85_srv_of_endpoints_in_two_families() {
    let more = service("both", &format!("clusterIP: None, ports: [{HTTP}]"))
        + &slice(
            "both-1",
            "both",
            "IPv4",
            "{addresses: [172.0.3.1], hostname: a}, {addresses: [172.0.3.2], hostname: b}",
            HTTP,
        )
        + &slice(
            "both-2",
            "both",
            "IPv6",
            "{addresses: [\"fd00::1\"], hostname: a}, {addresses: [\"fd00::2\"], hostname: b}",
            HTTP,
        );
    let site = Site::and(&more);
    let name = "_http._tcp.both.testns.svc.cluster.local.";
    let mut zone = site.zone("cluster.local");
    zone.retain(|line| line.starts_with(name));
    let wanted = ["a", "b"]
        .map(|host| format!("{name} 5 IN SRV 0 100 80 {host}.both.testns.svc.cluster.local."));
    // The difference `weight`; once each, where CoreDNS repeats them.
    assert_eq!(zone, wanted);
}

/// What a change of one file makes of the number of versions; the second change is always seen.
fn versions_of(before: &str, after: &str) -> usize {
    let mut site = Site::of("cluster.local", &objects(), "pods verified", "");
    site.write("changing.yaml", before);
    site.write("first.yaml", &service("first", "clusterIPs: [10.0.7.1]"));
    site.wait_for("first A");
    let start = site.versions();
    site.write("changing.yaml", after);
    site.write("second.yaml", &service("second", "clusterIPs: [10.0.7.2]"));
    site.wait_for("second A");
    let _settled: Option<()> = poll_for(
        now() + Duration::from_millis(300),
        Duration::from_millis(50),
        || None,
    );
    let seen = site.versions() - start;
    let reply: Message = site.ask("second A");
    assert_eq!(type_name(reply.answers[0].rtype), "A");
    seen
}

/// A change that the zone does not show makes no version of its own: only that of the Service after it.
#[test]
fn s86_a_service_changes_the_zone_when_its_records_change() {
    let old = service(
        "changing",
        &format!("clusterIPs: [10.0.8.1], ports: [{HTTP}]"),
    );
    let quiet = service(
        "changing",
        &format!("clusterIPs: [10.0.8.1], externalIPs: [192.0.2.9], ports: [{HTTP}]"),
    );
    assert_eq!(versions_of(&old, &quiet), 1);
    let port = old.replace("name: http", "name: other");
    let site = {
        let mut site = Site::of("cluster.local", &objects(), "", "");
        site.write("changing.yaml", &old);
        site.wait_for("_http._tcp.changing SRV");
        let before = wire::serial(site.address, "cluster.local").unwrap();
        site.write("changing.yaml", &port);
        site.wait_for("_other._tcp.changing SRV");
        assert_ne!(wire::serial(site.address, "cluster.local"), Some(before));
        site
    };
    let mut site = site;
    let before = wire::serial(site.address, "cluster.local").unwrap();
    site.remove("changing.yaml");
    site.wait("the Service's end", |view| {
        let reply = wire::udp(
            view.address,
            &Query::new("changing.testns.svc.cluster.local", wire::A),
        )
        .ok()?;
        (reply.rcode() == 3).then_some(())
    });
    assert_ne!(wire::serial(site.address, "cluster.local"), Some(before));
}

/// A Pod with an address and a label.
fn pod(address: &str, label: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: moving, namespace: testns, labels: {{l: {label}}}}}\n\
         status: {{phase: Running, podIP: {address}}}\n"
    )
}

#[test]
fn s87_a_pod_changes_the_zone_with_its_address() {
    assert_eq!(
        versions_of(&pod("10.240.1.1", "a"), &pod("10.240.1.1", "b")),
        1
    );
    let mut site = Site::with("pods verified");
    site.write("pod.yaml", &pod("10.240.1.1", "a"));
    site.wait_for("10-240-1-1.testns.pod.cluster.local. A");
    site.write("pod.yaml", &pod("10.240.1.2", "a"));
    site.wait_for("10-240-1-2.testns.pod.cluster.local. A");
    site.check("10-240-1-1.testns.pod.cluster.local. A", "NXDOMAIN");
}

#[test]
fn s88_any_difference_of_a_slice_that_shows_changes_the_zone() {
    let base = service("moving", "clusterIP: None");
    let of = |endpoints: &str, port: &str| {
        base.clone() + &slice("moving-1", "moving", "IPv4", endpoints, port)
    };
    let mut site = Site::plain();
    for (endpoints, port, question) in [
        ("{addresses: [172.0.4.1]}", HTTP, "172-0-4-1.moving A"),
        ("{addresses: [172.0.4.2]}", HTTP, "172-0-4-2.moving A"),
        ("{addresses: [172.0.4.2], hostname: h}", HTTP, "h.moving A"),
        (
            "{addresses: [172.0.4.2], hostname: h}",
            "{name: p, protocol: TCP, port: 80}",
            "_p._tcp.moving SRV",
        ),
        (
            "{addresses: [172.0.4.2], hostname: h}",
            "{name: p, protocol: UDP, port: 80}",
            "_p._udp.moving SRV",
        ),
        (
            "{addresses: [172.0.4.2], hostname: h}, {addresses: [172.0.4.3]}",
            "{name: p, protocol: UDP, port: 80}",
            "172-0-4-3.moving A",
        ),
    ] {
        let objects = of(endpoints, port);
        site.write_and_see("moving.yaml", &objects, question, "cluster.local");
    }
}

#[test]
fn s89_an_import_changes_the_zone_with_its_addresses_and_ports() {
    let import = |ips: &str, port: &str| {
        format!(
            "apiVersion: multicluster.x-k8s.io/v1alpha1\nkind: ServiceImport\nmetadata: {{name: in, namespace: testns}}\n\
             spec: {{type: ClusterSetIP, ips: [{ips}], ports: [{{name: {port}, protocol: TCP, port: 80}}]}}\n"
        )
    };
    let mut site = Site::of(
        "clusterset.local cluster.local",
        &objects(),
        "multicluster clusterset.local",
        "",
    );
    for (ips, port, question) in [
        (
            "10.9.0.1",
            "a",
            "_a._tcp.in.testns.svc.clusterset.local. SRV",
        ),
        (
            "10.9.0.1",
            "b",
            "_b._tcp.in.testns.svc.clusterset.local. SRV",
        ),
        ("\"fd00::9\"", "b", "in.testns.svc.clusterset.local. AAAA"),
    ] {
        let import = import(ips, port);
        site.write_and_see("import.yaml", &import, question, "clusterset.local");
    }
}

#[test]
fn s90_a_pod_that_is_changed_and_deleted_at_once_is_gone() {
    let mut site = Site::with("pods verified");
    site.write("pod.yaml", &pod("10.240.1.1", "a"));
    site.wait_for("10-240-1-1.testns.pod.cluster.local. A");
    site.write("pod.yaml", &pod("10.240.1.2", "a"));
    site.remove("pod.yaml");
    site.wait("the Pod's end", |view| {
        let gone = ["10-240-1-1", "10-240-1-2"].iter().all(|label| {
            let name = format!("{label}.testns.pod.cluster.local");
            wire::udp(view.address, &Query::new(&name, wire::A))
                .is_ok_and(|reply| reply.rcode() == 3)
        });
        gone.then_some(())
    });
    site.check("10-240-1-1.testns.pod.cluster.local. A", "NXDOMAIN");
}
