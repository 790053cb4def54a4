//! `doctor` with real secondaries, some of them with a wrong configuration.

use std::fs;
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::fleet::Places;
use crate::support::process::wait_for;
use crate::support::secondary::{Key, Kind, Plan, Secondary};
use crate::support::zonewright::Zonewright;
use crate::support::{needs, ports};
use serde_json::json;

const ZONE: &str = "cluster.local";
/// How long the slowest secondary may take to follow.
const FOLLOW: Duration = Duration::from_secs(30);

/// A zonewright of one zone, configured and not started.
fn prepared(transfer: &str) -> Zonewright {
    let zonewright = Zonewright::prepare(&[ZONE]);
    let folder = zonewright.folder().join("manifests");
    fs::create_dir(&folder).unwrap();
    let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } });
    fs::write(folder.join("shop.json"), object.to_string()).unwrap();
    zonewright.configure(&format!(
        "    kubernetes {{\n        manifests {}\n    }}\n{transfer}",
        folder.display()
    ));
    zonewright
}

fn doctor(zonewright: &Zonewright) -> Output {
    Command::new(needs::zonewright())
        .arg("doctor")
        .arg("--corefile")
        .arg(zonewright.corefile())
        .arg("--state")
        .arg(zonewright.state())
        .output()
        .unwrap()
}

/// What it printed, line by line.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(ToOwned::to_owned).collect()
}

#[test]
fn doctor_finds_five_followers_well() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns", "unbound"]) {
        return;
    }
    let places = Places::choose();
    let mut zonewright = prepared(&places.corefile());
    zonewright.start();
    let fleet = places.start(&zonewright);
    fleet.wait_until_equal(&zonewright, FOLLOW);
    let output = doctor(&zonewright);
    let lines = lines(&output);
    assert_eq!(lines.len(), 5, "{output:?}");
    for line in &lines {
        assert!(
            line.contains(": OK: ") && line.contains("same serial"),
            "{line}"
        );
    }
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn doctor_names_the_key_that_a_secondary_has_while_keys_are_exchanged() {
    if needs::lacks(&["bind"]) {
        return;
    }
    let (bind, key) = (ports::free(), Key::example());
    let secret = |name| format!("        secret {name} {} {}\n", key.secret, key.algorithm);
    let transfer = format!(
        "    tsig {{\n{}{}    }}\n    transfer {{\n        to 127.0.0.1:{bind} key new.key. old.key.\n    }}\n",
        secret("new.key."),
        secret("old.key."),
    );
    let mut zonewright = prepared(&transfer);
    zonewright.start();
    for has in ["old.key", "new.key"] {
        let mut plan = Plan::new(zonewright.address(), &[ZONE]);
        let printed = zonewright.emitted(Kind::Bind, ports::loopback(bind));
        plan.emitted = Some(printed.replace("new.key", has));
        let running = Secondary::start_on(Kind::Bind, &plan, bind);
        let lines = wait_for("an OK", FOLLOW, String::new, || {
            let output = doctor(&zonewright);
            output.status.success().then(|| lines(&output))
        });
        let want = format!(", key {has}., ");
        assert!(lines.len() == 1 && lines[0].contains(&want), "{lines:?}");
        drop(running);
    }
}

#[test]
fn doctor_names_a_wrong_key_a_closed_port_and_a_zone_that_is_not_there() {
    if needs::lacks(&["bind", "knot", "nsd", "pdns"]) {
        return;
    }
    let [bind, knot, nsd, pdns, closed] = [(); 5].map(|()| ports::free());
    let key = Key::example();
    let transfer = format!(
        "    tsig {{\n        secret {name} {secret} {algorithm}\n    }}\n    transfer {{\n        \
         to 127.0.0.1:{bind} 127.0.0.1:{knot} 127.0.0.1:{nsd} 127.0.0.1:{pdns} \
         127.0.0.1:{closed} key {name}\n    }}\n",
        name = key.name,
        secret = key.secret,
        algorithm = key.algorithm,
    );
    let mut zonewright = prepared(&transfer);
    zonewright.start();
    let start = |kind, port, change: &dyn Fn(String) -> String| {
        let mut plan = Plan::new(zonewright.address(), &[ZONE]);
        let printed = zonewright.emitted(kind, ports::loopback(port));
        let changed = change(printed.clone());
        assert_ne!(changed, printed);
        plan.emitted = Some(changed);
        Secondary::start_on(kind, &plan, port)
    };
    let other_secret =
        |text: String| text.replace(&key.secret, "YW5vdGhlciBzZWNyZXQgYWx0b2dldGhlcg==");
    let other_name = |text: String| text.replace(&key.name, "other.key");
    let other_zone = |text: String| text.replace(ZONE, "other.example");
    let _running = [
        start(Kind::Bind, bind, &other_secret),
        start(Kind::Knot, knot, &other_name),
        start(Kind::Nsd, nsd, &other_zone),
        start(Kind::Pdns, pdns, &other_zone),
    ];
    let output = doctor(&zonewright);
    let lines = lines(&output);
    eprintln!("{}", lines.join("\n"));
    for (port, want) in [
        (bind, "BADSIG"),
        (knot, "BADKEY"),
        (nsd, "does not serve the zone"),
        (pdns, "does not serve the zone"),
        (closed, "no server listens"),
    ] {
        let line = lines
            .iter()
            .find(|line| line.contains(&format!(":{port}: ")));
        let line = line.unwrap_or_else(|| panic!("no line for {port}: {output:?}"));
        assert!(line.contains("FAIL") && line.contains(want), "{line}");
    }
    assert_eq!(output.status.code(), Some(1), "{output:?}");
}
