//! The command line: its arguments and one file per group of commands.

pub mod args;
pub(crate) mod commands;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod explain;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod render;
pub(crate) mod stopped;
pub(crate) mod terminal;

pub use args::{Cli, Command, Emission, Translated, translate};
pub use commands::{blame, check, diff, log, order, print_zones, show, status, verify, why};
pub use doctor::doctor;
pub use emit::emit;
pub use export::export;
pub use render::{RenderedZone, render};
