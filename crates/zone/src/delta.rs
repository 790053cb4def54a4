//! The difference of two versions: one step, or many steps condensed into their net effect.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dns::{Name, Rdata, RrList, RrRef, Rtype, Serial, Soa, SortKey};
use provenance::Cause;

use crate::{Contents, Edit, Link, Node};

/// The step from one version to the next, with its causes. The first step of a zone starts from nothing and adds
/// everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The number of the version it leads to: without gaps, the same for all processes, never on the wire.
    pub seq: u64,
    /// The time when the version was made, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// Serial and SOA fields of the version before; `None` for the first.
    pub from: Option<(Serial, Soa)>,
    /// The serial of the version it leads to.
    pub serial: Serial,
    /// The SOA fields of the version it leads to.
    pub soa: Soa,
    /// Records that are removed, without the SOA.
    pub removed: RrList,
    /// Records that are added, without the SOA.
    pub added: RrList,
    /// Groups of causes; a record's tag is an index into them.
    pub causes: Vec<Vec<Cause>>,
    /// The number of records in the version, including the SOA.
    pub records: usize,
    /// The hashes of the version it leads to; `None` for versions stored before there were hashes.
    pub link: Option<Link>,
}

impl Step {
    /// The size of the step's records, about as much as it takes in memory and in the store.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.removed.as_octets().len() + self.added.as_octets().len()
    }

    /// The causes of a record with this tag.
    #[must_use]
    pub fn causes_of(&self, tag: u32) -> &[Cause] {
        let group = usize::try_from(tag).ok();
        group
            .and_then(|group| self.causes.get(group))
            .map_or(&[], Vec::as_slice)
    }

    /// The sort keys of the owners whose records change. A key can come more than once.
    pub fn touched<'a>(&'a self, apex: &'a Name) -> impl Iterator<Item = Vec<u8>> + 'a {
        let owners = self.removed.iter().chain(&self.added).map(|rr| rr.owner);
        owners.filter_map(|owner| {
            let key = SortKey::of_wire(owner, apex.as_wire())?;
            Some(key.as_bytes().to_vec())
        })
    }
}

/// A step or delta that does not fit the contents it is applied to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeltaError {
    /// A record to be removed is missing.
    #[error("cannot remove a record that is not in the zone: {0}")]
    Absent(String),
    /// A record to be added exists already.
    #[error("cannot add a record that is already in the zone: {0}")]
    Present(String),
    /// An owner is not within the zone.
    #[error("a record's owner is not in the zone: {0}")]
    Outside(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

impl Step {
    /// Returns the contents after the step, given those before it.
    ///
    /// # Errors
    /// [`DeltaError`] when the step was not made from these contents. They are left unchanged.
    pub fn apply(&self, before: &Contents) -> Result<Contents, DeltaError> {
        self.run(before, Direction::Forward, self.soa.clone())
    }

    /// Returns the contents before the step, given those after it.
    ///
    /// # Errors
    /// [`DeltaError`] when the step did not lead to these contents.
    pub fn revert(&self, after: &Contents) -> Result<Contents, DeltaError> {
        let soa = self
            .from
            .as_ref()
            .map_or_else(|| self.soa.clone(), |(_, soa)| soa.clone());
        self.run(after, Direction::Backward, soa)
    }

    /// Applies the step in one direction, owner by owner.
    fn run(&self, start: &Contents, way: Direction, soa: Soa) -> Result<Contents, DeltaError> {
        let (remove, add) = match way {
            Direction::Forward => (&self.removed, &self.added),
            Direction::Backward => (&self.added, &self.removed),
        };
        let mut edit = Edit::new(start);
        edit.set_soa(soa);
        apply_lists(&mut edit, remove, add)?;
        Ok(edit.into_contents())
    }
}

fn apply_lists(edit: &mut Edit, remove: &RrList, add: &RrList) -> Result<(), DeltaError> {
    let apex = edit.contents().apex().clone();
    for (key, change) in by_owner(&apex, remove, add)? {
        match change.apply(&apex, edit.contents().get(&key))? {
            Some(node) => edit.set(node, 0),
            None => edit.remove(&key, 0),
        }
    }
    Ok(())
}

/// The change of one owner's records.
#[derive(Debug, Default)]
pub(crate) struct OwnerChange<'a> {
    gone: Vec<RrRef<'a>>,
    come: Vec<RrRef<'a>>,
}

/// The changes by the owners' sort keys.
pub(crate) type OwnerChanges<'a> = BTreeMap<Vec<u8>, OwnerChange<'a>>;

/// Groups two lists by owner. A record may be removed in one spelling of its owner and added in another: sort keys do
/// not tell them apart.
fn by_owner<'a>(
    apex: &Name,
    remove: &'a RrList,
    add: &'a RrList,
) -> Result<OwnerChanges<'a>, DeltaError> {
    let mut changes = OwnerChanges::new();
    for (list, goes) in [(remove, true), (add, false)] {
        let mut records = list.iter().peekable();
        while let Some(first) = records.next() {
            let key = SortKey::of_wire(first.owner, apex.as_wire());
            let key =
                key.ok_or_else(|| DeltaError::Outside(first.owner.escape_ascii().to_string()))?;
            let change = changes.entry(key.as_bytes().to_vec()).or_default();
            let records_of = if goes {
                &mut change.gone
            } else {
                &mut change.come
            };
            records_of.push(first);
            while let Some(next) = records.next_if(|next| next.owner == first.owner) {
                records_of.push(next);
            }
        }
    }
    Ok(changes)
}

impl OwnerChange<'_> {
    /// Returns the owner's node after the change, given the one before; `None` when no records are left.
    ///
    /// # Errors
    /// [`DeltaError`] when the change was not made from this node.
    pub(crate) fn apply(
        &self,
        apex: &Name,
        before: Option<&Node>,
    ) -> Result<Option<Node>, DeltaError> {
        // The spelling of the added records counts. An owner that only loses records keeps the spelling of its node.
        let Some(first) = self.come.first().or(self.gone.first()) else {
            return Ok(before.cloned());
        };
        let owner = Name::from_wire(first.owner)
            .map_err(|_| DeltaError::Outside(first.owner.escape_ascii().to_string()))?;
        let text = |rr: &RrRef<'_>| dns::RecordText(*rr).to_string();
        let mut records: Vec<_> = match before {
            None => Vec::new(),
            Some(node) => node.records(first.owner, 0).collect(),
        };
        for rr in &self.gone {
            let place = records.iter().position(|known| is_same(known, rr));
            let place = place.ok_or_else(|| DeltaError::Absent(text(rr)))?;
            records.swap_remove(place);
        }
        for rr in &self.come {
            let is_known = |known: &RrRef<'_>| known.rtype == rr.rtype && known.data == rr.data;
            if records.iter().any(is_known) {
                return Err(DeltaError::Present(text(rr)));
            }
            records.push(*rr);
        }
        let rdata =
            |data| Rdata::from_octets(data).expect("records in lists fit their length field");
        let parts = records.iter().map(|rr| (rr.rtype, rr.ttl, rdata(rr.data)));
        let mut parts = parts.collect();
        Ok(Node::build(&owner, apex, &mut parts))
    }
}

/// Whether two records are the same apart from owner and tag.
fn is_same(a: &RrRef<'_>, b: &RrRef<'_>) -> bool {
    a.rtype == b.rtype && a.ttl == b.ttl && a.data == b.data
}

/// The net effect of a chain of steps: it removes nothing that was not there at the start, and adds nothing that is
/// not there at the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Net {
    /// Serial and SOA of the first version.
    pub from: (Serial, Soa),
    /// Serial and SOA of the last version.
    pub to: (Serial, Soa),
    /// Records that are removed, without the SOA.
    pub removed: RrList,
    /// Records that are added, without the SOA.
    pub added: RrList,
}

/// A record as a key: owner, type, TTL, data.
type RecordKey<'a> = (&'a [u8], Rtype, u32, &'a [u8]);

/// The place of a step in a chain, and a record's tag in it.
type Source = (usize, u32);

/// The records that a chain of steps removes and adds in the end, each with the step that changed it last.
type Effect<'a> = [BTreeMap<RecordKey<'a>, Source>; 2];

/// Whether each step starts from the version of the one before.
fn are_linked(steps: &[Arc<Step>]) -> bool {
    steps.windows(2).all(|pair| match pair {
        [before, after] => { after.from.as_ref() }.is_some_and(|from| from.0 == before.serial),
        _ => true,
    })
}

fn effect_of(steps: &[Arc<Step>]) -> Effect<'_> {
    let mut removed: BTreeMap<RecordKey<'_>, Source> = BTreeMap::new();
    let mut added: BTreeMap<RecordKey<'_>, Source> = BTreeMap::new();
    for (place, step) in steps.iter().enumerate() {
        for rr in &step.removed {
            let key = (rr.owner, rr.rtype, rr.ttl.seconds(), rr.data);
            if added.remove(&key).is_none() {
                removed.insert(key, (place, rr.tag));
            }
        }
        for rr in &step.added {
            let key = (rr.owner, rr.rtype, rr.ttl.seconds(), rr.data);
            if removed.remove(&key).is_none() {
                added.insert(key, (place, rr.tag));
            }
        }
    }
    [removed, added]
}

impl Net {
    /// Condenses consecutive steps, oldest first; `None` when there are none, when they are not consecutive, or when
    /// they start from nothing.
    #[must_use]
    pub fn of(steps: &[Arc<Step>]) -> Option<Self> {
        let (first, last) = (steps.first()?, steps.last()?);
        if !are_linked(steps) {
            return None;
        }
        let [removed, added] = effect_of(steps);
        Some(Self {
            from: first.from.clone()?,
            to: (last.serial, last.soa.clone()),
            removed: list_of(&removed, |_| 0),
            added: list_of(&added, |_| 0),
        })
    }
}

/// Groups of causes that come from several steps, each group once.
#[derive(Default)]
struct Groups<'a> {
    causes: Vec<Vec<Cause>>,
    tags: HashMap<&'a [Cause], u32>,
}

impl<'a> Groups<'a> {
    /// The tag of a record of one of these steps.
    fn tag(&mut self, steps: &'a [Arc<Step>], (place, tag): Source) -> u32 {
        let group = steps.get(place).map_or(&[][..], |step| step.causes_of(tag));
        let next = u32::try_from(self.causes.len()).expect("steps have fewer than 2^32 groups");
        *self.tags.entry(group).or_insert_with(|| {
            self.causes.push(group.to_vec());
            next
        })
    }
}

impl Step {
    /// Condenses consecutive steps, oldest first, into one: from the version before the first to that of the last, with
    /// the number, serial, time and hash of the last. It has only the records that differ in the end, each with the
    /// causes of the step that changed it last. `None` as for [`Net::of`].
    #[must_use]
    pub fn condensed(steps: &[Arc<Self>]) -> Option<Self> {
        let (first, last) = (steps.first()?, steps.last()?);
        if !are_linked(steps) {
            return None;
        }
        let from = first.from.clone()?;
        let [removed, added] = effect_of(steps);
        let mut groups = Groups::default();
        let removed = list_of(&removed, |source| groups.tag(steps, source));
        let added = list_of(&added, |source| groups.tag(steps, source));
        let link = last.link.zip(first.link);
        Some(Self {
            seq: last.seq,
            time_ms: last.time_ms,
            from: Some(from),
            serial: last.serial,
            soa: last.soa.clone(),
            removed,
            added,
            causes: groups.causes,
            records: last.records,
            link: link.map(|(last, Link { previous, .. })| Link { previous, ..last }),
        })
    }
}

impl Net {
    /// As a step without number, time, causes and hashes, to be condensed with others.
    pub(crate) fn into_step(self) -> Step {
        let (serial, soa) = self.to;
        Step {
            seq: 0,
            time_ms: 0,
            from: Some(self.from),
            serial,
            soa,
            removed: self.removed,
            added: self.added,
            causes: Vec::new(),
            records: 0,
            link: None,
        }
    }

    /// The changes by the owners' sort keys. With `back`, the changes that lead from the end to the start.
    ///
    /// # Errors
    /// [`DeltaError`] when an owner is not within the apex.
    pub(crate) fn changes(&self, apex: &Name, back: bool) -> Result<OwnerChanges<'_>, DeltaError> {
        if back {
            by_owner(apex, &self.added, &self.removed)
        } else {
            by_owner(apex, &self.removed, &self.added)
        }
    }
}

fn list_of(
    keys: &BTreeMap<RecordKey<'_>, Source>,
    mut tag_of: impl FnMut(Source) -> u32,
) -> RrList {
    let mut list = RrList::default();
    for ((owner, rtype, ttl, data), source) in keys {
        let ttl = dns::Ttl::decode(*ttl);
        list.push(RrRef {
            owner,
            rtype: *rtype,
            ttl,
            data,
            tag: tag_of(*source),
        });
    }
    list.shrink();
    list
}
