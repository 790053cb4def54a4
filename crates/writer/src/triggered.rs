//! How long it took from a change of endpoints to the version that holds it, as the cluster's clock has it.
//!
//! The controllers of EndpointSlices write into each when what it tells happened. Counted is what came by
//! watch and changed something, once its version is durable and published: a list tells what
//! happened at any time, and a deletion carries the time of the change before it. What a gate holds is not
//! counted: it waits for a person. Several slices of a Service in one version count once, with the earliest time: so at most one time
//! for each Service waits. The kind is that of CoreDNS's metric: of the Service, where it is known.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use kubernetes::facts::{Change, Fact, ServiceForm};
use provenance::ObjectKey;

use crate::cluster::Cluster;
use crate::guard::{Guard, Holds};

/// A kind of Service, as CoreDNS's metric tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServiceKind {
    /// With a cluster IP.
    ClusterIp,
    /// Without one. A controller wrote its slices, so it has a selector.
    HeadlessWithSelector,
}

impl ServiceKind {
    /// The label of the metric.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIp => "cluster_ip",
            Self::HeadlessWithSelector => "headless_with_selector",
        }
    }
}

/// What a slice told that is not published yet.
#[derive(Debug)]
pub(super) struct Triggered {
    /// The Service of the slice.
    service: ObjectKey,
    at: SystemTime,
}

impl Triggered {
    /// From a change of a Service's slice with its time.
    pub(super) fn of(change: &Change, at: Option<SystemTime>) -> Option<Self> {
        let at = at?;
        let Change::Applied(Fact::EndpointSlice(slice)) = change else {
            return None;
        };
        let service = ObjectKey {
            namespace: slice.key.namespace.clone(),
            name: slice.service.clone()?,
        };
        Some(Self { service, at })
    }
}

impl Cluster {
    /// Keeps a change until the next version, the first of each Service. Not before everything was listed: nothing can be
    /// published then.
    pub(super) fn await_version(&mut self, triggered: Option<Triggered>) {
        if let (Some(Triggered { service, at }), true) = (triggered, self.state.is_synced()) {
            let first = self.triggered.entry(service).or_insert(at);
            *first = at.min(*first);
        }
    }

    /// The published changes, with the time since they happened. It is zero if the cluster's clock is ahead of ours.
    pub(super) fn programmed(&mut self, now: SystemTime) -> Vec<(ServiceKind, Duration)> {
        if self.triggered.is_empty() {
            return Vec::new();
        }
        let of_zones = |of: fn(&Guard) -> Holds| {
            let guards = self.zones.iter().map(|zone| of(&zone.guard));
            guards.fold(Holds::Nothing, Holds::with)
        };
        let (waiting, held) = (of_zones(Guard::waiting), of_zones(Guard::holds));
        let all = std::mem::take(&mut self.triggered).into_iter();
        let (stay, triggered): (BTreeMap<_, _>, BTreeMap<_, _>) =
            all.partition(|(service, _)| waiting.contains(&service.namespace));
        self.triggered = stay;
        let counted = |(service, at): (ObjectKey, SystemTime)| {
            let kind = match self.state.service(&service)?.form {
                ServiceForm::Headless => ServiceKind::HeadlessWithSelector,
                ServiceForm::ClusterIp(_) | ServiceForm::ExternalName(_) | ServiceForm::Pending => {
                    ServiceKind::ClusterIp
                }
            };
            Some((kind, now.duration_since(at).unwrap_or_default()))
        };
        let published = triggered.into_iter();
        let published = published.filter(|(service, _)| !held.contains(&service.namespace));
        published.filter_map(counted).collect()
    }
}
