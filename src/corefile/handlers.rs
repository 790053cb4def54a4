//! The directives of a block that stand around its zones at query time, each read by a file of its own.

use super::chaos::{self, Chaos};
use super::known::Word;
use super::loadbalance::{self, Loadbalance};
use super::parser::Directive;
use super::place::Report;

/// What stands around the zones of a block at query time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handlers {
    /// Whether questions of type ANY get one record that says nothing.
    pub any: bool,
    /// What is told in class CH.
    pub chaos: Option<Chaos>,
    /// The largest datagram, in octets.
    pub bufsize: Option<u16>,
    /// The order of addresses.
    pub loadbalance: Option<Loadbalance>,
    /// Whether authority and additional are left out where there is an answer.
    pub minimal: bool,
}

/// The largest datagram unless written (DNS flag day 2020).
const BUFSIZE: u16 = 1232;

/// The directives of handlers, each with its options as its messages list them; for the reference.
pub const HANDLER_OPTIONS: &[(&str, &str)] = &[
    ("bufsize", ""),
    ("any", ""),
    ("chaos", ""),
    ("loadbalance", loadbalance::OPTIONS),
    ("minimal", ""),
];

/// Reads one of these directives; others are left alone.
pub(super) fn take(
    word: Word,
    directive: &Directive,
    handlers: &mut Handlers,
    report: &mut Report,
) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "config reads all others")]
    match word {
        Word::Any => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.any = true;
        }
        Word::Bufsize => handlers.bufsize = Some(bufsize(directive, report)),
        Word::Chaos => handlers.chaos = Some(chaos::parse(directive, report)),
        Word::Loadbalance => handlers.loadbalance = Some(loadbalance::parse(directive, report)),
        Word::Minimal => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.minimal = true;
        }
        _ => {}
    }
}

/// Reads `bufsize [OCTETS]`.
fn bufsize(directive: &Directive, report: &mut Report) -> u16 {
    directive.refuse_options(report);
    let Some(token) = directive.at_most_one(report) else {
        return BUFSIZE;
    };
    match token.text.parse() {
        Ok(octets @ 512..=4096) => octets,
        Ok(_) | Err(_) => {
            let message = format!("bufsize {} is not from 512 to 4096", token.shown());
            report.error(&token.place, message, "write octets, such as 1232");
            BUFSIZE
        }
    }
}
