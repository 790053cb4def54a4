//! A change of the configuration, applied to the running writer: each part of it costs what it changes.
//!
//! Retention and gate render nothing, an apex renders the top of its zone, a TTL or another view of the same objects
//! renders a cluster's zones from the facts that are there. Only another source, or other objects asked of it, are listed again.
//! A zone that moves from one cluster or file to another keeps its guard: an operator's hold stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dns::Name;
use kubernetes::schema::{ApexSettings, apex_records};
use provenance::{Cause, Verb};
use tokio::sync::oneshot;
use zone::ZoneSet;
use zone::journal::Retention;

use crate::catalog::HeldCatalog;
use crate::cluster::zone::ClusterZone;
use crate::cluster::{Cluster, ClusterHandles};
use crate::contested::Contested;
use crate::files::HeldFile;
use crate::guard::Guard;
use crate::memory::Memory;
use crate::notes::add_note;
use crate::overlay::Overlay;
use crate::plan::{ClusterPlan, FilePlan, PlanChange};
use crate::sender::{AskId, SourceId};
use crate::{Pipeline, Store};

/// A change of the configuration.
#[derive(Debug)]
pub struct Configure {
    /// The changes, in the order in which they are applied.
    pub changes: Vec<PlanChange>,
    /// All zones of the new configuration.
    pub zones: Arc<ZoneSet>,
    /// Zones whose content has the same source as before. Others are stale until they are rendered.
    pub unmoved: Vec<Name>,
    /// The handles of the clusters, by home.
    pub clusters: BTreeMap<Name, ClusterHandles>,
    /// The followers of the files, by zone.
    pub files: BTreeMap<Name, SourceId>,
    /// The change of the Corefile, as a cause of the next versions of the zones that it touches.
    pub cause: Option<String>,
    /// The asking of secondaries that has to end before anything is published.
    pub awaits_secondaries: Option<AskId>,
    /// Receives the result.
    pub done: oneshot::Sender<Result<(), String>>,
}

/// Parts that were taken out and wait for their new place.
#[derive(Default)]
struct Loose {
    /// The guard of a zone and the file under it.
    zones: BTreeMap<Name, (Guard, Option<Overlay>)>,
    /// Clusters, by the home that they had.
    clusters: BTreeMap<Name, Cluster>,
    /// The homes of removed clusters whose facts the store has.
    saved: BTreeSet<Name>,
}

impl<S: Store> Pipeline<S> {
    /// Names a change of the configuration as a cause of the first version of each zone that differs. Call it after files and
    /// catalogs were added.
    #[must_use]
    pub fn with_change(mut self, change: Option<&str>) -> Self {
        if let Some(what) = change {
            self.note_change(what, |_| true);
        }
        self
    }

    /// Applies a change of the configuration.
    pub(super) fn configure(&mut self, mut configure: Configure) {
        let done = self.prepare_zones(&configure);
        if done.is_ok() {
            self.apply_changes(&mut configure);
        }
        // The receiver may be gone.
        let _gone = configure.done.send(done);
    }

    /// Restores new zones from the store. Then it marks zones stale that have another source, and sets the retention of each
    /// zone.
    ///
    /// # Errors
    /// When the store cannot be read: nothing has changed then.
    fn prepare_zones(&mut self, configure: &Configure) -> Result<(), String> {
        let now_ms = self.now().ms;
        let changes = configure.changes.iter();
        let zones: Vec<_> = changes.flat_map(retentions).collect();
        let zone_of = |name| {
            let zone = configure.zones.get(name);
            zone.expect("a plan comes with its zones")
        };
        for (name, retention) in &zones {
            if self.zones.get(name).is_none() {
                let restored = self.store.restore(zone_of(name), *retention, now_ms);
                restored.map_err(|error| error.to_string())?;
            }
        }
        for (name, retention) in zones {
            let zone = zone_of(name);
            let is_moved = self.zones.get(name).is_some() && !configure.unmoved.contains(name);
            if is_moved && zone.current().is_some() {
                zone.set_stale_since_ms(Some(now_ms));
            }
            self.store.set_retention(name, retention);
        }
        Ok(())
    }

    fn apply_changes(&mut self, configure: &mut Configure) {
        let old = std::mem::replace(&mut self.zones, Arc::clone(&configure.zones));
        let now_ms = self.now().ms;
        let zones = (&*old, &*self.zones);
        self.unnoted.add_presence(zones, &self.last_change, now_ms);
        self.awaited.extend(configure.awaits_secondaries);
        let mut loose = Loose::default();
        let mut touched = BTreeSet::new();
        for change in &configure.changes {
            self.detach(change, &mut loose, &mut touched);
        }
        for change in std::mem::take(&mut configure.changes) {
            self.attach(change, configure, &mut loose, &mut touched);
        }
        if let Some(what) = configure.cause.as_deref() {
            self.note_change(what, |zone| touched.contains(zone));
        }
        for (name, (mut guard, _)) in loose.zones {
            let Some(zone) = old.get(&name) else { continue };
            if guard.dismiss(zone) {
                self.over.entry(name.clone()).or_default();
            }
            self.observer.warnings(&name, &[], &[]);
        }
        let clusters = self.clusters.iter();
        let mut problems = clusters.flat_map(|cluster| cluster.all_problems());
        self.observer.problems(&mut problems, &[]);
    }

    /// Takes out what a change removes or replaces.
    fn detach(&mut self, change: &PlanChange, loose: &mut Loose, touched: &mut BTreeSet<Name>) {
        match change {
            PlanChange::RemoveFile(zone) => self.detach_file(zone, loose, touched),
            PlanChange::SetFile(file) => self.detach_file(file.zone(), loose, touched),
            PlanChange::RemoveCluster(cluster) => {
                self.detach_cluster(cluster, loose);
                self.forget_facts(cluster);
            }
            PlanChange::RestartSource { cluster, plan } => {
                let now = self.clock.now();
                let mut clusters = self.clusters.iter_mut();
                let old = clusters.find(|it| it.plan.home() == cluster);
                if plan.home() != cluster {
                    self.forget_facts(cluster);
                } else if old.is_some_and(|old| old.save_all(&mut self.store, &self.in_use, now)) {
                    loose.saved.insert(cluster.clone());
                }
                self.detach_cluster(cluster, loose);
            }
            PlanChange::SetCluster { cluster, plan } => {
                let mut detached = self.detach_cluster(cluster, loose);
                if let Some(moved) = detached.as_mut().filter(|_| plan.home() != cluster) {
                    moved.remember_anew();
                    self.forget_facts(cluster);
                }
                let detached = detached.map(|it| (cluster.clone(), it));
                loose.clusters.extend(detached);
            }
            PlanChange::RemoveCatalog(zone) => self.catalogs.retain(|it| it.plan.zone != *zone),
            PlanChange::AddCluster(_)
            | PlanChange::SetTtl { .. }
            | PlanChange::SetApex { .. }
            | PlanChange::SetGate { .. }
            | PlanChange::SetRetention { .. }
            | PlanChange::SetCatalog(_) => {}
        }
    }

    /// Takes a file out: the guard of its own zone, or the overlay of a cluster's zone.
    fn detach_file(&mut self, zone: &Name, loose: &mut Loose, touched: &mut BTreeSet<Name>) {
        let Some(place) = self.files.iter().position(|(_, it)| it.zone() == zone) else {
            return;
        };
        match self.files.remove(place).1 {
            HeldFile::Zone(own) => {
                loose.zones.insert(zone.clone(), (own.guard, None));
            }
            HeldFile::Etcd(own) => {
                loose.zones.insert(zone.clone(), (own.guard, None));
            }
            HeldFile::Overlay(_) => {
                // The cluster may have been taken out before.
                if let Some((_, overlay)) = loose.zones.get_mut(zone) {
                    *overlay = None;
                }
                if let Some((cluster, place)) = self.cluster_of(zone) {
                    cluster.zones[place].overlay = None;
                    cluster.all_dirty = true;
                    touched.insert(zone.clone());
                }
            }
        }
    }

    /// Takes a cluster out, and the guards of its zones.
    fn detach_cluster(&mut self, home: &Name, loose: &mut Loose) -> Option<Cluster> {
        let mut clusters = self.clusters.iter();
        let place = clusters.position(|cluster| cluster.plan.home() == home)?;
        let mut cluster = self.clusters.remove(place);
        for ClusterZone {
            zone,
            guard,
            overlay,
        } in std::mem::take(&mut cluster.zones)
        {
            let name = zone.apex().clone();
            loose.zones.insert(name, (guard, overlay));
        }
        Some(cluster)
    }

    /// Puts the new state of a change into use.
    fn attach(
        &mut self,
        change: PlanChange,
        configure: &Configure,
        loose: &mut Loose,
        touched: &mut BTreeSet<Name>,
    ) {
        match change {
            PlanChange::AddCluster(plan) | PlanChange::RestartSource { plan, .. } => {
                touched.extend(plan.zones().map(|zone| zone.name.clone()));
                self.start_cluster(plan, configure, loose);
            }
            PlanChange::SetCluster { cluster, plan } => {
                touched.extend(plan.zones().map(|zone| zone.name.clone()));
                let known = loose.clusters.remove(&cluster);
                let known = known.expect("a change is of a cluster that is there");
                self.set_cluster(known, plan, configure, loose);
            }
            PlanChange::SetTtl { .. } | PlanChange::SetApex { .. } => {
                for cluster in &mut self.clusters {
                    touched.extend(cluster.set(&change));
                }
            }
            PlanChange::SetGate { ref zone, gate } => {
                for cluster in &mut self.clusters {
                    cluster.plan.set(&change);
                }
                if let Some((_, guard)) = self.guard_of(zone) {
                    guard.gate = gate;
                    // If it lets a change out now, this is a cause.
                    if guard.base().is_some() {
                        touched.insert(zone.clone());
                    }
                }
            }
            PlanChange::SetRetention {
                ref zone,
                retention,
            } => {
                for cluster in &mut self.clusters {
                    cluster.plan.set(&change);
                }
                self.set_retention(zone, retention);
            }
            PlanChange::SetFile(plan) => {
                touched.insert(plan.zone().clone());
                self.attach_file(plan, configure, loose);
            }
            PlanChange::SetCatalog(plan) => {
                touched.insert(plan.zone.clone());
                let mut catalog = HeldCatalog::new(plan, &self.zones);
                let mut known = self.catalogs.iter_mut();
                match known.find(|it| it.plan.zone == catalog.plan.zone) {
                    Some(known) => {
                        catalog.ahead = std::mem::take(&mut known.ahead);
                        catalog.notes = std::mem::take(&mut known.notes);
                        *known = catalog;
                    }
                    None => self.catalogs.push(catalog),
                }
            }
            PlanChange::RemoveCluster(_)
            | PlanChange::RemoveFile(_)
            | PlanChange::RemoveCatalog(_) => {}
        }
    }

    /// Starts a cluster that was not listed yet.
    fn start_cluster(&mut self, plan: ClusterPlan, configure: &Configure, loose: &mut Loose) {
        let handles = configure.handles_of(&plan);
        let mut cluster = Cluster::new(plan, handles, &self.zones);
        cluster.memory = Memory::restarted(loose.saved.contains(cluster.plan.home()));
        for held in &mut cluster.zones {
            attach_zone(held, loose);
            held.guard.restart(&held.zone);
        }
        self.clusters.push(cluster);
    }

    /// Renders the known objects of a cluster by another plan.
    fn set_cluster(
        &mut self,
        mut cluster: Cluster,
        plan: ClusterPlan,
        configure: &Configure,
        loose: &mut Loose,
    ) {
        let handles = configure.handles_of(&plan);
        let mut zones = Cluster::zones_of(&plan, &self.zones);
        for held in &mut zones {
            attach_zone(held, loose);
            held.guard.await_rendering();
        }
        cluster.zones = zones;
        cluster.plan = plan;
        cluster.handles = handles;
        cluster.all_dirty = true;
        // Problems of objects that are hidden now would stay.
        cluster.problems.clear();
        cluster.foreign.clear();
        cluster.contested = Contested::default();
        if cluster.state.is_synced() {
            // Handlers read new tables as soon as this change is answered.
            cluster.tell_live();
        }
        self.clusters.push(cluster);
    }

    /// Adds a file that was not read yet, with the guard of its zone.
    fn attach_file(&mut self, plan: FilePlan, configure: &Configure, loose: &mut Loose) {
        let source = configure.files.get(plan.zone());
        let source = *source.expect("a plan comes with its sources");
        let zone = plan.zone().clone();
        self.add_file(source, plan);
        match self.files.last_mut() {
            Some((_, HeldFile::Zone(own))) => {
                if let Some((guard, _)) = loose.zones.remove(&zone) {
                    let new = std::mem::replace(&mut own.guard, guard);
                    own.guard.set_as(&new);
                    own.guard.restart(&own.zone);
                }
            }
            Some((_, HeldFile::Etcd(own))) => {
                if let Some((guard, _)) = loose.zones.remove(&zone) {
                    let new = std::mem::replace(&mut own.guard, guard);
                    own.guard.set_as(&new);
                    own.guard.restart(&own.zone);
                }
            }
            Some((_, HeldFile::Overlay(_))) | None => {
                if let Some((_, guard)) = self.guard_of(&zone) {
                    guard.await_rendering();
                }
            }
        }
    }

    /// Sets the retention of a file's zone or a catalog.
    fn set_retention(&mut self, zone: &Name, retention: Retention) {
        for (_, held) in &mut self.files {
            if let HeldFile::Zone(own) = held
                && own.zone.apex() == zone
            {
                own.retention = retention;
            }
            if let HeldFile::Etcd(own) = held
                && own.zone.apex() == zone
            {
                own.plan.zone.retention = retention;
            }
        }
        for catalog in &mut self.catalogs {
            if catalog.plan.zone == *zone {
                catalog.plan.retention = retention;
            }
        }
    }

    /// Names a change of the configuration as a cause of the next versions of some zones.
    fn note_change(&mut self, what: &str, is_touched: impl Fn(&Name) -> bool) {
        let cause = Cause::of(Verb::Configured, what);
        for (zone, guard) in self.guarded() {
            if is_touched(zone.apex()) {
                guard.note(cause.clone());
            }
        }
        for catalog in &mut self.catalogs {
            if is_touched(&catalog.plan.zone) {
                add_note(&mut catalog.notes, cause.clone());
            }
        }
    }
}

impl Configure {
    /// The handles of a cluster.
    fn handles_of(&self, plan: &ClusterPlan) -> ClusterHandles {
        let handles = self.clusters.get(plan.home()).cloned();
        handles.expect("a plan comes with its handles")
    }
}

impl Cluster {
    /// Sets a TTL or an apex, if it is of this cluster. Gives the zones that are rendered again.
    fn set(&mut self, change: &PlanChange) -> Vec<Name> {
        if let PlanChange::SetApex { zone, apex } = change {
            let Some(place) = self.plan.zones().position(|plan| plan.name == *zone) else {
                return Vec::new();
            };
            let before = self.plan.zone(zone).map(|plan| own_names(zone, &plan.apex));
            self.plan.set(change);
            if before == Some(own_names(zone, apex)) {
                self.dirty_tops.insert(place);
            } else {
                // An object may have the name of a new or an old server.
                self.all_dirty = true;
            }
            return vec![zone.clone()];
        }
        if !self.plan.set(change) {
            return Vec::new();
        }
        self.all_dirty = true;
        self.plan.zones().map(|zone| zone.name.clone()).collect()
    }
}

/// The owners of records that need no object.
fn own_names(zone: &Name, apex: &ApexSettings) -> BTreeSet<Name> {
    let records = apex_records(zone, apex).into_iter();
    records.map(|record| record.owner).collect()
}

/// Gives a zone of a cluster the guard and the file that it had.
fn attach_zone(held: &mut ClusterZone, loose: &mut Loose) {
    if let Some((guard, overlay)) = loose.zones.remove(held.zone.apex()) {
        let own = std::mem::replace(&mut held.guard, guard);
        held.guard.set_as(&own);
        held.overlay = overlay;
    }
}

/// How much is kept of the zones of a change.
fn retentions(change: &PlanChange) -> Vec<(&Name, Retention)> {
    match change {
        PlanChange::AddCluster(plan)
        | PlanChange::RestartSource { plan, .. }
        | PlanChange::SetCluster { plan, .. } => {
            let zones = plan.zones();
            zones.map(|zone| (&zone.name, zone.retention)).collect()
        }
        PlanChange::SetFile(FilePlan::Zone { zone, retention })
        | PlanChange::SetRetention { zone, retention } => vec![(zone, *retention)],
        PlanChange::SetFile(FilePlan::Etcd(plan)) => vec![(&plan.zone.name, plan.zone.retention)],
        PlanChange::SetCatalog(catalog) => vec![(&catalog.zone, catalog.retention)],
        PlanChange::SetFile(FilePlan::Overlay { .. })
        | PlanChange::RemoveCluster(_)
        | PlanChange::RemoveFile(_)
        | PlanChange::RemoveCatalog(_)
        | PlanChange::SetTtl { .. }
        | PlanChange::SetApex { .. }
        | PlanChange::SetGate { .. } => Vec::new(),
    }
}
