//! What dnsperf, on the other core, counts at a server.
#![allow(dead_code, reason = "each measurement uses its own part")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::machine;
use super::subject::Subject;
use crate::support::needs;

/// The middle one.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// What dnsperf counts at one server.
pub(crate) struct Udp {
    name: &'static str,
    address: SocketAddr,
    id: u32,
    rates: Vec<f64>,
    answered: f64,
    computed: Duration,
}

/// What waiting for answers at a given rate was like.
#[derive(Clone, Copy)]
pub(crate) struct Waited {
    /// Microseconds half, and 99 of 100, of the answers took at most.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// Questions without an answer.
    pub(crate) lost: usize,
}

impl Udp {
    pub(crate) fn new(subject: &Subject) -> Self {
        Self {
            name: subject.name,
            address: subject.address,
            id: subject.process.id(),
            rates: Vec::new(),
            answered: 0.0,
            computed: Duration::ZERO,
        }
    }

    /// dnsperf for five seconds; what it prints.
    fn dnsperf(&self, questions: &Path, how: &[&str]) -> String {
        let output = Command::new("taskset")
            .args(["-c", "1"])
            .arg(needs::program("dnsperf"))
            .args(["-s", "127.0.0.1", "-p", &self.address.port().to_string()])
            .args(["-c", "32", "-T", "1", "-l", "5", "-d"])
            .arg(questions)
            .args(how)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}");
        text
    }

    /// Asks as fast as it can, with 256 questions under way.
    pub(crate) fn ask(&mut self, questions: &Path) {
        let before = machine::computed(self.id);
        let text = self.dnsperf(questions, &["-q", "256"]);
        let rate = figure(&text, "Queries per second:");
        self.rates.push(rate);
        self.answered += figure(&text, "Queries completed:");
        self.computed += machine::computed(self.id) - before;
        eprintln!("{}: {rate:.0} queries/s", self.name);
    }

    /// Asks so many questions a second and notes what each answer took.
    pub(crate) fn ask_gently(&self, questions: &Path, rate: f64) -> Waited {
        let rate = format!("{rate:.0}");
        let text = self.dnsperf(questions, &["-q", "4096", "-Q", &rate, "-t", "2", "-v"]);
        let mut times: Vec<f64> = text.lines().filter_map(answer_time).collect();
        assert!(!times.is_empty(), "{text}");
        times.sort_by(f64::total_cmp);
        let waited = Waited {
            p50: times[times.len() / 2],
            p99: times[times.len() * 99 / 100],
            lost: figure(&text, "Queries lost:") as usize,
        };
        let Waited { p50, p99, lost } = waited;
        eprintln!(
            "{}: p50 {p50:.0} µs, p99 {p99:.0} µs at {rate} queries/s, {} answers, {lost} lost",
            self.name,
            times.len()
        );
        waited
    }

    /// The median of the rates.
    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// Nanoseconds it computed for an answer.
    pub(crate) fn cost(&self) -> f64 {
        self.computed.as_nanos() as f64 / self.answered
    }
}

/// The number behind `head` in what dnsperf prints at its end.
fn figure(text: &str, head: &str) -> f64 {
    text.lines()
        .find_map(|line| line.trim().strip_prefix(head))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
        .unwrap_or_else(|| panic!("no {head}\n{text}"))
}

/// What a line about one answer says it took, in microseconds.
fn answer_time(line: &str) -> Option<f64> {
    let seconds: f64 = line.strip_prefix("> ")?.rsplit(' ').next()?.parse().ok()?;
    Some(seconds * 1e6)
}

/// The row of rates, and that of what was computed.
pub(crate) fn rows(what: &str, ours: &Udp, theirs: &Udp) -> String {
    let (fast, slow) = (ours.rate(), theirs.rate());
    let rates = format!(
        "| {what}, queries/s | {fast:.0} | {slow:.0} | {:.1} |\n",
        fast / slow
    );
    let (fast, slow) = (ours.cost() / 1e3, theirs.cost() / 1e3);
    rates
        + &format!(
            "| the same, computed for a query | {fast:.1} µs | {slow:.1} µs | {:.2} |\n",
            fast / slow
        )
}
