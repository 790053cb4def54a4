//! CoreDNS as a secondary, with the Corefile that `emit` prints.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::support::process::Process;
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports, wire};

/// The zone.
const ZONE: &str = "cluster.local";

#[test]
fn coredns_serves_the_zone_with_what_emit_prints() {
    if needs::lacks(&["coredns"]) {
        return;
    }
    let address = ports::loopback(ports::free());
    let mut zonewright = Zonewright::prepare(&[ZONE]);
    let folder = zonewright.folder().to_owned();
    fs::create_dir(folder.join("manifests")).unwrap();
    let object = r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}"#;
    fs::write(folder.join("manifests/shop.json"), object).unwrap();
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n    transfer {{\n        to {address}\n    }}\n",
        folder.join("manifests").display()
    ));
    zonewright.start();
    let printed = zonewright.command(&["emit", "coredns"]);
    let file = folder.join("Corefile.secondary");
    fs::write(&file, printed).unwrap();
    let mut command = Command::new(needs::program("coredns"));
    command.arg("-conf").arg(&file);
    let mut coredns = Process::spawn("CoreDNS", &mut command, &folder.join("log.secondary"));
    let ours = zonewright.serial(ZONE);
    assert!(ours.is_some());
    coredns.wait_for("our serial", Duration::from_secs(30), || {
        (wire::serial(address, ZONE) == ours).then_some(())
    });
}
