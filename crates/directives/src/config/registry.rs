//! All words that may begin a directive, in the order of CoreDNS's chain: our own, those of CoreDNS that we refuse, and
//! those that CoreDNS has removed. A new directive is one line here.

use std::fmt::Write;
use std::sync::Arc;

use corefile::argument::option_words;
use corefile::lexer::Token;
use corefile::parser::{Statement, Vocabulary};
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
    /// The kind of the word.
    kind: Kind,
}

/// A kind of word.
enum Kind {
    /// A directive that works.
    Directive(Registered),
    Refused(&'static str),
    Gone(&'static str),
}

/// A supported directive.
pub struct Registered {
    /// The word that begins it.
    pub word: &'static str,
    /// Its syntax, for the manual.
    pub usage: &'static str,
    /// Its purpose, for the manual.
    pub summary: &'static str,
    /// Its options, as messages list them.
    pub options: &'static str,
    /// The metrics of its handler.
    pub metrics: &'static [Metric],
    repeat: Repeat,
    /// Its effect on queries.
    pub role: Role,
    /// Reads it into a block.
    read: fn(&Statement, &[Name], &mut ServerBlock, &mut Report),
    /// Checks all directives of this word, in all blocks.
    pub(crate) check: fn(&[ServerBlock], &mut Report),
    has: fn(&ServerBlock) -> bool,
    /// Adds the handlers of all directives of this word in a block to its chain.
    add_handlers: fn(&ServerBlock, &mut Chain<'_>) -> Result<(), BuildError>,
}

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

fn add_handlers<D: Directive>(
    block: &ServerBlock,
    chain: &mut Chain<'_>,
) -> Result<(), BuildError> {
    match block.get::<D>() {
        None => Ok(()),
        Some(first) => first.add_handlers(block, chain),
    }
}

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

const fn refused(word: &'static str, why: &'static str) -> Entry {
    let kind = Kind::Refused(why);
    Entry { word, kind }
}

const fn gone(word: &'static str, fix: &'static str) -> Entry {
    let kind = Kind::Gone(fix);
    Entry { word, kind }
}

/// The reason for refusing directives that sign zones.
const UNSIGNED: &str = "zones are transferred unsigned: use a secondary that signs them and keeps the keys (`dnssec-signing: on` in Knot, `inline-signing yes` in BIND), and let it answer the clients";

/// All words, in the order of CoreDNS's plugin.cfg.
static REGISTRY: &[Entry] = &[
    directive::<crate::root::Root>(),
    directive::<crate::metadata::Metadata>(),
    refused(
        "geoip",
        "a name has the same answer everywhere, because a secondary has only one: for answers by place put CoreDNS with `geoip` in front, which forwards these zones to this server",
    ),
    directive::<crate::cancel::Cancel>(),
    refused(
        "proxyproto",
        "`acl` and `transfer` rely on the source address of the packet: let the load balancer keep it (`externalTrafficPolicy: Local` in its Service)",
    ),
    directive::<crate::quic::QuicLimits>(),
    refused(
        "grpc_server",
        "the server does not answer over gRPC: serve these clients with a `tls://`, `https://` or `quic://` key",
    ),
    directive::<crate::https::HttpsLimits>(),
    directive::<crate::https3::Https3Limits>(),
    directive::<crate::timeouts::Timeouts>(),
    directive::<crate::multisocket::Sockets>(),
    directive::<crate::reload::Reload>(),
    directive::<crate::state::StateFolder>(),
    directive::<crate::replicas::Replicas>(),
    directive::<crate::nsid::Nsid>(),
    directive::<crate::cookies::Cookies>(),
    directive::<crate::rrl::Rrl>(),
    directive::<crate::bufsize::Bufsize>(),
    directive::<crate::bind::Bind>(),
    directive::<crate::debug::DebugLines>(),
    refused(
        "trace",
        "the server sends no spans: `log` has the duration of each query, `prometheus` their distribution, and `why` the handler that answers a name",
    ),
    directive::<crate::ready::Ready>(),
    directive::<crate::health::Health>(),
    directive::<crate::pprof::Pprof>(),
    refused(
        "shed",
        "the number of waiting queries is limited without it, and each client has a share: see limits and defaults",
    ),
    directive::<crate::prometheus::Prometheus>(),
    directive::<crate::history_api::HistoryApi>(),
    directive::<crate::errors::Errors>(),
    directive::<crate::log::LogRule>(),
    refused(
        "dnstap",
        "`log` logs queries (as JSON with `--log-format json`), `prometheus` counts them; for dnstap itself use secondaries that have it (BIND, Knot, NSD, Unbound)",
    ),
    directive::<crate::local::Local>(),
    directive::<crate::dns64::Dns64>(),
    refused(
        "siit",
        "A records are not made from AAAA records: give the Services IPv4 addresses too (`ipFamilyPolicy: PreferDualStack`), write the A records into a zone file for `file`, or put CoreDNS with `siit` in front, which forwards these zones to this server",
    ),
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
    refused(
        "dynupdate",
        "a zone changes by its source alone: write the records into etcd (external-dns does, with `--provider=coredns`) or a zone file for `file`, or delegate the names to a server that takes updates (BIND, Knot) with NS records in a zone file, such as `_acme-challenge`",
    ),
    directive::<crate::hosts::Hosts>(),
    refused(
        "route53",
        "the records of AWS are not read: forward the zone to the resolver of the VPC (`forward ZONE 169.254.169.253`), or export it to a zone file for `file`",
    ),
    refused(
        "azure",
        "the records of Azure are not read: forward the zone to the resolver of the network (`forward ZONE 168.63.129.16`), or export it to a zone file for `file`",
    ),
    refused(
        "clouddns",
        "the records of Google Cloud are not read: forward the zone to the resolver of the network (`forward ZONE 169.254.169.254`), or export it to a zone file for `file`",
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
        "name each zone file with `file`, so that a zone file that is missing for a moment does not remove its zone. If they are many, let a script write these lines into a file that the Corefile imports",
    ),
    refused(
        "secondary",
        "zonewright is a primary only: forward the zone to a server that has it (`forward ZONE ADDRESS`), or let BIND, Knot or NSD be secondaries of both primaries and answer the clients",
    ),
    directive::<crate::etcd::Etcd>(),
    directive::<crate::r#loop::Loop>(),
    directive::<crate::forward::Forward>(),
    refused(
        "grpc",
        "use `forward`: it asks upstreams over UDP, TCP, TLS, HTTPS and QUIC. A CoreDNS upstream answers these if its block has such a key",
    ),
    refused(
        "erratic",
        "it gives wrong answers on purpose, for tests: `template` answers with any response code, and a CoreDNS beside this server can do the rest",
    ),
    directive::<crate::whoami::Whoami>(),
    refused(
        "on",
        "the server runs no commands: run them from the service manager that starts and stops it (`ExecStartPre=`, `ExecStopPost=`, or `lifecycle` of a container)",
    ),
    refused(
        "sign",
        "sign the zone file yourself (`dnssec-signzone`, `ldns-signzone`) and name it with `file`, which checks it and serves it as it is; or use a secondary that signs (`dnssec-signing: on` in Knot, `inline-signing yes` in BIND)",
    ),
    refused(
        "view",
        "a name has the same answer for all clients, because a secondary has only one: give each group of clients an address of its own, with `bind` in its block, or refuse some with `acl`",
    ),
    refused(
        "nomad",
        "the services of Nomad are not read: forward the zone to a server that has them (`forward service.nomad ADDRESS`), such as CoreDNS with `nomad` or Consul",
    ),
    gone("proxy", "write forward"),
    gone(
        "federation",
        "remove it: clusters no longer have federation",
    ),
    gone("upstream", "remove it"),
];

/// The supported directives, in the order of the chain.
pub fn directives() -> impl DoubleEndedIterator<Item = &'static Registered> {
    REGISTRY.iter().filter_map(|entry| match &entry.kind {
        Kind::Directive(registered) => Some(registered),
        Kind::Refused(_) | Kind::Gone(_) => None,
    })
}

/// The words of directives whose handlers reply to queries.
pub fn answering_words() -> impl Iterator<Item = &'static str> {
    let answering = directives().filter(|it| it.role != Role::Setting);
    answering.map(|it| it.word)
}

/// The metrics of all handlers.
#[must_use]
pub fn handler_metrics() -> HandlerMetrics {
    HandlerMetrics::new(directives().flat_map(|it| it.metrics).copied())
}

/// The handlers of a block in the order of the chain: those before its zones, and those after them.
///
/// # Errors
/// When a file or a name that a handler needs cannot be used.
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

/// The table of refused directives in Markdown, in alphabetical order.
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
    let mut table = String::from("| directive | meaning |\n|---|---|\n");
    for Registered { usage, summary, .. } in directives() {
        let (usage, summary) = (usage.replace('|', "\\|"), summary.replace('|', "\\|"));
        writeln!(table, "| `{usage}` | {summary} |").expect("a String takes all");
    }
    table
}

fn entry(word: &str) -> Option<&'static Entry> {
    REGISTRY.iter().find(|entry| entry.word == word)
}

/// The words of the grammar.
pub(crate) const VOCABULARY: Vocabulary = Vocabulary {
    is_directive: is_known,
    is_option,
};

/// Whether this word begins a directive, supported or not.
fn is_known(word: &str) -> bool {
    entry(word).is_some()
}

/// Whether a directive has an option with this name, as far as messages list its options.
fn is_option(directive: &str, word: &str) -> bool {
    match entry(directive).map(|entry| &entry.kind) {
        Some(Kind::Directive(registered)) => option_words(registered.options).any(|it| it == word),
        Some(Kind::Refused(_) | Kind::Gone(_)) | None => false,
    }
}

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
                None => "remove it, or look for a missing '{' or '}' above".to_owned(),
            };
            report.error(place, format!("unknown directive {}", name.shown()), fix);
        }
    }
    None
}

impl Registered {
    /// Whether a block has this directive.
    #[must_use]
    pub fn is_in(&self, block: &ServerBlock) -> bool {
        (self.has)(block)
    }

    /// Reads a directive into its block. `first` is the place of the block's first directive of this word, if this is a
    /// further one.
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

    /// Reports that the block has the directive already, if that matters.
    fn report_repeat(&self, statement: &Statement, first: &Place, report: &mut Report) {
        let (word, place) = (self.word, &statement.name.place);
        // If the first is in another file, a line number alone would mislead.
        let at = match first.file == place.file {
            true => format!("in line {}", first.line),
            false => format!("in {first}"),
        };
        match self.repeat {
            Repeat::Several | Repeat::Joined(None) => {}
            Repeat::Joined(Some(which)) => {
                let message = format!("{word} is also given {at}, {which}");
                report.warn(place, message, "remove one");
            }
            Repeat::Refused => {
                let message = format!("{word} is already given {at} of this block");
                report.error(place, message, "join the two");
            }
        }
    }
}

/// The directive that `text` may be a misspelling of.
fn nearest(text: &str) -> Option<&'static str> {
    let current = |entry: &&Entry| !matches!(entry.kind, Kind::Gone(_));
    let words = REGISTRY.iter().filter(current).map(|entry| entry.word);
    corefile::slip::nearest(text, words)
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
