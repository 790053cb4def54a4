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
    Any, Block, BlockZones, Cache, Chaos, Handler, Hosts, Loadbalance, Loop, Router, Shape, Weights,
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
        let chain = Block::new(
            kept.exchange(&keys, before(block, planned, surroundings)?),
            zones_of(block, planned),
            kept.exchange(&keys, after(block, surroundings)?),
            shape_of(block),
        );
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
        let names = planned.live_names(apex);
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
