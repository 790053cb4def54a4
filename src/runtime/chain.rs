//! From server blocks to their chains: which handlers, in CoreDNS's order, around which zones.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::{Context, bail};
use directives::config::{BindHost, Listener, Policy, ServerBlock};
use directives::handlers::{Any, Cache, Chaos, Hosts, Loadbalance, Loop, UpstreamSockets, Weights};
use dns::Name;
use ops::{Clock, HandlerMetrics};
use server::{Beside, Block, BlockZones, Handler, LiveNames, Router, Shape};
use zone::ZoneSet;

use crate::runtime::deployment::Deployment;
use crate::runtime::listeners::{hostname, keys_of_block};
use crate::runtime::question_handlers;
use crate::runtime::reused_handlers::{Kept, KeptBlock};
use crate::runtime::upstreams::{self, Resolved};

/// What handlers are made with.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Tells the time.
    pub(crate) clock: &'a Arc<dyn Clock>,
    /// What is counted.
    pub(crate) metrics: &'a HandlerMetrics,
    /// The listener in metrics, such as `dns://:53`.
    pub(crate) server: &'a str,
    /// The addresses of upstreams that are written as names.
    pub(crate) resolved: &'a Resolved,
    /// How many sockets towards upstreams there may be.
    pub(crate) sockets: &'a UpstreamSockets,
}

/// What answers on a listener with these blocks.
///
/// # Errors
/// When a file or name that a handler needs cannot be used.
pub(crate) fn router_of(
    blocks: &[&ServerBlock],
    deployment: &Deployment,
    surroundings: Surroundings<'_>,
    (kept, listeners): (&mut Kept, &[Listener]),
) -> anyhow::Result<Router> {
    let chain = |block: &&ServerBlock| {
        let keys = keys_of_block(block, listeners).map(|key| key.apex.clone());
        let keys: Vec<Name> = keys.collect();
        let mut made = [
            before(block, deployment, surroundings)?,
            after(block, surroundings)?,
        ];
        let zones = zones_of(block, deployment);
        if let Some(old) = kept.take(listeners, &keys) {
            made = go_on(made, &zones, old);
        }
        let [fore, aft] = made;
        let chain = Block::new(fore, zones, aft, shape_of(block));
        Ok((keys, chain))
    };
    let chains: anyhow::Result<Vec<_>> = blocks.iter().map(chain).collect();
    Ok(Router::new(chains?))
}

/// The handlers in front of the zones, in CoreDNS's order.
fn before(
    block: &ServerBlock,
    deployment: &Deployment,
    surroundings: Surroundings<'_>,
) -> anyhow::Result<Vec<Arc<dyn Handler>>> {
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    handlers.extend(question_handlers::first(block, deployment, surroundings));
    if block.has::<Any>() {
        handlers.push(Arc::new(Any));
    }
    if let Some(chaos) = block.get::<directives::config::Chaos>() {
        let version = format!("zonewright-{}", env!("CARGO_PKG_VERSION"));
        handlers.push(Arc::new(Chaos {
            version: chaos.version.clone().unwrap_or(version),
            authors: chaos.authors.clone(),
            host: hostname(),
        }));
    }
    if let Some(balance) = block.get().filter(|it| !is_plain(it)) {
        handlers.push(Arc::new(loadbalance(balance)?));
    }
    handlers.extend(question_handlers::asked(block, deployment, surroundings));
    if let Some(cache) = block.get::<directives::config::Cache>() {
        let Surroundings {
            clock,
            metrics,
            server,
            ..
        } = surroundings;
        let zones = block.zones_written().map(Name::to_lower).collect();
        let cache = Cache::new(cache.clone(), zones, Arc::clone(clock), metrics, server);
        handlers.push(Arc::new(cache));
    }
    handlers.extend(question_handlers::templates(block, surroundings));
    if let Some(hosts) = block.get::<directives::config::Hosts>() {
        handlers.push(Arc::new(Hosts::new(hosts.clone(), surroundings.metrics)));
    }
    Ok(handlers)
}

/// Puts handlers of an old block in the place of new ones in front of the zones and behind them. A cache goes
/// on only if all behind it is what it was, for its answers are from there; else the new one, which is empty,
/// takes its place.
fn go_on(
    made: [Vec<Arc<dyn Handler>>; 2],
    zones: &BlockZones,
    mut old: KeptBlock,
) -> [Vec<Arc<dyn Handler>>; 2] {
    let mut taken = made.clone().map(|handlers| old.exchange(handlers));
    if let Some(place) = made[0].iter().position(|it| it.name() == "cache") {
        let [fore, aft] = &taken;
        let behind: Vec<_> = fore[place + 1..].iter().chain(aft).cloned().collect();
        if !old.stood_before(&fore[place], &behind, zones) {
            taken[0][place] = Arc::clone(&made[0][place]);
        }
    }
    taken
}

/// Whether any order of addresses does.
fn is_plain(balance: &directives::config::Loadbalance) -> bool {
    balance.policy == Policy::RoundRobin && balance.prefer.is_empty()
}

/// The handler of a `loadbalance` that needs one. A file of weights that is not there yet is looked for again.
fn loadbalance(balance: &directives::config::Loadbalance) -> anyhow::Result<Loadbalance> {
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
    if block.has::<directives::config::Loop>()
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
    let mut forwards = block.all().peekable();
    while let Some(config) = forwards.next() {
        let has_next = forwards.peek().is_some();
        let forward = upstreams::forward(config, has_next, surroundings)?;
        handlers.push(Arc::new(forward));
    }
    Ok(handlers)
}

/// What is done to the replies of a block on their way out.
fn shape_of(block: &ServerBlock) -> Shape {
    Shape {
        shuffles: block.get().is_some_and(is_plain),
        is_minimal: block.has::<directives::config::Minimal>(),
        datagram_octets: block.get::<directives::config::Bufsize>().map(|it| it.0),
    }
}

/// The zones of a block.
pub(crate) fn zones_of(block: &ServerBlock, deployment: &Deployment) -> BlockZones {
    let mut zones = Vec::new();
    let mut beside = HashMap::new();
    let mut fallthrough = fallthrough_of(block);
    for apex in block.zones_written() {
        if let Some(zone) = deployment.zones.get(apex) {
            zones.push(Arc::clone(zone));
        }
        let history = block.for_zone::<directives::config::History>(apex);
        let names = LiveNames {
            publishes_version: history.is_some_and(|history| history.publishes),
            ..deployment.live_names(apex)
        };
        let fallthrough = fallthrough.remove(apex).unwrap_or_default();
        beside.insert(apex.clone(), Beside { names, fallthrough });
    }
    BlockZones::new(ZoneSet::new(zones), beside)
}

/// The names for which the next is asked when a zone does not have them, by apex.
pub(crate) fn fallthrough_of(block: &ServerBlock) -> HashMap<Name, Vec<Name>> {
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
    if let Some(external) = block.get::<directives::config::External>() {
        external
            .zones()
            .for_each(|apex| add(apex, &external.fallthrough));
    }
    for file in block.all::<directives::config::ZoneFile>() {
        file.zones
            .iter()
            .for_each(|apex| add(apex, &file.fallthrough));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::model::Plan;
    use directives::config::{Overrides, parse_text};
    use ops::{RequestMetrics, SystemClock};

    /// What a Corefile's blocks do, on the listeners of the first; what `kept` has of it goes on, and so do the zones
    /// that were there before.
    fn router(text: &str, mut kept: Kept, before: &Deployment) -> (Arc<Router>, Deployment) {
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        let plan = Plan::new(&loaded.config, &|_| Vec::new());
        let deployment = Deployment::new(plan, &RequestMetrics::default(), before);
        let blocks: Vec<&ServerBlock> = loaded.config.servers.iter().collect();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let surroundings = Surroundings {
            clock: &clock,
            metrics: &HandlerMetrics::default(),
            server: "dns://:53",
            resolved: &Resolved::default(),
            sockets: &UpstreamSockets::default(),
        };
        let listeners = blocks[0].listeners();
        let router =
            router_of(&blocks, &deployment, surroundings, (&mut kept, &listeners)).unwrap();
        (Arc::new(router), deployment)
    }

    /// The words of those handlers of now that go on, but those of zones.
    fn going_on(before: &str, after: &str) -> Vec<&'static str> {
        let text = |directives: &str| format!(". {{\n{directives}\n}}\n");
        let (old, there) = router(&text(before), Kept::default(), &Deployment::default());
        let of = parse_text("Corefile", &text(before), &Overrides::default(), &|_| None).unwrap();
        let listeners = of.config.servers[0].listeners();
        let kept = Kept::new([(listeners, Arc::clone(&old))].into_iter());
        let (new, _) = router(&text(after), kept, &there);
        let old = old.blocks()[0].handlers();
        let is_old = |it: &&Arc<dyn Handler>| old.iter().any(|old| Arc::ptr_eq(old, it));
        let new = new.blocks()[0].handlers().iter();
        new.filter(is_old).map(|it| it.name()).collect()
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
        // What was behind it and is there no more answers no more.
        let only = |word: &str| format!("cache 30\n{word}");
        let forward = "forward . 192.0.2.1";
        assert_eq!(going_on(&with("cache 30"), &only(forward)), ["forward"]);
        let two = format!("{rest}\nforward example.org 192.0.2.3");
        assert_eq!(
            going_on(&format!("cache 30\n{two}"), &with("cache 30")),
            ["hosts"]
        );
    }

    #[test]
    fn why_names_each_handler_that_decides_and_in_the_order_of_the_chain() {
        let state = tempfile::tempdir().unwrap();
        let resolv = state.path().join("resolv.conf");
        std::fs::write(&resolv, "search a.test\n").unwrap();
        let text = format!(
            ". {{\nforward b.test 192.0.2.2\nforward . 192.0.2.1\nloop\nkubernetes cluster.local {{\nmanifests .\n}}\n\
             hosts {{\n10.0.0.1 a.test\n}}\ntemplate IN A c.test {{\nrcode NXDOMAIN\n}}\ncache 30\n\
             acl {{\nblock net 192.0.2.0/24\n}}\nautopath {}\nrewrite name a.test b.test\nloadbalance\n\
             chaos\nany\ndns64\nlocal\nmetadata\n}}\n",
            resolv.display()
        );
        let deployment = Deployment::default();
        let (made, _) = router(&text, Kept::default(), &deployment);
        let of = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
        let told = crate::runtime::blocks::blocks(&of.config, &deployment).remove(0);
        let words: Vec<_> = made.blocks()[0]
            .handlers()
            .iter()
            .map(|it| it.name())
            .collect();
        // These answer nothing of their own.
        let decides = |word: &&str| !["metadata", "cache", "loop"].contains(word);
        let mut zones = words.split(|word| *word == "kubernetes");
        let mut decide = || -> Vec<&str> {
            let words = zones.next().unwrap().iter().copied();
            words.filter(decides).collect()
        };
        assert_eq!((told.before.len(), told.before), (9, decide()));
        assert_eq!(
            told.after,
            ["forward b.test 192.0.2.2", "forward . 192.0.2.1"]
        );
        assert_eq!(decide(), ["forward", "forward"]);
    }

    #[test]
    fn a_cache_goes_on_where_the_zones_behind_it_stay() {
        let with = |lines: &str| {
            format!(
                "cache 30\nkubernetes cluster.local {{\nmanifests .\n{lines}\n}}\nforward . 192.0.2.1"
            )
        };
        let all = ["cache", "forward"];
        assert_eq!(going_on(&with(""), &with("")), all);
        assert_eq!(going_on(&with(""), &with("fallthrough")), ["forward"]);
        let none = "cache 30\nforward . 192.0.2.1";
        assert_eq!(going_on(&with(""), none), ["forward"]);
        assert_eq!(going_on(none, &with("")), ["forward"]);
    }
}
