//! External zones: the outer addresses of Services, and what leads back from them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::Name;
use kubernetes::facts::{Dirty, Service};
use kubernetes::schema::{apex_records, external_name, external_pointers, render_external};
use provenance::{Kind, ObjectKey};
use zone::Node;

use super::{Renderer, pointer_node};
use crate::plan::{ExternalPlan, ZonePlan, closest};
use crate::zone_edit::{WholeCauses, nodes_of};

/// The owners of a zone's own records, below its apex.
fn reserved(plan: &ZonePlan) -> Vec<Name> {
    let apex = &plan.name;
    apex_records(apex, &plan.apex)
        .into_iter()
        .map(|record| record.owner)
        .filter(|owner| owner != apex)
        .collect()
}

impl<'a> Renderer<'a> {
    /// The external plans, each with the place of its first zone.
    fn externals(&self) -> impl Iterator<Item = (usize, &'a ExternalPlan)> + use<'a> {
        let before = self.plan.first_clusterset() + self.plan.clusterset.len();
        self.plan.external.iter().scan(before, |next, plan| {
            let first = *next;
            *next += plan.zones().count();
            Some((first, plan))
        })
    }

    /// A Service that is visible outside: it exists, its namespace is visible and has room. Ready endpoints do not matter,
    /// as in CoreDNS.
    fn named_outside(&self, key: &ObjectKey) -> Option<&'a Service> {
        let is_seen = self.plan.sees_namespace(self.state, &key.namespace)
            && !self.rooms.is_beyond(Kind::Service, key);
        is_seen.then(|| self.state.service(key))?
    }

    /// Renders a Service into every external zone of names.
    pub(super) fn external_service(&mut self, key: &ObjectKey, causes: &BTreeSet<u32>) {
        for (first, plan) in self.externals() {
            for (place, zone) in (first..).zip(&plan.forward) {
                let apex = &zone.name;
                let nodes = self.external_nodes(key, plan, apex, &reserved(zone));
                let Some((base, nodes)) = external_name(key, apex).ok().zip(nodes) else {
                    continue;
                };
                self.edits[place].put_subtree(&base, nodes, causes);
            }
        }
    }

    /// The nodes of a Service in an external zone, in canonical order. None if it is hidden or has nothing outside. `None` if
    /// the zone has an own name there.
    fn external_nodes(
        &mut self,
        key: &ObjectKey,
        plan: &ExternalPlan,
        apex: &Name,
        reserved: &[Name],
    ) -> Option<Vec<Node>> {
        let base = external_name(key, apex).ok()?;
        if let Some(service) = self.named_outside(key) {
            let slices = self.slices_of(&service.key);
            let rendered = render_external(
                service,
                slices,
                apex,
                reserved,
                &plan.settings,
                &self.plan.limits,
            );
            self.note(Kind::Service.of(key), rendered.problems);
            let nodes = nodes_of(rendered.records, apex);
            if !nodes.is_empty() {
                return Some(nodes);
            }
        }
        let own = reserved.iter().any(|own| own.is_within(&base));
        (!own).then(Vec::new)
    }

    /// Renders an address into the reverse zones of external names.
    pub(super) fn external_address(&mut self, address: IpAddr, causes: &BTreeSet<u32>) {
        for (first, plan) in self.externals() {
            let Some(zone) = closest(&plan.reverse, address) else {
                continue;
            };
            let node = self.external_address_node(address, plan, &plan.reverse[zone]);
            let place = first + plan.forward.len() + zone;
            self.edits[place].put_address(address, node, causes);
        }
    }

    /// The node of an outer address in a reverse zone, if it has PTRs.
    fn external_address_node(
        &self,
        address: IpAddr,
        plan: &ExternalPlan,
        zone: &ZonePlan,
    ) -> Option<Node> {
        let home = plan.forward.first()?;
        let holders = self.state.outer_holders(address);
        let holders = holders.iter().filter_map(|key| self.named_outside(key));
        let apex = &home.name;
        let own = reserved(home);
        let records = external_pointers(
            address,
            holders,
            apex,
            &own,
            &plan.settings,
            &self.plan.limits,
        );
        pointer_node(address, zone, records, || {
            apex_records(&zone.name, &zone.apex)
        })
    }

    /// Renders all external zones whole.
    pub(super) fn external_zones(&mut self, dirty: &Dirty, whole: &WholeCauses) {
        for (first, plan) in self.externals() {
            for (place, zone) in (first..).zip(&plan.forward) {
                let apex = &zone.name;
                let own = reserved(zone);
                let mut nodes = Vec::new();
                for service in self.state.services() {
                    let causes = dirty.services.get(&service.key);
                    let rendered = self.external_nodes(&service.key, plan, apex, &own);
                    let tag = self.edits[place].tag(causes.unwrap_or(&whole.configured));
                    let rendered = rendered.into_iter().flatten();
                    nodes.extend(rendered.map(|node| (node, tag)));
                }
                self.edits[place].put_whole(zone, nodes, whole);
            }
            self.external_reverse_zones(first + plan.forward.len(), plan, dirty, whole);
        }
    }

    /// Renders the reverse zones of an external plan whole; `first` is the place of the first.
    fn external_reverse_zones(
        &mut self,
        first: usize,
        plan: &ExternalPlan,
        dirty: &Dirty,
        whole: &WholeCauses,
    ) {
        let mut nodes: Vec<Vec<(Node, u32)>> = plan.reverse.iter().map(|_| Vec::new()).collect();
        for address in self.state.outer_addresses() {
            let Some(place) = closest(&plan.reverse, address) else {
                continue;
            };
            if let Some(node) = self.external_address_node(address, plan, &plan.reverse[place]) {
                let causes = dirty.addresses.get(&address).unwrap_or(&whole.configured);
                let tag = self.edits[first + place].tag(causes);
                nodes[place].push((node, tag));
            }
        }
        for ((place, zone), nodes) in (first..).zip(&plan.reverse).zip(nodes) {
            self.edits[place].put_whole(zone, nodes, whole);
        }
    }
}
