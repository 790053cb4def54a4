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
    const SUMMARY: &'static str = "accepted with a warning and without effect, because it shows the internals of programs in Go";
    const OPTIONS: &'static str = "block";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        // The address is checked, although it has no effect.
        let _unused = directive.http_address(report);
        for line in &directive.lines {
            match line.name.text.as_str() {
                "block" => {}
                _ => directive.unknown_option(line, Self::OPTIONS, report),
            }
        }
        let message = "pprof has no effect: it shows the internals of programs in Go";
        let fix = "remove it; use `perf` for CPU time, and /metrics for memory";
        report.warn(&directive.name.place, message, fix);
        Some(Self)
    }
}
