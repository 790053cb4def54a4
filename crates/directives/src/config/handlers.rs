//! The directives of a block that stand around its zones at query time, each read by a file of its own.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;

use crate::acl::config::{self as acl, Acl};
use crate::autopath::config::{self as autopath, Autopath};
use crate::cache::config::{self as cache, Cache};
use crate::chaos::config::{self as chaos, Chaos};
use crate::config::known::Word;
use crate::dns64::config::{self as dns64, Dns64};
use crate::forward::config::{self as forward, Forward};
use crate::hosts::config::{self as hosts, Hosts};
use crate::loadbalance::config::{self as loadbalance, Loadbalance};
use crate::local::config::{self as local, Local};
use crate::metadata::config::{self as metadata, Metadata};
use crate::rewrite::config::{self as rewrite, RewriteRule};
use crate::template::config::{self as template, Template};

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
    /// What is kept of replies.
    pub cache: Option<Cache>,
    /// Names and addresses of a file.
    pub hosts: Option<Hosts>,
    /// Whether questions that come back end the server.
    pub finds_loops: bool,
    /// Who is asked for names that are not ours, in the order of the file.
    pub forwards: Vec<Forward>,
    /// The largest datagram, in octets.
    pub bufsize: Option<u16>,
    /// The order of addresses.
    pub loadbalance: Option<Loadbalance>,
    /// Whether authority and additional are left out where there is an answer.
    pub minimal: bool,
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

/// The largest datagram unless written (DNS flag day 2020).
const BUFSIZE: u16 = 1232;

/// The directives of handlers, each with its options as its messages list them; for the reference.
pub const HANDLER_OPTIONS: &[(&str, &str)] = &[
    ("bufsize", ""),
    ("metadata", ""),
    ("local", local::OPTIONS),
    ("dns64", dns64::OPTIONS),
    ("any", ""),
    ("chaos", ""),
    ("loadbalance", loadbalance::OPTIONS),
    ("rewrite", ""),
    ("autopath", ""),
    ("acl", acl::OPTIONS),
    ("cache", cache::OPTIONS),
    ("minimal", ""),
    ("template", template::OPTIONS),
    ("hosts", hosts::OPTIONS),
    ("loop", ""),
    ("forward", forward::OPTIONS),
];

/// Reads one of these directives; others are left alone. `zones` are those of the block.
pub(crate) fn take(
    word: Word,
    directive: &Statement,
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
        Word::Local => {
            let earlier = handlers.local.take();
            handlers.local = Some(local::parse(directive, earlier, report));
        }
        Word::Dns64 => {
            let earlier = handlers.dns64.take();
            handlers.dns64 = Some(dns64::parse(directive, earlier, report));
        }
        Word::Template => handlers
            .templates
            .extend(template::parse(directive, zones, report)),
        Word::Bufsize => {
            let read = bufsize(directive, report);
            handlers.bufsize.get_or_insert(read);
        }
        Word::Chaos => {
            let read = chaos::parse(directive, report);
            handlers.chaos.get_or_insert(read);
        }
        Word::Cache => handlers.cache = Some(cache::parse(directive, zones, report)),
        Word::Hosts => handlers.hosts = Some(hosts::parse(directive, zones, report)),
        Word::Loop => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.finds_loops = true;
        }
        Word::Forward => handlers.forwards.extend(forward::parse(directive, report)),
        Word::Loadbalance => {
            let earlier = handlers.loadbalance.take();
            handlers.loadbalance = Some(loadbalance::parse(directive, earlier, report));
        }
        Word::Minimal => {
            directive.refuse_arguments(report);
            directive.refuse_options(report);
            handlers.minimal = true;
        }
        _ => {}
    }
}

/// Reads `bufsize [OCTETS]`.
fn bufsize(directive: &Statement, report: &mut Report) -> u16 {
    directive.refuse_options(report);
    let Some(token) = directive.at_most_one(report) else {
        return BUFSIZE;
    };
    match token.text.parse() {
        Ok(octets @ 512..=4096) => octets,
        Ok(_) | Err(_) => {
            let message = format!("bufsize {} is not from 512 to 4096", token.shown());
            report.error(&token.place, message, "write octets, such as 1232");
            BUFSIZE
        }
    }
}
