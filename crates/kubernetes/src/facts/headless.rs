//! The headless Services of a cluster, for handlers that answer from more than a version's records.

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashMap;
use provenance::ObjectKey;

use crate::facts::namespaces::Unknown;
use crate::facts::{EndpointSlice, Service};

/// A headless Service with its slices. Large parts are shared with the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadlessService {
    /// The Service.
    pub service: Service,
    /// Its slices, by name.
    pub slices: Vec<EndpointSlice>,
}

/// The exposed headless Services. The writer publishes them with the versions; readers take no lock. A change of one
/// Service costs one Service.
#[derive(Debug, Default)]
pub struct HeadlessServices {
    /// `None` until all objects are listed for the first time.
    known: ArcSwapOption<Known>,
}

#[derive(Debug, Default, Clone)]
struct Known {
    services: ByKey,
    /// The namespaces that may have others.
    unknown: Unknown,
}

type ByKey = HashMap<ObjectKey, Arc<HeadlessService>>;

fn by_key(services: impl Iterator<Item = HeadlessService>) -> ByKey {
    services
        .map(|it| (it.service.key.clone(), Arc::new(it)))
        .collect()
}

/// The result of looking up a headless Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SeenService {
    /// It exists.
    Seen(Arc<HeadlessService>),
    /// It does not exist.
    Missing,
    /// It is not known yet whether it exists.
    Unknown,
}

impl HeadlessServices {
    /// Looks up a Service.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> SeenService {
        let known = self.known.load();
        let found = known.as_ref().and_then(|known| known.services.get(key));
        let is_known = |known: &Arc<Known>| !known.unknown.contains(&key.namespace);
        match (found, known.as_ref().is_some_and(is_known)) {
            (Some(service), _) => SeenService::Seen(Arc::clone(service)),
            (None, true) => SeenService::Missing,
            (None, false) => SeenService::Unknown,
        }
    }

    /// Whether all exposed headless Services are known, or all but those of some held namespaces.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let known = self.known.load();
        known
            .as_ref()
            .is_some_and(|known| !matches!(known.unknown, Unknown::Rest))
    }

    /// The number of known Services.
    #[must_use]
    pub fn count(&self) -> usize {
        let known = self.known.load();
        known.as_ref().map_or(0, |known| known.services.len())
    }

    /// Replaces all Services.
    pub fn publish_all(&self, all: impl Iterator<Item = HeadlessService>) {
        self.publish_known(by_key(all), Unknown::Nothing);
    }

    /// Publishes some Services. Others stay unknown.
    pub fn publish_some(&self, some: impl Iterator<Item = HeadlessService>) {
        self.publish_known(by_key(some), Unknown::Rest);
    }

    /// Replaces all Services but those of the held namespaces, which stay as they are. If those of a held one were not known
    /// before, they stay unknown, unless they are among these.
    pub fn publish_but(
        &self,
        all: impl Iterator<Item = HeadlessService>,
        held: &BTreeSet<Arc<str>>,
    ) {
        let before = self.known.load();
        let before = before.as_ref();
        let unknown = Unknown::but(before.map(|known| &known.unknown), held);
        let is_new = |service: &HeadlessService| {
            let namespace = &service.service.key.namespace;
            !held.contains(namespace) || unknown.contains(namespace)
        };
        let mut services = by_key(all.filter(is_new));
        let old = before.into_iter().flat_map(|known| &known.services);
        let held = old.filter(|(key, _)| held.contains(&key.namespace));
        services.extend(held.map(|(key, service)| (key.clone(), Arc::clone(service))));
        self.publish_known(services, unknown);
    }

    fn publish_known(&self, services: ByKey, unknown: Unknown) {
        self.known
            .store(Some(Arc::new(Known { services, unknown })));
    }

    /// Updates Services. `None` removes one.
    pub fn publish(&self, changed: impl Iterator<Item = (ObjectKey, Option<HeadlessService>)>) {
        let mut known = self.known.load().as_deref().cloned().unwrap_or_default();
        for (key, service) in changed {
            match service {
                Some(service) => known.services.insert(key, Arc::new(service)),
                None => known.services.remove(&key),
            };
        }
        self.known.store(Some(Arc::new(known)));
    }
}
