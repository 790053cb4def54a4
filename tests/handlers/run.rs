//! Runs cases: CoreDNS and zonewright each with a server block and upstreams for every case, the steps of
//! several cases at once, and of each case on both servers at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::ask::{Ask, Said};
use super::case::Case;
use super::{log, metrics};
use crate::support::process::{Process, now, poll_for};
use crate::support::upstream::{Upstream, pause};
use crate::support::{namespaces, needs, ports, wire};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Cases that run at once.
const AT_ONCE: usize = 12;

/// One server's part of a case.
struct Side {
    /// Where it listens, and ports for more.
    addresses: Vec<SocketAddr>,
    upstreams: Vec<Upstream>,
    folder: PathBuf,
    /// What its server prints.
    log: PathBuf,
    /// Words that stand for others in all texts.
    words: Vec<(&'static str, String)>,
}

impl Side {
    /// Makes upstreams, files and the block.
    fn prepare(
        case: &Case,
        folder: PathBuf,
        log: PathBuf,
        words: &[(&'static str, String)],
    ) -> (Self, String) {
        std::fs::create_dir_all(&folder).unwrap();
        let upstreams: Vec<Upstream> = (1..)
            .zip(case.upstreams.split_whitespace())
            .map(|(number, mode)| Upstream::start(number, mode))
            .collect();
        let uses = |port: &usize| *port == 0 || case.lines.contains(&format!("PORT{port}"));
        let side = Self {
            addresses: (0..4).filter(uses).map(|_| ports::free_address()).collect(),
            upstreams,
            folder,
            log,
            words: words.to_vec(),
        };
        for (name, text) in case.files {
            std::fs::write(side.folder.join(name), side.fill(text)).unwrap();
        }
        let port = side.addresses[0].port();
        let keys: Vec<String> = case
            .zones
            .split(' ')
            .map(|zone| format!("{zone}:{port}"))
            .collect();
        let errors = if case.lines.contains("errors") {
            ""
        } else {
            "errors"
        };
        let block = format!(
            "{} {{\n    bind 127.0.0.1\n    {errors}\n{}\n}}\n",
            keys.join(" "),
            side.fill(case.lines)
        );
        (side, block)
    }

    /// Fills in what differs between the servers.
    fn fill(&self, text: &str) -> String {
        let mut text = text.replace("DIR", &self.folder.display().to_string());
        for (word, meant) in &self.words {
            text = text.replace(word, meant);
        }
        for (number, upstream) in (1..).zip(&self.upstreams) {
            let address = upstream.address;
            text = text.replace(&format!("UPORT{number}"), &address.port().to_string());
            text = text.replace(&format!("UP{number}"), &address.to_string());
        }
        for (number, address) in self.addresses.iter().enumerate() {
            text = text.replace(&format!("PORT{number}"), &address.port().to_string());
        }
        text
    }

    /// The upstream of this number.
    fn upstream(&self, number: Option<&str>) -> &Upstream {
        let number: usize = number
            .and_then(|it| it.parse().ok())
            .expect("a number of an upstream");
        &self.upstreams[number - 1]
    }

    /// Does one step; what it gives is to be equal for both servers.
    fn step(&self, step: &str) -> Vec<Said> {
        let note = |text: String| {
            let ttls = Vec::new();
            vec![Said { text, ttls }]
        };
        let step = &self.fill(step);
        let (word, rest) = step.split_once(' ').expect("a step has words");
        let mut words = rest.split(' ');
        match word {
            "wait" => pause(rest.parse().unwrap()),
            "up" => self.upstream(words.next()).set(words.next().unwrap()),
            "open" => self.upstream(words.next()).open(),
            "seen" => return note(format!("{:?}", &self.upstream(words.next()).seen()[..2])),
            "checked" => return note((self.upstream(words.next()).seen()[2] > 0).to_string()),
            "write" => {
                let (file, text) = rest.split_once(' ').unwrap();
                std::fs::write(self.folder.join(file), text.replace("\\n", "\n")).unwrap();
            }
            "until" => {
                let asked = || self.ask(rest).filter(|said| said.text.contains(" | "));
                let deadline = now() + PATIENCE;
                let Some(_) = poll_for(deadline, Duration::from_millis(100), asked) else {
                    return note(format!("{:?}", self.ask(rest)));
                };
            }
            "logged" => {
                let (count, text) = rest.split_once(' ').unwrap();
                return log::lines(&self.log, text, count.parse().unwrap())
                    .into_iter()
                    .flat_map(note)
                    .collect();
            }
            "metrics" => {
                let place: usize = words.next().unwrap().parse().unwrap();
                let prefixes: Vec<&str> = words.collect();
                return note(self.metrics(self.addresses[place].port(), &prefixes));
            }
            "answers" => return note(self.answers(rest)),
            "axfr" => return note(self.addresses_of(rest)),
            "times" | "burst" => {
                let (count, question) = rest.split_once(' ').unwrap();
                let count = count.parse().unwrap();
                let mut all = if word == "times" {
                    (0..count).flat_map(|_| self.ask(question)).collect()
                } else {
                    self.at_once(question, count)
                };
                all.sort();
                if word == "times" {
                    all.dedup();
                }
                return all;
            }
            _ => return self.ask(step).into_iter().collect(),
        }
        Vec::new()
    }

    /// Code, flags and answers of a reply: what is beside them has serials and times of each server's own.
    fn answers(&self, question: &str) -> String {
        let said = self.ask(question).map(|said| said.text).unwrap_or_default();
        let ends = [" ;", " +", " opt"].map(|mark| said.find(mark).unwrap_or(said.len()));
        said[..ends.into_iter().min().unwrap_or_default()].to_owned()
    }

    /// The addresses in a transfer of a zone but those of its name servers, each once.
    fn addresses_of(&self, zone: &str) -> String {
        let records = match wire::axfr(self.addresses[0], zone) {
            Ok(records) => records,
            Err(error) => return error.to_string(),
        };
        let wanted = records
            .into_iter()
            .filter(|it| [wire::A, wire::AAAA].contains(&it.rtype) && !it.owner.starts_with("ns"));
        let lines: BTreeSet<String> = wanted
            .map(|it| format!("{} {}", it.owner, it.data))
            .collect();
        lines.into_iter().collect::<Vec<_>>().join("\n")
    }

    /// Asks once, at another port if `@N` stands in the question.
    fn ask(&self, question: &str) -> Option<Said> {
        let places: Vec<&str> = question
            .split(' ')
            .filter(|it| it.starts_with('@'))
            .collect();
        let place = places.first().map_or(0, |it| it[1..].parse().unwrap());
        let question = question.replace(&format!(" @{place}"), "");
        Some(Ask::parse(&question).send(self.addresses[place]))
    }

    /// The metrics that begin with one of these words and name a port of this case, as text.
    fn metrics(&self, port: u16, prefixes: &[&str]) -> String {
        let ports = self
            .addresses
            .iter()
            .zip(["PORT0", "PORT1", "PORT2", "PORT3"]);
        let mut names: Vec<(String, &str)> = ports
            .map(|(address, name)| (address.port().to_string(), name))
            .collect();
        for (upstream, name) in self.upstreams.iter().zip(["UP1", "UP2", "UP3"]) {
            names.push((upstream.address.port().to_string(), name));
        }
        names.push((self.folder.display().to_string(), "DIR"));
        let found = metrics::scrape(port, prefixes, &names);
        let of_this_case = |name: &String| names.iter().any(|(_, it)| name.contains(it));
        let lines = found.iter().filter(|(name, _)| of_this_case(name));
        lines
            .map(|(name, value)| format!("{name} {value}\n"))
            .collect()
    }

    /// Asks this many times at once.
    fn at_once(&self, question: &str, count: usize) -> Vec<Said> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count)
                .map(|_| scope.spawn(|| self.ask(question)))
                .collect();
            let said = threads.into_iter().flat_map(|it| it.join().unwrap());
            said.collect()
        })
    }
}

/// What was found.
#[derive(Default)]
pub struct Findings {
    pub compared: usize,
    /// How often each difference was seen.
    pub used: BTreeMap<String, usize>,
    pub unexplained: Vec<Unexplained>,
    /// What we said, by case and number of the step.
    ours: BTreeMap<(&'static str, usize), Vec<Said>>,
}

/// A step in which the two differ without a reason.
pub struct Unexplained {
    case: &'static str,
    step: usize,
    text: String,
}

/// Compares what a step gave.
fn check(
    case: &Case,
    (number, step): (usize, &str),
    meant: Option<(&str, &str)>,
    [theirs, ours]: [Vec<Said>; 2],
    found: &mut Findings,
) {
    found.compared += 1;
    let wrong = explain(step, meant, [&theirs, &ours], found);
    found.unexplained.extend(wrong.map(|text| Unexplained {
        case: case.name,
        step: number,
        text: format!("{}: {text}", case.name),
    }));
    found.ours.insert((case.name, number), ours);
}

/// What is wrong with what a step gave.
fn explain(
    step: &str,
    meant: Option<(&str, &str)>,
    [theirs, ours]: [&[Said]; 2],
    found: &mut Findings,
) -> Option<String> {
    let same = theirs.len() == ours.len() && theirs.iter().zip(ours).all(|(a, b)| a.same(b));
    let show = |all: &[Said]| {
        all.iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n            ")
    };
    match meant {
        Some((id, text)) => {
            *found.used.entry(id.to_owned()).or_default() += 1;
            let declared = crate::differences::all().any(|it| it.id == id);
            let is_wrong = same || !declared || ours.iter().any(|said| said.to_string() != text);
            let (theirs, ours) = (show(theirs), show(ours));
            is_wrong.then(|| {
                format!("{step}\n  CoreDNS   {theirs}\n  zonewright {ours}\n  meant ({id}) {text}")
            })
        }
        None => (!same).then(|| {
            let (theirs, ours) = (show(theirs), show(ours));
            format!("{step}\n  CoreDNS   {theirs}\n  zonewright {ours}")
        }),
    }
}

/// Runs one case on both servers.
fn run(case: &Case, sides: &[Side; 2], findings: &Mutex<Findings>) {
    let lines = case.script.lines().map(str::trim);
    for (number, line) in lines.filter(|line| !line.is_empty()).enumerate() {
        let (step, meant) = match line.split_once(" != ") {
            None => (line, None),
            Some((step, meant)) => (step, meant.split_once(": ")),
        };
        let said = std::thread::scope(|scope| {
            let theirs = scope.spawn(|| sides[0].step(step));
            let ours = sides[1].step(step);
            [theirs.join().unwrap(), ours]
        });
        let mut found = findings.lock().unwrap();
        check(case, (number, step), meant, said, &mut found);
    }
}

/// Starts one of the servers on a Corefile.
pub fn spawn(is_ours: bool, corefile: &Path, folder: &Path) -> Process {
    let (name, program) = if is_ours {
        ("zonewright", needs::zonewright())
    } else {
        ("CoreDNS", needs::program("coredns"))
    };
    let mut command = Command::new(program);
    if is_ours {
        command.arg("run").arg("--corefile").arg(corefile);
        command.arg("--state").arg(folder.join("state"));
    } else {
        command.arg("-conf").arg(corefile);
    }
    command.current_dir(folder).envs(namespaces::variables());
    Process::spawn(name, &mut command, &log_of(is_ours, folder))
}

/// The file of what one of the servers prints.
fn log_of(is_ours: bool, folder: &Path) -> PathBuf {
    folder.join(if is_ours {
        "log.zonewright"
    } else {
        "log.CoreDNS"
    })
}

/// Starts one of the servers and waits until all its ports are open.
fn start(is_ours: bool, corefile: &Path, folder: &Path, ports: &[SocketAddr]) -> Process {
    let mut process = spawn(is_ours, corefile, folder);
    for port in ports {
        let open = || TcpStream::connect(port).ok().map(drop);
        process.wait_for(&format!("{port} is open"), PATIENCE, open);
    }
    process
}

/// Runs all cases of a table, or those whose names contain `HANDLERS_ONLY`. Those that differ run again, alone, for on a
/// busy machine CoreDNS may wait for longer than it is asked to. What we say has to be the same both times.
///
/// # Panics
/// When an answer differs and no difference is declared.
pub fn run_all(cases: &[Case]) {
    run_all_with(cases, &[]);
}

/// The same, with words that stand for others in all texts.
///
/// # Panics
/// When an answer differs and no difference is declared.
pub fn run_all_with(cases: &[Case], words: &[(&'static str, String)]) {
    let only = std::env::var("HANDLERS_ONLY").unwrap_or_default();
    let mut left: Vec<&Case> = cases
        .iter()
        .filter(|case| case.name.contains(&only))
        .collect();
    let first = run_some(&left, AT_ONCE, words);
    assert!(
        first.compared > 0,
        "nothing was compared: HANDLERS_ONLY={only:?}"
    );
    left.retain(|case| first.unexplained.iter().any(|it| it.case == case.name));
    if left.is_empty() {
        return;
    }
    let wrong = still_wrong(&first, &run_some(&left, 1, words));
    assert!(
        wrong.is_empty(),
        "{} unexplained:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// What is wrong after the cases that differed were run again, alone: what differs then too, and what we said otherwise
/// the first time.
fn still_wrong(first: &Findings, again: &Findings) -> Vec<String> {
    let mut wrong: Vec<String> = again.unexplained.iter().map(|it| it.text.clone()).collect();
    for it in &first.unexplained {
        let [before, now] = [first, again].map(|found| found.ours.get(&(it.case, it.step)));
        let same = before.zip(now).is_some_and(|(before, now)| {
            before.len() == now.len() && before.iter().zip(now).all(|(a, b)| a.same(b))
        });
        if !same {
            wrong.push(format!("{}\n  alone, zonewright says otherwise", it.text));
        }
    }
    wrong
}

#[test]
fn an_answer_of_ours_that_is_wrong_once_is_not_forgiven() {
    let case = super::case::case("planted", "", "");
    let said = |text: &str| {
        vec![Said {
            text: text.to_owned(),
            ttls: Vec::new(),
        }]
    };
    let found = |theirs: &str, ours: &str| {
        let mut found = Findings::default();
        let said = [said(theirs), said(ours)];
        check(&case, (0, "a. A"), None, said, &mut found);
        found
    };
    let is_wrong = |first: &Findings, again: &Findings| !still_wrong(first, again).is_empty();
    assert!(is_wrong(&found("a", "b"), &found("a", "a")));
    assert!(is_wrong(&found("a", "b"), &found("a", "b")));
    assert!(!is_wrong(&found("late", "a"), &found("a", "a")));
}

/// Runs cases on servers of their own.
fn run_some(cases: &[&Case], at_once: usize, words: &[(&'static str, String)]) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut texts = [String::new(), String::new()];
    let mut sides = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        sides.push([0, 1].map(|server| {
            let folder = root.join(format!("{number}.{server}"));
            let log = log_of(server == 1, root);
            let (side, block) = Side::prepare(case, folder, log, words);
            texts[server] += &block;
            side
        }));
    }
    let _servers = [0, 1].map(|server| {
        let corefile = folder.path().join(format!("Corefile.{server}"));
        std::fs::write(&corefile, &texts[server]).unwrap();
        let ports: Vec<SocketAddr> = sides.iter().map(|it| it[server].addresses[0]).collect();
        start(server == 1, &corefile, folder.path(), &ports)
    });
    let (findings, next) = (Mutex::new(Findings::default()), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(place) =
                    Some(next.fetch_add(1, Ordering::SeqCst)).filter(|it| *it < cases.len())
                {
                    run(cases[place], &sides[place], &findings);
                }
            });
        }
    });
    let findings = findings.into_inner().unwrap();
    let Findings {
        compared,
        used,
        unexplained,
        ..
    } = &findings;
    eprintln!(
        "{} configurations, {compared} comparisons, {} unexplained, {used:?}",
        cases.len(),
        unexplained.len()
    );
    findings
}
