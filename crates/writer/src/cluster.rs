//! One cluster in the writer: facts, zones, dirty keys.

pub(crate) mod zone;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use ::zone::{Zone, ZoneSet};
use kubernetes::facts::{ClientPods, Dirty, HeadlessServices, SeenNamespaces, State};
use kubernetes::schema::{Problem, import_is_cut, service_is_cut};
use provenance::{FactKey, Kind, ObjectKey};

use self::zone::ClusterZone;
use crate::gauges::ClusterGauges;
use crate::guard::{Guard, Now, Ready};
use crate::overlay::Overlay;
use crate::plan::{ClusterPlan, ZonePlan};
use crate::render::{Rendering, render_all, render_dirty};
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
    /// Whether the zones of ServiceImports have to be rendered whole: until these were listed.
    pub(super) imports_dirty: bool,
    /// The Services and ServiceImports of which endpoints are left out.
    pub(super) cut: BTreeSet<FactKey>,
    /// Problems by Service and ServiceImport.
    pub(super) problems: BTreeMap<FactKey, Vec<Problem>>,
    pub(super) handles: ClusterHandles,
    /// Whether the live tables are older than the last rendering, because a version is held.
    pub(super) live_is_behind: bool,
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
            imports_dirty: true,
            cut: BTreeSet::new(),
            problems: BTreeMap::new(),
            handles,
            live_is_behind: false,
            triggered: BTreeMap::new(),
        }
    }

    pub(super) fn zones_of(plan: &ClusterPlan, zones: &ZoneSet) -> Vec<ClusterZone> {
        let zone_of = |plan: &ZonePlan| ClusterZone {
            zone: Arc::clone(zones.get(&plan.name).expect("a plan comes with its zones")),
            guard: Guard::new(plan.gate),
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
        self.mark_cut();
        let imports = self.state.has_imports();
        let (state, plan, dirty) = (&self.state, &self.plan, &self.dirty);
        let mut rendering = if self.all_dirty {
            render_all(state, plan, dirty, &self.zones)
        } else {
            let new_imports = imports && self.imports_dirty;
            let tops = &self.dirty_tops;
            render_dirty(state, plan, dirty, tops, new_imports, &self.zones)
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

    /// Marks the addresses of dirty objects of which endpoints are left out, or were: others may be left out now.
    fn mark_cut(&mut self) {
        let services = self.dirty.services.keys().map(|key| Kind::Service.of(key));
        let imports = self.dirty.imports.keys();
        let imports = imports.map(|key| Kind::ServiceImport.of(key));
        let keys: Vec<FactKey> = match self.all_dirty {
            true => {
                self.cut.clear();
                let services = self.state.services().map(|it| Kind::Service.of(&it.key));
                let imports = self.state.imports();
                services
                    .chain(imports.map(|it| Kind::ServiceImport.of(&it.key)))
                    .collect()
            }
            false => services.chain(imports).collect(),
        };
        for key in keys {
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
                zone: Arc::clone(zone),
                limits: plan.retention.memory_limits(),
                draft,
                wanted: None,
                ahead: guard.ahead.serial(),
            }));
        }
    }

    /// Updates the live tables, unless a zone of names is held: synthesized names agree with the served version. While the
    /// first rendering is held and the tables are empty, they get the known objects. The served version may have more, so
    /// other names stay unknown.
    pub(super) fn tell_live(&mut self) {
        // The table of clients has no part in versions.
        self.tell_clients(self.all_dirty);
        self.live_is_behind |= self.holds_names();
        let extent = match (self.all_dirty, self.live_is_behind) {
            (true, false) => Extent::All,
            (true, true) => Extent::Some,
            (false, false) => Extent::Changed,
            (false, true) => return,
        };
        self.tell_namespaces(extent);
        self.tell_headless(extent);
    }

    /// Updates the live tables once nothing is held any more.
    pub(super) fn catch_up_live(&mut self) {
        if self.live_is_behind && !self.holds_names() {
            self.live_is_behind = false;
            self.tell_namespaces(Extent::All);
            self.tell_headless(Extent::All);
        }
    }

    /// Whether a version of a zone of names is held.
    fn holds_names(&self) -> bool {
        let mut names = self.zones.iter().take(self.plan.forward.len());
        names.any(|zone| zone.guard.holds())
    }

    /// Publishes visible namespaces.
    fn tell_namespaces(&self, extent: Extent) {
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
            Extent::Changed if self.dirty.namespaces.is_empty() => {}
            Extent::Changed => {
                let changed = self.dirty.namespaces.iter();
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
    fn tell_headless(&self, extent: Extent) {
        let Some(headless) = &self.handles.live.headless else {
            return;
        };
        let now = |key: &ObjectKey| (key.clone(), self.plan.headless_service(&self.state, key));
        let all = || {
            let services = self.state.services();
            services.filter_map(|service| now(&service.key).1)
        };
        match extent {
            Extent::All => headless.publish_all(all()),
            Extent::Some if headless.is_whole() => {}
            Extent::Some => headless.publish_some(all()),
            Extent::Changed if self.dirty.services.is_empty() => {}
            Extent::Changed => headless.publish(self.dirty.services.keys().map(now)),
        }
    }
}

/// How much of a live table is updated.
#[derive(Debug, Clone, Copy)]
enum Extent {
    All,
    /// The known objects; there may be more.
    Some,
    /// The changes.
    Changed,
}
