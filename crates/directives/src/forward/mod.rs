//! `forward FROM TO… { … }`: other servers that answer for some names.

pub(crate) mod handler;
pub(crate) mod metrics;

use std::net::{IpAddr, SocketAddr};
use std::num::ParseIntError;
use std::path::PathBuf;
use std::time::Duration;

use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::{DurationError, go_duration};
use dns::{Name, Rcode};
use ops::metrics::Metric;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::config::zone;
use crate::forward::handler::ForwardHandler;
use crate::handlers::chain::{BuildError, Chain};
use crate::rewrite;

mod lookup;
mod open;
pub(crate) mod resolved;
mod target;

pub use lookup::{resolve_upstreams, unresolved_upstreams};
pub use target::{Target, TargetHost, TargetScheme};

const MOST_TARGETS: usize = 15;

/// The settings of a `forward`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forward {
    /// Its place in the Corefile.
    pub place: Place,
    /// The name to forward, with all names below it.
    pub from: Name,
    /// Names that are not forwarded, with all names below them.
    pub except: Vec<Name>,
    /// The upstreams; at least one.
    pub targets: Vec<Target>,
    /// The order in which upstreams are tried.
    pub policy: ForwardPolicy,
    /// Whether TCP is used even for queries that came over UDP.
    pub force_tcp: bool,
    /// Whether UDP is used even for queries that came over TCP. A truncated reply is asked for again over TCP.
    pub prefer_udp: bool,
    /// The time after which an idle connection is closed.
    pub expire: Duration,
    /// The longest life of a connection; 0 is no limit.
    pub max_age: Duration,
    /// The most idle connections of each transport; 0 is no limit.
    pub max_idle_conns: usize,
    /// The time limit for a reply.
    pub read_timeout: Duration,
    /// The failed health checks after which an upstream is down; with 0 it never is.
    pub max_fails: u32,
    /// The most attempts for one query: `None` is two for each upstream, 0 is no limit.
    pub max_connect_attempts: Option<u32>,
    /// The settings of health checks.
    pub health: HealthCheck,
    /// The most queries at once; 0 is no limit.
    pub max_concurrent: usize,
    /// The response codes after which the next `forward` of the block is asked.
    pub next: Vec<Rcode>,
    /// Whether the next `forward` is asked when a reply has no answers.
    pub next_on_nodata: bool,
    /// The response codes after which the next upstream is asked.
    pub failover: Vec<Rcode>,
    /// Whether a query fails at once when all upstreams are down.
    pub failfast: bool,
    /// The files for TLS.
    pub tls: TlsFiles,
    /// The name in the certificates of upstreams without a name of their own.
    pub tls_server_name: Option<String>,
    /// The HTTP method for DNS over HTTPS.
    pub doh_method: DohMethod,
    /// Whether the letters of a question are random, and the reply must have the same.
    pub random_case: bool,
    /// Whether the client's subnet goes on to upstreams.
    pub client_subnet: bool,
    /// Our address for queries to upstreams.
    pub source_address: Option<IpAddr>,
    /// The resolvers for upstreams that are names; none means the system's.
    pub resolvers: Vec<SocketAddr>,
}

/// The order in which upstreams are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForwardPolicy {
    /// A random order for each query.
    #[default]
    Random,
    /// Each query begins with the next upstream.
    RoundRobin,
    /// The order in which they are written.
    Sequential,
}

/// The HTTP method for DNS over HTTPS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DohMethod {
    /// The query is in the URL.
    Get,
    /// The query is the body.
    #[default]
    Post,
}

/// The settings of health checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The interval of checks.
    pub interval: Duration,
    /// Whether checks ask for recursion.
    pub recursion_desired: bool,
    /// The name whose NS records are asked for.
    pub domain: Name,
}

impl Default for HealthCheck {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(500),
            recursion_desired: true,
            domain: Name::root(),
        }
    }
}

/// The files for TLS with upstreams.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsFiles {
    /// Our certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The authorities of their certificates; `None` means those that the system trusts.
    pub authorities: Option<PathBuf>,
}

impl Directive for Forward {
    const WORD: &'static str = "forward";
    const USAGE: &'static str = "forward FROM TO… { … }";
    const SUMMARY: &'static str = "asks other servers for names outside of the zones";
    const OPTIONS: &'static str = "except, force_tcp, prefer_udp, expire, max_age, max_idle_conns, read_timeout, \
     max_fails, max_connect_attempts, tls, tls_servername, policy, health_check, max_concurrent, next, next_on_nodata, \
     failover, failfast_all_unhealthy_upstreams, doh_method, random_case, \
     client_subnet, source_address and resolver";
    const REPEAT: Repeat = Repeat::Several;
    const ROLE: Role = Role::Answers;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = directive.name.place.clone();
        let usage = "write: forward FROM TO..., such as forward . /etc/resolv.conf";
        let Some((from, to)) = directive.arguments.split_first() else {
            report.error(&place, "forward needs FROM and TO", usage);
            return None;
        };
        let zones = zone::argument(from, report);
        if zones.len() > 1 {
            let message = format!(
                "{} stands for several zones, and only {} is forwarded",
                from.shown(),
                zones[0]
            );
            report.warn(&from.place, message, "write a forward for each zone");
        }
        if to.is_empty() {
            report.error(&place, format!("forward {} has no TO", from.shown()), usage);
        }
        if let Some(extra) = to.get(MOST_TARGETS) {
            let message = format!("forward has {} TO", to.len());
            report.error(
                &extra.place,
                message,
                format!("write at most {MOST_TARGETS}"),
            );
        }
        let mut forward = Forward {
            place,
            from: Name::root(),
            except: Vec::new(),
            targets: Vec::new(),
            policy: ForwardPolicy::default(),
            force_tcp: false,
            prefer_udp: false,
            expire: Duration::from_secs(10),
            max_age: Duration::ZERO,
            max_idle_conns: 0,
            read_timeout: Duration::from_secs(2),
            max_fails: 2,
            max_connect_attempts: None,
            health: HealthCheck::default(),
            max_concurrent: 0,
            next: Vec::new(),
            next_on_nodata: false,
            failover: Vec::new(),
            failfast: false,
            tls: TlsFiles::default(),
            tls_server_name: None,
            doh_method: DohMethod::default(),
            random_case: false,
            client_subnet: false,
            source_address: None,
            resolvers: Vec::new(),
        };
        for line in &directive.lines {
            option(directive, line, &mut forward, report);
        }
        let (age, expire) = (forward.max_age, forward.expire);
        if !age.is_zero() && age < expire {
            let message = format!("max_age {age:?} is less than expire {expire:?}");
            let fix = "write a longer max_age, or a shorter expire";
            report.error(&forward.place, message, fix);
        }
        forward.targets = target::all(to, forward.tls_server_name.is_some(), report);
        forward.from = zones.into_iter().next()?;
        Some(forward).filter(|it| !it.targets.is_empty())
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        let mut forwards = block.all::<Self>().peekable();
        while let Some(config) = forwards.next() {
            let metrics = chain.context.counts.metrics;
            let upstreams = open::open(config, &chain.context)?;
            let has_next = forwards.peek().is_some();
            let config = Forward {
                client_subnet: config.client_subnet || rewrite::sends_subnet(block),
                ..config.clone()
            };
            chain.add(ForwardHandler::new(config, upstreams, has_next, metrics));
        }
        Ok(())
    }
}

/// Whether a `forward` of a block sends upstreams the subnet of clients: their replies differ by it.
pub(crate) fn sends_subnet(block: &ServerBlock) -> bool {
    let mut forwards = block.all::<Forward>().peekable();
    forwards.peek().is_some() && rewrite::sends_subnet(block)
        || forwards.any(|forward| forward.client_subnet)
}

fn option(directive: &Statement, line: &Line, options: &mut Forward, report: &mut Report) {
    let switch = match line.name.text.as_str() {
        "force_tcp" => Some(&mut options.force_tcp),
        "prefer_udp" => Some(&mut options.prefer_udp),
        "random_case" => Some(&mut options.random_case),
        "client_subnet" => Some(&mut options.client_subnet),
        "next_on_nodata" => Some(&mut options.next_on_nodata),
        "failfast_all_unhealthy_upstreams" => Some(&mut options.failfast),
        _ => None,
    };
    if let Some(switch) = switch {
        line.refuse_arguments(report);
        *switch = true;
        return;
    }
    let whole = |text: &str| text.parse::<u32>();
    let size = |text: &str| text.parse::<usize>();
    match line.name.text.as_str() {
        "except" => {
            if let Some(tokens) = line.at_least_one("ZONE...", report) {
                let zones = tokens.iter().flat_map(|it| zone::argument(it, report));
                options.except.extend(zones);
            }
        }
        "expire" => duration(line, &mut options.expire, report),
        "max_age" => duration(line, &mut options.max_age, report),
        "read_timeout" => {
            let value = line.value("DURATION", positive, report);
            put(&mut options.read_timeout, value);
        }
        "max_idle_conns" => number(line, &mut options.max_idle_conns, size, report),
        "max_fails" => number(line, &mut options.max_fails, whole, report),
        "max_connect_attempts" => {
            let value = line.value("NUMBER", whole, report);
            put(&mut options.max_connect_attempts, value.map(Some));
        }
        "max_concurrent" => number(line, &mut options.max_concurrent, size, report),
        "policy" => {
            let value = line.value("random|round_robin|sequential", policy, report);
            put(&mut options.policy, value);
        }
        "doh_method" => {
            let value = line.value("GET|POST", doh_method, report);
            put(&mut options.doh_method, value);
        }
        "health_check" => {
            let value = health_check(line, report);
            put(&mut options.health, value);
        }
        "next" => codes(line, false, &mut options.next, report),
        "failover" => codes(line, true, &mut options.failover, report),
        "tls" => {
            let value = tls_files(line, report);
            put(&mut options.tls, value);
        }
        "tls_servername" => {
            let value = line.value("NAME", target::server_name, report);
            put(&mut options.tls_server_name, value.map(Some));
        }
        "source_address" => {
            let value = line.value("IP", str::parse::<IpAddr>, report);
            put(&mut options.source_address, value.map(Some));
        }
        "resolver" => resolvers(line, &mut options.resolvers, report),
        _ => directive.unknown_option(line, Forward::OPTIONS, report),
    }
}

/// Stores a value. Of several the last one counts.
fn put<T>(slot: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *slot = value;
    }
}

fn duration(line: &Line, slot: &mut Duration, report: &mut Report) {
    let value = line.value("DURATION", go_duration, report);
    put(slot, value);
}

fn number<T>(
    line: &Line,
    slot: &mut T,
    parse: impl FnOnce(&str) -> Result<T, ParseIntError>,
    report: &mut Report,
) {
    let value = line.value("NUMBER", parse, report);
    put(slot, value);
}

/// The text is not a positive duration.
#[derive(Debug, thiserror::Error)]
enum PositiveError {
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("must be positive")]
    Zero,
}

/// Reads a duration above zero.
fn positive(text: &str) -> Result<Duration, PositiveError> {
    let read = go_duration(text)?;
    Some(read)
        .filter(|it| !it.is_zero())
        .ok_or(PositiveError::Zero)
}

/// The word is none of the allowed ones.
#[derive(Debug, thiserror::Error)]
#[error("unknown word")]
struct UnknownWord;

fn policy(text: &str) -> Result<ForwardPolicy, UnknownWord> {
    match text {
        "random" => Ok(ForwardPolicy::Random),
        "round_robin" => Ok(ForwardPolicy::RoundRobin),
        "sequential" => Ok(ForwardPolicy::Sequential),
        _ => Err(UnknownWord),
    }
}

fn doh_method(text: &str) -> Result<DohMethod, UnknownWord> {
    match text {
        "GET" => Ok(DohMethod::Get),
        "POST" => Ok(DohMethod::Post),
        _ => Err(UnknownWord),
    }
}

/// Reads `health_check DURATION [no_rec] [domain NAME]`.
fn health_check(line: &Line, report: &mut Report) -> Option<HealthCheck> {
    let tokens = line.at_least_one("DURATION [no_rec] [domain NAME]", report)?;
    let mut health = HealthCheck::default();
    match go_duration(&tokens[0].text) {
        Ok(interval) => health.interval = interval,
        Err(error) => {
            let message = format!("health_check {}: {error}", tokens[0].shown());
            report.error(&tokens[0].place, message, "write a duration such as 500ms");
        }
    }
    let mut words = tokens[1..].iter();
    while let Some(token) = words.next() {
        match token.text.as_str() {
            "no_rec" => health.recursion_desired = false,
            "domain" => {
                let Some(name) = words.next() else {
                    report.error(&token.place, "domain needs a name", "write: domain NAME");
                    break;
                };
                health.domain = zone::domain_name(name, report).unwrap_or_else(Name::root);
            }
            _ => {
                let message = format!("health_check has no option {}", token.shown());
                report.error(&token.place, message, "its options are no_rec and domain");
            }
        }
    }
    Some(health)
}

fn codes(line: &Line, are_failures: bool, into: &mut Vec<Rcode>, report: &mut Report) {
    for token in line.at_least_one("RCODE...", report).unwrap_or_default() {
        match Rcode::of_mnemonic(&token.text) {
            Some(Rcode::NOERROR) if are_failures => {
                let message = "failover NOERROR: an answer is not a failure";
                report.error(&token.place, message, "remove it");
            }
            Some(code) => into.push(code),
            None => {
                let message = format!(
                    "{} {} is not a response code",
                    line.name.text,
                    token.shown()
                );
                let fix = "write codes such as NXDOMAIN, SERVFAIL or REFUSED";
                report.error(&token.place, message, fix);
            }
        }
    }
}

/// Reads `tls`, `tls CA`, `tls CERT KEY` or `tls CERT KEY CA`.
pub(crate) fn tls_files(line: &Line, report: &mut Report) -> Option<TlsFiles> {
    let path = |at: usize| PathBuf::from(&line.arguments[at].text);
    let (identity, authorities) = match line.arguments.len() {
        0 => (None, None),
        1 => (None, Some(path(0))),
        2 => (Some((path(0), path(1))), None),
        3 => (Some((path(0), path(1))), Some(path(2))),
        count => {
            let message = format!("tls takes at most three arguments, there are {count}");
            report.error(&line.name.place, message, "write: tls [CERT KEY] [CA]");
            return None;
        }
    };
    Some(TlsFiles {
        identity,
        authorities,
    })
}

/// Reads addresses with ports, 53 unless given.
fn resolvers(line: &Line, into: &mut Vec<SocketAddr>, report: &mut Report) {
    into.clear();
    for token in line
        .at_least_one("IP[:PORT]...", report)
        .unwrap_or_default()
    {
        match corefile::address::parse_dns_address(&token.text) {
            Ok(address) => into.push(address),
            Err(error) => {
                let message = format!("resolver {} {error}", token.shown());
                let fix = error.fix("write IP or IP:PORT".to_owned());
                report.error(&token.place, message, fix);
            }
        }
    }
}

#[cfg(test)]
mod tests;
