//! Secondaries that were stopped for ten thousand versions: one reply brings them up to date.

use std::fmt::Write as _;
use std::fs;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::support::fleet::{Fleet, Places};
use crate::support::needs;
use crate::support::secondary::Kind;
use crate::support::zonewright::Zonewright;
use dns::{Name, Rdata, Ttl};
use zone::journal::Journal;
use zone::{Candidate, Edit, MemoryLimits, Node};

const ZONE: &str = "long.example";
/// The number of versions made meanwhile.
const AWAY: u32 = 10_000;
/// Hosts of the zone.
const HOSTS: u32 = 400;
/// The number of hosts that move.
const MOVING: u32 = 20;
/// How long the slowest secondary may take to follow.
const FOLLOW: Duration = Duration::from_secs(60);

/// The text of the zone, whose first hosts are of this round.
fn text(round: u8) -> String {
    let mut text = format!(
        "$ORIGIN {ZONE}.\n$TTL 60\n@ 60 SOA ns1 hostmaster 1 300 30 86400 5\n@ NS ns1\nns1 A 127.0.0.1\n"
    );
    for number in 0..HOSTS {
        let third = if number < MOVING { round } else { 0 };
        writeln!(text, "host-{number} A 10.{third}.0.{}", number % 250).unwrap();
    }
    text
}

/// A primary with a history of this many versions, and five secondaries that have its zone.
fn start(versions: u32) -> (Zonewright, Fleet) {
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let file = zonewright.folder().join("db");
    fs::write(&file, text(1)).unwrap();
    let places = Places::choose();
    zonewright.configure(&format!(
        "    file {} {ZONE}\n    history {{\n        versions {versions}\n    }}\n{}",
        file.display(),
        places.corefile()
    ));
    zonewright.start();
    let fleet = places.start(&zonewright);
    fleet.wait_until_equal(&zonewright, FOLLOW);
    fleet.assert_equal(&zonewright);
    (zonewright, fleet)
}

/// Makes ten thousand versions in the store of a stopped server. Each moves one host.
fn make_versions(zonewright: &Zonewright) {
    let limits = MemoryLimits {
        steps: 1000,
        octets: 16 << 20,
    };
    // Nothing is old by this clock: versions leave by their number.
    let (mut journal, _) = Journal::open(&zonewright.state(), Arc::new(|| 0)).unwrap();
    let apex: Name = format!("{ZONE}.").parse().unwrap();
    let mut version = journal.load(&apex, limits).unwrap().version.unwrap();
    let now = version.time_ms;
    for number in 0..AWAY {
        let host = number % MOVING;
        // The last round equals the file at the next start.
        let address = if number < AWAY - MOVING {
            let [.., third, fourth] = number.to_be_bytes();
            Ipv4Addr::new(10, 200, third, fourth)
        } else {
            Ipv4Addr::from(0x0a02_0000 + host)
        };
        let host: Name = format!("host-{host}.{ZONE}.").parse().unwrap();
        let (rtype, rdata) = Rdata::address(address.into());
        let mut records = vec![(rtype, Ttl::decode(60), rdata)];
        let mut edit = Edit::new(&version.contents);
        edit.set(Node::build(&host, &apex, &mut records).unwrap(), 0);
        let serial = version.serial.next(1);
        let next = Candidate::new(
            Some(&version),
            edit.finish(),
            serial,
            now,
            vec![Vec::new()],
            limits,
        );
        version = next.version().clone();
        journal.commit(vec![next]).unwrap();
    }
    journal.close().unwrap();
}

/// The kind of a reply, and its number of records.
type Reply = (String, u32);

/// Stops all secondaries while the versions are made, and starts them again. Returns the replies that they got, by the
/// primary's log.
fn away(versions: u32) -> Vec<(Kind, Vec<Reply>)> {
    let (mut zonewright, mut fleet) = start(versions);
    for kind in Kind::ALL {
        fleet.member(kind).stop();
    }
    zonewright.stop();
    let old = zonewright.transfers().len();
    make_versions(&zonewright);
    fs::write(zonewright.folder().join("db"), text(2)).unwrap();
    zonewright.start();
    for kind in Kind::ALL {
        fleet.member(kind).resume();
    }
    fleet.wait_until_equal(&zonewright, FOLLOW);
    // Before the transfers of the test itself, which compares the zone.
    let taken = zonewright.transfers().split_off(old);
    fleet.assert_equal(&zonewright);
    let replies = |kind: Kind| {
        let key = kind.knows_tsig().then(|| format!("{}.key.", kind.name()));
        let own = taken.iter().filter(|it| it.key == key);
        (kind, own.map(|it| (it.kind.clone(), it.records)).collect())
    };
    Kind::ALL.map(replies).to_vec()
}

/// With the history that it needs, the reply is one increment of what differs at the end: twenty hosts, not
/// ten thousand steps.
#[test]
fn who_was_away_for_ten_thousand_versions_takes_one_condensed_increment() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    for (kind, replies) in away(2 * AWAY) {
        // Four SOAs, and the old and the new record of each host.
        assert_eq!(replies, [("ixfr".to_owned(), 4 + 2 * MOVING)], "{kind:?}");
    }
}

/// Without that history, the reply is the whole zone, once.
#[test]
fn who_was_away_for_longer_than_history_reaches_takes_the_zone() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    for (kind, replies) in away(AWAY / 2) {
        let [(sort, records)] = &replies[..] else {
            panic!("{kind:?}: {replies:?}");
        };
        assert!(sort.contains("axfr"), "{kind:?}: {sort}");
        assert!(*records > HOSTS, "{kind:?}: {records}");
    }
}
