//! Decides on the objects of a cluster that a source reads.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use provenance::Kind;

use crate::facts::{Kinds, Selector};

/// The objects that a source reads. An API server is asked only for these; other objects in manifests are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The kinds of objects.
    pub kinds: Kinds,
    /// The selected Namespaces; all when `None`.
    pub namespace_labels: Option<Selector>,
    /// The selected Services, EndpointSlices and Pods; all when `None`.
    pub labels: Option<Selector>,
    /// The selected EndpointSlices, if they differ from `labels`.
    pub slice_labels: Option<Selector>,
    /// The optional fields that are kept of endpoints and pods.
    pub keep: Keep,
    /// The limits of requests to an API server.
    pub limits: ApiLimits,
}

/// The optional fields that are kept of endpoints and pods. Each costs memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    /// The names of endpoints' pods.
    pub pod_names: bool,
    /// Their topology zones.
    pub zones: bool,
    /// Labels of pods, by their keys.
    pub pod_labels: Option<Arc<BTreeSet<String>>>,
}

/// The limits of requests to an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// The average time between two requests.
    pub interval: Duration,
    /// The number of requests allowed at once after a pause.
    pub burst: NonZeroU32,
    /// The number of unanswered requests at a time. A watch counts until it is open.
    pub in_flight: Option<NonZeroU32>,
}

impl Default for ApiLimits {
    /// A hundred requests a second, a hundred at once, no limit of unanswered requests.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(10),
            burst: NonZeroU32::new(100).expect("a hundred is not zero"),
            in_flight: None,
        }
    }
}

impl Wanted {
    /// The selector for a kind of objects.
    #[must_use]
    pub fn selector(&self, kind: Kind) -> Option<&Selector> {
        match kind {
            Kind::Namespace => self.namespace_labels.as_ref(),
            Kind::EndpointSlice => self.slice_labels.as_ref().or(self.labels.as_ref()),
            Kind::Service | Kind::Pod => self.labels.as_ref(),
            Kind::ServiceImport => None,
        }
    }
}
