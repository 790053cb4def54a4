//! This process as one of several replicas: the replica with its edges, joined with the writer, the journal and the zones.
//!
//! Without the directive `replicas` nothing here is used.
//!
//! - [`member`] starts it, and is what the other parts of the process speak to.
//! - [`edges`] is the Lease and the list of the other replicas.
//! - [`disk`] gives the orders of the loop to the thread of the journal, and what is announced to the zones.
//! - [`store`] is the writer's store, [`outcomes`] what became of its versions.
//! - [`counts`] is its metrics.
//! - [`host`] carries out what the loop wants of the program, [`role`] says who leads.

mod counts;
mod disk;
mod edges;
mod host;
mod member;
mod outcomes;
mod role;
mod store;

pub(crate) use member::{Member, MemberParts, WriterSide};
pub(crate) use role::Role;
