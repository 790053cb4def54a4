//! From server blocks to their chains: which handlers, in CoreDNS's order, around which zones.

use std::collections::HashMap;
use std::sync::Arc;

use crate::app::clients::clients_of;
use crate::app::listeners::hostname;
use crate::app::plan::Planned;
use crate::corefile::{self, SearchPath, ServerBlock};
use crate::dns::Name;
use crate::live::{
    Acl, AclRule, Any, Autopath, Block, BlockZones, Chaos, ClusterMetadata, Dns64, Handler, Local,
    Metadata, Rewrite, Router, Search, Shape, Templates,
};
use crate::source::zonefile;
use crate::zone::ZoneSet;

/// What answers on a listener with these blocks.
pub(super) fn router_of(blocks: &[&ServerBlock], planned: &Planned<'_>) -> Router {
    let chains = blocks.iter().map(|block| {
        let keys = block.zones.iter().map(|key| key.apex.clone()).collect();
        let chain = Block::new(
            before(block, planned),
            zones_of(block, planned),
            after(block),
            shape_of(block),
        );
        (keys, chain)
    });
    Router::new(chains.collect())
}

/// The handlers in front of the zones, in CoreDNS's order.
fn before(block: &ServerBlock, planned: &Planned<'_>) -> Vec<Arc<dyn Handler>> {
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    let on = &block.handlers;
    handlers.extend(metadata(block, planned));
    if let Some(local) = &on.local {
        handlers.push(Arc::new(Local {
            has_prefix: local.has_prefix,
            ..Local::default()
        }));
    }
    if let Some(dns64) = &on.dns64 {
        handlers.push(Arc::new(Dns64::new(dns64)));
    }
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
    if !on.rewrites.is_empty() {
        handlers.push(Arc::new(Rewrite::new(on.rewrites.clone())));
    }
    handlers.extend(autopath(block, planned));
    if !on.acls.is_empty() {
        let rule = |acl: &corefile::Acl| AclRule {
            zones: acl.zones.clone(),
            policies: acl.policies.clone(),
        };
        handlers.push(Arc::new(Acl::new(on.acls.iter().map(rule).collect())));
    }
    if !on.templates.is_empty() {
        let templates = Templates::new(on.templates.clone(), zonefile::record);
        handlers.push(Arc::new(templates));
    }
    handlers
}

/// The handler of `metadata`, if someone wants to know what it finds out.
fn metadata(block: &ServerBlock, planned: &Planned<'_>) -> Option<Arc<dyn Handler>> {
    let on = block.handlers.metadata.as_ref()?;
    if !block.uses_metadata() {
        return None;
    }
    let cluster = block.kubernetes.as_ref().map(|kubernetes| ClusterMetadata {
        zones: kubernetes.zones().cloned().collect(),
        clusterset: kubernetes.clusterset_zones.clone(),
        is_zonal: kubernetes.options.zonal,
        clients: clients_of(planned, block),
    });
    Some(Arc::new(Metadata {
        zones: on.zones.clone(),
        cluster,
    }))
}

/// The handler of `autopath`, if it has a path to walk.
fn autopath(block: &ServerBlock, planned: &Planned<'_>) -> Option<Arc<dyn Handler>> {
    let autopath = block.handlers.autopath.as_ref()?;
    let search = match &autopath.path {
        SearchPath::Names(names) => Search::Names(names.clone()),
        SearchPath::Cluster => Search::Cluster {
            clients: clients_of(planned, block)?,
            zones: block.kubernetes.as_ref()?.zones().cloned().collect(),
            // As CoreDNS: what cannot be read says nothing.
            more: std::fs::read_to_string("/etc/resolv.conf")
                .map(|text| corefile::search_names(&text))
                .unwrap_or_default(),
        },
    };
    Some(Arc::new(Autopath::new(autopath.zones.clone(), search)))
}

/// The handlers behind the zones, in CoreDNS's order.
fn after(_block: &ServerBlock) -> Vec<Arc<dyn Handler>> {
    Vec::new()
}

/// What is done to the replies of a block on their way out.
fn shape_of(_block: &ServerBlock) -> Shape {
    Shape::default()
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
