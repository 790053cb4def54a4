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

/// The most changes whose latency is counted. More may come while the store fails.
pub(super) const SEEN_MOST: usize = 16 * BATCH_CHANGES;

impl<S: Store> Pipeline<S> {
    /// Takes an event of a cluster's source.
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
                if matches!(change, Change::Listed(..)) {
                    cluster.recall(&mut self.store, &self.in_use);
                }
                // A change without effect has no latency.
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
                    Part::Cluster => tracing::info!(source, "the source is reachable"),
                    Part::Imports => tracing::info!(source, "ServiceImports are reachable"),
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
    /// Applies a change to the facts. False if it has no effect.
    fn apply(&mut self, change: Change, now_ms: u64) -> bool {
        let changes = self.dirty.changes;
        self.state.apply(change, &mut self.dirty);
        self.note_changed();
        let gauges = &self.handles.gauges;
        gauges.last_change_ms.store(now_ms, Ordering::Relaxed);
        for (gauge, kind) in gauges.objects.iter().zip(Kind::ALL) {
            // What an earlier run knew does not count.
            let count = if self.state.is_listed(kind) {
                self.state.count(kind)
            } else {
                0
            };
            gauge.store(count as u64, Ordering::Relaxed);
        }
        self.dirty.changes > changes
    }

    /// Sets since when a part of the source is away; 0 if it is there.
    fn mark_stale(&self, part: Part, since_ms: u64) {
        let gauges = &self.handles.gauges;
        let gauge = match part {
            Part::Cluster => &gauges.stale_since_ms,
            Part::Imports => &gauges.imports_stale_since_ms,
        };
        gauge.store(since_ms, Ordering::Relaxed);
        self.tell_stale();
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
            "the source is unreachable; the last version is served as stale"
        }
        Part::Cluster => {
            "the source is unreachable; its zones answer SERVFAIL until it is reachable, because they have no version yet"
        }
        Part::Imports if plan.clusterset.iter().any(|zone| has_version(&zone.name)) => {
            "ServiceImports are unreachable; the last version of their zones is served as stale"
        }
        Part::Imports => {
            "ServiceImports are unreachable; their zones answer SERVFAIL until they are reachable"
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
        let handles = ClusterHandles::new(SourceId(0), &plan);
        let cluster = Cluster::new(plan, handles, &zones);
        let text = text_of_loss(Part::Cluster, &cluster);
        assert!(text.contains("its zones answer SERVFAIL"), "{text}");
        let version = zone::testing::zone("cluster.local.", 1, &[])
            .current()
            .unwrap();
        zones.all()[0].restore(Version::clone(&version));
        let text = text_of_loss(Part::Cluster, &cluster);
        assert!(text.contains("served as stale"), "{text}");
        let text = text_of_loss(Part::Imports, &cluster);
        assert!(text.contains("their zones answer SERVFAIL"), "{text}");
    }
}
