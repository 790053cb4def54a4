//! Which crate may know which: the table of ARCHITECTURE.md is held to `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use serde_json::Value;

/// What no crate may know, whatever the table says: the first never depends on the second.
const NEVER: &[(&str, &str)] = &[
    ("zone", "kubernetes"),
    ("zone", "server"),
    ("zone", "transfer"),
    ("kubernetes", "zone"),
    ("transfer", "kubernetes"),
    ("transfer", "server"),
    ("corefile", "directives"),
    ("corefile", "server"),
    ("server", "directives"),
    ("server", "kubernetes"),
    ("server", "provenance"),
    ("server", "writer"),
    ("writer", "server"),
    ("writer", "transfer"),
    ("history", "directives"),
];

/// Crates of others that only some of ours may depend on.
const FENCES: &[(&str, &[&str])] = &[
    ("sled", &["zone"]),
    ("object_store", &["archive"]),
    ("kube", &["kubernetes"]),
    ("k8s-openapi", &["kubernetes"]),
    ("domain", &["dns", "zonefile"]),
    ("anyhow", &["zonewright"]),
];

/// A crate of ours: the crates that it depends on, tests aside.
type Crates = BTreeMap<String, BTreeSet<String>>;

/// The crates of the workspace by the names that code calls them.
fn crates() -> Crates {
    packages(&["--no-deps"]).iter().map(read_crate).collect()
}

/// The packages of `cargo metadata`.
fn packages(options: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(options)
        .output()
        .expect("cargo can be run");
    let mut metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array_mut();
    std::mem::take(packages.expect("there are packages"))
}

/// The version of Rust that a package asks for: two numbers.
fn rust_of(package: &Value) -> Option<(u32, u32)> {
    let mut numbers = package["rust_version"].as_str()?.split('.');
    let mut number = || numbers.next()?.parse().ok();
    Some((number()?, number()?))
}

#[test]
fn the_version_of_rust_that_the_readme_names_is_enough_for_all_dependencies() {
    // Packages of other systems are not here.
    let here = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let all = packages(&["--filter-platform", &here]);
    let own = |package: &&Value| package["name"] == "zonewright";
    let ours = all.iter().find(own).and_then(rust_of);
    let ours = ours.expect("rust-version is in Cargo.toml");
    let newer: Vec<&Value> = all
        .iter()
        .filter(|package| rust_of(package) > Some(ours))
        .map(|package| &package["id"])
        .collect();
    assert!(all.len() > 300 && newer.is_empty(), "{newer:?}");
    // What our own code uses of std is clippy's `incompatible_msrv`.
    let readme = fs::read_to_string("README.md").expect("it is there");
    let said = format!("Rust {}.{} or later", ours.0, ours.1);
    assert!(readme.contains(&said), "{said}");
}

/// A package of `cargo metadata`.
fn read_crate(package: &Value) -> (String, BTreeSet<String>) {
    let plain = |name: &str| name.strip_prefix("zonewright-").unwrap_or(name).to_owned();
    let name = |of: &Value| plain(of["name"].as_str().expect("it has a name"));
    let dependencies = package["dependencies"].as_array().expect("a list");
    let used = dependencies.iter().filter(|of| of["kind"].is_null());
    (name(package), used.map(name).collect())
}

/// The table of crates in ARCHITECTURE.md.
fn table() -> Crates {
    let text = fs::read_to_string("ARCHITECTURE.md").expect("it is there");
    let start = text.find("## Crates").expect("it has the section");
    let end = start + text[start..].find("\n## Rules").expect("the section ends");
    let rows = text[start..end]
        .lines()
        .filter(|line| line.starts_with("| `"));
    let words = |cell: &str| {
        let words = cell.split('`').skip(1).step_by(2).map(str::to_owned);
        words.collect::<BTreeSet<String>>()
    };
    let read_row = |row: &str| {
        let cells: Vec<&str> = row.split('|').collect();
        let name = words(cells[1]).pop_first().expect("a row names a crate");
        (name, words(cells[3]))
    };
    rows.map(read_row).collect()
}

/// What the crates depend on that they may not, and what the table says that is not so.
fn faults(crates: &Crates, table: &Crates) -> Vec<String> {
    let mut faults = Vec::new();
    let ours = crates.iter().filter(|(name, _)| *name != "zonewright");
    for (name, used) in ours {
        let known = used.iter().filter(|of| crates.contains_key(*of));
        let known: BTreeSet<String> = known.cloned().collect();
        if table.get(name) != Some(&known) {
            faults.push(format!(
                "{name} depends on {known:?}, the table says {:?}",
                table.get(name)
            ));
        }
    }
    for (name, used) in crates {
        let never = NEVER
            .iter()
            .filter(|(of, other)| of == name && used.contains(*other));
        faults.extend(never.map(|(_, other)| format!("{name} must not know {other}")));
        let fenced = FENCES
            .iter()
            .filter(|(of, may)| used.contains(*of) && !may.contains(&name.as_str()));
        faults.extend(fenced.map(|(of, _)| format!("{name} must not depend on {of}")));
    }
    faults
}

#[test]
fn crates_know_only_what_they_may() {
    let (mut crates, mut table) = (crates(), table());
    assert_eq!(faults(&crates, &table), Vec::<String>::new());
    assert_eq!(
        table.len() + 1,
        crates.len(),
        "a row for each crate but the program"
    );
    // Each kind of fault is found, also when the table allows it.
    for (name, other) in [
        ("zone", "kubernetes"),
        ("transfer", "server"),
        ("dns", "sled"),
    ] {
        let add = |of: &mut Crates| {
            of.get_mut(name)
                .expect("a crate of ours")
                .insert(other.to_owned())
        };
        add(&mut crates);
        if other != "sled" {
            assert_eq!(faults(&crates, &table).len(), 2, "{name} with {other}");
            add(&mut table);
        }
        assert_eq!(faults(&crates, &table).len(), 1, "{name} with {other}");
        crates.get_mut(name).expect("it is there").remove(other);
        table.get_mut(name).expect("it is there").remove(other);
    }
}
