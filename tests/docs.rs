//! Checks the documentation: the lists in the README equal the program's.
//!
//! `UPDATE_DOCS=1 cargo test --test it docs` writes the tables of metrics, of directives and of differences.

use std::fs;
use std::sync::Mutex;

use clap::CommandFactory;
use directives::config::{Registered, Role, directives};
use ops::metrics::{METRICS, MetricKind};
use zonewright::cli::Cli;

fn readme() -> String {
    fs::read_to_string("README.md").expect("the README is there")
}

/// The table of metrics as the README has to show it.
fn metrics_table() -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    let of_handlers = directives().flat_map(|it| it.metrics);
    for metric in METRICS.iter().chain(of_handlers) {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let (name, labels, help) = (metric.name, metric.labels.join(", "), metric.help);
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    table
}

/// Checks that the text between two marks of the README equals this.
fn check_section(start: &str, end: &str, table: &str) {
    check_section_of("README.md", start, end, table);
}

/// Checks that the text between two marks of a document equals this.
fn check_section_of(file: &str, start: &str, end: &str, table: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let guard = WRITING.lock().expect("no writer fails");
    let text = fs::read_to_string(file).expect("the document is there");
    let from = text.find(start).expect("the section begins") + start.len();
    let to = from + text[from..].find(end).expect("the section ends");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let text = format!("{}{table}{}", &text[..from], &text[to..]);
        fs::write(file, text).expect("the document can be written");
    } else {
        assert_eq!(&text[from..to], table);
    }
    drop(guard);
}

#[test]
fn every_metric_stands_in_the_readme() {
    let end = "\n## What is in the zones";
    check_section("never a client's address.\n\n", end, &metrics_table());
}

#[test]
fn every_difference_from_coredns_stands_in_its_document() {
    let file = "docs/differences.md";
    let last = "## Rows that no generated question shows\n\n";
    let tables = crate::differences::tables();
    check_section_of(file, "tests that show them.\n\n", last, &tables);
    let tests = crate::differences::table_of_tests();
    check_section_of(file, last, "\nThe other rows", &tests);
}

#[test]
fn every_directive_that_is_refused_stands_in_the_readme_with_the_reason() {
    let end = "\n## Commands";
    let start = "These have no counterpart here:\n\n";
    check_section(start, end, &directives::config::refused_table());
}

#[test]
fn every_command_and_flag_stands_in_the_readme() {
    let text = readme();
    let command = Cli::command();
    for sub in command.get_subcommands() {
        let name = sub.get_name();
        assert!(
            text.contains(&format!("| `{name}")),
            "the README lacks the command {name}"
        );
        for flag in sub.get_arguments().chain(command.get_arguments()) {
            let Some(long) = flag.get_long() else {
                continue;
            };
            let known = ["help", "version"].contains(&long) || text.contains(&format!("--{long}"));
            assert!(known, "the README lacks --{long} of {name}");
        }
    }
}

#[test]
fn every_directive_stands_in_the_readme() {
    let end = "\nOptions of `kubernetes`";
    let start = "[handlers](docs/handlers.md).\n\n";
    check_section(start, end, &directives::config::directive_table());
}

/// The options in the README's table behind this text.
fn options_behind(text: &str, start: &str) -> Vec<String> {
    let table = text
        .split(start)
        .nth(1)
        .and_then(|rest| rest.split("\nOptions of ").next())
        .expect("the table is there");
    table
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split([' ', '`']).next())
        .map(ToOwned::to_owned)
        .collect()
}

fn options_of(word: &str) -> Vec<&'static str> {
    let directive = directives().find(|it| it.word == word);
    let options = directive.expect("it is a directive").options;
    let words = options.split([',', ' ']);
    words.filter(|it| !it.is_empty() && *it != "and").collect()
}

/// Checks that the documented options are the existing ones.
fn check_options(documented: &[String], word: &str) {
    let options = options_of(word);
    for option in &options {
        let found = documented.iter().any(|it| it == option);
        assert!(found, "the README lacks {option}");
    }
    for option in documented {
        assert!(options.contains(&option.as_str()), "{option} is no option");
    }
}

#[test]
fn every_option_of_kubernetes_stands_in_the_readme_and_no_other() {
    let text = readme();
    let documented = options_behind(&text, "Options of `kubernetes`");
    check_options(&documented, "kubernetes");
}

#[test]
fn every_option_of_k8s_external_stands_in_the_readme_and_no_other() {
    let text = readme();
    let documented = options_behind(&text, "Options of `k8s_external`");
    check_options(&documented, "k8s_external");
}

#[test]
fn every_option_of_etcd_stands_in_the_readme_and_no_other() {
    let text = readme();
    let documented = options_behind(&text, "Options of `etcd`");
    check_options(&documented, "etcd");
}

#[test]
fn every_handler_and_option_stands_in_the_reference_and_no_other() {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/handlers.md")).unwrap();
    let sections: Vec<&str> = text.split("\n## `").skip(1).collect();
    let words: Vec<&str> = sections
        .iter()
        .filter_map(|it| it.split('`').next())
        .collect();
    let is_handler = |it: &&Registered| !matches!(it.role, Role::Setting | Role::Zones);
    let known: Vec<&str> = directives().filter(is_handler).map(|it| it.word).collect();
    assert_eq!(
        words, known,
        "sections and handlers, both in the order of the chain"
    );
    for (section, word) in sections.iter().zip(known) {
        let documented: Vec<&str> = section
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split([' ', '`']).next())
            .collect();
        let options = options_of(word);
        for option in &options {
            assert!(
                documented.contains(option),
                "{word}: the reference lacks {option}"
            );
        }
        for option in &documented {
            assert!(options.contains(option), "{word} has no option {option}");
        }
    }
}
