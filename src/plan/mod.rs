//! The plan made of a configuration: clusters, zones, their apexes, zone files, catalogs.

pub(crate) mod addresses;
pub(crate) mod apex;
pub(crate) mod carry_over;
pub(crate) mod catalogs;
pub(crate) mod clients;
pub(crate) mod clusters;
pub(crate) mod compare;
pub(crate) mod files;
pub(crate) mod hosts;

pub use addresses::interface_addresses;
pub use clusters::{Planned, PlannedCluster, plan};
pub use files::PlannedFile;
