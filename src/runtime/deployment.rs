//! A plan with its handles: zones, counters, and the tables that handlers read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use directives::config::ServerBlock;
use directives::handlers::ClusterNames;
use dns::Name;
use kubernetes::facts::ClientPods;
use kubernetes::source::SourceStats;
use ops::RequestMetrics;
use server::SynthesizedNames;
use tokio::sync::oneshot;
use writer::{
    AskId, ClusterHandles, Configure, FilePlan, LiveTables, PlanChange, SourceId, service_node,
};
use zone::journal::Retention;
use zone::{Zone, ZoneSet};
use zonefile::follow::FileStats;

use crate::plan::clients::home_of;
use crate::plan::clusters::PlannedCluster;
use crate::plan::etcd_zones::PlannedEtcd;
use crate::plan::files::PlannedFile;
use crate::plan::model::Plan;

/// The handles of one cluster.
#[derive(Debug, Clone)]
pub(crate) struct DeployedCluster {
    /// Counters of its source.
    pub(crate) stats: Arc<SourceStats>,
    pub(crate) handles: ClusterHandles,
}

/// The handles of one zone file.
#[derive(Debug, Clone)]
pub(crate) struct DeployedFile {
    /// The number of its follower.
    pub(crate) source: SourceId,
    /// The problems of the file.
    pub(crate) stats: Arc<FileStats>,
}

/// A plan with its handles.
#[derive(Debug, Clone, Default)]
pub(crate) struct Deployment {
    /// The plan.
    pub(crate) plan: Plan,
    /// Its zones, in its order.
    pub(crate) zones: Arc<ZoneSet>,
    /// By home.
    clusters: BTreeMap<Name, DeployedCluster>,
    /// By zone.
    files: BTreeMap<Name, DeployedFile>,
    /// The sources of zones from etcd, by zone.
    etcd: BTreeMap<Name, SourceId>,
    /// The next number of a source.
    next_source: u64,
    /// The zones whose content has the same source as before. They are no more stale than they were.
    pub(crate) unmoved: Vec<Name>,
}

impl Deployment {
    /// Makes the handles of a plan. Zones in `before` stay the same, with their versions and subscribers. So do sources and
    /// files of both plans.
    pub(crate) fn new(plan: Plan, requests: &RequestMetrics, before: &Self) -> Self {
        let zone_of = |name: &Name| match before.zones.get(name) {
            Some(zone) => Arc::clone(zone),
            None => Arc::new(Zone::new(name)),
        };
        let zones = plan.zones.iter().map(zone_of).collect();
        let mut next_source = before.next_source;
        let mut new_source = || {
            next_source += 1;
            SourceId(next_source)
        };
        let mut clusters = BTreeMap::new();
        for (cluster, old) in plan.clusters.iter().zip(before.plan.predecessors(&plan)) {
            let home = cluster.plan.home();
            let mut live = LiveTables::new(&cluster.plan);
            let known = old.filter(|old| old.source == cluster.source);
            let known = known.map(|old| (old, before.cluster(old)));
            if let Some((old, known)) = known {
                carry_over(&mut live, cluster, &known.handles.live, old);
            }
            let running = known.filter(|(old, _)| old.keeps_source(cluster));
            let mut deployed = match running {
                Some((_, running)) => running.clone(),
                None => {
                    let stats = Arc::new(SourceStats::counting(requests.clone()));
                    let handles = ClusterHandles::new(new_source(), &cluster.plan);
                    DeployedCluster { stats, handles }
                }
            };
            deployed.handles.live = live;
            clusters.insert(home.clone(), deployed);
        }
        let mut files = BTreeMap::new();
        for file in &plan.files {
            let zone = file.plan.zone();
            let is_same = |old: &&PlannedFile| old.settings == file.settings;
            let running = before.plan.file(zone).filter(is_same);
            let deployed = match running.and_then(|_| before.files.get(zone)) {
                Some(running) => running.clone(),
                None => DeployedFile {
                    source: new_source(),
                    stats: Arc::default(),
                },
            };
            files.insert(zone.clone(), deployed);
        }
        let mut etcd = BTreeMap::new();
        for new in &plan.etcd {
            let zone = &new.plan.zone.name;
            let running = before.plan.etcd(zone).filter(|old| old.keeps_source(new));
            let running = running.and_then(|_| before.etcd.get(zone)).copied();
            etcd.insert(zone.clone(), running.unwrap_or_else(&mut new_source));
        }
        Self {
            etcd,
            zones: Arc::new(ZoneSet::new(zones)),
            clusters,
            files,
            next_source,
            unmoved: before.unmoved(&plan),
            plan,
        }
    }

    /// The zones of a new plan whose content has the same source as now.
    fn unmoved(&self, new: &Plan) -> Vec<Name> {
        let mut unmoved = Vec::new();
        for (cluster, old) in new.clusters.iter().zip(self.plan.predecessors(new)) {
            if let Some(old) = old.filter(|old| old.source == cluster.source) {
                let names = cluster.plan.zones().map(|zone| &zone.name);
                unmoved.extend(names.filter(|name| old.plan.zone(name).is_some()).cloned());
            }
        }
        let is_same = |new: &&PlannedFile| match &new.plan {
            FilePlan::Zone { zone, .. } => {
                let old = self.plan.file(zone);
                old.is_some_and(|old| old.settings == new.settings)
            }
            // The zone is a cluster's.
            FilePlan::Overlay { .. } | FilePlan::Etcd(_) => false,
        };
        let files = new.files.iter().filter(is_same);
        unmoved.extend(files.map(|file| file.plan.zone().clone()));
        let is_same = |new: &&PlannedEtcd| {
            let old = self.plan.etcd(&new.plan.zone.name);
            old.is_some_and(|old| old.access == new.access && old.plan.layout == new.plan.layout)
        };
        let etcd = new.etcd.iter().filter(is_same);
        unmoved.extend(etcd.map(|it| it.plan.zone.name.clone()));
        let catalogs = new.catalogs.iter().map(|catalog| &catalog.zone);
        unmoved.extend(
            catalogs
                .filter(|zone| self.plan.catalog(zone).is_some())
                .cloned(),
        );
        unmoved
    }

    /// The handles of a cluster of the plan.
    pub(crate) fn cluster(&self, of: &PlannedCluster) -> &DeployedCluster {
        &self.clusters[of.plan.home()]
    }

    /// The zones, with their retention.
    pub(crate) fn retentions(&self) -> impl Iterator<Item = (&Name, Retention)> {
        let plan = &self.plan;
        let clusters = plan.clusters.iter().flat_map(|it| it.plan.zones());
        let of_clusters = clusters.map(|zone| (&zone.name, zone.retention));
        let of_files = plan.files.iter().filter_map(|file| match &file.plan {
            FilePlan::Zone { zone, retention } => Some((zone, *retention)),
            FilePlan::Overlay { zone: _ } | FilePlan::Etcd(_) => None,
        });
        let of_etcd = plan.etcd.iter().map(|it| &it.plan.zone);
        let of_etcd = of_etcd.map(|zone| (&zone.name, zone.retention));
        let of_catalogs = plan.catalogs.iter();
        let of_catalogs = of_catalogs.map(|catalog| (&catalog.zone, catalog.retention));
        of_clusters
            .chain(of_files)
            .chain(of_etcd)
            .chain(of_catalogs)
    }

    /// The handles of a file of the plan.
    pub(crate) fn file(&self, of: &PlannedFile) -> &DeployedFile {
        &self.files[of.plan.zone()]
    }

    /// The number of the source of a zone from etcd.
    pub(crate) fn etcd_source(&self, of: &PlannedEtcd) -> SourceId {
        self.etcd[&of.plan.zone.name]
    }

    /// The zones of the writer that are no cluster's, with the numbers of their sources.
    pub(crate) fn files(&self) -> impl Iterator<Item = (SourceId, FilePlan)> {
        let files = self.plan.files.iter();
        let files = files.map(|file| (self.file(file).source, file.plan.clone()));
        let etcd = self.plan.etcd.iter();
        files.chain(etcd.map(|it| (self.etcd_source(it), it.file())))
    }

    /// The numbers of all sources and followers of files.
    pub(crate) fn sources(&self) -> BTreeSet<SourceId> {
        let of_clusters = self.clusters.values().map(|it| it.handles.source);
        let of_files = self.files.values().map(|it| it.source);
        let of_etcd = self.etcd.values().copied();
        of_clusters.chain(of_files).chain(of_etcd).collect()
    }

    /// The input that brings the running writer from another deployment to this one.
    pub(crate) fn configure(
        &self,
        changes: Vec<PlanChange>,
        cause: Option<String>,
        awaits_secondaries: Option<AskId>,
        done: oneshot::Sender<Result<(), String>>,
    ) -> Configure {
        let clusters = self.clusters.iter();
        let clusters = clusters.map(|(home, it)| (home.clone(), it.handles.clone()));
        let files = self.files.iter();
        Configure {
            changes,
            zones: Arc::clone(&self.zones),
            unmoved: self.unmoved.clone(),
            clusters: clusters.collect(),
            files: files
                .map(|(zone, it)| (zone.clone(), it.source))
                .chain(self.etcd.clone())
                .collect(),
            cause,
            awaits_secondaries,
            done,
        }
    }

    /// The synthesized names of a cluster, if it has any.
    pub(crate) fn cluster_names(&self, apex: &Name) -> Option<Arc<dyn SynthesizedNames>> {
        let is_its = |cluster: &&PlannedCluster| {
            let mut zones = cluster.plan.forward.iter();
            zones.any(|plan| plan.name == *apex)
        };
        let cluster = self.plan.clusters.iter().find(is_its)?;
        let ttl = cluster.plan.ttl;
        let LiveTables { seen, headless, .. } = self.cluster(cluster).handles.live.clone();
        let names = ClusterNames::new(seen, headless, ttl, service_node)?;
        Some(Arc::new(names))
    }

    /// The pods of a block's cluster by address, where they are published.
    pub(crate) fn clients_of(&self, block: &ServerBlock) -> Option<Arc<ClientPods>> {
        self.clusters
            .get(home_of(block)?)?
            .handles
            .live
            .clients
            .clone()
    }
}

/// Whether a zone has a version, also one from the store.
pub(crate) fn has_version(deployment: &Deployment, zone: &Name) -> bool {
    let zone = deployment.zones.get(zone);
    zone.is_some_and(|zone| zone.current().is_some())
}

/// Keeps the tables that handlers read, unless other objects are visible now. A source may be away for long; until it is
/// back, synthesized names are answered as before.
fn carry_over(
    live: &mut LiveTables,
    new: &PlannedCluster,
    known: &LiveTables,
    old: &PlannedCluster,
) {
    let sees_alike = new.plan.namespaces == old.plan.namespaces
        && new.wanted.namespace_labels == old.wanted.namespace_labels;
    let selects_alike = sees_alike
        && new.wanted.labels == old.wanted.labels
        && new.wanted.slice_labels == old.wanted.slice_labels
        && new.plan.kinds == old.plan.kinds
        && new.plan.hides_empty_services == old.plan.hides_empty_services;
    if sees_alike {
        keep(&mut live.seen, known.seen.as_ref());
    }
    if selects_alike {
        keep(&mut live.headless, known.headless.as_ref());
        keep(&mut live.clients, known.clients.as_ref());
    }
}

/// Puts a table in the place of an empty one, where both are wanted.
fn keep<T>(new: &mut Option<Arc<T>>, old: Option<&Arc<T>>) {
    if let (Some(new), Some(old)) = (new, old) {
        *new = Arc::clone(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use directives::config::{Overrides, parse_text};

    /// Whether the tables of namespaces and of headless Services stay, and the unmoved zones.
    fn taken(before: &str, after: &str) -> (bool, bool, String) {
        let plan = |lines: &str| {
            let text = format!("cluster.local example.org {{\n{lines}\n}}\n");
            let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
            Plan::new(&loaded.config, &|_| Vec::new())
        };
        let requests = RequestMetrics::default();
        let old = Deployment::new(plan(before), &requests, &Deployment::default());
        let new = Deployment::new(plan(after), &requests, &old);
        let [old, live] = [&old, &new].map(|it| &it.cluster(&it.plan.clusters[0]).handles.live);
        let is_same = |one: Option<*const ()>, other| one.is_some() && one == other;
        let seen = |live: &LiveTables| live.seen.as_ref().map(|it| Arc::as_ptr(it).cast());
        let headless = |live: &LiveTables| live.headless.as_ref().map(|it| Arc::as_ptr(it).cast());
        let unmoved: Vec<String> = new.unmoved.iter().map(ToString::to_string).collect();
        (
            is_same(seen(old), seen(live)),
            is_same(headless(old), headless(live)),
            unmoved.join(" "),
        )
    }

    #[test]
    fn what_is_known_goes_on_where_the_same_is_seen_of_the_same_source() {
        let cluster = |dir: &str, lines: &str| {
            format!(
                "kubernetes cluster.local {{\nmanifests {dir}\npods insecure\nzonal\n{lines}\n}}"
            )
        };
        let base = cluster(".", "");
        let zone = "cluster.local.".to_owned();
        let with = |lines: &str| taken(&base, &cluster(".", lines));
        assert_eq!(with("ttl 60"), (true, true, zone.clone()));
        assert_eq!(with("labels a=b"), (true, false, zone.clone()));
        assert_eq!(with("namespaces a"), (false, false, zone));
        assert_eq!(
            taken(&base, &cluster("..", "")),
            (false, false, String::new())
        );
        // The zone is stale although the file under it is the same.
        let over = |dir: &str| cluster(dir, "fallthrough") + "\nfile db cluster.local";
        assert_eq!(
            taken(&over("."), &over("..")),
            (false, false, String::new())
        );
    }
}
