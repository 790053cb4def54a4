//! Records from an etcd v3, in the layout of SkyDNS that CoreDNS's `etcd` reads.
//!
//! - `key`: keys and names.
//! - `service`: the JSON value of a key.
//! - `tree`: the keys of one zone, and the names that a change touches.
//! - `records`: the records of a name, a pure function of the tree.
//! - `source`: lists and watches a zone's keys; `client` and `message` are its gRPC.
//!
//! Law: a list followed by events gives the same tree, and so the same records, as a list of the end state.
//!
//! # Not implemented
//!
//! - Lookups of `*` and `any`, which match keys: a secondary could not answer them.
//! - `stubzones`: the delegations of SkyDNS, which CoreDNS ignores too.

mod client;
mod key;
mod message;
mod records;
mod service;
pub mod source;
mod tree;

pub use client::{Access, Credentials, Tls};
pub use key::Layout;
pub use records::{Rendered, Settings};
pub use tree::{Change, Dirty, KeyValue, Tree};
