//! Which clusters publish their pods by address.

use std::collections::BTreeSet;

use directives::config::{Config, Kubernetes, ServerBlock};
use dns::Name;
use provenance::Kind;

use crate::plan::clusters::PlannedCluster;

/// Has the clusters publish their pods by address, those of which someone wants to know them, with the labels
/// that stand in the Corefile.
pub(crate) fn plan_clients(config: &Config, clusters: &mut [PlannedCluster]) {
    for cluster in clusters {
        if !cluster.wanted.kinds.contains(Kind::Pod) {
            continue;
        }
        let home = Some(cluster.plan.home());
        let blocks = config.servers.iter().filter(|it| home_of(it) == home);
        let wanting: Vec<&ServerBlock> = blocks.filter(|block| block.wants_clients()).collect();
        if wanting.is_empty() {
            continue;
        }
        cluster.plan.publishes_clients = true;
        let labels: BTreeSet<String> = wanting.iter().flat_map(|it| it.client_labels()).collect();
        cluster.wanted.keep.pod_labels = (!labels.is_empty()).then(|| labels.into());
        cluster.note_selection();
    }
}

/// The first zone of a block's cluster.
pub(crate) fn home_of(block: &ServerBlock) -> Option<&Name> {
    block.get::<Kubernetes>().and_then(|own| own.home())
}
