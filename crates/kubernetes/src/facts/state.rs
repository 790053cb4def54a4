//! The facts of one cluster, indexed, and the keys that a change makes dirty.
//!
//! A slice has no records of its own: it makes its Service dirty, and both Services when its label changes. A
//! Namespace makes everything in it dirty. An address makes the PTRs of all its holders dirty. Facts of different
//! kinds arrive in any order: a slice can wait here for its Service, and a Service for its Namespace.

mod imports;
mod recall;
mod slices;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use provenance::{FactKey, Kind, ObjectKey, Origin, Verb};

use self::imports::Imports;
use self::recall::Event;
pub use self::recall::Reselected;
use self::slices::{SliceNames, same_slice, slice_addresses};
use crate::facts::holders::Holders;
use crate::facts::pods::Pods;
use crate::facts::{
    Change, Client, Concern, Dirty, EndpointSlice, Fact, Kinds, Namespace, PodAddress, Service,
    ServiceForm,
};

/// All facts of one cluster.
#[derive(Debug, Default)]
pub struct State {
    /// The kinds that are watched.
    kinds: Kinds,
    namespaces: BTreeMap<Arc<str>, Namespace>,
    /// Services by key, so that those of a namespace are adjacent. Boxed, as slices are, because maps have more slots
    /// than entries.
    services: BTreeMap<ObjectKey, Box<Service>>,
    slices: HashMap<ObjectKey, Box<EndpointSlice>>,
    /// The slices of each Service.
    slices_of: SliceNames,
    /// The Services that hold each address, as cluster IP or by an endpoint.
    holders: Holders,
    /// The Services that are reached from outside at each address.
    outer_holders: Holders,
    imports: Imports,
    pub(super) pods: Pods,
    /// The kinds that were listed completely at least once.
    listed: BTreeSet<Kind>,
    /// Whether facts of an earlier run were taken in.
    is_recalled: bool,
    /// What differs before the first lists besides objects.
    reselected: Option<Reselected>,
    /// See [`Self::take_touched`].
    touched: BTreeSet<FactKey>,
}

impl State {
    /// An empty state of a cluster in which these kinds are watched.
    #[must_use]
    pub fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// Whether every watched kind was listed completely. Before that, an absent object may exist. Imports have
    /// [`Self::has_imports`], because a cluster may not have their API.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        let kinds = self.kinds.without(Kind::ServiceImport);
        kinds.iter().all(|kind| self.listed.contains(&kind))
    }

    /// Whether a namespace of this name exists.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.contains_key(name)
    }

    /// The number of objects of a kind.
    #[must_use]
    pub fn count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Namespace => self.namespaces.len(),
            Kind::Service => self.services.len(),
            Kind::EndpointSlice => self.slices.len(),
            Kind::ServiceImport => self.imports.by_key.len(),
            Kind::Pod => self.pods.count(),
        }
    }

    /// The names of all namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = &Arc<str>> {
        self.namespaces.keys()
    }

    /// A Service.
    #[must_use]
    pub fn service(&self, key: &ObjectKey) -> Option<&Service> {
        self.services.get(key).map(Box::as_ref)
    }

    /// All Services, by namespace and name.
    pub fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values().map(Box::as_ref)
    }

    /// The slices of a Service, by name.
    pub fn slices_of<'a>(
        &'a self,
        service: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a EndpointSlice> + Clone {
        let keys = self.slices_of.of(service);
        keys.filter_map(|key| self.slices.get(&key).map(Box::as_ref))
    }

    /// The Services that hold an address, sorted.
    #[must_use]
    pub fn holders(&self, address: IpAddr) -> &[ObjectKey] {
        self.holders.of(address)
    }

    /// All addresses with a holder.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.holders.addresses()
    }

    /// The Services that are reached from outside at an address, sorted.
    #[must_use]
    pub fn outer_holders(&self, address: IpAddr) -> &[ObjectKey] {
        self.outer_holders.of(address)
    }

    /// All addresses at which Services are reached from outside.
    pub fn outer_addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.outer_holders.addresses()
    }

    /// Applies a change and marks the keys that it makes dirty.
    pub fn apply(&mut self, change: Change, dirty: &mut Dirty) {
        match change {
            Change::Applied(fact) => self.put(fact, Verb::Applied, dirty),
            Change::Deleted(key, origin) => self.take(&key, Verb::Deleted, origin, dirty),
            Change::Listed(kind, facts) => self.replace(kind, facts, dirty),
        }
    }

    /// Replaces all objects of a kind by a complete list.
    fn replace(&mut self, kind: Kind, facts: Vec<Fact>, dirty: &mut Dirty) {
        let seen: HashSet<ObjectKey> = facts.iter().map(|fact| fact.key().clone()).collect();
        let vanished: Vec<(ObjectKey, Origin)> = match kind {
            Kind::Namespace => {
                let all = self.namespaces.values();
                all.map(|fact| (fact.key.clone(), fact.origin.clone()))
                    .collect::<Vec<_>>()
            }
            Kind::Service => {
                let all = self.services.values();
                all.map(|fact| (fact.key.clone(), fact.origin.clone()))
                    .collect()
            }
            Kind::EndpointSlice => {
                let all = self.slices.values();
                all.map(|fact| (fact.key.clone(), fact.origin.clone()))
                    .collect()
            }
            Kind::ServiceImport => {
                let all = self.imports.by_key.values();
                all.map(|fact| (fact.key.clone(), fact.origin.clone()))
                    .collect()
            }
            Kind::Pod => self.pods.origins(),
        };
        for (key, origin) in vanished {
            if !seen.contains(&key) {
                self.take(&FactKey { kind, key }, Verb::Vanished, origin, dirty);
            }
        }
        for fact in facts {
            self.put(fact, Verb::Listed, dirty);
        }
        self.listed.insert(kind);
    }

    fn put(&mut self, fact: Fact, verb: Verb, dirty: &mut Dirty) {
        let key = fact.kind().of(fact.key());
        let before = self.note(&key, Some(&fact));
        let event = Event {
            verb,
            origin: fact.origin().clone(),
            before,
        };
        match fact {
            Fact::Namespace(namespace) => {
                let name = namespace.key.name.clone();
                if self.namespaces.insert(name.clone(), namespace).is_none() {
                    let cause = self.cause(key, event, dirty);
                    self.mark_namespace(&name, cause, dirty);
                }
            }
            Fact::Service(service) => {
                let boxed = Box::new(service.clone());
                let old = self.services.insert(service.key.clone(), boxed);
                let old = old.as_deref();
                if old.is_some_and(|old| same_service(old, &service)) {
                    return;
                }
                let cause = self.cause(key, event, dirty);
                if old.is_some_and(|old| differs_by_ports(old, &service)) {
                    dirty.concern(cause, Concern::Ports);
                }
                self.service_changed(old, Some(&service), cause, dirty);
            }
            Fact::EndpointSlice(slice) => {
                let boxed = Box::new(slice.clone());
                let old = self.slices.insert(slice.key.clone(), boxed);
                let old = old.as_deref();
                if old.is_some_and(|old| same_slice(old, &slice)) {
                    return;
                }
                let cause = self.cause(key, event, dirty);
                self.note_concern(cause, old, Some(&slice), dirty);
                self.slice_changed(old, Some(&slice), cause, dirty);
                self.import_slice_changed(old, Some(&slice), cause, dirty);
            }
            Fact::ServiceImport(import) => self.put_import(&import, event, key, dirty),
            Fact::Pod(pod) => {
                let changed = self.pods.put(pod);
                if !changed.is_empty() {
                    let cause = self.cause(key, event, dirty);
                    self.pods_changed(changed, cause, dirty);
                }
            }
        }
    }

    fn take(&mut self, key: &FactKey, verb: Verb, origin: Origin, dirty: &mut Dirty) {
        let before = self.note(key, None);
        let event = Event {
            verb,
            origin,
            before,
        };
        match key.kind {
            Kind::Namespace => {
                if self.namespaces.remove(&key.key.name).is_some() {
                    let cause = self.cause(key.clone(), event, dirty);
                    self.mark_namespace(&key.key.name, cause, dirty);
                }
            }
            Kind::Service => {
                if let Some(old) = self.services.remove(&key.key) {
                    let cause = self.cause(key.clone(), event, dirty);
                    self.service_changed(Some(&old), None, cause, dirty);
                }
            }
            Kind::EndpointSlice => {
                if let Some(old) = self.slices.remove(&key.key) {
                    let cause = self.cause(key.clone(), event, dirty);
                    self.note_concern(cause, Some(&old), None, dirty);
                    self.slice_changed(Some(&old), None, cause, dirty);
                    self.import_slice_changed(Some(&old), None, cause, dirty);
                }
            }
            Kind::ServiceImport => self.take_import(key, event, dirty),
            Kind::Pod => {
                if let Some(gone) = self.pods.take(&key.key) {
                    let cause = self.cause(key.clone(), event, dirty);
                    self.pods_changed(gone, cause, dirty);
                }
            }
        }
    }

    /// Marks everything in a namespace that was added or removed.
    fn mark_namespace(&self, name: &Arc<str>, cause: u32, dirty: &mut Dirty) {
        let first = ObjectKey {
            namespace: name.clone(),
            name: "".into(),
        };
        let inside = self
            .services
            .range(first..)
            .take_while(|(key, _)| key.namespace == *name);
        for (key, service) in inside {
            dirty.service(key, cause);
            self.mark_addresses(key, Some(service), cause, dirty);
        }
        self.mark_imports(name, cause, dirty);
        dirty.pods(self.pods.addresses_in(name).cloned(), cause);
        dirty.namespaces.insert(Arc::clone(name));
    }

    /// Marks pods that came or went. An address with endpoints may belong to another namespace now.
    fn pods_changed(&self, changed: Vec<PodAddress>, cause: u32, dirty: &mut Dirty) {
        for PodAddress { address, .. } in &changed {
            let has_endpoints =
                !self.holders.of(*address).is_empty() || !self.import_holders(*address).is_empty();
            // Or it had some before this batch.
            if has_endpoints || dirty.addresses.contains_key(address) {
                dirty.address(*address, cause);
            }
        }
        dirty.pods(changed, cause);
    }

    /// Marks a Service or ServiceImport that gets or loses its room in the zones, with all its addresses.
    pub fn mark_whole(&self, of: &FactKey, causes: &BTreeSet<u32>, dirty: &mut Dirty) {
        let FactKey { kind, key } = of;
        for cause in causes {
            // Room is given and taken for reasons beyond what was changed.
            dirty.concerns.forget(*cause);
            match kind {
                Kind::ServiceImport => self.mark_import(key, *cause, dirty),
                Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Pod => {
                    dirty.service(key, *cause);
                    self.mark_addresses(key, self.service(key), *cause, dirty);
                }
            }
        }
    }

    /// Marks all endpoints' addresses of a dirty Service or ServiceImport, for the causes that it has.
    pub fn mark_endpoints(&self, of: &FactKey, dirty: &mut Dirty) {
        let key = &of.key;
        let (causes, addresses): (_, Vec<IpAddr>) = match of.kind {
            Kind::ServiceImport => {
                let slices = self.slices_of_import(key);
                (
                    dirty.imports.get(key),
                    slices.flat_map(slice_addresses).collect(),
                )
            }
            Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Pod => {
                let slices = self.slices_of(key);
                (
                    dirty.services.get(key),
                    slices.flat_map(slice_addresses).collect(),
                )
            }
        };
        for cause in causes.cloned().unwrap_or_default() {
            dirty.addresses(&addresses, cause);
        }
    }

    /// Marks the cluster IPs and all endpoints' addresses of a Service.
    fn mark_addresses(
        &self,
        key: &ObjectKey,
        service: Option<&Service>,
        cause: u32,
        dirty: &mut Dirty,
    ) {
        let own = service.map(cluster_ips).unwrap_or_default();
        dirty.addresses(own, cause);
        dirty.addresses(&outer_addresses(service), cause);
        for address in self.slices_of(key).flat_map(slice_addresses) {
            dirty.address(address, cause);
        }
    }

    /// Marks the keys that depend on a Service which was added, removed or changed.
    fn service_changed(
        &mut self,
        old: Option<&Service>,
        new: Option<&Service>,
        cause: u32,
        dirty: &mut Dirty,
    ) {
        let Some(key) = new.or(old).map(|service| service.key.clone()) else {
            return;
        };
        dirty.service(&key, cause);
        let before: BTreeSet<IpAddr> = old
            .map(cluster_ips)
            .unwrap_or_default()
            .iter()
            .copied()
            .collect();
        let after: BTreeSet<IpAddr> = new
            .map(cluster_ips)
            .unwrap_or_default()
            .iter()
            .copied()
            .collect();
        dirty.addresses(before.symmetric_difference(&after), cause);
        let of = Kind::Service.of(&key);
        dirty.lose_own(of.clone(), before.difference(&after).copied());
        self.reindex(&key, &before, &after);
        self.outer_changed(&key, [old, new], cause, dirty);
        // Endpoints have PTRs only while their Service exists and is not an alias.
        // The oldest Service at an address owns it.
        let points = |service: Option<&Service>| {
            let service =
                service.filter(|service| !matches!(service.form, ServiceForm::ExternalName(_)));
            service.map(|service| service.created_s)
        };
        if points(old) != points(new) {
            self.mark_addresses(&key, new, cause, dirty);
            dirty.lost_endpoints(&of, cause);
        }
    }

    /// Marks the external addresses of a Service before and after a change, also those whose kind changed.
    fn outer_changed(
        &mut self,
        key: &ObjectKey,
        [old, new]: [Option<&Service>; 2],
        cause: u32,
        dirty: &mut Dirty,
    ) {
        let (before, after) = (outer_addresses(old), outer_addresses(new));
        for gone in before.difference(&after) {
            self.outer_holders.release(key, *gone);
            dirty.address(*gone, cause);
        }
        self.outer_holders.hold(key, after.difference(&before));
        dirty.addresses(after.difference(&before), cause);
        let (before, after) = (load_balanced(old), load_balanced(new));
        dirty.addresses(before.symmetric_difference(&after), cause);
    }

    /// Updates the holders of the addresses that one part of a Service (its cluster IPs, one slice) had before and
    /// after a change. The facts themselves are already changed.
    fn reindex(&mut self, key: &ObjectKey, before: &BTreeSet<IpAddr>, after: &BTreeSet<IpAddr>) {
        let gone: Vec<IpAddr> = before.difference(after).copied().collect();
        if !gone.is_empty() {
            let mut held: HashSet<IpAddr> = HashSet::new();
            if let Some(service) = self.services.get(key) {
                held.extend(cluster_ips(service));
            }
            held.extend(self.slices_of(key).flat_map(slice_addresses));
            for address in gone.iter().filter(|address| !held.contains(address)) {
                self.holders.release(key, *address);
            }
        }
        self.holders.hold(key, after.difference(before));
    }
}

impl State {
    /// Whether a pod of a namespace has an address.
    #[must_use]
    pub fn has_pod(&self, at: &PodAddress) -> bool {
        self.pods.has(at)
    }

    /// Whether a pod of any namespace has an address.
    #[must_use]
    pub fn is_of_pods(&self, address: IpAddr) -> bool {
        self.pods.is_any_at(address)
    }

    /// The first pod of a namespace that has an address.
    #[must_use]
    pub fn client(&self, at: &PodAddress) -> Option<Client> {
        self.pods.client(at)
    }

    /// The addresses of all pods, by namespace.
    pub fn pods(&self) -> impl Iterator<Item = &PodAddress> {
        self.pods.addresses()
    }
}

/// The cluster IPs of a Service.
fn cluster_ips(service: &Service) -> &[IpAddr] {
    match &service.form {
        ServiceForm::ClusterIp(addresses) => addresses,
        ServiceForm::Headless | ServiceForm::ExternalName(_) | ServiceForm::Pending => &[],
    }
}

/// The addresses at which a Service is reached from outside.
fn outer_addresses(service: Option<&Service>) -> BTreeSet<IpAddr> {
    let external = service.and_then(|service| service.external.as_ref());
    let addresses = external.into_iter().flat_map(|it| it.all_addresses());
    addresses.collect()
}

/// The addresses that a load balancer gave a Service. They have PTRs in any case, those of `externalIPs` only by an option.
fn load_balanced(service: Option<&Service>) -> BTreeSet<IpAddr> {
    let external = service.and_then(|service| service.external.as_ref());
    external
        .into_iter()
        .flat_map(|it| it.addresses.iter().copied())
        .collect()
}

/// Whether nothing but the ports of a Service differs.
fn differs_by_ports(old: &Service, new: &Service) -> bool {
    let ports = new.ports.clone();
    same_service(
        &Service {
            ports,
            ..old.clone()
        },
        new,
    )
}

/// Whether two Services are equal apart from their origins.
fn same_service(old: &Service, new: &Service) -> bool {
    let Service {
        key,
        form,
        ports,
        external,
        created_s,
        origin: _,
    } = new;
    old.key == *key
        && old.form == *form
        && old.ports == *ports
        && old.external == *external
        && old.created_s == *created_s
}
