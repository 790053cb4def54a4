//! `debug`: logs lines of the level debug too.

use crate::config::block::{Directive, Repeat};
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

/// The directive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DebugLines;

impl Directive for DebugLines {
    const WORD: &'static str = "debug";
    const USAGE: &'static str = "debug";
    const SUMMARY: &'static str = "logs the level debug too, for the whole process, unless `--log-filter` is given. Unlike in CoreDNS panics are still recovered";
    const REPEAT: Repeat = Repeat::Joined(Some("once is the same"));

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_all(report);
        Some(Self)
    }
}
