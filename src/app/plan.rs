//! From the configuration to zones: which clusters there are, which zones each is written into, what
//! stands at their apex.

use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::cluster::{Kind, Kinds, SeenNamespaces};
use crate::corefile::{
    self, Apex, BindHost, Config, History, Kubernetes, Pods, ServerBlock, Source,
};
use crate::dns::{Name, Ttl};
use crate::live::{InsecurePods, LiveNames, ZonalNames};
use crate::pipeline::{ClusterPlan, ZonePlan};
use crate::schema::{ApexSettings, NameServer};
use crate::source::{ApiLimits, Keep, Wanted};
use crate::zone::journal::Retention;
use crate::zone::{MemoryLimits, Zone, ZoneSet};

/// Seconds between a secondary's checks, unless configured: NOTIFY makes it a net only.
const REFRESH: Ttl = Ttl::decode(300);
/// Seconds between checks after a failed one, unless configured.
const RETRY: Ttl = Ttl::decode(30);
/// Seconds after which a secondary stops answering, unless configured.
const EXPIRE: Ttl = Ttl::decode(86_400);

/// The most octets of history that stay in memory for IXFR, whatever is configured.
const MEMORY_BYTES: u64 = 16 << 20;

/// One cluster: where its objects come from, its zones, and the block that writes it.
#[derive(Debug)]
pub struct PlannedCluster<'a> {
    /// The first directive that names it.
    pub kubernetes: &'a Kubernetes,
    /// How it is rendered.
    pub plan: ClusterPlan,
    /// What its source is asked for.
    pub wanted: Wanted,
    /// What is kept of each of its zones, in the plan's order.
    pub kept: Vec<Retention>,
}

/// All that is planned.
#[derive(Debug)]
pub struct Planned<'a> {
    /// The clusters, in the order of the file.
    pub clusters: Vec<PlannedCluster<'a>>,
    /// All zones.
    pub zones: Arc<ZoneSet>,
}

impl Planned<'_> {
    /// What answers for names of a zone that no version holds.
    #[must_use]
    pub fn live_names(&self, apex: &Name) -> LiveNames {
        let is_its = |cluster: &&PlannedCluster<'_>| {
            let mut zones = cluster.plan.forward.iter();
            zones.any(|plan| plan.zone.apex() == apex)
        };
        let Some(PlannedCluster { plan, .. }) = self.clusters.iter().find(is_its) else {
            return LiveNames::default();
        };
        LiveNames {
            pods: plan.seen.as_ref().map(|seen| InsecurePods {
                seen: Arc::clone(seen),
                ttl: plan.ttl,
            }),
            zonal: plan.headless.as_ref().map(|services| ZonalNames {
                services: Arc::clone(services),
                ttl: plan.ttl,
            }),
        }
    }
}

/// Plans the clusters and zones of a configuration. `local` gives the addresses of an interface, or of
/// the machine for `None`, loopback left out unless there is nothing else.
#[must_use]
pub fn plan<'a>(config: &'a Config, local: &dyn Fn(Option<&str>) -> Vec<IpAddr>) -> Planned<'a> {
    let mut known: HashMap<Name, Arc<Zone>> = HashMap::new();
    let mut clusters = Vec::new();
    let mut order = Vec::new();
    for block in &config.servers {
        let Some(kubernetes) = &block.kubernetes else {
            continue;
        };
        // A second block that writes the same zones shares them.
        let fresh = |zone: &&Name| !known.contains_key(*zone);
        if kubernetes.zones().filter(fresh).count() == 0 {
            continue;
        }
        let own: Vec<IpAddr> = own_addresses(block, local);
        let mut zone_plan = |apex: &Name, forward: bool| {
            let zone = known.entry(apex.clone()).or_insert_with(|| {
                let zone = Arc::new(Zone::new(apex));
                order.push(Arc::clone(&zone));
                zone
            });
            ZonePlan {
                zone: Arc::clone(zone),
                apex: apex_settings(block, kubernetes, apex, forward, &own),
                limits: memory_limits(kept(block.history_for(apex))),
            }
        };
        let wanted = wanted(kubernetes);
        let plan = ClusterPlan {
            source: source_name(&kubernetes.source),
            forward: kubernetes
                .forward_zones
                .iter()
                .map(|apex| zone_plan(apex, true))
                .collect(),
            reverse: kubernetes
                .reverse_zones
                .iter()
                .map(|apex| zone_plan(apex, false))
                .collect(),
            kinds: wanted.kinds,
            ttl: kubernetes.ttl,
            namespaces: kubernetes.namespaces.clone(),
            hides_empty_services: kubernetes.options.hides_empty_services,
            seen: match kubernetes.options.pods {
                Pods::Insecure => Some(Arc::new(SeenNamespaces::default())),
                Pods::Disabled | Pods::Verified => None,
            },
            headless: kubernetes.options.zonal.then(Arc::default),
        };
        let kept = plan
            .zones()
            .map(|plan| kept(block.history_for(plan.zone.apex())))
            .collect();
        clusters.push(PlannedCluster {
            kubernetes,
            plan,
            wanted,
            kept,
        });
    }
    Planned {
        clusters,
        zones: Arc::new(ZoneSet::new(order)),
    }
}

/// What the source of a cluster is asked for.
pub(super) fn wanted(kubernetes: &Kubernetes) -> Wanted {
    let options = &kubernetes.options;
    let mut kinds = Kinds::BASE;
    if !options.endpoints {
        kinds = kinds.without(Kind::EndpointSlice);
    }
    match options.pods {
        Pods::Verified => kinds = kinds.with(Kind::Pod),
        Pods::Disabled | Pods::Insecure => {}
    }
    let corefile::ApiLimits {
        interval,
        burst,
        in_flight,
    } = options.api;
    let limits = ApiLimits::default();
    Wanted {
        kinds,
        namespace_labels: options.namespace_labels.clone(),
        labels: options.labels.clone(),
        keep: Keep {
            pod_names: options.endpoint_pod_names,
            zones: options.zonal,
        },
        limits: ApiLimits {
            interval: interval.unwrap_or(limits.interval),
            burst: burst.unwrap_or(limits.burst),
            in_flight,
        },
    }
}

/// The name of a source in logs, metrics and the history.
pub(super) fn source_name(source: &Source) -> String {
    match source {
        Source::InCluster => "in-cluster".to_owned(),
        Source::Kubeconfig { file, context } => match context {
            Some(context) => format!("{} ({context})", file.display()),
            None => file.display().to_string(),
        },
        Source::Endpoint { url, tls: _ } => url.clone(),
        Source::Manifests { dir } => dir.display().to_string(),
    }
}

/// What is kept of the past, with the defaults.
fn kept(history: Option<&History>) -> Retention {
    let mut kept = Retention::DEFAULT;
    if let Some(history) = history {
        kept.keep = history.keep.unwrap_or(kept.keep);
        kept.versions = history.versions.map_or(kept.versions, NonZeroU64::get);
        kept.octets = history.size_bytes.map_or(kept.octets, NonZeroU64::get);
    }
    kept
}

/// How much of it stays in memory.
fn memory_limits(kept: Retention) -> MemoryLimits {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    MemoryLimits {
        steps: number(kept.versions),
        octets: number(kept.octets.min(MEMORY_BYTES)),
    }
}

/// The addresses that a block's servers have: those it is bound to, else the machine's.
fn own_addresses(block: &ServerBlock, local: &dyn Fn(Option<&str>) -> Vec<IpAddr>) -> Vec<IpAddr> {
    let addresses_of = |host: &BindHost| match host {
        BindHost::Address(address) => vec![*address],
        BindHost::Interface(name) => local(Some(name)),
    };
    let mut own: Vec<IpAddr> = if block.bind.hosts.is_empty() {
        local(None)
    } else {
        let except: Vec<IpAddr> = block.bind.except.iter().flat_map(addresses_of).collect();
        let mut bound: Vec<IpAddr> = block.bind.hosts.iter().flat_map(addresses_of).collect();
        bound.retain(|address| !except.contains(address) && !address.is_unspecified());
        if bound.is_empty() { local(None) } else { bound }
    };
    own.sort_unstable();
    own.dedup();
    own
}

/// The name servers that an `apex` names.
fn name_servers(apex: Option<&Apex>) -> Vec<NameServer> {
    apex.iter()
        .flat_map(|apex| &apex.name_servers)
        .map(|server| NameServer {
            name: server.name.clone(),
            addresses: server.addresses.clone(),
        })
        .collect()
}

/// What stands at the apex of a zone: as configured, else the defaults.
fn apex_settings(
    block: &ServerBlock,
    kubernetes: &Kubernetes,
    zone: &Name,
    forward: bool,
    own: &[IpAddr],
) -> ApexSettings {
    let written = block.apex_for(zone);
    let field = |of: fn(&Apex) -> Option<Ttl>| written.and_then(of);
    let home = if forward {
        zone
    } else {
        &kubernetes.forward_zones[0]
    };
    // A reverse zone names what exists: the name servers of its forward zone, unless it has its own.
    let mut name_servers = name_servers(written);
    if name_servers.is_empty() && !forward {
        name_servers = self::name_servers(block.apex_for(home));
    }
    if name_servers.is_empty() {
        let name = home
            .child("dns")
            .and_then(|dns| dns.child("ns"))
            .unwrap_or_else(|_| home.clone());
        name_servers.push(NameServer {
            name,
            addresses: own.to_vec(),
        });
    }
    let ttl = field(|apex| apex.ttl).unwrap_or(kubernetes.ttl);
    ApexSettings {
        name_servers,
        mbox: written
            .and_then(|apex| apex.mbox.clone())
            .or_else(|| zone.child("hostmaster").ok())
            .unwrap_or_else(|| zone.clone()),
        refresh: field(|apex| apex.refresh).unwrap_or(REFRESH),
        retry: field(|apex| apex.retry).unwrap_or(RETRY),
        expire: field(|apex| apex.expire).unwrap_or(EXPIRE),
        minimum: field(|apex| apex.minimum).unwrap_or(kubernetes.ttl),
        ttl,
        forward,
    }
}

/// The addresses of an interface, or of the machine for `None`: loopback only when there is nothing
/// else, link-local IPv6 never.
#[must_use]
pub fn interface_addresses(interface: Option<&str>) -> Vec<IpAddr> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let wanted: Vec<IpAddr> = all
        .iter()
        .filter(|entry| interface.is_none_or(|name| entry.name == name))
        .filter(|entry| !entry.is_link_local())
        .map(if_addrs::Interface::ip)
        .collect();
    let outer: Vec<IpAddr> = wanted
        .iter()
        .copied()
        .filter(|address| !address.is_loopback())
        .collect();
    if outer.is_empty() { wanted } else { outer }
}
