//! `errors [stdout] { stacktrace }`: errors of answering are logged.
//!
//! `consolidate`, which sums up repeated errors, is not supported yet.

use super::parser::Directive;
use super::place::{Place, Report};

/// Errors are logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errors {
    /// Where it stands.
    pub place: Place,
    /// Whether a panic is logged with its stack.
    pub stacktrace: bool,
}

/// Reads the directive.
pub(super) fn parse(directive: &Directive, report: &mut Report) -> Errors {
    if let Some(output) = directive.at_most_one(report)
        && output.text != "stdout"
    {
        let message = format!("errors cannot be logged to {}", output.shown());
        report.error(&output.place, message, "write: errors, or: errors stdout");
    }
    let mut stacktrace = false;
    for line in &directive.lines {
        match line.name.text.as_str() {
            "stacktrace" => {
                line.refuse_arguments(report);
                stacktrace = true;
            }
            "consolidate" => report.not_yet(&line.name.place, "errors consolidate"),
            _ => directive.unknown_option(line, "stacktrace", report),
        }
    }
    Errors {
        place: directive.name.place.clone(),
        stacktrace,
    }
}
