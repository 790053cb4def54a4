//! `pprof [ADDRESS] { block [RATE] }`: accepted without effect.

use crate::config::block::Directive;
use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

/// The directive, which has no effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pprof;

impl Directive for Pprof {
    const WORD: &'static str = "pprof";
    const USAGE: &'static str = "pprof [ADDRESS] { block [RATE] }";
    const SUMMARY: &'static str =
        "accepted with a warning and without effect: it shows the insides of programs in Go";
    const OPTIONS: &'static str = "block";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        // Its address is checked all the same.
        let _unused = directive.http_address(report);
        for line in &directive.lines {
            match line.name.text.as_str() {
                "block" => {}
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        let message = "pprof has no effect: it shows the insides of programs written in Go";
        let fix = "take it out; `perf` shows where time goes, /metrics what the process holds";
        report.warn(&directive.name.place, message, fix);
        Some(Self)
    }
}
