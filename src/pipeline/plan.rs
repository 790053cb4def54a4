//! What one cluster is rendered into: its zones, their TTL, what of the cluster may be seen.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster::{
    HeadlessService, HeadlessServices, Kinds, ObjectKey, SeenNamespaces, Service, ServiceForm,
    State,
};
use crate::dns::{Name, Ttl};
use crate::schema::ApexSettings;
use crate::zone::{MemoryLimits, Zone};

/// One zone of a cluster.
#[derive(Debug, Clone)]
pub struct ZonePlan {
    /// The zone as readers know it.
    pub zone: Arc<Zone>,
    /// What stands at its apex.
    pub apex: ApexSettings,
    /// How much history its versions carry in memory.
    pub limits: MemoryLimits,
}

/// The zones of one cluster and how they are rendered.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// A name for logs and status: where the facts come from.
    pub source: String,
    /// Forward zones; PTRs point into the first. Never empty.
    pub forward: Vec<ZonePlan>,
    /// Reverse zones.
    pub reverse: Vec<ZonePlan>,
    /// The kinds of objects that are watched.
    pub kinds: Kinds,
    /// TTL of all records that come from objects.
    pub ttl: Ttl,
    /// The only namespaces that are seen; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether Services with cluster IPs and no ready endpoint are hidden.
    pub hides_empty_services: bool,
    /// Where the namespaces that are seen are published, if someone wants to know.
    pub seen: Option<Arc<SeenNamespaces>>,
    /// Where the headless Services that are seen are published, if someone wants to know.
    pub headless: Option<Arc<HeadlessServices>>,
}

impl ClusterPlan {
    /// All zones, forward ones first: the order of edits.
    pub fn zones(&self) -> impl Iterator<Item = &ZonePlan> {
        self.forward.iter().chain(&self.reverse)
    }

    /// Whether what is in a namespace may be seen: it exists and is not hidden.
    #[must_use]
    pub fn sees_namespace(&self, state: &State, name: &str) -> bool {
        let allowed = self.namespaces.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(name)) && state.has_namespace(name)
    }

    /// A Service that may be seen: it exists, its namespace exists and is not hidden, nor is it for having
    /// no endpoint.
    #[must_use]
    pub fn sees_service<'a>(&self, state: &'a State, key: &ObjectKey) -> Option<&'a Service> {
        if !self.sees_namespace(state, &key.namespace) {
            return None;
        }
        let service = state.service(key)?;
        let needs_endpoint = match &service.form {
            ServiceForm::ClusterIp(_) | ServiceForm::Pending => self.hides_empty_services,
            ServiceForm::Headless | ServiceForm::ExternalName(_) => false,
        };
        let mut slices = state.slices_of(&service.key);
        (!needs_endpoint || slices.any(|slice| !slice.endpoints.is_empty())).then_some(service)
    }

    /// A headless Service that may be seen, with its slices.
    #[must_use]
    pub fn headless_service(&self, state: &State, key: &ObjectKey) -> Option<HeadlessService> {
        let service = self.sees_service(state, key)?;
        (service.form == ServiceForm::Headless).then(|| HeadlessService {
            service: service.clone(),
            slices: state.slices_of(&service.key).cloned().collect(),
        })
    }

    /// The place in [`Self::zones`] of the reverse zone that holds an address: the longest that fits.
    #[must_use]
    pub fn reverse_zone_of(&self, address: IpAddr) -> Option<usize> {
        let owner = Name::reverse_of(address);
        self.reverse
            .iter()
            .enumerate()
            .filter(|(_, plan)| owner.is_within(plan.zone.apex()))
            .max_by_key(|(_, plan)| plan.zone.apex().as_wire().len())
            .map(|(place, _)| self.forward.len() + place)
    }
}
