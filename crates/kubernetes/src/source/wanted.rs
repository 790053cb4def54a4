//! What of a cluster a source is asked for.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use provenance::Kind;

use crate::facts::{Kinds, Selector};

/// What is wanted of a cluster. Both sources keep to it, each in its way: an API server is not asked
/// for more, of manifests the rest is passed over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// The kinds of objects.
    pub kinds: Kinds,
    /// Which Namespaces; all when `None`.
    pub namespace_labels: Option<Selector>,
    /// Which Services, EndpointSlices and Pods; all when `None`.
    pub labels: Option<Selector>,
    /// Which EndpointSlices, where these are not those that `labels` gives.
    pub slice_labels: Option<Selector>,
    /// What is kept of endpoints and pods.
    pub keep: Keep,
    /// How hard an API server may be pressed.
    pub limits: ApiLimits,
}

/// What is kept of endpoints and pods beyond addresses and host names, for it costs memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Keep {
    /// The names of endpoints' pods.
    pub pod_names: bool,
    /// Their topology zones.
    pub zones: bool,
    /// Labels of pods, by their keys.
    pub pod_labels: Option<Arc<BTreeSet<String>>>,
}

/// How hard an API server may be pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiLimits {
    /// The time between two requests in the long run.
    pub interval: Duration,
    /// How many requests may go at once after a rest.
    pub burst: NonZeroU32,
    /// How many requests may wait for their answer at a time; a watch waits until it is open.
    pub in_flight: Option<NonZeroU32>,
}

impl Default for ApiLimits {
    /// A hundred requests a second, as many at once, no bound for those under way.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(10),
            burst: NonZeroU32::new(100).expect("a hundred is not zero"),
            in_flight: None,
        }
    }
}

impl Wanted {
    /// Which objects of a kind, by their labels.
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
