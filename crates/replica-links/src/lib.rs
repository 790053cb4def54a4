//! The edges of replicas: links over TLS, the Lease, clocks, and the loop that drives a replica.
//!
//! The crate `replicas` decides; its documentation says what each edge has to do. Here is what does it:
//!
//! - [`mod@format`] is what replicas say to each other as bytes, [`annotations`] what the Lease says as an object of the API.
//! - [`links`] has the listener, connections and their tasks, with [`limits`] for all of them. [`identity`] is the certificates,
//!   [`roster`] the list of replicas that are asked by a new leader.
//! - [`lease_client`] calls the API server and watches the Lease. [`clock`] reads the clocks.
//! - [`disk`] and [`host`] are what a journal and a program have to offer.
//! - [`driver`] is the loop.
#![forbid(unsafe_code)]

pub mod annotations;
pub mod clock;
pub mod disk;
pub mod driver;
pub mod format;
mod greeting;
pub mod host;
pub mod identity;
pub mod lease_client;
pub mod limits;
pub mod links;
mod messages;
pub mod roster;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

#[cfg(test)]
mod tests;
