//! Reads the records of one name in an old version, without building the whole version.

use dns::{Name, SortKey};

use crate::journal::codec::{StreamError, Streamed};
use crate::journal::index::Finder;
use crate::journal::partial_step::PartialStep;
use crate::journal::reader::{ReadError, Reader};
use crate::journal::topic::Topic;
use crate::journal::{Stored, load, partial_step, step, stream_seek};
use crate::{Contents, Edit, Version};

impl Reader {
    /// The records of one name in a kept version, as contents with nothing else in them. `near` is as for
    /// [`Self::contents_at`]. Costs the changes of the name since the nearest contents: `near`, or a snapshot, of
    /// which only the name is read.
    ///
    /// # Errors
    /// [`ReadError`] when the version is not kept or cannot be read.
    pub fn contents_of(
        &self,
        apex: &Name,
        seq: u64,
        name: &Name,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        self.anywhere(apex, seq, &|reader| {
            let near = near.filter(|_| !reader.is_segment);
            reader.contents_of_here(apex, seq, name, near)
        })
    }

    fn contents_of_here(
        &self,
        apex: &Name,
        seq: u64,
        name: &Name,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        let stored = self.stored(apex)?;
        let near = near.filter(|near| near.seq <= stored.head.seq);
        let plain = || self.contents_at(apex, seq, near.filter(|near| near.seq >= seq));
        let Some(key) = SortKey::of_wire(name.as_wire(), apex.as_wire()) else {
            return plain();
        };
        // For steps that are not in the indexes: building the version also checks more.
        if seq < stored.head.oldest || seq < stored.head.indexed {
            return plain();
        }
        self.retry(
            seq,
            || self.stored(apex),
            |stored| self.name_at(stored, seq, (name, key.as_bytes()), near),
        )
    }

    /// Builds the records of a name from the nearest contents.
    fn name_at(
        &self,
        stored: &Stored,
        seq: u64,
        (name, key): (&Name, &[u8]),
        near: Option<&Version>,
    ) -> Streamed<Contents> {
        let (store, id) = (&*self.store, stored.id);
        let base = stored.head.nearest(seq);
        let near = near.filter(|near| near.seq.abs_diff(seq) <= base.seq.abs_diff(seq));
        let (start, node) = match near {
            Some(near) => (near.seq, near.contents.get(key).cloned()),
            None if stream_seek::can_seek(store, base.kind(), id, base.seq)? => {
                let node = stream_seek::node_at(store, (base.kind(), id, base.seq), None, key)?;
                (base.seq, node.map(|(node, _)| node))
            }
            None => {
                let whole = load::read_snapshot(store, stored, base)?;
                (base.seq, whole.contents.get(key).cloned())
            }
        };
        let (.., soa) = step::peek_version(store, id, seq)?;
        let mut edit = Edit::new(&Contents::empty(&stored.apex, soa.clone()));
        if let Some(node) = node {
            edit.set(node, 0);
        }
        let mut contents = edit.into_contents();
        let (low, high) = (start.min(seq) + 1, start.max(seq));
        let mut finder = Finder::new(Topic::name(name), id, stored.head.indexed, low, high);
        let mut seqs = Vec::new();
        while low <= high
            && let Some(found) = finder.next(store)?
        {
            seqs.push(found);
        }
        let forward = seq > start;
        if forward {
            seqs.reverse();
        }
        for found in seqs {
            let PartialStep { step, .. } =
                partial_step::read_part(store, &stored.apex, id, found, name)?;
            let next = if forward {
                step.apply(&contents)
            } else {
                step.revert(&contents)
            };
            const UNFIT: &str = "a step does not fit the versions around it";
            contents = next.map_err(|_| StreamError::Damaged(UNFIT))?;
        }
        contents.set_soa(soa);
        Ok(contents)
    }
}
