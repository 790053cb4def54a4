//! The wiring: builds the parts from the configuration, binds, supervises, shuts down in order. Nobody
//! imports it but `main`.

mod plan;

pub use plan::{HISTORY_BYTES, HISTORY_KEEP, HISTORY_VERSIONS, interface_addresses, plan};
