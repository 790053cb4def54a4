//! Tests that a restart changes nothing: the history continues, octet by octet.

use crate::support::product::{START, Site, ZONES, cluster_ip};
use crate::support::wire::{Connection, IXFR, Query};

/// Versions before the restart.
const VERSIONS: u8 = 10;

/// The messages of the answer to IXFR from a serial.
fn increment(site: &Site, serial: u32) -> Vec<Vec<u8>> {
    let query = Query {
        serial: Some(serial),
        ..Query::new(ZONES[0], IXFR)
    };
    let mut connection = Connection::open(site.dns).unwrap();
    connection.send(&query.encode()).unwrap();
    // One message: the steps are small.
    vec![connection.receive().unwrap()]
}

#[test]
fn j6_after_a_restart_increments_are_the_same_octets() {
    let site = Site::new();
    for number in 100..200 {
        site.manifest(
            &format!("base-{number}.yaml"),
            &cluster_ip(&format!("base-{number}"), number, 80),
        );
    }
    let mut server = site.start_answering();
    let mut serials = vec![crate::support::wire::serial(site.dns, ZONES[0]).unwrap()];
    for number in 1..=VERSIONS {
        site.manifest("new.yaml", &cluster_ip("new", number, 80));
        let last = *serials.last().unwrap();
        serials.push(site.new_serial(&mut server, ZONES[0], last));
    }
    let before: Vec<_> = serials
        .iter()
        .map(|serial| increment(&site, *serial))
        .collect();
    // A chain for each but the last.
    assert!(before.iter().all(|messages| messages[0][3] & 15 == 0));
    assert!(before[0][0].len() > before[usize::from(VERSIONS)][0].len());
    for is_clean in [true, false] {
        if is_clean {
            assert!(server.terminate(START).success());
        } else {
            server.kill();
        }
        server = site.start_answering();
        let after: Vec<_> = serials
            .iter()
            .map(|serial| increment(&site, *serial))
            .collect();
        assert!(before == after, "ended well: {is_clean}");
    }
    server.kill();
}
