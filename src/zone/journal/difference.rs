//! What two versions differ in, however far apart they are.
//!
//! Steps of versions that are near are condensed. Versions that are far apart each have a snapshot near them:
//! the snapshots are read side by side, owner by owner, and the steps between each version and its snapshot
//! are applied to the owners they touch. So the cost is that of two snapshots and the steps near them, not
//! of all that happened between.

use std::collections::BTreeSet;
use std::iter::Peekable;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::Scope;

use crate::dns::{Name, RrList, Serial, Soa};
use crate::ops::at_once;
use crate::zone::edit::diff_nodes;
use crate::zone::journal::codec::{SNAPSHOT, Stream, StreamError, Streamed};
use crate::zone::journal::head::Base;
use crate::zone::journal::reader::{ReadError, Reader, TRIES, no_version, unreadable};
use crate::zone::journal::store::Store;
use crate::zone::journal::{Stored, load, step};
use crate::zone::{Contents, Net, Node, Version};

/// Nodes that are read at once on another thread.
const PORTION: usize = 256;
/// How many times that are read before they are compared.
const PORTIONS_AHEAD: usize = 8;
/// So many steps are condensed rather than looked for from both ends.
const CONDENSED_STEPS: u64 = 2000;

impl Reader {
    /// What two versions differ in; both are kept, or the older is the one before the oldest step, and the
    /// newer is not older. `near` is the version that is served. `None` when they are one.
    ///
    /// # Errors
    /// [`ReadError`] when one is not kept, or cannot be read.
    pub fn difference(
        &self,
        apex: &Name,
        (older, newer): (u64, u64),
        near: Option<&Version>,
    ) -> Result<Option<Net>, ReadError> {
        let mut tries = 0;
        loop {
            let stored = self.stored(apex)?;
            let lowest = stored.head.oldest.saturating_sub(1).max(1);
            for seq in [older, newer] {
                if !(lowest..=stored.head.seq).contains(&seq) {
                    return Err(no_version(apex, seq, &stored));
                }
            }
            if older >= newer {
                return Ok(None);
            }
            tries += 1;
            let near = near.filter(|near| near.seq <= stored.head.seq);
            match net(&self.store, &stored, (older, newer), near, CONDENSED_STEPS) {
                Ok(net) => return Ok(Some(net)),
                // The history may have moved meanwhile.
                Err(StreamError::Damaged(_)) if tries < TRIES => {}
                Err(error) => return Err(unreadable(apex, newer, error)),
            }
        }
    }
}

/// The net difference of two versions, of which so many steps are condensed.
pub(super) fn net(
    store: &Store,
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
    let (before, after) = at_once(
        || Side::new(store, stored, start.seq, older),
        || Side::new(store, stored, end_seq, newer),
    );
    let (before, after) = (before?, after?);
    let (removed, added) = std::thread::scope(|scope| {
        let old = read_aside(scope, store, stored, start);
        match served {
            Some(near) => {
                let nodes = near.contents.nodes().map(|node| Ok(node.clone()));
                compare(&stored.apex, (before, old), (after, nodes))
            }
            None => {
                let nodes = nodes_of(store, stored, end)?;
                compare(&stored.apex, (before, old), (after, nodes))
            }
        }
    })?;
    Ok(Net {
        from: version_of(store, stored, older)?,
        to: version_of(store, stored, newer)?,
        removed,
        added,
    })
}

/// The nodes of a snapshot, or of a first step, in canonical order, read on another thread.
fn read_aside<'scope>(
    scope: &'scope Scope<'scope, '_>,
    store: &'scope Store,
    stored: &'scope Stored,
    base: Base,
) -> Box<dyn Iterator<Item = Streamed<Node>> + 'scope> {
    let (sender, nodes) = sync_channel::<Vec<Streamed<Node>>>(PORTIONS_AHEAD);
    let read = move || {
        let mut nodes = match nodes_of(store, stored, base) {
            Ok(nodes) => nodes,
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        // Who compares may have ended with an error.
        loop {
            let portion: Vec<_> = nodes.by_ref().take(PORTION).collect();
            if portion.is_empty() || sender.send(portion).is_err() {
                break;
            }
        }
    };
    scope.spawn(read);
    Box::new(nodes.into_iter().flatten())
}

/// What some steps come to.
fn condensed_steps(store: &Store, stored: &Stored, seqs: RangeInclusive<u64>) -> Streamed<Net> {
    let steps = seqs
        .map(|seq| load::read_lists(store, &stored.apex, stored.id, seq).map(Arc::new))
        .collect::<Streamed<Vec<_>>>()?;
    Net::of(&steps).ok_or(StreamError::Damaged("steps do not follow each other"))
}

/// Serial and SOA fields of a version.
fn version_of(store: &Store, stored: &Stored, seq: u64) -> Streamed<(Serial, Soa)> {
    if seq >= stored.head.oldest {
        let (serial, _, soa) = step::peek_version(store, stored.id, seq)?;
        return Ok((serial, soa));
    }
    let next = load::read_step(store, &stored.apex, stored.id, seq + 1)?;
    next.from
        .ok_or(StreamError::Damaged("a step comes from no version"))
}

/// A version and what leads to it from contents at hand.
struct Side {
    /// What the steps between come to; `None` where there are none.
    steps: Option<Net>,
    /// Whether they are taken back.
    back: bool,
    /// The owners that they touch.
    touched: BTreeSet<Vec<u8>>,
    /// Those of them that are at hand.
    part: Contents,
}

impl Side {
    /// What lies between two versions.
    fn new(store: &Store, stored: &Stored, start: u64, seq: u64) -> Streamed<Self> {
        let seqs = start.min(seq) + 1..=start.max(seq);
        let steps = (start != seq)
            .then(|| condensed_steps(store, stored, seqs))
            .transpose()?;
        let touched = steps.iter().flat_map(|net| net.touched(&stored.apex));
        let touched = touched.collect();
        let (_, soa) = version_of(store, stored, seq)?;
        Ok(Self {
            steps,
            back: seq < start,
            touched,
            part: Contents::empty(&stored.apex, soa),
        })
    }

    /// The touched owners as the version has them.
    fn finish(self) -> Streamed<Contents> {
        const UNFIT: StreamError =
            StreamError::Damaged("steps do not fit the versions around them");
        match self.steps {
            None => Ok(self.part),
            Some(net) => net.apply(&self.part, self.back).map_err(|_| UNFIT),
        }
    }
}

/// An owner that may differ.
struct Candidate {
    /// Its key.
    key: Vec<u8>,
    /// What is at hand for the older version.
    old: Option<Node>,
    /// What is at hand for the newer one.
    new: Option<Node>,
}

/// Records that go and that come from one version to another, in canonical order.
fn compare(
    apex: &Name,
    (mut before, old): (Side, impl Iterator<Item = Streamed<Node>>),
    (mut after, new): (Side, impl Iterator<Item = Streamed<Node>>),
) -> Streamed<(RrList, RrList)> {
    let mut differ = Vec::new();
    // Owners that neither snapshot has.
    let mut only_touched: BTreeSet<_> = before.touched.union(&after.touched).cloned().collect();
    let (mut old, mut new) = (old.peekable(), new.peekable());
    while let Some(Candidate { key, old, new }) = next_owner(&mut old, &mut new)? {
        let touched = only_touched.remove(&key);
        if touched || old.as_ref().map(Node::as_octets) != new.as_ref().map(Node::as_octets) {
            for (side, node) in [(&mut before, &old), (&mut after, &new)] {
                if let Some(node) = node.as_ref().filter(|_| side.touched.contains(&key)) {
                    side.part.insert(node.clone());
                }
            }
            differ.push(Candidate { key, old, new });
        }
    }
    let found = differ.len();
    differ.extend(only_touched.into_iter().map(|key| Candidate {
        key,
        old: None,
        new: None,
    }));
    if differ.len() > found {
        differ.sort_unstable_by(|a, b| a.key.cmp(&b.key));
    }
    let (touched_before, touched_after) = (
        std::mem::take(&mut before.touched),
        std::mem::take(&mut after.touched),
    );
    let (before, after) = (before.finish()?, after.finish()?);
    let (mut removed, mut added) = (RrList::default(), RrList::default());
    for Candidate { key, old, new } in &differ {
        let node = |touched: &BTreeSet<Vec<u8>>, part: &Contents, at_hand: &Option<Node>| {
            if touched.contains(key) {
                part.get(key).cloned()
            } else {
                at_hand.clone()
            }
        };
        let old = node(&touched_before, &before, old);
        let new = node(&touched_after, &after, new);
        diff_nodes(
            apex,
            old.as_ref(),
            new.as_ref(),
            0,
            &mut removed,
            &mut added,
        );
    }
    removed.shrink();
    added.shrink();
    Ok((removed, added))
}

/// The next owner of either side, with what each has of it.
fn next_owner(
    old: &mut Peekable<impl Iterator<Item = Streamed<Node>>>,
    new: &mut Peekable<impl Iterator<Item = Streamed<Node>>>,
) -> Streamed<Option<Candidate>> {
    let order = match (old.peek(), new.peek()) {
        (None, None) => return Ok(None),
        // What cannot be read is taken first, and ends it.
        (Some(Err(_)), _) | (Some(_), None) => std::cmp::Ordering::Less,
        (_, Some(Err(_))) | (None, Some(_)) => std::cmp::Ordering::Greater,
        (Some(Ok(old)), Some(Ok(new))) => old.key().cmp(new.key()),
    };
    let old = order.is_le().then(|| old.next()).flatten().transpose()?;
    let new = order.is_ge().then(|| new.next()).flatten().transpose()?;
    let key = old
        .as_ref()
        .or(new.as_ref())
        .map(|node| node.key().to_vec());
    Ok(key.map(|key| Candidate { key, old, new }))
}

/// The nodes of a snapshot, or of a first step, in canonical order.
fn nodes_of<'a>(
    store: &'a Store,
    stored: &Stored,
    base: Base,
) -> Streamed<Box<dyn Iterator<Item = Streamed<Node>> + 'a>> {
    if !base.snapshot {
        let first = load::read_snapshot(store, stored, base)?;
        let nodes: Vec<_> = first.contents.nodes().cloned().collect();
        return Ok(Box::new(nodes.into_iter().map(Ok)));
    }
    let mut stream = Stream::new(store, SNAPSHOT, stored.id, base.seq);
    let owners = step::take_snapshot_head(&mut stream)?.owners;
    Ok(Box::new(
        (0..owners).map(move |_| step::take_node(&mut stream)),
    ))
}
