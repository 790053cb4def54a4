//! A zone from etcd in the writer: its keys, and the names that are to be rendered.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use dns::{Name, Record, Rtype};
use etcd::source::EtcdEvent;
use etcd::{Dirty, Tree};
use kubernetes::schema::{ApexSettings, NameServer, apex_records, soa};
use ops::millis;
use zone::{Contents, Edit, Node, Zone, ZoneSet};

use crate::guard::{Guard, Now, Ready, ShareRule};
use crate::plan::EtcdPlan;
use crate::zone_edit::{WholeCauses, ZoneDraft, ZoneEdit, draft_of, nodes_of};

/// The problems of one zone that are listed.
const MOST_PROBLEMS: usize = 100;

/// A zone from etcd.
#[derive(Debug)]
pub(super) struct EtcdZone {
    /// The zone that readers share.
    pub(super) zone: Arc<Zone>,
    pub(super) plan: EtcdPlan,
    pub(super) guard: Guard,
    tree: Tree,
    dirty: Dirty,
    /// Whether all keys were listed.
    is_listed: bool,
    /// Whether the whole zone is to be rendered: at first.
    is_all_dirty: bool,
    /// Since when etcd is away, milliseconds since 1970 UTC.
    stale_since_ms: Option<u64>,
    /// What names lack, and why.
    problems: BTreeMap<Name, Vec<String>>,
    /// The problems that were reported.
    reported: BTreeSet<String>,
}

impl EtcdZone {
    /// A zone whose keys were not listed yet.
    pub(super) fn new(plan: EtcdPlan, zones: &ZoneSet) -> Self {
        let zone = zones.get(&plan.zone.name);
        Self {
            zone: Arc::clone(zone.expect("a plan comes with its zones")),
            guard: Guard::new(plan.zone.gate, ShareRule::None),
            tree: Tree::new(plan.layout.clone()),
            plan,
            dirty: Dirty::default(),
            is_listed: false,
            is_all_dirty: true,
            stale_since_ms: None,
            problems: BTreeMap::new(),
            reported: BTreeSet::new(),
        }
    }

    /// Takes an event. Gives when a change was seen that is to be rendered.
    pub(super) fn take(&mut self, event: EtcdEvent) -> Option<Instant> {
        match event {
            EtcdEvent::Listed { keys, seen } => {
                self.tree.replace(keys, &mut self.dirty);
                self.is_listed = true;
                if self.stale_since_ms.take().is_some() {
                    tracing::info!(zone = %self.zone.apex(), "etcd is reachable");
                }
                (!self.dirty.names.is_empty()).then_some(seen)
            }
            EtcdEvent::Changed { changes, seen } => {
                for change in changes {
                    self.tree.apply(change, &mut self.dirty);
                }
                (!self.dirty.names.is_empty()).then_some(seen)
            }
            EtcdEvent::Stale { since, reason } => {
                let is_news = self.stale_since_ms.is_none();
                self.stale_since_ms.get_or_insert(millis(since));
                if self.zone.stale_since_ms().is_none() {
                    self.zone.set_stale_since_ms(self.stale_since_ms);
                }
                let zone = self.zone.apex();
                match self.zone.current() {
                    _ if !is_news => {}
                    Some(_) => {
                        tracing::error!(%zone, reason, "etcd is unreachable; the last version is served as stale");
                    }
                    None => {
                        tracing::error!(%zone, reason, "etcd is unreachable; the zone answers SERVFAIL until it is reachable, because it has no version yet");
                    }
                }
                None
            }
        }
    }

    /// Renders what is dirty. Gives a draft that may be published.
    pub(super) fn render(&mut self, now: Now) -> Option<Ready> {
        let is_due = self.is_listed && (self.is_all_dirty || !self.dirty.names.is_empty());
        let zone = Arc::clone(&self.zone);
        let draft = match is_due {
            true => {
                let draft = self.draft();
                self.guard.take_in(&zone, draft, now)
            }
            false => self.guard.leave(&zone, now),
        };
        draft.map(|draft| Ready {
            is_signed: false,
            zone,
            limits: self.plan.zone.retention.memory_limits(),
            draft,
            wanted: None,
            ahead: self.guard.ahead.serial(),
        })
    }

    /// Notes that the rendered names are durable or held. Gives what is left out of the zone if that has changed.
    pub(super) fn settle(&mut self) -> Option<&BTreeSet<String>> {
        if !self.is_listed {
            return None;
        }
        if self.zone.stale_since_ms() != self.stale_since_ms {
            self.zone.set_stale_since_ms(self.stale_since_ms);
        }
        let was_due = std::mem::take(&mut self.is_all_dirty) || !self.dirty.causes.is_empty();
        self.dirty = Dirty::default();
        (was_due && self.report()).then_some(&self.reported)
    }

    /// The keys were listed, and another replica makes the versions.
    pub(super) fn follow(&mut self) {
        if self.is_listed {
            self.zone.set_stale_since_ms(self.stale_since_ms);
            self.dirty = Dirty::default();
            self.is_all_dirty = true;
        }
    }

    /// Has the next commit render the whole zone.
    pub(super) fn render_anew(&mut self) {
        self.is_all_dirty = true;
    }

    /// The settings of the apex, with the name servers among the keys.
    fn apex(&self) -> ApexSettings {
        let mut apex = self.plan.zone.apex.clone();
        if self.plan.reads_servers {
            let of_keys = self.tree.name_servers(&self.plan.settings).into_keys();
            let servers: Vec<_> = of_keys
                .map(|name| NameServer {
                    name,
                    addresses: Vec::new(),
                })
                .collect();
            if !servers.is_empty() {
                apex.name_servers = servers;
            }
        }
        apex
    }

    fn draft(&mut self) -> ZoneDraft {
        let apex = self.apex();
        let own = apex_records(self.zone.apex(), &apex);
        let empty = Contents::empty(self.zone.apex(), soa(&apex));
        let served = self.zone.current();
        let served = served.as_ref().map(|version| &version.contents);
        let base = self.guard.base().or(served).unwrap_or(&empty).clone();
        let mut edit = ZoneEdit::new(Edit::new(&base));
        edit.edit.set_soa(soa(&apex));
        let mut causes = self.dirty.causes.clone();
        let source = format!("etcd {}", self.plan.layout.prefix());
        let whole = WholeCauses::beside(&mut causes, &source);
        if self.is_all_dirty {
            let mut names = self.tree.names();
            names.extend(own.iter().map(|record| record.owner.clone()));
            self.problems.clear();
            let mut nodes: Vec<(Node, u32)> = Vec::with_capacity(names.len());
            for name in &names {
                let group = self.dirty.names.get(name).unwrap_or(&whole.configured);
                let tag = edit.tag(group);
                let node = node_of(&self.plan, &self.tree, name, &own, &mut self.problems);
                nodes.extend(node.map(|node| (node, tag)));
            }
            nodes.sort_by(|(a, _), (b, _)| a.cmp(b));
            let gone = edit.tag(&whole.vanished);
            edit.edit.replace_subtree(&[], nodes, gone);
        } else {
            for (name, group) in &self.dirty.names {
                let tag = edit.tag(group);
                match node_of(&self.plan, &self.tree, name, &own, &mut self.problems) {
                    Some(node) => edit.edit.set(node, tag),
                    None => {
                        if let Some(key) = name.sort_key(self.zone.apex()) {
                            edit.edit.remove(key.as_bytes(), tag);
                        }
                    }
                }
            }
        }
        draft_of(edit, &causes)
    }

    /// Logs what is newly left out. Whether that has changed.
    fn report(&mut self) -> bool {
        let of_names = self.problems.values().flatten().take(MOST_PROBLEMS);
        let mut all: BTreeSet<String> = of_names.cloned().collect();
        all.extend(self.tree.problems().take(MOST_PROBLEMS));
        for new in all.difference(&self.reported) {
            tracing::warn!(zone = %self.zone.apex(), "{new}");
        }
        let differs = all != self.reported;
        self.reported = all;
        differs
    }
}

/// The node of a name, with the records of the zone's own that are there.
fn node_of(
    plan: &EtcdPlan,
    tree: &Tree,
    name: &Name,
    own: &[Record],
    problems: &mut BTreeMap<Name, Vec<String>>,
) -> Option<Node> {
    let mut rendered = tree.render(name, &plan.settings);
    let mut beside = own.iter().filter(|record| record.owner == *name).peekable();
    if beside.peek().is_some() {
        let before = rendered.records.len();
        rendered
            .records
            .retain(|record| record.rtype != Rtype::CNAME);
        if rendered.records.len() < before {
            let text = format!("{name} is a name server of the zone and cannot be an alias");
            rendered.problems.push(text);
        }
        rendered.records.extend(beside.cloned());
    }
    match rendered.problems.is_empty() {
        true => drop(problems.remove(name)),
        false => drop(problems.insert(name.clone(), rendered.problems)),
    }
    nodes_of(rendered.records, &plan.zone.name).pop()
}
