//! `zonal`: the endpoints of a headless Service by topology zone.
//!
//! `ZONE.pin._zone.service.namespace.svc.…` has the records of the Service's endpoints in ZONE. `ZONE.prefer._zone.…`
//! has the same, or the records of all endpoints if none is in ZONE. ZONE may have several labels.
//!
//! Any text can be ZONE, so no DNS zone can hold these names. They are answered here, from the facts of the served
//! version, if that version does not have the name. Secondaries do not have them.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use dns::{Name, Ttl};
use kubernetes::facts::{EndpointSlice, HeadlessService, HeadlessServices, SeenService, Service};
use kubernetes::schema::{Below, ParsedName, TopologyRule, service_name, topology_text};
use provenance::ObjectKey;
use server::Synthesized;
use zone::{Contents, Node};

/// Answers for topology zones in one zone of names.
#[derive(Debug)]
pub(super) struct ZonalNames {
    /// The headless Services.
    services: Arc<HeadlessServices>,
    /// TTL of what is answered.
    ttl: Ttl,
    /// Renders the records at the name of a Service.
    render: RenderService,
    /// The rendered Services: each is rendered once for all clients. The lock protects the map alone; nothing is
    /// rendered under it.
    rendered: Mutex<RenderedServices>,
}

/// Renders the records at the name of a Service with these slices in a zone. It is passed in, as the schema decides on
/// the records of a Service.
pub type RenderService = fn(&Service, &[EndpointSlice], &Name, Ttl) -> Option<Node>;

/// The nodes of one Service, by topology zone; zones without endpoints have none.
type ByZone = BTreeMap<Arc<str>, Option<Node>>;

/// The rendered nodes, by Service.
#[derive(Debug, Default)]
struct RenderedServices {
    /// The nodes, with the facts that they come from. They are useless when those facts are gone.
    services: HashMap<ObjectKey, (Weak<HeadlessService>, Arc<ByZone>)>,
}

impl ZonalNames {
    /// Whether both are for the same Services.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.services, &other.services) && self.ttl == other.ttl
    }

    /// The names of these Services, in one zone of names.
    pub(super) fn new(services: Arc<HeadlessServices>, ttl: Ttl, render: RenderService) -> Self {
        Self {
            services,
            ttl,
            render,
            rendered: Mutex::default(),
        }
    }

    /// The answer to a name that `contents` lack.
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
        // Endpoints that are names have no records there.
        let own = by_zone.get(&*topology_text(zone)).cloned().flatten();
        let node = match (own, rule) {
            (Some(node), _) => Some(node),
            (None, TopologyRule::Pin) => None,
            (None, TopologyRule::Prefer) => at_service(contents, &key),
        };
        Synthesized::Exists { node, by }
    }

    /// The nodes of a Service. They are rendered at the first question after its facts have changed.
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
    /// The nodes rendered from these very facts.
    fn get(&self, facts: &Arc<HeadlessService>) -> Option<Arc<ByZone>> {
        let (of, made) = self.services.get(&facts.service.key)?;
        // A weak pointer keeps its address in use, so no other facts can have this address.
        (of.as_ptr() == Arc::as_ptr(facts)).then(|| Arc::clone(made))
    }

    /// Stores the nodes of a Service. Before the map has more entries than `seen`, the number of Services, it removes
    /// the useless ones.
    fn insert(&mut self, facts: &Arc<HeadlessService>, made: &Arc<ByZone>, seen: usize) {
        if self.services.len() > 2 * seen {
            self.services.retain(|_, (of, _)| of.strong_count() > 0);
        }
        let key = facts.service.key.clone();
        let entry = (Arc::downgrade(facts), Arc::clone(made));
        self.services.insert(key, entry);
    }
}

/// A version's node at the name of a Service, with the records of all its endpoints.
fn at_service(contents: &Contents, key: &ObjectKey) -> Option<Node> {
    let apex = contents.apex();
    let name = service_name(key, apex).ok()?;
    contents.get(name.sort_key(apex)?.as_bytes()).cloned()
}

/// The slices of each topology zone, with the endpoints of that zone only.
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
