//! Runs the commands of the README and the manual in the order of each page, and compares what they print.
//!
//! A block marked `console` has commands behind `$ `, further lines of a command behind `> `, and their output. `…` in
//! the output stands for any text, and a line `…` for any lines. Serials, times and hashes are not compared. A comment
//! `<!-- test: COMMAND -->` is run too, unseen. Servers are started in the background. A block marked `sh` needs a cluster
//! or root; [`NOT_RUN`] counts them. `UPDATE_DOCS=1 cargo test --test it manual` writes the output into the pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use directives::config::{Overrides, load};
use regex::Regex;
use tempfile::TempDir;

use crate::docs::pages;
use crate::support::needs;
use crate::support::ports;
use crate::support::process::{let_pass, now};
use crate::support::product::copy_folder;

/// Makes the list of the pages with commands that are run, with the kinds of programs that they need, and a test of each.
macro_rules! run_pages {
    ($($test:ident: $page:literal, $kinds:expr;)*) => {
        const RUN: &[&str] = &[$($page),*];

        $(
            #[test]
            fn $test() {
                check_page($page, &$kinds);
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

/// The page whose blocks of commands another test runs, with a cluster.
const RUN_ELSEWHERE: (&str, &str) = ("docs/coredns.md", "tests/compare_migration.rs");

/// The pages with blocks of commands that are not run, and how many: they need a cluster, root or a public network.
const NOT_RUN: &[(&str, usize)] = &[
    ("docs/alerts.md", 1),
    ("docs/checking.md", 1),
    ("docs/history-api.md", 2),
    ("docs/install.md", 8),
    ("docs/quickstart-cluster.md", 3),
];

/// The ports of the example, which each run replaces by its own.
const PORTS: [u16; 5] = [5300, 5301, 8080, 8181, 9153];
/// The folder that a page shows in place of the one where its commands run.
const FOLDER: &str = "/home/you/zonewright";
/// How long the output of a command may take to be as the page says.
const PATIENCE: Duration = Duration::from_secs(40);
/// Commands that start a server.
const SERVERS: &[&str] = &[
    "zonewright run",
    "named",
    "knotd",
    "nsd -d",
    "unbound",
    "pdns_server",
];
/// Commands that only read: they are repeated until their output is as the page says.
const READERS: &[&str] = &["dig", "kdig", "curl", "cat", "grep", "zonewright"];
/// Commands that change something, so that they are run once.
const ONCE: &[&str] = &[
    "zonewright freeze",
    "zonewright rollback",
    "zonewright release",
    "zonewright advance",
];

/// A command of a page.
#[derive(Debug)]
struct Step {
    /// The command, of one or more lines.
    command: String,
    /// The lines of the page with its output; none if it is not compared.
    output: Option<std::ops::Range<usize>>,
}

/// The commands of a page.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            is_console = is_fenced && line == "```console";
        } else if let Some(command) = line
            .strip_prefix("<!-- test: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        {
            steps.push(Step {
                command: command.to_owned(),
                output: None,
            });
        } else if let Some(command) = line.strip_prefix("    cargo run ").filter(|_| !is_fenced) {
            steps.push(Step {
                command: format!("cargo run {command}"),
                output: None,
            });
        } else if is_console {
            let before = steps.last_mut();
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step {
                    command: command.to_owned(),
                    output: Some(number + 1..number + 1),
                });
            } else if let (Some(step), Some(more)) = (before, line.strip_prefix("> ")) {
                step.command.push('\n');
                step.command.push_str(more);
                step.output = Some(number + 1..number + 1);
            } else if let Some(step) = steps.last_mut() {
                let output = step.output.as_mut().expect("a block begins with a command");
                output.end = number + 1;
            }
        }
    }
    steps
}

/// A shell in a folder with the examples.
struct Shell {
    bash: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    ports: BTreeMap<u16, u16>,
    folder: TempDir,
}

impl Shell {
    /// Starts it.
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut own: Vec<u16> = PORTS.iter().map(|_| ports::free()).collect();
        own.sort_unstable();
        let ports = PORTS.into_iter().zip(own).collect();
        copy_folder(Path::new("zones"), &folder.path().join("zones"));
        let programs = folder.path().join(".bin");
        fs::create_dir(&programs).expect("a folder");
        std::os::unix::fs::symlink(needs::zonewright(), programs.join("zonewright"))
            .expect("a link");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash")
            .args(["--noprofile", "--norc"])
            .current_dir(folder.path())
            .env(
                "PATH",
                format!("{}:{path}:/usr/sbin:/sbin", programs.display()),
            )
            .env("MANUAL", Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"))
            .env_remove("STATE_DIRECTORY")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let stdout = bash.stdout.take().expect("it is piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.unwrap_or_else(|error| error.to_string());
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stdin = bash.stdin.take();
        let mut shell = Self {
            bash,
            stdin,
            lines,
            ports,
            folder,
        };
        let corefile = shell.folder.path().join("zones/quickstart/Corefile");
        let text = fs::read_to_string(&corefile).expect("the example is there");
        fs::write(&corefile, shell.with_ports(&text, false)).expect("a file");
        assert_eq!(shell.run("exec 2>&1"), "");
        shell
    }

    /// The text with our own ports in place of those of the example, or the other way round.
    fn with_ports(&self, text: &str, back: bool) -> String {
        let mut text = text.to_owned();
        for (example, own) in &self.ports {
            let (from, to) = if back { (own, example) } else { (example, own) };
            let pattern = Regex::new(&format!(r"\b{from}\b")).expect("it is a pattern");
            text = pattern.replace_all(&text, to.to_string()).into_owned();
        }
        text
    }

    /// Runs a command; gives what it prints.
    fn run(&mut self, command: &str) -> String {
        const END: &str = "--- the end of the command ---";
        let command = command.replace("cargo run --release --", "zonewright");
        let mut command = self.with_ports(&command, false);
        if SERVERS.iter().any(|it| command.starts_with(it)) {
            let server = command.trim_end_matches('&').trim_end();
            command = format!("{server} >>background.log 2>&1 </dev/null &");
        }
        let stdin = self.stdin.as_mut().expect("it is open");
        writeln!(stdin, "{command}\necho; echo '{END}'").expect("bash reads");
        let mut output = String::new();
        loop {
            let line = self.lines.recv_timeout(PATIENCE);
            let line = line.unwrap_or_else(|error| panic!("{command}: {error}\n{output}"));
            if line == END {
                break;
            }
            output.push_str(&line);
            output.push('\n');
        }
        let output = self.with_ports(output.trim_end(), true);
        let folder = self.folder.path().display().to_string();
        output.replace(&folder, FOLDER)
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if let Some(mut stdin) = self.stdin.take() {
            // If bash has ended, nothing is left to end.
            let _is_gone = writeln!(stdin, "kill $(jobs -p); wait; exit").is_err();
        }
        let _status = self.bash.wait();
    }
}

/// The output without the parts that differ from run to run.
fn masked(output: &str) -> String {
    let patterns = [
        (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"\b1[5-9]\d{8}\b", "SERIAL"),
        (r"\b[0-9a-f]{64}\b", "HASH"),
    ];
    let mut text = output.to_owned();
    for (pattern, mask) in patterns {
        let pattern = Regex::new(pattern).expect("it is a pattern");
        text = pattern.replace_all(&text, mask).into_owned();
    }
    text
}

/// Whether the output is what a page says.
fn fits(wanted: &str, output: &str) -> bool {
    let mut pattern = String::from("^");
    for line in masked(wanted).lines() {
        if line.trim() == "…" {
            pattern.push_str(r"(?:.*\n)*?");
        } else {
            let parts: Vec<String> = line.split('…').map(regex::escape).collect();
            pattern.push_str(&parts.join(".*"));
            pattern.push_str(r"\n");
        }
    }
    pattern.push('$');
    let text = match output.is_empty() {
        true => String::new(),
        false => masked(output) + "\n",
    };
    Regex::new(&pattern)
        .expect("it is a pattern")
        .is_match(&text)
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

/// Runs the commands of a page; gives the page as it should be, and what was wrong.
fn run_page(file: &str) -> (String, Vec<String>) {
    let page = fs::read_to_string(file).expect("the page is there");
    let lines: Vec<&str> = page.lines().collect();
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut shell = Shell::start();
    let mut wrong = Vec::new();
    let mut written = String::new();
    let mut copied = 0;
    for step in steps(&page) {
        let command = step.command.as_str();
        let mut output = shell.run(command);
        let Some(range) = step.output else {
            continue;
        };
        let wanted = lines[range.clone()].join("\n");
        let begins = |list: &[&str]| {
            let command = command.replace("cargo run --release --", "zonewright");
            list.iter().any(|it| command.starts_with(it))
        };
        let may_repeat = begins(READERS) && !begins(ONCE) && !begins(SERVERS);
        let end = now() + if update { PATIENCE / 10 } else { PATIENCE };
        while may_repeat && !fits(&wanted, &output) && now() < end {
            let_pass(Duration::from_millis(300));
            output = shell.run(command);
        }
        for line in &lines[copied..range.start] {
            written.push_str(line);
            written.push('\n');
        }
        copied = range.end;
        if fits(&wanted, &output) {
            output = wanted;
        } else {
            let place = format!("{file}:{}", range.start);
            wrong.push(format!(
                "{place}: {command}\n{output}\n--- instead of\n{wanted}"
            ));
        }
        if !output.is_empty() {
            written.push_str(&output);
            written.push('\n');
        }
    }
    for line in &lines[copied..] {
        written.push_str(line);
        written.push('\n');
    }
    if !wrong.is_empty() {
        let log = fs::read_to_string(shell.folder.path().join("background.log"));
        let log = log.unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(30).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        wrong.push(format!("--- servers\n{}", tail.join("\n")));
    }
    (written, wrong)
}

/// Checks the commands of a page.
fn check_page(file: &str, kinds: &[&str]) {
    if needs::lacks(kinds) {
        return;
    }
    let (written, wrong) = run_page(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file, written).expect("the page can be written");
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
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

/// The blocks of a page with this mark.
pub fn blocks<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let start = format!("\n```{mark}\n");
    let rest = page.split(start.as_str()).skip(1);
    rest.map(|it| it.split("\n```").next().unwrap_or(it))
        .collect()
}

#[test]
fn every_block_of_commands_is_run_or_counted() {
    let mut files: Vec<PathBuf> = pages();
    files.push("README.md".into());
    let mut run = Vec::new();
    let mut not_run = Vec::new();
    for file in files {
        let page = fs::read_to_string(&file).expect("the page can be read");
        let file = file.to_string_lossy().into_owned();
        if !blocks(&page, "console").is_empty() {
            run.push(file.clone());
        }
        match blocks(&page, "sh").len() {
            0 => {}
            _ if file == RUN_ELSEWHERE.0 => {}
            count => not_run.push((file, count)),
        }
    }
    run.sort();
    not_run.sort();
    let mut want = RUN.to_vec();
    want.sort_unstable();
    assert_eq!(run, want);
    let not_run: Vec<(&str, usize)> = not_run
        .iter()
        .map(|(file, n)| (file.as_str(), *n))
        .collect();
    assert_eq!(not_run, NOT_RUN);
    let test = fs::read_to_string(RUN_ELSEWHERE.1).expect("the test can be read");
    assert!(test.contains(RUN_ELSEWHERE.0));
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
