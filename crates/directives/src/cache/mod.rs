//! `cache [TTL] [ZONES…] { … }`: which replies are cached, and for how long.

pub(crate) mod handler;
pub(crate) mod metrics;

use std::sync::Arc;
use std::time::Duration;

use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;
use ops::metrics::Metric;

use crate::cache::handler::CacheHandler;
use crate::config::block::{Directive, Role, ServerBlock};
use crate::config::zone;
use crate::forward;
use crate::handlers::chain::{BuildError, Chain, Context};

/// The limits for replies of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The most replies.
    pub capacity: usize,
    /// The longest time, in seconds.
    pub most_seconds: u32,
    /// The shortest time, in seconds.
    pub least_seconds: u32,
    /// Names that are not cached, and all names below them.
    pub disabled: Vec<Name>,
}

/// The settings of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// Its place in the Corefile.
    pub place: Place,
    /// The cached names, and all names below them.
    pub zones: Vec<Name>,
    /// Answers.
    pub success: Kept,
    /// Denials.
    pub denial: Kept,
    /// The time for which failures are cached.
    pub servfail: Duration,
    /// Refreshes before replies expire.
    pub prefetch: Option<Prefetch>,
    /// Answers from expired replies.
    pub stale: Option<Stale>,
    /// Whether TTLs do not count down.
    pub keeps_ttl: bool,
}

/// The replies that are refreshed before they expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetch {
    /// The number of questions that a reply must have had, with pauses of at most `within`.
    pub amount: u32,
    /// The longest pause between two questions.
    pub within: Duration,
    /// The last per cent of the reply's time, in which it is refreshed.
    pub percent: u32,
}

/// Answers from expired replies (RFC 8767).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// The time after which an expired reply is not served.
    pub up_to: Duration,
    /// Whether the source is asked first, and its time limit. An inner `None` is no limit.
    pub verify: Option<Option<Duration>>,
    /// The TTL of expired replies, in seconds.
    pub ttl_seconds: u32,
    /// The time for which a source that failed is not asked again.
    pub recheck: Duration,
    /// Whether an expired answer is preferred to a new denial.
    pub prefers_positive: bool,
}

/// The default capacity.
const CAPACITY: usize = 10_000;

impl Directive for Cache {
    const WORD: &'static str = "cache";
    const USAGE: &'static str = "cache [TTL] [ZONES…] { … }";
    const SUMMARY: &'static str = "keeps replies of other servers, never answers of zones";
    const OPTIONS: &'static str =
        "success, denial, prefetch, serve_stale, serve_stale_policy, servfail, disable and keepttl";
    const ROLE: Role = Role::Shapes;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut arguments = directive.arguments.as_slice();
        let mut seconds = None;
        if let Some((first, rest)) = arguments.split_first()
            && first.text.parse::<i64>().is_ok()
        {
            seconds = positive_seconds(first, report);
            arguments = rest;
        }
        for token in arguments {
            warn_of_duration(token, report);
        }
        let kept = |most_seconds| Kept {
            capacity: CAPACITY,
            most_seconds: seconds.unwrap_or(most_seconds),
            least_seconds: 5,
            disabled: Vec::new(),
        };
        let mut cache = Cache {
            place: directive.name.place.clone(),
            zones: zone::arguments(arguments, zones, report),
            success: kept(3600),
            denial: kept(1800),
            servfail: Duration::from_secs(5),
            prefetch: None,
            stale: None,
            keeps_ttl: false,
        };
        let mut policy = None;
        for line in &directive.lines {
            match line.name.text.as_str() {
                "success" => read_kept(line, &mut cache.success, report),
                "denial" => read_kept(line, &mut cache.denial, report),
                "prefetch" => cache.prefetch = prefetch(line, report),
                "serve_stale" => cache.stale = stale(line, report),
                "serve_stale_policy" => read_policy(line, &mut policy, report),
                "servfail" => {
                    let value = line.value("DURATION", go_duration, report);
                    cache.servfail = value.unwrap_or(cache.servfail);
                    if cache.servfail > MOST_FAILURE {
                        let message =
                            "servfail of more than 5m is not permitted (RFC 2308 section 7.1)";
                        report.error(&line.name.place, message, "write at most 5m");
                    }
                }
                "disable" => disable(line, &mut cache, report),
                "keepttl" => {
                    line.refuse_arguments(report);
                    cache.keeps_ttl = true;
                }
                _ => directive.unknown_option(line, Cache::OPTIONS, report),
            }
        }
        match (&mut cache.stale, policy) {
            (Some(stale), policy) => stale.prefers_positive = policy.is_some(),
            (None, Some(place)) => {
                let message = "serve_stale_policy without serve_stale";
                report.error(&place, message, "add serve_stale");
            }
            (None, None) => {}
        }
        Some(cache)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        for block in blocks {
            let Some(cache) = block.get::<Cache>() else {
                continue;
            };
            for zone in &cache.zones {
                let mut keys = block.zones.iter().map(|key| &key.apex);
                if !keys.any(|key| zone.is_within(key) || key.is_within(zone)) {
                    let message = format!("cache: no query for {zone} comes to this block");
                    let fix = "write a zone of the block, or none for all of them";
                    report.warn(&cache.place, message, fix);
                }
            }
        }
    }

    fn add_handlers(&self, block: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        let zones = block.zones_written().map(Name::to_lower).collect();
        let Context { clock, counts, .. } = chain.context;
        chain.add(CacheHandler::new(
            self.clone(),
            zones,
            forward::sends_subnet(block),
            Arc::clone(clock),
            counts,
        ));
        Ok(())
    }
}

/// Warns of a zone that is meant as a time: only whole seconds are one, as in CoreDNS.
fn warn_of_duration(token: &Token, report: &mut Report) {
    let Ok(time) = go_duration(&token.text) else {
        return;
    };
    let message = format!("cache: {} is a zone here, not a time", token.shown());
    let seconds = time.as_secs().max(1);
    report.warn(
        &token.place,
        message,
        format!("write whole seconds, and before the zones: cache {seconds}"),
    );
}

/// The longest time for `servfail` and for RECHECK.
const MOST_FAILURE: Duration = Duration::from_secs(300);

/// Reads seconds that are not 0.
fn positive_seconds(token: &Token, report: &mut Report) -> Option<u32> {
    let seconds = token.text.parse().ok().filter(|seconds| *seconds > 0);
    if seconds.is_none() {
        let message = format!("cache: {} is not a TTL", token.shown());
        report.error(&token.place, message, "write whole seconds, at least 1");
    }
    seconds
}

/// Reads `success` and `denial`: `CAPACITY [TTL [MINTTL]]`.
fn read_kept(line: &Line, kept: &mut Kept, report: &mut Report) {
    let Some(tokens) = line.at_least_one("CAPACITY [TTL [MINTTL]]", report) else {
        return;
    };
    match tokens[0].text.parse() {
        Ok(capacity) => kept.capacity = capacity,
        Err(error) => {
            let message = format!("{} {}: {error}", line.name.text, tokens[0].shown());
            report.error(&tokens[0].place, message, "write how many replies are kept");
        }
    }
    if let Some(token) = tokens.get(1) {
        kept.most_seconds = positive_seconds(token, report).unwrap_or(kept.most_seconds);
    }
    if let Some(token) = tokens.get(2) {
        match token.text.parse() {
            Ok(seconds) => kept.least_seconds = seconds,
            Err(error) => {
                let message = format!("{} {}: {error}", line.name.text, token.shown());
                report.error(&token.place, message, "write whole seconds");
            }
        }
    }
}

/// Reads `prefetch AMOUNT [DURATION [PERCENT%]]`.
fn prefetch(line: &Line, report: &mut Report) -> Option<Prefetch> {
    let usage = "AMOUNT [DURATION [PERCENT%]]";
    let tokens = line.at_least_one(usage, report)?;
    let mut wrong = |token: &Token, why: &str| {
        let message = format!("prefetch {}: {why}", token.shown());
        report.error(&token.place, message, format!("write: prefetch {usage}"));
        None
    };
    let mut prefetch = Prefetch {
        amount: 0,
        within: Duration::from_secs(60),
        percent: 10,
    };
    match tokens[0].text.parse() {
        Ok(amount) => prefetch.amount = amount,
        Err(_) => return wrong(&tokens[0], "not a number of questions"),
    }
    if let Some(token) = tokens.get(1) {
        match go_duration(&token.text) {
            Ok(within) => prefetch.within = within,
            Err(error) => return wrong(token, &error.to_string()),
        }
    }
    if let Some(token) = tokens.get(2) {
        let percent = token.text.strip_suffix('%').and_then(|it| it.parse().ok());
        match percent.filter(|it| (10..=90).contains(it)) {
            Some(percent) => prefetch.percent = percent,
            None => return wrong(token, "not a percentage from 10% to 90%"),
        }
    }
    if let Some(token) = tokens.get(3) {
        return wrong(token, "one argument too many");
    }
    Some(prefetch).filter(|it| it.amount > 0)
}

fn stale(line: &Line, report: &mut Report) -> Option<Stale> {
    let mut stale = Stale {
        up_to: Duration::from_secs(3600),
        verify: None,
        ttl_seconds: 0,
        recheck: Duration::ZERO,
        prefers_positive: false,
    };
    let usage =
        "serve_stale [DURATION [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]]";
    let mut words = line.arguments.iter();
    let mut duration = |words: &mut std::slice::Iter<'_, Token>, most: Option<Duration>| {
        let token = words.next()?;
        let read = go_duration(&token.text).map_err(|error| error.to_string());
        let read = match (read, most) {
            (Ok(read), Some(most)) if read > most => Err(format!("more than {most:?}")),
            (read, _) => read,
        };
        match read {
            Ok(read) => Some(read),
            Err(error) => {
                let message = format!("serve_stale {}: {error}", token.shown());
                report.error(&token.place, message, format!("write: {usage}"));
                None
            }
        }
    };
    stale.up_to = duration(&mut words, None).unwrap_or(stale.up_to);
    let mode = words.next();
    match mode.map(|token| token.text.to_ascii_lowercase()).as_deref() {
        None | Some("immediate") => {}
        Some("verify") => {
            let timeout = duration(&mut words, None);
            stale.verify = Some(timeout.filter(|it| !it.is_zero()));
        }
        Some(_) => {
            let token = mode?;
            let message = format!("serve_stale {}: no such mode", token.shown());
            report.error(&token.place, message, "write immediate or verify");
            return Some(stale);
        }
    }
    let most = Duration::from_secs(u64::from(i32::MAX.unsigned_abs()));
    let ttl = duration(&mut words, Some(most)).unwrap_or_default();
    stale.recheck = duration(&mut words, Some(MOST_FAILURE)).unwrap_or_default();
    stale.ttl_seconds = u32::try_from(ttl.as_secs()).unwrap_or(0);
    if ttl.subsec_nanos() > 0 {
        let message = "the TTL of serve_stale is not in whole seconds";
        report.error(&line.name.place, message, format!("write: {usage}"));
    }
    if let Some(token) = words.next() {
        let message = format!("serve_stale: {} is one argument too many", token.shown());
        report.error(&token.place, message, format!("write: {usage}"));
    }
    Some(stale)
}

/// Reads `serve_stale_policy prefer_positive`.
fn read_policy(line: &Line, policy: &mut Option<Place>, report: &mut Report) {
    let Some(token) = line.exactly_one("prefer_positive", report) else {
        return;
    };
    if token.text.eq_ignore_ascii_case("prefer_positive") {
        line.set(policy, Some(line.name.place.clone()), report);
    } else {
        let message = format!("serve_stale_policy {}: no such policy", token.shown());
        report.error(
            &token.place,
            message,
            "write: serve_stale_policy prefer_positive",
        );
    }
}

/// Reads `disable success|denial [ZONES...]`.
fn disable(line: &Line, cache: &mut Cache, report: &mut Report) {
    let usage = "success|denial [ZONE...]";
    let Some((kind, zones)) = line
        .at_least_one(usage, report)
        .and_then(<[Token]>::split_first)
    else {
        return;
    };
    let zones = zone::arguments(zones, &[Name::root()], report);
    match kind.text.as_str() {
        "success" => cache.success.disabled = zones,
        "denial" => cache.denial.disabled = zones,
        _ => {
            let message = format!("disable {}: no such kind", kind.shown());
            report.error(&kind.place, message, format!("write: disable {usage}"));
        }
    }
}
