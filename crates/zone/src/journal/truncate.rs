//! Drops the newest versions of a zone that were never announced, with all that came with them.
//!
//! The head moves back first, in one batch with the acts and notes that go. Then the entries of the steps go, before other versions are written
//! under their numbers. What a crash leaves of them goes when the chain is loaded.

use dns::Name;

use crate::journal::acts;
use crate::journal::codec::{self, FILTER, HEAD, REPLICA, STEP, StreamError, ZONE};
use crate::journal::garbage::garbage_of;
use crate::journal::head::counted_octets;
use crate::journal::large_steps::large_key;
use crate::journal::replica_entries::{Notes, noted, notes_range};
use crate::journal::replicate::ReplicateError;
use crate::journal::store::{Batch, Entries, StoreError};
use crate::journal::{BATCH_ENTRIES, CommitError, Journal, Stored, index, load, put_head, step};

impl Journal {
    /// Drops the versions after this one, durably, with all that came with them; all versions for 0. A serial that they had
    /// is not used again, and a Corefile that came with them was in use and stays. Does nothing when it is the newest version.
    ///
    /// # Errors
    /// [`ReplicateError::NoVersion`] for a version before the announced one, [`ReplicateError::Refused`] when nothing was
    /// dropped, [`ReplicateError::Unknown`] when that is not known.
    pub fn truncate(&mut self, apex: &Name, seq: u64) -> Result<(), ReplicateError> {
        let refused = |error: StoreError| ReplicateError::Refused(CommitError::Store(error));
        self.heal()
            .map_err(|error| ReplicateError::Refused(CommitError::Open(error)))?;
        let Some(stored) = self.zones().get(apex).cloned() else {
            return match seq {
                0 => Ok(()),
                1.. => Err(no_version(apex, seq)),
            };
        };
        if seq == stored.head.seq {
            return Ok(());
        }
        if seq > stored.head.seq || seq < stored.announced().seq {
            return Err(no_version(apex, seq));
        }
        let newest = stored.head.serial;
        let written = if seq == 0 {
            self.drop_zone(stored).map_err(refused)?
        } else {
            let cut = self.cut_to(&stored, seq).map_err(|error| match error {
                StreamError::Damaged(_) => no_version(apex, seq),
                StreamError::Store(error) => refused(error),
            })?;
            self.drop_after(&stored, cut)
        };
        self.pass_over(apex, newest);
        self.note_newest();
        written.map_err(ReplicateError::Unknown)
    }

    /// Drops a zone of which nothing was announced. The outer error: nothing was written.
    pub(super) fn drop_zone(
        &mut self,
        stored: Stored,
    ) -> Result<Result<(), StoreError>, StoreError> {
        let mut batch = Batch::default();
        let [low, high] = acts::range_of(&stored.apex);
        for (key, _) in self.store.range(&low, &high, usize::MAX)? {
            batch.delete(&key);
        }
        batch.delete(&codec::zone_key(ZONE, stored.id));
        batch.delete(&codec::zone_key(HEAD, stored.id));
        self.jobs.retain(|job| job.id != stored.id);
        self.lists.retain(|job| job.id != stored.id);
        let written = self.store.write(batch).and_then(|()| self.store.sync());
        self.zones_mut().remove(&stored.apex);
        self.garbage.extend(garbage_of(stored.id));
        Ok(written)
    }

    /// The zone as it is after its newest versions are gone.
    fn cut_to(&self, stored: &Stored, seq: u64) -> Result<Stored, StreamError> {
        let id = stored.id;
        let mut cut = stored.clone();
        let head = &mut cut.head;
        if seq < head.base.seq || seq < head.oldest {
            return Err(StreamError::Damaged("the version cannot be built"));
        }
        for dropped in seq + 1..=head.seq {
            let size = step::peek_step(&self.store, id, dropped)?.octets;
            let size = counted_octets(usize::try_from(size).unwrap_or(usize::MAX));
            head.kept_octets = head.kept_octets.saturating_sub(size);
            head.since_base = head.since_base.saturating_sub(size);
        }
        let (serial, ..) = step::peek_version(&self.store, id, seq)?;
        head.serial = serial;
        head.seq = seq;
        head.hash = step::peek_link(&self.store, id, seq)?.map(|link| link.hash);
        head.left_behind = Notes::read(&self.store, id, seq)?.left_behind;
        if let Some(replica) = &mut cut.replica {
            replica.cut(seq);
        }
        Ok(cut)
    }

    /// Writes the head of a zone that loses its newest versions, then removes their entries.
    fn drop_after(&mut self, before: &Stored, after: Stored) -> Result<(), StoreError> {
        let (id, seq, last) = (before.id, after.head.seq, before.head.seq);
        let mut batch = Batch::default();
        put_head(&mut batch, &after);
        if let Some(replica) = &after.replica {
            replica.put(&mut batch, id);
        }
        let dropped: Vec<u64> =
            noted(&self.store, id, seq + 1, last).collect::<Result<_, StoreError>>()?;
        for version in dropped {
            let (first, count) = Notes::read(&self.store, id, version)?.acts;
            for number in first..first.saturating_add(count) {
                batch.delete(&acts::key_of(&before.apex, number));
            }
        }
        let (low, high) = notes_range(id, seq + 1, last);
        for (key, _) in self.store.range(&low, &high, usize::MAX)? {
            batch.delete(&key);
        }
        self.store.write(batch)?;
        self.store.sync()?;
        self.jobs.retain(|job| job.id != id || job.seq <= seq);
        self.lists.retain(|job| job.id != id || job.seq <= seq);
        self.zones_mut().insert(after.apex.clone(), after.clone());
        self.remove_beyond(&after)
    }

    /// Removes what is left of versions after the newest one. Later versions write under these keys.
    pub(super) fn remove_beyond(&mut self, stored: &Stored) -> Result<(), StoreError> {
        let (id, first) = (stored.id, stored.head.seq + 1);
        let mut is_changed = false;
        let low = codec::part_key(STEP, id, first, 0);
        let high = codec::part_key(STEP, id, u64::MAX, u32::MAX);
        while let Some((key, _)) = self.store.range(&low, &high, 1)?.first() {
            let Some(seq) = codec::seq_of(key) else {
                break;
            };
            let mut batch = Batch::default();
            match load::read_step(&self.store, &stored.apex, id, seq) {
                Ok(step) => {
                    for key in index::keys_of(&step, id) {
                        batch.delete(&key);
                    }
                }
                // It was never complete, so it has no index entries.
                Err(StreamError::Damaged(_)) => {}
                Err(StreamError::Store(error)) => return Err(error),
            }
            let end = codec::part_key(STEP, id, seq, u32::MAX);
            let start = codec::part_key(STEP, id, seq, 0);
            for (key, _) in self.store.range(&start, &end, usize::MAX)? {
                batch.delete(&key);
            }
            self.store.write(batch)?;
            is_changed = true;
        }
        let all = u64::MAX;
        let ranges = [
            (large_key(id, first).to_vec(), large_key(id, all).to_vec()),
            (
                codec::part_key(FILTER, id, first, 0).to_vec(),
                codec::part_key(FILTER, id, all, u32::MAX).to_vec(),
            ),
            (
                codec::part_key(REPLICA, id, first, 0).to_vec(),
                codec::part_key(REPLICA, id, all, u32::MAX).to_vec(),
            ),
        ];
        for (low, high) in ranges {
            while self.remove_some(&low, &high, BATCH_ENTRIES)? > 0 {
                is_changed = true;
            }
        }
        if is_changed {
            self.store.sync()
        } else {
            Ok(())
        }
    }
}

fn no_version(apex: &Name, seq: u64) -> ReplicateError {
    let apex = apex.clone();
    ReplicateError::NoVersion { apex, seq }
}
