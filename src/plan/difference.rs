//! The difference of two plans: the changes that a reload makes.
//!
//! Places in the Corefile do not count. Peers and secondaries are not part of a plan: servers take them from the
//! configuration with every reload, at no cost for a source.

use std::collections::BTreeSet;

use writer::{CatalogPlan, FilePlan, PlanChange};

use crate::plan::clusters::PlannedCluster;
use crate::plan::etcd_zones::PlannedEtcd;
use crate::plan::files::PlannedFile;
use crate::plan::model::Plan;

/// The changes from one plan to another, in order: removals first, to make room.
pub(crate) fn difference(old: &Plan, new: &Plan) -> Vec<PlanChange> {
    let mut changes = Vec::new();
    let predecessors = old.predecessors(new);
    let homes: BTreeSet<_> = predecessors
        .iter()
        .flatten()
        .map(|it| it.plan.home())
        .collect();
    let gone = old.clusters.iter().map(|cluster| cluster.plan.home());
    let gone = gone.filter(|home| !homes.contains(home));
    changes.extend(gone.cloned().map(PlanChange::RemoveCluster));
    for file in &old.files {
        if new.file(file.plan.zone()).is_none() {
            changes.push(PlanChange::RemoveFile(file.plan.zone().clone()));
        }
    }
    for etcd in &old.etcd {
        let zone = &etcd.plan.zone.name;
        if new.etcd(zone).is_none() {
            changes.push(PlanChange::RemoveFile(zone.clone()));
        }
    }
    for catalog in &old.catalogs {
        if new.catalog(&catalog.zone).is_none() {
            changes.push(PlanChange::RemoveCatalog(catalog.zone.clone()));
        }
    }
    for (cluster, before) in new.clusters.iter().zip(predecessors) {
        match before {
            None => changes.push(PlanChange::AddCluster(cluster.plan.clone())),
            Some(before) => changes.extend(cluster_changes(before, cluster)),
        }
    }
    for file in &new.files {
        changes.extend(file_change(old.file(file.plan.zone()), file));
    }
    for etcd in &new.etcd {
        changes.extend(etcd_change(old.etcd(&etcd.plan.zone.name), etcd));
    }
    for catalog in &new.catalogs {
        changes.extend(catalog_change(old.catalog(&catalog.zone), catalog));
    }
    changes
}

fn cluster_changes(old: &PlannedCluster, new: &PlannedCluster) -> Vec<PlanChange> {
    let (cluster, plan) = (old.plan.home(), &new.plan);
    if !old.keeps_source(new) {
        let (cluster, plan) = (cluster.clone(), plan.clone());
        return vec![PlanChange::RestartSource { cluster, plan }];
    }
    let mut changes = Vec::new();
    for zone in plan.zones() {
        let Some(before) = old.plan.zone(&zone.name) else {
            continue;
        };
        let name = || zone.name.clone();
        if zone.retention != before.retention {
            let (zone, retention) = (name(), zone.retention);
            changes.push(PlanChange::SetRetention { zone, retention });
        }
        if zone.gate != before.gate {
            let (zone, gate) = (name(), zone.gate);
            changes.push(PlanChange::SetGate { zone, gate });
        }
        if zone.apex != before.apex {
            let (zone, apex) = (name(), zone.apex.clone());
            changes.push(PlanChange::SetApex { zone, apex });
        }
    }
    if plan.ttl != old.plan.ttl {
        let (cluster, ttl) = (cluster.clone(), plan.ttl);
        changes.push(PlanChange::SetTtl { cluster, ttl });
    }
    // Other differences need the whole plan.
    let mut reached = old.plan.clone();
    for change in &changes {
        reached.set(change);
    }
    if reached != *plan {
        let (cluster, plan) = (cluster.clone(), plan.clone());
        return vec![PlanChange::SetCluster { cluster, plan }];
    }
    changes
}

fn file_change(old: Option<&PlannedFile>, new: &PlannedFile) -> Option<PlanChange> {
    let same = old.filter(|old| old.settings == new.settings);
    match (same.map(|old| &old.plan), &new.plan) {
        (Some(old), plan) if old == plan => None,
        (Some(FilePlan::Zone { .. }), FilePlan::Zone { zone, retention }) => {
            let (zone, retention) = (zone.clone(), *retention);
            Some(PlanChange::SetRetention { zone, retention })
        }
        (_, plan) => Some(PlanChange::SetFile(plan.clone())),
    }
}

fn etcd_change(old: Option<&PlannedEtcd>, new: &PlannedEtcd) -> Option<PlanChange> {
    match old {
        Some(old) if old == new => None,
        Some(old) if old.keeps_source(new) => Some(PlanChange::SetRetention {
            zone: new.plan.zone.name.clone(),
            retention: new.plan.zone.retention,
        }),
        Some(_) | None => Some(PlanChange::SetFile(new.file())),
    }
}

fn catalog_change(old: Option<&CatalogPlan>, new: &CatalogPlan) -> Option<PlanChange> {
    let (zone, retention) = (new.zone.clone(), new.retention);
    match old {
        Some(old) if old == new => None,
        Some(old)
            if CatalogPlan {
                retention,
                ..old.clone()
            } == *new =>
        {
            Some(PlanChange::SetRetention { zone, retention })
        }
        Some(_) | None => Some(PlanChange::SetCatalog(new.clone())),
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};

    use super::*;

    /// The plan of a Corefile.
    fn plan(text: &str) -> Plan {
        let loaded = parse_text("Corefile", text, &Overrides::default(), &|_| None).unwrap();
        Plan::new(&loaded.config, &|_| Vec::new())
    }

    /// A change in short: its word, and the zone or cluster.
    fn short(change: &PlanChange) -> String {
        let (word, name) = match change {
            PlanChange::AddCluster(plan) => ("add cluster", plan.home()),
            PlanChange::RestartSource { cluster, .. } => ("restart", cluster),
            PlanChange::SetCluster { cluster, .. } => ("set cluster", cluster),
            PlanChange::RemoveCluster(home) => ("remove cluster", home),
            PlanChange::SetTtl { cluster, .. } => ("ttl", cluster),
            PlanChange::SetApex { zone, .. } => ("apex", zone),
            PlanChange::SetGate { zone, .. } => ("gate", zone),
            PlanChange::SetRetention { zone, .. } => ("history", zone),
            PlanChange::SetFile(file) => ("set file", file.zone()),
            PlanChange::RemoveFile(zone) => ("remove file", zone),
            PlanChange::SetCatalog(catalog) => ("set catalog", &catalog.zone),
            PlanChange::RemoveCatalog(zone) => ("remove catalog", zone),
        };
        format!("{word} {name}")
    }

    /// The changes from one Corefile to another.
    fn changes(old: &str, new: &str) -> Vec<String> {
        let changes = difference(&plan(old), &plan(new));
        changes.iter().map(short).collect()
    }

    /// A cluster with these options, and these directives beside it.
    fn cluster(options: &str, directives: &str) -> String {
        format!(
            "cluster.local 10.in-addr.arpa {{\n kubernetes {{\n  manifests .\n{options}\n }}\n{directives}\n}}\n"
        )
    }

    #[test]
    fn the_same_corefile_with_its_lines_elsewhere_is_no_change() {
        let text = cluster("", "");
        assert!(changes(&text, &format!("# a comment\n\n{text}")).is_empty());
        let more = cluster("fallthrough", "log\ncache 30\nforward . 192.0.2.1");
        assert!(changes(&text, &more).is_empty());
        let to = |address: &str| cluster("", &format!("transfer {{\n to {address}\n}}"));
        assert!(changes(&to("192.0.2.1"), &to("192.0.2.2")).is_empty());
    }

    #[test]
    fn settings_of_zones_are_changed_one_by_one() {
        let text = cluster("", "");
        let with = |directives: &str| changes(&text, &cluster("", directives));
        assert_eq!(
            with("history cluster.local {\n versions 9\n}"),
            ["history cluster.local."]
        );
        assert_eq!(
            with("gate {\n shrink 40\n}"),
            ["gate cluster.local.", "gate 10.in-addr.arpa."]
        );
        assert_eq!(
            with("apex 10.in-addr.arpa {\n refresh 99\n}"),
            ["apex 10.in-addr.arpa."]
        );
        let all = "history {\n keep 1h\n}\ngate {\n shrink 50\n}";
        assert_eq!(with(all).len(), 4);
    }

    #[test]
    fn a_ttl_is_of_the_cluster_and_of_the_tops_of_its_zones() {
        let ttl = changes(&cluster("", ""), &cluster("ttl 60", ""));
        let want = [
            "apex cluster.local.",
            "apex 10.in-addr.arpa.",
            "ttl cluster.local.",
        ];
        assert_eq!(ttl, want);
    }

    #[test]
    fn what_is_seen_of_the_same_objects_needs_no_list() {
        let text = cluster("", "");
        for options in ["namespaces a", "ignore empty_service", "pods insecure"] {
            let changed = changes(&text, &cluster(options, ""));
            assert_eq!(changed, ["set cluster cluster.local."], "{options}");
        }
        let wider = text.replace("10.in-addr", "10.in-addr.arpa 11.in-addr");
        assert_eq!(changes(&text, &wider), ["set cluster cluster.local."]);
    }

    #[test]
    fn zones_in_another_order_need_no_list() {
        let two = |first: &str, second: &str| {
            let text = cluster("", "");
            text.replace(
                "cluster.local 10.in-addr.arpa",
                &format!("{first} {second}"),
            )
        };
        let changed = changes(&two("a.test", "b.test"), &two("b.test", "a.test"));
        assert_eq!(changed, ["set cluster a.test."]);
        let moved = changes(&two("a.test", "b.test"), &two("b.test", "c.test"));
        assert_eq!(moved, ["set cluster a.test."]);
    }

    #[test]
    fn each_cluster_is_continued_once() {
        let one = |zones: &str| format!("{zones} {{\n kubernetes {{\n  manifests .\n }}\n}}\n");
        let (whole, parts) = (one("a.test b.test"), one("b.test") + &one("a.test"));
        let split = changes(&whole, &parts);
        assert_eq!(split, ["add cluster b.test.", "set cluster a.test."]);
        let joined = changes(&parts, &whole);
        assert_eq!(joined, ["remove cluster b.test.", "set cluster a.test."]);
    }

    #[test]
    fn what_a_source_is_asked_for_and_where_needs_a_list() {
        let text = cluster("", "");
        for options in ["labels a=b", "pods verified", "zonal"] {
            let changed = changes(&text, &cluster(options, ""));
            assert_eq!(changed, ["restart cluster.local."], "{options}");
        }
        let elsewhere = text.replace("manifests .", "manifests ..");
        assert_eq!(changes(&text, &elsewhere), ["restart cluster.local."]);
    }

    #[test]
    fn clusters_files_and_catalogs_come_and_go() {
        let text = cluster(
            "",
            "catalog c.invalid\ntransfer cluster.local c.invalid {\n to 192.0.2.9\n}",
        );
        let file = "z.test {\n file db\n}\n";
        let both = format!("{text}{file}");
        assert_eq!(
            changes(". {\n}\n", &both),
            [
                "add cluster cluster.local.",
                "set file z.test.",
                "set catalog c.invalid."
            ]
        );
        assert_eq!(
            changes(&both, ". {\n}\n"),
            [
                "remove cluster cluster.local.",
                "remove file z.test.",
                "remove catalog c.invalid."
            ]
        );
        assert_eq!(changes(&both, &text), ["remove file z.test."]);
        let other = both.replace("file db", "file other");
        assert_eq!(changes(&both, &other), ["set file z.test."]);
        let kept = both.replace("file db", "file db\n history {\n versions 3\n }");
        assert_eq!(changes(&both, &kept), ["history z.test."]);
    }

    #[test]
    fn a_zone_that_moves_to_a_file_leaves_its_cluster_first() {
        let both = format!("{}z.test {{\n file db\n}}\n", cluster("", ""));
        let moved = both
            .replace("cluster.local 10", "z.test 10")
            .replace("z.test {", "cluster.local {");
        assert_eq!(
            changes(&both, &moved),
            [
                "remove file z.test.",
                "set cluster cluster.local.",
                "set file cluster.local.",
            ]
        );
    }
}
