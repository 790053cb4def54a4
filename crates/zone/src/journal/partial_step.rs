//! Reads the part of a step that concerns one name, if possible without reading the rest.

use dns::{Name, SortKey};
use provenance::Verb;

use crate::Step;
use crate::journal::codec::{STEP, Stream, Streamed};
use crate::journal::store::Entries;
use crate::journal::{step, stream_seek};

/// Reads the records of one name, their causes and those of the whole version, and counts all records of the step.
pub(super) fn read_part(
    store: &dyn Entries,
    apex: &Name,
    id: u32,
    seq: u64,
    name: &Name,
) -> Streamed<PartialStep> {
    let mut stream = Stream::new(store, STEP, id, seq);
    let (mut step, causes, as_nodes) = step::take_head(&mut stream, seq)?;
    let (removed, added);
    // Groups that no record names belong to the whole version. The records of a first step are not all read; its
    // groups with this verb belong to records.
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

/// A step with the records of one name and their causes only.
#[derive(Debug, Clone)]
pub struct PartialStep {
    /// The step. Groups of causes that belong neither to the name nor to the whole version are empty.
    pub step: Step,
    /// The number of removed records in the whole step.
    pub removed: usize,
    /// The number of added records in the whole step.
    pub added: usize,
}

impl PartialStep {
    /// Whether the step is complete.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        (self.step.removed.len(), self.step.added.len()) == (self.removed, self.added)
    }
}
