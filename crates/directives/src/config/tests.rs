//! Tests of whole Corefiles: their configuration and their problems.
//!
//! Statements about CoreDNS were checked by running it. Where we differ on purpose, the test says so.

mod directives;
mod fuzz;
mod grammar;
mod handlers;
mod keys;
mod questions;

use std::fmt::Write as _;

use dns::Name;

use crate::config::{Config, Loaded, Overrides, Rejected, ServerBlock, parse_text};

pub(crate) fn env(name: &str) -> Option<String> {
    let value = match name {
        "PORT" => "5353",
        "ZONE" => "example.org",
        "SPACED" => "p q",
        _ => return None,
    };
    Some(value.to_owned())
}

pub(crate) fn read(text: &str) -> Result<Loaded, Rejected> {
    parse_text("Corefile", text, &Overrides::default(), &env)
}

/// The configuration of a valid text.
pub(crate) fn config(text: &str) -> Config {
    match read(text) {
        Ok(loaded) => loaded.config,
        Err(rejected) => panic!("{text}\n{rejected}"),
    }
}

/// The only block of a valid text; `directives` are in a block of `cluster.local`.
pub(crate) fn block(directives: &str) -> ServerBlock {
    let mut servers = config(&format!("cluster.local {{\n{directives}\n}}\n")).servers;
    assert_eq!(servers.len(), 1);
    servers.remove(0)
}

/// The problems of a text, one a line.
pub(crate) fn problems(text: &str) -> Vec<String> {
    match read(text) {
        Ok(_) => Vec::new(),
        Err(rejected) => rejected.problems.iter().map(ToString::to_string).collect(),
    }
}

/// The problems of directives in a block, as `LINE:COLUMN: message`. The first directive is in line 1.
pub(crate) fn faults(directives: &str) -> Vec<String> {
    let text = format!(". {{\n{directives}\n}}\n");
    let Err(rejected) = read(&text) else {
        return Vec::new();
    };
    let said = rejected.problems.iter().map(|problem| {
        assert!(!problem.fix.is_empty(), "{problem}");
        let place = &problem.place;
        format!("{}:{}: {}", place.line - 1, place.column, problem.message)
    });
    said.collect()
}

/// The warnings for a valid text.
pub(crate) fn warnings(text: &str) -> Vec<String> {
    match read(text) {
        Ok(loaded) => loaded.warnings.iter().map(ToString::to_string).collect(),
        Err(rejected) => panic!("{text}\n{rejected}"),
    }
}

pub(crate) fn keys(text: &str) -> Vec<Vec<String>> {
    let servers = config(text).servers;
    let of_block = |block: &ServerBlock| {
        block
            .zones
            .iter()
            .map(|key| format!("{}:{}", key.apex, key.port))
            .collect()
    };
    servers.iter().map(of_block).collect()
}

/// Asserts that a text has exactly these problems. Each is given by the start of its line.
pub(crate) fn check_problems(text: &str, want: &[&str]) {
    let got = problems(text);
    let good = got.len() == want.len() && got.iter().zip(want).all(|(g, w)| g.starts_with(w));
    let mut shown = String::new();
    for line in &got {
        writeln!(shown, "{line}").expect("a string takes everything");
    }
    assert!(good, "{text}\ngot:\n{shown}want: {want:#?}");
}

pub(crate) fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

pub(crate) fn shown<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    names.into_iter().map(ToString::to_string).collect()
}
