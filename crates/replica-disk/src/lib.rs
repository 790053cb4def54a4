//! The journal as replicas use it.
//!
//! One thread owns the journal ([`thread`]). It carries out the orders of [`replicas::replica::Replica`] and answers them in order, each
//! after a sync; orders that wait together share one ([`disk`]). It reads the journal for followers. What this replica keeps
//! beside the zones is in the same store ([`kept`]).
//!
//! The writer's store is [`commits`]: it hands each version to the replica as a step, and waits until it is shown or declined.
//!
//! # Not here
//!
//! - Who leads, and what followers are sent: `replicas`.
//! - Links, the Lease and the loop that joins all of it.
#![forbid(unsafe_code)]

pub mod commits;
pub mod disk;
pub mod kept;
pub mod thread;
mod tips;

#[cfg(test)]
mod tests;
