//! Clusterset zones: what ServiceImports are in a set of clusters, and what leads back to them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::{Name, Record, Rtype};
use kubernetes::facts::{Dirty, EndpointSlice, ImportForm, ServiceImport};
use kubernetes::schema::{Claim, has_own_address, import_pointers, render_import, service_name};
use provenance::{Kind, ObjectKey};
use zone::Node;

use super::Renderer;
use crate::zone_edit::{WholeCauses, ZoneEdit, nodes_of};

impl<'a> Renderer<'a> {
    /// A visible import with room in its namespace.
    fn exposed_import(&self, key: &ObjectKey) -> Option<&'a ServiceImport> {
        let import = self.plan.sees_import(self.state, key)?;
        (!self.rooms.is_beyond(Kind::ServiceImport, key)).then_some(import)
    }

    /// The slices of an import, if there is room for its endpoints.
    fn slices_of_import(
        &self,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a EndpointSlice> + Clone + use<'a> {
        let has_room = !self.rooms.lacks_endpoints(Kind::ServiceImport, key);
        let slices = self.state.slices_of_import(key);
        slices.filter(move |_| has_room)
    }

    /// Renders an import into every clusterset zone.
    pub(super) fn import(&mut self, key: &ObjectKey, causes: &BTreeSet<u32>) {
        self.problems
            .insert(Kind::ServiceImport.of(key), Vec::new());
        for (place, zone) in (self.plan.first_clusterset()..).zip(&self.plan.clusterset) {
            let apex = &zone.name;
            let nodes = self.import_nodes(key, apex);
            if let Ok(base) = service_name(key, apex) {
                self.edits[place].put_subtree(&base, nodes, causes);
            }
        }
    }

    /// The nodes of an import in a clusterset zone, in canonical order. None if it is hidden.
    fn import_nodes(&mut self, key: &ObjectKey, apex: &Name) -> Vec<Node> {
        self.note_beyond(Kind::ServiceImport.of(key));
        let Some(import) = self.exposed_import(key) else {
            return Vec::new();
        };
        let slices = self.slices_of_import(&import.key);
        let rendered = render_import(import, slices, apex, self.plan.ttl, &self.plan.limits);
        self.note(Kind::ServiceImport.of(key), rendered.problems);
        nodes_of(rendered.records, apex)
    }

    /// The PTRs of an address to imports, unless the cluster has a PTR for it (KEP-1645).
    pub(super) fn import_pointers(&mut self, address: IpAddr) -> Vec<Record> {
        let Some(home) = self.plan.clusterset.first() else {
            return Vec::new();
        };
        let holders: Vec<_> = self
            .state
            .import_holders(address)
            .iter()
            .filter_map(|key| self.exposed_import(key))
            .filter(|import| {
                let lacks_endpoints =
                    { self.rooms }.lacks_endpoints(Kind::ServiceImport, &import.key);
                !lacks_endpoints || has_own_address(import, address)
            })
            .map(|import| (import, self.slices_of_import(&import.key)))
            .collect();
        let claims = holders
            .iter()
            .filter(|(import, _)| {
                import.form == ImportForm::Headless || has_own_address(import, address)
            })
            .map(|(import, _)| Claim {
                key: &import.key,
                created_s: import.created_s,
            });
        let (owners, losers) = self.owners(address, Kind::ServiceImport, claims);
        self.contested.entry(address).or_default().extend(losers);
        import_pointers(
            address,
            &holders,
            |namespace| owners.contains(namespace),
            &home.name,
            self.plan.ttl,
            &self.plan.limits,
        )
    }

    /// Whether the PTRs of a node from an earlier run stay: they lead to imports, which were not listed yet.
    fn stays(&self, node: &Node) -> bool {
        let to_import = |data: &[u8]| {
            Name::decode(data, 0).is_ok_and(|(target, _)| {
                let zones = &mut self.plan.clusterset.iter();
                zones.any(|zone| target.is_within(&zone.name))
            })
        };
        !self.state.has_imports()
            && node
                .rrset(Rtype::PTR)
                .is_some_and(|rrset| rrset.data().all(to_import))
    }

    /// Whether the node of an address stays.
    pub(super) fn stays_at(&self, address: IpAddr, edit: &ZoneEdit) -> bool {
        let contents = edit.edit.contents();
        Name::reverse_of(address)
            .sort_key(contents.apex())
            .and_then(|key| contents.get(key.as_bytes()))
            .is_some_and(|node| self.stays(node))
    }

    /// The nodes of a reverse zone that stay.
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
            let apex = &zone.name;
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
