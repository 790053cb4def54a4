//! What a version said of one name: its records, without going through what happened to all others.

use crate::dns::{Name, RrList, SortKey};
use crate::zone::journal::codec::StreamError;
use crate::zone::journal::index::{Finder, Topic};
use crate::zone::journal::load::{self, State};
use crate::zone::journal::reader::{ReadError, Reader, unreadable};
use crate::zone::{Contents, Edit, Step, Version};

impl Reader {
    /// The records at one name in a version that is kept, as contents with nothing else in them. `near` as
    /// for [`Self::contents_at`]. Costs the changes of the name between the version and what is at hand:
    /// `near`, or else the base, which is read.
    ///
    /// # Errors
    /// [`ReadError`] when the version is not kept, or cannot be read.
    pub fn contents_of(
        &self,
        apex: &Name,
        seq: u64,
        name: &Name,
        near: Option<&Version>,
    ) -> Result<Contents, ReadError> {
        let stored = self.stored(apex)?;
        let near = near.filter(|near| near.seq >= seq && near.seq <= stored.head.seq);
        let Some(key) = SortKey::of_wire(name.as_wire(), apex.as_wire()) else {
            return self.contents_at(apex, seq, near);
        };
        // Steps that the indexes do not know are not looked up: the plain way checks more.
        if seq < stored.head.oldest || seq < stored.head.indexed {
            return self.contents_at(apex, seq, near);
        }
        let failed = |error| unreadable(apex, seq, error);
        let start = match near {
            Some(near) => State {
                seq: near.seq,
                serial: near.serial,
                time_ms: near.time_ms,
                contents: near.contents.clone(),
                link: near.link,
            },
            None => load::read_near(&self.store, &stored, seq).map_err(failed)?,
        };
        let mut contents = only(&start.contents, key.as_bytes());
        let (low, high) = (start.seq.min(seq) + 1, start.seq.max(seq));
        if low > high {
            return Ok(contents);
        }
        let indexed = stored.head.indexed;
        let mut finder = Finder::new(Topic::name(name), stored.id, indexed, low, high);
        let mut seqs = Vec::new();
        while let Some(found) = finder.next(&self.store)? {
            seqs.push(found);
        }
        let forward = seq > start.seq;
        if forward {
            seqs.reverse();
        }
        for found in seqs {
            let step = load::read_step(&self.store, &stored.apex, stored.id, found);
            let step = part_of(step.map_err(failed)?, name);
            let next = if forward {
                step.apply(&contents)
            } else {
                step.revert(&contents)
            };
            const UNFIT: &str = "a step does not fit the versions around it";
            contents = next.map_err(|_| failed(StreamError::Damaged(UNFIT)))?;
        }
        Ok(contents)
    }
}

/// Contents with only one of their owners.
fn only(contents: &Contents, key: &[u8]) -> Contents {
    let mut edit = Edit::new(&Contents::empty(contents.apex(), contents.soa().clone()));
    if let Some(node) = contents.get(key) {
        edit.set(node.clone(), 0);
    }
    edit.into_contents()
}

/// What a step does to one name.
fn part_of(mut step: Step, name: &Name) -> Step {
    for list in [&mut step.removed, &mut step.added] {
        let mut part = RrList::default();
        for rr in list.iter() {
            if rr.owner.eq_ignore_ascii_case(name.as_wire()) {
                part.push(rr);
            }
        }
        *list = part;
    }
    step
}
