//! The wiring: builds the parts from the configuration, binds, supervises, shuts down in order. Nobody
//! imports it but `main` and the tests of the whole.

mod ahead;
mod catalogs;
mod certificates;
mod chain;
mod clients;
mod commands;
mod doctor;
mod emit;
mod export;
mod failure;
mod files;
mod hosts;
mod inputs;
mod listeners;
mod observe;
mod past;
mod plan;
mod questions;
mod reload;
mod render;
mod run;
mod source;
mod startup;
mod upstreams;
mod writer;

pub use commands::{blame, check, diff, log, print_zones, release, show, status, verify};
pub use doctor::doctor;
pub use emit::{Emission, emit};
pub use export::export;
pub use failure::Failure;
pub use files::PlannedFile;
pub use plan::{Planned, PlannedCluster, interface_addresses, plan};
pub use render::{RenderedZone, render};
pub use run::run;
