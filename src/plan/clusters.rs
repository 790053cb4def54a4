//! The clusters of a configuration: where the objects come from, which zones each is written into.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use corefile::Place;
use directives::config::{
    Apex, Config, External, Form, Kubernetes, Pods, ServerBlock, Source, Transfer,
};
use dns::Name;
use kubernetes::facts::{Kinds, Selector};
use kubernetes::schema::{ExternalSettings, Front, RecordLimits, Trusted};
use kubernetes::source::{ApiLimits, Keep, Wanted};
use provenance::Kind;
use writer::{ClusterPlan, ExternalPlan, ZonePlan};

use crate::plan::addresses::own_addresses;
use crate::plan::apex::{ApexDefaults, apex_settings};
use crate::plan::zone_settings::{gate, retention};

/// The label that leads a slice to its ServiceImport (KEP-1645).
const IMPORT_LABEL: &str = "multicluster.kubernetes.io/service-name";

/// One cluster: where its objects come from, and how they are written.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedCluster {
    /// The first directive that names it.
    pub place: Place,
    /// That directive's name.
    pub word: &'static str,
    /// Where its objects come from.
    pub source: Source,
    /// How long the first queries wait for its zones.
    pub startup_timeout: Duration,
    /// The objects that its source reads.
    pub wanted: Wanted,
    /// How it is rendered.
    pub plan: ClusterPlan,
}

impl PlannedCluster {
    /// Whether another plan of the cluster can keep the running source. The limits of requests belong to the source.
    pub(crate) fn keeps_source(&self, new: &Self) -> bool {
        self.source == new.source && self.wanted == new.wanted
    }

    /// Notes in the plan which objects the source reads.
    pub(crate) fn note_selection(&mut self) {
        let Wanted {
            kinds,
            namespace_labels,
            labels,
            slice_labels,
            keep,
            limits: _,
        } = &self.wanted;
        let kinds: Vec<Kind> = kinds.iter().collect();
        let read = (kinds, namespace_labels, labels, slice_labels, keep);
        self.plan.selection = format!("{} {read:?}", self.plan.source);
    }
}

/// Plans the clusters of a configuration, and adds their zones to `zones`. `local` gives the addresses of an
/// interface, or of the machine for `None`, loopback left out unless there is nothing else.
pub(crate) fn plan_clusters(
    config: &Config,
    zones: &mut Vec<Name>,
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> Vec<PlannedCluster> {
    let mut clusters: Vec<PlannedCluster> = Vec::new();
    for block in &config.servers {
        let own: Vec<IpAddr> = own_addresses(block, local);
        // A second block that writes the same zones shares them.
        for kubernetes in block.clusters() {
            if kubernetes.zones().any(|zone| !zones.contains(zone)) {
                let mut cluster = plan_cluster(block, kubernetes, &own);
                if let Some(namespace) = &config.namespace {
                    cluster.plan.front.trusted = Trusted::In(namespace.as_str().into());
                }
                add_new(zones, cluster.plan.zones());
                clusters.push(cluster);
            }
        }
        let (Some(external), Some(kubernetes)) =
            (block.get::<External>(), block.get::<Kubernetes>())
        else {
            continue;
        };
        let of_block =
            |cluster: &&mut PlannedCluster| Some(cluster.plan.home()) == kubernetes.home();
        if external.zones().any(|zone| !zones.contains(zone))
            && let Some(cluster) = clusters.iter_mut().find(of_block)
        {
            let plan = plan_external(block, external, &own);
            add_new(zones, plan.zones());
            let first = cluster.plan.zones().count();
            let is_open = |zone: &Name| {
                let apex = block.for_zone::<Apex>(zone);
                apex.is_none_or(|apex| apex.name_servers.is_empty())
            };
            let forward = (first..).zip(&plan.forward);
            let open = forward.filter(|(_, zone)| is_open(&zone.name));
            let open: Vec<(usize, &ZonePlan)> = open.collect();
            let front = &mut cluster.plan.front;
            front.zones.extend(open.iter().map(|(place, _)| place));
            let named = open.iter().filter_map(|(place, zone)| {
                let apex = block.for_zone::<Apex>(&zone.name)?;
                Some((*place, apex.service.clone()?))
            });
            front.named.extend(named);
            cluster.plan.external.push(plan);
        }
    }
    clusters
}

/// Adds the zones that are not there yet.
fn add_new<'a>(zones: &mut Vec<Name>, new: impl Iterator<Item = &'a ZonePlan>) {
    for plan in new {
        if !zones.contains(&plan.name) {
            zones.push(plan.name.clone());
        }
    }
}

/// Plans a zone.
fn plan_zone(
    block: &ServerBlock,
    zone: &Name,
    defaults: &ApexDefaults<'_>,
    own: &[IpAddr],
) -> ZonePlan {
    ZonePlan {
        name: zone.to_lower(),
        apex: apex_settings(block, zone, defaults, own),
        retention: retention(block.for_zone(zone)),
        gate: gate(block.for_zone(zone)),
    }
}

/// Plans a cluster.
fn plan_cluster(block: &ServerBlock, kubernetes: &Kubernetes, own: &[IpAddr]) -> PlannedCluster {
    let all = |zones: &[Name], made| -> Vec<ZonePlan> {
        let defaults = ApexDefaults {
            made,
            mbox: &["hostmaster"],
            ttl: kubernetes.ttl,
        };
        let zones = zones.iter();
        zones
            .map(|zone| plan_zone(block, zone, &defaults, own))
            .collect()
    };
    let wanted = wanted(kubernetes);
    let plan = ClusterPlan {
        source: source_name(&kubernetes.source),
        selection: String::new(),
        forward: all(&kubernetes.forward_zones, Form::Forward(kubernetes)),
        reverse: all(&kubernetes.reverse_zones, Form::Reverse(kubernetes)),
        clusterset: all(&kubernetes.clusterset_zones, Form::Clusterset(kubernetes)),
        external: Vec::new(),
        front: front(block, kubernetes, own),
        kinds: wanted.kinds,
        ttl: kubernetes.ttl,
        namespaces: kubernetes.namespaces.clone(),
        hides_empty_services: kubernetes.options.hides_empty_services,
        limits: record_limits(block, kubernetes),
        publishes_namespaces: match kubernetes.options.pods {
            Pods::Insecure => true,
            Pods::Disabled | Pods::Verified => false,
        },
        publishes_headless: kubernetes.options.zonal,
        publishes_clients: false,
    };
    let mut planned = PlannedCluster {
        place: kubernetes.place.clone(),
        word: kubernetes.word(),
        source: kubernetes.source.clone(),
        startup_timeout: kubernetes.options.startup_timeout,
        wanted,
        plan,
    };
    planned.note_selection();
    planned
}

/// The most records of objects. Zones that are transferred keep to the limits of secondaries.
fn record_limits(block: &ServerBlock, kubernetes: &Kubernetes) -> RecordLimits {
    let external = block.get::<External>().map(External::zones);
    let mut zones = kubernetes.zones().chain(external.into_iter().flatten());
    let is_transferred = zones.any(|zone| block.for_zone::<Transfer>(zone).is_some());
    let defaults = match is_transferred {
        true => RecordLimits::TRANSFERRED,
        false => RecordLimits::DEFAULT,
    };
    let written = kubernetes.options.limits;
    RecordLimits {
        rrset: written.rrset.map_or(defaults.rrset, NonZeroUsize::get),
        service: written.service.map_or(defaults.service, NonZeroUsize::get),
        namespace: { written.namespace }.map_or(defaults.namespace, NonZeroUsize::get),
    }
}

/// Plans external zones.
fn plan_external(block: &ServerBlock, external: &External, own: &[IpAddr]) -> ExternalPlan {
    let all = |zones: &[Name], made| -> Vec<ZonePlan> {
        let defaults = ApexDefaults {
            made,
            mbox: &["hostmaster", external.apex_label.as_str()],
            ttl: external.ttl,
        };
        let zones = zones.iter();
        zones
            .map(|zone| plan_zone(block, zone, &defaults, own))
            .collect()
    };
    ExternalPlan {
        forward: all(&external.forward_zones, Form::External(external)),
        reverse: all(&external.reverse_zones, Form::ExternalReverse(external)),
        settings: ExternalSettings {
            apex_label: external.apex_label.clone(),
            ttl: external.ttl,
            headless: external.headless,
            external_ips: external.external_ips,
        },
    }
}

/// The objects that the source of a cluster reads.
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
    // Without endpoints those of imports are read all the same, unless there is nothing else.
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
            // Set by `plan_clients`, which knows the handlers that want them.
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

/// Where the block's servers are reached, and which zones of a cluster have no name servers by
/// configuration: those of its own names and of addresses. Zones of addresses follow the first zone of names.
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
    let named = |place: usize| {
        let zones = &kubernetes.forward_zones;
        let zone = zones.get(place).or(zones.first())?;
        block.for_zone::<Apex>(zone)?.service.clone()
    };
    let zones: BTreeSet<usize> = zones
        .filter(|(place, zone)| is_open(*place) && !is_written(zone))
        .map(|(place, _)| place)
        .collect();
    Front {
        named: { zones.iter() }
            .filter_map(|place| Some((*place, named(*place)?)))
            .collect(),
        // Set by `plan_clusters`, which knows our namespace.
        trusted: Trusted::default(),
        addresses: own.iter().copied().filter(|it| !it.is_loopback()).collect(),
        ports: block.zones.iter().map(|key| key.port).collect(),
        zones,
    }
}

#[cfg(test)]
mod tests {
    use super::RecordLimits;
    use directives::config::{Overrides, parse_text};

    use crate::plan::model::Plan;

    /// security 5: 29 KB of YAML became 302 004 records, and NSD and BIND refused the zone.
    #[test]
    fn security_05_a_zone_that_is_transferred_keeps_to_the_limits_of_secondaries() {
        let limits = |lines: &str| {
            let text = format!("cluster.local {{\n kubernetes {{\n manifests x\n{lines}\n}}\n");
            let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
            Plan::new(&loaded.config, &|_| Vec::new()).clusters[0]
                .plan
                .limits
        };
        let transfer = "transfer {\n to 192.0.2.1\n }";
        assert_eq!(limits("}").rrset, RecordLimits::DEFAULT.rrset);
        let transferred = limits(&format!("}}\n{transfer}"));
        assert_eq!(transferred, RecordLimits::TRANSFERRED);
        // BIND refuses more than 100 records of an RRset.
        assert_eq!(transferred.rrset, 100);
        assert_eq!(limits(&format!("limits rrset 7\n }}\n{transfer}")).rrset, 7);
    }
}
