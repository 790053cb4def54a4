//! The commit of one batch: render, check, gate, store, swap.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use dns::Serial;
use kubernetes::facts::Dirty;
use provenance::FactKey;
use zone::journal::Lost;
use zone::{Candidate, Version, Zone, next_serial};

use crate::attribute::{Budget, name_vanished};
use crate::cluster::Cluster;
use crate::guard::{Now, Ready};
use crate::memory::Portion;
use crate::render::Rendering;
use crate::zone_edit::ZoneDraft;
use crate::{Pipeline, Store};

impl<S: Store> Pipeline<S> {
    /// Renders and commits dirty keys. False if the store failed and the commit has to be tried again.
    pub fn commit(&mut self) -> bool {
        if !self.awaited.is_empty() {
            return true;
        }
        if self.store.follows() {
            self.follow();
            return true;
        }
        // A version is not before the Corefile that brought it, but does not wait for it.
        self.note();
        let now = self.now();
        let mut ready = Vec::new();
        let mut rendered = Vec::new();
        for (place, cluster) in self.clusters.iter_mut().enumerate() {
            let Some(rendering) = cluster.render(now, &mut ready) else {
                continue;
            };
            if cluster.all_dirty {
                // Before the first version is served: synthesized names would be SERVFAIL until then.
                cluster.tell_live();
            }
            rendered.push((place, rendering));
        }
        self.file_drafts(now, &mut ready);
        if !ready.is_empty() {
            self.store.prepare();
        }
        let clock = Arc::clone(&self.clock);
        let mut budget = Budget::new(&*clock);
        let candidates: Vec<_> = ready
            .into_iter()
            .map(|mut ready| {
                let (apex, draft) = (ready.zone.apex(), &mut ready.draft);
                let clusters = &self.clusters;
                let is_there =
                    |key: &FactKey| clusters.iter().any(|it| it.state.fact(key).is_some());
                name_vanished(&mut self.store, &mut budget, apex, draft, &is_there);
                self.next_version(ready, now.ms)
            })
            .collect();
        if !candidates.is_empty() {
            let facts = self.facts_of_commit();
            if !self.write(candidates) {
                return false;
            }
            for (place, portion) in facts {
                self.clusters[place].saved(&portion, now.at);
            }
        }
        self.seen.clear();
        let forgotten = self.forget_holds();
        self.settle_guards(now.ms);
        let noted = self.note();
        for (place, rendering) in rendered {
            self.settle(place, rendering);
        }
        self.settle_files();
        let wall = self.clock.wall();
        for cluster in &mut self.clusters {
            cluster.catch_up_live();
            for (service, latency) in cluster.programmed(wall) {
                self.observer.programmed(service, latency);
            }
        }
        self.commit_catalogs() && forgotten && noted
    }

    /// Has the next commit write the facts that it publishes. Gives them with the places of their clusters.
    fn facts_of_commit(&mut self) -> Vec<(usize, Portion)> {
        let mut all = Vec::new();
        for (place, cluster) in self.clusters.iter_mut().enumerate() {
            if let Some(mut portion) = cluster.portion_of_commit(&self.in_use) {
                let entries = std::mem::take(&mut portion.entries);
                self.store.put_beside_next(cluster.plan.home(), entries);
                all.push((place, portion));
            }
        }
        all
    }

    /// When the first held change is published by itself.
    pub(super) fn deadline(&self, now: Now) -> Option<Instant> {
        // Nothing is published while secondaries are asked, or while another replica leads.
        if !self.awaited.is_empty() || self.store.follows() {
            return None;
        }
        let of_clusters = self.clusters.iter().flat_map(|cluster| &cluster.zones);
        let of_files = self.files.iter().filter_map(|(_, held)| held.guard());
        let guards = of_clusters.map(|zone| &zone.guard).chain(of_files);
        guards.filter_map(|guard| guard.deadline(now)).min()
    }

    /// The next version of a zone, with the zone.
    pub(super) fn next_version(&mut self, ready: Ready, now_ms: u64) -> (Arc<Zone>, Candidate) {
        let Ready {
            zone,
            limits,
            draft,
            wanted,
            ahead,
            is_signed,
        } = ready;
        let previous = zone.current();
        let floor = self.store.floor(zone.apex());
        let last = previous.as_ref().map(|version| version.serial);
        let left_behind = previous
            .as_deref()
            .and_then(|it| self.left_behind(it, now_ms));
        let floors = floor.into_iter().chain(ahead);
        let serial = next_serial(last, floors, left_behind, now_ms / 1000);
        let follows = |wanted: &Serial| last.or(floor).is_none_or(|last| wanted.is_after(last));
        let serial = match wanted {
            // The guard keeps what cannot have its serial.
            Some(wanted) if is_signed => wanted,
            Some(wanted) if follows(&wanted) => serial.later(wanted),
            Some(_) | None => serial,
        };
        let serial = self.store.serial(zone.apex(), serial);
        let ZoneDraft { draft, mut causes } = draft;
        // A group without a record belongs to the version.
        causes.extend(self.store.lost(zone.apex()).map(|lost| vec![lost]));
        let previous = previous.as_deref();
        let candidate = Candidate::new(previous, draft, serial, now_ms, causes, limits);
        let candidate = match left_behind {
            Some(_) => candidate,
            None => candidate.after_all_followed(),
        };
        (zone, candidate)
    }

    /// The serial that secondaries may still have from before a reset, unless all have followed.
    fn left_behind(&self, version: &Version, now_ms: u64) -> Option<Serial> {
        let left = version.left_behind.filter(|left| !left.is_over(now_ms))?;
        (!(self.have_followed)(version)).then_some(left.serial)
    }

    /// Settles the guards after a commit, and reports their events.
    fn settle_guards(&mut self, now_ms: u64) {
        let of_clusters = self.clusters.iter_mut().flat_map(Cluster::guarded);
        let of_files = self.files.iter_mut().filter_map(|(_, held)| held.guarded());
        for (zone, guard) in of_clusters.chain(of_files) {
            for event in guard.settle(zone) {
                self.unnoted.add(zone, &event, now_ms);
                self.observer.gate(zone.apex(), &event);
            }
            if let Some((all, new)) = guard.warnings() {
                self.observer.warnings(zone.apex(), &all, &new);
            }
        }
    }

    /// Store, then swap, then count. False if the store failed.
    pub(super) fn write(&mut self, next: Vec<(Arc<Zone>, Candidate)>) -> bool {
        let start = self.clock.now();
        let size_of = |candidate: &Candidate| {
            let step = candidate.step();
            (step.added.len(), step.removed.len())
        };
        let lost = |(_, candidate): &(Arc<Zone>, Candidate)| Lost::before(candidate.step());
        let lost: Vec<Option<String>> = next.iter().map(lost).collect();
        let (zones, candidates): (Vec<_>, Vec<_>) = next
            .into_iter()
            .map(|(zone, candidate)| ((zone, size_of(&candidate)), candidate))
            .unzip();
        let journaled = match self.store.commit(candidates) {
            Ok(journaled) => journaled,
            Err(error) => {
                // Whoever leads now makes the version.
                if !self.store.follows() {
                    self.observer.failed(&error.to_string());
                }
                return false;
            }
        };
        let now_ms = self.now().ms;
        let published = journaled.into_iter().zip(zones).zip(lost);
        for ((version, (zone, (added, removed))), lost) in published {
            debug_assert_eq!(zone.apex(), version.apex(), "stores keep the order");
            let version = zone.publish(version);
            if let Some(what) = lost {
                self.unnoted.add_loss(&zone, &what, now_ms);
            }
            self.observer.published(&version, added, removed);
        }
        for (zone, versions) in self.store.take_early() {
            self.observer.dropped_early(&zone, versions);
        }
        let end = self.clock.now();
        self.last_commit = Some(end);
        let latencies: Vec<Duration> = self
            .seen
            .iter()
            .map(|seen| end.saturating_duration_since(*seen))
            .collect();
        self.observer
            .committed(end.saturating_duration_since(start), &latencies);
        true
    }

    /// Clears a cluster's dirty keys, which are rendered and durable.
    fn settle(&mut self, place: usize, rendering: Rendering) {
        let Some(cluster) = self.clusters.get_mut(place) else {
            return;
        };
        if !cluster.all_dirty {
            cluster.tell_live();
        }
        cluster.dirty = Dirty::default();
        let mut is_fresh = cluster.all_dirty;
        for layer in rendering.layers {
            if let Some(overlay) = &mut cluster.zones[layer.zone].overlay {
                is_fresh |= overlay.is_due();
                overlay.layer = Some(layer.layer);
                overlay.shown = layer.shown;
            }
        }
        is_fresh |= cluster.imports_dirty && cluster.state.has_imports();
        cluster.imports_dirty = !cluster.state.has_imports();
        let foreign = cluster
            .contested
            .take_in(rendering.contested, cluster.all_dirty);
        cluster.all_dirty = false;
        cluster.is_exact = true;
        cluster.dirty_tops.clear();
        if is_fresh {
            cluster.tell_stale();
        }
        if cluster.handles.gauges.synced.swap(1, Ordering::Relaxed) == 0 {
            self.observer.synced(&cluster.plan.source);
        }
        let mut new = Vec::new();
        let mut differ = false;
        for (key, problems) in rendering.problems {
            let known = cluster.problems.remove(&key).unwrap_or_default();
            differ |= known != problems;
            new.extend(
                problems
                    .iter()
                    .filter(|problem| !known.contains(problem))
                    .cloned(),
            );
            if !problems.is_empty() {
                cluster.problems.insert(key, problems);
            }
        }
        for (key, problem) in foreign {
            let known = match &problem {
                Some(problem) => cluster.foreign.insert(key, problem.clone()),
                None => cluster.foreign.remove(&key),
            };
            differ |= known != problem;
            new.extend(problem.filter(|problem| known.as_ref() != Some(problem)));
        }
        if differ {
            let mut all = self.clusters.iter().flat_map(Cluster::all_problems);
            self.observer.problems(&mut all, &new);
        }
    }
}
