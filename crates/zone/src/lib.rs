//! Zones: immutable contents, the differences between versions, and the versions with their history.
//!
//! This crate knows records and serials. It does not know Kubernetes, apart from the causes that it stores.

pub mod chain;
pub mod check;
mod contents;
mod delta;
pub mod digest;
mod edit;
pub mod gate;
pub mod hold;
pub mod journal;
#[cfg(test)]
mod laws;
mod left_behind;
mod link;
pub mod lookup;
mod net_cache;
mod next_serial;
mod node;
pub mod nsec3;
pub mod signing;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;

pub use contents::Contents;
pub use delta::{DeltaError, Net, Step};
pub use digest::{ContentTree, Hash, Link};
pub use edit::{Draft, Edit, difference};
pub use left_behind::LeftBehind;
pub use next_serial::{PeerSerial, Proof, next_serial};
pub use node::{Node, RrsetRef, Rrsets};
pub use version::{Candidate, Journaled, MemoryLimits, Version, Zone, ZoneSet};
