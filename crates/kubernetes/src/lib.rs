//! Kubernetes: the sources of its objects, the facts kept of them, and the records they become.
//!
//! A [`source`] (an API server or a folder of manifests) sends changes. [`facts`] holds the state of a cluster and
//! says which keys a change makes dirty. [`schema`] is the specification: pure functions from facts to records.

pub mod facts;
pub mod schema;
pub mod source;
