//! What is known at a reload goes on where it comes from the same source.
//!
//! A new data side lists everything anew, and its source may be away for long. Until then what the one before
//! knew still holds: zones are as good as they were, and the live layer answers as before.

use std::sync::Arc;

use dns::Name;
use writer::FilePlan;

use crate::plan::clusters::{Planned, PlannedCluster};
use crate::plan::compare::same_file;

impl Planned<'_> {
    /// Takes over from the plan of before what stays true.
    pub(crate) fn take_over(&mut self, before: &Planned<'_>) {
        for cluster in &mut self.clusters {
            let mut old = before.clusters.iter();
            if let Some(old) = old.find(|old| has_same_source(old, cluster)) {
                take_knowledge(cluster, old);
                let had = |apex: &Name| old.plan.zones().any(|zone| zone.zone.apex() == apex);
                let zones = cluster.plan.zones().map(|zone| zone.zone.apex());
                self.unmoved.extend(zones.filter(|apex| had(apex)).cloned());
            }
        }
        for file in &self.files {
            if let FilePlan::Zone { zone, limits: _ } = &file.plan
                && before.files.iter().any(|old| same_file(old, file))
            {
                self.unmoved.push(zone.apex().clone());
            }
        }
        for (catalog, _) in &self.catalogs {
            let apex = catalog.zone.apex();
            if before
                .catalogs
                .iter()
                .any(|(old, _)| old.zone.apex() == apex)
            {
                self.unmoved.push(apex.clone());
            }
        }
    }
}

/// Whether two clusters are one, seen through the same source.
fn has_same_source(old: &PlannedCluster<'_>, new: &PlannedCluster<'_>) -> bool {
    old.kubernetes.source == new.kubernetes.source && old.kubernetes.home() == new.kubernetes.home()
}

/// Goes on with what the live layer was told, unless other objects are to be seen than were.
fn take_knowledge(new: &mut PlannedCluster<'_>, old: &PlannedCluster<'_>) {
    let sees_alike = new.plan.namespaces == old.plan.namespaces
        && new.wanted.namespace_labels == old.wanted.namespace_labels;
    let selects_alike = sees_alike
        && new.wanted.labels == old.wanted.labels
        && new.wanted.slice_labels == old.wanted.slice_labels
        && new.plan.kinds == old.plan.kinds
        && new.plan.hides_empty_services == old.plan.hides_empty_services;
    if sees_alike {
        carry(&mut new.plan.seen, old.plan.seen.as_ref());
    }
    if selects_alike {
        carry(&mut new.plan.headless, old.plan.headless.as_ref());
        carry(&mut new.plan.clients, old.plan.clients.as_ref());
    }
}

/// Puts what is known in the place of nothing, where both are wanted.
fn carry<T>(new: &mut Option<Arc<T>>, old: Option<&Arc<T>>) {
    if let (Some(new), Some(old)) = (new, old) {
        *new = Arc::clone(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::clusters::{plan, plan_onto};
    use directives::config::{Overrides, parse_text};

    /// Whether what is known of namespaces and of headless Services goes on, and the zones that stay good.
    fn taken(before: &str, after: &str) -> (bool, bool, String) {
        let parse = |lines: &str| {
            let text = format!("cluster.local example.org {{\n{lines}\n}}\n");
            parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap()
        };
        let (before, after) = (parse(before), parse(after));
        let old = plan(&before.config, &|_| Vec::new());
        let new = plan_onto(&after.config, &|_| Vec::new(), &old);
        let [old_cluster, cluster] = [&old, &new].map(|it| &it.clusters[0].plan);
        let same = |one: Option<*const ()>, other| one.is_some() && one == other;
        let seen = |plan: &writer::ClusterPlan| plan.seen.as_ref().map(|it| Arc::as_ptr(it).cast());
        let headless =
            |plan: &writer::ClusterPlan| plan.headless.as_ref().map(|it| Arc::as_ptr(it).cast());
        let unmoved: Vec<String> = new.unmoved.iter().map(ToString::to_string).collect();
        (
            same(seen(old_cluster), seen(cluster)),
            same(headless(old_cluster), headless(cluster)),
            unmoved.join(" "),
        )
    }

    #[test]
    fn what_is_known_goes_on_where_the_same_is_seen_of_the_same_source() {
        let cluster = |dir: &str, lines: &str| {
            format!(
                "kubernetes cluster.local {{\nmanifests {dir}\npods insecure\nzonal\n{lines}\n}}"
            )
        };
        let base = cluster(".", "");
        let zone = "cluster.local.".to_owned();
        let with = |lines: &str| taken(&base, &cluster(".", lines));
        assert_eq!(with("ttl 60"), (true, true, zone.clone()));
        assert_eq!(with("labels a=b"), (true, false, zone.clone()));
        assert_eq!(with("namespaces a"), (false, false, zone));
        assert_eq!(
            taken(&base, &cluster("..", "")),
            (false, false, String::new())
        );
    }
}
