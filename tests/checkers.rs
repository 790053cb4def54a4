//! Checks every zone of `zones/`, and the output of `show`, with the checkers of three DNS projects: BIND's
//! `named-checkzone`, Knot's `kzonecheck` and `ldns-read-zone`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::needs::{lacks, program};
use crate::support::product::{START, Site, ZONES, cluster_ip, headless};

/// Complaints that are expected: an IPv6 address that begins with `::` gives a label that begins with a dash, as in
/// CoreDNS. BIND warns and loads it.
const MEANT: [&str; 1] = ["--5.six-set.app.svc.cluster.local: bad "];

/// A checker: its kind for `needs`, its program, and the arguments for a zone and a file.
type Checker = (&'static str, &'static str, fn(&mut Command, &str, &Path));

const CHECKERS: [Checker; 3] = [
    ("checkzone", "named-checkzone", |command, zone, file| {
        // `local`: only names within the zone can be looked up here.
        command.args(["-i", "local", "-k", "warn", zone]).arg(file);
    }),
    ("checkzone", "kzonecheck", |command, zone, file| {
        command.args(["-o", zone]).arg(file);
    }),
    ("ldns", "ldns-read-zone", |command, _, file| {
        command.arg(file);
    }),
];

/// The complaints of a checker about a zone.
fn complaints(checker: &Checker, zone: &str, file: &Path) -> Vec<String> {
    let (_, name, arguments) = checker;
    let mut command = Command::new(program(name));
    arguments(&mut command, zone, file);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the checker starts");
    let text = [stdout, stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let words = ["warning", "error", "bad ", "has no", "not ", "fail"];
    let mut found: Vec<String> = text
        .lines()
        // ldns-read-zone prints the zone itself.
        .filter(|line| !line.contains(" IN ") && !line.contains("\tIN\t"))
        .filter(|line| words.iter().any(|word| line.to_lowercase().contains(word)))
        .filter(|line| !line.contains("No semantic error") && !line.contains("no error"))
        .filter(|line| !MEANT.iter().any(|meant| line.contains(meant)))
        .map(|line| format!("{name} {}: {line}", file.display()))
        .collect();
    if !status.success() && found.is_empty() {
        found.push(format!("{name} {}: {status}\n{text}", file.display()));
    }
    found
}

fn all_complaints(zones: &[(String, PathBuf)]) -> Vec<String> {
    CHECKERS
        .iter()
        .filter(|(kind, _, _)| !lacks(&[kind]))
        .flat_map(|checker| {
            zones
                .iter()
                .flat_map(move |(zone, file)| complaints(checker, zone, file))
        })
        .collect()
}

#[test]
fn every_golden_zone_is_accepted() {
    let mut zones = Vec::new();
    for case in fs::read_dir("zones").expect("the zones folder is there") {
        let case = case.expect("the zones folder can be read").path();
        for file in fs::read_dir(case).expect("a case can be read") {
            let file = file.expect("a case can be read").path();
            let name = file
                .file_name()
                .expect("files have names")
                .to_string_lossy();
            if let Some(zone) = name.strip_suffix("zone") {
                zones.push((zone.to_owned(), file.clone()));
            }
        }
    }
    assert!(zones.len() > 20, "{} zones found", zones.len());
    let wrong = all_complaints(&zones);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_show_prints_is_accepted() {
    let site = Site::new();
    let both = [cluster_ip("web", 1, 80), headless("set", 1, &[1, 2])];
    site.manifest("all.yaml", &both.join("---\n"));
    let mut server = site.start_answering();
    let zones: Vec<(String, PathBuf)> = ZONES
        .iter()
        .map(|zone| {
            let file = site.path(zone);
            fs::write(&file, site.ask(&["show", zone])).expect("a file can be written");
            ((*zone).to_owned(), file)
        })
        .collect();
    assert!(server.terminate(START).success());
    let wrong = all_complaints(&zones);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_checker_finds_a_planted_fault() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("zone");
    let fault = "z. 5 IN SOA ns.z. mbox.z. 1 300 30 86400 5\nz. 5 IN NS ns.z.\nns.z. 5 IN A 192.0.2.1\n\
                 a.z. 5 IN A 192.0.2.299\nb.z. 5 IN CNAME a.z.\nb.z. 5 IN A 192.0.2.2\n";
    fs::write(&file, fault).expect("a file can be written");
    for checker in CHECKERS.iter().filter(|(kind, _, _)| !lacks(&[kind])) {
        assert!(
            !complaints(checker, "z.", &file).is_empty(),
            "{}",
            checker.1
        );
    }
}
