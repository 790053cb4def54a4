//! What is known of a cluster: facts in our own small types, indexed, and which keys a change dirties.

mod headless;
mod holders;
mod kinds;
mod model;
mod namespaces;
mod pods;
mod selector;
mod state;

pub use headless::{HeadlessService, HeadlessServices};
pub use kinds::Kinds;
pub use model::{
    Cause, Change, Endpoint, EndpointSlice, Fact, FactKey, Kind, Namespace, ObjectKey, Origin, Pod,
    Port, Protocol, Service, ServiceForm, SliceForm, SlicePort, Verb,
};
pub use namespaces::SeenNamespaces;
pub use pods::PodAddress;
pub use selector::{Selector, SelectorError};
pub use state::{Dirty, State};
