//! What is known of a cluster: facts in our own small types, indexed, and which keys a change dirties.

mod holders;
mod model;
mod state;

pub use model::{
    Cause, Change, Endpoint, EndpointSlice, External, Fact, FactKey, Kind, Namespace, ObjectKey,
    Origin, Port, Protocol, Service, ServiceForm, SliceForm, SlicePort, Verb,
};
pub use state::{Dirty, State};
