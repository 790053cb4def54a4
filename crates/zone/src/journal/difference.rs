//! Computes the difference of two versions, however far apart they are.
//!
//! When the versions are near each other, their steps are condensed. Otherwise each has a snapshot near it. The steps
//! between snapshot and version are condensed and applied to each owner while the snapshot is read, so both versions
//! are compared in one pass over their owners. This costs two snapshots and the steps near them, not all steps in
//! between. Two threads share the work, one for each half of the older snapshot, if it can be read from the middle.

use std::cmp::Ordering;
use std::iter::Peekable;
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use dns::{Name, RrList, Serial, Soa};
use ops::in_parallel;

use crate::delta::{OwnerChange, OwnerChanges};
use crate::edit::diff_nodes;
use crate::journal::codec::{SNAPSHOT, STEP, StreamError, Streamed};
use crate::journal::head::Base;
use crate::journal::reader::{ReadError, Reader, archived_steps, unreadable};
use crate::journal::store::Entries;
use crate::journal::{Stored, load, step, stream_seek};
use crate::{Contents, Net, Node, Version};

/// Up to this many steps are condensed directly.
const CONDENSED_STEPS: u64 = 2000;
/// The size of a list of records relative to their nodes, at most: each record of a list has its owner.
const LIST_OCTETS: u64 = 3;
/// The most bytes reserved for a list so that it does not move while it grows. Unused bytes cost addresses, not
/// memory.
const MOST_RESERVED: u64 = 32 << 20;

impl Reader {
    /// The difference of two kept versions; `None` when they are the same. `older` may also be the version before the
    /// oldest step; `newer` must not be older than `older`. `near` is the version that is served.
    ///
    /// # Errors
    /// [`ReadError`] when a version is not kept or cannot be read.
    pub fn difference(
        &self,
        apex: &Name,
        (older, newer): (u64, u64),
        near: Option<&Version>,
    ) -> Result<Option<Net>, ReadError> {
        let stored = || {
            self.with_records(apex, older)?;
            self.with_contents(apex, newer)
        };
        if older >= newer {
            return stored().map(|_| None);
        }
        let net = self.retry(newer, stored, |stored| {
            if older + 1 < stored.head.oldest && stored.first() < stored.head.oldest {
                return Ok(None);
            }
            let near = near.filter(|near| near.seq <= stored.head.seq);
            let begin = stored.head.oldest.saturating_sub(1);
            if older >= begin {
                let net = net(&*self.store, stored, (older, newer), near, CONDENSED_STEPS);
                return net.map(Some);
            }
            let mut steps = archived_steps(&*self.store, stored, older, newer)?;
            if newer > begin {
                let later = net(&*self.store, stored, (begin, newer), near, CONDENSED_STEPS)?;
                steps.push(Arc::new(later.into_step()));
            }
            Net::of(&steps).map(Some).ok_or(UNFIT)
        })?;
        match net {
            Some(net) => Ok(Some(net)),
            // The older one is elsewhere, perhaps only now.
            None => {
                let far = self.far_difference(apex, &stored()?, (older, newer), near);
                far.map(Some)
            }
        }
    }
}

impl Reader {
    /// The difference of two versions of which the older one, at least, is in a segment or before the first.
    fn far_difference(
        &self,
        apex: &Name,
        stored: &Stored,
        (older, newer): (u64, u64),
        near: Option<&Version>,
    ) -> Result<Net, ReadError> {
        let begin = stored.first().saturating_sub(1);
        let unfit = || unreadable(apex, newer, UNFIT);
        if older < begin {
            let steps = archived_steps(&*self.store, stored, older, newer);
            let mut steps = steps.map_err(|error| unreadable(apex, newer, error))?;
            if newer > begin {
                let later = self.far_difference(apex, stored, (begin, newer), near)?;
                steps.push(Arc::new(later.into_step()));
            }
            return Net::of(&steps).ok_or_else(unfit);
        }
        let same = stored
            .segments
            .of(older + 1)
            .filter(|segment| newer <= segment.until);
        if let Some(segment) = same {
            let net = self
                .within(stored, segment)?
                .difference(apex, (older, newer), None)?;
            return net.ok_or_else(unfit);
        }
        let before = self.contents_at(apex, older, None)?;
        let after = self.contents_at(apex, newer, near)?;
        let serial_of = |seq| -> Result<Serial, ReadError> {
            if seq > begin {
                return Ok(self.moment(apex, seq)?.0);
            }
            let next = self.step(apex, seq + 1)?;
            Ok(next.from.ok_or_else(unfit)?.0)
        };
        let (removed, added) = between(&before, &after);
        Ok(Net {
            from: (serial_of(older)?, before.soa().clone()),
            to: (serial_of(newer)?, after.soa().clone()),
            removed,
            added,
        })
    }
}

/// The removed and added records between two contents of a zone.
fn between(before: &Contents, after: &Contents) -> (RrList, RrList) {
    let (mut old, mut new) = (before.nodes().peekable(), after.nodes().peekable());
    let (mut removed, mut added) = (RrList::default(), RrList::default());
    let order = |old: &&Node, new: &&Node| old.key().cmp(new.key());
    while let Some((old, new)) = next_of(&mut old, &mut new, order) {
        if old.map(Node::as_octets) != new.map(Node::as_octets) {
            diff_nodes(before.apex(), old, new, 0, &mut removed, &mut added);
        }
    }
    (removed, added)
}

/// The net difference of two versions. Up to `condensed` steps are condensed directly.
pub(super) fn net(
    store: &dyn Entries,
    stored: &Stored,
    (older, newer): (u64, u64),
    near: Option<&Version>,
    condensed: u64,
) -> Streamed<Net> {
    let head = &stored.head;
    let (start, end) = (head.nearest(older), head.nearest(newer));
    let served = near.filter(|near| near.seq.abs_diff(newer) <= end.seq.abs_diff(newer));
    let is_near = newer - older <= condensed || (served.is_none() && start == end);
    if is_near {
        return condensed_steps(store, stored, older + 1..=newer);
    }
    let end_seq = served.map_or(end.seq, |near| near.seq);
    let (before, after) = in_parallel(
        || steps_between(store, stored, start.seq, older),
        || steps_between(store, stored, end_seq, newer),
    );
    let (before, after) = (before?, after?);
    let stored_at = |base| BaseContents::Stored(store, stored, base);
    let apex = &stored.apex;
    let before = Side::new(apex, stored_at(start), before.as_ref(), older < start.seq)?;
    let at_end = served.map_or_else(|| stored_at(end), BaseContents::Served);
    let after = Side::new(apex, at_end, after.as_ref(), newer < end_seq)?;
    let middle = stream_seek::middle(store, stream_of(stored, start))?;
    let room = MOST_RESERVED.min(LIST_OCTETS * start.octets);
    let room = usize::try_from(room).unwrap_or_default();
    let (removed, added) = match &middle {
        None => compare(&before, &after, Owners::ALL, room)?,
        Some(middle) => {
            let [low, high] = Owners::halves(middle);
            let (high, low) = in_parallel(
                || compare(&before, &after, high, room),
                || compare(&before, &after, low, room),
            );
            let ((removed, added), high) = (low?, high?);
            in_parallel(|| removed.and(&high.0), || added.and(&high.1))
        }
    };
    Ok(Net {
        from: version_of(store, stored, older)?,
        to: version_of(store, stored, newer)?,
        removed,
        added,
    })
}

/// The stream of a snapshot or first step.
const fn stream_of(stored: &Stored, base: Base) -> (u8, u32, u64) {
    let kind = if base.snapshot { SNAPSHOT } else { STEP };
    (kind, stored.id, base.seq)
}

/// The net effect of the steps between two versions, in ascending order; `None` when the versions are the same.
fn steps_between(
    store: &dyn Entries,
    stored: &Stored,
    one: u64,
    other: u64,
) -> Streamed<Option<Net>> {
    let seqs = one.min(other) + 1..=one.max(other);
    (one != other)
        .then(|| condensed_steps(store, stored, seqs))
        .transpose()
}

fn condensed_steps(
    store: &dyn Entries,
    stored: &Stored,
    seqs: RangeInclusive<u64>,
) -> Streamed<Net> {
    let steps = load::read_steps(store, stored, seqs, false)?;
    Net::of(&steps).ok_or(StreamError::Damaged("steps do not follow each other"))
}

/// Serial and SOA of a version.
fn version_of(store: &dyn Entries, stored: &Stored, seq: u64) -> Streamed<(Serial, Soa)> {
    if seq >= stored.head.oldest {
        let (serial, _, soa) = step::peek_version(store, stored.id, seq)?;
        return Ok((serial, soa));
    }
    let next = load::read_step(store, &stored.apex, stored.id, seq + 1)?;
    next.from
        .ok_or(StreamError::Damaged("a step comes from no version"))
}

/// A range of a zone's owners.
#[derive(Clone, Copy)]
struct Owners<'a> {
    /// The first sort key; the apex has the empty one.
    from: &'a [u8],
    /// The sort key that ends the range.
    below: Option<&'a [u8]>,
}

impl<'a> Owners<'a> {
    const ALL: Self = Self {
        from: &[],
        below: None,
    };

    /// Two ranges, split at a key.
    const fn halves(middle: &'a [u8]) -> [Self; 2] {
        let (all, below) = (Self::ALL, Some(middle));
        [
            Self { below, ..all },
            Self {
                from: middle,
                ..all
            },
        ]
    }

    /// Limits nodes in canonical order to this range. Errors are kept.
    fn among(
        self,
        nodes: impl Iterator<Item = Streamed<Node>> + 'a,
    ) -> Box<dyn Iterator<Item = Streamed<Node>> + 'a> {
        let is_before = move |node: &Node| node.key() < self.from;
        let is_behind = move |node: &Node| self.below.is_some_and(|end| node.key() >= end);
        let nodes = nodes
            .skip_while(move |node| node.as_ref().is_ok_and(is_before))
            .take_while(move |node| !node.as_ref().is_ok_and(is_behind));
        Box::new(nodes)
    }

    fn changed<'c>(
        self,
        changes: &'c OwnerChanges<'c>,
    ) -> impl Iterator<Item = (&'c Vec<u8>, &'c OwnerChange<'c>)> {
        let end = self.below.map_or(Bound::Unbounded, Bound::Excluded);
        changes.range::<[u8], _>((Bound::Included(self.from), end))
    }
}

/// Contents from which a version is computed.
enum BaseContents<'a> {
    /// A snapshot or first step.
    Stored(&'a dyn Entries, &'a Stored, Base),
    Served(&'a Version),
}

impl BaseContents<'_> {
    fn nodes<'a>(
        &'a self,
        owners: Owners<'a>,
    ) -> Streamed<Box<dyn Iterator<Item = Streamed<Node>> + 'a>> {
        let (store, stored, base) = match *self {
            Self::Served(version) => {
                let nodes = version.contents.nodes_from(owners.from);
                return Ok(owners.among(nodes.cloned().map(Ok)));
            }
            Self::Stored(store, stored, base) => (store, stored, base),
        };
        let (kind, id, seq) = stream_of(stored, base);
        if !base.snapshot && !stream_seek::can_seek(store, kind, id, seq)? {
            let first = load::read_snapshot(store, stored, base)?;
            let nodes: Vec<_> = first.contents.nodes().cloned().collect();
            return Ok(owners.among(nodes.into_iter().map(Ok)));
        }
        let nodes = stream_seek::nodes_from(store, (kind, id, seq), None, owners.from)?;
        Ok(owners.among(nodes.map(|node| node.map(|(node, _)| node))))
    }
}

/// A version: stored or served contents, and the changes that lead to the version.
struct Side<'a> {
    apex: &'a Name,
    base: BaseContents<'a>,
    changes: OwnerChanges<'a>,
}

const UNFIT: StreamError = StreamError::Damaged("steps do not fit the versions around them");

impl<'a> Side<'a> {
    /// Computes the changes that lead from the contents to the version. If the version is the older one, they go
    /// `back`.
    fn new(
        apex: &'a Name,
        base: BaseContents<'a>,
        steps: Option<&'a Net>,
        back: bool,
    ) -> Streamed<Self> {
        let changes = steps.map(|net| net.changes(apex, back)).transpose();
        Ok(Self {
            apex,
            base,
            changes: changes.map_err(|_| UNFIT)?.unwrap_or_default(),
        })
    }

    /// The version's nodes, in canonical order.
    fn nodes<'b>(
        &'b self,
        owners: Owners<'b>,
    ) -> Streamed<impl Iterator<Item = Streamed<Node>> + use<'a, 'b>> {
        let mut nodes = self.base.nodes(owners)?.peekable();
        let mut changes = owners.changed(&self.changes).peekable();
        let order = |node: &Streamed<Node>, (key, _): &(&Vec<u8>, _)| match node {
            Ok(node) => node.key().cmp(key.as_slice()),
            Err(_) => Ordering::Less,
        };
        let pairs = std::iter::from_fn(move || next_of(&mut nodes, &mut changes, order));
        Ok(pairs.filter_map(|(node, change)| {
            let Some((_, change)) = change else {
                return node;
            };
            match node.transpose() {
                Ok(node) => {
                    let after = change.apply(self.apex, node.as_ref());
                    after.map_err(|_| UNFIT).transpose()
                }
                Err(error) => Some(Err(error)),
            }
        }))
    }
}

/// The removed and added records between two versions, in canonical order. `reserved` is the initial capacity of each
/// list.
fn compare(
    before: &Side<'_>,
    after: &Side<'_>,
    owners: Owners<'_>,
    room: usize,
) -> Streamed<(RrList, RrList)> {
    let (mut old, mut new) = (
        before.nodes(owners)?.peekable(),
        after.nodes(owners)?.peekable(),
    );
    let order = |old: &Streamed<Node>, new: &Streamed<Node>| match (old, new) {
        (Err(_), _) => Ordering::Less,
        (_, Err(_)) => Ordering::Greater,
        (Ok(old), Ok(new)) => old.key().cmp(new.key()),
    };
    let (mut removed, mut added) = (RrList::with_capacity(room), RrList::with_capacity(room));
    while let Some((old, new)) = next_of(&mut old, &mut new, order) {
        let (old, new) = (old.transpose()?, new.transpose()?);
        let (old, new) = (old.as_ref(), new.as_ref());
        if old.map(Node::as_octets) != new.map(Node::as_octets) {
            diff_nodes(before.apex, old, new, 0, &mut removed, &mut added);
        }
    }
    Ok((removed, added))
}

/// The next items of two sorted iterators: from one of them, or from both when they are equal.
fn next_of<A, B>(
    one: &mut Peekable<impl Iterator<Item = A>>,
    other: &mut Peekable<impl Iterator<Item = B>>,
    order: impl Fn(&A, &B) -> Ordering,
) -> Option<(Option<A>, Option<B>)> {
    let order = match (one.peek(), other.peek()) {
        (None, None) => return None,
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (Some(one), Some(other)) => order(one, other),
    };
    let first = if order.is_le() { one.next() } else { None };
    let second = if order.is_ge() { other.next() } else { None };
    Some((first, second))
}
