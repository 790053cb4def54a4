//! `timeouts { read D; write D; idle D; max_age D; maxtcpqueries N }`: times and limits of connections.

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
    /// The time limit for the first request.
    pub read: Option<Duration>,
    /// The time limit for sending while the client takes nothing.
    pub write: Option<Duration>,
    /// The longest time without a request.
    pub idle: Option<Duration>,
    /// The longest time of a connection.
    pub max_age: Option<Duration>,
    /// The most requests of one connection.
    pub max_queries: Option<u64>,
}

impl Timeouts {
    /// These settings, with missing ones taken from `others`.
    fn above(self, others: Self) -> Self {
        Self {
            read: self.read.or(others.read),
            write: self.write.or(others.write),
            idle: self.idle.or(others.idle),
            max_age: self.max_age.or(others.max_age),
            max_queries: self.max_queries.or(others.max_queries),
        }
    }
}

impl Directive for Timeouts {
    const WORD: &'static str = "timeouts";
    const USAGE: &'static str = "timeouts { … }";
    const SUMMARY: &'static str = "limits connections: `read` (time to the first request, 10s), `idle` (time to the next, 30s), `write` (time in which the client takes nothing, 60s), `max_age` (of a connection, 2h), each 1s to 24h, and `maxtcpqueries N` (1000000, -1 for any number). If several blocks of a listener have it, the last counts";
    const OPTIONS: &'static str = "read, write, idle, max_age and maxtcpqueries";
    const REPEAT: Repeat = Repeat::Joined(Some("of each option the last counts"));

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_arguments(report);
        let mut timeouts = Timeouts::default();
        for line in &directive.lines {
            let slot = match line.name.text.as_str() {
                "read" => &mut timeouts.read,
                "write" => &mut timeouts.write,
                "idle" => &mut timeouts.idle,
                "max_age" => &mut timeouts.max_age,
                "maxtcpqueries" => {
                    let value = line.value("NUMBER", max_queries, report);
                    line.set(&mut timeouts.max_queries, value, report);
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
            report.error(&directive.name.place, "timeouts has no options", fix);
        }
        Some(timeouts)
    }

    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Some(Self::read(again, zones, report)?.above(self))
    }
}

fn timeout(line: &Line, report: &mut Report) -> Option<Duration> {
    let [least, most] = TIMES;
    let parse = |text: &str| match duration_or_seconds(text) {
        Ok(time) if time < least || time > most => Err("not between 1s and 24h".to_owned()),
        Ok(time) => Ok(time),
        Err(error) => Err(error.to_string()),
    };
    line.value("DURATION", parse, report)
}

/// Reads the number of requests on a connection; -1 is no limit.
fn max_queries(text: &str) -> Result<u64, &'static str> {
    if text == "-1" {
        return Ok(u64::MAX);
    }
    match text.parse::<u64>() {
        Ok(number) if number > 0 => Ok(number),
        Ok(_) | Err(_) => Err("not a number of requests from 1, nor -1 for any number"),
    }
}
