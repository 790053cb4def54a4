//! CoreDNS as a secondary, with the Corefile that `emit` prints.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::support::contents::Reply;
use crate::support::process::Process;
use crate::support::product::{cluster_ip, headless};
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports, wire};

const ZONE: &str = "cluster.local";
/// How long CoreDNS may take to start, or to follow.
const FOLLOW: Duration = Duration::from_secs(30);

#[test]
fn coredns_serves_the_zone_with_what_emit_prints() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let address = ports::loopback(ports::free());
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let folder = zonewright.folder().to_owned();
    let manifests = folder.join("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("web.yaml"), cluster_ip("web", 7, 80)).unwrap();
    fs::write(manifests.join("db.yaml"), headless("db", 8, &[1, 2])).unwrap();
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n    transfer {{\n        to {address}\n    }}\n",
        manifests.display()
    ));
    zonewright.start();
    let printed = zonewright.command(&["emit", "coredns"]);
    let file = folder.join("Corefile.secondary");
    fs::write(&file, printed).unwrap();
    let mut command = Command::new(needs::program("coredns"));
    command.arg("-conf").arg(&file);
    let mut coredns = Process::spawn("CoreDNS", &mut command, &folder.join("log.secondary"));
    let first = zonewright.serial(ZONE);
    assert_same(&zonewright, &mut coredns, address, first);

    // It is told of the next version, and allowed to take it.
    fs::write(manifests.join("late.yaml"), cluster_ip("late", 9, 80)).unwrap();
    fs::remove_file(manifests.join("db.yaml")).unwrap();
    let server = zonewright.address();
    let next = zonewright.wait_for("the next version", FOLLOW, || {
        Some(wire::serial(server, ZONE)).filter(|serial| serial.is_some() && *serial != first)
    });
    assert_same(&zonewright, &mut coredns, address, next);
}

/// CoreDNS comes to the serial, and then answers each name and type of the zone as we do.
fn assert_same(
    zonewright: &Zonewright,
    coredns: &mut Process,
    address: SocketAddr,
    serial: Option<u32>,
) {
    assert!(serial.is_some());
    coredns.wait_for("our serial", FOLLOW, || {
        (wire::serial(address, ZONE) == serial).then_some(())
    });
    let records = zonewright.zone(ZONE);
    let owners: BTreeSet<&str> = records.iter().map(|record| record.owner.as_str()).collect();
    assert!(owners.len() > 6, "{owners:?}");
    let absent = format!("absent.{ZONE}.");
    for owner in owners.into_iter().chain([absent.as_str()]) {
        for qtype in [wire::A, wire::SRV, wire::TXT, wire::NS, wire::SOA] {
            let query = wire::Query::new(owner, qtype);
            let [ours, theirs] = [zonewright.address(), address].map(|server| {
                let reply = wire::udp(server, &query).unwrap();
                (Reply::of(&reply), reply.is_authoritative())
            });
            assert_eq!(theirs, ours, "{owner} {qtype}\n{}", coredns.log_tail());
        }
    }
}
