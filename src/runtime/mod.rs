//! The running server: start, reload, shutdown, listeners, writer thread, sources, HTTP endpoints, supervision.

pub(crate) mod banner;
pub(crate) mod blocks;
pub(crate) mod caller_wishes;
pub(crate) mod certificates;
pub(crate) mod chain;
pub(crate) mod coredns_metrics;
pub(crate) mod deployment;
pub(crate) mod descriptors;
pub(crate) mod followed_files;
pub(crate) mod health;
pub(crate) mod history_access;
pub(crate) mod holds;
pub(crate) mod http_endpoints;
pub(crate) mod ingest;
pub(crate) mod listeners;
pub(crate) mod note_board;
pub(crate) mod note_places;
pub(crate) mod notes;
pub(crate) mod observed;
pub(crate) mod peer_serials;
pub(crate) mod process;
pub(crate) mod reload;
pub(crate) mod reused_handlers;
pub(crate) mod run;
pub(crate) mod sandbox;
pub(crate) mod serving;
pub(crate) mod shutdown;
pub(crate) mod signals;
pub(crate) mod sources;
pub(crate) mod startup_gate;
pub(crate) mod status;
pub(crate) mod writer_thread;
pub(crate) mod zone_files;

pub use banner::{print_plugins, print_version};
pub use history_access::StoredPast;
pub use run::run;
