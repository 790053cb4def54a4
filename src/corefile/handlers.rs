//! The directives of a block that stand around its zones at query time, each read by a file of its own.

use super::acl::{self, Acl};
use super::autopath::{self, Autopath};
use super::chaos::{self, Chaos};
use super::dns64::{self, Dns64};
use super::known::Word;
use super::local::{self, Local};
use super::metadata::{self, Metadata};
use super::parser::Directive;
use super::place::Report;
use super::rewrite::{self, RewriteRule};
use super::template::{self, Template};
use crate::dns::Name;

/// What stands around the zones of a block at query time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Handlers {
    /// For which queries something is found out.
    pub metadata: Option<Metadata>,
    /// How names of the machine itself are answered.
    pub local: Option<Local>,
    /// How IPv6 addresses are made.
    pub dns64: Option<Dns64>,
    /// Whether questions of type ANY get one record that says nothing.
    pub any: bool,
    /// What is told in class CH.
    pub chaos: Option<Chaos>,
    /// Which questions become others, in the order of the file.
    pub rewrites: Vec<RewriteRule>,
    /// Whose search path is walked.
    pub autopath: Option<Autopath>,
    /// Who may ask what; the first directive that decides does.
    pub acls: Vec<Acl>,
    /// Replies made from the question, in the order of the file.
    pub templates: Vec<Template>,
}

impl Handlers {
    /// Whether something here wants to know which pod asks.
    #[must_use]
    pub fn wants_clients(&self) -> bool {
        let autopath = self.autopath.as_ref();
        self.metadata.is_some()
            || autopath.is_some_and(|autopath| autopath.path == autopath::SearchPath::Cluster)
    }
}

/// The directives of handlers, each with its options as its messages list them; for the reference.
pub const HANDLER_OPTIONS: &[(&str, &str)] = &[
    ("metadata", ""),
    ("local", local::OPTIONS),
    ("dns64", dns64::OPTIONS),
    ("any", ""),
    ("chaos", ""),
    ("rewrite", ""),
    ("autopath", ""),
    ("acl", acl::OPTIONS),
    ("template", template::OPTIONS),
];

/// Reads one of these directives; others are left alone. `zones` are those of the block.
pub(super) fn take(
    word: Word,
    directive: &Directive,
    zones: &[Name],
    handlers: &mut Handlers,
    report: &mut Report,
) {
    #[expect(clippy::wildcard_enum_match_arm, reason = "config reads all others")]
    match word {
        Word::Any => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.any = true;
        }
        Word::Acl => handlers.acls.push(acl::parse(directive, zones, report)),
        Word::Autopath => handlers.autopath = autopath::parse(directive, zones, report),
        Word::Rewrite => handlers.rewrites.extend(rewrite::parse(directive, report)),
        Word::Metadata => handlers.metadata = Some(metadata::parse(directive, zones, report)),
        Word::Local => handlers.local = Some(local::parse(directive, report)),
        Word::Dns64 => handlers.dns64 = Some(dns64::parse(directive, report)),
        Word::Template => handlers
            .templates
            .extend(template::parse(directive, zones, report)),
        Word::Chaos => handlers.chaos = Some(chaos::parse(directive, report)),
        _ => {}
    }
}
