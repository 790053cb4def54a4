//! Runs the commands of a page of the manual in a shell, and compares what they print. `tests/manual.rs` has the form of pages.
//!
//! A section is all that follows a heading up to the next one. [`ELSEWHERE`] lists the sections whose commands need more than
//! a shell.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use regex::Regex;
use tempfile::TempDir;

use super::needs;
use super::ports;
use super::process::{let_pass, now};
use super::product::copy_folder;

/// The sections whose commands need a cluster, a machine or a release: the page, the heading, and the file of the test that runs
/// them.
pub const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("docs/alerts.md", "Alerts", "tests/cluster_manual.rs"),
    (
        "docs/checking.md",
        "A note in a ConfigMap",
        "tests/cluster_manual.rs",
    ),
    (
        "docs/coredns.md",
        "Check first",
        "tests/compare_migration.rs",
    ),
    (
        "docs/coredns.md",
        "Beside, then in place of CoreDNS",
        "tests/compare_migration.rs",
    ),
    (
        "docs/history-api.md",
        "With tokens of the cluster",
        "tests/cluster_manual.rs",
    ),
    (
        "docs/history-api.md",
        "With client certificates",
        "tests/cluster_manual.rs",
    ),
    ("docs/install.md", "The image", "tests/install.rs"),
    (
        "docs/install.md",
        "With kustomize",
        "tests/cluster_manual.rs",
    ),
    ("docs/install.md", "With Helm", "tests/cluster_manual.rs"),
    (
        "docs/install.md",
        "Secondaries of `hidden-primary`",
        "tests/cluster_manual.rs",
    ),
    ("docs/install.md", "Build", "tests/install.rs"),
    ("docs/install.md", "With a package", "tests/install.rs"),
    ("docs/install.md", "Without a package", "tests/install.rs"),
    ("docs/install.md", "Verify a download", "tests/release.rs"),
    (
        "docs/quickstart-cluster.md",
        "From outside",
        "tests/cluster_manual.rs",
    ),
    (
        "docs/quickstart-cluster.md",
        "In the cluster",
        "tests/cluster_manual.rs",
    ),
];

/// The ports of the example, which each run replaces by its own.
const PORTS: [u16; 5] = [5300, 5301, 8080, 8181, 9153];
/// The folder that a page shows in place of the one where its commands run.
const FOLDER: &str = "/home/you/zonewright";
/// How long the output of a command may take to be as the page says.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long to wait between two looks at a command that runs.
const POLL: Duration = Duration::from_millis(200);
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
const READERS: &[&str] = &[
    "dig",
    "kdig",
    "curl",
    "cat",
    "grep",
    "zonewright",
    "kubectl -n zonewright exec",
    "kubectl -n kube-system exec",
];
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
    /// The heading above it.
    heading: String,
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    (text.len() < line.len())
        .then(|| text.strip_prefix(' '))
        .flatten()
}

/// The commands of a page.
fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_console = false;
    let mut is_fenced = false;
    let mut current = String::new();
    for (number, line) in text.lines().enumerate() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            is_console = is_fenced && line == "```console";
        } else if let Some(text) = heading(line).filter(|_| !is_fenced) {
            text.clone_into(&mut current);
        } else if let Some(command) = line
            .strip_prefix("<!-- test: ")
            .and_then(|rest| rest.strip_suffix(" -->"))
        {
            steps.push(Step {
                command: command.to_owned(),
                output: None,
                heading: current.clone(),
            });
        } else if let Some(command) = line.strip_prefix("    cargo run ").filter(|_| !is_fenced) {
            steps.push(Step {
                command: format!("cargo run {command}"),
                output: None,
                heading: current.clone(),
            });
        } else if is_console {
            let before = steps.last_mut();
            if let Some(command) = line.strip_prefix("$ ") {
                steps.push(Step {
                    command: command.to_owned(),
                    output: Some(number + 1..number + 1),
                    heading: current.clone(),
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

/// A shell in a folder.
pub struct Shell {
    bash: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    ports: BTreeMap<u16, u16>,
    /// Words of the page, and those in their place.
    words: Vec<(String, String)>,
    folder: PathBuf,
    /// Removed with it.
    _examples: Option<TempDir>,
}

impl Shell {
    /// Starts one in a folder of its own with the examples, which have ports of its own.
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut own: Vec<u16> = PORTS.iter().map(|_| ports::free()).collect();
        own.sort_unstable();
        copy_folder(Path::new("zones"), &folder.path().join("zones"));
        let programs = folder.path().join(".bin");
        fs::create_dir(&programs).expect("a folder");
        std::os::unix::fs::symlink(needs::zonewright(), programs.join("zonewright"))
            .expect("a link");
        let mut bash = Self::command(&programs);
        bash.env("MANUAL", Path::new(env!("CARGO_MANIFEST_DIR")).join("docs"))
            .env_remove("STATE_DIRECTORY");
        let mut shell = Self::run_in(folder.path(), bash);
        shell.ports = PORTS.into_iter().zip(own).collect();
        let corefile = folder.path().join("zones/quickstart/Corefile");
        let text = fs::read_to_string(&corefile).expect("the example is there");
        fs::write(&corefile, shell.with_ports(&text, false)).expect("a file");
        shell._examples = Some(folder);
        shell
    }

    /// A shell that finds these programs before others.
    pub fn command(programs: &Path) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}:/usr/sbin:/sbin", programs.display());
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc"]).env("PATH", path);
        bash
    }

    /// Starts a shell in a folder. `bash` may be a program that starts it elsewhere.
    pub fn run_in(folder: &Path, mut bash: Command) -> Self {
        // What a `make test` around this says to the `make` of a page: that it is not the first.
        for name in ["MAKEFLAGS", "MAKELEVEL", "MFLAGS"] {
            bash.env_remove(name);
        }
        let mut bash = bash
            .current_dir(folder)
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
            ports: BTreeMap::new(),
            words: Vec::new(),
            folder: folder.to_owned(),
            _examples: None,
        };
        assert_eq!(shell.run("exec 2>&1"), "");
        shell
    }

    /// Another word in place of one of the page, in commands from now on, and the other way round in their output.
    pub fn say_instead(&mut self, example: &str, own: &str) {
        self.words.push((example.to_owned(), own.to_owned()));
    }

    /// The text with our own ports and words in place of those of the example, or the other way round.
    fn with_ports(&self, text: &str, back: bool) -> String {
        let mut text = text.to_owned();
        for (example, own) in &self.ports {
            let (from, to) = if back { (own, example) } else { (example, own) };
            let pattern = Regex::new(&format!(r"\b{from}\b")).expect("it is a pattern");
            text = pattern.replace_all(&text, to.to_string()).into_owned();
        }
        for (example, own) in &self.words {
            let (from, to) = if back { (own, example) } else { (example, own) };
            text = text.replace(from, to);
        }
        text
    }

    /// Runs a command; gives what it prints.
    pub fn run(&mut self, command: &str) -> String {
        self.run_while(command, &mut || ())
    }

    /// As [`run`](Self::run); `meanwhile` is called before the command, and again and again while it runs.
    fn run_while(&mut self, command: &str, meanwhile: &mut dyn FnMut()) -> String {
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
        let end = now() + PATIENCE;
        loop {
            meanwhile();
            let line = match self.lines.recv_timeout(POLL) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) if now() < end => continue,
                Err(error) => panic!("{command}: {error}\n{output}"),
            };
            if line == END {
                break;
            }
            output.push_str(&line);
            output.push('\n');
        }
        let output = self.with_ports(output.trim_end(), true);
        let folder = self.folder.display().to_string();
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
pub fn fits(wanted: &str, output: &str) -> bool {
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

/// Runs the commands of some sections of a page; gives the page as it should be, and what was wrong.
fn run_sections(
    file: &str,
    is_wanted: &dyn Fn(&str) -> bool,
    shell: &mut Shell,
    meanwhile: &mut dyn FnMut(),
) -> (String, Vec<String>) {
    let page = fs::read_to_string(file).expect("the page is there");
    let lines: Vec<&str> = page.lines().collect();
    let update = std::env::var_os("UPDATE_DOCS").is_some();
    let mut wrong = Vec::new();
    let mut written = String::new();
    let mut copied = 0;
    for step in steps(&page).into_iter().filter(|it| is_wanted(&it.heading)) {
        let command = step.command.as_str();
        let mut output = shell.run_while(command, meanwhile);
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
            output = shell.run_while(command, meanwhile);
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
        let log = fs::read_to_string(shell.folder.join("background.log"));
        let log = log.unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(30).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        wrong.push(format!("--- servers\n{}", tail.join("\n")));
    }
    (written, wrong)
}

/// The blocks of a page with this mark.
pub fn blocks<'a>(page: &'a str, mark: &str) -> Vec<&'a str> {
    let start = format!("\n```{mark}\n");
    let rest = page.split(start.as_str()).skip(1);
    rest.map(|it| it.split("\n```").next().unwrap_or(it))
        .collect()
}

/// Checks the commands of some sections of a page in a shell. `meanwhile` is called again and again.
fn check(
    file: &str,
    is_wanted: &dyn Fn(&str) -> bool,
    shell: &mut Shell,
    meanwhile: &mut dyn FnMut(),
) {
    let (written, wrong) = run_sections(file, is_wanted, shell, meanwhile);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(file, written).expect("the page can be written");
        return;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Checks the commands of a page, but for the sections in [`ELSEWHERE`].
pub fn check_page(file: &str) {
    let is_elsewhere = |heading: &str| ELSEWHERE.iter().any(|it| (it.0, it.1) == (file, heading));
    check(
        file,
        &|it| !is_elsewhere(it),
        &mut Shell::start(),
        &mut || (),
    );
}

/// Checks the commands of these sections of a page in a shell. `meanwhile` is called before each command, and again and again
/// while it runs.
///
/// # Panics
/// When a section has no commands.
pub fn check_sections(
    file: &str,
    headings: &[&str],
    shell: &mut Shell,
    meanwhile: &mut dyn FnMut(),
) {
    let page = fs::read_to_string(file).expect("the page is there");
    for heading in headings {
        let is_there = steps(&page).iter().any(|it| it.heading == *heading);
        assert!(is_there, "{file} has no commands below {heading}");
    }
    check(file, &|it| headings.contains(&it), shell, meanwhile);
}

/// The headings of a page with blocks of commands below them, those without output too.
pub fn headings_of_commands(page: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_fenced = false;
    let mut current = String::new();
    for line in page.lines() {
        if line.starts_with("```") {
            is_fenced = !is_fenced;
            let is_new = found.last() != Some(&current);
            if is_fenced && is_new && ["```console", "```sh"].contains(&line) {
                found.push(current.clone());
            }
        } else if let Some(text) = heading(line).filter(|_| !is_fenced) {
            text.clone_into(&mut current);
        }
    }
    found
}
