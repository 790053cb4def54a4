//! What a step does to one name, read without the rest where that can be found.

use dns::{Name, SortKey};
use provenance::Verb;

use crate::Step;
use crate::journal::codec::{STEP, Stream, Streamed};
use crate::journal::store::Store;
use crate::journal::{step, stream_seek};

/// What a step does to one name, with the causes of that and of the version; and how many records go and come in all.
pub(super) fn read_part(
    store: &Store,
    apex: &Name,
    id: u32,
    seq: u64,
    name: &Name,
) -> Streamed<PartialStep> {
    let mut stream = Stream::new(store, STEP, id, seq);
    let (mut step, causes, as_nodes) = step::take_head(&mut stream, seq)?;
    let (removed, added);
    // Of the version are groups that no record names. The records of a first one are not all read: those with this
    // verb have its causes.
    let mut of_version = causes.of_version(|verb| !as_nodes || verb != Verb::Configured);
    if as_nodes {
        let key = SortKey::of_wire(name.as_wire(), apex.as_wire());
        let key = key.as_ref().map_or(&[][..], SortKey::as_bytes);
        let found = if stream_seek::can_seek(store, STEP, id, seq)? {
            stream_seek::node_at(store, (STEP, id, seq), Some(stream), key)?
        } else {
            let mut found = None;
            for _ in 0..stream.count()? {
                let node = step::take_tagged_node(&mut stream)?;
                found = Some(node).filter(|(node, _)| node.key() == key).or(found);
            }
            found
        };
        if let Some((node, tag)) = found {
            for rr in node.records(&node.owner_wire(apex), tag) {
                step.added.push(rr);
            }
        }
        (removed, added) = (0, step.records.saturating_sub(1));
    } else {
        let mut named = |tag| {
            of_version.remove(&tag);
        };
        (step.removed, removed) = step::take_list(&mut stream, Some(name), &mut named)?;
        (step.added, added) = step::take_list(&mut stream, Some(name), &mut named)?;
        stream.end()?;
    }
    let of_name = step.removed.iter().chain(&step.added);
    of_version.extend(of_name.map(|rr| rr.tag));
    step.causes =
        causes.groups(|tag| u32::try_from(tag).is_ok_and(|it| of_version.contains(&it)))?;
    Ok(PartialStep {
        step,
        removed,
        added,
    })
}

/// A step of which only the records of one name and their causes are there.
#[derive(Debug, Clone)]
pub struct PartialStep {
    /// The step; groups of causes that are neither of the name nor of the version are empty.
    pub step: Step,
    /// How many records go in all.
    pub removed: usize,
    /// How many come in all.
    pub added: usize,
}

impl PartialStep {
    /// Whether nothing of the step is left out.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        (self.step.removed.len(), self.step.added.len()) == (self.removed, self.added)
    }
}
