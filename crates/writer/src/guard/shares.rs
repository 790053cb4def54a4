//! The namespaces of a zone's records, and how many records each has.
//!
//! The schema gives each name of an object its namespace, so the name says whose record it is, also after a restart, when the
//! object is gone. A PTR belongs to the namespace of the name that it points to.

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Name, RrRef, Rtype, SortKey};
use kubernetes::schema::{Branch, ZoneForm};
use zone::gate::{Share, lost};
use zone::{Contents, Node, Version};

/// The most versions by which counts catch up. Counting anew costs less than more of them.
const CAUGHT_UP: usize = 1000;

/// How to find the namespace of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ShareRule {
    /// No record has one.
    #[default]
    None,
    /// The name of the record has it.
    Names(NameForm),
    /// The name in a PTR has it, in one of these zones.
    Pointers(Arc<[(NameForm, Name)]>),
}

/// The names of a zone that have a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameForm {
    /// `OBJECT.NAMESPACE.svc` and `OBJECT.NAMESPACE.pod`.
    InBranches,
    /// `OBJECT.NAMESPACE`.
    AtTop,
}

impl NameForm {
    /// That of a zone's form; `None` if the names have no namespace.
    pub(crate) const fn of(form: ZoneForm) -> Option<Self> {
        match form {
            ZoneForm::Forward | ZoneForm::Clusterset => Some(Self::InBranches),
            ZoneForm::External => Some(Self::AtTop),
            ZoneForm::Reverse => None,
        }
    }
}

impl ShareRule {
    /// The namespace of a name, given as sort key within its zone.
    fn of_key(form: NameForm, key: &[u8]) -> Option<&str> {
        let mut labels = key.split(|octet| *octet == 0);
        match form {
            NameForm::InBranches => {
                let branch = labels.next()?;
                let mut branches = [Branch::Services, Branch::Pods].into_iter();
                branches.find(|it| it.label().as_bytes() == branch)?;
            }
            NameForm::AtTop => {}
        }
        let namespace = labels.next()?;
        // Each label ends with an octet of zero: an object's own is before the last part, which is empty.
        labels.next().filter(|object| !object.is_empty())?;
        std::str::from_utf8(namespace).ok()
    }

    /// The namespace of a record with this sort key.
    fn of_record(&self, key: &[u8], rtype: Rtype, data: &[u8]) -> Option<Share> {
        match self {
            Self::None => None,
            Self::Names(form) => Self::of_key(*form, key).map(Share::new),
            Self::Pointers(_) if rtype != Rtype::PTR => None,
            Self::Pointers(zones) => zones.iter().find_map(|(form, zone)| {
                let key = SortKey::of_wire(data, zone.as_wire())?;
                Self::of_key(*form, key.as_bytes()).map(Share::new)
            }),
        }
    }

    /// The names at or below which a zone has those of a namespace.
    pub(super) fn subtrees(&self, apex: &Name, share: &Share) -> Vec<Name> {
        let namespace = share.as_str();
        match self {
            Self::None => Vec::new(),
            Self::Names(NameForm::InBranches) => {
                let branches = [Branch::Services, Branch::Pods];
                let names = branches.map(|branch| branch.namespace(namespace, apex).ok());
                names.into_iter().flatten().collect()
            }
            Self::Names(NameForm::AtTop) => apex.child(namespace).into_iter().collect(),
            // They are anywhere.
            Self::Pointers(_) => vec![apex.clone()],
        }
    }

    /// The namespace of an owner that changes: of what it loses, else of what it has.
    pub(super) fn of_change(
        &self,
        key: &[u8],
        old: Option<&Node>,
        new: Option<&Node>,
    ) -> Option<Share> {
        match self {
            Self::None => None,
            Self::Names(form) => Self::of_key(*form, key).map(Share::new),
            Self::Pointers(_) => {
                let pointers = |node: Option<&Node>| -> Vec<Vec<u8>> {
                    let rrset = node.and_then(|node| node.rrset(Rtype::PTR));
                    rrset
                        .into_iter()
                        .flat_map(|it| it.data())
                        .map(<[u8]>::to_vec)
                        .collect()
                };
                let (before, after) = (pointers(old), pointers(new));
                let is_loss = lost(old, new) > 0;
                let gone = before
                    .iter()
                    .filter(|data| is_loss && !after.contains(data));
                let mut all = gone.chain(&after).chain(&before);
                all.find_map(|data| self.of_record(key, Rtype::PTR, data))
            }
        }
    }
}

/// The records of each namespace in the served version.
#[derive(Debug, Default)]
pub(super) struct ShareCounts {
    /// The version that was counted; `None` before the first.
    seq: Option<u64>,
    counts: BTreeMap<Option<Share>, usize>,
}

impl ShareCounts {
    /// Counts a version. If one shortly before was counted, this costs what changed since then.
    pub(super) fn count(&mut self, rule: &ShareRule, version: &Version) {
        if self.seq == Some(version.seq) {
            return;
        }
        if !self.catch_up(rule, version) {
            self.counts = count_all(rule, &version.contents);
        }
        self.seq = Some(version.seq);
    }

    /// Forgets what was counted, because the rule is another.
    pub(super) fn forget(&mut self) {
        self.seq = None;
    }

    fn catch_up(&mut self, rule: &ShareRule, version: &Version) -> bool {
        let Some(behind) = self.seq.and_then(|seq| version.seq.checked_sub(seq)) else {
            return false;
        };
        let behind = usize::try_from(behind).unwrap_or(usize::MAX);
        if behind > CAUGHT_UP || behind > version.history.len() {
            return false;
        }
        let apex = version.contents.apex();
        let share_of = |rr: RrRef<'_>| {
            let key = SortKey::of_wire(rr.owner, apex.as_wire());
            key.and_then(|key| rule.of_record(key.as_bytes(), rr.rtype, rr.data))
        };
        for step in version.history.iter().skip(version.history.len() - behind) {
            for rr in &step.removed {
                let count = self.counts.entry(share_of(rr)).or_default();
                *count = count.saturating_sub(1);
            }
            for rr in &step.added {
                *self.counts.entry(share_of(rr)).or_default() += 1;
            }
        }
        self.counts.retain(|_, count| *count > 0);
        true
    }

    /// The records of a namespace, or those of none.
    pub(super) fn of(&self, share: &Option<Share>) -> usize {
        self.counts.get(share).copied().unwrap_or(0)
    }

    /// Whether these losses are all records of all namespaces.
    pub(super) fn are_all_lost(&self, lost: &BTreeMap<Option<Share>, usize>) -> bool {
        let mut named = self.counts.iter().filter(|(share, _)| share.is_some());
        self.share_count() > 0 && named.all(|(share, count)| lost.get(share) == Some(count))
    }

    /// The number of namespaces that have records.
    pub(super) fn share_count(&self) -> usize {
        self.counts.keys().flatten().count()
    }
}

/// Costs a pass over the zone.
fn count_all(rule: &ShareRule, contents: &Contents) -> BTreeMap<Option<Share>, usize> {
    let mut counts: BTreeMap<Option<Share>, usize> = BTreeMap::new();
    for node in contents.nodes() {
        match rule {
            ShareRule::None => *counts.entry(None).or_default() += node.record_count(),
            ShareRule::Names(form) => {
                let share = ShareRule::of_key(*form, node.key()).map(Share::new);
                *counts.entry(share).or_default() += node.record_count();
            }
            ShareRule::Pointers(_) => {
                for rrset in node.rrsets() {
                    for data in rrset.data() {
                        let share = rule.of_record(node.key(), rrset.rtype, data);
                        *counts.entry(share).or_default() += 1;
                    }
                }
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_object_has_its_namespace_and_other_names_have_none() {
        let share = |form, name: &str| {
            let apex: Name = "z.".parse().unwrap();
            let name: Name = name.parse().unwrap();
            let key = name.sort_key(&apex).unwrap();
            let form = NameForm::of(form)?;
            ShareRule::of_key(form, key.as_bytes()).map(str::to_owned)
        };
        for (form, name, want) in [
            (ZoneForm::Forward, "web.shop.svc.z.", Some("shop")),
            (ZoneForm::Forward, "_p._tcp.web.shop.svc.z.", Some("shop")),
            (ZoneForm::Forward, "10-0-0-1.shop.pod.z.", Some("shop")),
            (ZoneForm::Clusterset, "a.c1.web.shop.svc.z.", Some("shop")),
            (ZoneForm::External, "web.shop.z.", Some("shop")),
            (ZoneForm::External, "ns1.z.", None),
            (ZoneForm::Forward, "shop.svc.z.", None),
            (ZoneForm::Forward, "ns.dns.z.", None),
            (ZoneForm::Forward, "dns-version.z.", None),
            (ZoneForm::Forward, "z.", None),
            (ZoneForm::Reverse, "1.0.0.10.z.", None),
        ] {
            assert_eq!(share(form, name).as_deref(), want, "{name}");
        }
    }
}
