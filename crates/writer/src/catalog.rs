//! Catalogs in the writer: zones that list the zones of this server (RFC 9432).
//!
//! A member is announced after its first version is served, never before. While it is configured it stays announced. A
//! catalog begins only when all its members have versions, because a secondary drops zones that are not listed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dns::Name;
use kubernetes::schema::{CatalogLabels, CatalogMember, catalog_records};
use ops::millis;
use provenance::{Cause, Verb};
use zone::{Contents, Edit, Zone, ZoneSet};

use crate::ahead::Ahead;
use crate::guard::{Ready, name_version};
use crate::plan::CatalogPlan;
use crate::zone_edit::{ZoneDraft, ZoneEdit, draft_of, nodes_of};
use crate::{Pipeline, Store};

/// A catalog as the writer holds it.
#[derive(Debug)]
pub(super) struct HeldCatalog {
    pub(super) plan: CatalogPlan,
    /// The catalog's own zone.
    pub(super) zone: Arc<Zone>,
    /// The zones that it may list, in the plan's order.
    members: Vec<Arc<Zone>>,
    /// Whether it was compared with the configuration in this run.
    is_settled: bool,
    waiting: Vec<Arc<Zone>>,
    /// The serials that the next one must be above.
    pub(super) ahead: Ahead,
    /// Causes of the next version, until all members are there.
    pub(super) notes: Vec<Cause>,
}

impl HeldCatalog {
    pub(super) fn new(plan: CatalogPlan, zones: &ZoneSet) -> Self {
        let zone_of = |apex: &Name| {
            let zone = zones.get(apex);
            Arc::clone(zone.expect("a plan comes with its zones"))
        };
        let members: Vec<_> = plan.members.iter().map(|it| zone_of(&it.zone)).collect();
        Self {
            zone: zone_of(&plan.zone),
            is_settled: false,
            ahead: Ahead::default(),
            notes: Vec::new(),
            waiting: members.clone(),
            members,
            plan,
        }
    }

    /// Has the next commit compare it with the configuration.
    pub(super) fn compare_anew(&mut self) {
        self.is_settled = false;
        self.waiting.clone_from(&self.members);
    }

    /// Whether something may have changed.
    fn is_due(&self) -> bool {
        let mut waiting = self.waiting.iter();
        !self.is_settled || self.ahead.is_some() || waiting.any(|zone| zone.current().is_some())
    }

    /// The labels in the published catalog.
    fn labels(&self) -> CatalogLabels {
        let mut labels = CatalogLabels::default();
        let Some(version) = self.zone.current() else {
            return labels;
        };
        let apex = self.zone.apex();
        for node in version.contents.nodes() {
            let Ok(owner) = Name::from_wire(&node.owner_wire(apex)) else {
                continue;
            };
            for rrset in node.rrsets() {
                for data in rrset.data() {
                    labels.note(apex, &owner, rrset.rtype, data);
                }
            }
        }
        labels
    }

    /// The draft of its next version.
    fn draft(&self, source: &str) -> ZoneDraft {
        let Self { plan, zone, .. } = self;
        let (apex, soa) = (zone.apex(), &plan.soa);
        let labels = self.labels();
        let members = plan.members.iter().zip(&self.members);
        let listed: Vec<CatalogMember> = members
            .filter(|(member, zone)| zone.current().is_some() || labels.lists(&member.zone))
            .map(|(member, _)| member.clone())
            .collect();
        let current = zone.current();
        let empty = Contents::empty(apex, soa.clone());
        let contents = current.as_ref().map_or(&empty, |version| &version.contents);
        let mut edit = ZoneEdit::new(Edit::new(contents));
        let cause = Cause::of(Verb::Configured, source);
        let tag = edit.tag(&BTreeSet::from([0]));
        match catalog_records(apex, &listed, &labels) {
            Ok(records) => {
                edit.edit.set_soa(soa.clone());
                let nodes = nodes_of(records, apex).into_iter();
                edit.edit
                    .replace_subtree(&[], nodes.map(|node| (node, tag)).collect(), tag);
            }
            Err(error) => tracing::error!(zone = %apex, %error, "the catalog cannot be written"),
        }
        draft_of(edit, &[cause])
    }
}

impl<S: Store> Pipeline<S> {
    /// Adds catalogs.
    #[must_use]
    pub fn with_catalogs(mut self, catalogs: Vec<CatalogPlan>) -> Self {
        let catalogs = catalogs.into_iter();
        self.catalogs = catalogs
            .map(|plan| HeldCatalog::new(plan, &self.zones))
            .collect();
        self
    }

    /// Whether a zone has to wait for ServiceImports that are away.
    fn is_away(&self, zone: &Arc<Zone>) -> bool {
        self.clusters.iter().any(|cluster| {
            let mut zones = cluster.plan.dispensable_zones();
            zones.any(|plan| plan.name == *zone.apex())
                && cluster
                    .handles
                    .gauges
                    .imports_stale_since_ms
                    .load(Ordering::Relaxed)
                    > 0
        })
    }

    /// Whether a catalog can be written: it has a version, or all its members have one.
    fn may_begin(&self, catalog: &HeldCatalog) -> bool {
        let has_one = |zone: &Arc<Zone>| zone.current().is_some();
        let mut members = catalog.members.iter();
        has_one(&catalog.zone)
            || (members.clone().any(has_one)
                && members.all(|zone| has_one(zone) || self.is_away(zone)))
    }

    /// Renders and commits the catalogs, after the zones that they list. False if the store failed.
    pub(super) fn commit_catalogs(&mut self) -> bool {
        let now_ms = millis(self.clock.wall());
        let due: Vec<usize> = (0..self.catalogs.len())
            .filter(|place| self.catalogs[*place].is_due())
            .filter(|place| self.may_begin(&self.catalogs[*place]))
            .collect();
        let mut candidates = Vec::new();
        for place in &due {
            let catalog = &self.catalogs[*place];
            let zone = &catalog.zone;
            let mut draft = catalog.draft("catalog");
            let previous = zone.current();
            let noted = catalog.notes.iter().filter(|_| previous.is_some()).cloned();
            name_version(&mut draft, noted, false);
            if previous.is_none() || !draft.draft.is_empty() || catalog.ahead.is_some() {
                let ready = Ready {
                    is_signed: false,
                    zone: Arc::clone(zone),
                    limits: catalog.plan.retention.memory_limits(),
                    draft: catalog.ahead.name(draft),
                    wanted: None,
                    ahead: catalog.ahead.serial(),
                };
                candidates.push(self.next_version(ready, now_ms));
            }
        }
        if !candidates.is_empty() && !self.write(candidates) {
            return false;
        }
        for place in due {
            let catalog = &mut self.catalogs[place];
            catalog.is_settled = true;
            catalog.ahead.settle(&catalog.zone);
            catalog.waiting.retain(|zone| zone.current().is_none());
            if catalog.waiting.is_empty() {
                catalog.notes.clear();
            }
            catalog.zone.set_stale_since_ms(None);
        }
        true
    }
}
