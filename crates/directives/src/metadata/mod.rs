//! `metadata [ZONES...]`: labels of queries, for log lines, rules and templates.

pub(crate) mod handler;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::handlers::chain::{BuildError, Chain};
use crate::log::{LogField, LogPiece, LogRule};
use crate::metadata::handler::MetadataHandler;
use crate::rewrite::{EdnsValue, RewriteField, RewriteRule, Variable};
use crate::template::Template;

/// The settings of `metadata`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Its place in the Corefile.
    pub place: Place,
    /// The names with metadata, and all names below them.
    pub zones: Vec<Name>,
}

impl Directive for Metadata {
    const WORD: &'static str = "metadata";
    const USAGE: &'static str = "metadata [ZONES…]";
    const SUMMARY: &'static str =
        "collects facts about queries, for `log`, `rewrite edns0` and `template`";
    const ROLE: Role = Role::Shapes;

    fn wants_clients(&self) -> bool {
        true
    }

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        Some(Metadata {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
        })
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        if block.uses_metadata() {
            chain.add(MetadataHandler::new(self.clone(), block, &chain.context));
        }
        Ok(())
    }
}

/// The start of the labels for the labels of a client's pod. The pod label's key follows.
pub const CLIENT_LABEL: &str = "kubernetes/client-label/";

impl ServerBlock {
    /// Whether the block uses metadata: in log lines, rules or templates.
    #[must_use]
    pub fn uses_metadata(&self) -> bool {
        let mut templates = self.all::<Template>();
        self.metadata_words().next().is_some() || templates.any(Template::uses_metadata)
    }

    /// The keys of pod labels that log lines, rules and templates name. A label that a template composes is not found.
    pub fn client_labels(&self) -> impl Iterator<Item = String> {
        let words = self.metadata_words();
        let plain = words.filter_map(|word| word.strip_prefix(CLIENT_LABEL));
        let templates = self.all::<Template>();
        let filled = templates.flat_map(|template| template.words_after(CLIENT_LABEL));
        plain.chain(filled).map(str::to_owned)
    }

    /// The labels that log lines and rules name.
    fn metadata_words(&self) -> impl Iterator<Item = &str> {
        let pieces = self.all::<LogRule>().flat_map(|rule| &rule.format);
        let logged = pieces.filter_map(|piece| match piece {
            LogPiece::Field(LogField::Metadata(label)) => Some(label.as_str()),
            LogPiece::Field(_) | LogPiece::Text(_) => None,
        });
        let rules = self.all::<RewriteRule>().map(|rule| &rule.field);
        let written = rules.flat_map(|field| match field {
            RewriteField::Edns(rule) => match &rule.value {
                EdnsValue::Variable(Variable::Metadata(label)) => vec![label.as_str()],
                EdnsValue::Octets(_) | EdnsValue::Variable(_) | EdnsValue::Subnet { .. } => vec![],
            },
            RewriteField::Name(rule) => rule.labels().collect(),
            RewriteField::Type { .. }
            | RewriteField::Class { .. }
            | RewriteField::Ttl { .. }
            | RewriteField::Rcode { .. }
            | RewriteField::Cname { .. } => vec![],
        });
        logged.chain(written)
    }
}
