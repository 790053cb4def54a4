//! The top of a cluster's zones: as configured, or with the Service in front of us as name server.
//!
//! The Service is looked for among those of our own namespace that hold one of our addresses, unless the configuration
//! names it. So the top is rendered again when such an address changed hands, or such a Service or one of its slices
//! changed, and never else. A slice that leaves one of our addresses out marks the address, so what was in front of us
//! and is no more is seen, too.

use std::collections::BTreeSet;

use dns::{Rdata, Record, Rtype};
use kubernetes::facts::Dirty;
use kubernetes::schema::{
    ApexSettings, InFront, NameServer, ZoneForm, apex_records, outer_addresses_in_front,
    servers_in_front, soa,
};
use provenance::ObjectKey;
use zone::Node;

use crate::plan::{ExternalPlan, ZonePlan};
use crate::render::Renderer;
use crate::zone_edit::nodes_of;

impl<'a> Renderer<'a> {
    /// The records at the top of a zone, by its place. If a Service is in front of us, the default name server has its
    /// addresses.
    pub(super) fn apex_of(&self, place: usize, plan: &ZonePlan) -> Vec<Record> {
        let apex = &plan.name;
        let servers = match plan.apex.form {
            ZoneForm::External => self.outer_server_of(place, plan),
            ZoneForm::Forward | ZoneForm::Clusterset | ZoneForm::Reverse => {
                self.servers_of(place, plan)
            }
        };
        if servers.is_empty() {
            return apex_records(apex, &plan.apex);
        }
        let fallback = plan
            .apex
            .name_servers
            .first()
            .filter(|_| plan.apex.form == ZoneForm::Forward);
        let mut records = Vec::new();
        if let Some(fallback) = fallback {
            for address in servers.iter().flat_map(|server| &server.addresses) {
                let (rtype, rdata) = Rdata::address(*address);
                records.push(Record {
                    owner: fallback.name.clone(),
                    rtype,
                    ttl: plan.apex.ttl,
                    rdata,
                });
            }
        }
        let settings = ApexSettings {
            name_servers: servers,
            ..plan.apex.clone()
        };
        records.extend(apex_records(apex, &settings));
        records
    }

    /// The name servers of a zone that lead to us. None if they are configured.
    fn servers_of(&self, place: usize, plan: &ZonePlan) -> Vec<NameServer> {
        let front = &self.plan.front;
        let home = if plan.apex.form == ZoneForm::Forward {
            Some(plan)
        } else {
            self.plan.forward.first()
        };
        let Some(home) = home.filter(|_| front.zones.contains(&place)) else {
            return Vec::new();
        };
        servers_in_front(&self.in_front(place), &home.name)
    }

    /// The name server of an external zone, with our addresses from outside. None without such addresses.
    fn outer_server_of(&self, place: usize, plan: &ZonePlan) -> Vec<NameServer> {
        let front = &self.plan.front;
        let own = plan.apex.name_servers.first();
        let external = |it: &&ExternalPlan| {
            let mut zones = it.forward.iter();
            zones.any(|zone| zone.name == plan.name)
        };
        let (Some(own), Some(of)) = (own, self.plan.external.iter().find(external)) else {
            return Vec::new();
        };
        if !front.zones.contains(&place) {
            return Vec::new();
        }
        let addresses = outer_addresses_in_front(&self.in_front(place), of.settings.headless);
        let server = (!addresses.is_empty()).then(|| NameServer {
            name: own.name.clone(),
            addresses: addresses.into_iter().collect(),
        });
        server.into_iter().collect()
    }

    /// The exposed Services in front of us, for a zone by its place: the one that the configuration names, else those of
    /// our namespace that lead to us.
    fn in_front(&self, place: usize) -> Vec<InFront<'a>> {
        let front = &self.plan.front;
        if let Some(key) = front.named.get(&place) {
            let service = self.exposed(key);
            let named = service.map(|service| InFront {
                service,
                slices: self.state.slices_of(&service.key).collect(),
            });
            return named.into_iter().collect();
        }
        let keys: BTreeSet<&ObjectKey> = self.holders_of_ours().collect();
        let services = keys.into_iter().filter_map(|key| self.exposed(key));
        let services = services.map(|service| {
            let slices = self.state.slices_of(&service.key);
            let slices = slices.filter(|slice| front.is_behind(slice)).collect();
            InFront { service, slices }
        });
        services.filter(|it| !it.slices.is_empty()).collect()
    }

    /// The trusted Services that hold one of our addresses.
    fn holders_of_ours(&self) -> impl Iterator<Item = &'a ObjectKey> {
        let front = &self.plan.front;
        let holders = front.addresses.iter();
        let holders = holders.flat_map(|address| self.state.holders(*address));
        holders.filter(|key| front.trusts(key))
    }

    /// Renders the tops of zones again if the Service in front of us may differ.
    pub(super) fn apexes(&mut self, dirty: &Dirty) {
        let front = &self.plan.front;
        if front.zones.is_empty() {
            return;
        }
        let mut causes: BTreeSet<u32> = BTreeSet::new();
        for address in &front.addresses {
            causes.extend(dirty.addresses.get(address).into_iter().flatten());
        }
        for key in self.holders_of_ours().chain(front.named.values()) {
            causes.extend(dirty.services.get(key).into_iter().flatten());
        }
        if causes.is_empty() {
            return;
        }
        for (place, plan) in self.plan.zones().enumerate() {
            if front.zones.contains(&place) {
                self.put_top(place, plan, &causes);
            }
        }
    }

    /// Renders the tops of these zones, by place, whose settings are new.
    pub(super) fn configured_tops(&mut self, places: &BTreeSet<usize>, causes: &BTreeSet<u32>) {
        for (place, plan) in self.plan.zones().enumerate() {
            if places.contains(&place) {
                self.edits[place].edit.set_soa(soa(&plan.apex));
                self.put_top(place, plan, causes);
            }
        }
    }

    /// Sets the top of a zone.
    fn put_top(&mut self, place: usize, plan: &ZonePlan, causes: &BTreeSet<u32>) {
        let nodes = nodes_of(self.apex_of(place, plan), &plan.name);
        let zone = &mut self.edits[place];
        let tag = zone.tag(causes);
        for node in nodes {
            let known = zone.edit.contents().get(node.key());
            let node = with_pointers(node, known, plan);
            zone.edit.set(node, tag);
        }
    }
}

/// The node of an apex with the PTRs that stand there: a reverse zone may be one address.
fn with_pointers(node: Node, known: Option<&Node>, plan: &ZonePlan) -> Node {
    let pointers = known.and_then(|known| known.rrset(Rtype::PTR));
    let Some(pointers) = pointers.filter(|_| node.key().is_empty()) else {
        return node;
    };
    let apex = &plan.name;
    let wire = apex.as_wire();
    let own = node.records(wire, 0).chain(pointers.records(wire, 0));
    let mut parts = own
        .map(|rr| rr.to_record())
        .map(|record| (record.rtype, record.ttl, record.rdata))
        .collect();
    Node::build(apex, apex, &mut parts).unwrap_or(node)
}
