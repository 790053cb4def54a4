//! Which clusters tell who their pods are, and where.

use std::sync::Arc;

use crate::app::plan::{Planned, PlannedCluster};
use crate::cluster::ClientNamespaces;
use crate::corefile::{Config, Pods, ServerBlock};
use crate::dns::Name;

/// Has the clusters publish the namespaces of their pods, those of which someone wants to know them.
pub(super) fn plan_clients(config: &Config, clusters: &mut [PlannedCluster<'_>]) {
    for cluster in clusters {
        let home = cluster.kubernetes.home();
        let mut blocks = config.servers.iter().filter(|it| home_of(it) == home);
        let is_wanted = match cluster.kubernetes.options.pods {
            Pods::Verified => blocks.any(|block| block.handlers.wants_clients()),
            Pods::Disabled | Pods::Insecure => false,
        };
        if is_wanted {
            cluster.plan.clients = Some(Arc::default());
        }
    }
}

/// The first zone of a block's cluster.
fn home_of(block: &ServerBlock) -> Option<&Name> {
    block.kubernetes.as_ref().and_then(|own| own.home())
}

/// The namespaces of the pods of a block's cluster, where they are published.
pub(super) fn clients_of(
    planned: &Planned<'_>,
    block: &ServerBlock,
) -> Option<Arc<ClientNamespaces>> {
    let home = home_of(block)?;
    let mut clusters = planned.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.kubernetes.home() == Some(home))?;
    cluster.plan.clients.clone()
}
