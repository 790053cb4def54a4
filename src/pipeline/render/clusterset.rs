//! Clusterset zones: what ServiceImports are in a set of clusters, and what leads back to them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::{Renderer, WholeCauses, ZoneEdit, nodes_of};
use crate::cluster::{Dirty, ObjectKey, ServiceImport};
use crate::dns::{Name, Record, Rtype};
use crate::schema::{import_pointers, render_import, service_name};
use crate::zone::Node;

impl<'a> Renderer<'a> {
    /// An import that may be seen: it exists, its namespace exists and is not hidden.
    fn exposed_import(&self, key: &ObjectKey) -> Option<&'a ServiceImport> {
        self.shows(&key.namespace).then(|| self.state.import(key))?
    }

    /// Renders an import into every clusterset zone.
    pub(super) fn import(&mut self, key: &ObjectKey, causes: &BTreeSet<u32>) {
        self.problems.insert(key_of_problems(key), Vec::new());
        for (place, zone) in (self.plan.first_clusterset()..).zip(&self.plan.clusterset) {
            let apex = zone.zone.apex();
            let nodes = self.import_nodes(key, apex);
            if let Ok(base) = service_name(key, apex) {
                self.edits[place].put_subtree(&base, nodes, causes);
            }
        }
    }

    /// The nodes of an import in a clusterset zone, in canonical order; none when it is hidden.
    fn import_nodes(&mut self, key: &ObjectKey, apex: &Name) -> Vec<Node> {
        let Some(import) = self.exposed_import(key) else {
            return Vec::new();
        };
        let slices = self.state.slices_of_import(&import.key);
        let rendered = render_import(import, slices, apex, self.plan.ttl);
        self.note(&key_of_problems(key), rendered.problems);
        nodes_of(rendered.records, apex)
    }

    /// The PTRs of an address to imports: those of an address that the cluster itself has no name for
    /// (KEP-1645: unless there is a PTR already).
    pub(super) fn import_pointers(&self, address: IpAddr) -> Vec<Record> {
        let Some(home) = self.plan.clusterset.first() else {
            return Vec::new();
        };
        let holders: Vec<_> = self
            .state
            .import_holders(address)
            .iter()
            .filter_map(|key| self.exposed_import(key))
            .map(|import| (import, self.state.slices_of_import(&import.key)))
            .collect();
        import_pointers(address, &holders, home.zone.apex(), self.plan.ttl)
    }

    /// Whether the PTRs that an earlier run left at an address stay: they lead to imports, and these
    /// were not listed yet.
    pub(super) fn stays(&self, node: &Node) -> bool {
        let to_import = |data: &[u8]| {
            let target = Name::decode(data).ok();
            target.is_some_and(|target| {
                let zones = &mut self.plan.clusterset.iter();
                zones.any(|zone| target.is_within(zone.zone.apex()))
            })
        };
        !self.state.has_imports()
            && node
                .rrset(Rtype::PTR)
                .is_some_and(|rrset| rrset.data().all(to_import))
    }

    /// The nodes of a zone that stay though nothing asks for them yet.
    pub(super) fn staying(&self, edit: &ZoneEdit) -> Vec<Node> {
        if self.plan.clusterset.is_empty() || self.state.has_imports() {
            return Vec::new();
        }
        let nodes = edit.edit.contents().nodes();
        nodes.filter(|node| self.stays(node)).cloned().collect()
    }

    /// Renders all clusterset zones whole.
    pub(super) fn clusterset_zones(&mut self, dirty: &Dirty, whole: &WholeCauses) {
        for (place, zone) in (self.plan.first_clusterset()..).zip(&self.plan.clusterset) {
            let apex = zone.zone.apex();
            let mut nodes = Vec::new();
            for import in self.state.imports() {
                let causes = dirty.imports.get(&import.key);
                let rendered = self.import_nodes(&import.key, apex);
                let tag = self.edits[place].tag(causes.unwrap_or(&whole.configured));
                nodes.extend(rendered.into_iter().map(|node| (node, tag)));
            }
            self.edits[place].put_whole(zone, nodes, whole);
        }
    }
}
