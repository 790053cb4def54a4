//! Facts become edits of zones: what is dirty is rendered again, or everything at once.
//!
//! A Service owns the subtree at its name in every forward zone, a pod's address its own name there, an
//! address its owner in one reverse zone, the apex the few names that come from the configuration. Rendering dirty keys one by one gives
//! what rendering everything gives; the laws in `tests` hold this to it.

mod clusterset;
mod external;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::cluster::zone::ClusterZone;
use crate::contested::Losers;
use crate::overlay::{Layer, merge};
use crate::plan::{ClusterPlan, ZonePlan};
use crate::zone_edit::{WholeCauses, ZoneDraft, ZoneEdit, narrowed_draft, nodes_of};
use dns::{Name, Record};
use kubernetes::facts::{Concerns, Dirty, EndpointSlice, PodAddress, Service, ServiceForm, State};
use kubernetes::schema::{
    Claim, Concerned, Owners, Problem, Rooms, has_cluster_ip, pod_name, pod_record, pointers,
    render_service, service_name, soa,
};
use provenance::{Cause, FactKey, Kind, ObjectKey};
use zone::{Contents, Edit, Node};

/// What a rendering gives: a draft for each zone, in the plan's order, and what could not be rendered.
#[derive(Debug)]
pub(super) struct Rendering {
    /// All drafts, also empty ones.
    pub(super) drafts: Vec<ZoneDraft>,
    /// Problems of the keys that were rendered, by Service and ServiceImport.
    pub(super) problems: BTreeMap<FactKey, Vec<Problem>>,
    /// The addresses that were rendered, each with the objects of namespaces that do not own it.
    pub(super) contested: BTreeMap<IpAddr, Losers>,
    /// The numbers of rendered Services, addresses and names of pods.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests count the work"))]
    pub(super) work: [usize; 3],
    /// The layers of zones with a file under them.
    pub(super) layers: Vec<Layer>,
}

/// What is rendered of a cluster: its facts, the plan, and what has room.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    pub(super) state: &'a State,
    pub(super) plan: &'a ClusterPlan,
    pub(super) rooms: &'a Rooms,
}

#[derive(Debug)]
pub(super) struct Renderer<'a> {
    pub(super) state: &'a State,
    pub(super) plan: &'a ClusterPlan,
    /// The objects that have no room in their namespaces.
    pub(super) rooms: &'a Rooms,
    /// The edits, in the plan's order.
    pub(super) edits: Vec<ZoneEdit>,
    /// Objects that could not be rendered.
    problems: BTreeMap<FactKey, Vec<Problem>>,
    /// The addresses that were rendered, each with the objects of namespaces that do not own it.
    contested: BTreeMap<IpAddr, Losers>,
    /// The contents before the edits, in the plan's order.
    zones: &'a [ClusterZone],
    is_whole: bool,
    /// The cause of records that neither layer has any more, when a zone is rendered whole.
    gone: BTreeSet<u32>,
}

/// Renders dirty keys and the tops of zones, by place, on top of the current contents; with `new_imports` also all
/// that leads to ServiceImports, which were listed for the first time.
pub(super) fn render_dirty(
    Seen { state, plan, rooms }: Seen<'_>,
    dirty: &Dirty,
    tops: &BTreeSet<usize>,
    new_imports: bool,
    zones: &[ClusterZone],
) -> Rendering {
    let mut causes = dirty.causes.clone();
    let mut renderer = Renderer::new(Seen { state, plan, rooms }, zones, false);
    renderer.services(dirty);
    if new_imports {
        let whole = WholeCauses::beside(&mut causes, &plan.source);
        renderer.gone.clone_from(&whole.vanished);
        renderer.clusterset_zones(dirty, &whole);
        renderer.reverse_zones(dirty, &whole);
    } else {
        renderer.imports(dirty);
    }
    renderer.addresses(dirty);
    renderer.apexes(dirty);
    if !tops.is_empty() {
        let whole = WholeCauses::beside(&mut causes, &plan.source);
        renderer.configured_tops(tops, &whole.configured);
    }
    let work = [
        dirty.services.len(),
        dirty.addresses.len(),
        dirty.pods.len(),
    ];
    renderer.finish(causes, &dirty.concerns, work)
}

/// Renders everything: what is in the current contents and not rendered goes. `is_exact`: the dirty keys are all that differ
/// from what the contents were rendered from; the rest is of the configuration.
pub(super) fn render_all(
    Seen { state, plan, rooms }: Seen<'_>,
    dirty: &Dirty,
    zones: &[ClusterZone],
    is_exact: bool,
) -> Rendering {
    let mut causes = dirty.causes.clone();
    let mut whole = WholeCauses::beside(&mut causes, &plan.source);
    let mut renderer = Renderer::new(Seen { state, plan, rooms }, zones, true);
    renderer.gone.clone_from(&whole.vanished);
    if is_exact {
        renderer.services(dirty);
        renderer.imports(dirty);
        renderer.addresses(dirty);
        whole.vanished.clone_from(&whole.configured);
    }
    for place in 0..plan.forward.len() {
        renderer.forward_zone(place, dirty, &whole);
    }
    renderer.reverse_zones(dirty, &whole);
    renderer.external_zones(dirty, &whole);
    if state.has_imports() {
        renderer.clusterset_zones(dirty, &whole);
    }
    let work = [
        state.services().count(),
        state.addresses().count(),
        state.pods().count(),
    ];
    renderer.finish(causes, &dirty.concerns, work)
}

impl<'a> Renderer<'a> {
    /// A renderer on top of the current versions. With a file under a zone, it starts from the cluster's layer, or from nothing
    /// when everything is rendered.
    fn new(
        Seen { state, plan, rooms }: Seen<'a>,
        zones: &'a [ClusterZone],
        is_whole: bool,
    ) -> Self {
        let edit_of = |(plan, zone): (&ZonePlan, &ClusterZone)| {
            let contents = match &zone.overlay {
                None => zone.base(),
                Some(overlay) => overlay.layer.clone().filter(|_| !is_whole),
            };
            ZoneEdit::new(Edit::new(&contents.unwrap_or_else(|| nothing(plan))))
        };
        let edits = plan.zones().zip(zones).map(edit_of).collect();
        Self {
            state,
            plan,
            rooms,
            edits,
            problems: BTreeMap::new(),
            contested: BTreeMap::new(),
            zones,
            is_whole,
            gone: BTreeSet::new(),
        }
    }

    /// A visible Service with room in its namespace.
    pub(super) fn exposed(&self, key: &ObjectKey) -> Option<&'a Service> {
        let service = self.plan.sees_service(self.state, key)?;
        (!self.rooms.is_beyond(Kind::Service, key)).then_some(service)
    }

    /// The slices of a Service, if there is room for its endpoints.
    pub(super) fn slices_of(
        &self,
        key: &'a ObjectKey,
    ) -> impl Iterator<Item = &'a EndpointSlice> + Clone + use<'a> {
        let has_room = !self.rooms.lacks_endpoints(Kind::Service, key);
        let slices = self.state.slices_of(key);
        slices.filter(move |_| has_room)
    }

    /// Reports an object of which something has no room in its namespace.
    pub(super) fn note_beyond(&mut self, object: FactKey) {
        if let Some(message) = self.rooms.complaint(object.kind, &object.key) {
            self.note(object.clone(), vec![Problem { object, message }]);
        }
    }

    /// Renders dirty Services.
    fn services(&mut self, dirty: &Dirty) {
        for (key, causes) in &dirty.services {
            self.service(key, causes);
            self.external_service(key, causes);
        }
    }

    /// Renders dirty ServiceImports, if they were listed.
    fn imports(&mut self, dirty: &Dirty) {
        if !self.state.has_imports() {
            return;
        }
        for (key, causes) in &dirty.imports {
            self.import(key, causes);
        }
    }

    /// Renders dirty addresses and names of pods.
    fn addresses(&mut self, dirty: &Dirty) {
        for (address, causes) in &dirty.addresses {
            self.address(*address, causes);
            self.external_address(*address, causes);
        }
        for (at, causes) in &dirty.pods {
            self.pod(at, causes);
        }
    }

    /// The node of a pod's name in a forward zone, if there is a visible pod.
    fn pod_node(&self, at: &PodAddress, apex: &Name) -> Option<Node> {
        let is_seen = self.state.has_pod(at) && self.plan.sees_namespace(self.state, &at.namespace);
        let record = is_seen.then(|| pod_record(&at.namespace, at.address, apex, self.plan.ttl))?;
        nodes_of(record.into_iter().collect(), apex).pop()
    }

    /// Renders a pod's name into every forward zone.
    fn pod(&mut self, at: &PodAddress, causes: &BTreeSet<u32>) {
        for place in 0..self.plan.forward.len() {
            let apex = self.plan.forward[place].name.clone();
            let node = self.pod_node(at, &apex);
            let edit = &mut self.edits[place];
            let tag = edit.tag(causes);
            let owner = pod_name(&at.namespace, at.address, &apex).ok();
            match (node, owner.and_then(|owner| owner.sort_key(&apex))) {
                (Some(node), _) => edit.edit.set(node, tag),
                (None, Some(key)) => edit.edit.remove(key.as_bytes(), tag),
                (None, None) => {}
            }
        }
    }

    /// Renders a Service into every forward zone.
    fn service(&mut self, key: &ObjectKey, causes: &BTreeSet<u32>) {
        self.problems.insert(Kind::Service.of(key), Vec::new());
        for place in 0..self.plan.forward.len() {
            let apex = self.plan.forward[place].name.clone();
            let nodes = self.service_nodes(key, &apex);
            if let Ok(base) = service_name(key, &apex) {
                self.edits[place].put_subtree(&base, nodes, causes);
            }
        }
    }

    /// The nodes of a Service in a forward zone, in canonical order. None if it is hidden.
    fn service_nodes(&mut self, key: &ObjectKey, apex: &Name) -> Vec<Node> {
        self.note_beyond(Kind::Service.of(key));
        let Some(service) = self.exposed(key) else {
            return Vec::new();
        };
        let slices = self.slices_of(&service.key);
        let rendered = render_service(service, slices, apex, self.plan.ttl, &self.plan.limits);
        self.note(Kind::Service.of(key), rendered.problems);
        let slices = self.state.slices_of(&service.key);
        if let Some(message) = self.plan.front.reproach(key, slices) {
            let object = Kind::Service.of(key);
            self.note(object.clone(), vec![Problem { object, message }]);
        }
        nodes_of(rendered.records, apex)
    }

    /// Notes the problems of a key.
    fn note(&mut self, key: FactKey, problems: Vec<Problem>) {
        if !problems.is_empty() {
            let known = self.problems.entry(key).or_default();
            known.extend(problems);
            known.sort();
            known.dedup();
        }
    }

    /// The node of an address in its reverse zone, if it has PTRs. Notes the objects of namespaces that do not own it.
    fn address_node(&mut self, address: IpAddr, place: usize, plan: &ZonePlan) -> Option<Node> {
        let holders: Vec<_> = self
            .state
            .holders(address)
            .iter()
            .filter_map(|key| self.exposed(key))
            .filter(|service| {
                let lacks_endpoints = self.rooms.lacks_endpoints(Kind::Service, &service.key);
                !lacks_endpoints || has_cluster_ip(service, address)
            })
            .map(|service| (service, self.slices_of(&service.key)))
            .collect();
        let home = self.plan.forward.first();
        let is_cluster_ip = { holders.iter() }.any(|(it, _)| has_cluster_ip(it, address));
        let services = holders.iter().map(|(service, _)| *service);
        let claims = services
            .filter(|it| !is_cluster_ip && !matches!(it.form, ServiceForm::ExternalName(_)))
            .map(|it| Claim {
                key: &it.key,
                created_s: it.created_s,
            });
        let (owners, losers) = self.owners(address, Kind::Service, claims);
        self.contested.insert(address, losers);
        let mut records = home
            .map(|home| {
                pointers(
                    address,
                    &holders,
                    |namespace| owners.contains(namespace),
                    &home.name,
                    self.plan.ttl,
                    &self.plan.limits,
                )
            })
            .unwrap_or_default();
        if records.is_empty() {
            records = self.import_pointers(address);
        }
        pointer_node(address, plan, records, || self.apex_of(place, plan))
    }

    /// The owners of an address among the objects of a kind that claim it, and the objects of others.
    pub(super) fn owners<'c>(
        &self,
        address: IpAddr,
        kind: Kind,
        claims: impl Iterator<Item = Claim<'c>> + Clone,
    ) -> (Owners, Losers) {
        let has_pod = |namespace: &Arc<str>| {
            let namespace = Arc::clone(namespace);
            self.state.has_pod(&PodAddress { namespace, address })
        };
        let owners = Owners::of(claims.clone(), self.state.is_of_pods(address), has_pod);
        let losers = claims.filter(|claim| !owners.contains(&claim.key.namespace));
        let losers = losers.map(|claim| (kind.of(claim.key), owners.name().cloned()));
        let losers = losers.collect();
        (owners, losers)
    }

    /// Renders an address into its reverse zone, if there is one.
    fn address(&mut self, address: IpAddr, causes: &BTreeSet<u32>) {
        let Some(place) = self.plan.reverse_zone_of(address) else {
            return;
        };
        let Some(plan) = self.plan.zones().nth(place) else {
            return;
        };
        let node = self.address_node(address, place, plan);
        if node.is_none() && self.stays_at(address, &self.edits[place]) {
            return;
        }
        self.edits[place].put_address(address, node, causes);
    }

    /// Renders a whole forward zone.
    fn forward_zone(&mut self, place: usize, dirty: &Dirty, whole: &WholeCauses) {
        let plan = &self.plan.forward[place];
        let apex = plan.name.clone();
        let mut nodes: Vec<(Node, u32)> = Vec::new();
        for service in self.state.services() {
            let rendered = self.service_nodes(&service.key, &apex);
            let causes = dirty
                .services
                .get(&service.key)
                .unwrap_or(&whole.configured);
            let tag = self.edits[place].tag(causes);
            if let Ok(base) = service_name(&service.key, &apex) {
                self.edits[place].remove_others(&base, &rendered, tag);
            }
            nodes.extend(rendered.into_iter().map(|node| (node, tag)));
        }
        for at in self.state.pods() {
            let causes = dirty.pods.get(at).unwrap_or(&whole.configured);
            if let Some(node) = self.pod_node(at, &apex) {
                nodes.push((node, self.edits[place].tag(causes)));
            }
        }
        let own = self.apex_of(place, plan);
        self.edits[place].put_whole_with(plan, own, nodes, whole);
    }

    /// Renders all reverse zones whole.
    fn reverse_zones(&mut self, dirty: &Dirty, whole: &WholeCauses) {
        let mut nodes: Vec<Vec<(Node, u32)>> = self.plan.zones().map(|_| Vec::new()).collect();
        for address in self.state.addresses().chain(self.state.import_addresses()) {
            let Some(place) = self.plan.reverse_zone_of(address) else {
                continue;
            };
            let Some(plan) = self.plan.zones().nth(place) else {
                continue;
            };
            if let Some(node) = self.address_node(address, place, plan) {
                let causes = dirty.addresses.get(&address).unwrap_or(&whole.configured);
                let tag = self.edits[place].tag(causes);
                nodes[place].push((node, tag));
            }
        }
        let first = self.plan.forward.len();
        for (place, plan) in self
            .plan
            .zones()
            .enumerate()
            .skip(first)
            .take(self.plan.reverse.len())
        {
            let mut nodes = std::mem::take(&mut nodes[place]);
            let tag = self.edits[place].tag(&whole.configured);
            let staying = self.staying(&self.edits[place]).into_iter();
            nodes.extend(staying.map(|node| (node, tag)));
            let own = self.apex_of(place, plan);
            self.edits[place].put_whole_with(plan, own, nodes, whole);
        }
    }

    /// Ends all edits. `work`: the numbers of rendered Services, addresses and pods.
    fn finish(self, mut causes: Vec<Cause>, concerns: &Concerns, work: [usize; 3]) -> Rendering {
        let concerned = Concerned::of(concerns, self.plan.hides_empty_services);
        let mut layers = Vec::new();
        let mut drafts = Vec::new();
        let zones = self.plan.zones().zip(self.zones);
        for ((place, edit), (plan, zone)) in self.edits.into_iter().enumerate().zip(zones) {
            let edit = match &zone.overlay {
                None => edit,
                // The rendering of a zone whose file was not read is not used.
                Some(overlay) if overlay.file.is_none() => edit,
                Some(overlay) => {
                    let is_new = self.is_whole || overlay.layer.is_none();
                    let gone = is_new.then_some(&self.gone);
                    let (merged, layer) = merge(
                        place,
                        edit,
                        overlay,
                        &zone.base().unwrap_or_else(|| nothing(plan)),
                        gone,
                        &mut causes,
                    );
                    layers.push(layer);
                    merged
                }
            };
            drafts.push(narrowed_draft(edit, &causes, &concerned));
        }
        Rendering {
            drafts,
            layers,
            problems: self.problems,
            contested: self.contested,
            work,
        }
    }
}

/// A zone with nothing in it.
fn nothing(plan: &ZonePlan) -> Contents {
    Contents::empty(&plan.name, soa(&plan.apex))
}

/// The node of an address with these PTRs in its reverse zone, if there are any. The apex of a zone of
/// one address (CIDR /32, or a network that ends within an octet) has NS beside them, and stands always.
fn pointer_node(
    address: IpAddr,
    plan: &ZonePlan,
    mut records: Vec<Record>,
    own: impl FnOnce() -> Vec<Record>,
) -> Option<Node> {
    let apex = &plan.name;
    if Name::reverse_of(address) == *apex {
        let own = own().into_iter();
        records.extend(own.filter(|record| record.owner == *apex));
    }
    nodes_of(records, apex).pop()
}
