//! `metadata [ZONES...]`: what is found out about queries, for log lines, rules and templates.

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

/// For which queries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Where it stands.
    pub place: Place,
    /// The names, and those below them.
    pub zones: Vec<Name>,
}

impl Directive for Metadata {
    const WORD: &'static str = "metadata";
    const USAGE: &'static str = "metadata [ZONES…]";
    const SUMMARY: &'static str =
        "what is found out about queries, for `log`, `rewrite edns0` and `template`";
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

/// How the metadata of a label of the pod that asks begins; the key of the label follows.
pub const CLIENT_LABEL: &str = "kubernetes/client-label/";

impl ServerBlock {
    /// Whether something in the block uses what is found out about queries: log lines, rules or templates.
    #[must_use]
    pub fn uses_metadata(&self) -> bool {
        let mut templates = self.all::<Template>();
        self.metadata_words().next().is_some() || templates.any(Template::uses_metadata)
    }

    /// The keys of labels of pods that ask that stand in log lines, rules and templates. A template that
    /// makes one up is not understood.
    pub fn client_labels(&self) -> impl Iterator<Item = String> {
        let words = self.metadata_words();
        let plain = words.filter_map(|word| word.strip_prefix(CLIENT_LABEL));
        let templates = self.all::<Template>();
        let filled = templates.flat_map(|template| template.words_after(CLIENT_LABEL));
        plain.chain(filled).map(str::to_owned)
    }

    /// What log lines and rules name of metadata.
    fn metadata_words(&self) -> impl Iterator<Item = &str> {
        let pieces = self.all::<LogRule>().flat_map(|rule| &rule.format);
        let logged = pieces.filter_map(|piece| match piece {
            LogPiece::Field(LogField::Metadata(label)) => Some(label.as_str()),
            LogPiece::Field(_) | LogPiece::Text(_) => None,
        });
        let rules = self.all::<RewriteRule>().map(|rule| &rule.field);
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
