//! The state of a cluster: facts in small types, indexed, and the keys that a change makes dirty.

mod clients;
mod concerns;
mod dirty;
mod endpoint;
mod headless;
mod holders;
mod kinds;
mod model;
mod namespaces;
mod pods;
mod selector;
mod state;
pub mod stored;

pub use clients::{Client, ClientPods};
pub use concerns::{Concern, Concerns};
pub use dirty::Dirty;
pub use endpoint::{Addresses, Endpoint, EndpointNames};
pub use headless::{HeadlessService, HeadlessServices, SeenService};
pub use kinds::{Kinds, Part};
pub use model::{
    Change, EndpointSlice, External, Fact, ImportForm, ImportOfSlice, Namespace, Pod, PodAddress,
    PodLabels, Port, Protocol, Service, ServiceForm, ServiceImport, SliceForm, SlicePort,
};
pub use namespaces::SeenNamespaces;
pub use selector::{Selector, SelectorError};
pub use state::{Reselected, State};
