//! `local { localhost_prefix on|off }`: names of the machine itself.

use corefile::parser::Statement;
use corefile::place::{Place, Report};

/// The options, for messages.
pub(crate) const OPTIONS: &str = "localhost_prefix";

/// What is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Where it stands.
    pub place: Place,
    /// Whether names that begin with the label `localhost` are, too.
    pub has_prefix: bool,
}

/// Reads the directive; what it does not say, one that stands above it does.
pub(crate) fn parse(directive: &Statement, earlier: Option<Local>, report: &mut Report) -> Local {
    directive.refuse_arguments(report);
    let mut local = Local {
        place: directive.name.place.clone(),
        has_prefix: earlier.is_none_or(|local| local.has_prefix),
    };
    for line in &directive.lines {
        if line.name.text != "localhost_prefix" {
            directive.unknown_option(line, OPTIONS, report);
            continue;
        }
        match line
            .exactly_one("on|off", report)
            .map(|token| (token, token.text.as_str()))
        {
            None => {}
            Some((_, "on")) => local.has_prefix = true,
            Some((_, "off")) => local.has_prefix = false,
            Some((token, _)) => {
                let message = format!("{} is neither on nor off", token.shown());
                report.error(&token.place, message, "write: localhost_prefix on|off");
            }
        }
    }
    local
}
