//! Which clusters tell who their pods are, and where.

use std::collections::BTreeSet;
use std::sync::Arc;

use directives::config::{Config, Kubernetes, Pods, ServerBlock};
use dns::Name;
use kubernetes::facts::ClientPods;

use crate::plan::clusters::{Planned, PlannedCluster};

/// Has the clusters publish their pods by address, those of which someone wants to know them, with the labels
/// that stand in the Corefile.
pub(crate) fn plan_clients(config: &Config, clusters: &mut [PlannedCluster<'_>]) {
    for cluster in clusters {
        let home = cluster.kubernetes.home();
        let blocks = config.servers.iter().filter(|it| home_of(it) == home);
        let wanting = match cluster.kubernetes.options.pods {
            Pods::Verified => blocks.filter(|block| block.wants_clients()).collect(),
            Pods::Disabled | Pods::Insecure => Vec::new(),
        };
        if wanting.is_empty() {
            continue;
        }
        cluster.plan.clients = Some(Arc::default());
        let labels: BTreeSet<String> = wanting.iter().flat_map(|it| it.client_labels()).collect();
        cluster.wanted.keep.pod_labels = (!labels.is_empty()).then(|| labels.into());
    }
}

/// The first zone of a block's cluster.
fn home_of(block: &ServerBlock) -> Option<&Name> {
    block.get::<Kubernetes>().and_then(|own| own.home())
}

/// The pods of a block's cluster by address, where they are published.
pub(crate) fn clients_of(planned: &Planned<'_>, block: &ServerBlock) -> Option<Arc<ClientPods>> {
    let home = home_of(block)?;
    let mut clusters = planned.clusters.iter();
    let cluster = clusters.find(|cluster| cluster.kubernetes.home() == Some(home))?;
    cluster.plan.clients.clone()
}
