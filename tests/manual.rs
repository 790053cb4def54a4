//! Runs the commands of the README and the manual in the order of each page, and compares what they print.
//!
//! A block marked `console` has commands behind `$ `, further lines of a command behind `> `, and their output. `…` in
//! the output stands for any text, and a line `…` for any lines. Serials, times and hashes are not compared. A comment
//! `<!-- test: COMMAND -->` is run too, unseen. Servers are started in the background. Sections that need a cluster, a machine
//! or a release are run by other tests, which [`ELSEWHERE`] names. `UPDATE_DOCS=1 cargo test --test it manual` writes the output
//! into the pages.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use directives::config::{Overrides, load};
use regex::Regex;

use crate::docs::pages;
use crate::support::needs;
use crate::support::page::{ELSEWHERE, Shell, blocks, check_page, fits, headings_of_commands};

/// Makes the list of the pages with commands that are run, with the kinds of programs that they need, and a test of each.
macro_rules! run_pages {
    ($($test:ident: $page:literal, $kinds:expr;)*) => {
        const RUN: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                check_with($page, &$kinds);
            }
        )*
    };
}

run_pages! {
    the_commands_of_the_readme_print_what_it_says: "README.md", ["dig", "bind"];
    the_commands_of_audit_print_what_it_says: "docs/audit.md", ["dig"];
    the_commands_of_backup_print_what_it_says: "docs/backup.md", [];
    the_commands_of_checking_print_what_it_says: "docs/checking.md", ["openssl", "jq", "python"];
    the_commands_of_catalogs_print_what_it_says: "docs/catalogs.md", ["dig"];
    the_commands_of_check_print_what_it_says: "docs/commands/check.md", [];
    the_commands_of_completion_print_what_it_says: "docs/commands/completion.md", [];
    the_commands_of_external_print_what_it_says: "docs/external.md", [];
    the_commands_of_gate_print_what_it_says: "docs/gate.md", ["dig"];
    the_commands_of_holds_print_what_it_says: "docs/holds.md", ["dig"];
    the_commands_of_monitoring_print_what_it_says: "docs/monitoring.md", ["curl", "dig"];
    the_commands_of_multicluster_print_what_it_says: "docs/multicluster.md", [];
    the_commands_of_quickstart_print_what_it_says: "docs/quickstart.md", ["dig", "bind"];
    the_commands_of_secondary_bind_print_what_it_says: "docs/secondary-bind.md", ["dig", "bind"];
    the_commands_of_secondary_coredns_print_what_it_says: "docs/secondary-coredns.md", [];
    the_commands_of_secondary_knot_print_what_it_says: "docs/secondary-knot.md", ["dig", "knot"];
    the_commands_of_secondary_nsd_print_what_it_says: "docs/secondary-nsd.md", ["dig", "nsd"];
    the_commands_of_secondary_pdns_print_what_it_says: "docs/secondary-pdns.md", ["dig", "pdns"];
    the_commands_of_secondary_unbound_print_what_it_says: "docs/secondary-unbound.md", ["dig", "unbound"];
    the_commands_of_siem_print_what_it_says: "docs/siem.md", ["jq"];
    the_commands_of_tsig_print_what_it_says: "docs/tsig.md", ["openssl"];
    the_commands_of_upgrade_print_what_it_says: "docs/upgrade.md", [];
    the_commands_of_why_print_what_it_says: "docs/why.md", ["dig"];
    the_commands_of_xot_print_what_it_says: "docs/xot.md", ["openssl"];
    the_commands_of_zone_files_print_what_it_says: "docs/zone-files.md", [];
}

/// The page whose commands are not compared one by one: the test looks at what they do to the cluster.
const MIGRATION: &str = "docs/coredns.md";

/// Blocks of commands of these pages are run by no test: the page, the heading, and the reason.
const NOT_RUN: &[(&str, &str, &str)] = &[];

/// Checks the commands of a page, with the kinds of programs that they need.
fn check_with(file: &str, kinds: &[&str]) {
    if !needs::lacks(kinds) {
        check_page(file);
    }
}

#[test]
fn output_is_compared_but_for_serials_times_and_gaps() {
    for (wanted, output, want) in [
        ("", "", true),
        ("", "a", false),
        ("a", "a", true),
        ("a", "a\nb", false),
        ("a …", "a b", true),
        ("a …", "b b", false),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…\nd", "a\nb\nc", false),
        ("serial 1795624728", "serial 1800000000", true),
        ("serial 1795624728", "serial 7", false),
        (
            "of 2026-11-25T16:38:48.287Z",
            "of 2027-01-01T00:00:00.000Z",
            true,
        ),
    ] {
        assert_eq!(fits(wanted, output), want, "{wanted:?} and {output:?}");
    }
}

#[test]
fn every_series_of_a_scrape_is_in_the_table_of_metrics() {
    if needs::lacks(&["curl", "dig"]) {
        return;
    }
    let mut shell = Shell::start();
    shell.run("zonewright run --corefile zones/quickstart/Corefile");
    let answers = "dig @127.0.0.1 -p 5300 cluster.local SOA +short +tries=1 | grep -q ns1";
    shell.run(&format!("until {answers}; do sleep 0.2; done"));
    let scrape = shell.run("curl -s 127.0.0.1:9153/metrics");
    let page = fs::read_to_string("docs/metrics.md").expect("the page is there");
    let row = Regex::new(r"(?m)^\| `(\w+)` \| (\w+)").expect("it is a pattern");
    let listed: BTreeSet<[&str; 2]> = row.captures_iter(&page).map(|it| it.extract().1).collect();
    let family = Regex::new(r"(?m)^# TYPE (\w+) (\w+)").expect("it is a pattern");
    let scraped: BTreeSet<[&str; 2]> = family
        .captures_iter(&scrape)
        .map(|it| it.extract().1)
        .collect();
    assert!(scraped.len() > 40, "{scrape}");
    let missing: Vec<_> = scraped.difference(&listed).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn every_section_with_commands_is_run() {
    let mut files: Vec<PathBuf> = pages();
    files.push("README.md".into());
    let mut here = BTreeSet::new();
    let mut elsewhere = BTreeSet::new();
    for file in files {
        let page = fs::read_to_string(&file).expect("the page can be read");
        let file = file.to_string_lossy().into_owned();
        for heading in headings_of_commands(&page) {
            let is_elsewhere = ELSEWHERE
                .iter()
                .chain(NOT_RUN)
                .any(|it| (it.0, it.1) == (&file, &heading));
            if is_elsewhere {
                elsewhere.insert((file.clone(), heading));
            } else {
                here.insert(file.clone());
            }
        }
        // Only a block with its output can be compared.
        let is_compared = blocks(&page, "sh").is_empty() || file == MIGRATION;
        assert!(is_compared, "{file} has commands without their output");
    }
    assert_eq!(here, RUN.iter().map(|it| (*it).to_owned()).collect());
    let listed = ELSEWHERE.iter().chain(NOT_RUN);
    let listed = listed.map(|it| (it.0.to_owned(), it.1.to_owned()));
    assert_eq!(elsewhere, listed.collect());
    for (page, heading, test) in ELSEWHERE {
        let text = fs::read_to_string(test).expect("the test can be read");
        let is_named = *page == MIGRATION || text.contains(&format!("{heading:?}"));
        assert!(text.contains(page) && is_named, "{test}: {page}, {heading}");
    }
}

#[test]
fn every_corefile_of_the_manual_is_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("Corefile");
    let mut count = 0;
    let mut wrong = Vec::new();
    for file in pages() {
        let page = fs::read_to_string(&file).expect("the page can be read");
        for block in blocks(&page, "corefile") {
            count += 1;
            fs::write(&path, block).expect("a file");
            if let Err(rejected) = load(&path, &Overrides::default(), &|_| None) {
                wrong.push(format!("{}:\n{block}\n{rejected}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 40, "{count} Corefiles");
}
