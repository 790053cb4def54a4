//! Secondaries find zones by the catalog: a new zone of the Corefile appears at BIND, Knot and PowerDNS by itself, and
//! disappears by itself. Their configurations are the output of `emit`.
//!
//! NSD reads catalogs from 4.9 on: an older one is not tried, and the test says so.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports, process, wire};
use rustix::process::Signal;
use serde_json::json;

const CATALOG: &str = "catalog.invalid";
/// The time limit of the slowest secondary.
const FOLLOW: Duration = Duration::from_secs(40);
/// The secondaries that read catalogs in Debian 12.
const READERS: [Kind; 3] = [Kind::Bind, Kind::Knot, Kind::Pdns];

/// Writes a Corefile of these zones and a catalog of them, for secondaries at these ports.
fn configure(zonewright: &mut Zonewright, zones: &[&str], readers: &[(Kind, u16)]) {
    let catalog = format!("    catalog {CATALOG}\n");
    configure_with(zonewright, zones, &[CATALOG], &catalog, readers);
}

/// The same with these catalogs, and the directives that make them.
fn configure_with(
    zonewright: &mut Zonewright,
    zones: &[&str],
    catalogs: &[&str],
    directives: &str,
    readers: &[(Kind, u16)],
) {
    let (mut keys, mut to) = (String::new(), String::new());
    let key = Key::example();
    for (kind, port) in readers {
        let name = kind.name();
        // PowerDNS asks for the zones of a catalog without a key.
        if *kind == Kind::Pdns {
            writeln!(to, "        to 127.0.0.1:{port}").unwrap();
            continue;
        }
        writeln!(
            keys,
            "        secret {name}.key {} {}",
            key.secret, key.algorithm
        )
        .unwrap();
        writeln!(to, "        to 127.0.0.1:{port} key {name}.key").unwrap();
    }
    let all: Vec<&str> = zones.iter().chain(catalogs).copied().collect();
    zonewright.set_zones(&all);
    let manifests = zonewright.folder().join("manifests");
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n{directives}    tsig {{\n{keys}    \
         }}\n    transfer {{\n{to}        allow 127.0.0.1\n    }}\n",
        manifests.display()
    ));
}

/// A folder with one Service.
fn manifests(zonewright: &Zonewright) {
    let folder = zonewright.folder().join("manifests");
    fs::create_dir(&folder).unwrap();
    let objects = [
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "namespace": "shop" },
            "spec": { "clusterIPs": ["10.0.0.7"], "ports": [{ "name": "http", "port": 80 }] },
        }),
    ];
    for (number, object) in objects.iter().enumerate() {
        fs::write(folder.join(format!("{number}.json")), object.to_string()).unwrap();
    }
}

/// Waits until all have exactly what zonewright has of these zones.
fn wait_for_all(zonewright: &Zonewright, members: &mut [Secondary], zones: &[&str]) {
    for zone in zones {
        let serial = zonewright.serial(zone).unwrap();
        let records = zonewright.zone(zone);
        for member in &mut *members {
            member.wait_for_serial(zone, serial, FOLLOW);
            member.assert_holds(zone, &records);
        }
    }
}

/// Prints the version of NSD if it is too old for catalogs.
fn note_nsd() {
    let output = std::process::Command::new(needs::program("nsd"))
        .arg("-v")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let version = text.lines().next().unwrap_or_default();
    eprintln!("NOT RUN for {version}: catalogs are read from NSD 4.9 on; emit names its zones");
}

#[test]
fn g1_zones_show_up_and_go_at_bind_knot_and_powerdns_by_themselves() {
    if needs::lacks(&["bind", "knot", "pdns", "nsd"]) {
        return;
    }
    note_nsd();
    let readers = READERS.map(|kind| (kind, ports::free()));
    let mut zonewright = Zonewright::prepare(&[]);
    manifests(&zonewright);
    configure(&mut zonewright, &["cluster.local"], &readers);
    zonewright.start();
    let mut members: Vec<Secondary> = readers
        .iter()
        .map(|(kind, port)| {
            let mut plan = Plan::new(zonewright.address(), &[CATALOG]);
            let printed = zonewright.emitted(*kind, ports::loopback(*port));
            assert!(!printed.contains("cluster.local"), "{kind:?}\n{printed}");
            plan.emitted = Some(printed);
            Secondary::start_on(*kind, &plan, *port)
        })
        .collect();
    wait_for_all(&zonewright, &mut members, &["cluster.local"]);
    let first = zonewright.serial(CATALOG);

    zonewright.stop();
    let with_reverse = ["cluster.local", "10.in-addr.arpa"];
    configure(&mut zonewright, &with_reverse, &readers);
    zonewright.start();
    wait_for_all(&zonewright, &mut members, &with_reverse);
    let second = zonewright.serial(CATALOG);
    assert_ne!(first, second);

    // A restart with the same Corefile makes no new version.
    zonewright.stop();
    zonewright.start();
    assert_eq!(zonewright.serial(CATALOG), second);

    zonewright.stop();
    configure(&mut zonewright, &["cluster.local"], &readers);
    zonewright.start();
    for member in &members {
        let (address, kind) = (member.address(), member.kind);
        let gone = || (wire::serial(address, "10.in-addr.arpa").is_none()).then_some(());
        process::wait_for(
            &format!("{kind:?} drops the zone"),
            FOLLOW,
            || member.log(),
            gone,
        );
    }
    wait_for_all(&zonewright, &mut members, &["cluster.local"]);
}

/// Knot gives the serial of a catalog over TCP alone, and accepts none that is lower.
#[test]
fn after_a_lost_disk_the_catalog_goes_on_above_that_of_knot() {
    if needs::lacks(&["knot"]) {
        return;
    }
    let readers = [(Kind::Knot, ports::free())];
    let [(kind, port)] = readers;
    let mut zonewright = Zonewright::prepare(&[]);
    manifests(&zonewright);
    configure(&mut zonewright, &["cluster.local"], &readers);
    // The catalog of the first life comes from a file: its serial is far ahead of any clock.
    let far = 3_900_000_000_u32;
    let text = fs::read_to_string(zonewright.corefile()).unwrap();
    let file = zonewright.folder().join("db");
    fs::write(
        &file,
        format!(
            "$ORIGIN {CATALOG}.\n$TTL 5\n@ SOA invalid. invalid. {far} 300 30 86400 5\n@ NS invalid.\n\
             version TXT 2\nm.zones PTR cluster.local.\n"
        ),
    )
    .unwrap();
    let by_hand = format!("file {} {CATALOG}", file.display());
    let hand_made = text
        .replace(&format!("catalog {CATALOG}"), &by_hand)
        .replace("kubernetes {", "kubernetes cluster.local {");
    fs::write(zonewright.corefile(), hand_made).unwrap();
    zonewright.start();
    fs::write(zonewright.corefile(), &text).unwrap();
    let mut plan = Plan::new(zonewright.address(), &[CATALOG]);
    plan.emitted = Some(zonewright.emitted(kind, ports::loopback(port)));
    let mut knot = Secondary::start_on(kind, &plan, port);
    wait_for_all(
        &zonewright,
        std::slice::from_mut(&mut knot),
        &["cluster.local"],
    );
    assert_eq!(serial_of_catalog(&knot, CATALOG), Some(far));

    zonewright.kill();
    fs::remove_dir_all(zonewright.state()).unwrap();
    zonewright.start();
    let first = zonewright.versions(CATALOG).pop().unwrap();
    assert_eq!(first["serial"], u64::from(far) + 1, "{first}");
    let ours = zonewright.serial(CATALOG);
    process::wait_for(
        "it has the catalog",
        FOLLOW,
        || knot.log(),
        || (serial_of_catalog(&knot, CATALOG) == ours).then_some(()),
    );
    wait_for_all(
        &zonewright,
        std::slice::from_mut(&mut knot),
        &["cluster.local"],
    );
}

/// How long a new zone may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(10);

/// A Corefile whose catalog is the name given, with zones and readers as in [`configure`]. `keys` are those of the block.
fn configure_catalog(
    zonewright: &mut Zonewright,
    (keys, catalog): (&[&str], &str),
    zones: &[&str],
    readers: &[(Kind, u16)],
) {
    let directives = format!("    catalog {catalog}\n");
    configure_with(zonewright, zones, &[catalog], &directives, readers);
    let text = fs::read_to_string(zonewright.corefile()).unwrap();
    let (_, block) = text.split_once('{').unwrap();
    let port = zonewright.address().port();
    let keys: Vec<String> = keys.iter().map(|key| format!("{key}:{port}")).collect();
    let zones = zones.join(" ");
    let block = block
        .replace("transfer {", &format!("transfer {zones} {catalog} {{"))
        .replace("kubernetes {", &format!("kubernetes {zones} {{"));
    // A follower must not read half of it.
    let aside = zonewright.corefile().with_extension("next");
    fs::write(&aside, format!("{} {{{block}", keys.join(" "))).unwrap();
    fs::rename(aside, zonewright.corefile()).unwrap();
}

/// A zone that a reload adds arrives at each secondary by the catalog. `keys` are those of the block before and after.
fn check_arrival(catalog: &str, keys: [&[&str]; 2]) {
    if needs::lacks(&["bind", "knot", "pdns"]) {
        return;
    }
    let readers = READERS.map(|kind| (kind, ports::free()));
    let mut zonewright = Zonewright::prepare(&[]);
    manifests(&zonewright);
    let zones = ["cluster.local", "10.in-addr.arpa"];
    configure_catalog(&mut zonewright, (keys[0], catalog), &zones[..1], &readers);
    zonewright.start();
    let mut members: Vec<Secondary> = readers
        .iter()
        .map(|(kind, port)| {
            let mut plan = Plan::new(zonewright.address(), &[catalog]);
            plan.emitted = Some(zonewright.emitted(*kind, ports::loopback(*port)));
            Secondary::start_on(*kind, &plan, *port)
        })
        .collect();
    wait_for_all(&zonewright, &mut members, &zones[..1]);
    // RFC 1034 section 4.3.5: secondaries poll by the SOA.
    for member in &members {
        let follows = || {
            let ours = zonewright.serial(catalog);
            (ours.is_some() && serial_of_catalog(member, catalog) == ours).then_some(())
        };
        let what = format!("{:?} has the catalog", member.kind);
        process::wait_for(&what, FOLLOW, || member.log(), follows);
    }

    configure_catalog(&mut zonewright, (keys[1], catalog), &zones, &readers);
    let start = process::now();
    zonewright.signal(Signal::USR1);
    for member in &mut members {
        let address = member.address();
        let what = format!("{:?} has the new zone", member.kind);
        let left = (start + ARRIVAL).saturating_duration_since(process::now());
        let has = || wire::serial(address, zones[1]).map(drop);
        process::wait_for(&what, left, || member.log(), has);
        eprintln!("{:?}: {:?}", member.kind, process::now() - start);
    }
    wait_for_all(&zonewright, &mut members, &zones);
}

// transfer D1: Knot and PowerDNS poll the SOA, which was REFUSED.
#[test]
fn a_new_zone_arrives_at_each_by_a_catalog_below_no_key() {
    let keys: [&[&str]; 2] = [&["cluster.local"], &["cluster.local", "10.in-addr.arpa"]];
    check_arrival(CATALOG, keys);
}

#[test]
fn a_new_zone_arrives_at_each_by_a_catalog_below_a_key() {
    let keys: [&[&str]; 2] = [
        &["cluster.local", "invalid"],
        &["cluster.local", "10.in-addr.arpa", "invalid"],
    ];
    check_arrival(CATALOG, keys);
}

/// The catalogs between which a zone moves.
const BOTH: [&str; 2] = ["old.invalid", "new.invalid"];

/// The serial of a catalog at a consumer. Knot answers for catalogs over TCP alone.
fn serial_of_catalog(member: &Secondary, catalog: &str) -> Option<u32> {
    let query = wire::Query::new(catalog, wire::SOA);
    let reply = wire::tcp(member.address(), &query).ok()?;
    reply.answers.first()?.serial()
}

/// The directives before a zone moves, when the move is announced, when it happens, and afterwards.
fn catalogs_over_time() -> [String; 4] {
    let [old, new] = BOTH;
    let (moves, other) = ("20.in-addr.arpa", "30.in-addr.arpa");
    let before =
        format!("    catalog {old} cluster.local {moves}\n    catalog {new} 10.in-addr.arpa\n");
    let announced = format!(
        "    catalog {old} cluster.local {moves} {{\n        coo {new}\n    }}\n    \
         catalog {new} 10.in-addr.arpa\n"
    );
    let moving = format!(
        "    catalog {old} cluster.local {moves} {{\n        coo {new}\n    }}\n    \
         catalog {new} 10.in-addr.arpa cluster.local {moves}\n"
    );
    let after = format!(
        "    catalog {old} {other}\n    catalog {new} 10.in-addr.arpa cluster.local {moves}\n"
    );
    [before, announced, moving, after]
}

/// Asks one again and again; how many answers it gave, and the longest time without one.
fn ask_until(server: SocketAddr, done: &AtomicBool) -> (usize, Duration) {
    let (mut answers, mut longest, mut last) = (0, Duration::ZERO, process::now());
    while !done.load(Ordering::Relaxed) {
        let is_answer = wire::serial(server, "cluster.local").is_some();
        let now = process::now();
        longest = longest.max(now - last);
        if is_answer {
            (answers, last) = (answers + 1, now);
        }
    }
    (answers, longest)
}

/// The longest that a server may be without the zone: BIND rearranges its zones for some milliseconds, and here on a busy
/// machine.
const AT_ONCE: Duration = Duration::from_millis(500);

/// Whether BIND's log says that its zones are those of this version of a catalog. It serves a version up to a second
/// before (`min-update-interval`).
fn has_worked_by(log: &str, catalog: &str, serial: u32) -> bool {
    let begins = format!("updating catalog zone '{catalog}' with serial {serial}");
    let ends = format!("catz: {catalog}: reload done: success");
    log.split_once(&begins)
        .is_some_and(|(_, rest)| rest.contains(&ends))
}

/// Waits until a consumer serves a newer catalog than that of the given serial, and works by it.
fn wait_for_new(zonewright: &Zonewright, member: &Secondary, catalog: &str, before: Option<u32>) {
    // The previous version is served until the next one is there.
    let follows = || {
        let ours = zonewright.serial(catalog);
        let is_new = ours != before;
        (is_new && ours.is_some() && serial_of_catalog(member, catalog) == ours).then_some(())
    };
    let what = format!("{:?} has the new {catalog}", member.kind);
    process::wait_for(&what, FOLLOW, || member.log(), follows);
    if member.kind == Kind::Bind {
        let serial = zonewright.serial(catalog).expect("it is served");
        let works_by_it = || has_worked_by(&member.log(), catalog, serial).then_some(());
        process::wait_for(&what, FOLLOW, || member.log(), works_by_it);
    }
}

/// RFC 9432 section 4.3.1: a zone changes its catalog by `coo`. Each consumer sees the catalogs in the
/// order in which it fetches them. BIND 9.18 rearranges its zones then and gives no answer for some
/// milliseconds.
///
/// Knot is left out: 3.2.6 to 3.5.6 do not look at `coo` (its source has no word of it). It says "member zone
/// already configured by catalog, ignoring" and purges the zone when the old catalog drops it.
#[test]
fn g5_a_zone_that_moves_to_another_catalog_is_served_again_at_once() {
    if needs::lacks(&["bind", "pdns"]) {
        return;
    }
    let kinds = [Kind::Bind, Kind::Pdns];
    let readers = kinds.map(|kind| (kind, ports::free()));
    let zones = [
        "cluster.local",
        "10.in-addr.arpa",
        "20.in-addr.arpa",
        "30.in-addr.arpa",
    ];
    let mut zonewright = Zonewright::prepare(&[]);
    manifests(&zonewright);
    let [before, announced, moving, after] = catalogs_over_time();
    configure_with(&mut zonewright, &zones, &BOTH, &before, &readers);
    zonewright.start();
    let mut members: Vec<Secondary> = readers
        .iter()
        .map(|(kind, port)| {
            let mut plan = Plan::new(zonewright.address(), &BOTH);
            plan.emitted = Some(zonewright.emitted(*kind, ports::loopback(*port)));
            Secondary::start_on(*kind, &plan, *port)
        })
        .collect();
    wait_for_all(&zonewright, &mut members, &zones[..3]);

    // From here on each is asked all the time.
    let addresses: Vec<SocketAddr> = members.iter().map(Secondary::address).collect();
    let done = AtomicBool::new(false);
    let mut serials: BTreeMap<&str, Option<u32>> = BOTH
        .iter()
        .map(|catalog| (*catalog, zonewright.serial(catalog)))
        .collect();
    std::thread::scope(|scope| {
        let asking = addresses
            .iter()
            .map(|address| scope.spawn(|| ask_until(*address, &done)));
        let asking: Vec<_> = asking.collect();
        // One catalog changes at a time: BIND asks for another try later when it sees a zone in the new one
        // before it heard from the old one that it moves.
        for (directives, changed) in [
            (&announced, &BOTH[..1]),
            (&moving, &BOTH[1..]),
            (&after, &BOTH[..1]),
        ] {
            zonewright.stop();
            configure_with(&mut zonewright, &zones, &BOTH, directives, &readers);
            zonewright.start();
            for catalog in changed {
                let before = serials[catalog];
                for member in &members {
                    wait_for_new(&zonewright, member, catalog, before);
                }
                serials.insert(*catalog, zonewright.serial(catalog));
            }
        }
        done.store(true, Ordering::Relaxed);
        for (kind, asking) in kinds.into_iter().zip(asking) {
            let (answers, longest) = asking.join().expect("the questions are asked");
            eprintln!("{kind:?}: {answers} answers, {longest:?} at most without one");
            assert!(
                answers > 50 && longest < AT_ONCE,
                "{kind:?}: {answers}, {longest:?}"
            );
        }
    });
    wait_for_all(&zonewright, &mut members, &zones);
}
