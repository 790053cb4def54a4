//! Zones: immutable contents, what two versions differ in, versions with their history.
//!
//! This folder knows records and serials, never Kubernetes objects beyond the causes it carries.

pub mod check;
mod condensed;
mod contents;
mod delta;
mod edit;
pub mod gate;
pub mod journal;
#[cfg(test)]
mod laws;
pub mod lookup;
mod node;
mod version;

pub use contents::Contents;
pub use delta::{DeltaError, Net, Step};
pub use edit::{Draft, Edit};
pub use node::{Node, RrsetRef, Rrsets};
pub use version::{Candidate, Journaled, MemoryLimits, Version, Zone, ZoneSet};
