//! `multisocket [N]`: the number of sockets for each address.

use std::num::NonZeroUsize;

use crate::config::block::Directive;
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

/// The most sockets of one address.
const MAX_SOCKETS: usize = 1024;

/// The number of sockets for each address.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sockets {
    /// One for each processor.
    Processors,
    /// This number.
    Number(NonZeroUsize),
}

impl Directive for Sockets {
    const WORD: &'static str = "multisocket";
    const USAGE: &'static str = "multisocket [N]";
    const SUMMARY: &'static str = "sockets for each UDP address, 1 to 1024. Without N as many as there are processors; without the directive 2";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let Some(token) = directive.at_most_one(report) else {
            return Some(Sockets::Processors);
        };
        let number: Option<NonZeroUsize> = token.text.parse().ok();
        match number.filter(|number| number.get() <= MAX_SOCKETS) {
            Some(number) => Some(Sockets::Number(number)),
            None => {
                let message = format!("multisocket: {} is not a number of sockets", token.shown());
                report.error(&token.place, message, format!("write 1 to {MAX_SOCKETS}"));
                None
            }
        }
    }
}
