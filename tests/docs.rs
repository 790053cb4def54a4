//! Checks the documentation: the lists in the manual equal the program's, and links lead somewhere.
//!
//! `UPDATE_DOCS=1 cargo test --test it docs` writes the tables of metrics and of differences, and the pages of directives and
//! commands, but for the parts that are written by hand.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use clap::{Command, CommandFactory};
use directives::config::{Registered, Role, directives};
use ops::metrics::{METRICS, Metric, MetricKind};
use regex::Regex;
use zonewright::cli::Cli;

/// The text of a page of the manual.
fn page(name: &str) -> String {
    fs::read_to_string(Path::new("docs").join(name)).expect("the page is there")
}

/// The name of a metric in a scrape, where counters end in `_total`.
fn scraped(metric: &Metric) -> String {
    let end = match metric.kind {
        MetricKind::Counter => "_total",
        MetricKind::Gauge | MetricKind::Histogram => "",
    };
    format!("{}{end}", metric.name)
}

/// The table of metrics as its page has to show it.
fn metrics_table() -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    let of_handlers = directives().flat_map(|it| it.metrics);
    for metric in METRICS.iter().chain(of_handlers) {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let (name, labels, help) = (scraped(metric), metric.labels.join(", "), metric.help);
        table.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    table
}

/// Checks that the text between two marks of a document equals this. An empty mark is the begin or the end of the
/// document. `UPDATE_DOCS=1` writes it, also into a new document.
fn check_section(file: &str, start: &str, end: &str, wanted: &str) {
    static WRITING: Mutex<()> = Mutex::new(());
    let guard = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    if update && !Path::new(file).exists() {
        fs::write(file, format!("{start}{end}")).expect("the document can be written");
    }
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{file}: {error}"));
    let from = text.find(start).expect("the section begins") + start.len();
    let to = if end.is_empty() {
        text.len()
    } else {
        from + text[from..].find(end).expect("the section ends")
    };
    if update {
        let text = format!("{}{wanted}{}", &text[..from], &text[to..]);
        fs::write(file, text).expect("the document can be written");
    } else {
        assert_eq!(&text[from..to], wanted, "{file}");
    }
    drop(guard);
}

#[test]
fn every_metric_is_listed_on_its_page() {
    let start = "never a client's address.\n\n";
    check_section("docs/metrics.md", start, "", &metrics_table());
}

#[test]
fn every_difference_from_coredns_is_listed_on_its_page() {
    let file = "docs/differences.md";
    let last = "## Rows that no generated question shows\n\n";
    let tables = crate::differences::tables();
    check_section(file, "tests that show them.\n\n", last, &tables);
    let tests = crate::differences::table_of_tests();
    check_section(file, last, "\nThe other rows", &tests);
}

#[test]
fn every_directive_that_is_refused_is_listed_with_the_reason() {
    let start = "These have no counterpart here:\n\n";
    let table = directives::config::refused_table();
    check_section("docs/corefile.md", start, "", &table);
}

/// Where the part of a page ends that is written from the program.
const BY_HAND: &str = "\n<!-- The rest is written by hand. -->\n";
/// What that part begins with, below the title.
const WRITTEN: &str = "<!-- UPDATE_DOCS=1 writes this part. -->\n\n";

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// The arguments of a command as a table.
fn arguments_table(command: &Command, is_global: bool) -> String {
    let mut table = String::from("| argument | default | meaning |\n|---|---|---|\n");
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        if argument.is_global_set() != is_global || ["help", "version"].contains(&id) {
            continue;
        }
        let names = argument.get_value_names().unwrap_or_default();
        let names: Vec<&str> = names.iter().map(|it| it.as_str()).collect();
        let value = match argument.get_action().takes_values() {
            true => names.join(" "),
            false => String::new(),
        };
        let mut words: Vec<String> = Vec::new();
        words.extend(argument.get_short().map(|it| format!("-{it} {value}")));
        words.extend(argument.get_long().map(|it| format!("--{it} {value}")));
        if words.is_empty() {
            words.push(value);
        }
        let words: Vec<String> = words
            .iter()
            .map(|it| format!("`{}`", cell(it.trim_end())))
            .collect();
        let mut defaults: Vec<String> = argument
            .get_env()
            .map(|it| format!("`${}`", it.to_string_lossy()))
            .into_iter()
            .collect();
        let values = argument.get_default_values().iter();
        if argument.get_action().takes_values() {
            defaults.extend(values.map(|it| format!("`{}`", it.to_string_lossy())));
        }
        let help = argument.get_long_help().or(argument.get_help());
        let mut help = help.map(ToString::to_string).unwrap_or_default();
        let possible = argument.get_possible_values();
        if !possible.is_empty() && argument.get_action().takes_values() {
            let possible: Vec<String> = possible
                .iter()
                .map(|it| format!("`{}`", it.get_name()))
                .collect();
            help = format!("{} {}", full_stop(&help), possible.join(", "));
        }
        table.push_str(&format!(
            "| {} | {} | {} |\n",
            words.join(", "),
            defaults.join(", else "),
            cell(&help)
        ));
    }
    table
}

/// The text with a full stop.
fn full_stop(text: &str) -> String {
    match text.ends_with(['.', '!', '?']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// The part of a command's page that is written from the program.
fn page_of_command(command: &Command) -> String {
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    format!(
        "```text\n{usage}\n```\n\n{}\n\n{}",
        full_stop(&about),
        arguments_table(command, false)
    )
}

#[test]
fn every_command_has_its_page() {
    let mut index = String::from("| command | effect |\n|---|---|\n");
    let mut command = Cli::command();
    let global = arguments_table(&command, true);
    command.build();
    let mut names = BTreeSet::new();
    for sub in command.get_subcommands() {
        let name = sub.get_name();
        if name == "help" || sub.is_hide_set() {
            continue;
        }
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        index.push_str(&format!(
            "| [`{name}`](commands/{name}.md) | {} |\n",
            cell(&about)
        ));
        names.insert(format!("{name}.md"));
        let title = format!("# `{name}`\n\n{WRITTEN}");
        let file = format!("docs/commands/{name}.md");
        check_section(&file, &title, BY_HAND, &page_of_command(sub));
    }
    check_section(
        "docs/commands.md",
        "<!-- UPDATE_DOCS=1 writes the commands. -->\n\n",
        "\n<!-- The end of the commands. -->",
        &index,
    );
    check_section(
        "docs/commands.md",
        "All commands take these:\n\n",
        "\n<!-- The end of the arguments. -->",
        &global,
    );
    assert_eq!(files_of("docs/commands"), names);
}

/// The names of the files in a folder.
fn files_of(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("the folder can be read");
    let names = entries.map(|it| it.expect("it can be read").file_name());
    names.map(|it| it.to_string_lossy().into_owned()).collect()
}

/// The effect of a directive on queries.
const fn effect(role: Role) -> &'static str {
    match role {
        Role::Setting => "It concerns the process, its listeners or the content of zones.",
        Role::Zones => "It writes zones and answers from them.",
        Role::Shapes => "It observes queries, keeps replies or changes their form.",
        Role::Decides => "It answers some queries itself, refuses them or replaces them.",
        Role::Answers => "It answers for names that no zone has.",
    }
}

/// The part of a directive's page that is written from the program.
fn page_of_directive(directive: &Registered) -> String {
    let summary = directive.summary;
    let (first, rest) = summary.split_at(1);
    let mut text = format!(
        "```text\n{}\n```\n\n{}{rest}. {}\n",
        directive.usage,
        first.to_uppercase(),
        effect(directive.role)
    );
    let names: BTreeSet<String> = directive.metrics.iter().map(scraped).collect();
    if !names.is_empty() {
        let names: Vec<String> = names.iter().map(|it| format!("`{it}`")).collect();
        let names = names.join(", ");
        text.push_str(&format!(
            "\nMetrics: {names}. See [metrics](../metrics.md).\n"
        ));
    }
    text
}

#[test]
fn every_directive_has_its_page_with_its_options_and_no_other() {
    let mut table = String::from("| directive | meaning |\n|---|---|\n");
    let mut names = BTreeSet::new();
    let mut faults = Vec::new();
    for directive in directives() {
        let word = directive.word;
        let (usage, summary) = (cell(directive.usage), cell(directive.summary));
        table.push_str(&format!(
            "| [`{usage}`](directives/{word}.md) | {summary} |\n"
        ));
        names.insert(format!("{word}.md"));
        let file = format!("docs/directives/{word}.md");
        let title = format!("# `{word}`\n\n{WRITTEN}");
        check_section(&file, &title, BY_HAND, &page_of_directive(directive));
        let text = fs::read_to_string(&file).expect("the page is there");
        let documented: BTreeSet<&str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split([' ', '`']).next())
            .collect();
        let options = directive.options.split([',', ' ']);
        let options: BTreeSet<&str> = options
            .filter(|it| !it.is_empty() && *it != "and")
            .collect();
        for option in options.difference(&documented) {
            faults.push(format!("{file} lacks {option}"));
        }
        for option in documented.difference(&options) {
            faults.push(format!("{word} has no option {option}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let start = "[handlers](handlers.md).\n\n";
    let end = "\n## Names end at the zones";
    check_section("docs/corefile.md", start, end, &table);
    assert_eq!(files_of("docs/directives"), names);
}

#[test]
fn the_handlers_are_listed_in_the_order_of_the_chain() {
    let text = page("handlers.md");
    let chain = text.split("\n\n").nth(2).expect("the chain is there");
    let link = Regex::new(r"\[`([a-z0-9_]+)`\]").expect("it is a pattern");
    let listed: Vec<&str> = link
        .captures_iter(chain)
        .map(|it| it.extract::<1>().1[0])
        .collect();
    let is_handler = |it: &&Registered| it.role != Role::Setting;
    let known: Vec<&str> = directives().filter(is_handler).map(|it| it.word).collect();
    assert_eq!(listed, known);
}

#[test]
fn no_page_has_code_without_a_mark() {
    let mut faults = Vec::new();
    for file in pages() {
        let text = fs::read_to_string(&file).expect("the page can be read");
        let mut is_fenced = false;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{}:{}", file.display(), number + 1);
            if let Some(mark) = line.strip_prefix("```") {
                is_fenced = !is_fenced;
                let known = ["console", "sh", "corefile", "text", "yaml", "json"];
                if is_fenced && !known.contains(&mark) {
                    faults.push(format!("{place}: a block without a known mark"));
                }
            } else if !is_fenced && line.starts_with("    ") {
                faults.push(format!("{place}: code outside of a block"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The documents whose links are checked: those at the top, and the manual.
fn documents() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for name in [
        "README",
        "ARCHITECTURE",
        "CHANGELOG",
        "CONTRIBUTING",
        "SECURITY",
    ] {
        found.push(PathBuf::from(format!("{name}.md")));
    }
    found.extend(pages());
    found
}

/// The pages of the manual.
pub fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder can be read") {
            let path = entry.expect("the entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "md") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The text without blocks and spans of code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && !line.starts_with("    ") {
            let spans = line.split('`').step_by(2);
            out.push_str(&spans.collect::<Vec<_>>().join("`"));
            out.push('\n');
        }
    }
    out
}

/// The anchors of a document: of its headings, as a repository's web page and mdBook both make them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        }
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let kept = title.trim().chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
            _ => None,
        });
        found.insert(kept.collect());
    }
    found
}

/// The links of a document that lead nowhere, or to the document itself.
fn broken_links(file: &Path, text: &str, others: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let link = Regex::new(r"\]\(([^()\s]+)\)").expect("it is a pattern");
    let folder = file.parent().expect("it is in a folder");
    let prose = prose(text);
    let mut broken = Vec::new();
    for target in link.captures_iter(&prose).map(|it| it[1].to_owned()) {
        if target.contains("://") {
            continue;
        }
        let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let place = if path.is_empty() {
            file.to_owned()
        } else {
            folder.join(path)
        };
        let place: PathBuf = place.components().fold(PathBuf::new(), |mut all, part| {
            if part.as_os_str() == ".." {
                all.pop();
            } else {
                all.push(part);
            }
            all
        });
        let known = match others.get(&place) {
            Some(text) => anchor.is_empty() || anchors(text).contains(anchor),
            None => anchor.is_empty() && place.is_file(),
        };
        // The book holds nothing but the manual.
        let leaves = file.starts_with("docs") && !place.starts_with("docs");
        let stays = place == file && anchor.is_empty();
        if !known || leaves || stays {
            broken.push(format!("{}: {target}", file.display()));
        }
    }
    broken
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).expect("the document can be read");
        (file, text)
    };
    let texts: BTreeMap<PathBuf, String> = documents().into_iter().map(read).collect();
    let broken: Vec<String> = texts
        .iter()
        .flat_map(|(file, text)| broken_links(file, text, &texts))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));

    let faults = "[a](nowhere.md) [b](gate.md#nothing) [c](../Makefile) `[d](code.md)` [e](gate.md#the-gate) [f](holds.md) [g](#the-gate)";
    let found = broken_links(Path::new("docs/holds.md"), faults, &texts);
    let names = [
        "nowhere.md",
        "gate.md#nothing",
        "../Makefile",
        "holds.md",
        "#the-gate",
    ];
    assert_eq!(found, names.map(|it| format!("docs/holds.md: {it}")));
}

#[test]
fn every_page_is_in_the_contents_once() {
    let contents = page("SUMMARY.md");
    let link = Regex::new(r"\]\(([^()\s]+)\)").expect("it is a pattern");
    let mut listed: Vec<PathBuf> = link
        .captures_iter(&contents)
        .map(|it| Path::new("docs").join(&it[1]))
        .collect();
    listed.sort();
    let mut pages = pages();
    pages.retain(|it| !it.ends_with("SUMMARY.md"));
    assert_eq!(listed, pages);
}

#[test]
fn the_readme_is_short() {
    let text = fs::read_to_string("README.md").expect("the README is there");
    let lines = text.lines().count();
    assert!(lines <= 200, "{lines} lines: move some to the manual");
}

#[test]
fn the_openapi_description_is_the_one_that_is_served() {
    check_section(
        "docs/history-api.openapi.json",
        "",
        "",
        api::openapi::text(),
    );
}
