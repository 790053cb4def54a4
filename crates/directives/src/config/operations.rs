//! The directives of a block that are about the process and its listeners, not about names: `reload`,
//! `timeouts`, `multisocket`, `debug`, `pprof`, `root`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::{duration_or_seconds, go_duration};

use crate::config::known::Word;

/// What a block says about the process and its listeners.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operations {
    /// The Corefile is followed.
    pub reload: Option<Reload>,
    /// Times and limits of connections.
    pub timeouts: Timeouts,
    /// Sockets for each address, as far as it is said.
    pub sockets: Option<Sockets>,
    /// Whether lines of the level debug are logged.
    pub debug: bool,
    /// The folder that relative paths of the block begin in.
    pub root: Option<PathBuf>,
}

/// The Corefile is followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// Where it stands.
    pub place: Place,
    /// How often the file is looked at.
    pub interval: Duration,
    /// How much sooner or later, in all.
    pub jitter: Duration,
}

/// Times and limits of connections, where they are not the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timeouts {
    /// How long the first request may take.
    pub read: Option<Duration>,
    /// How long the client may take nothing of what is sent.
    pub write: Option<Duration>,
    /// How long a connection may be without a request.
    pub idle: Option<Duration>,
    /// The most requests of one connection.
    pub max_queries: Option<u64>,
}

impl Timeouts {
    /// These, and what others say besides.
    fn above(self, others: Self) -> Self {
        Self {
            read: self.read.or(others.read),
            write: self.write.or(others.write),
            idle: self.idle.or(others.idle),
            max_queries: self.max_queries.or(others.max_queries),
        }
    }
}

/// How many sockets an address has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sockets {
    /// As many as processors.
    Processors,
    /// So many.
    Number(NonZeroUsize),
}

/// How often the file is looked at, unless written.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// How much sooner or later, unless written.
const DEFAULT_JITTER: Duration = Duration::from_secs(15);
/// The least interval.
const LEAST_INTERVAL: Duration = Duration::from_secs(2);
/// The least jitter but none.
const LEAST_JITTER: Duration = Duration::from_secs(1);
/// The least and the longest of `timeouts`.
const TIMEOUTS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 3600)];
/// The most sockets of one address.
const MAX_SOCKETS: usize = 1024;

/// The options of `timeouts`, for messages.
const TIMEOUT_OPTIONS: &str = "read, write, idle and maxtcpqueries";

/// Reads one of these directives; others are left alone.
pub(crate) fn take(word: Word, directive: &Statement, into: &mut Operations, report: &mut Report) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "config reads all others")]
    match word {
        Word::Reload => {
            let read = reload(directive, report);
            // As in CoreDNS the first of a block counts.
            into.reload.get_or_insert(read);
        }
        Word::Timeouts => into.timeouts = timeouts(directive, report).above(into.timeouts),
        Word::Multisocket => into.sockets = sockets(directive, report),
        Word::Debug => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            into.debug = true;
        }
        Word::Pprof => pprof(directive, report),
        Word::Root => {
            directive.refuse_options(report);
            match directive.at_most_one(report) {
                None => {
                    let mend = "write: root FOLDER";
                    report.error(&directive.name.place, "root names no folder", mend);
                }
                Some(folder) => into.root = Some(PathBuf::from(&folder.text)),
            }
        }
        _ => {}
    }
}

/// Reads `reload [INTERVAL] [JITTER]`.
fn reload(directive: &Statement, report: &mut Report) -> Reload {
    directive.refuse_options(report);
    let mut read = |at: usize, name: &str, least: Duration, default: Duration| {
        let Some(token) = directive.arguments.get(at) else {
            return default;
        };
        let mend = format!("write a duration of at least {least:?}");
        match go_duration(&token.text) {
            Ok(time) if time >= least || (at == 1 && time.is_zero()) => time,
            Ok(_) => {
                let message = format!("reload: {name} {} is too short", token.shown());
                report.error(&token.place, message, mend);
                default
            }
            Err(error) => {
                let message = format!("reload: {name} {}: {error}", token.shown());
                report.error(&token.place, message, mend);
                default
            }
        }
    };
    let interval = read(0, "interval", LEAST_INTERVAL, DEFAULT_INTERVAL);
    let jitter = read(1, "jitter", LEAST_JITTER, DEFAULT_JITTER);
    if let Some(more) = directive.arguments.get(2) {
        let message = format!("reload: {} is one argument too many", more.shown());
        report.error(&more.place, message, "take it out");
    }
    Reload {
        place: directive.name.place.clone(),
        interval,
        jitter: jitter.min(interval / 2),
    }
}

/// Reads `timeouts { read D; write D; idle D; maxtcpqueries N }`.
fn timeouts(directive: &Statement, report: &mut Report) -> Timeouts {
    directive.refuse_arguments(report);
    let mut timeouts = Timeouts::default();
    for line in &directive.lines {
        let slot = match line.name.text.as_str() {
            "read" => &mut timeouts.read,
            "write" => &mut timeouts.write,
            "idle" => &mut timeouts.idle,
            "maxtcpqueries" => {
                let value = line.value("NUMBER", max_queries, report);
                line.set(&mut timeouts.max_queries, value.flatten(), report);
                continue;
            }
            _ => {
                directive.unknown_option(line, TIMEOUT_OPTIONS, report);
                continue;
            }
        };
        let value = timeout(line, report);
        line.set(slot, value, report);
    }
    if directive.lines.is_empty() {
        let mend = format!("its options are {TIMEOUT_OPTIONS}");
        report.error(&directive.name.place, "timeouts says nothing", mend);
    }
    timeouts
}

/// Reads one time.
fn timeout(line: &Line, report: &mut Report) -> Option<Duration> {
    let [least, most] = TIMEOUTS;
    let parse = |text: &str| match duration_or_seconds(text) {
        Ok(time) if time < least || time > most => Err("not between 1s and 24h".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    };
    line.value("DURATION", parse, report)
}

/// Reads how many requests a connection may have; -1 for any number.
fn max_queries(text: &str) -> Result<Option<u64>, &'static str> {
    if text == "-1" {
        return Ok(None);
    }
    match text.parse::<u64>() {
        Ok(number) if number > 0 => Ok(Some(number)),
        Ok(_) | Err(_) => Err("not a number of requests from 1, nor -1 for any number"),
    }
}

/// Reads `multisocket [N]`.
fn sockets(directive: &Statement, report: &mut Report) -> Option<Sockets> {
    directive.refuse_options(report);
    let Some(token) = directive.at_most_one(report) else {
        return Some(Sockets::Processors);
    };
    let number: Option<NonZeroUsize> = token.text.parse().ok();
    match number.filter(|number| number.get() <= MAX_SOCKETS) {
        Some(number) => Some(Sockets::Number(number)),
        None => {
            let message = format!("multisocket: {} is no number of sockets", token.shown());
            report.error(&token.place, message, format!("write 1 to {MAX_SOCKETS}"));
            None
        }
    }
}

/// Reads `pprof [ADDRESS] { block [RATE] }`, which means nothing here.
fn pprof(directive: &Statement, report: &mut Report) {
    // Its address is checked all the same.
    let _unused = directive.http_address(report);
    for line in &directive.lines {
        match line.name.text.as_str() {
            "block" => {}
            _ => directive.unknown_option(line, "block", report),
        }
    }
    let message = "pprof has no effect: it shows the insides of programs written in Go";
    let mend = "take it out; `perf` shows where time goes, /metrics what the process holds";
    report.warn(&directive.name.place, message, mend);
}

/// The folder that relative paths of a block begin in, wherever in the block `root` stands.
pub(crate) fn root_of(directives: &[Statement]) -> Option<Arc<PathBuf>> {
    let mut roots = directives.iter().filter(|it| it.name.text == "root");
    // Of several the last counts, as in CoreDNS.
    let folder = roots.next_back()?.arguments.first()?;
    Some(Arc::new(PathBuf::from(&folder.text)))
}
