//! Golden zones: each folder of `zones/` holds a Corefile, a cluster, and the zones that must come out, one file a
//! zone, as a DNS operator reads them.
//!
//! `UPDATE_ZONES=1 cargo test --test it golden` writes them again: read the difference before you commit it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use directives::config::{Overrides, load};
use zonewright::cli::{RenderedZone, render};

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir("zones")
        .expect("the zones folder is there")
        .map(|entry| entry.expect("the zones folder can be read").path())
        .filter(|path| path.join("Corefile").exists())
        .collect();
    cases.sort();
    cases
}

/// The file of a zone in a case.
fn file_of(case: &Path, zone: &RenderedZone) -> PathBuf {
    case.join(format!("{}zone", zone.zone))
}

/// The zones of a case as they come out now.
async fn rendered(case: &Path) -> Vec<RenderedZone> {
    let loaded = load(&case.join("Corefile"), &Overrides::default(), &|_| None)
        .unwrap_or_else(|rejected| panic!("{}:\n{rejected}", case.display()));
    render(&loaded.config)
        .await
        .unwrap_or_else(|error| panic!("{}: {error:#}", case.display()))
}

#[tokio::test]
async fn every_case_gives_exactly_its_zones() {
    let update = std::env::var_os("UPDATE_ZONES").is_some();
    let cases = cases();
    assert!(cases.len() >= 2, "cases found: {cases:?}");
    let mut wrong = Vec::new();
    for case in &cases {
        let zones = rendered(case).await;
        let mut files = BTreeSet::new();
        for zone in &zones {
            let file = file_of(case, zone);
            if update {
                fs::write(&file, &zone.text).expect("the zone file can be written");
            }
            let want = fs::read_to_string(&file).unwrap_or_default();
            if want != zone.text {
                wrong.push(format!(
                    "{}\n{}",
                    file.display(),
                    difference(&want, &zone.text)
                ));
            }
            files.insert(file);
        }
        let on_disk = fs::read_dir(case)
            .expect("the case can be read")
            .map(|e| e.unwrap().path());
        for file in on_disk.filter(|file| file.extension().is_some_and(|e| e == "zone")) {
            if !files.contains(&file) {
                wrong.push(format!("{}: no zone of the Corefile", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The lines that differ.
fn difference(want: &str, got: &str) -> String {
    let (want_lines, got_lines): (BTreeSet<&str>, BTreeSet<&str>) =
        (want.lines().collect(), got.lines().collect());
    let gone = want_lines
        .difference(&got_lines)
        .map(|line| format!("  -{line}\n"));
    let come = got_lines
        .difference(&want_lines)
        .map(|line| format!("  +{line}\n"));
    gone.chain(come).collect()
}

#[test]
fn the_difference_names_both_sides() {
    assert_eq!(difference("a\nb\n", "b\nc\n"), "  -a\n  +c\n");
}
