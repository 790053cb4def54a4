//! All words that may begin a directive, in the order of CoreDNS's chain: ours, those of CoreDNS that are refused, and
//! those that CoreDNS has given up. A new directive is one line here.

use std::fmt::Write;
use std::sync::Arc;

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;
use ops::HandlerMetrics;
use ops::metrics::Metric;
use server::Handler;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::handlers::chain::{BuildError, Chain, Context};

/// A word of the registry.
pub(crate) struct Entry {
    /// The word.
    pub word: &'static str,
    /// Which kind of word it is.
    kind: Kind,
}

/// A kind of word.
enum Kind {
    /// A directive that works.
    Directive(Registered),
    /// A directive of CoreDNS that is refused, with the reason.
    Refused(&'static str),
    /// A directive that CoreDNS no longer has, with what to write instead.
    Gone(&'static str),
}

/// A directive that works.
pub struct Registered {
    /// The word that begins it.
    pub word: &'static str,
    /// How it is written, for the manual.
    pub usage: &'static str,
    /// What it says, for the manual.
    pub summary: &'static str,
    /// Its options, as messages list them.
    pub options: &'static str,
    /// What its handler counts.
    pub metrics: &'static [Metric],
    /// What a second one in a block means.
    repeat: Repeat,
    /// What it does with queries.
    pub role: Role,
    /// Reads it into a block.
    read: fn(&Statement, &[Name], &mut ServerBlock, &mut Report),
    /// Checks it against the others of all blocks.
    pub(crate) check: fn(&[ServerBlock], &mut Report),
    /// Whether a block has it.
    has: fn(&ServerBlock) -> bool,
    /// Adds its handlers to the chain of a block.
    add_handlers: fn(&ServerBlock, &mut Chain<'_>) -> Result<(), BuildError>,
}

/// A directive that works.
const fn directive<D: Directive>() -> Entry {
    let registered = Registered {
        word: D::WORD,
        usage: D::USAGE,
        summary: D::SUMMARY,
        options: D::OPTIONS,
        metrics: D::METRICS,
        repeat: D::REPEAT,
        role: D::ROLE,
        read: read_into::<D>,
        check: D::check,
        has: ServerBlock::has::<D>,
        add_handlers: add_handlers::<D>,
    };
    Entry {
        word: D::WORD,
        kind: Kind::Directive(registered),
    }
}

/// Adds the handlers of the directives of a word in a block.
fn add_handlers<D: Directive>(
    block: &ServerBlock,
    chain: &mut Chain<'_>,
) -> Result<(), BuildError> {
    match block.get::<D>() {
        None => Ok(()),
        Some(first) => first.add_handlers(block, chain),
    }
}

/// Reads a directive into its block.
fn read_into<D: Directive>(
    directive: &Statement,
    zones: &[Name],
    block: &mut ServerBlock,
    report: &mut Report,
) {
    let earlier: Option<D> = match D::REPEAT {
        Repeat::Several => None,
        Repeat::Joined(_) | Repeat::Refused => block.take(),
    };
    let said = match earlier {
        None => D::read(directive, zones, report),
        Some(earlier) => earlier.read_again(directive, zones, report),
    };
    if let Some(said) = said {
        block.add(said);
    }
}

/// A directive of CoreDNS that is refused.
const fn refused(word: &'static str, why: &'static str) -> Entry {
    let kind = Kind::Refused(why);
    Entry { word, kind }
}

/// A directive that CoreDNS no longer has.
const fn gone(word: &'static str, fix: &'static str) -> Entry {
    let kind = Kind::Gone(fix);
    Entry { word, kind }
}

/// Why directives that sign zones are refused.
const UNSIGNED: &str =
    "zones are handed over unsigned: a secondary that signs (Knot, BIND) keeps the keys";

/// All words, in the order of CoreDNS's plugin.cfg.
static REGISTRY: &[Entry] = &[
    directive::<crate::root::Root>(),
    directive::<crate::metadata::Metadata>(),
    refused(
        "geoip",
        "nothing is looked up about where a client is, for answers do not depend on it",
    ),
    directive::<crate::cancel::Cancel>(),
    refused(
        "proxyproto",
        "the client is who the packet comes from, for `acl` and `transfer` rely on it",
    ),
    directive::<crate::quic::QuicLimits>(),
    refused(
        "grpc_server",
        "queries are answered over UDP, TCP, TLS, HTTPS and QUIC, not over gRPC",
    ),
    directive::<crate::https::HttpsLimits>(),
    directive::<crate::https3::Https3Limits>(),
    directive::<crate::timeouts::Timeouts>(),
    directive::<crate::multisocket::Sockets>(),
    directive::<crate::reload::Reload>(),
    directive::<crate::nsid::Nsid>(),
    directive::<crate::bufsize::Bufsize>(),
    directive::<crate::bind::Bind>(),
    directive::<crate::debug::DebugLines>(),
    refused(
        "trace",
        "no spans are sent; `log` tells how long answers took",
    ),
    directive::<crate::ready::Ready>(),
    directive::<crate::health::Health>(),
    directive::<crate::pprof::Pprof>(),
    refused(
        "shed",
        "what may wait at a time is bounded without it: see limits and defaults",
    ),
    directive::<crate::prometheus::Prometheus>(),
    directive::<crate::errors::Errors>(),
    directive::<crate::log::LogRule>(),
    refused(
        "dnstap",
        "queries are told by `log` and counted by `prometheus`",
    ),
    directive::<crate::local::Local>(),
    directive::<crate::dns64::Dns64>(),
    directive::<crate::any::Any>(),
    directive::<crate::chaos::Chaos>(),
    directive::<crate::loadbalance::Loadbalance>(),
    directive::<crate::tsig::Tsig>(),
    directive::<crate::rewrite::RewriteRule>(),
    directive::<crate::autopath::Autopath>(),
    directive::<crate::acl::Acl>(),
    directive::<crate::cache::Cache>(),
    directive::<crate::header::Header>(),
    refused("dnssec", UNSIGNED),
    directive::<crate::tls::Tls>(),
    directive::<crate::minimal::Minimal>(),
    directive::<crate::template::Template>(),
    directive::<crate::transfer::Transfer>(),
    directive::<crate::hosts::Hosts>(),
    refused(
        "route53",
        "names come from the cluster and from zone files, not from AWS",
    ),
    refused(
        "azure",
        "names come from the cluster and from zone files, not from Azure",
    ),
    refused(
        "clouddns",
        "names come from the cluster and from zone files, not from Google Cloud",
    ),
    directive::<crate::k8s_external::External>(),
    directive::<crate::kubernetes::Kubernetes>(),
    directive::<crate::multicluster::Multicluster>(),
    directive::<crate::file::ZoneFile>(),
    directive::<crate::catalog::Catalog>(),
    directive::<crate::apex::Apex>(),
    directive::<crate::history::History>(),
    directive::<crate::gate::Gate>(),
    refused(
        "auto",
        "files of zones are named one by one, with `file`: a file that is lost for a moment would be a zone that is gone",
    ),
    refused(
        "secondary",
        "zones are written here, not held for others: BIND, Knot and NSD do that",
    ),
    refused(
        "etcd",
        "names come from the cluster and from zone files, not from etcd",
    ),
    directive::<crate::r#loop::Loop>(),
    directive::<crate::forward::Forward>(),
    refused(
        "grpc",
        "servers behind are asked over UDP, TCP, TLS, HTTPS and QUIC: `forward`",
    ),
    refused("erratic", "it answers wrongly on purpose, for tests"),
    directive::<crate::whoami::Whoami>(),
    refused(
        "on",
        "no commands are run: leave them to what starts and stops the process",
    ),
    refused("sign", UNSIGNED),
    refused(
        "view",
        "a name has one answer whoever asks, for a secondary has but one; `acl` says who may ask",
    ),
    refused(
        "nomad",
        "names come from the cluster and from zone files, not from Nomad",
    ),
    gone("proxy", "write forward"),
    gone(
        "federation",
        "take it out: clusters no longer have federation",
    ),
    gone("upstream", "take it out"),
];

/// The directives that work, in the order of the chain.
pub fn directives() -> impl DoubleEndedIterator<Item = &'static Registered> {
    REGISTRY.iter().filter_map(|entry| match &entry.kind {
        Kind::Directive(registered) => Some(registered),
        Kind::Refused(_) | Kind::Gone(_) => None,
    })
}

/// The words of directives that replies may be from.
pub fn answering_words() -> impl Iterator<Item = &'static str> {
    let answering = directives().filter(|it| it.role != Role::Setting);
    answering.map(|it| it.word)
}

/// Counts for the handlers of all directives.
#[must_use]
pub fn handler_metrics() -> HandlerMetrics {
    HandlerMetrics::new(directives().flat_map(|it| it.metrics).copied())
}

/// The handlers of a block in the order of the chain: those in front of its zones, and those behind them.
///
/// # Errors
/// When a file or a name that one needs cannot be used.
pub fn handlers(
    block: &ServerBlock,
    context: Context<'_>,
) -> Result<[Vec<Arc<dyn Handler>>; 2], BuildError> {
    let handlers = Vec::new();
    let mut chain = Chain { context, handlers };
    let mut before_zones = None;
    for directive in directives() {
        if directive.role == Role::Zones {
            before_zones.get_or_insert(chain.handlers.len());
        }
        (directive.add_handlers)(block, &mut chain)?;
    }
    let mut before = chain.handlers;
    let after = before.split_off(before_zones.unwrap_or(before.len()));
    Ok([before, after])
}

/// The table of refused directives in Markdown, in the order of the alphabet.
#[must_use]
pub fn refused_table() -> String {
    let refused = REGISTRY.iter().filter_map(|entry| match &entry.kind {
        Kind::Refused(why) => Some((entry.word, *why)),
        Kind::Directive(_) | Kind::Gone(_) => None,
    });
    let mut refused: Vec<_> = refused.collect();
    refused.sort_unstable();
    let mut table = String::from("| directive of CoreDNS | why it is refused |\n|---|---|\n");
    for (word, why) in refused {
        writeln!(table, "| `{word}` | {why} |").expect("a String takes all");
    }
    table
}

/// The table of directives in Markdown, in the order of the chain.
#[must_use]
pub fn directive_table() -> String {
    let mut table = String::from("| directive | what it says |\n|---|---|\n");
    for Registered { usage, summary, .. } in directives() {
        let (usage, summary) = (usage.replace('|', "\\|"), summary.replace('|', "\\|"));
        writeln!(table, "| `{usage}` | {summary} |").expect("a String takes all");
    }
    table
}

/// The entry of a word.
fn entry(word: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.word == word)
}

/// Whether this word begins a directive, supported or not.
pub(crate) fn is_known(word: &str) -> bool {
    entry(word).is_some()
}

/// Our directive of this name; any other is reported.
pub(crate) fn find(name: &Token, report: &mut Report) -> Option<&'static Registered> {
    let (word, place) = (name.text.as_str(), &name.place);
    match entry(word).map(|entry| &entry.kind) {
        Some(Kind::Directive(registered)) => return Some(registered),
        Some(Kind::Refused(why)) => report.not_supported(place, word, why),
        Some(Kind::Gone(fix)) => {
            report.error(place, format!("{word}: no longer a directive"), *fix);
        }
        None => {
            let fix = match nearest(word) {
                Some(near) => format!("did you mean '{near}'?"),
                None => "take it out, or look for a missing '{' or '}' above".to_owned(),
            };
            report.error(place, format!("unknown directive {}", name.shown()), fix);
        }
    }
    None
}

impl Registered {
    /// Whether a block has it.
    #[must_use]
    pub fn is_in(&self, block: &ServerBlock) -> bool {
        (self.has)(block)
    }

    /// Reads a directive into its block. `first` is the place of the first of this word in the block, if this is
    /// another one.
    pub(crate) fn read(
        &self,
        statement: &Statement,
        zones: &[Name],
        first: Option<&Place>,
        block: &mut ServerBlock,
        report: &mut Report,
    ) {
        if let Some(first) = first {
            self.report_repeat(statement, first, report);
        }
        (self.read)(statement, zones, block, report);
    }

    /// Says what a directive means that the block has already.
    fn report_repeat(&self, statement: &Statement, first: &Place, report: &mut Report) {
        let (word, place) = (self.word, &statement.name.place);
        // Of another file the line alone would be looked for in this one.
        let at = match first.file == place.file {
            true => format!("in line {}", first.line),
            false => format!("in {first}"),
        };
        match self.repeat {
            Repeat::Several | Repeat::Joined(None) => {}
            Repeat::Joined(Some(which)) => {
                let message = format!("{word} stands also {at}, {which}");
                report.warn(place, message, "take one out");
            }
            Repeat::Refused => {
                let message = format!("{word} stands already {at} of this block");
                report.error(place, message, "join the two");
            }
        }
    }
}

/// The directive that `text` is a slip of: one that becomes equal when one character is left out,
/// added or changed, or two neighbours swapped.
fn nearest(text: &str) -> Option<&'static str> {
    let is_meant = |entry: &&Entry| {
        entry.word.len() > 2
            && !matches!(entry.kind, Kind::Gone(_))
            && is_slip(text.as_bytes(), entry.word.as_bytes())
    };
    REGISTRY.iter().find(is_meant).map(|entry| entry.word)
}

/// Whether one edit makes the two equal.
fn is_slip(left: &[u8], right: &[u8]) -> bool {
    let common = left.iter().zip(right).take_while(|(a, b)| a == b).count();
    let (left, right) = (&left[common..], &right[common..]);
    match (left, right) {
        ([_, left_rest @ ..], _) if left_rest == right => true,
        (_, [_, right_rest @ ..]) if left == right_rest => true,
        ([_, left_rest @ ..], [_, right_rest @ ..]) if left_rest == right_rest => true,
        ([a, b, left_rest @ ..], [c, d, right_rest @ ..]) => {
            a == d && b == c && left_rest == right_rest
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_the_word_that_was_meant() {
        for (slip, want) in [
            ("kubernets", Some("kubernetes")),
            ("kuberenetes", Some("kubernetes")),
            ("promethues", Some("prometheus")),
            ("error", Some("errors")),
            ("errors_", Some("errors")),
            ("Log", Some("log")),
            ("nonsense", None),
        ] {
            assert_eq!(nearest(slip), want, "{slip}");
        }
    }
}
