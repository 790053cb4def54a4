//! The plan made of a configuration: clusters, zones, their apexes, zone files, catalogs.

pub(crate) mod addresses;
pub(crate) mod apex;
pub(crate) mod catalogs;
pub(crate) mod clients;
pub(crate) mod clusters;
pub(crate) mod difference;
pub(crate) mod etcd_zones;
pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod model;
pub(crate) mod notes;
pub(crate) mod zone_settings;

pub use addresses::interface_addresses;
pub use clusters::PlannedCluster;
pub use etcd_zones::PlannedEtcd;
pub use files::PlannedFile;
pub use model::Plan;
