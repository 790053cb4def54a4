//! The style as failing tests: what a reader of this code may count on. Each rule is tried against a
//! planted fault. Which crate may know which is in `walls.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

use crate::support::lists::rust_files;

/// The text of a file.
fn text_of(file: &Path) -> String {
    fs::read_to_string(file).expect("the file can be read")
}

/// What is wrong with the opening of a file.
fn opening_fault(file: &str, text: &str) -> Option<String> {
    let first = text.lines().next().unwrap_or_default();
    let sentence = first.strip_prefix("//! ").unwrap_or_default();
    let starts = sentence
        .chars()
        .next()
        .is_some_and(|c| c.is_uppercase() || c == '`' || c == 'z');
    (!starts).then(|| format!("{file}: does not open with a sentence that says what it is"))
}

#[test]
fn files_open_with_what_they_are() {
    let faults: Vec<String> = ["src", "crates", "tests", "benches"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .filter_map(|file| opening_fault(&file.to_string_lossy(), &text_of(&file)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(opening_fault("src/a.rs", "use std::fs;\n").is_some());
}

/// The lines of the function that begins at or after the first: up to the next item at its indent.
fn body_of<'a, 'b>(lines: &'a [&'b str]) -> &'a [&'b str] {
    let Some(start) = lines.iter().position(|line| line.contains("fn ")) else {
        return &[];
    };
    let indent = lines[start].len() - lines[start].trim_start().len();
    let items = [
        "#[", "///", "fn ", "pub", "mod ", "impl", "struct", "const", "async fn",
    ];
    let begins = |line: &&str| {
        let rest = line.trim_start();
        line.len() - rest.len() == indent && items.iter().any(|item| rest.starts_with(item))
    };
    let length = lines[start + 1..]
        .iter()
        .position(begins)
        .unwrap_or(lines.len() - start - 1);
    &lines[start..=start + length]
}

/// Whether lines check something, by themselves or by one of these functions. `unwrap` and `expect` check nothing: they
/// are how a test gets at a value.
fn checks(lines: &[&str], helpers: &BTreeSet<String>) -> bool {
    let words = ["assert", "panic!", "unwrap_err", "expect_err", "Fuzz::new"];
    let is_check = |line: &&str| words.iter().any(|word| line.contains(word));
    let calls = |line: &&str| {
        let mut parts = line.split('(').rev().skip(1);
        parts.any(|before| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            helpers.contains(before.rsplit(|c| !is_part(c)).next().unwrap_or_default())
        })
    };
    lines.iter().any(is_check) || lines.iter().skip(1).any(calls)
}

/// The functions that check something, also by another one: a test that calls one checks. Where several have one name,
/// as `new` and `start` do, all of them have to.
fn helpers_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    let mut functions: BTreeMap<String, Vec<Vec<&str>>> = BTreeMap::new();
    for text in texts {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let name = line
                .split_once("fn ")
                .map(|it| it.1.split(['(', '<']).next());
            if let Some(name) = name.flatten() {
                let bodies = functions.entry(name.to_owned()).or_default();
                bodies.push(body_of(&lines[number..]).to_vec());
            }
        }
    }
    let mut helpers = BTreeSet::new();
    loop {
        let before = helpers.len();
        let more: Vec<String> = functions
            .iter()
            .filter(|(_, bodies)| bodies.iter().all(|body| checks(body, &helpers)))
            .map(|(name, _)| name.clone())
            .collect();
        helpers.extend(more);
        if helpers.len() == before {
            return helpers;
        }
    }
}

/// How an attribute begins that keeps a test from being run.
const LEFT_OUT: &str = concat!("#[", "ignore");

/// What is wrong with the names and bodies of tests.
fn test_faults(file: &str, text: &str, helpers: &BTreeSet<String>) -> Vec<String> {
    let mut faults = Vec::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate() {
        let line = line.trim();
        let place = format!("{file}:{}", number + 1);
        let is_test = line == "#[test]" || line.starts_with("#[tokio::test");
        let function = lines[number + 1..].iter().find(|line| line.contains("fn "));
        if is_test && function.is_some_and(|line| line.contains("fn test")) {
            faults.push(format!("{place}: a test's name is a statement"));
        }
        if line.starts_with(LEFT_OUT) {
            faults.push(format!("{place}: a test that is not run shows nothing"));
        }
        if is_test && !checks(body_of(&lines[number + 1..]), helpers) {
            faults.push(format!("{place}: a test that checks nothing"));
        }
    }
    faults
}

#[test]
fn tests_are_statements_that_check_something() {
    let texts: Vec<(String, String)> = ["src", "crates", "tests"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .filter(|file| !file.ends_with("tidy.rs"))
        .map(|file| (file.to_string_lossy().into_owned(), text_of(&file)))
        .collect();
    let in_tests = |file: &str| ["test", "laws", "fuzz"].iter().any(|it| file.contains(it));
    let of_tests = texts.iter().filter(|(file, _)| in_tests(file));
    let helpers = helpers_of(of_tests.map(|(_, text)| text.as_str()));
    let faults: Vec<String> = texts
        .iter()
        .flat_map(|(file, text)| test_faults(file, text, &helpers))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    // Each rule finds its fault.
    let planted_helpers = [
        "fn new() {\n    assert!(a());\n}\nfn is(a: A) {\n    assert!(a.b);\n}\n",
        "fn new() {}\nfn holds(a: A) {\n    is(a);\n}\n",
    ];
    for (planted, count) in [
        ("#[test]\nfn test_a() {\n    assert_eq!(a(), 1);\n}\n", 1),
        ("#[test]\nfn a_is_b() {\n    let a = 1;\n}\n", 1),
        ("#[test]\nfn a_is_b() {\n    let a = A::new();\n}\n", 1),
        (
            "#[test]\nfn a_is_b() {\n    let a = b().expect(\"it is there\");\n}\n",
            1,
        ),
        ("#[test]\nfn a_is_b() {\n    holds(&a());\n}\n", 0),
        (concat!("#[", "ignore]\n"), 1),
        ("#[test]\nfn a_is_b() {\n    assert_eq!(a(), b());\n}\n", 0),
    ] {
        let found = test_faults("a.rs", planted, &helpers_of(planted_helpers));
        assert_eq!(found.len(), count, "{planted}{found:?}");
    }
}

/// The modules that a file declares, as the files they may be.
fn declared(file: &Path, text: &str) -> Vec<PathBuf> {
    let stem = file
        .file_stem()
        .and_then(|stem| stem.to_str())
        .unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_root = ["mod", "lib", "main"].contains(&stem);
    let base = if is_root {
        folder.to_path_buf()
    } else {
        folder.join(stem)
    };
    let mut files = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(place) = line.find("mod ") else {
            continue;
        };
        let before = line[..place].trim();
        if !["", "pub", "pub(crate)", "pub(super)"].contains(&before) {
            continue;
        }
        if let Some(name) = line[place + 4..].strip_suffix(';') {
            let name = name.trim_start_matches("r#");
            files.push(base.join(format!("{name}.rs")));
            files.push(base.join(name).join("mod.rs"));
        }
    }
    files
}

#[test]
fn every_file_is_compiled() {
    for folder in ["src", "crates", "tests"] {
        let files = rust_files(folder);
        let mut reached: BTreeSet<PathBuf> = files
            .iter()
            .flat_map(|file| declared(file, &text_of(file)))
            .collect();
        let is_root = |file: &&PathBuf| {
            ["src/lib.rs", "src/main.rs", "tests/main.rs"]
                .iter()
                .any(|root| file.ends_with(root))
        };
        reached.extend(files.iter().filter(is_root).cloned());
        let lost: Vec<&PathBuf> = files
            .iter()
            .filter(|file| !reached.contains(*file))
            .collect();
        assert!(lost.is_empty(), "no `mod` line names {lost:?}");
    }
    assert_eq!(
        declared(Path::new("src/a.rs"), "mod b;")[0],
        Path::new("src/a/b.rs")
    );
}

/// The labels of the grammar of names: only the schema writes them and takes names with them apart. `pin`, `prefer` and
/// `dns` are not here, they are words of directives too.
const GRAMMAR: &[&str] = &[
    "svc",
    "pod",
    "dns-version",
    "_tcp",
    "_udp",
    "_sctp",
    "_zone",
];

/// The text literals of a file that take names apart or make them, tests left out.
fn grammar_faults(file: &str, text: &str) -> Vec<String> {
    let pattern = |text| Regex::new(text).expect("the pattern is correct");
    let tests = pattern(r"#\[cfg\(test\)\]\s*(pub(\(\w+\))? )?mod \w+ \{");
    let code = tests.split(text).next().unwrap_or_default();
    // A comment, a raw string, a character, or a string.
    let token = pattern(r##"(?s)//[^\n]*|r#"(.*?)"#|'(?:\\[^']+|[^'\\])'|"((?:[^"\\]|\\.)*)""##);
    // Lengths of labels in the wire form, and what `format!` puts in.
    let separator = pattern(r"\\x..|\\0|\{[^}]*\}|\.");
    let literals = token
        .captures_iter(code)
        .filter_map(|it| it.get(1).or(it.get(2)));
    let is_message = |text: &str| text.contains(|c: char| c.is_whitespace() || c.is_uppercase());
    literals
        .filter(|it| !is_message(it.as_str()))
        .filter(|it| {
            separator
                .split(it.as_str())
                .any(|label| GRAMMAR.contains(&label))
        })
        .map(|it| {
            let line = code[..it.start()].lines().count();
            format!(
                "{file}:{line}: \"{}\": names are parsed by the schema",
                it.as_str()
            )
        })
        .collect()
}

/// `tests/comparison/shape.rs` does so too: it is an oracle beside the schema, and independent of it. `whoami` has names
/// of its own.
#[test]
fn names_are_taken_apart_by_the_schema_alone() {
    let is_other = |file: &&PathBuf| {
        let file = file.to_string_lossy();
        !["test", "laws", "crates/kubernetes/src/schema/", "/whoami/"]
            .iter()
            .any(|part| file.contains(part))
    };
    let files: Vec<PathBuf> = ["src", "crates"]
        .iter()
        .flat_map(|folder| rust_files(folder))
        .collect();
    let faults: Vec<String> = files
        .iter()
        .filter(is_other)
        .flat_map(|file| grammar_faults(&file.to_string_lossy(), &text_of(file)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (planted, count) in [
        ("match label {\n    b\"svc\" | b\"pod\" => 1,\n}\n", 2),
        ("name.strip_prefix(b\"\\x04_tcp\\x01s\")\n", 1),
        ("let name = format!(\"{service}.svc.{zone}\");\n", 1),
        ("let quote = '\"'; // \"svc\"\nlabel == \"pod\"\n", 1),
        ("let help = \"names below svc\";\n", 0),
        ("#[cfg(test)]\nmod tests {\n    let a = \"svc\";\n}\n", 0),
    ] {
        let found = grammar_faults("src/a.rs", planted);
        assert_eq!(found.len(), count, "{planted}{found:?}");
    }
}

/// What the top level of the repository has beside hidden files.
const TOP: &str = "ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md Cargo.lock Cargo.toml LICENSE Makefile README.md \
    SECURITY.md benches crates deploy docs rust-toolchain.toml src tests tools zones";

#[test]
fn files_of_a_run_are_not_in_the_repository() {
    let listed = Command::new("git")
        .args(["-c", "safe.directory=*", "ls-files"])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{listed:?}");
    let listed = String::from_utf8(listed.stdout).unwrap();
    let top: BTreeSet<&str> = { listed.lines() }
        .filter_map(|file| file.split('/').next())
        .filter(|name| !name.starts_with('.'))
        .collect();
    assert_eq!(top, TOP.split_whitespace().collect());
}
