//! From server blocks to their chains: the handlers around the zones.

use std::collections::HashMap;
use std::sync::Arc;

use directives::config::{Cookies, Listener, Rrl, ServerBlock, ZoneKey, handlers};
use directives::handlers::{BuildError, Context, MissingFile, VersionName};
use dns::Name;
use server::{Beside, Block, BlockZones, Router, SynthesizedNames};
use zone::ZoneSet;

use crate::runtime::deployment::Deployment;
use crate::runtime::reused_handlers::ReusableBlocks;

/// What answers on a listener with these blocks. Handlers of `reusable` that a block would build again stay.
///
/// # Errors
/// When a file or name that a handler needs cannot be used.
pub(crate) fn router_of(
    blocks: &[&ServerBlock],
    deployment: &Deployment,
    context: &Context<'_>,
    (reusable, listeners): (&mut ReusableBlocks, &[Listener]),
) -> Result<Router, BuildError> {
    let chain = |block: &&ServerBlock| {
        let keys = keys_of_block(block, listeners).map(|key| key.apex.clone());
        let keys: Vec<Name> = keys.collect();
        let context = Context {
            clients: deployment.clients_of(block),
            ..context.clone()
        };
        let built = handlers(block, context)?;
        let zones = zones_of(block, deployment);
        let [before, after] = match reusable.take(listeners, &keys) {
            None => built,
            Some(old) => old.reuse(built, &zones),
        };
        let mut served = Block::new(before, zones, after, block.shape());
        if let Some(Rrl(limit)) = block.get() {
            served.rate_limit = limit.clone();
        }
        let cookies = block.get::<Cookies>();
        served.requires_cookie = cookies.is_some_and(|cookies| cookies.are_required);
        Ok((keys, served))
    };
    let chains: Result<Vec<_>, BuildError> = blocks.iter().map(chain).collect();
    Ok(Router::new(chains?))
}

/// The zones of a block.
pub(crate) fn zones_of(block: &ServerBlock, deployment: &Deployment) -> BlockZones {
    let mut zones = Vec::new();
    let mut beside = HashMap::new();
    for apex in block.zones_written() {
        if let Some(zone) = deployment.zones.get(apex) {
            zones.push(Arc::clone(zone));
        }
        let history = block.for_zone::<directives::config::History>(apex);
        let mut names: Vec<Arc<dyn SynthesizedNames>> = Vec::new();
        if history.is_some_and(|history| history.publishes) {
            names.push(Arc::new(VersionName));
        }
        names.extend(deployment.cluster_names(apex));
        if let Some((_, below)) = block.overlay_of(apex)
            && let Some(file) = deployment.plan.file(apex)
        {
            names.push(Arc::new(MissingFile {
                file: Arc::clone(&deployment.file(file).stats),
                names: below.iter().map(Name::to_lower).collect(),
            }));
        }
        let fallthrough = block.fallthrough_of(apex);
        beside.insert(apex.clone(), Beside { names, fallthrough });
    }
    BlockZones::new(ZoneSet::new(zones), beside)
}

/// The keys of a block on the listeners of one server, which all have the same.
pub(crate) fn keys_of_block<'a>(
    block: &'a ServerBlock,
    listeners: &'a [Listener],
) -> impl Iterator<Item = &'a ZoneKey> {
    let first = listeners.first().into_iter();
    first.flat_map(|listener| block.keys_on(listener))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::model::Plan;
    use directives::config::{Overrides, handler_metrics, parse_text};
    use directives::handlers::{Counts, Resolved, UpstreamSockets};
    use ops::{Clock, RequestMetrics, SystemClock};
    use server::Handler;

    /// What a Corefile's blocks do, on the listeners of the first; what `kept` has of it goes on, and so do the zones
    /// that were there before.
    fn router(
        text: &str,
        mut kept: ReusableBlocks,
        before: &Deployment,
    ) -> (Arc<Router>, Deployment) {
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        let plan = Plan::new(&loaded.config, &|_| Vec::new());
        let deployment = Deployment::new(plan, &RequestMetrics::default(), before);
        let blocks: Vec<&ServerBlock> = loaded.config.servers.iter().collect();
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let context = Context {
            clock: &clock,
            counts: Counts {
                metrics: &handler_metrics(),
                server: "dns://:53",
            },
            hostname: "node",
            clients: None,
            resolved: &Resolved::default(),
            sockets: &UpstreamSockets::default(),
        };
        let listeners = blocks[0].listeners();
        let router = router_of(&blocks, &deployment, &context, (&mut kept, &listeners)).unwrap();
        (Arc::new(router), deployment)
    }

    /// The words of those handlers of now that go on, but those of zones.
    fn going_on(before: &str, after: &str) -> Vec<&'static str> {
        let text = |directives: &str| format!(". {{\n{directives}\n}}\n");
        let (old, there) = router(
            &text(before),
            ReusableBlocks::default(),
            &Deployment::default(),
        );
        let of = parse_text("Corefile", &text(before), &Overrides::default(), &|_| None).unwrap();
        let listeners = of.config.servers[0].listeners();
        let kept = ReusableBlocks::new([(listeners, Arc::clone(&old))].into_iter());
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
        let (made, _) = router(&text, ReusableBlocks::default(), &deployment);
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
