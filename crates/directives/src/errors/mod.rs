//! `errors [stdout] { stacktrace; consolidate DURATION REGEXP [LEVEL] [show_first] }`: logs failed queries, and
//! summarises repeated errors.

pub(crate) mod consolidate;

use std::time::Duration;

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;
use regex::Regex;

use crate::config::block::Directive;

/// The settings for logging errors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// Its place in the Corefile.
    pub place: Place,
    /// Whether a panic is logged with its stack.
    pub stacktrace: bool,
    /// The errors to summarise. The first pattern that matches counts.
    pub consolidations: Vec<Consolidate>,
}

/// Errors that are summarised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consolidate {
    /// The period of a summary.
    pub period: Duration,
    /// The period as it was written.
    pub period_text: String,
    /// The regular expression that matches the errors; it is valid.
    pub pattern: String,
    /// The level of their lines.
    pub level: Level,
    /// Whether the first is logged at once.
    pub show_first: bool,
}

/// The level of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// `warning`.
    Warning,
    /// `error`.
    Error,
    /// `info`.
    Info,
    /// `debug`.
    Debug,
}

/// The most bytes of a pattern.
const MAX_PATTERN: usize = 10_000;
/// The arguments of `consolidate`.
const CONSOLIDATE: &str = "DURATION REGEXP [warning|error|info|debug] [show_first]";

impl Directive for Errors {
    const WORD: &'static str = "errors";
    const USAGE: &'static str = "errors [stdout] { stacktrace|consolidate … }";
    const SUMMARY: &'static str = "logs queries that failed. With `stacktrace` at the start, panics are logged with their stack";
    const OPTIONS: &'static str = "stacktrace and consolidate";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        if let Some(output) = directive.at_most_one(report)
            && output.text != "stdout"
        {
            let message = format!("errors cannot be logged to {}", output.shown());
            report.error(&output.place, message, "write: errors, or: errors stdout");
        }
        let mut stacktrace = false;
        let mut consolidations = Vec::new();
        for line in &directive.lines {
            match line.name.text.as_str() {
                "stacktrace" => {
                    line.refuse_arguments(report);
                    stacktrace = true;
                }
                "consolidate" => consolidations.extend(consolidate(line, report)),
                _ => directive.unknown_option(line, Errors::OPTIONS, report),
            }
        }
        Some(Errors {
            place: directive.name.place.clone(),
            stacktrace,
            consolidations,
        })
    }
}

/// Reads `consolidate`.
fn consolidate(line: &Line, report: &mut Report) -> Option<Consolidate> {
    let fix = format!("write: consolidate {CONSOLIDATE}");
    let (period, pattern, more) = match line.arguments.as_slice() {
        [period, pattern, more @ ..] if more.len() <= 2 => (period, pattern, more),
        other => {
            let message = format!(
                "consolidate takes two to four arguments, there are {}",
                other.len()
            );
            report.error(&line.name.place, message, fix);
            return None;
        }
    };
    let length = match go_duration(&period.text) {
        Ok(length) if !length.is_zero() => Some(length),
        Ok(_) => {
            let message = format!("consolidate {}: the duration is zero", period.shown());
            report.error(&period.place, message, fix.clone());
            None
        }
        Err(error) => {
            let message = format!("consolidate {}: {error}", period.shown());
            report.error(&period.place, message, fix.clone());
            None
        }
    };
    let wrong = if pattern.text.len() > MAX_PATTERN {
        Some(format!("longer than {MAX_PATTERN} octets"))
    } else {
        Regex::new(&pattern.text).err().map(|error| {
            let text = error.to_string();
            text.lines().last().unwrap_or_default().to_owned()
        })
    };
    if let Some(wrong) = &wrong {
        let message = format!("consolidate: the pattern cannot be used: {wrong}");
        report.error(
            &pattern.place,
            message,
            "write a regular expression in RE2's syntax",
        );
    }
    let (mut level, mut show_first) = (Level::Error, false);
    for (at, token) in more.iter().enumerate() {
        match (at, token.text.as_str()) {
            (0, "warning") => level = Level::Warning,
            (0, "error") => level = Level::Error,
            (0, "info") => level = Level::Info,
            (0, "debug") => level = Level::Debug,
            (_, "show_first") if at + 1 == more.len() => show_first = true,
            _ => {
                let message = format!(
                    "consolidate: {} is neither a level nor show_first at the end",
                    token.shown()
                );
                report.error(&token.place, message, fix.clone());
            }
        }
    }
    Some(Consolidate {
        period: length.filter(|_| wrong.is_none())?,
        period_text: period.text.clone(),
        pattern: pattern.text.clone(),
        level,
        show_first,
    })
}
