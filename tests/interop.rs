//! Real secondaries follow zonewright: BIND, Knot, NSD and PowerDNS signed, Unbound by its address.
//!
//! The cluster is a folder of manifests that changes at random. At the end, every record of every zone is compared at
//! every secondary.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::fleet::Places;
use crate::support::needs;
use crate::support::process::{now, wait_for};
use crate::support::random::{Act, Cluster, NAMESPACES};
use crate::support::secondary::{Kind, Transfers};
use crate::support::zonewright::Zonewright;
use serde_json::{Value, json};

/// Names, and the addresses of Services and endpoints of both families: 10.0.0.0/8 and fd00:10::/32.
const ZONES: [&str; 3] = [
    "cluster.local",
    "10.in-addr.arpa",
    "0.1.0.0.0.0.d.f.ip6.arpa",
];

/// The time limit from the folder to the zone, on a machine with other work.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time limit of the slowest secondary.
const FOLLOW: Duration = Duration::from_secs(30);

/// The number of changes, and the number after which all secondaries must have followed.
const CHANGES: usize = 200;
const CHECKPOINT: usize = 20;

/// A folder of manifests, a file for each object.
struct Manifests(PathBuf);

impl Manifests {
    /// A folder with the namespaces in it.
    fn new(folder: &Path) -> Self {
        let own = Self(folder.join("manifests"));
        fs::create_dir(&own.0).unwrap();
        for name in NAMESPACES {
            own.put(
                &json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } }),
            );
        }
        own
    }

    fn file(&self, object: &Value) -> PathBuf {
        let part = |value: &Value| value.as_str().unwrap_or_default().to_lowercase();
        let metadata = &object["metadata"];
        let name = [
            part(&object["kind"]),
            part(&metadata["namespace"]),
            part(&metadata["name"]),
        ];
        self.0.join(format!("{}.json", name.join("-")))
    }

    /// Writes a file as a careful program does: under another name, which it then renames.
    fn put(&self, object: &Value) {
        let file = self.file(object);
        let aside = file.with_extension("new");
        fs::write(&aside, object.to_string()).unwrap();
        fs::rename(aside, file).unwrap();
    }

    fn act(&self, acts: &[Act]) {
        for act in acts {
            match act {
                Act::Put(object) => self.put(object),
                Act::Delete(object) => fs::remove_file(self.file(object)).unwrap(),
            }
        }
    }
}

/// Makes a change and waits until the zone shows all of it. A change may come in several versions, so the next serial
/// alone does not tell that it is there.
fn change(zonewright: &Zonewright, manifests: &Manifests, acts: &[Act]) {
    manifests.act(acts);
    let rendered = zonewright.rendered(ZONES[0]);
    let is_served = || (zonewright.served(ZONES[0]) == rendered).then_some(());
    wait_for(
        &format!("the zone with {acts:?}"),
        PATIENCE,
        || zonewright.log(),
        is_served,
    );
}

/// Checks that the zone equals a whole rendering of the folder, without the parts that count versions.
fn assert_is_what_render_gives(zonewright: &Zonewright) {
    for zone in ZONES {
        let (served, rendered) = (zonewright.served(zone), zonewright.rendered(zone));
        assert!(!served.is_empty(), "{zone}");
        assert_eq!(served, rendered, "{zone}");
    }
}

/// Each secondary takes each zone whole once. Then 200 random changes reach it only as differences, and one that was
/// stopped catches up in the same way. At the end each has exactly our zones.
#[test]
fn five_secondaries_follow_two_hundred_random_changes_by_ixfr() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    let mut zonewright = Zonewright::prepare(&ZONES);
    let manifests = Manifests::new(zonewright.folder());
    let mut cluster = Cluster::new(fuzz::seed());
    // So many that no difference of a checkpoint is larger than a zone, which would be sent whole.
    for _ in 0..50 {
        manifests.act(&cluster.create());
    }
    let places = Places::choose();
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n{}",
        manifests.0.display(),
        places.corefile()
    ));
    let start = now();
    zonewright.start();
    let mut fleet = places.start(&zonewright);
    fleet.wait_until_equal(&zonewright, FOLLOW);
    fleet.assert_equal(&zonewright);
    for (kind, transfers) in fleet.transfers(&zonewright) {
        let whole_once = Transfers {
            axfr: ZONES.len(),
            ixfr: 0,
        };
        assert_eq!(transfers, whole_once, "{kind:?}");
    }
    eprintln!("all hold all zones after {:?}", now() - start);

    let start = now();
    let mut slowest = Duration::ZERO;
    for number in 1..=CHANGES {
        change(&zonewright, &manifests, &cluster.change());
        if number % CHECKPOINT == 0 {
            let took = fleet.wait_until_equal(&zonewright, FOLLOW);
            slowest = slowest.max(took.last().unwrap().1);
            fleet.assert_no_second_axfr(&zonewright);
        }
    }
    eprintln!(
        "{CHANGES} changes followed in {:?}; at {} checkpoints the slowest was there after {slowest:?}; {:?}",
        now() - start,
        CHANGES / CHECKPOINT,
        fleet.transfers(&zonewright)
    );
    fleet.assert_equal(&zonewright);
    assert_is_what_render_gives(&zonewright);

    check_catches_up(&zonewright, &manifests, &mut cluster, &mut fleet);
}

/// Stops each in turn during changes; it catches up by differences.
fn check_catches_up(
    zonewright: &Zonewright,
    manifests: &Manifests,
    cluster: &mut Cluster,
    fleet: &mut crate::support::fleet::Fleet,
) {
    for kind in Kind::ALL {
        fleet.member(kind).stop();
    }
    for _ in 0..5 {
        change(zonewright, manifests, &cluster.change());
    }
    let start = now();
    for kind in Kind::ALL {
        fleet.member(kind).resume();
    }
    // A secondary that does not ask at its start is notified: a NOTIFY without an answer is repeated.
    let took = fleet.wait_until_equal(zonewright, FOLLOW);
    eprintln!(
        "caught up after {:?}, {took:?}; {:?}",
        now() - start,
        fleet.transfers(zonewright)
    );
    fleet.assert_no_second_axfr(zonewright);
    fleet.assert_equal(zonewright);
}
