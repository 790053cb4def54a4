//! The command line: its arguments and one file per group of commands.

pub(crate) mod answered;
pub mod args;
pub(crate) mod audit_log;
pub(crate) mod check;
pub(crate) mod commands;
pub(crate) mod confirm;
pub(crate) mod doctor;
pub(crate) mod emit;
pub(crate) mod evidence;
pub(crate) mod explain;
pub(crate) mod export;
mod file_faults;
pub(crate) mod follow;
pub(crate) mod notes;
pub(crate) mod oneline;
pub(crate) mod pages;
pub(crate) mod progress;
pub(crate) mod render;
pub(crate) mod rights;
pub(crate) mod state_copy;
mod state_files;
pub(crate) mod stopped;
pub(crate) mod terminal;
pub(crate) mod verify;

pub use args::{Cli, Command, Emission, Translated, parse, translate};
pub use check::check;
pub use commands::{
    advance, blame, diff, hold, log, notify, print_zones, promote, release, reload, show, status,
    stop, why,
};
pub use doctor::doctor;
pub use emit::emit;
pub use export::export;
pub use pages::{completion, man_pages};
pub use render::{RenderedZone, render};
pub use verify::verify;
