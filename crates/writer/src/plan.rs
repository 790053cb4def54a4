//! The plan of a cluster: its zones, their settings, what of the cluster may be seen. Values alone, to be compared.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::{Name, Soa, Ttl};
use etcd::{Layout, Settings};
use kubernetes::facts::{
    EndpointSlice, HeadlessService, ImportForm, Kinds, Service, ServiceForm, ServiceImport, State,
};
use kubernetes::schema::{ApexSettings, CatalogMember, ExternalSettings, Front, RecordLimits};
use provenance::ObjectKey;
use zone::gate::GateSettings;
use zone::journal::Retention;

use crate::guard::{NameForm, ShareRule};

/// One zone of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZonePlan {
    /// Its name.
    pub name: Name,
    /// The settings of its apex.
    pub apex: ApexSettings,
    /// The history that is kept.
    pub retention: Retention,
    /// `None` holds nothing.
    pub gate: Option<GateSettings>,
}

/// External zones that are written alike: those of one `k8s_external`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalPlan {
    /// Zones of names; PTRs point into the first. Never empty.
    pub forward: Vec<ZonePlan>,
    /// Reverse zones.
    pub reverse: Vec<ZonePlan>,
    /// Their settings.
    pub settings: ExternalSettings,
}

impl ExternalPlan {
    /// All zones, those of names first.
    pub fn zones(&self) -> impl Iterator<Item = &ZonePlan> {
        self.forward.iter().chain(&self.reverse)
    }
}

/// The use of a file, or the source of another zone that no cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlan {
    /// A zone of its own.
    Zone {
        /// The zone.
        zone: Name,
        /// The history that is kept.
        retention: Retention,
    },
    /// A file under a zone of a cluster.
    Overlay {
        /// That zone.
        zone: Name,
    },
    /// A zone from etcd.
    Etcd(Box<EtcdPlan>),
}

/// A zone from etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdPlan {
    /// The zone.
    pub zone: ZonePlan,
    /// The place of its keys.
    pub layout: Layout,
    /// How its keys are rendered.
    pub settings: Settings,
    /// Whether keys below `dns/ns` name the servers, because the configuration names none.
    pub reads_servers: bool,
}

impl FilePlan {
    /// The zone of the file, or the zone above it.
    #[must_use]
    pub const fn zone(&self) -> &Name {
        match self {
            Self::Zone { zone, .. } | Self::Overlay { zone } => zone,
            Self::Etcd(plan) => &plan.zone.name,
        }
    }
}

/// A catalog and its possible members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogPlan {
    /// The catalog's own zone.
    pub zone: Name,
    /// The history that is kept.
    pub retention: Retention,
    /// Its SOA.
    pub soa: Soa,
    /// Possible members, each once.
    pub members: Vec<CatalogMember>,
}

/// One difference of two plans: what the running writer is to do. Clusters are named by the home that they had before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanChange {
    /// A new cluster.
    AddCluster(ClusterPlan),
    /// A cluster has another source, or its source reads other objects or at another rate: all is listed again.
    RestartSource {
        /// The cluster.
        cluster: Name,
        /// Its new plan.
        plan: ClusterPlan,
    },
    /// The objects of a cluster are rendered in another way, or into other zones.
    SetCluster {
        /// The cluster.
        cluster: Name,
        /// Its new plan.
        plan: ClusterPlan,
    },
    /// A removed cluster.
    RemoveCluster(Name),
    /// The records of a cluster have another TTL.
    SetTtl {
        /// The cluster.
        cluster: Name,
        /// The TTL.
        ttl: Ttl,
    },
    /// Another apex.
    SetApex {
        /// The zone.
        zone: Name,
        /// The settings of its apex.
        apex: ApexSettings,
    },
    /// Another gate.
    SetGate {
        /// The zone.
        zone: Name,
        /// `None` holds nothing.
        gate: Option<GateSettings>,
    },
    /// Another retention.
    SetRetention {
        /// The zone.
        zone: Name,
        /// The retention.
        retention: Retention,
    },
    /// A new zone file, or one with other settings.
    SetFile(FilePlan),
    /// The file of this zone is removed.
    RemoveFile(Name),
    /// A new catalog, or one with other settings.
    SetCatalog(CatalogPlan),
    /// A removed catalog.
    RemoveCatalog(Name),
}

/// The zones of one cluster and how they are rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterPlan {
    /// The name of the source, for logs and status.
    pub source: String,
    /// Which objects of it are read, and what of them: facts that were read otherwise may differ for that alone.
    pub selection: String,
    /// Forward zones; PTRs point into the first.
    pub forward: Vec<ZonePlan>,
    /// Reverse zones.
    pub reverse: Vec<ZonePlan>,
    /// Zones of ServiceImports. If `forward` is empty, the reverse zones have only PTRs to them.
    pub clusterset: Vec<ZonePlan>,
    /// External zones.
    pub external: Vec<ExternalPlan>,
    /// The kinds of objects that are watched.
    pub kinds: Kinds,
    /// Our addresses and ports, to find the Service in front of us.
    pub front: Front,
    /// TTL of all records that come from objects.
    pub ttl: Ttl,
    /// The most records of RRsets, Services and namespaces.
    pub limits: RecordLimits,
    /// The visible namespaces; `None` for all.
    pub namespaces: Option<BTreeSet<String>>,
    /// Whether Services with cluster IPs and no ready endpoint are hidden.
    pub hides_empty_services: bool,
    /// Whether handlers read the table of namespaces.
    pub publishes_namespaces: bool,
    /// Whether handlers read the table of headless Services.
    pub publishes_headless: bool,
    /// Whether handlers read the table of pods by address.
    pub publishes_clients: bool,
}

impl ClusterPlan {
    /// The zone whose name servers the other zones have. No other cluster has it.
    ///
    /// # Panics
    /// Without a zone of names. Every directive has one.
    #[must_use]
    pub fn home(&self) -> &Name {
        let mut names = self.forward.iter().chain(&self.clusterset);
        &names.next().expect("there is a zone of names").name
    }

    /// A zone, by its name.
    #[must_use]
    pub fn zone(&self, name: &Name) -> Option<&ZonePlan> {
        self.zones().find(|zone| zone.name == *name)
    }

    /// A zone, by its name, to be changed.
    fn zone_mut(&mut self, name: &Name) -> Option<&mut ZonePlan> {
        let external = self.external.iter_mut();
        let external = external.flat_map(|it| it.forward.iter_mut().chain(&mut it.reverse));
        let own = self.forward.iter_mut().chain(&mut self.reverse);
        let mut all = own.chain(&mut self.clusterset).chain(external);
        all.find(|zone| zone.name == *name)
    }

    /// Makes a change of settings, if it is of this cluster. Returns whether something has to be rendered.
    pub fn set(&mut self, change: &PlanChange) -> bool {
        match change {
            PlanChange::SetRetention { zone, retention } => {
                if let Some(zone) = self.zone_mut(zone) {
                    zone.retention = *retention;
                }
                false
            }
            PlanChange::SetGate { zone, gate } => {
                if let Some(zone) = self.zone_mut(zone) {
                    zone.gate = *gate;
                }
                false
            }
            PlanChange::SetApex { zone, apex } => self.zone_mut(zone).is_some_and(|zone| {
                zone.apex.clone_from(apex);
                true
            }),
            PlanChange::SetTtl { cluster, ttl } => {
                let is_own = self.home() == cluster;
                if is_own {
                    self.ttl = *ttl;
                }
                is_own
            }
            PlanChange::AddCluster(_)
            | PlanChange::RestartSource { .. }
            | PlanChange::SetCluster { .. }
            | PlanChange::RemoveCluster(_)
            | PlanChange::SetFile(_)
            | PlanChange::RemoveFile(_)
            | PlanChange::SetCatalog(_)
            | PlanChange::RemoveCatalog(_) => false,
        }
    }

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

    /// How to find the namespace of a record in one of the zones.
    pub(crate) fn share_rule(&self, zone: &ZonePlan) -> ShareRule {
        let form = |zone: &ZonePlan| NameForm::of(zone.apex.form);
        if let Some(form) = form(zone) {
            return ShareRule::Names(form);
        }
        let named = self
            .zones()
            .filter_map(|it| Some((form(it)?, it.name.clone())));
        ShareRule::Pointers(named.collect())
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

    /// The zones that nothing waits for: those of ServiceImports besides a cluster's own zones. A cluster may not have
    /// ServiceImports.
    pub fn dispensable_zones(&self) -> impl Iterator<Item = &ZonePlan> {
        self.clusterset.iter().filter(|_| !self.forward.is_empty())
    }

    /// Whether a namespace exists and is visible.
    #[must_use]
    pub fn sees_namespace(&self, state: &State, name: &str) -> bool {
        let allowed = self.namespaces.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(name)) && state.has_namespace(name)
    }

    /// A visible Service: it and its namespace exist, and neither is hidden.
    #[must_use]
    pub fn sees_service<'a>(&self, state: &'a State, key: &ObjectKey) -> Option<&'a Service> {
        if !self.sees_namespace(state, &key.namespace) {
            return None;
        }
        let service = state.service(key)?;
        let has_address = match &service.form {
            ServiceForm::ClusterIp(_) | ServiceForm::Pending => true,
            ServiceForm::Headless | ServiceForm::ExternalName(_) => false,
        };
        let is_hidden = has_address && self.hides(state.slices_of(key));
        (!is_hidden).then_some(service)
    }

    /// Whether something with an address of its own is hidden: none of its slices has an endpoint.
    fn hides<'a>(&self, mut slices: impl Iterator<Item = &'a EndpointSlice>) -> bool {
        self.hides_empty_services && slices.all(|slice| slice.endpoints.is_empty())
    }

    /// A visible import: it and its namespace exist, and neither is hidden.
    #[must_use]
    pub fn sees_import<'a>(&self, state: &'a State, key: &ObjectKey) -> Option<&'a ServiceImport> {
        if !self.sees_namespace(state, &key.namespace) {
            return None;
        }
        let import = state.import(key)?;
        let has_address = match &import.form {
            ImportForm::ClusterSetIp(_) => true,
            ImportForm::Headless => false,
        };
        let is_hidden = has_address && self.hides(state.slices_of_import(key));
        (!is_hidden).then_some(import)
    }

    /// A visible headless Service, with its slices.
    #[must_use]
    pub fn headless_service(&self, state: &State, key: &ObjectKey) -> Option<HeadlessService> {
        let service = self.sees_service(state, key)?;
        (service.form == ServiceForm::Headless).then(|| HeadlessService {
            service: service.clone(),
            slices: state.slices_of(&service.key).cloned().collect(),
        })
    }

    /// The place in [`Self::zones`] of the longest reverse zone of an address.
    #[must_use]
    pub fn reverse_zone_of(&self, address: IpAddr) -> Option<usize> {
        closest(&self.reverse, address).map(|place| self.forward.len() + place)
    }
}

/// The place of the longest reverse zone of an address.
pub(super) fn closest(zones: &[ZonePlan], address: IpAddr) -> Option<usize> {
    let owner = Name::reverse_of(address);
    zones
        .iter()
        .enumerate()
        .filter(|(_, plan)| owner.is_within(&plan.name))
        .max_by_key(|(_, plan)| plan.name.as_wire().len())
        .map(|(place, _)| place)
}
