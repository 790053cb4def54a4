//! From server blocks to their chains: which handlers, in CoreDNS's order, around which zones.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::app::kept::Kept;
use crate::app::listeners::hostname;
use crate::app::plan::Planned;
use crate::app::questions;
use crate::app::upstreams;
use crate::corefile::{self, BindHost, Policy, ServerBlock};
use crate::dns::Name;
use crate::live::{
    Any, Block, BlockZones, Cache, Chaos, Handler, Hosts, LiveNames, Loadbalance, Loop, Router,
    Shape, Weights,
};
use crate::ops::{Clock, HandlerMetrics};
use crate::zone::ZoneSet;

/// What handlers are made with.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    /// Tells the time.
    pub(super) clock: &'a Arc<dyn Clock>,
    /// What is counted.
    pub(super) metrics: &'a HandlerMetrics,
    /// The listener in metrics, such as `dns://:53`.
    pub(super) server: &'a str,
}

/// What answers on a listener with these blocks.
///
/// # Errors
/// When a file or name that a handler needs cannot be used.
pub(super) fn router_of(
    blocks: &[&ServerBlock],
    planned: &Planned<'_>,
    surroundings: Surroundings<'_>,
    kept: &mut Kept,
) -> anyhow::Result<Router> {
    let chain = |block: &&ServerBlock| {
        let keys: Vec<Name> = block.zones.iter().map(|key| key.apex.clone()).collect();
        let made = [
            before(block, planned, surroundings)?,
            after(block, surroundings)?,
        ];
        let mut taken = made.clone().map(|handlers| kept.exchange(&keys, handlers));
        forget_answers(&made, &mut taken);
        let [fore, aft] = taken;
        let chain = Block::new(fore, zones_of(block, planned), aft, shape_of(block));
        Ok((keys, chain))
    };
    let chains: anyhow::Result<Vec<_>> = blocks.iter().map(chain).collect();
    Ok(Router::new(chains?))
}

/// The handlers in front of the zones, in CoreDNS's order.
fn before(
    block: &ServerBlock,
    planned: &Planned<'_>,
    surroundings: Surroundings<'_>,
) -> anyhow::Result<Vec<Arc<dyn Handler>>> {
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    let on = &block.handlers;
    handlers.extend(questions::first(block, planned, surroundings));
    if on.any {
        handlers.push(Arc::new(Any));
    }
    if let Some(chaos) = &on.chaos {
        let version = format!("zonewright-{}", env!("CARGO_PKG_VERSION"));
        handlers.push(Arc::new(Chaos {
            version: chaos.version.clone().unwrap_or(version),
            authors: chaos.authors.clone(),
            host: hostname(),
        }));
    }
    if let Some(balance) = on.loadbalance.as_ref().filter(|it| !is_plain(it)) {
        handlers.push(Arc::new(loadbalance(balance)?));
    }
    handlers.extend(questions::asked(block, planned, surroundings));
    if let Some(cache) = &on.cache {
        let Surroundings {
            clock,
            metrics,
            server,
        } = surroundings;
        let zones = block.zones_written().map(Name::to_lower).collect();
        let cache = Cache::new(cache.clone(), zones, Arc::clone(clock), metrics, server);
        handlers.push(Arc::new(cache));
    }
    handlers.extend(questions::templates(block, surroundings));
    if let Some(hosts) = &on.hosts {
        handlers.push(Arc::new(Hosts::new(hosts.clone(), surroundings.metrics)));
    }
    Ok(handlers)
}

/// A cache that goes on goes on empty, as a new one, when something behind it is not what it was: its answers
/// are from there. `made` are the new handlers in front of the zones and behind them, `taken` those that are used.
fn forget_answers(made: &[Vec<Arc<dyn Handler>>; 2], taken: &mut [Vec<Arc<dyn Handler>>; 2]) {
    let Some(cache) = made[0].iter().position(|it| it.name() == "cache") else {
        return;
    };
    let behind = |of: &[Vec<Arc<dyn Handler>>; 2]| -> Vec<Arc<dyn Handler>> {
        let [fore, aft] = of;
        let behind = fore.iter().skip(cache + 1).chain(aft);
        // What looks for loops answers nothing.
        behind.filter(|it| it.name() != "loop").cloned().collect()
    };
    let mut pairs = behind(made).into_iter().zip(behind(taken));
    if pairs.any(|(new, used)| Arc::ptr_eq(&new, &used)) {
        taken[0][cache] = Arc::clone(&made[0][cache]);
    }
}

/// Whether any order of addresses does.
fn is_plain(balance: &corefile::Loadbalance) -> bool {
    balance.policy == Policy::RoundRobin && balance.prefer.is_empty()
}

/// The handler of a `loadbalance` that needs one. A file of weights that is not there yet is looked for again.
fn loadbalance(balance: &corefile::Loadbalance) -> anyhow::Result<Loadbalance> {
    let weighted = match &balance.policy {
        Policy::RoundRobin => None,
        Policy::Weighted { file, reload } => {
            let weights = match std::fs::read_to_string(file) {
                Ok(text) => Loadbalance::read_weights(&text)
                    .with_context(|| format!("{}: {}", balance.place, file.display()))?,
                Err(error) if !reload.is_zero() => {
                    tracing::warn!(file = %file.display(), %error, "weights cannot be read yet");
                    Weights::new()
                }
                Err(error) => {
                    bail!("{}: {}: {error}", balance.place, file.display());
                }
            };
            Some((file.clone(), *reload, weights))
        }
    };
    Ok(Loadbalance::new(weighted, balance.prefer.clone()))
}

/// The handlers behind the zones, in CoreDNS's order.
fn after(
    block: &ServerBlock,
    surroundings: Surroundings<'_>,
) -> anyhow::Result<Vec<Arc<dyn Handler>>> {
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    let on = &block.handlers;
    if on.finds_loops
        && let Some(key) = block.zones.first()
    {
        let listeners = block.listeners();
        let host = listeners
            .first()
            .and_then(|listener| listener.host.as_ref());
        let host = match host {
            Some(BindHost::Address(address)) => Some(*address),
            Some(BindHost::Interface(_)) | None => None,
        };
        handlers.push(Arc::new(Loop::new(&key.apex, host, key.port)));
    }
    for (place, config) in on.forwards.iter().enumerate() {
        let has_next = place + 1 < on.forwards.len();
        let forward = upstreams::forward(config, has_next, surroundings.metrics)?;
        handlers.push(Arc::new(forward));
    }
    Ok(handlers)
}

/// What is done to the replies of a block on their way out.
fn shape_of(block: &ServerBlock) -> Shape {
    let on = &block.handlers;
    Shape {
        shuffles: on.loadbalance.as_ref().is_some_and(is_plain),
        is_minimal: on.minimal,
        datagram_octets: on.bufsize,
    }
}

/// The zones of a block.
fn zones_of(block: &ServerBlock, planned: &Planned<'_>) -> BlockZones {
    let mut zones = Vec::new();
    let mut live = HashMap::new();
    for apex in block.zones_written() {
        if let Some(zone) = planned.zones.get(apex) {
            zones.push(Arc::clone(zone));
        }
        let history = block.history_for(apex);
        let names = LiveNames {
            publishes_version: history.is_some_and(|history| history.publishes),
            ..planned.live_names(apex)
        };
        if !names.is_empty() {
            live.insert(apex.clone(), names);
        }
    }
    BlockZones::new(ZoneSet::new(zones), live, fallthrough_of(block))
}

/// The names for which the next is asked when a zone does not have them, by apex.
fn fallthrough_of(block: &ServerBlock) -> HashMap<Name, Vec<Name>> {
    let mut all: HashMap<Name, Vec<Name>> = HashMap::new();
    let mut add = |apex: &Name, names: &[Name]| {
        all.entry(apex.clone())
            .or_default()
            .extend(names.iter().cloned());
    };
    for cluster in block.clusters() {
        cluster
            .zones()
            .for_each(|apex| add(apex, &cluster.fallthrough));
    }
    if let Some(external) = &block.external {
        external
            .zones()
            .for_each(|apex| add(apex, &external.fallthrough));
    }
    for file in &block.files {
        file.zones
            .iter()
            .for_each(|apex| add(apex, &file.fallthrough));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corefile::{Overrides, parse_text};
    use crate::ops::SystemClock;

    /// The handlers of a block with these directives, taken from `kept` where they are the same.
    fn handlers(directives: &str, kept: Kept) -> (Vec<Name>, Vec<Arc<dyn Handler>>) {
        let text = format!(". {{\n{directives}\n}}\n");
        let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let planned = crate::app::plan::plan(&loaded.config, &|_| Vec::new());
        let blocks: Vec<&ServerBlock> = loaded.config.servers.iter().collect();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let surroundings = Surroundings {
            clock: &clock,
            metrics: &HandlerMetrics::default(),
            server: "dns://:53",
        };
        let mut kept = kept;
        let router = router_of(&blocks, &planned, surroundings, &mut kept).unwrap();
        let handlers = router.blocks()[0].handlers().to_vec();
        (vec![Name::root()], handlers)
    }

    /// The words of those handlers of now that go on.
    fn going_on(before: &str, after: &str) -> Vec<&'static str> {
        let old = handlers(before, Kept::default());
        let (_, new) = handlers(after, Kept::new(vec![old.clone()]));
        let is_old = |it: &&Arc<dyn Handler>| old.1.iter().any(|old| Arc::ptr_eq(old, it));
        new.iter().filter(is_old).map(|it| it.name()).collect()
    }

    #[test]
    fn a_cache_goes_on_unless_what_is_behind_it_is_another() {
        let rest = "hosts {\n10.0.0.1 a.test\nfallthrough\n}\nforward . 192.0.2.1";
        let with = |first: &str| format!("{first}\n{rest}");
        assert_eq!(
            going_on(&with("cache 30"), &with("log\ncache 30")),
            ["cache", "hosts", "forward"]
        );
        assert_eq!(
            going_on(&with("cache 30"), &with("cache 31")),
            ["hosts", "forward"]
        );
        let other = with("cache 30").replace("192.0.2.1", "192.0.2.2");
        assert_eq!(going_on(&with("cache 30"), &other), ["hosts"]);
        let other = with("cache 30").replace("10.0.0.1", "10.0.0.2");
        assert_eq!(going_on(&with("cache 30"), &other), ["forward"]);
    }
}
