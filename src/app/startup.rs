//! `startup_timeout`: the first clients need not hear SERVFAIL while a cluster is listed.
//!
//! The sockets are bound before the sources are asked, and queries wait in them until every zone has a
//! version, but no longer than the timeout of its cluster. Zones of ServiceImports, which a cluster may
//! not have, are not waited for. Versions from the store are served at once.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, join_all};

use crate::app::plan::Planned;
use crate::zone::Zone;

/// Opens when servers may begin to answer.
pub(super) type Gate = Shared<BoxFuture<'static, ()>>;

/// Opens when every zone has its first version, or the time for it is over.
pub(super) fn first_versions(planned: &Planned<'_>) -> Gate {
    let waits: Vec<_> = planned
        .clusters
        .iter()
        .map(|cluster| {
            let without: Vec<_> = cluster
                .plan
                .dispensable_zones()
                .map(|it| &it.zone)
                .collect();
            let zones = cluster.plan.zones().map(|plan| &plan.zone);
            let zones = zones.filter(|zone| !without.iter().any(|it| Arc::ptr_eq(it, zone)));
            let zones = zones.map(Arc::clone);
            let limit = cluster.kubernetes.options.startup_timeout;
            wait(cluster.plan.source.clone(), zones.collect(), limit)
        })
        .collect();
    join_all(waits).map(|_| ()).boxed().shared()
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
            "serving before the cluster was listed: SERVFAIL until it is"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dns::Name;
    use crate::serve::testing;
    use crate::zone::Version;

    #[tokio::test]
    async fn zones_without_a_version_are_waited_for_until_the_time_is_over() {
        let zone = Arc::new(Zone::new(&Name::parse("z").unwrap()));
        let wait_for = |limit| wait("test".into(), vec![Arc::clone(&zone)], limit);
        wait_for(Duration::ZERO).await;
        let mut waiting = Box::pin(wait_for(Duration::from_secs(3600)));
        assert!((&mut waiting).now_or_never().is_none());
        let version = testing::zone("z.", 1, &[]).current().unwrap();
        zone.restore(Version::clone(&version));
        assert!(waiting.now_or_never().is_some());
    }
}
