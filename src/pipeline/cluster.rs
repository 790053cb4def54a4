//! One cluster in the writer: its facts, its zones, what is to be rendered.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::{Dirty, ObjectKey, State};
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
    /// Problems by Service.
    pub(super) problems: BTreeMap<ObjectKey, Vec<Problem>>,
    /// What others read.
    pub(super) gauges: Arc<ClusterGauges>,
    /// The files under its zones.
    pub(super) overlays: Overlays,
}

impl Cluster {
    /// Whether there is something to render, and nothing that is not known yet.
    pub(super) fn is_due(&self) -> bool {
        let mut overlays = self.overlays.values();
        let is_whole = self.state.is_synced() && overlays.all(|overlay| overlay.file.is_some());
        let is_dirty = self.all_dirty || !self.dirty.is_empty();
        is_whole && (is_dirty || self.overlays.values().any(Overlay::is_due))
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
