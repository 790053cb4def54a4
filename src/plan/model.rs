//! A configuration as values: which clusters, zone files and catalogs there are, and the settings of each zone.
//!
//! A plan holds no handles. What runs for it is in [`crate::runtime`].

use std::net::IpAddr;

use directives::config::Config;
use dns::Name;
use writer::CatalogPlan;

use crate::plan::catalogs::plan_catalogs;
use crate::plan::clients::plan_clients;
use crate::plan::clusters::{PlannedCluster, plan_clusters};
use crate::plan::files::{PlannedFile, plan_file_zones, plan_overlays};

/// All that is planned.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// The clusters, in the order of the file.
    pub clusters: Vec<PlannedCluster>,
    /// The zone files, in the order of the file.
    pub files: Vec<PlannedFile>,
    /// The catalogs, in the order of the file.
    pub catalogs: Vec<CatalogPlan>,
    /// All zones, in the order of the file.
    pub zones: Vec<Name>,
}

impl Plan {
    /// A cluster, by its home.
    pub(crate) fn cluster(&self, home: &Name) -> Option<&PlannedCluster> {
        let mut clusters = self.clusters.iter();
        clusters.find(|cluster| cluster.plan.home() == home)
    }

    /// The file of a zone, or under it.
    pub(crate) fn file(&self, zone: &Name) -> Option<&PlannedFile> {
        self.files.iter().find(|file| file.plan.zone() == zone)
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
        let catalogs = plan_catalogs(config, &mut zones);
        Self {
            clusters,
            files,
            catalogs,
            zones,
        }
    }
}
