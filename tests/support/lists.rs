//! Lists of cases held to the tests there are: a test that begins with a case's id (`b9_`, `s05_s06_`) must stand
//! in the list, and what the list names must be there: so neither can be forgotten or renamed unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A case: its id, what it asks for, the tests that show it (`FILE NAME`; in `src` without `.rs`), and
/// what of it is not run and why.
pub type Case = (
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

/// All Rust files below a folder.
pub fn rust_files(folder: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the folder can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// The names of the tests in a text: functions right below `#[test]` or `#[tokio::test]`, and those in
/// `proptest!`, with their attributes in between.
fn tests_of(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut is_test = false;
    for line in text.lines().map(str::trim_start) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line
            .strip_prefix("async fn ")
            .or_else(|| line.strip_prefix("fn "))
        {
            if std::mem::take(&mut is_test) {
                let end = rest.find(['(', '<']).unwrap_or(rest.len());
                names.insert(rest[..end].to_owned());
            }
        } else if !line.starts_with("#[") && !line.starts_with("//") {
            is_test = false;
        }
    }
    names
}

/// The ids a test's name begins with: `b2_b13_b17_differences…` has three.
pub fn ids_of(counts: &[(char, usize)], name: &str) -> Vec<String> {
    let parse = |part: &str| {
        let mut letters = part.chars();
        let letter = letters.next()?.to_ascii_uppercase();
        let number: usize = letters.as_str().parse().ok()?;
        let (_, count) = counts.iter().find(|(known, _)| *known == letter)?;
        (1..=*count)
            .contains(&number)
            .then(|| format!("{letter}{number}"))
    };
    name.split('_').map_while(parse).collect()
}

/// What is wrong with a list, given the tests of each file.
pub fn faults(
    counts: &[(char, usize)],
    cases: &[Case],
    tests: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<String> {
    let mut faults = Vec::new();
    let listed: Vec<&str> = cases.iter().map(|case| case.0).collect();
    let wanted: Vec<String> = counts
        .iter()
        .flat_map(|(letter, count)| (1..=*count).map(move |number| format!("{letter}{number}")))
        .collect();
    if listed != wanted {
        faults.push(format!("the ids are {listed:?}, not {wanted:?}"));
    }
    let mut shown: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (id, what, by, reason) in cases {
        if what.is_empty() || (by.is_empty() && reason.is_empty()) {
            faults.push(format!("{id}: neither a test nor a reason"));
        }
        for place in *by {
            let (file, name) = place.split_once(' ').expect("a file and a name");
            shown.insert((id, name));
            if !tests.get(file).is_some_and(|names| names.contains(name)) {
                faults.push(format!("{id}: there is no test {name} in {file}.rs"));
            }
        }
    }
    for (file, names) in tests {
        for name in names {
            for id in ids_of(counts, name) {
                if !shown.contains(&(id.as_str(), name.as_str())) {
                    faults.push(format!("{id}: {name} in {file}.rs is not listed"));
                }
            }
        }
    }
    faults
}

/// The tests of all files.
pub fn all_tests() -> BTreeMap<String, BTreeSet<String>> {
    ["src", "crates", "tests"]
        .into_iter()
        .flat_map(rust_files)
        .map(|file| {
            let text = fs::read_to_string(&file).expect("the file can be read");
            let name = Path::with_extension(&file, "");
            (name.to_string_lossy().into_owned(), tests_of(&text))
        })
        .collect()
}
