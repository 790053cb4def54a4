//! A change of the configuration, applied to the running writer: each part of it costs what it changes.
//!
//! Retention and gate render nothing, an apex renders the top of its zone, a TTL or another view of the same objects
//! renders a cluster's zones from the facts that are there. Only another source, or other objects asked of it, are listed again.
//! A zone that moves from one cluster or file to another keeps its guard: an operator's hold stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dns::Name;
use kubernetes::schema::{ApexSettings, apex_records};
use provenance::{Cause, ObjectKey, Origin, Verb};
use tokio::sync::oneshot;
use zone::ZoneSet;
use zone::journal::Retention;

use crate::catalog::HeldCatalog;
use crate::cluster::zone::ClusterZone;
use crate::cluster::{Cluster, ClusterHandles};
use crate::files::HeldFile;
use crate::guard::Guard;
use crate::notes::add_note;
use crate::overlay::Overlay;
use crate::plan::{ClusterPlan, FilePlan, PlanChange};
use crate::sender::SourceId;
use crate::{Pipeline, Store};

/// A change of the configuration.
#[derive(Debug)]
pub struct Configure {
    /// The changes, in the order in which they are applied.
    pub changes: Vec<PlanChange>,
    /// All zones of the new configuration.
    pub zones: Arc<ZoneSet>,
    /// The zones whose content comes from where it came from before. Others are stale until their source was seen.
    pub unmoved: Vec<Name>,
    /// The handles of the clusters, by home.
    pub clusters: BTreeMap<Name, ClusterHandles>,
    /// The followers of the files, by zone.
    pub files: BTreeMap<Name, SourceId>,
    /// The change of the Corefile, as a cause of the next versions of the zones that it touches.
    pub cause: Option<String>,
    /// Whether nothing is published before [`crate::Input::Secondaries`].
    pub awaits_secondaries: bool,
    /// Receives the result.
    pub done: oneshot::Sender<Result<(), String>>,
}

/// What a zone keeps when it moves from one cluster or file to another.
type Loose = BTreeMap<Name, (Guard, Option<Overlay>)>;

impl<S: Store> Pipeline<S> {
    /// The plans come with a change of the configuration: a cause of what the first rendering of each zone changes,
    /// whenever that leaves. After the files and the catalogs were given.
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
        // The process may have ended.
        let _gone = configure.done.send(done);
    }

    /// Sets how much is kept of each zone, restores new zones from the store, and marks those stale that have another source.
    fn prepare_zones(&mut self, configure: &Configure) -> Result<(), String> {
        let now_ms = self.now().ms;
        for (name, retention) in configure.changes.iter().flat_map(retentions) {
            let zone = configure
                .zones
                .get(name)
                .expect("a plan comes with its zones");
            self.store.set_retention(name, retention);
            if self.zones.get(name).is_none() {
                let restored = self.store.restore(zone, retention, now_ms);
                restored.map_err(|error| error.to_string())?;
            } else if !configure.unmoved.contains(name) && zone.current().is_some() {
                zone.set_stale_since_ms(Some(now_ms));
            }
        }
        Ok(())
    }

    fn apply_changes(&mut self, configure: &mut Configure) {
        let old = std::mem::replace(&mut self.zones, Arc::clone(&configure.zones));
        self.awaits_secondaries |= configure.awaits_secondaries;
        let mut loose = Loose::new();
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
        for (name, (mut guard, _)) in loose {
            let Some(zone) = old.get(&name) else { continue };
            if guard.dismiss(zone) {
                self.over.entry(name.clone()).or_default();
            }
            self.observer.warnings(&name, &[], &[]);
        }
        let clusters = self.clusters.iter();
        let mut problems = clusters.flat_map(|cluster| cluster.problems.values().flatten());
        self.observer.problems(&mut problems, &[]);
    }

    /// Takes out what a change removes or replaces.
    fn detach(&mut self, change: &PlanChange, loose: &mut Loose, touched: &mut BTreeSet<Name>) {
        match change {
            PlanChange::RemoveFile(zone) => self.detach_file(zone, loose, touched),
            PlanChange::SetFile(file) => self.detach_file(file.zone(), loose, touched),
            PlanChange::RemoveCluster(home) => {
                if let Some(place) = self.place_of(home) {
                    let mut cluster = self.clusters.remove(place);
                    detach_zones(&mut cluster, loose);
                }
            }
            PlanChange::RestartSource(plan) | PlanChange::SetCluster(plan) => {
                if let Some(place) = self.place_of(plan.home()) {
                    detach_zones(&mut self.clusters[place], loose);
                }
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

    /// Takes a file out: the guard of its own zone, or the layer under a cluster's.
    fn detach_file(&mut self, zone: &Name, loose: &mut Loose, touched: &mut BTreeSet<Name>) {
        let Some(place) = self.files.iter().position(|(_, it)| it.zone() == zone) else {
            return;
        };
        match self.files.remove(place).1 {
            HeldFile::Zone(own) => {
                loose.insert(zone.clone(), (own.guard, None));
            }
            HeldFile::Overlay(_) => {
                // The cluster may have been taken out before.
                if let Some((_, overlay)) = loose.get_mut(zone) {
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

    /// The place of a cluster.
    fn place_of(&self, home: &Name) -> Option<usize> {
        self.clusters
            .iter()
            .position(|cluster| cluster.plan.home() == home)
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
            PlanChange::AddCluster(plan) | PlanChange::RestartSource(plan) => {
                touched.extend(plan.zones().map(|zone| zone.name.clone()));
                self.start_cluster(plan, configure, loose);
            }
            PlanChange::SetCluster(plan) => {
                touched.extend(plan.zones().map(|zone| zone.name.clone()));
                self.set_cluster(plan, configure, loose);
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
                    // What it lets out now has this cause.
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
                        catalog.ahead = known.ahead;
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

    /// Puts a cluster into use of which no object is known yet.
    fn start_cluster(&mut self, plan: ClusterPlan, configure: &Configure, loose: &mut Loose) {
        let handles = configure.handles_of(&plan);
        let place = self.place_of(plan.home());
        let mut cluster = Cluster::new(plan, handles, &self.zones);
        for held in &mut cluster.zones {
            attach_zone(held, loose);
            held.guard.restart(&held.zone);
        }
        match place {
            Some(place) => self.clusters[place] = cluster,
            None => self.clusters.push(cluster),
        }
    }

    /// Renders the known objects of a cluster by another plan.
    fn set_cluster(&mut self, plan: ClusterPlan, configure: &Configure, loose: &mut Loose) {
        let handles = configure.handles_of(&plan);
        let Some(place) = self.place_of(plan.home()) else {
            return;
        };
        let mut zones = Cluster::zones_of(&plan, &self.zones);
        zones.iter_mut().for_each(|held| attach_zone(held, loose));
        let cluster = &mut self.clusters[place];
        cluster.zones = zones;
        cluster.plan = plan;
        cluster.handles = handles;
        cluster.all_dirty = true;
        // Those of objects that are hidden now would stay.
        cluster.problems.clear();
    }

    /// Puts a file into use that was not read yet.
    fn attach_file(&mut self, plan: FilePlan, configure: &Configure, loose: &mut Loose) {
        let source = configure.files.get(plan.zone()).copied();
        let known = loose.remove(plan.zone());
        self.add_file(source.unwrap_or_default(), plan);
        let added = self.files.last_mut().map(|(_, held)| held);
        if let (Some(HeldFile::Zone(own)), Some((guard, _))) = (added, known) {
            own.guard = guard;
            own.guard.gate = None;
            own.guard.restart(&own.zone);
        }
    }

    /// How much of the past of a file's zone or a catalog is kept.
    fn set_retention(&mut self, zone: &Name, retention: Retention) {
        for (_, held) in &mut self.files {
            if let HeldFile::Zone(own) = held
                && own.zone.apex() == zone
            {
                own.retention = retention;
            }
        }
        for catalog in &mut self.catalogs {
            if catalog.plan.zone == *zone {
                catalog.plan.retention = retention;
            }
        }
    }

    /// Names a change of the configuration as a cause of the next versions of some zones that differ.
    fn note_change(&mut self, what: &str, is_touched: impl Fn(&Name) -> bool) {
        let cause = Cause {
            verb: Verb::Configured,
            kind: None,
            key: ObjectKey::new("", what),
            origin: Origin::default(),
        };
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
        let known = self.clusters.get(plan.home()).cloned();
        known.unwrap_or_else(|| ClusterHandles::new(plan))
    }
}

impl Cluster {
    /// Sets a TTL or an apex, if it is of this cluster; gives the zones that are rendered again.
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
                // Objects may have the names that servers come to have, or leave.
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

/// The owners of the records that a zone has without objects.
fn own_names(zone: &Name, apex: &ApexSettings) -> BTreeSet<Name> {
    let records = apex_records(zone, apex).into_iter();
    records.map(|record| record.owner).collect()
}

/// Takes the zones of a cluster out.
fn detach_zones(cluster: &mut Cluster, loose: &mut Loose) {
    for ClusterZone {
        zone,
        guard,
        overlay,
    } in std::mem::take(&mut cluster.zones)
    {
        loose.insert(zone.apex().clone(), (guard, overlay));
    }
}

/// Gives a zone of a cluster the guard and the file that it had.
fn attach_zone(held: &mut ClusterZone, loose: &mut Loose) {
    if let Some((guard, overlay)) = loose.remove(held.zone.apex()) {
        let gate = held.guard.gate;
        held.guard = guard;
        held.guard.gate = gate;
        held.overlay = overlay;
    }
}

/// How much is kept of the zones of a change.
fn retentions(change: &PlanChange) -> Vec<(&Name, Retention)> {
    match change {
        PlanChange::AddCluster(plan)
        | PlanChange::RestartSource(plan)
        | PlanChange::SetCluster(plan) => {
            let zones = plan.zones();
            zones.map(|zone| (&zone.name, zone.retention)).collect()
        }
        PlanChange::SetFile(FilePlan::Zone { zone, retention })
        | PlanChange::SetRetention { zone, retention } => vec![(zone, *retention)],
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
