//! `startup_timeout`: the first clients need not hear SERVFAIL while a cluster is listed.
//!
//! The sockets are bound before the sources are asked, and queries wait in them until every zone has a
//! version, but no longer than the timeout of its cluster. A server waits for the clusters that it has
//! zones of. Zones of ServiceImports, which a cluster may not have, are not waited for. Versions from the
//! store are served at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};
use writer::ZonePlan;
use zone::{Zone, ZoneSet};

use crate::plan::clusters::PlannedCluster;
use crate::runtime::deployment::Deployment;

/// Opens when servers may begin to answer.
pub(crate) type Gate = Shared<BoxFuture<'static, ()>>;

/// The clusters that are awaited.
pub(crate) struct Gates {
    /// The zones of a cluster that are waited for, and what opens when each has its first version or the time
    /// for it is over.
    clusters: Vec<(Vec<Arc<Zone>>, Gate)>,
}

impl Gates {
    /// The gates of all clusters.
    pub(crate) fn of(deployment: &Deployment) -> Self {
        let gate_of = |cluster: &PlannedCluster| {
            let is_awaited = |zone: &&ZonePlan| {
                let mut without = cluster.plan.dispensable_zones();
                without.all(|it| it.name != zone.name)
            };
            let names = cluster.plan.zones().filter(is_awaited);
            let zones = names.filter_map(|zone| deployment.zones.get(&zone.name));
            let zones: Vec<_> = zones.map(Arc::clone).collect();
            let limit = cluster.startup_timeout;
            let gate = wait(cluster.plan.source.clone(), zones.clone(), limit);
            (zones, gate.boxed().shared())
        };
        Self {
            clusters: deployment.plan.clusters.iter().map(gate_of).collect(),
        }
    }

    /// Opens when a server with these zones may begin to answer.
    pub(crate) fn for_zones(&self, served: &ZoneSet) -> Gate {
        let is_served = |zone: &Arc<Zone>| served.get(zone.apex()).is_some();
        let clusters = self.clusters.iter();
        let gates = clusters.filter(|(zones, _)| zones.iter().any(is_served));
        let gates = gates.map(|(_, gate)| gate.clone());
        join_all(gates).map(|_| ()).boxed().shared()
    }
}

/// Waits for the first versions of one cluster.
async fn wait(source: String, zones: Vec<Arc<Zone>>, limit: Duration) {
    let all = async {
        for zone in zones {
            let mut news = zone.subscribe();
            while zone.current().is_none() && news.changed().await.is_ok() {}
        }
    };
    if tokio::time::timeout(limit, all).await.is_err() {
        tracing::warn!(
            source,
            "serving before the cluster is listed: its zones answer SERVFAIL until then"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dns::Name;
    use zone::Version;

    #[tokio::test]
    async fn zones_without_a_version_are_waited_for_until_the_time_is_over() {
        let zone = Arc::new(Zone::new(&Name::parse("z").unwrap()));
        let wait_for = |limit| wait("test".into(), vec![Arc::clone(&zone)], limit);
        wait_for(Duration::ZERO).await;
        let mut waiting = Box::pin(wait_for(Duration::from_secs(3600)));
        assert!((&mut waiting).now_or_never().is_none());
        let version = zone::testing::zone("z.", 1, &[]).current().unwrap();
        zone.restore(Version::clone(&version));
        assert!(waiting.now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_server_waits_for_the_clusters_of_its_own_zones_alone() {
        let zone = |apex: &str| Arc::new(Zone::new(&Name::parse(apex).unwrap()));
        let (listed, unlisted, file) = (zone("a"), zone("b"), zone("c"));
        let gate = |is_open: bool| -> Gate {
            let ended = async move {
                if !is_open {
                    std::future::pending::<()>().await;
                }
            };
            ended.boxed().shared()
        };
        let gates = Gates {
            clusters: vec![
                (vec![Arc::clone(&listed)], gate(true)),
                (vec![Arc::clone(&unlisted)], gate(false)),
            ],
        };
        let opens = |zones: &[&Arc<Zone>]| {
            let zones = ZoneSet::new(zones.iter().copied().cloned().collect());
            gates.for_zones(&zones).now_or_never().is_some()
        };
        assert!(opens(&[&listed]) && opens(&[&file]) && opens(&[]));
        assert!(!opens(&[&unlisted]) && !opens(&[&listed, &unlisted]));
    }
}
