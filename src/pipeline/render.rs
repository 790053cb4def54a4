//! Facts become edits of zones: what is dirty is rendered again, or everything at once.
//!
//! A Service owns the subtree at its name in every forward zone, a pod's address its own name there, an
//! address its owner in one reverse zone, the apex the few names that come from the configuration. Rendering dirty keys one by one gives
//! what rendering everything gives; the laws in `tests` hold this to it.

mod clusterset;
mod external;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use crate::cluster::{
    Cause, Dirty, FactKey, Kind, ObjectKey, Origin, PodAddress, Service, State, Verb,
};
use crate::dns::{Name, Rdata, Record, Rtype, Ttl};
use crate::pipeline::plan::{ClusterPlan, ZonePlan};
use crate::schema::{
    Problem, apex_records, pod_name, pod_record, pointers, render_service, service_name, soa,
};
use crate::zone::{Contents, Draft, Edit, Node};

/// The edit of one zone and the groups of causes that its tags name.
#[derive(Debug)]
struct ZoneEdit {
    /// The edit.
    edit: Edit,
    /// Group of causes to its tag.
    tags: HashMap<BTreeSet<u32>, u32>,
}

impl ZoneEdit {
    /// The tag of a group of causes.
    fn tag(&mut self, causes: &BTreeSet<u32>) -> u32 {
        let next = u32::try_from(self.tags.len()).expect("fewer than 2^32 groups in one batch");
        *self.tags.entry(causes.clone()).or_insert(next)
    }

    /// Sets what stands at and below a name to exactly these nodes.
    fn put_subtree(&mut self, name: &Name, nodes: Vec<Node>, causes: &BTreeSet<u32>) {
        let Some(key) = name.sort_key(self.edit.contents().apex()) else {
            return;
        };
        let tag = self.tag(causes);
        let nodes = nodes.into_iter().map(|node| (node, tag)).collect();
        self.edit.replace_subtree(key.as_bytes(), nodes, tag);
    }

    /// Sets what stands at the owner of an address.
    fn put_address(&mut self, address: IpAddr, node: Option<Node>, causes: &BTreeSet<u32>) {
        let tag = self.tag(causes);
        match node {
            Some(node) => self.edit.set(node, tag),
            None => {
                let owner = Name::reverse_of(address);
                if let Some(key) = owner.sort_key(self.edit.contents().apex()) {
                    self.edit.remove(key.as_bytes(), tag);
                }
            }
        }
    }

    /// Sets the whole zone to its own records and these nodes; an earlier version's others go.
    fn put_whole(&mut self, plan: &ZonePlan, mut nodes: Vec<(Node, u32)>, whole: &WholeCauses) {
        let apex = plan.zone.apex();
        let tag = self.tag(&whole.configured);
        let gone = self.tag(&whole.vanished);
        let own = nodes_of(apex_records(apex, &plan.apex), apex);
        nodes.extend(own.into_iter().map(|node| (node, tag)));
        // The sort is stable: an apex that has PTRs stands before the same without.
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        nodes.dedup_by(|(after, _), (before, _)| after == before);
        self.edit.set_soa(soa(&plan.apex));
        self.edit.replace_subtree(&[], nodes, gone);
    }
}

/// A draft of one zone with the groups of causes its tags name.
#[derive(Debug)]
pub struct ZoneDraft {
    /// The next contents and the difference.
    pub draft: Draft,
    /// Groups of causes, by tag.
    pub causes: Vec<Vec<Cause>>,
}

/// What a rendering gives: a draft for each zone, in the plan's order, and what could not be rendered.
#[derive(Debug)]
pub struct Rendering {
    /// Drafts, empty ones too.
    pub drafts: Vec<ZoneDraft>,
    /// Problems of the keys that were rendered, by Service and ServiceImport.
    pub problems: BTreeMap<FactKey, Vec<Problem>>,
    /// How many Services were rendered: the work done.
    pub services_rendered: usize,
    /// How many addresses were rendered.
    pub addresses_rendered: usize,
    /// How many names of pods were rendered.
    pub pods_rendered: usize,
}

/// Renders one cluster.
#[derive(Debug)]
struct Renderer<'a> {
    /// The facts.
    state: &'a State,
    /// The zones.
    plan: &'a ClusterPlan,
    /// The edits, in the plan's order.
    edits: Vec<ZoneEdit>,
    /// What could not be rendered.
    problems: BTreeMap<FactKey, Vec<Problem>>,
}

/// Renders what is dirty on top of the current contents; with `new_imports` also all that leads to
/// ServiceImports, which were listed for the first time.
#[must_use]
pub fn render_dirty(
    state: &State,
    plan: &ClusterPlan,
    dirty: &Dirty,
    new_imports: bool,
) -> Rendering {
    let mut causes = Cow::Borrowed(&dirty.causes);
    let mut renderer = Renderer::new(state, plan);
    for (key, causes) in &dirty.services {
        renderer.service(key, causes);
        renderer.external_service(key, causes);
    }
    if new_imports {
        let whole = WholeCauses::beside(causes.to_mut(), plan);
        renderer.clusterset_zones(dirty, &whole);
        renderer.reverse_zones(dirty, &whole);
    } else if state.has_imports() {
        for (key, causes) in &dirty.imports {
            renderer.import(key, causes);
        }
    }
    for (address, causes) in &dirty.addresses {
        renderer.address(*address, causes);
        renderer.external_address(*address, causes);
    }
    for (at, causes) in &dirty.pods {
        renderer.pod(at, causes);
    }
    let work = [
        dirty.services.len(),
        dirty.addresses.len(),
        dirty.pods.len(),
    ];
    renderer.finish(&causes, work)
}

/// The causes of a whole rendering that no single object has.
struct WholeCauses {
    /// For what comes from the configuration.
    configured: BTreeSet<u32>,
    /// For what an earlier run published and no object asks for any more.
    vanished: BTreeSet<u32>,
}

impl WholeCauses {
    /// Puts them beside others; gives their places.
    fn beside(causes: &mut Vec<Cause>, plan: &ClusterPlan) -> Self {
        let mut whole = |verb| {
            let place = u32::try_from(causes.len()).expect("fewer than 2^32 causes in one batch");
            let key = ObjectKey::new("", &plan.source);
            causes.push(Cause {
                verb,
                kind: None,
                key,
                origin: Origin::default(),
            });
            BTreeSet::from([place])
        };
        Self {
            configured: whole(Verb::Configured),
            vanished: whole(Verb::Vanished),
        }
    }
}

/// Renders everything: what is in the current contents and not rendered goes.
#[must_use]
pub fn render_all(state: &State, plan: &ClusterPlan, dirty: &Dirty) -> Rendering {
    let mut causes = dirty.causes.clone();
    let whole = WholeCauses::beside(&mut causes, plan);
    let mut renderer = Renderer::new(state, plan);
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
    renderer.finish(&causes, work)
}

impl<'a> Renderer<'a> {
    /// A renderer on top of the current versions.
    fn new(state: &'a State, plan: &'a ClusterPlan) -> Self {
        let edit_of = |zone_plan: &ZonePlan| {
            let contents = zone_plan.zone.current().map_or_else(
                || Contents::empty(zone_plan.zone.apex(), soa(&zone_plan.apex)),
                |version| version.contents.clone(),
            );
            ZoneEdit {
                edit: Edit::new(&contents),
                tags: HashMap::new(),
            }
        };
        let edits = plan.zones().map(edit_of).collect();
        Self {
            state,
            plan,
            edits,
            problems: BTreeMap::new(),
        }
    }

    /// A Service that may be seen.
    fn exposed(&self, key: &ObjectKey) -> Option<&'a Service> {
        self.plan.sees_service(self.state, key)
    }

    /// The node of a pod's name in a forward zone, if such a pod is there and may be seen.
    fn pod_node(&self, at: &PodAddress, apex: &Name) -> Option<Node> {
        let is_seen = self.state.has_pod(at) && self.plan.sees_namespace(self.state, &at.namespace);
        let record = is_seen.then(|| pod_record(&at.namespace, at.address, apex, self.plan.ttl))?;
        nodes_of(record.into_iter().collect(), apex).pop()
    }

    /// Renders a pod's name into every forward zone.
    fn pod(&mut self, at: &PodAddress, causes: &BTreeSet<u32>) {
        for place in 0..self.plan.forward.len() {
            let apex = self.plan.forward[place].zone.apex().clone();
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
            let apex = self.plan.forward[place].zone.apex().clone();
            let nodes = self.service_nodes(key, &apex);
            if let Ok(base) = service_name(key, &apex) {
                self.edits[place].put_subtree(&base, nodes, causes);
            }
        }
    }

    /// The nodes of a Service in a forward zone, in canonical order; none when it is hidden.
    fn service_nodes(&mut self, key: &ObjectKey, apex: &Name) -> Vec<Node> {
        let Some(service) = self.exposed(key) else {
            return Vec::new();
        };
        let slices = self.state.slices_of(&service.key);
        let rendered = render_service(service, slices, apex, self.plan.ttl);
        self.note(Kind::Service.of(key), rendered.problems);
        nodes_of(rendered.records, apex)
    }

    /// Notes what of a key could not be rendered.
    fn note(&mut self, key: FactKey, problems: Vec<Problem>) {
        if !problems.is_empty() {
            let known = self.problems.entry(key).or_default();
            known.extend(problems);
            known.sort();
            known.dedup();
        }
    }

    /// The node of an address in its reverse zone, if it has PTRs.
    fn address_node(&self, address: IpAddr, plan: &ZonePlan) -> Option<Node> {
        let holders: Vec<_> = self
            .state
            .holders(address)
            .iter()
            .filter_map(|key| self.exposed(key))
            .map(|service| (service, self.state.slices_of(&service.key)))
            .collect();
        let home = self.plan.forward.first();
        let mut records = home
            .map(|home| pointers(address, &holders, home.zone.apex(), self.plan.ttl))
            .unwrap_or_default();
        if records.is_empty() {
            records = self.import_pointers(address);
        }
        pointer_node(address, plan, records)
    }

    /// Renders an address into its reverse zone, if there is one.
    fn address(&mut self, address: IpAddr, causes: &BTreeSet<u32>) {
        let Some(place) = self.plan.reverse_zone_of(address) else {
            return;
        };
        let Some(plan) = self.plan.zones().nth(place) else {
            return;
        };
        let node = self.address_node(address, plan);
        if node.is_none() && self.stays_at(address, &self.edits[place]) {
            return;
        }
        self.edits[place].put_address(address, node, causes);
    }

    /// Renders a whole forward zone.
    fn forward_zone(&mut self, place: usize, dirty: &Dirty, whole: &WholeCauses) {
        let plan = &self.plan.forward[place];
        let apex = plan.zone.apex().clone();
        let mut nodes: Vec<(Node, u32)> = Vec::new();
        for service in self.state.services() {
            let rendered = self.service_nodes(&service.key, &apex);
            let causes = dirty
                .services
                .get(&service.key)
                .unwrap_or(&whole.configured);
            let tag = self.edits[place].tag(causes);
            nodes.extend(rendered.into_iter().map(|node| (node, tag)));
        }
        for at in self.state.pods() {
            let causes = dirty.pods.get(at).unwrap_or(&whole.configured);
            if let Some(node) = self.pod_node(at, &apex) {
                nodes.push((node, self.edits[place].tag(causes)));
            }
        }
        self.edits[place].put_whole(plan, nodes, whole);
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
            if let Some(node) = self.address_node(address, plan) {
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
            self.edits[place].put_whole(plan, nodes, whole);
        }
    }

    /// Ends all edits; `work` is how many Services, addresses and pods were rendered.
    fn finish(self, causes: &[Cause], work: [usize; 3]) -> Rendering {
        let [services, addresses, pods] = work;
        let drafts = self
            .edits
            .into_iter()
            .map(|edit| draft_of(edit, causes))
            .collect();
        Rendering {
            drafts,
            problems: self.problems,
            services_rendered: services,
            addresses_rendered: addresses,
            pods_rendered: pods,
        }
    }
}

/// The node of an address with these PTRs in its reverse zone, if there are any. The apex of a zone of
/// one address (CIDR /32, or a network that ends within an octet) has NS beside them, and stands always.
fn pointer_node(address: IpAddr, plan: &ZonePlan, mut records: Vec<Record>) -> Option<Node> {
    let apex = plan.zone.apex();
    if Name::reverse_of(address) == *apex {
        let own = apex_records(apex, &plan.apex).into_iter();
        records.extend(own.filter(|record| record.owner == *apex));
    }
    nodes_of(records, apex).pop()
}

/// Ends one edit and keeps only the groups of causes that a record names.
fn draft_of(edit: ZoneEdit, causes: &[Cause]) -> ZoneDraft {
    let ZoneEdit { edit, tags } = edit;
    let mut draft = edit.finish();
    let mut groups: Vec<(u32, BTreeSet<u32>)> =
        tags.into_iter().map(|(group, tag)| (tag, group)).collect();
    groups.sort_by_key(|(tag, _)| *tag);
    let used: BTreeSet<u32> = draft
        .removed
        .iter()
        .chain(draft.added.iter())
        .map(|rr| rr.tag)
        .collect();
    let renumbered: HashMap<u32, u32> =
        (0_u32..).zip(&used).map(|(new, old)| (*old, new)).collect();
    if renumbered.iter().any(|(old, new)| old != new) {
        let new_tag = |tag| renumbered.get(&tag).copied().unwrap_or(0);
        draft.removed.retag(new_tag);
        draft.added.retag(new_tag);
    }
    let cause_at = |place: &u32| causes.get(*place as usize).cloned();
    let mut kept: Vec<Vec<Cause>> = groups
        .iter()
        .filter(|(tag, _)| used.contains(tag))
        .map(|(_, group)| group.iter().filter_map(cause_at).collect())
        .collect();
    if kept.is_empty() && draft.soa_changed {
        kept = vec![
            causes
                .iter()
                .filter(|cause| cause.verb == Verb::Configured)
                .cloned()
                .collect(),
        ];
    }
    ZoneDraft {
        draft,
        causes: kept,
    }
}

/// Type, TTL and data of the records of one owner.
type Parts = Vec<(Rtype, Ttl, Rdata)>;

/// Records as nodes of a zone, in canonical order.
fn nodes_of(records: Vec<Record>, apex: &Name) -> Vec<Node> {
    let mut owners: HashMap<Name, Parts> = HashMap::new();
    for Record {
        owner,
        rtype,
        ttl,
        rdata,
    } in records
    {
        owners.entry(owner).or_default().push((rtype, ttl, rdata));
    }
    let mut nodes: Vec<Node> = owners
        .into_iter()
        .filter_map(|(owner, mut parts)| Node::build(&owner, apex, &mut parts))
        .collect();
    nodes.sort();
    nodes
}
