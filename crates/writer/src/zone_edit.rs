//! The edit of one zone with its causes, and its end: the draft of a version.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use dns::{Name, Rdata, Record, RrList, Rtype, Ttl};
use kubernetes::schema::{Concerned, apex_records, soa};
use provenance::{Cause, Kind, Verb};
use zone::{Draft, Edit, Node};

use crate::plan::ZonePlan;

/// The edit of one zone and the groups of causes that its tags name.
#[derive(Debug)]
pub(crate) struct ZoneEdit {
    pub(crate) edit: Edit,
    /// Group of causes to its tag.
    pub(crate) tags: HashMap<BTreeSet<u32>, u32>,
}

impl ZoneEdit {
    /// An edit without any cause yet.
    pub(crate) fn new(edit: Edit) -> Self {
        Self {
            edit,
            tags: HashMap::new(),
        }
    }

    /// The tag of a group of causes.
    pub(crate) fn tag(&mut self, causes: &BTreeSet<u32>) -> u32 {
        if let Some(known) = self.tags.get(causes) {
            return *known;
        }
        let next = u32::try_from(self.tags.len()).expect("fewer than 2^32 groups in one batch");
        self.tags.insert(causes.clone(), next);
        next
    }

    /// The groups of causes so far, by tag.
    pub(crate) fn groups(&self) -> HashMap<u32, BTreeSet<u32>> {
        let groups = self.tags.iter();
        groups.map(|(group, tag)| (*tag, group.clone())).collect()
    }

    /// Replaces everything at and below a name by these nodes.
    pub(crate) fn put_subtree(&mut self, name: &Name, nodes: Vec<Node>, causes: &BTreeSet<u32>) {
        let Some(key) = name.sort_key(self.edit.contents().apex()) else {
            return;
        };
        let tag = self.tag(causes);
        let nodes = nodes.into_iter().map(|node| (node, tag)).collect();
        self.edit.replace_subtree(key.as_bytes(), nodes, tag);
    }

    /// Sets the node of an address.
    pub(crate) fn put_address(
        &mut self,
        address: IpAddr,
        node: Option<Node>,
        causes: &BTreeSet<u32>,
    ) {
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

    /// Removes everything at and below a name except these nodes, which must be in canonical order. The causes are those of the
    /// nodes that stay. The cost follows the number of nodes there.
    pub(crate) fn remove_others(&mut self, base: &Name, nodes: &[Node], tag: u32) {
        let contents = self.edit.contents();
        let Some(key) = base.sort_key(contents.apex()) else {
            return;
        };
        let stays = |old: &&Node| {
            nodes
                .binary_search_by(|node| node.key().cmp(old.key()))
                .is_ok()
        };
        let leaving = contents.subtree(key.as_bytes()).filter(|old| !stays(old));
        let leaving: Vec<Node> = leaving.cloned().collect();
        for node in leaving {
            self.edit.remove(node.key(), tag);
        }
    }

    /// Replaces the whole zone by its own records and these nodes.
    pub(crate) fn put_whole(
        &mut self,
        plan: &ZonePlan,
        nodes: Vec<(Node, u32)>,
        whole: &WholeCauses,
    ) {
        let own = apex_records(&plan.name, &plan.apex);
        self.put_whole_with(plan, own, nodes, whole);
    }

    /// As [`Self::put_whole`], with these records as the zone's own.
    pub(crate) fn put_whole_with(
        &mut self,
        plan: &ZonePlan,
        own: Vec<Record>,
        mut nodes: Vec<(Node, u32)>,
        whole: &WholeCauses,
    ) {
        let tag = self.tag(&whole.configured);
        let gone = self.tag(&whole.vanished);
        let own = nodes_of(own, &plan.name);
        nodes.extend(own.into_iter().map(|node| (node, tag)));
        // The sort is stable: an apex with PTRs comes before the same without.
        nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
        nodes.dedup_by(|(after, _), (before, _)| after == before);
        self.edit.set_soa(soa(&plan.apex));
        self.edit.replace_subtree(&[], nodes, gone);
    }
}

/// The causes of a whole rendering that no single object has.
pub(crate) struct WholeCauses {
    /// For records from the configuration.
    pub(crate) configured: BTreeSet<u32>,
    /// For records of an earlier run that no object has any more.
    pub(crate) vanished: BTreeSet<u32>,
}

impl WholeCauses {
    /// Appends them to others; gives their places.
    pub(crate) fn beside(causes: &mut Vec<Cause>, source: &str) -> Self {
        let mut whole = |verb| {
            let place = u32::try_from(causes.len()).expect("fewer than 2^32 causes in one batch");
            causes.push(Cause::of(verb, source));
            BTreeSet::from([place])
        };
        Self {
            configured: whole(Verb::Configured),
            vanished: whole(Verb::Vanished),
        }
    }
}

/// A draft of one zone with the groups of causes its tags name.
#[derive(Debug)]
pub(crate) struct ZoneDraft {
    /// The next contents and the difference.
    pub(crate) draft: Draft,
    /// Groups of causes, by tag.
    pub(crate) causes: Vec<Vec<Cause>>,
}

/// Ends one edit and keeps only the groups of causes that a record names.
pub(crate) fn draft_of(edit: ZoneEdit, causes: &[Cause]) -> ZoneDraft {
    narrowed_draft(edit, causes, &Concerned::default())
}

/// As [`draft_of`]; of the causes of a record, those stay that concern it.
pub(crate) fn narrowed_draft(edit: ZoneEdit, causes: &[Cause], concerned: &Concerned) -> ZoneDraft {
    let ZoneEdit { edit, mut tags } = edit;
    let mut draft = edit.finish();
    if !concerned.is_empty() {
        narrow(&mut draft, &mut tags, concerned);
    }
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
        .map(|(_, group)| listed(group.iter().filter_map(cause_at).collect()))
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

/// Leaves each record those causes of its group that concern it.
fn narrow(draft: &mut Draft, tags: &mut HashMap<BTreeSet<u32>, u32>, concerned: &Concerned) {
    let is_wide = |group: &BTreeSet<u32>| {
        group.len() > 1 && group.iter().any(|cause| concerned.is_partial(*cause))
    };
    let wide = tags.iter().filter(|(group, _)| is_wide(group));
    let wide: HashMap<u32, BTreeSet<u32>> =
        wide.map(|(group, tag)| (*tag, group.clone())).collect();
    if wide.is_empty() {
        return;
    }
    for list in [&mut draft.removed, &mut draft.added] {
        let mut narrowed = RrList::with_capacity(list.as_octets().len());
        for mut rr in &*list {
            if let Some(group) = wide.get(&rr.tag) {
                let next = u32::try_from(tags.len()).expect("fewer than 2^32 groups in one batch");
                rr.tag = *tags.entry(concerned.narrowed(group, rr)).or_insert(next);
            }
            narrowed.push(rr);
        }
        narrowed.shrink();
        *list = narrowed;
    }
}

/// Puts the objects of complete lists into an order that does not tell which list came first. That its namespace
/// is there is no news of an object beside it.
fn listed(mut group: Vec<Cause>) -> Vec<Cause> {
    if group.iter().any(|cause| cause.verb != Verb::Listed) {
        return group;
    }
    let is_namespace = |cause: &Cause| cause.kind == Some(Kind::Namespace);
    if !group.iter().all(is_namespace) {
        group.retain(|cause| !is_namespace(cause));
    }
    group.sort_by(|a, b| (a.kind, &a.key).cmp(&(b.kind, &b.key)));
    group
}

/// Type, TTL and data of the records of one owner.
type Parts = Vec<(Rtype, Ttl, Rdata)>;

/// Records as nodes of a zone, in canonical order.
pub(crate) fn nodes_of(records: Vec<Record>, apex: &Name) -> Vec<Node> {
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
