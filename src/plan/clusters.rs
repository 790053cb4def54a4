//! From the configuration to zones: which clusters there are, which zones each is written into, what
//! stands at their apex.

use std::borrow::Cow;
use std::collections::HashMap;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;

use directives::config::{
    Apex, Config, External, Form, Gate, History, Hold, Kubernetes, Pods, ServerBlock, Source,
};
use dns::{Name, Ttl};
use kubernetes::facts::{Kinds, SeenNamespaces, Selector};
use kubernetes::schema::{ApexSettings, ExternalSettings, Front};
use kubernetes::source::{ApiLimits, Keep, Wanted};
use provenance::Kind;
use server::{InsecurePods, LiveNames, ZonalNames};
use writer::{CatalogPlan, ClusterPlan, ExternalPlan, ZonePlan, service_node};
use zone::gate::GateSettings;
use zone::journal::Retention;
use zone::{MemoryLimits, Zone, ZoneSet};

use crate::plan::addresses::own_addresses;
use crate::plan::apex::{ApexDefaults, apex_settings};
use crate::plan::catalogs::plan_catalogs;
use crate::plan::clients;
use crate::plan::files::{PlannedFile, plan_file_zones, plan_overlays};

/// Seconds between a secondary's checks, unless configured: NOTIFY makes it a net only.
pub(crate) const REFRESH: Ttl = Ttl::decode(300);
/// Seconds between checks after a failed one, unless configured.
pub(crate) const RETRY: Ttl = Ttl::decode(30);
/// Seconds after which a secondary stops answering, unless configured.
pub(crate) const EXPIRE: Ttl = Ttl::decode(86_400);

/// The label that leads a slice to its ServiceImport (KEP-1645).
const IMPORT_LABEL: &str = "multicluster.kubernetes.io/service-name";

/// The most octets of history that stay in memory for IXFR, whatever is configured.
const MEMORY_BYTES: u64 = 16 << 20;

/// One cluster: where its objects come from, its zones, and the block that writes it.
#[derive(Debug)]
pub struct PlannedCluster<'a> {
    /// The first directive that names it.
    pub kubernetes: Cow<'a, Kubernetes>,
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
    /// The zone files, in the order of the file.
    pub files: Vec<PlannedFile>,
    /// The catalogs, in the order of the file, each with what is kept of it.
    pub catalogs: Vec<(CatalogPlan, Retention)>,
    /// All zones.
    pub zones: Arc<ZoneSet>,
    /// The zones whose content comes from where it came from before: it is as good as it was.
    pub unmoved: Vec<Name>,
    /// Which change of the Corefile it comes with, since the last reload or the last run.
    pub change: Option<String>,
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
            zonal: plan
                .headless
                .as_ref()
                .map(|services| ZonalNames::new(Arc::clone(services), plan.ttl, service_node)),
            publishes_version: false,
        }
    }
}

/// Plans the clusters and zones of a configuration. `local` gives the addresses of an interface, or of
/// the machine for `None`, loopback left out unless there is nothing else.
#[must_use]
pub fn plan<'a>(config: &'a Config, local: &dyn Fn(Option<&str>) -> Vec<IpAddr>) -> Planned<'a> {
    plan_with(config, local, &ZoneSet::default())
}

/// As [`plan`]; zones that are there already stay the same, with their versions and those who follow them, and
/// so does what is known of a source that stays.
#[must_use]
pub(crate) fn plan_onto<'a>(
    config: &'a Config,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
    before: &Planned<'_>,
) -> Planned<'a> {
    let mut planned = plan_with(config, local, &before.zones);
    planned.take_over(before);
    planned
}

/// Plans with the zones that are there.
fn plan_with<'a>(
    config: &'a Config,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
    there: &ZoneSet,
) -> Planned<'a> {
    let mut zones = Zones {
        there,
        known: HashMap::new(),
        order: Vec::new(),
    };
    let mut clusters: Vec<PlannedCluster<'a>> = Vec::new();
    for block in &config.servers {
        let own: Vec<IpAddr> = own_addresses(block, local);
        // A second block that writes the same zones shares them.
        for kubernetes in block.clusters() {
            if kubernetes.zones().any(|zone| zones.is_new(zone)) {
                clusters.push(zones.cluster(block, kubernetes, &own));
            }
        }
        let (Some(external), Some(kubernetes)) =
            (block.get::<External>(), block.get::<Kubernetes>())
        else {
            continue;
        };
        let of_block =
            |cluster: &&mut PlannedCluster<'_>| cluster.kubernetes.home() == kubernetes.home();
        if external.zones().any(|zone| zones.is_new(zone))
            && let Some(cluster) = clusters.iter_mut().find(of_block)
        {
            let plan = zones.external(block, external, &own);
            cluster.kept.extend(kept_of(block, plan.zones()));
            let first = cluster.plan.zones().count();
            let is_open = |zone: &Name| {
                let apex = block.for_zone::<Apex>(zone);
                apex.is_none_or(|apex| apex.name_servers.is_empty())
            };
            let forward = (first..).zip(&plan.forward);
            let open = forward.filter(|(_, zone)| is_open(zone.zone.apex()));
            let open = open.map(|(place, _)| place);
            cluster.plan.front.zones.extend(open);
            cluster.plan.external.push(plan);
        }
    }
    clients::plan_clients(config, &mut clusters);
    let mut files = Vec::new();
    for (place, cluster) in clusters.iter().enumerate() {
        plan_overlays(config, &cluster.plan, place, &mut files);
    }
    plan_file_zones(config, &mut files, &mut zones.order, there);
    let catalogs = plan_catalogs(config, &mut zones.order, there);
    Planned {
        clusters,
        files,
        catalogs,
        zones: Arc::new(ZoneSet::new(zones.order)),
        unmoved: Vec::new(),
        change: None,
    }
}

/// What is kept of these zones.
fn kept_of<'a>(
    block: &ServerBlock,
    zones: impl Iterator<Item = &'a ZonePlan>,
) -> impl Iterator<Item = Retention> {
    zones.map(|plan| kept(block.for_zone(plan.zone.apex())))
}

/// The zone of this name: the one that is there already, or a new one.
pub(crate) fn zone_of(there: &ZoneSet, apex: &Name) -> Arc<Zone> {
    match there.get(apex) {
        Some(zone) => Arc::clone(zone),
        None => Arc::new(Zone::new(apex)),
    }
}

/// The zones that were planned so far.
struct Zones<'z> {
    /// Those that were there before.
    there: &'z ZoneSet,
    /// By name.
    known: HashMap<Name, Arc<Zone>>,
    /// In the order of the file.
    order: Vec<Arc<Zone>>,
}

impl Zones<'_> {
    /// Whether a zone was not planned yet.
    fn is_new(&self, zone: &Name) -> bool {
        !self.known.contains_key(zone)
    }

    /// Plans a zone.
    fn zone(&mut self, block: &ServerBlock, zone: &Name, apex: ApexSettings) -> ZonePlan {
        let (order, there) = (&mut self.order, self.there);
        let known = self.known.entry(zone.clone()).or_insert_with(|| {
            let zone = zone_of(there, zone);
            order.push(Arc::clone(&zone));
            zone
        });
        ZonePlan {
            zone: Arc::clone(known),
            apex,
            limits: memory_limits(kept(block.for_zone(zone))),
            gate: gate(block.for_zone(zone)),
        }
    }

    /// Plans a cluster.
    fn cluster<'a>(
        &mut self,
        block: &ServerBlock,
        kubernetes: &'a Kubernetes,
        own: &[IpAddr],
    ) -> PlannedCluster<'a> {
        let mut plan_of = |zone: &Name, made| {
            let defaults = ApexDefaults {
                made,
                mbox: &["hostmaster"],
                ttl: kubernetes.ttl,
            };
            let apex = apex_settings(block, zone, &defaults, own);
            self.zone(block, zone, apex)
        };
        let mut all = |zones: &[Name], made| -> Vec<ZonePlan> {
            zones.iter().map(|zone| plan_of(zone, made)).collect()
        };
        let wanted = wanted(kubernetes);
        let plan = ClusterPlan {
            source: source_name(&kubernetes.source),
            forward: all(&kubernetes.forward_zones, Form::Forward(kubernetes)),
            reverse: all(&kubernetes.reverse_zones, Form::Reverse(kubernetes)),
            clusterset: all(&kubernetes.clusterset_zones, Form::Clusterset(kubernetes)),
            external: Vec::new(),
            front: front(block, kubernetes, own),
            kinds: wanted.kinds,
            ttl: kubernetes.ttl,
            namespaces: kubernetes.namespaces.clone(),
            hides_empty_services: kubernetes.options.hides_empty_services,
            seen: match kubernetes.options.pods {
                Pods::Insecure => Some(Arc::new(SeenNamespaces::default())),
                Pods::Disabled | Pods::Verified => None,
            },
            headless: kubernetes.options.zonal.then(Arc::default),
            clients: None,
        };
        let kept = kept_of(block, plan.zones()).collect();
        PlannedCluster {
            kubernetes: Cow::Borrowed(kubernetes),
            plan,
            wanted,
            kept,
        }
    }

    /// Plans external zones.
    fn external(
        &mut self,
        block: &ServerBlock,
        external: &External,
        own: &[IpAddr],
    ) -> ExternalPlan {
        let label = external.apex_label.as_str();
        let mut plan_of = |zone: &Name, made| {
            let defaults = ApexDefaults {
                made,
                mbox: &["hostmaster", label],
                ttl: external.ttl,
            };
            let apex = apex_settings(block, zone, &defaults, own);
            self.zone(block, zone, apex)
        };
        let mut all = |zones: &[Name], made| -> Vec<ZonePlan> {
            zones.iter().map(|zone| plan_of(zone, made)).collect()
        };
        ExternalPlan {
            forward: all(&external.forward_zones, Form::External(external)),
            reverse: all(&external.reverse_zones, Form::ExternalReverse(external)),
            settings: ExternalSettings {
                apex_label: external.apex_label.clone(),
                ttl: external.ttl,
                headless: external.headless,
            },
        }
    }
}

/// What the source of a cluster is asked for.
pub(crate) fn wanted(kubernetes: &Kubernetes) -> Wanted {
    let options = &kubernetes.options;
    let mut kinds = Kinds::BASE;
    let has_imports = !kubernetes.clusterset_zones.is_empty();
    if has_imports {
        kinds = kinds.with(Kind::ServiceImport);
    }
    if kubernetes.imports_only {
        kinds = kinds.without(Kind::Service);
    }
    // Without endpoints those of imports are looked at all the same, unless there is nothing else.
    let only_of_imports = kubernetes.imports_only || !options.endpoints;
    if !options.endpoints && (kubernetes.imports_only || !has_imports) {
        kinds = kinds.without(Kind::EndpointSlice);
    }
    match options.pods {
        Pods::Verified => kinds = kinds.with(Kind::Pod),
        Pods::Disabled | Pods::Insecure => {}
    }
    let directives::config::ApiLimits {
        interval,
        burst,
        in_flight,
    } = options.api;
    let limits = ApiLimits::default();
    Wanted {
        kinds,
        namespace_labels: options.namespace_labels.clone(),
        labels: options.labels.clone(),
        slice_labels: only_of_imports.then(|| of_imports(options.labels.as_ref())),
        keep: Keep {
            pod_names: options.endpoint_pod_names,
            zones: options.zonal,
            // Known when it is known who wants them: `plan_clients`.
            pod_labels: None,
        },
        limits: ApiLimits {
            interval: interval.unwrap_or(limits.interval),
            burst: burst.unwrap_or(limits.burst),
            in_flight,
        },
    }
}

/// The slices of ServiceImports among those that a selector gives.
fn of_imports(labels: Option<&Selector>) -> Selector {
    let own = labels.filter(|labels| !labels.is_everything());
    let text = match own {
        Some(labels) => format!("{labels},{IMPORT_LABEL}"),
        None => IMPORT_LABEL.to_owned(),
    };
    Selector::parse(&text).expect("a selector and the name of a label are a selector")
}

/// The name of a source in logs, metrics and the history.
pub(crate) fn source_name(source: &Source) -> String {
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
pub(crate) fn kept(history: Option<&History>) -> Retention {
    let mut kept = Retention::DEFAULT;
    if let Some(history) = history {
        kept.keep = history.keep.unwrap_or(kept.keep);
        kept.versions = history.versions.map_or(kept.versions, NonZeroU64::get);
        kept.octets = history.size_bytes.map_or(kept.octets, NonZeroU64::get);
    }
    kept
}

/// Which losses are held, with the defaults.
fn gate(gate: Option<&Gate>) -> Option<GateSettings> {
    let defaults = GateSettings::DEFAULT;
    let Some(gate) = gate else {
        return Some(defaults);
    };
    (!gate.is_off).then(|| GateSettings {
        shrink_percent: gate.shrink_percent.unwrap_or(defaults.shrink_percent),
        at_least: gate.at_least.unwrap_or(defaults.at_least),
        hold: match gate.hold {
            None => defaults.hold,
            Some(Hold::For(time)) => Some(time),
            Some(Hold::Forever) => None,
        },
    })
}

/// How much of it stays in memory.
pub(crate) fn memory_limits(kept: Retention) -> MemoryLimits {
    let number = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    MemoryLimits {
        steps: number(kept.versions),
        octets: number(kept.octets.min(MEMORY_BYTES)),
    }
}

/// Where the block's servers are reached, and which zones of a cluster have no name servers by
/// configuration: those of its own names and of addresses.
fn front(block: &ServerBlock, kubernetes: &Kubernetes, own: &[IpAddr]) -> Front {
    let is_written = |zone: &Name| {
        let apex = block.for_zone::<Apex>(zone);
        apex.is_some_and(|apex| !apex.name_servers.is_empty())
    };
    let forward = kubernetes.forward_zones.len();
    let home = kubernetes.forward_zones.first().map(is_written);
    let zones = kubernetes.forward_zones.iter();
    let zones = zones.chain(&kubernetes.reverse_zones).enumerate();
    let is_open = |place: usize| place < forward || home == Some(false);
    Front {
        addresses: own.iter().copied().filter(|it| !it.is_loopback()).collect(),
        ports: block.zones.iter().map(|key| key.port).collect(),
        zones: zones
            .filter(|(place, zone)| is_open(*place) && !is_written(zone))
            .map(|(place, _)| place)
            .collect(),
    }
}
