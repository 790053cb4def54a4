//! `local { localhost_prefix on|off }`: names of the machine itself.

pub(crate) mod handler;
pub(crate) mod metrics;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;
use ops::metrics::Metric;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain};
use crate::local::handler::LocalHandler;

/// The settings of `local`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Its place in the Corefile.
    pub place: Place,
    /// Whether names with the first label `localhost` are answered too.
    pub has_prefix: bool,
}

impl Directive for Local {
    const WORD: &'static str = "local";
    const USAGE: &'static str = "local";
    const SUMMARY: &'static str = "answers for localhost and its reverse zones";
    const OPTIONS: &'static str = "localhost_prefix";
    const REPEAT: Repeat = Repeat::Joined(Some("of each option the last counts"));
    const ROLE: Role = Role::Answers;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let has_prefix = true;
        Self { place, has_prefix }.read_again(directive, zones, report)
    }

    fn read_again(mut self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        again.refuse_arguments(report);
        for line in &again.lines {
            if line.name.text != "localhost_prefix" {
                again.unknown_option(line, Self::OPTIONS, report);
                continue;
            }
            match line
                .exactly_one("on|off", report)
                .map(|token| (token, token.text.as_str()))
            {
                None => {}
                Some((_, "on")) => self.has_prefix = true,
                Some((_, "off")) => self.has_prefix = false,
                Some((token, _)) => {
                    let message = format!("{} is neither on nor off", token.shown());
                    report.error(&token.place, message, "write: localhost_prefix on|off");
                }
            }
        }
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(LocalHandler::new(self.has_prefix, chain.context.counts));
        Ok(())
    }
}
