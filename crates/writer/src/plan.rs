//! What one cluster is rendered into: its zones, their TTL, what of the cluster may be seen.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use dns::{Name, Ttl};
use kubernetes::facts::{
    ClientPods, HeadlessService, HeadlessServices, Kinds, SeenNamespaces, Service, ServiceForm,
    State,
};
use kubernetes::schema::{ApexSettings, ExternalSettings, Front};
use provenance::ObjectKey;
use zone::gate::GateSettings;
use zone::{MemoryLimits, Zone};

/// One zone of a cluster.
#[derive(Debug, Clone)]
pub struct ZonePlan {
    /// The zone as readers know it.
    pub zone: Arc<Zone>,
    /// What stands at its apex.
    pub apex: ApexSettings,
    /// How much history its versions carry in memory.
    pub limits: MemoryLimits,
    /// Which losses are held; `None` for none.
    pub gate: Option<GateSettings>,
}

/// External zones that are written alike: those of one `k8s_external`.
#[derive(Debug, Clone)]
pub struct ExternalPlan {
    /// Zones of names; PTRs point into the first. Never empty.
    pub forward: Vec<ZonePlan>,
    /// Reverse zones.
    pub reverse: Vec<ZonePlan>,
    /// How they are written.
    pub settings: ExternalSettings,
}

impl ExternalPlan {
    /// All its zones, those of names first.
    pub fn zones(&self) -> impl Iterator<Item = &ZonePlan> {
        self.forward.iter().chain(&self.reverse)
    }
}

/// The zones of one cluster and how they are rendered.
#[derive(Debug, Clone)]
pub struct ClusterPlan {
    /// A name for logs and status: where the facts come from.
    pub source: String,
    /// Forward zones; PTRs point into the first.
    pub forward: Vec<ZonePlan>,
    /// Reverse zones.
    pub reverse: Vec<ZonePlan>,
    /// Zones of a set of clusters, of the ServiceImports. Where `forward` is empty the reverse zones hold
    /// only what leads to them.
    pub clusterset: Vec<ZonePlan>,
    /// External zones.
    pub external: Vec<ExternalPlan>,
    /// The kinds of objects that are watched.
    pub kinds: Kinds,
    /// Where we are reached, to find the Service in front of us.
    pub front: Front,
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
    /// Where pods are published by address, if someone wants to know.
    pub clients: Option<Arc<ClientPods>>,
}

impl ClusterPlan {
    /// All zones, in the order of edits: forward, reverse, clusterset, external.
    pub fn zones(&self) -> impl Iterator<Item = &ZonePlan> {
        let external = self.external.iter().flat_map(ExternalPlan::zones);
        let clusterset = self.clusterset.iter();
        self.forward
            .iter()
            .chain(&self.reverse)
            .chain(clusterset)
            .chain(external)
    }

    /// The place in [`Self::zones`] of the first clusterset zone.
    #[must_use]
    pub const fn first_clusterset(&self) -> usize {
        self.forward.len() + self.reverse.len()
    }

    /// Whether a zone, by its place in [`Self::zones`], cannot be written without ServiceImports.
    #[must_use]
    pub fn needs_imports(&self, place: usize) -> bool {
        let first = self.first_clusterset();
        let is_clusterset = (first..first + self.clusterset.len()).contains(&place);
        is_clusterset || (place < first && self.forward.is_empty())
    }

    /// The zones that nothing else waits for: those of ServiceImports, which a cluster may not have,
    /// beside zones of its own.
    pub fn dispensable_zones(&self) -> impl Iterator<Item = &ZonePlan> {
        self.clusterset.iter().filter(|_| !self.forward.is_empty())
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
        closest(&self.reverse, address).map(|place| self.forward.len() + place)
    }
}

/// The place of the reverse zone that holds an address: the longest that fits.
pub(super) fn closest(zones: &[ZonePlan], address: IpAddr) -> Option<usize> {
    let owner = Name::reverse_of(address);
    zones
        .iter()
        .enumerate()
        .filter(|(_, plan)| owner.is_within(plan.zone.apex()))
        .max_by_key(|(_, plan)| plan.zone.apex().as_wire().len())
        .map(|(place, _)| place)
}
