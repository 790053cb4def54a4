//! Kills zonewright while history is compacted and exported: no announced version is lost, the chain is whole, and the
//! history begins where the log says.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::process::let_pass;
use crate::support::product::{CHANGE, Site, ZONES, cluster_ip};
use crate::support::wire;
use serde_json::Value;

/// How often zonewright is killed.
const ROUNDS: u64 = 12;
/// Versions of each zone that are kept: nearly every commit drops one.
const KEPT: usize = 6;
/// Services that change together: few such versions outgrow a snapshot.
const MANY: u8 = 200;

/// Services with long names that all have this port.
fn many(port: u16) -> String {
    let service = |number| cluster_ip(&format!("{}-{number}", "long".repeat(10)), number, port);
    let all: Vec<String> = (0..MANY).map(service).collect();
    all.join("---\n")
}

/// The serials in an exported history, oldest first; each version must name the hash of the one before.
fn exported(site: &Site, round: u64) -> Vec<u32> {
    let folder = format!("out-{round}");
    site.ask(&["export", "cluster.local.", "--history", "--to", &folder]);
    let text = fs::read_to_string(site.path(&folder).join("cluster.local.ndjson"))
        .expect("the history is there");
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("lines are JSON"))
        .filter(|line: &Value| line["serial"].is_u64())
        .collect();
    let hash = |line: &Value, field: &str| line[field].as_str().map(ToOwned::to_owned);
    for pair in lines.windows(2) {
        assert_eq!(hash(&pair[1], "previousHash"), hash(&pair[0], "hash"));
    }
    let serial = |line: &Value| {
        line["serial"]
            .as_u64()
            .and_then(|it| u32::try_from(it).ok())
    };
    lines.iter().filter_map(serial).collect()
}

#[test]
fn a_kill_during_compaction_and_export_loses_nothing_and_breaks_no_chain() {
    let site = Site::new();
    let history = format!("history {{\n        versions {KEPT}\n    }}");
    site.write("Corefile", &site.corefile(&history));
    site.manifest("many.yaml", &many(1000));
    let mut newest = 0;
    for round in 0..ROUNDS {
        let mut server = site.start_answering();
        for step in 0..3 {
            let old = wire::serial(site.dns, ZONES[0]).expect("it answers");
            assert!(old >= newest, "{old} after {newest}");
            let port = 1001 + u16::try_from(round * 8 + step).expect("few rounds");
            site.manifest("many.yaml", &many(port));
            newest = server.wait_for("a new serial", CHANGE, || {
                wire::serial(site.dns, ZONES[0]).filter(|serial| *serial != old)
            });
        }
        // Somebody exports while the rest of the upkeep is done, and the server dies of it.
        let folder = site.path(&format!("killed-{round}"));
        let mut export = Command::new(crate::support::needs::zonewright())
            .args(["export", "cluster.local.", "--history", "--state"])
            .arg(site.state())
            .arg("--to")
            .arg(folder)
            .stderr(Stdio::null())
            .spawn()
            .expect("zonewright starts");
        let_pass(Duration::from_millis(round * 7 % 60));
        assert!(!server.kill().success());
        // It may have been done before, or broken off; what it left is not looked at.
        let _ended = export.wait().expect("the export ends");
        // Nobody has the store now: these open it themselves, as it was left.
        site.ask(&["verify"]);
        let serials = exported(&site, round);
        assert!(serials.contains(&newest), "round {round}: {serials:?}");
        // A large change may come in two versions: the second may be stored and not be seen before the kill.
        newest = serials.last().copied().expect("it contains one");
        assert!(serials.len() <= KEPT, "round {round}: {serials:?}");
    }
}
