//! Zones: immutable contents, what two versions differ in, versions with their history.
//!
//! This folder knows records and serials, never Kubernetes objects beyond the causes it carries.

mod condensed;
mod contents;
mod delta;
mod edit;
pub mod journal;
#[cfg(test)]
mod laws;
mod node;
mod version;

pub use contents::Contents;
pub use delta::{DeltaError, Net, Step};
pub use edit::{Draft, Edit};
pub use node::{Node, RrsetRef, Rrsets};
pub use version::{Candidate, Journaled, MemoryLimits, Version, Zone, ZoneSet};
