//! Zones: immutable contents, what two versions differ in, versions with their history.
//!
//! This folder knows records and serials, never Kubernetes objects beyond the causes it carries.

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
mod link;
pub mod lookup;
mod net_cache;
mod node;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod version;

pub use contents::Contents;
pub use delta::{DeltaError, Net, Step};
pub use digest::{ContentTree, Hash, Link};
pub use edit::{Draft, Edit};
pub use node::{Node, RrsetRef, Rrsets};
pub use version::{Candidate, Journaled, MemoryLimits, Version, Zone, ZoneSet};
