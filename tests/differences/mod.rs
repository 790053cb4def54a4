//! Our deliberate differences from CoreDNS: one table, which `docs/differences.md` prints and the comparisons with a real
//! CoreDNS check.
//!
//! Each difference that a comparison can meet has a rule there, which turns CoreDNS's answer into ours. An answer
//! without a rule fails the comparison, and so does a rule that nothing needs. All others name the tests that show them.

mod answers;
mod etcd;
mod handlers;
mod kind;
mod logs;
mod messages;
mod names;
mod start;
mod transfers;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kind::Kind;
pub use kind::{Difference, Shown};

use crate::support::lists::all_tests;

/// All of them, by kind.
pub fn all() -> impl Iterator<Item = &'static Difference> {
    let kinds = [
        start::ROWS,
        names::ROWS,
        answers::ROWS,
        etcd::ROWS,
        transfers::ROWS,
        handlers::ROWS,
        messages::ROWS,
        logs::ROWS,
    ];
    kinds.into_iter().flatten()
}

/// The ids of those that are shown there.
pub fn shown_by(place: Shown) -> BTreeSet<&'static str> {
    let shown = all().filter(|it| it.shown == place);
    shown.map(|it| it.id).collect()
}

/// The tables in Markdown, one for each kind.
#[must_use]
pub fn tables() -> String {
    let mut text = String::new();
    for kind in Kind::ALL {
        write!(
            text,
            "## {}\n\n| id | about | CoreDNS | zonewright | because | if you depend on CoreDNS's way |\n|---|---|---|---|---|---|\n",
            kind.heading()
        )
        .expect("strings grow");
        for row in all().filter(|it| it.kind == kind) {
            let Difference {
                id,
                kind: _,
                what,
                coredns,
                ours,
                why,
                instead,
                shown: _,
            } = row;
            writeln!(
                text,
                "| {id} | {what} | {coredns} | {ours} | {why} | {instead} |"
            )
            .expect("strings grow");
        }
        text.push('\n');
    }
    text
}

/// The table of those that no generated question shows, in Markdown.
#[must_use]
pub fn table_of_tests() -> String {
    let mut text = String::from("| id | why no generated question | tests |\n|---|---|---|\n");
    for row in all() {
        if let Shown::Tests { because, tests } = row.shown {
            let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
            writeln!(text, "| {} | {because} | {} |", row.id, tests.join(", "))
                .expect("strings grow");
        }
    }
    text
}

/// What is wrong with rows.
fn faults<'a>(rows: impl Iterator<Item = &'a Difference>) -> Vec<String> {
    let tests = all_tests();
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    for row in rows {
        let id = row.id;
        if !ids.insert(id) {
            faults.push(format!("{id}: there are two"));
        }
        let texts = [row.what, row.coredns, row.ours, row.why, row.instead];
        if texts
            .iter()
            .any(|text| text.is_empty() || text.contains('|'))
        {
            faults.push(format!("{id}: a text is empty, or no cell of a table"));
        }
        let Shown::Tests { because, tests: by } = row.shown else {
            continue;
        };
        if because.is_empty() || by.is_empty() {
            faults.push(format!("{id}: neither a comparison nor a test shows it"));
        }
        for place in by {
            let (file, name) = place.split_once(' ').expect("a file and a name");
            if !tests.get(file).is_some_and(|names| names.contains(name)) {
                faults.push(format!("{id}: there is no test {name} in {file}.rs"));
            }
        }
    }
    faults
}

#[test]
fn every_difference_has_an_id_of_its_own_and_a_place_that_shows_it() {
    let found = faults(all());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Tests the check.
#[test]
fn differences_with_faults_are_found() {
    let row = all().next().expect("there are some");
    let lost = Difference {
        instead: "",
        shown: Shown::Tests {
            because: "whim",
            tests: &["tests/compare no_such_test"],
        },
        ..*row
    };
    let found = faults([row, &lost].into_iter());
    assert_eq!(
        found,
        [
            format!("{}: there are two", row.id),
            format!("{}: a text is empty, or no cell of a table", row.id),
            format!(
                "{}: there is no test no_such_test in tests/compare.rs",
                row.id
            ),
        ]
    );
}
