//! Kubernetes: where its objects come from, the facts that are kept of them, and which records they mean.
//!
//! A [`source`] (an API server or a folder of manifests) sends changes; [`facts`] holds what is known of a cluster and
//! says which keys a change makes dirty; [`schema`] is the specification as pure functions from facts to records.

pub mod facts;
pub mod schema;
pub mod source;
