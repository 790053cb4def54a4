//! One cluster in the writer: its facts, its zones, what is to be rendered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cluster::{Dirty, FactKey, ObjectKey, State};
use crate::pipeline::overlay::{Overlay, Overlays};
use crate::pipeline::{ClusterGauges, ClusterPlan};
use crate::schema::Problem;

/// One cluster as the writer holds it.
#[derive(Debug)]
pub(super) struct Cluster {
    /// The facts.
    pub(super) state: State,
    /// The zones.
    pub(super) plan: ClusterPlan,
    /// What is to be rendered.
    pub(super) dirty: Dirty,
    /// Whether everything has to be rendered: before the first complete rendering of this run.
    pub(super) all_dirty: bool,
    /// Whether the zones of ServiceImports have to be rendered whole: before these were first listed.
    pub(super) imports_dirty: bool,
    /// Problems by Service and ServiceImport.
    pub(super) problems: BTreeMap<FactKey, Vec<Problem>>,
    /// What others read.
    pub(super) gauges: Arc<ClusterGauges>,
    /// The files under its zones.
    pub(super) overlays: Overlays,
}

impl Cluster {
    /// Whether there is something to render, and nothing that is not known yet.
    pub(super) fn is_due(&self) -> bool {
        let new_imports = self.imports_dirty && self.state.has_imports();
        let is_dirty = self.all_dirty || new_imports || !self.dirty.is_empty();
        let is_whole = self.state.is_synced() && !self.is_blind();
        is_whole && (is_dirty || self.overlays.values().any(Overlay::is_due))
    }

    /// Whether a file under one of its zones was not read yet.
    pub(super) fn is_blind(&self) -> bool {
        self.overlays.values().any(|overlay| overlay.file.is_none())
    }

    /// Notes on every zone since when its source is away. Zones that need ServiceImports need all else
    /// too.
    pub(super) fn tell_stale(&self) {
        let read = |gauge: &AtomicU64| Some(gauge.load(Ordering::Relaxed)).filter(|at| *at > 0);
        let all = read(&self.gauges.stale_since_ms);
        let imports = read(&self.gauges.imports_stale_since_ms);
        for (place, zone) in self.plan.zones().enumerate() {
            let needs_imports = self.plan.needs_imports(place);
            let own = imports.filter(|_| needs_imports);
            let since = [all, own].into_iter().flatten().min();
            // A version from the store stays stale until the imports were seen.
            if since.is_some() || !needs_imports || self.state.has_imports() {
                zone.zone.set_stale_since_ms(since);
            }
        }
    }
}

impl Cluster {
    /// Publishes which namespaces are seen, where they differ from what was published.
    pub(super) fn tell_namespaces(&self) {
        let Some(seen) = &self.plan.seen else { return };
        let sees = |name: &Arc<str>| self.plan.sees_namespace(&self.state, name);
        if self.all_dirty {
            let names = self.state.namespaces().filter(|name| sees(name));
            seen.publish_all(names.cloned());
        } else if !self.dirty.namespaces.is_empty() {
            let changed = self.dirty.namespaces.iter();
            seen.publish(changed.map(|name| (Arc::clone(name), sees(name))));
        }
    }

    /// Publishes the headless Services that are seen, those that were rendered.
    pub(super) fn tell_headless(&self) {
        let Some(headless) = &self.plan.headless else {
            return;
        };
        let now = |key: &ObjectKey| (key.clone(), self.plan.headless_service(&self.state, key));
        if self.all_dirty {
            headless.publish(self.state.services().map(|service| now(&service.key)));
        } else if !self.dirty.services.is_empty() {
            headless.publish(self.dirty.services.keys().map(now));
        }
    }
}
