//! Which crate may know which: the walls of ARCHITECTURE.md, read from `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// Each crate of ours with the crates of ours that it may depend on.
const WALLS: &[(&str, &[&str])] = &[
    ("provenance", &[]),
    ("gotext", &[]),
    ("fuzz", &[]),
    ("ops", &[]),
    ("dns", &[]),
    ("corefile", &["dns"]),
    ("zone", &["dns", "ops", "provenance"]),
    ("kubernetes", &["dns", "ops", "provenance"]),
    ("zonefile", &["dns", "ops", "zone"]),
    ("transfer", &["dns", "ops", "zone"]),
    (
        "writer",
        &["dns", "kubernetes", "ops", "provenance", "zone", "zonefile"],
    ),
    (
        "server",
        &["dns", "kubernetes", "ops", "provenance", "transfer", "zone"],
    ),
    (
        "directives",
        &[
            "corefile",
            "dns",
            "gotext",
            "kubernetes",
            "ops",
            "server",
            "transfer",
            "zone",
        ],
    ),
    (
        "history",
        &["dns", "ops", "provenance", "server", "writer", "zone"],
    ),
];

/// Crates of others that only some of ours may depend on.
const FENCES: &[(&str, &[&str])] = &[
    ("sled", &["zone"]),
    ("kube", &["kubernetes"]),
    ("k8s-openapi", &["kubernetes"]),
    ("domain", &["dns", "zonefile"]),
    ("anyhow", &["zonewright"]),
    ("hickory-server", &["server"]),
];

/// A crate of ours: the crates that it depends on, tests aside.
type Crates = BTreeMap<String, BTreeSet<String>>;

/// The crates of the workspace by the names that code calls them.
fn crates() -> Crates {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .output()
        .expect("cargo can be run");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    packages.iter().map(read_crate).collect()
}

/// A package of `cargo metadata`.
fn read_crate(package: &Value) -> (String, BTreeSet<String>) {
    let plain = |name: &str| name.strip_prefix("zonewright-").unwrap_or(name).to_owned();
    let name = |of: &Value| plain(of["name"].as_str().expect("it has a name"));
    let dependencies = package["dependencies"].as_array().expect("a list");
    let used = dependencies.iter().filter(|of| of["kind"].is_null());
    (name(package), used.map(name).collect())
}

/// What the crates depend on that they may not.
fn faults(crates: &Crates) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, used) in crates {
        if name != "zonewright" {
            let Some((_, may)) = WALLS.iter().find(|(of, _)| of == name) else {
                faults.push(format!("{name} has no row in WALLS"));
                continue;
            };
            let ours = used.iter().filter(|of| crates.contains_key(*of));
            let over = ours.filter(|of| !may.contains(&of.as_str()));
            faults.extend(over.map(|of| format!("{name} must not know {of}")));
        }
        for (fenced, may) in FENCES {
            if used.contains(*fenced) && !may.contains(&name.as_str()) {
                faults.push(format!("{name} must not depend on {fenced}"));
            }
        }
    }
    faults
}

#[test]
fn crates_know_only_what_they_may() {
    let mut crates = crates();
    assert_eq!(faults(&crates), Vec::<String>::new());
    // Every wall is about a crate that exists, and finds its fault.
    for (name, _) in WALLS {
        assert!(crates.contains_key(*name), "there is no crate {name}");
    }
    for (name, other) in [
        ("zone", "kubernetes"),
        ("transfer", "server"),
        ("dns", "sled"),
    ] {
        let used = crates.get_mut(name).expect("it is a crate of ours");
        used.insert(other.to_owned());
        assert_eq!(faults(&crates).len(), 1, "{name} with {other}");
        crates.get_mut(name).expect("it is there").remove(other);
    }
}
