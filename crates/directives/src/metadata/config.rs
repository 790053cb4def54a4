//! `metadata [ZONES...]`: what is found out about queries, for log lines, rules and templates.

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::blocks::ServerBlock;
use crate::config::zone;
use crate::log::config::{LogField, LogPiece};
use crate::rewrite::config::{EdnsValue, RewriteField, Variable};

/// For which queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Where it stands.
    pub place: Place,
    /// The names, and those below them.
    pub zones: Vec<Name>,
}

/// Reads the directive; `block_zones` are the default.
pub(crate) fn parse(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Metadata {
    directive.refuse_options(report);
    Metadata {
        place: directive.name.place.clone(),
        zones: zone::arguments(&directive.arguments, block_zones, report),
    }
}

/// How the metadata of a label of the pod that asks begins; the key of the label follows.
pub const CLIENT_LABEL: &str = "kubernetes/client-label/";

impl ServerBlock {
    /// Whether something in the block uses what is found out about queries: log lines, rules or templates.
    #[must_use]
    pub fn uses_metadata(&self) -> bool {
        let mut templates = self.handlers.templates.iter();
        self.metadata_words().next().is_some()
            || templates.any(crate::template::config::Template::uses_metadata)
    }

    /// The keys of labels of pods that ask that stand in log lines, rules and templates. A template that
    /// makes one up is not understood.
    pub fn client_labels(&self) -> impl Iterator<Item = String> {
        let words = self.metadata_words();
        let plain = words.filter_map(|word| word.strip_prefix(CLIENT_LABEL));
        let templates = self.handlers.templates.iter();
        let filled = templates.flat_map(|template| template.words_after(CLIENT_LABEL));
        plain.chain(filled).map(str::to_owned)
    }

    /// What log lines and rules name of metadata.
    fn metadata_words(&self) -> impl Iterator<Item = &str> {
        let pieces = self.logs.iter().flat_map(|rule| &rule.format);
        let logged = pieces.filter_map(|piece| match piece {
            LogPiece::Field(LogField::Metadata(label)) => Some(label.as_str()),
            LogPiece::Field(_) | LogPiece::Text(_) => None,
        });
        let rules = self.handlers.rewrites.iter().map(|rule| &rule.field);
        let written = rules.filter_map(|field| match field {
            RewriteField::Edns(rule) => match &rule.value {
                EdnsValue::Variable(Variable::Metadata(label)) => Some(label.as_str()),
                EdnsValue::Octets(_) | EdnsValue::Variable(_) | EdnsValue::Subnet { .. } => None,
            },
            RewriteField::Name(_)
            | RewriteField::Type { .. }
            | RewriteField::Class { .. }
            | RewriteField::Ttl { .. }
            | RewriteField::Rcode { .. }
            | RewriteField::Cname { .. } => None,
        });
        logged.chain(written)
    }
}
