//! The wiring: builds the parts from the configuration, binds, supervises, shuts down in order. Nobody
//! imports it but `main` and the tests of the whole.

mod addresses;
mod ahead;
mod apex;
mod banner;
mod catalogs;
mod certificates;
mod chain;
mod clients;
mod commands;
mod counts;
mod data;
mod descriptors;
mod doctor;
mod emit;
mod ending;
mod ends;
mod explain;
mod export;
mod failure;
mod files;
mod follow;
mod health;
mod hosts;
mod inputs;
mod kept;
mod listeners;
mod observe;
mod past;
mod pins;
mod plan;
mod process;
mod questions;
mod reload;
mod render;
mod run;
mod sameness;
mod screen;
mod serving;
mod signals;
mod source;
mod startup;
mod stream;
mod takeover;
mod upstreams;
mod why;
mod writer;
mod zone_line;

pub use addresses::interface_addresses;
pub use banner::{print_plugins, print_version};
pub use commands::{
    blame, check, diff, freeze, log, print_zones, release, rollback, show, status, verify, why,
};
pub use doctor::doctor;
pub use emit::{Emission, emit};
pub use export::export;
pub use failure::Failure;
pub use files::PlannedFile;
pub use past::StoredPast;
pub use plan::{Planned, PlannedCluster, plan};
pub use render::{RenderedZone, render};
pub use run::run;
