//! Whether two plans want the same data side: then that goes on as it is.

use writer::{CatalogPlan, ClusterPlan, ExternalPlan, FilePlan, ZonePlan};
use zone::journal::Retention;

use crate::plan::clusters::{Planned, PlannedCluster};
use crate::plan::files::PlannedFile;

impl Planned<'_> {
    /// Keeps the plan beyond the configuration that it was made of.
    #[must_use]
    pub(crate) fn into_owned(self) -> Planned<'static> {
        let Self {
            clusters,
            files,
            catalogs,
            zones,
            unmoved,
            change,
        } = self;
        let own = |cluster: PlannedCluster<'_>| PlannedCluster {
            kubernetes: std::borrow::Cow::Owned(cluster.kubernetes.into_owned()),
            plan: cluster.plan,
            wanted: cluster.wanted,
            kept: cluster.kept,
        };
        Planned {
            clusters: clusters.into_iter().map(own).collect(),
            files,
            catalogs,
            zones,
            unmoved,
            change,
        }
    }

    /// Whether zones, and where their content comes from, are the same; places in the Corefile do not count.
    #[must_use]
    pub(crate) fn has_same_data(&self, other: &Planned<'_>) -> bool {
        let Self {
            clusters,
            files,
            catalogs,
            zones: _,
            unmoved: _,
            change: _,
        } = self;
        all(clusters, &other.clusters, same_cluster)
            && all(files, &other.files, same_file)
            && all(catalogs, &other.catalogs, same_catalog)
    }
}

/// Whether both lists are as long and the same item by item.
fn all<T>(one: &[T], other: &[T], same: impl Fn(&T, &T) -> bool) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
}

/// Whether two clusters are read and written alike.
fn same_cluster(one: &PlannedCluster<'_>, other: &PlannedCluster<'_>) -> bool {
    let PlannedCluster {
        kubernetes,
        plan,
        wanted,
        kept,
    } = one;
    kubernetes.source == other.kubernetes.source
        && *wanted == other.wanted
        && *kept == other.kept
        && same_plan(plan, &other.plan)
}

/// Whether two clusters are rendered alike.
fn same_plan(one: &ClusterPlan, other: &ClusterPlan) -> bool {
    let ClusterPlan {
        source,
        forward,
        reverse,
        clusterset,
        external,
        front,
        kinds,
        ttl,
        namespaces,
        hides_empty_services,
        seen,
        clients,
        headless,
    } = one;
    *source == other.source
        && all(forward, &other.forward, same_zone)
        && all(reverse, &other.reverse, same_zone)
        && all(clusterset, &other.clusterset, same_zone)
        && all(external, &other.external, same_external)
        && *front == other.front
        && *kinds == other.kinds
        && *ttl == other.ttl
        && *namespaces == other.namespaces
        && *hides_empty_services == other.hides_empty_services
        && seen.is_some() == other.seen.is_some()
        && clients.is_some() == other.clients.is_some()
        && headless.is_some() == other.headless.is_some()
}

/// Whether external zones are rendered alike.
fn same_external(one: &ExternalPlan, other: &ExternalPlan) -> bool {
    let ExternalPlan {
        forward,
        reverse,
        settings,
    } = one;
    all(forward, &other.forward, same_zone)
        && all(reverse, &other.reverse, same_zone)
        && *settings == other.settings
}

/// Whether two zones are one.
fn same_zone(one: &ZonePlan, other: &ZonePlan) -> bool {
    let ZonePlan {
        zone,
        apex,
        limits,
        gate,
    } = one;
    zone.apex() == other.zone.apex()
        && *apex == other.apex
        && *limits == other.limits
        && *gate == other.gate
}

/// Whether two files are followed alike.
pub(crate) fn same_file(one: &PlannedFile, other: &PlannedFile) -> bool {
    let PlannedFile {
        place: _,
        settings,
        plan,
        kept,
    } = one;
    let same = match (plan, &other.plan) {
        (
            FilePlan::Zone { zone, limits },
            FilePlan::Zone {
                zone: other_zone,
                limits: other_limits,
            },
        ) => zone.apex() == other_zone.apex() && limits == other_limits,
        (
            FilePlan::Overlay { cluster, zone },
            FilePlan::Overlay {
                cluster: other_cluster,
                zone: other_zone,
            },
        ) => (cluster, zone) == (other_cluster, other_zone),
        (FilePlan::Zone { .. }, FilePlan::Overlay { .. })
        | (FilePlan::Overlay { .. }, FilePlan::Zone { .. }) => false,
    };
    same && *settings == other.settings && *kept == other.kept
}

/// Whether two catalogs say the same.
fn same_catalog(one: &(CatalogPlan, Retention), other: &(CatalogPlan, Retention)) -> bool {
    let (
        CatalogPlan {
            zone,
            limits,
            soa,
            members,
        },
        kept,
    ) = one;
    let (other, other_kept) = other;
    zone.apex() == other.zone.apex()
        && *limits == other.limits
        && *soa == other.soa
        && *kept == *other_kept
        && all(members, &other.members, |one, other| {
            one.0.apex() == other.0.apex() && one.1 == other.1
        })
}
