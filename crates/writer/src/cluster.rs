//! One cluster in the writer: facts, zones, dirty keys.

pub(crate) mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use ::zone::gate::Share;
use ::zone::{Zone, ZoneSet};
use kubernetes::facts::{ClientPods, Dirty, HeadlessServices, SeenNamespaces, State};
use kubernetes::schema::{
    Asked, Problem, Rooms, import_is_cut, records_of_import, records_of_service, service_is_cut,
};
use provenance::{FactKey, Kind, ObjectKey};

use self::zone::ClusterZone;
use crate::contested::Contested;
use crate::gauges::ClusterGauges;
use crate::guard::{Guard, Holds, Now, Ready};
use crate::memory::Memory;
use crate::overlay::Overlay;
use crate::plan::{ClusterPlan, ZonePlan};
use crate::render::{Rendering, Seen, render_all, render_dirty};
use crate::sender::SourceId;
use crate::zone_edit::ZoneDraft;

/// The tables of a cluster that handlers read: its writer fills them.
#[derive(Debug, Clone, Default)]
pub struct LiveTables {
    /// Visible namespaces, if a handler reads them.
    pub seen: Option<Arc<SeenNamespaces>>,
    /// Visible headless Services, if a handler reads them.
    pub headless: Option<Arc<HeadlessServices>>,
    /// Pods by address, if a handler reads them.
    pub clients: Option<Arc<ClientPods>>,
}

impl LiveTables {
    /// The empty tables that a plan needs.
    #[must_use]
    pub fn new(plan: &ClusterPlan) -> Self {
        Self {
            seen: plan.publishes_namespaces.then(Arc::default),
            headless: plan.publishes_headless.then(Arc::default),
            clients: plan.publishes_clients.then(Arc::default),
        }
    }
}

/// The parts of a cluster that other threads read.
#[derive(Debug, Clone)]
pub struct ClusterHandles {
    /// The number of its source.
    pub source: SourceId,
    /// For status and metrics.
    pub gauges: Arc<ClusterGauges>,
    /// For handlers.
    pub live: LiveTables,
}

impl ClusterHandles {
    /// The handles of a cluster that was not listed yet.
    #[must_use]
    pub fn new(source: SourceId, plan: &ClusterPlan) -> Self {
        Self {
            source,
            gauges: Arc::new(ClusterGauges {
                kinds: plan.kinds,
                ..ClusterGauges::default()
            }),
            live: LiveTables::new(plan),
        }
    }
}

/// One cluster as the writer holds it.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) state: State,
    pub(super) plan: ClusterPlan,
    /// In the plan's order.
    pub(super) zones: Vec<ClusterZone>,
    pub(super) dirty: Dirty,
    /// Whether everything has to be rendered: at first, and when a file under a zone is read for the first time.
    pub(super) all_dirty: bool,
    /// The zones, by place, whose top has to be rendered.
    pub(super) dirty_tops: BTreeSet<usize>,
    /// Whether objects that are listed differ from what the zones were rendered from: then they are causes, and nothing else
    /// is. Otherwise all that is listed for the first time may have been so before.
    pub(super) is_exact: bool,
    /// What the store knows of the facts.
    pub(super) memory: Memory,
    /// Whether the zones of ServiceImports have to be rendered whole: until these were listed.
    pub(super) imports_dirty: bool,
    /// The Services and ServiceImports of which endpoints are left out.
    pub(super) cut: BTreeSet<FactKey>,
    /// Problems by Service and ServiceImport.
    pub(super) problems: BTreeMap<FactKey, Vec<Problem>>,
    /// Addresses with endpoints in namespaces that do not own them.
    pub(super) contested: Contested,
    /// The problems of these endpoints' Services and ServiceImports.
    pub(super) foreign: BTreeMap<FactKey, Problem>,
    /// The objects that have room in their namespaces.
    pub(super) rooms: Rooms,
    pub(super) handles: ClusterHandles,
    /// What the live tables lack of the last rendering, because it is held.
    pub(super) live_lacks: Holds,
    /// Changes of Services' slices since the last version, with their times.
    pub(super) triggered: BTreeMap<ObjectKey, SystemTime>,
}

impl Cluster {
    /// A cluster that was not listed yet.
    pub(super) fn new(plan: ClusterPlan, handles: ClusterHandles, zones: &ZoneSet) -> Self {
        Self {
            state: State::new(plan.kinds),
            zones: Self::zones_of(&plan, zones),
            plan,
            dirty: Dirty::default(),
            all_dirty: true,
            dirty_tops: BTreeSet::new(),
            is_exact: false,
            memory: Memory::default(),
            imports_dirty: true,
            cut: BTreeSet::new(),
            problems: BTreeMap::new(),
            contested: Contested::default(),
            foreign: BTreeMap::new(),
            rooms: Rooms::default(),
            handles,
            live_lacks: Holds::Nothing,
            triggered: BTreeMap::new(),
        }
    }

    pub(super) fn zones_of(plan: &ClusterPlan, zones: &ZoneSet) -> Vec<ClusterZone> {
        let zone_of = |zone: &ZonePlan| ClusterZone {
            zone: Arc::clone(zones.get(&zone.name).expect("a plan comes with its zones")),
            guard: Guard::new(zone.gate, plan.share_rule(zone)),
            overlay: None,
        };
        plan.zones().map(zone_of).collect()
    }

    /// Whether there is something to render, and everything is listed.
    pub(super) fn is_due(&self) -> bool {
        let new_imports = self.imports_dirty && self.state.has_imports();
        let is_dirty =
            self.all_dirty || new_imports || !self.dirty.is_empty() || !self.dirty_tops.is_empty();
        let is_due = |(place, zone): (usize, &ClusterZone)| {
            zone.overlay.as_ref().is_some_and(Overlay::is_due) && self.is_begun(place)
        };
        self.state.is_synced() && (is_dirty || self.zones.iter().enumerate().any(is_due))
    }

    /// Whether all sources of a zone, by its place, were read.
    fn is_begun(&self, zone: usize) -> bool {
        let overlay = self.zones[zone].overlay.as_ref();
        let is_read = overlay.is_none_or(|overlay| overlay.file.is_some());
        is_read && (self.state.has_imports() || !self.plan.needs_imports(zone))
    }

    /// Sets on every zone since when its source is away or the file under it is bad. Zones that need ServiceImports need
    /// everything else too.
    pub(super) fn tell_stale(&self) {
        let read = |gauge: &AtomicU64| Some(gauge.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let all = read(&self.handles.gauges.stale_since_ms);
        let imports = read(&self.handles.gauges.imports_stale_since_ms);
        for (place, ClusterZone { zone, overlay, .. }) in self.zones.iter().enumerate() {
            let needs_imports = self.plan.needs_imports(place);
            let own = imports.filter(|_| needs_imports);
            let file = overlay.as_ref().and_then(|overlay| overlay.bad_since_ms);
            let is_written =
                !self.all_dirty && self.is_begun(place) && !(needs_imports && self.imports_dirty);
            // A version from the store is stale until the zone was rendered.
            let before = zone.stale_since_ms().filter(|_| !is_written);
            let since = [all, own, file, before].into_iter().flatten().min();
            zone.set_stale_since_ms(since);
        }
    }
}

impl Cluster {
    /// The problems of all objects.
    pub(super) fn all_problems(&self) -> impl Iterator<Item = &Problem> {
        self.problems
            .values()
            .flatten()
            .chain(self.foreign.values())
    }

    /// The zones, each with its guard.
    pub(super) fn guarded(&mut self) -> impl Iterator<Item = (&Arc<Zone>, &mut Guard)> {
        let zones = self.zones.iter_mut();
        zones.map(|it| (&it.zone, &mut it.guard))
    }

    /// Renders dirty keys, and adds drafts that may be published to `ready`.
    pub(super) fn render(&mut self, now: Now, ready: &mut Vec<Ready>) -> Option<Rendering> {
        if !self.is_due() {
            self.take_in(None, now, ready);
            return None;
        }
        self.mark_room();
        self.mark_cut();
        for zone in &mut self.zones {
            zone.guard.lists_are_exact = self.is_exact;
        }
        let imports = self.state.has_imports();
        let (seen, dirty) = (self.seen(), &self.dirty);
        let mut rendering = if self.all_dirty {
            render_all(seen, dirty, &self.zones, self.is_exact)
        } else {
            let new_imports = imports && self.imports_dirty;
            let tops = &self.dirty_tops;
            render_dirty(seen, dirty, tops, new_imports, &self.zones)
        };
        rendering.layers.retain(|layer| self.is_begun(layer.zone));
        let drafts = std::mem::take(&mut rendering.drafts)
            .into_iter()
            .enumerate();
        let drafts = drafts.map(|(zone, draft)| self.is_begun(zone).then_some(draft));
        let drafts = drafts.collect();
        self.take_in(Some(drafts), now, ready);
        Some(rendering)
    }

    /// What is rendered.
    pub(super) const fn seen(&self) -> Seen<'_> {
        Seen {
            state: &self.state,
            plan: &self.plan,
            rooms: &self.rooms,
        }
    }

    /// The Services and ServiceImports to be rendered: the dirty ones, or all.
    fn due_objects(&self) -> Vec<FactKey> {
        let services = self.dirty.services.keys().map(|key| Kind::Service.of(key));
        let imports = self.dirty.imports.keys();
        let imports = imports.map(|key| Kind::ServiceImport.of(key));
        match self.all_dirty {
            true => {
                let services = self.state.services().map(|it| Kind::Service.of(&it.key));
                let imports = self.state.imports();
                services
                    .chain(imports.map(|it| Kind::ServiceImport.of(&it.key)))
                    .collect()
            }
            false => services.chain(imports).collect(),
        }
    }

    /// Gives the dirty objects room in their namespaces, and marks the objects that get or lose theirs.
    fn mark_room(&mut self) {
        if self.all_dirty {
            self.rooms = Rooms::new(self.plan.limits.namespace);
        }
        for of in self.due_objects() {
            let (created_s, records) = self.asks(&of);
            let moved = self.rooms.set(&of, created_s, records);
            // When everything is rendered, nothing needs a mark.
            if moved.is_empty() || self.all_dirty {
                continue;
            }
            let causes = match of.kind {
                Kind::ServiceImport => self.dirty.imports.get(&of.key),
                Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Pod => {
                    self.dirty.services.get(&of.key)
                }
            };
            let causes = causes.cloned().unwrap_or_default();
            for key in moved {
                let moved = of.kind.of(&key);
                self.state.mark_whole(&moved, &causes, &mut self.dirty);
            }
        }
    }

    /// The age of an object, and the records for which it asks. None if it is hidden.
    fn asks(&self, FactKey { kind, key }: &FactKey) -> (u64, Asked) {
        let (state, plan) = (&self.state, &self.plan);
        let limits = &plan.limits;
        let asked = match kind {
            Kind::ServiceImport => plan.sees_import(state, key).map(|import| {
                let slices = state.slices_of_import(key);
                (import.created_s, records_of_import(import, slices, limits))
            }),
            Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::Pod => {
                let is_seen = plan.sees_namespace(state, &key.namespace);
                let service = state.service(key).filter(|_| is_seen);
                service.map(|service| {
                    let slices = state.slices_of(key);
                    (
                        service.created_s,
                        records_of_service(service, slices, limits),
                    )
                })
            }
        };
        asked.unwrap_or_default()
    }

    /// Marks the addresses of dirty objects of which endpoints are left out, or were: others may be left out now.
    fn mark_cut(&mut self) {
        if self.all_dirty {
            self.cut.clear();
        }
        for key in self.due_objects() {
            let was = self.cut.remove(&key);
            let is = self.is_cut(&key);
            if is || was {
                self.state.mark_endpoints(&key, &mut self.dirty);
            }
            if is {
                self.cut.insert(key);
            }
        }
    }

    /// Whether endpoints of a Service or ServiceImport are left out.
    fn is_cut(&self, FactKey { kind, key }: &FactKey) -> bool {
        let (state, limits) = (&self.state, &self.plan.limits);
        let service = state.service(key).filter(|_| *kind == Kind::Service);
        let import = state.import(key).filter(|_| *kind == Kind::ServiceImport);
        service.is_some_and(|it| service_is_cut(it, state.slices_of(key), limits))
            || import.is_some_and(|it| import_is_cut(it, state.slices_of_import(key), limits))
    }

    /// Gives each guard its draft, if there is one. Adds drafts that may be published to `ready`.
    fn take_in(
        &mut self,
        drafts: Option<Vec<Option<ZoneDraft>>>,
        now: Now,
        ready: &mut Vec<Ready>,
    ) {
        let mut drafts = drafts.into_iter().flatten();
        for (plan, ClusterZone { zone, guard, .. }) in self.plan.zones().zip(&mut self.zones) {
            let draft = match drafts.next().flatten() {
                Some(draft) => guard.take_in(zone, draft, now),
                None => guard.leave(zone, now),
            };
            ready.extend(draft.map(|draft| Ready {
                is_signed: false,
                zone: Arc::clone(zone),
                limits: plan.retention.memory_limits(),
                draft,
                wanted: None,
                ahead: guard.ahead.serial(),
            }));
        }
    }

    /// Updates the live tables, except for what is held of a zone of names: synthesized names agree with the served version.
    /// While the first rendering is held and the tables are empty, they get the known objects. The served version may have
    /// more, so other names stay unknown.
    pub(super) fn tell_live(&mut self) {
        // The table of clients has no part in versions.
        self.tell_clients(self.all_dirty);
        let held = self.held_names();
        let lacked = std::mem::replace(&mut self.live_lacks, held.clone());
        let extent = match (self.all_dirty, held, lacked) {
            (true, Holds::Zone, _) => Extent::Some,
            (true, Holds::Nothing, _) => Extent::All,
            (true, Holds::Shares(held), _) => Extent::But(held),
            (false, Holds::Zone, _) => return,
            (false, Holds::Nothing, Holds::Nothing) => Extent::Changed(BTreeSet::new()),
            (false, Holds::Shares(held), Holds::Nothing) => Extent::Changed(held),
            (false, Holds::Shares(held), Holds::Shares(lacked)) if lacked.is_subset(&held) => {
                Extent::Changed(held)
            }
            (false, Holds::Shares(held), Holds::Shares(_) | Holds::Zone) => Extent::But(held),
            (false, Holds::Nothing, Holds::Shares(_) | Holds::Zone) => Extent::All,
        };
        self.tell_namespaces(&extent);
        self.tell_headless(&extent);
    }

    /// Updates the live tables once less is held than before.
    pub(super) fn catch_up_live(&mut self) {
        let held = self.held_names();
        let extent = match (&held, &self.live_lacks) {
            (Holds::Nothing, Holds::Shares(_) | Holds::Zone) => Extent::All,
            (Holds::Shares(held), Holds::Shares(lacked)) if !lacked.is_subset(held) => {
                Extent::But(held.clone())
            }
            (Holds::Shares(held), Holds::Zone) => Extent::But(held.clone()),
            (Holds::Shares(_), Holds::Shares(_)) => return,
            // The dirty keys of this commit were told.
            (_, Holds::Nothing) | (Holds::Zone, _) => return,
        };
        self.live_lacks = held;
        self.tell_namespaces(&extent);
        self.tell_headless(&extent);
    }

    /// What is held of the zones of names.
    fn held_names(&self) -> Holds {
        let names = self.zones.iter().take(self.plan.forward.len());
        let held = names.map(|zone| zone.guard.holds());
        held.fold(Holds::Nothing, Holds::with)
    }

    /// Publishes visible namespaces.
    fn tell_namespaces(&self, extent: &Extent) {
        let Some(seen) = &self.handles.live.seen else {
            return;
        };
        let sees = |name: &Arc<str>| self.plan.sees_namespace(&self.state, name);
        let all = || self.state.namespaces().filter(|name| sees(name)).cloned();
        match extent {
            Extent::All => seen.publish_all(all()),
            // The table agrees with the served version.
            Extent::Some if seen.is_whole() => {}
            Extent::Some => seen.publish_some(all()),
            Extent::But(held) => seen.publish_but(all(), &names_of(held)),
            Extent::Changed(_) if self.dirty.namespaces.is_empty() => {}
            Extent::Changed(held) => {
                let changed = self.dirty.namespaces.iter();
                let changed = changed.filter(|name| !held.contains(&***name));
                seen.publish(changed.map(|name| (Arc::clone(name), sees(name))));
            }
        }
    }

    /// Publishes pods by address: all, or those that changed.
    fn tell_clients(&self, is_whole: bool) {
        let Some(clients) = &self.handles.live.clients else {
            return;
        };
        if is_whole {
            let all = self.state.pods();
            clients.publish_all(all.filter_map(|at| Some((at, self.state.client(at)?))));
        } else if !self.dirty.pods.is_empty() {
            let changed = self.dirty.pods.keys();
            clients.publish(changed.map(|at| (at, self.state.client(at))));
        }
    }

    /// Publishes visible headless Services.
    fn tell_headless(&self, extent: &Extent) {
        let Some(headless) = &self.handles.live.headless else {
            return;
        };
        let now = |key: &ObjectKey| {
            let has_room = !self.rooms.lacks_endpoints(Kind::Service, key);
            let service = self.plan.headless_service(&self.state, key);
            (key.clone(), service.filter(|_| has_room))
        };
        let all = || {
            let services = self.state.services();
            services.filter_map(|service| now(&service.key).1)
        };
        match extent {
            Extent::All => headless.publish_all(all()),
            Extent::Some if headless.is_whole() => {}
            Extent::Some => headless.publish_some(all()),
            Extent::But(held) => headless.publish_but(all(), &names_of(held)),
            Extent::Changed(_) if self.dirty.services.is_empty() => {}
            Extent::Changed(held) => {
                let changed = self.dirty.services.keys();
                let changed = changed.filter(|key| !held.contains(&*key.namespace));
                headless.publish(changed.map(now));
            }
        }
    }
}

/// How much of a live table is updated.
#[derive(Debug)]
enum Extent {
    All,
    /// The known objects; there may be more.
    Some,
    /// All but those of these namespaces.
    But(BTreeSet<Share>),
    /// The changes but those of these namespaces.
    Changed(BTreeSet<Share>),
}

fn names_of(shares: &BTreeSet<Share>) -> BTreeSet<Arc<str>> {
    shares.iter().map(|share| share.as_str().into()).collect()
}
