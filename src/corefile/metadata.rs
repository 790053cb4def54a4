//! `metadata [ZONES...]`: what is found out about queries, for log lines, rules and templates.

use super::config::ServerBlock;
use super::log::{LogField, LogPiece};
use super::parser::Directive;
use super::place::{Place, Report};
use super::rewrite::{EdnsValue, RewriteField, Variable};
use super::zone;
use crate::dns::Name;

/// For which queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Where it stands.
    pub place: Place,
    /// The names, and those below them.
    pub zones: Vec<Name>,
}

/// Reads the directive; `block_zones` are the default.
pub(super) fn parse(directive: &Directive, block_zones: &[Name], report: &mut Report) -> Metadata {
    directive.refuse_options(report);
    Metadata {
        place: directive.name.place.clone(),
        zones: zone::arguments(&directive.arguments, block_zones, report),
    }
}

impl ServerBlock {
    /// Whether something in the block uses what is found out about queries: log lines, rules or templates.
    #[must_use]
    pub fn uses_metadata(&self) -> bool {
        let pieces = self.logs.iter().flat_map(|rule| &rule.format);
        let mut pieces = pieces.filter_map(|piece| match piece {
            LogPiece::Field(LogField::Metadata(label)) => Some(label),
            LogPiece::Field(_) | LogPiece::Text(_) => None,
        });
        let mut rules = self.handlers.rewrites.iter().map(|rule| &rule.field);
        let mut templates = self.handlers.templates.iter();
        pieces.next().is_some()
            || templates.any(super::template::Template::uses_metadata)
            || rules.any(|field| match field {
                RewriteField::Edns(rule) => {
                    matches!(&rule.value, EdnsValue::Variable(Variable::Metadata(_)))
                }
                RewriteField::Name(_)
                | RewriteField::Type { .. }
                | RewriteField::Class { .. }
                | RewriteField::Ttl { .. }
                | RewriteField::Rcode { .. }
                | RewriteField::Cname { .. } => false,
            })
    }
}
