//! The handlers that look at questions, from their directives: which, in CoreDNS's order.

use std::sync::Arc;

use directives::config::{SearchPath, ServerBlock};
use directives::handlers::{
    Acl, AclRule, Autopath, ClusterMetadata, Counts, Dns64, Local, Metadata, Rewrite, Search,
    Templates,
};
use server::Handler;

use crate::runtime::chain::Surroundings;
use crate::runtime::deployment::Deployment;

impl<'a> Surroundings<'a> {
    /// Where handlers count.
    const fn counts(self) -> Counts<'a> {
        Counts {
            metrics: self.metrics,
            server: self.server,
        }
    }
}

/// Those in front of all others: `metadata`, `local`, `dns64`.
pub(crate) fn first(
    block: &ServerBlock,
    deployment: &Deployment,
    surroundings: Surroundings<'_>,
) -> Vec<Arc<dyn Handler>> {
    let counts = surroundings.counts();
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    handlers.extend(metadata(block, deployment));
    if let Some(local) = block.get::<directives::config::Local>() {
        handlers.push(Arc::new(Local::new(local.has_prefix, counts)));
    }
    if let Some(dns64) = block.get::<directives::config::Dns64>() {
        handlers.push(Arc::new(Dns64::new(dns64, counts)));
    }
    handlers
}

/// Those that decide what is asked, and by whom: `rewrite`, `autopath`, `acl`.
pub(crate) fn asked(
    block: &ServerBlock,
    deployment: &Deployment,
    surroundings: Surroundings<'_>,
) -> Vec<Arc<dyn Handler>> {
    let mut handlers: Vec<Arc<dyn Handler>> = Vec::new();
    let rewrites: Vec<_> = block.all().cloned().collect();
    if !rewrites.is_empty() {
        handlers.push(Arc::new(Rewrite::new(rewrites)));
    }
    handlers.extend(autopath(block, deployment, surroundings));
    if block.has::<directives::config::Acl>() {
        let rule = |acl: &directives::config::Acl| AclRule {
            zones: acl.zones.clone(),
            policies: acl.policies.clone(),
        };
        let rules = block.all().map(rule).collect();
        handlers.push(Arc::new(Acl::new(rules, surroundings.counts())));
    }
    handlers
}

/// The handler of `template`.
pub(crate) fn templates(
    block: &ServerBlock,
    surroundings: Surroundings<'_>,
) -> Option<Arc<dyn Handler>> {
    let all: Vec<_> = block.all().cloned().collect();
    let counts = surroundings.counts();
    (!all.is_empty()).then(|| {
        let handler: Arc<dyn Handler> = Arc::new(Templates::new(all, zonefile::record, counts));
        handler
    })
}

/// The handler of `metadata`, if someone wants to know what it finds out.
fn metadata(block: &ServerBlock, deployment: &Deployment) -> Option<Arc<dyn Handler>> {
    let on = block.get::<directives::config::Metadata>()?;
    if !block.uses_metadata() {
        return None;
    }
    let cluster = block
        .get::<directives::config::Kubernetes>()
        .map(|kubernetes| ClusterMetadata {
            zones: kubernetes.zones().cloned().collect(),
            clusterset: kubernetes.clusterset_zones.clone(),
            is_zonal: kubernetes.options.zonal,
            clients: deployment.clients_of(block),
        });
    Some(Arc::new(Metadata {
        zones: on.zones.clone(),
        cluster,
    }))
}

/// The handler of `autopath`, if it has a path to walk.
fn autopath(
    block: &ServerBlock,
    deployment: &Deployment,
    surroundings: Surroundings<'_>,
) -> Option<Arc<dyn Handler>> {
    let autopath = block.get::<directives::config::Autopath>()?;
    let search = match &autopath.path {
        SearchPath::Names(names) => Search::Names(names.clone()),
        SearchPath::Cluster => Search::Cluster {
            clients: deployment.clients_of(block)?,
            zones: block
                .get::<directives::config::Kubernetes>()?
                .zones()
                .cloned()
                .collect(),
            // As CoreDNS: what cannot be read says nothing.
            more: std::fs::read_to_string("/etc/resolv.conf")
                .map(|text| directives::config::search_names(&text))
                .unwrap_or_default(),
        },
    };
    let zones = autopath.zones.clone();
    Some(Arc::new(Autopath::new(
        zones,
        search,
        surroundings.counts(),
    )))
}
