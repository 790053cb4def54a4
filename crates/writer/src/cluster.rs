//! One cluster in the writer: its facts, its zones, what is to be rendered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use kubernetes::facts::{Dirty, State};
use kubernetes::schema::Problem;
use provenance::{FactKey, ObjectKey};
use zone::Zone;

use crate::commit::Ready;
use crate::guard::{Guard, Now};
use crate::overlay::{Overlay, Overlays};
use crate::render::{Below, Rendering, ZoneDraft, render_all_over, render_dirty_over};
use crate::{ClusterGauges, ClusterPlan};

/// One cluster as the writer holds it.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) state: State,
    pub(super) plan: ClusterPlan,
    /// What is to be rendered.
    pub(super) dirty: Dirty,
    /// Whether everything has to be rendered: before the first rendering of this run, and when the last file
    /// under a zone was read only later.
    pub(super) all_dirty: bool,
    /// Whether the zones of ServiceImports have to be rendered whole: before these were first listed.
    pub(super) imports_dirty: bool,
    /// Problems by Service and ServiceImport.
    pub(super) problems: BTreeMap<FactKey, Vec<Problem>>,
    pub(super) gauges: Arc<ClusterGauges>,
    /// The files under its zones.
    pub(super) overlays: Overlays,
    /// The guards of its zones, in the plan's order.
    pub(super) guards: Vec<Guard>,
    /// Whether the live layer knows less than was rendered, for a version is held.
    pub(super) live_is_behind: bool,
    /// What slices told since the last version, where they say when it happened.
    pub(super) triggered: BTreeMap<ObjectKey, SystemTime>,
}

impl Cluster {
    /// Whether there is something to render, and nothing that is not known yet.
    pub(super) fn is_due(&self) -> bool {
        let new_imports = self.imports_dirty && self.state.has_imports();
        let is_dirty = self.all_dirty || new_imports || !self.dirty.is_empty();
        let is_due = |(zone, overlay): (&usize, &Overlay)| overlay.is_due() && self.is_begun(*zone);
        self.state.is_synced() && (is_dirty || self.overlays.iter().any(is_due))
    }

    /// Whether all is known that a zone, by its place, is written from.
    fn is_begun(&self, zone: usize) -> bool {
        let overlay = self.overlays.get(&zone);
        let is_read = overlay.is_none_or(|overlay| overlay.file.is_some());
        is_read && (self.state.has_imports() || !self.plan.needs_imports(zone))
    }

    /// Notes on every zone since when its source is away, or the file under it cannot be used. Zones that
    /// need ServiceImports need all else too.
    pub(super) fn tell_stale(&self) {
        let read = |gauge: &AtomicU64| Some(gauge.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let all = read(&self.gauges.stale_since_ms);
        let imports = read(&self.gauges.imports_stale_since_ms);
        for (place, zone) in self.plan.zones().enumerate() {
            let needs_imports = self.plan.needs_imports(place);
            let own = imports.filter(|_| needs_imports);
            let overlay = self.overlays.get(&place);
            let file = overlay.and_then(|overlay| overlay.bad_since_ms);
            let is_written = self.is_begun(place) && !(needs_imports && self.imports_dirty);
            // A version from the store stays stale until it could be written anew.
            let before = zone.zone.stale_since_ms().filter(|_| !is_written);
            let since = [all, own, file, before].into_iter().flatten().min();
            zone.zone.set_stale_since_ms(since);
        }
    }
}

impl Cluster {
    /// The zones, each with its guard.
    pub(super) fn guarded(&mut self) -> impl Iterator<Item = (&Arc<Zone>, &mut Guard)> {
        let zones = self.plan.zones().map(|plan| &plan.zone);
        zones.zip(&mut self.guards)
    }

    /// Renders what is due, if anything is, and adds what may be published to `ready`.
    pub(super) fn render(&mut self, now: Now, ready: &mut Vec<Ready>) -> Option<Rendering> {
        if !self.is_due() {
            self.take_in(None, now, ready);
            return None;
        }
        let imports = self.state.has_imports();
        let (state, plan, dirty) = (&self.state, &self.plan, &self.dirty);
        let below = Below {
            overlays: &self.overlays,
            guards: &self.guards,
        };
        let mut rendering = if self.all_dirty {
            render_all_over(state, plan, dirty, below)
        } else {
            render_dirty_over(state, plan, dirty, imports && self.imports_dirty, below)
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

    /// Gives each zone's guard its draft, where there is one; adds what may be published to `ready`.
    fn take_in(
        &mut self,
        drafts: Option<Vec<Option<ZoneDraft>>>,
        now: Now,
        ready: &mut Vec<Ready>,
    ) {
        let mut drafts = drafts.into_iter().flatten();
        for (plan, guard) in self.plan.zones().zip(&mut self.guards) {
            let draft = match drafts.next().flatten() {
                Some(draft) => guard.take_in(&plan.zone, draft, now),
                None => guard.leave(&plan.zone, now),
            };
            ready.extend(draft.map(|draft| Ready {
                zone: Arc::clone(&plan.zone),
                limits: plan.limits,
                draft,
                wanted: None,
                ahead: guard.ahead,
            }));
        }
    }

    /// Tells the live layer what was rendered, unless a zone of names is held: what it answers goes with
    /// what is served. While the first rendering is held and it knows nothing, it learns what there is: what
    /// is served may hold more, so of anything else nothing is said.
    pub(super) fn tell_live(&mut self) {
        // Who asks is no part of what is held.
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

    /// Tells the live layer all that it was not told, once nothing is held any more.
    pub(super) fn catch_up_live(&mut self) {
        if self.live_is_behind && !self.holds_names() {
            self.live_is_behind = false;
            self.tell_namespaces(Extent::All);
            self.tell_headless(Extent::All);
        }
    }

    /// Whether a version of a zone of names is held.
    fn holds_names(&self) -> bool {
        let names = self.guards.iter().take(self.plan.forward.len());
        names.into_iter().any(Guard::holds)
    }

    /// Publishes which namespaces are seen.
    fn tell_namespaces(&self, extent: Extent) {
        let Some(seen) = &self.plan.seen else { return };
        let sees = |name: &Arc<str>| self.plan.sees_namespace(&self.state, name);
        let all = || self.state.namespaces().filter(|name| sees(name)).cloned();
        match extent {
            Extent::All => seen.publish_all(all()),
            // What was told before goes with what is served.
            Extent::Some if seen.is_whole() => {}
            Extent::Some => seen.publish_some(all()),
            Extent::Changed if self.dirty.namespaces.is_empty() => {}
            Extent::Changed => {
                let changed = self.dirty.namespaces.iter();
                seen.publish(changed.map(|name| (Arc::clone(name), sees(name))));
            }
        }
    }

    /// Publishes which pods have which addresses: all, or those that were rendered.
    fn tell_clients(&self, is_whole: bool) {
        let Some(clients) = &self.plan.clients else {
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

    /// Publishes the headless Services that are seen.
    fn tell_headless(&self, extent: Extent) {
        let Some(headless) = &self.plan.headless else {
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

/// How much the live layer is told.
#[derive(Debug, Clone, Copy)]
enum Extent {
    All,
    /// What there is, but there may be more.
    Some,
    /// What differs from what it was told last.
    Changed,
}
