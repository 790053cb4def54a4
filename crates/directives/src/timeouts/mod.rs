//! `timeouts { read D; write D; idle D; maxtcpqueries N }`: times and limits of connections.

use std::time::Duration;

use corefile::parser::{Line, Statement};
use corefile::place::Report;
use corefile::quantity::duration_or_seconds;
use dns::Name;

use crate::config::block::{Directive, Repeat};

/// The least and the longest time.
const TIMES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(24 * 3600)];

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

impl Directive for Timeouts {
    const WORD: &'static str = "timeouts";
    const USAGE: &'static str = "timeouts { … }";
    const SUMMARY: &'static str = "`read` (until the first request of a connection, 10s), `idle` (until the next, 30s), `write` (the client takes nothing, 60s), 1s to 24h; `maxtcpqueries N` (any number: -1); the last block of a listener counts";
    const OPTIONS: &'static str = "read, write, idle and maxtcpqueries";
    const REPEAT: Repeat = Repeat::Joined(Some("of each option the last counts"));

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
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
                    directive.unknown_option(line, Self::OPTIONS, report);
                    continue;
                }
            };
            let value = timeout(line, report);
            line.set(slot, value, report);
        }
        if directive.lines.is_empty() {
            let fix = format!("its options are {}", Self::OPTIONS);
            report.error(&directive.name.place, "timeouts says nothing", fix);
        }
        Some(timeouts)
    }

    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Some(Self::read(again, zones, report)?.above(self))
    }
}

/// Reads one time.
fn timeout(line: &Line, report: &mut Report) -> Option<Duration> {
    let [least, most] = TIMES;
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
