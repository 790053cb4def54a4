//! Notes written segments in the database.

use std::sync::Arc;

use dns::Name;

use crate::Hash;
use crate::journal::segment::{Segment, Segments};
use crate::journal::store::{Batch, StoreError};
use crate::journal::{Journal, step};

impl Journal {
    /// Notes a segment that was written and read back: from now on its versions may leave the database. Returns whether it
    /// has the versions that come next; otherwise nothing is noted.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be written.
    pub fn note_segment(&mut self, apex: &Name, segment: Segment) -> Result<bool, StoreError> {
        let Some(mut stored) = self.zones().get(apex).cloned() else {
            return Ok(false);
        };
        let next = stored.unarchived();
        let is_next = segment.first == next && segment.last <= stored.head.seq;
        let known = step::peek_link(&self.store, stored.id, segment.last);
        let hash = known.ok().flatten().map_or(Hash::ZERO, |link| link.hash);
        if !is_next || hash != segment.hash {
            return Ok(false);
        }
        let key = Segment::key(stored.id, segment.first);
        let mut batch = Batch::default();
        batch.put(&key, segment.encode(&key));
        self.store.write(batch)?;
        self.store.sync()?;
        let segment = Arc::new(segment);
        if !stored.segments.push(Arc::clone(&segment)) {
            stored.segments = Segments::default();
            stored.segments.push(segment);
        }
        let apex = stored.apex.clone();
        self.zones_mut().insert(apex.clone(), stored);
        // What waited for it can be dropped now.
        self.new_limits.insert(apex);
        Ok(true)
    }
}
