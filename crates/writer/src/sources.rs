//! The events of the clusters' sources.

use std::sync::atomic::Ordering;
use std::time::Instant;

use kubernetes::facts::{Change, Part};
use kubernetes::source::SourceEvent;
use ops::millis;
use provenance::Kind;

use crate::cluster::Cluster;
use crate::sender::SourceId;
use crate::triggered::Triggered;
use crate::{BATCH_CHANGES, Pipeline, Store};

/// The most changes of which it is counted how long they took: while the store refuses nothing more is kept, as of
/// their causes.
pub(super) const SEEN_MOST: usize = 16 * BATCH_CHANGES;

impl<S: Store> Pipeline<S> {
    /// Takes in an event of a cluster's source.
    pub(super) fn take_event(&mut self, source: SourceId, event: SourceEvent) {
        let now_ms = millis(self.clock.wall());
        let mut clusters = self.clusters.iter_mut();
        let Some(cluster) = clusters.find(|cluster| cluster.handles.source == source) else {
            return;
        };
        match event {
            SourceEvent::Changed {
                change,
                seen,
                triggered,
            } => {
                let triggered = Triggered::of(&change, triggered);
                // Nobody waits for a change without effect.
                if cluster.apply(change, now_ms) {
                    note_seen(&mut self.seen, seen);
                    cluster.await_version(triggered);
                }
            }
            SourceEvent::Stale {
                part,
                since,
                reason,
            } => {
                tracing::error!(reason, "{}", text_of_loss(part, cluster));
                cluster.mark_stale(part, millis(since));
            }
            SourceEvent::Fresh(part) => {
                let source = &*cluster.plan.source;
                match part {
                    Part::Cluster => tracing::info!(source, "the source is there"),
                    Part::Imports => tracing::info!(source, "ServiceImports are there"),
                }
                cluster.mark_stale(part, 0);
            }
            SourceEvent::Problem(problem) => tracing::warn!("{problem}"),
        }
    }
}

/// Notes when a change was seen.
pub(super) fn note_seen(all: &mut Vec<Instant>, seen: Instant) {
    if all.len() < SEEN_MOST {
        all.push(seen);
    }
}

impl Cluster {
    /// Applies a change to the facts. False when it has no effect.
    fn apply(&mut self, change: Change, now_ms: u64) -> bool {
        let changes = self.dirty.changes;
        self.state.apply(change, &mut self.dirty);
        let gauges = &self.handles.gauges;
        gauges.last_change_ms.store(now_ms, Ordering::Relaxed);
        for (gauge, kind) in gauges.objects.iter().zip(Kind::ALL) {
            gauge.store(self.state.count(kind) as u64, Ordering::Relaxed);
        }
        self.dirty.changes > changes
    }

    /// Notes on every zone whether its source is there; `since_ms` is 0 when it is. Zones that need ServiceImports need
    /// all else too.
    fn mark_stale(&self, part: Part, since_ms: u64) {
        let gauges = &self.handles.gauges;
        let gauge = match part {
            Part::Cluster => &gauges.stale_since_ms,
            Part::Imports => &gauges.imports_stale_since_ms,
        };
        gauge.store(since_ms, Ordering::Relaxed);
        // An earlier run's version stays stale until this run has rendered the cluster.
        if since_ms > 0 || !self.all_dirty {
            self.tell_stale();
        }
    }
}

/// The log line for the loss of a part.
fn text_of_loss(part: Part, cluster: &Cluster) -> &'static str {
    let has_version = |name| {
        let mut zones = cluster.zones.iter();
        zones.any(|it| it.zone.apex() == name && it.zone.current().is_some())
    };
    let plan = &cluster.plan;
    match part {
        Part::Cluster if plan.zones().any(|zone| has_version(&zone.name)) => {
            "the source is away; the last version is served as stale"
        }
        Part::Cluster => {
            "the source is away; nothing can be answered until it is there: there is no version yet"
        }
        Part::Imports if plan.clusterset.iter().any(|zone| has_version(&zone.name)) => {
            "ServiceImports are away; the last version of their zones is served as stale"
        }
        Part::Imports => {
            "ServiceImports are away; their zones cannot be answered until they are there"
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use zone::{Version, Zone, ZoneSet};

    use super::*;
    use crate::{ClusterHandles, ClusterPlan};

    #[test]
    fn a_source_that_was_never_there_leaves_nothing_to_answer() {
        let plan: ClusterPlan = crate::tests::plan().plan;
        let zones = plan.zones().map(|plan| Arc::new(Zone::new(&plan.name)));
        let zones = ZoneSet::new(zones.collect());
        let handles = ClusterHandles::new(&plan);
        let cluster = Cluster::new(plan, handles, &zones);
        let text = text_of_loss(Part::Cluster, &cluster);
        assert!(text.contains("nothing can be answered"), "{text}");
        let version = zone::testing::zone("cluster.local.", 1, &[])
            .current()
            .unwrap();
        zones.all()[0].restore(Version::clone(&version));
        let text = text_of_loss(Part::Cluster, &cluster);
        assert!(text.contains("served as stale"), "{text}");
        let text = text_of_loss(Part::Imports, &cluster);
        assert!(text.contains("cannot be answered"), "{text}");
    }
}
