//! A configuration as values: which clusters, zone files and catalogs there are, and the settings of each zone.
//!
//! A plan holds no handles. These are in [`crate::runtime`].

use std::net::IpAddr;

use directives::config::Config;
use dns::Name;
use writer::CatalogPlan;

use crate::plan::catalogs::plan_catalogs;
use crate::plan::clients::plan_clients;
use crate::plan::clusters::{PlannedCluster, plan_clusters};
use crate::plan::etcd_zones::{PlannedEtcd, plan_etcd};
use crate::plan::files::{PlannedFile, plan_file_zones, plan_overlays};

/// A configuration as values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The clusters, in the order of the file.
    pub clusters: Vec<PlannedCluster>,
    /// The zone files, in the order of the file.
    pub files: Vec<PlannedFile>,
    /// The zones from etcd, in the order of the file.
    pub etcd: Vec<PlannedEtcd>,
    /// The catalogs, in the order of the file.
    pub catalogs: Vec<CatalogPlan>,
    /// All zones, in the order of the file.
    pub zones: Vec<Name>,
}

impl Plan {
    /// For each cluster of a new plan the cluster here that it continues, if any. The source decides before the home, so zones
    /// may be reordered.
    pub(crate) fn predecessors(&self, new: &Self) -> Vec<Option<&PlannedCluster>> {
        let has_home =
            |old: &PlannedCluster, new: &PlannedCluster| old.plan.home() == new.plan.home();
        let shares_zone = |old: &PlannedCluster, new: &PlannedCluster| {
            let mut zones = new.plan.zones();
            old.source == new.source && zones.any(|zone| old.plan.zone(&zone.name).is_some())
        };
        let mut left: Vec<_> = self.clusters.iter().collect();
        let mut found = vec![None; new.clusters.len()];
        type IsSame<'a> = &'a dyn Fn(&PlannedCluster, &PlannedCluster) -> bool;
        let rules: [IsSame<'_>; 3] = [
            &|old, new| has_home(old, new) && shares_zone(old, new),
            &shares_zone,
            &has_home,
        ];
        for is_it in rules {
            let open = new.clusters.iter().zip(&mut found);
            for (new, found) in open.filter(|(_, found)| found.is_none()) {
                let place = left.iter().position(|old| is_it(old, new));
                *found = place.map(|place| left.remove(place));
            }
        }
        found
    }

    /// The file of a zone, or under it.
    pub(crate) fn file(&self, zone: &Name) -> Option<&PlannedFile> {
        self.files.iter().find(|file| file.plan.zone() == zone)
    }

    /// A zone from etcd.
    pub(crate) fn etcd(&self, zone: &Name) -> Option<&PlannedEtcd> {
        self.etcd.iter().find(|it| it.plan.zone.name == *zone)
    }

    /// A catalog, by its own zone.
    pub(crate) fn catalog(&self, zone: &Name) -> Option<&CatalogPlan> {
        self.catalogs.iter().find(|catalog| catalog.zone == *zone)
    }

    /// Plans the clusters and zones of a configuration. `local` gives the addresses of an interface, or of
    /// the machine for `None`, loopback left out unless there is nothing else.
    #[must_use]
    pub fn new(config: &Config, local: &dyn Fn(Option<&str>) -> Vec<IpAddr>) -> Self {
        let mut zones = Vec::new();
        let mut clusters = plan_clusters(config, &mut zones, local);
        plan_clients(config, &mut clusters);
        let mut files = Vec::new();
        for cluster in &clusters {
            plan_overlays(config, &cluster.plan, &mut files);
        }
        plan_file_zones(config, &mut zones, &mut files);
        let etcd = plan_etcd(config, &mut zones, local);
        let catalogs = plan_catalogs(config, &mut zones);
        Self {
            clusters,
            files,
            etcd,
            catalogs,
            zones,
        }
    }
}
