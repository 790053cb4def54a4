//! The headless Services that are seen, for those who answer from more than a version's records.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashMap;

use crate::cluster::{EndpointSlice, ObjectKey, Service};

/// A headless Service with its slices; what is large in them is shared with the facts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadlessService {
    /// The Service.
    pub service: Service,
    /// Its slices, by name.
    pub slices: Vec<EndpointSlice>,
}

/// The headless Services that exist and may be seen. The writer publishes them with the versions;
/// readers look without a lock. A change of one Service costs one Service.
#[derive(Debug, Default)]
pub struct HeadlessServices {
    /// The Services; `None` until everything was listed for the first time.
    services: ArcSwapOption<HashMap<ObjectKey, Arc<HeadlessService>>>,
}

impl HeadlessServices {
    /// Whether anything is known.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.services.load().is_some()
    }

    /// A Service, if it is one of them.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<HeadlessService>> {
        let services = self.services.load();
        services.as_ref()?.get(key).cloned()
    }

    /// These are all there are.
    pub fn publish_all(&self, all: impl Iterator<Item = HeadlessService>) {
        let all = all.map(|it| (it.service.key.clone(), Arc::new(it)));
        self.services.store(Some(Arc::new(all.collect())));
    }

    /// These have changed, each with what it is now.
    pub fn publish(&self, changed: impl Iterator<Item = (ObjectKey, Option<HeadlessService>)>) {
        let before = self.services.load_full().unwrap_or_default();
        let mut services = HashMap::clone(&before);
        for (key, service) in changed {
            match service {
                Some(service) => services.insert(key, Arc::new(service)),
                None => services.remove(&key),
            };
        }
        self.services.store(Some(Arc::new(services)));
    }
}
