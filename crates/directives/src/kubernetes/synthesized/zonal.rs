//! `zonal`: the endpoints of a headless Service by topology zone.
//!
//! `ZONE.pin._zone.service.namespace.svc.…` has what the Service's name has, of the endpoints in ZONE
//! alone; `ZONE.prefer._zone.…` of all endpoints where none is in ZONE. ZONE may be of several labels.
//! Any ZONE is a name, so no zone can hold them: they are answered here, when the version that is served
//! does not hold the name, from the facts it was made of. No secondary has them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dns::{Name, Ttl};
use kubernetes::facts::{EndpointSlice, HeadlessService, HeadlessServices, SeenService, Service};
use kubernetes::schema::{Below, ParsedName, TopologyRule, service_name, topology_text};
use provenance::ObjectKey;
use server::Synthesized;
use zone::{Contents, Node};

/// What answers for topology zones, of one zone of names.
#[derive(Debug)]
pub(super) struct ZonalNames {
    /// The headless Services.
    services: Arc<HeadlessServices>,
    /// TTL of what is answered.
    ttl: Ttl,
    /// What stands at the name of a Service.
    render: RenderService,
    /// What was rendered already. Any client may ask: a Service is rendered once for all of them.
    /// Protects the map alone; nothing is rendered under the lock.
    rendered: Mutex<RenderedServices>,
}

/// Gives what stands at the name of a Service with these slices in a zone. Handed in, for what a Service
/// says is not decided here.
pub type RenderService = fn(&Service, &[EndpointSlice], &Name, Ttl) -> Option<Node>;

/// The nodes of one Service, by topology zone; zones without endpoints have none.
type ByZone = BTreeMap<Arc<str>, Option<Node>>;

/// What was rendered, by Service.
#[derive(Debug, Default)]
struct RenderedServices {
    /// The nodes with the facts that they were made of; those of facts that are gone are of no use.
    services: HashMap<ObjectKey, (Weak<HeadlessService>, Arc<ByZone>)>,
}

impl ZonalNames {
    /// Whether others are of the same Services.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.services, &other.services) && self.ttl == other.ttl
    }

    /// Names of these Services, in one zone of names.
    pub(super) fn new(services: Arc<HeadlessServices>, ttl: Ttl, render: RenderService) -> Self {
        Self {
            services,
            ttl,
            render,
            rendered: Mutex::default(),
        }
    }

    /// What a name says that `contents` do not hold.
    pub(super) fn answer(&self, contents: &Contents, name: &ParsedName<'_>) -> Synthesized {
        let ParsedName::Object(service) = name else {
            return Synthesized::Missing;
        };
        let Below::Topology { rule, zone } = service.below else {
            return Synthesized::Missing;
        };
        let by = "`zonal`";
        let key = service.key();
        let headless = match self.services.get(&key) {
            SeenService::Seen(headless) => headless,
            SeenService::Missing => return Synthesized::Missing,
            SeenService::Unknown => return Synthesized::Unknown,
        };
        let Some(rule) = rule.filter(|_| !zone.is_empty()) else {
            return Synthesized::Exists { node: None, by };
        };
        let by_zone = self.by_zone(&headless, contents.apex());
        let node = match (by_zone.get(&*topology_text(zone)), rule) {
            (Some(node), _) => node.clone(),
            (None, TopologyRule::Pin) => None,
            (None, TopologyRule::Prefer) => at_service(contents, &key),
        };
        Synthesized::Exists { node, by }
    }

    /// The nodes of a Service, made at the first question after its facts changed.
    fn by_zone(&self, headless: &Arc<HeadlessService>, apex: &Name) -> Arc<ByZone> {
        let lock = || self.rendered.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(headless) {
            return known;
        }
        let made = by_zone(&headless.slices).into_iter().map(|(zone, slices)| {
            let node = (self.render)(&headless.service, &slices, apex, self.ttl);
            (zone, node)
        });
        let made = Arc::new(made.collect());
        lock().insert(headless, &made, self.services.count());
        made
    }
}

impl RenderedServices {
    /// What was made of these very facts.
    fn get(&self, facts: &Arc<HeadlessService>) -> Option<Arc<ByZone>> {
        let (of, made) = self.services.get(&facts.service.key)?;
        // Who holds a weak pointer holds its address: no other facts can have come to lie there.
        (of.as_ptr() == Arc::as_ptr(facts)).then(|| Arc::clone(made))
    }

    /// Notes what was made of facts, and forgets what is of no use before that outgrows `seen`, the number of
    /// Services there are.
    fn insert(&mut self, facts: &Arc<HeadlessService>, made: &Arc<ByZone>, seen: usize) {
        if self.services.len() > 2 * seen {
            self.services.retain(|_, (of, _)| of.strong_count() > 0);
        }
        let key = facts.service.key.clone();
        let entry = (Arc::downgrade(facts), Arc::clone(made));
        self.services.insert(key, entry);
    }
}

/// What a version has at the name of a Service: what all its endpoints say.
fn at_service(contents: &Contents, key: &ObjectKey) -> Option<Node> {
    let apex = contents.apex();
    let name = service_name(key, apex).ok()?;
    contents.get(name.sort_key(apex)?.as_bytes()).cloned()
}

/// The slices of each topology zone, with its endpoints alone.
fn by_zone(slices: &[EndpointSlice]) -> BTreeMap<Arc<str>, Vec<EndpointSlice>> {
    let mut zones: BTreeMap<Arc<str>, Vec<EndpointSlice>> = BTreeMap::new();
    for slice in slices {
        let mut endpoints: BTreeMap<&Arc<str>, Vec<_>> = BTreeMap::new();
        for endpoint in slice.endpoints.iter() {
            if let Some(zone) = endpoint.zone() {
                endpoints.entry(zone).or_default().push(endpoint.clone());
            }
        }
        for (zone, endpoints) in endpoints {
            zones
                .entry(Arc::clone(zone))
                .or_default()
                .push(EndpointSlice {
                    endpoints: endpoints.into(),
                    ..slice.clone()
                });
        }
    }
    zones
}

#[cfg(test)]
mod tests;
