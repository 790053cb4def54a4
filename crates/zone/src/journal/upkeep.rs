//! Upkeep of the history: limits, snapshots, removal of old entries, all in portions.

use std::sync::Arc;

use dns::Name;

use crate::journal::archive::{Archive, Leaving, garbage_before};
use crate::journal::codec::{self, FILTER, SNAPSHOT, STEP, StreamError};
use crate::journal::garbage::{Garbage, descriptions};
use crate::journal::head::{Base, older_key, put_older};
use crate::journal::index::IndexKey;
use crate::journal::large_steps::{self, LargeStepJob};
use crate::journal::replica_entries::notes_range;
use crate::journal::segment::Segments;
use crate::journal::snapshot::SnapshotJob;
use crate::journal::store::{Batch, Entries, StoreError};
use crate::journal::{DAMAGED_COMMITS, Journal, Stored, put_head};
use crate::journal::{index, load, step};
use crate::{Candidate, Version};

/// The size of the large steps that stay in memory until their lists are written, not counting the first.
pub(super) const LISTS_IN_MEMORY_BYTES: usize = 32 << 20;
/// The most steps that one commit drops from a zone's history.
const DROPPED_STEPS: usize = 64;
/// No snapshot is written until the steps since the base have this size, in bytes.
const SNAPSHOT_MIN_OCTETS: u64 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// After a commit: nothing large is read.
    Commit,
    /// When there is nothing else to do.
    Idle,
}

impl Journal {
    /// Does a portion of upkeep. Returns whether there is more to do. After a failure the next commit opens the
    /// database again; after several failures because of damage, it starts a new one.
    pub(super) fn try_upkeep(&mut self, portion: usize, occasion: Occasion) -> bool {
        match self.upkeep(portion, occasion) {
            Ok(more) => {
                self.damaged_upkeep = 0;
                more
            }
            Err(error) => {
                tracing::warn!(%error, "cannot drop old versions from the history");
                self.damaged_upkeep += u32::from(error.is_damage());
                if self.damaged_upkeep >= DAMAGED_COMMITS {
                    self.store.close();
                }
                false
            }
        }
    }

    /// Drops the oldest steps of a zone's history until the limits hold. Returns them, oldest first.
    pub(super) fn retain(&self, stored: &mut Stored) -> Vec<Leaving> {
        let limits = self
            .retention
            .get(&stored.apex)
            .copied()
            .unwrap_or_default();
        let now = (self.clock)();
        let keep = u64::try_from(limits.keep.as_millis()).unwrap_or(u64::MAX);
        let mut leaving = Vec::new();
        for _ in 0..DROPPED_STEPS {
            // The versions after the announced one may be dropped: then it is the newest.
            let last = stored.announced().seq;
            let head = &mut stored.head;
            if head.oldest >= head.seq.min(last) {
                return leaving;
            }
            let size = match stored.oldest_size {
                Some(size) => Some(size),
                None => match step::peek_step(&self.store, stored.id, head.oldest) {
                    Ok(size) => Some(size),
                    // A step that cannot be read is dropped.
                    Err(StreamError::Damaged(_)) => None,
                    Err(StreamError::Store(_)) => return leaving,
                },
            };
            stored.oldest_size = size;
            let too_old = size.is_none_or(|size| now.saturating_sub(size.time_ms) > keep);
            let too_many = head.seq - head.oldest >= limits.versions;
            if !too_old && !too_many && head.kept_octets <= limits.octets {
                return leaving;
            }
            let is_elsewhere = stored.segments.of(head.oldest).is_some();
            if limits.is_archived && !is_elsewhere {
                return leaving;
            }
            // What the segments do not have breaks the way to them, and to what is before them.
            let is_break = !is_elsewhere && stored.segments.first().is_some();
            if is_break {
                stored.segments = Segments::default();
            }
            leaving.push(Leaving {
                seq: head.oldest,
                is_early: !too_old,
                is_elsewhere,
                is_break,
            });
            let counted = head.base.snapshot || head.oldest > head.base.seq;
            if let (Some(size), true) = (size, counted) {
                head.kept_octets = head.kept_octets.saturating_sub(size.octets);
            }
            head.oldest += 1;
            let oldest = head.oldest;
            if head.older.first().is_some_and(|base| base.seq + 1 < oldest) {
                Arc::make_mut(&mut head.older).retain(|base| base.seq + 1 >= oldest);
            }
            stored.oldest_size = None;
        }
        leaving
    }

    /// Notes versions that are dropped although they are younger than the history should be.
    pub(super) fn note_early(&mut self, stored: &mut Stored, dropped: u64) {
        if dropped > 0 {
            stored.early.count += dropped;
            stored.early.last_ms = (self.clock)();
            self.early.push((stored.apex.clone(), dropped));
        }
    }

    /// Takes the numbers of versions that were dropped since the last call although they were younger than `keep` of
    /// [`Retention`](crate::journal::Retention), each with its zone.
    pub fn take_early(&mut self) -> Vec<(Name, u64)> {
        std::mem::take(&mut self.early)
    }

    /// Drops a portion of a history that is too long since its retention was set.
    fn apply_new_limits(&mut self) -> Result<(), StoreError> {
        let Some(apex) = self.new_limits.first().cloned() else {
            return Ok(());
        };
        let before = self.zones().get(&apex).cloned();
        let mut after = before.clone();
        let mut left = Vec::new();
        if let Some(stored) = &mut after {
            // They are dropped on purpose, and so is what is older.
            let leaving = self.retain(stored);
            let lost = leaving.iter().rfind(|it| !it.is_elsewhere);
            if let Some(last) = lost.filter(|_| !stored.archive.is_empty()) {
                left.extend(garbage_before(stored.id, last.seq));
                stored.archive = Archive::default();
            }
            if let Some(last) = leaving.iter().find(|it| it.is_break) {
                left.push(descriptions(stored.id, last.seq));
            }
        }
        if let (Some(before), Some(stored)) = (before, after)
            && stored.head.oldest != before.head.oldest
        {
            let mut batch = Batch::default();
            put_head(&mut batch, &stored);
            put_older(
                &mut batch,
                stored.id,
                &before.head.older,
                &stored.head.older,
            );
            self.store.write(batch)?;
            // The head must be on disk before the entries of the steps go.
            self.store.sync()?;
            left.extend(self.snapshots_left(&stored));
            self.garbage.extend(left);
            self.zones_mut().insert(apex, stored);
        } else {
            self.new_limits.remove(&apex);
        }
        Ok(())
    }

    /// Older snapshots that the new head no longer names.
    pub(super) fn snapshots_left(&self, stored: &Stored) -> Vec<Garbage> {
        let before = self.zones().get(&stored.apex).cloned();
        let left = before.into_iter().filter(|it| it.id == stored.id);
        left.filter(|before| !Arc::ptr_eq(&before.head.older, &stored.head.older))
            .flat_map(|before| before.head.older.to_vec())
            .filter(|base| !stored.head.older.contains(base))
            .map(|base| parts_of_snapshot(stored.id, base.seq))
            .collect()
    }

    /// Starts a snapshot when the steps have outgrown the base.
    pub(super) fn start_snapshot(&mut self, version: &Version) {
        let apex = version.contents.apex();
        let Some(stored) = self.zones().get(apex).cloned() else {
            return;
        };
        if version.seq > stored.announced().seq {
            return;
        }
        let limit = SNAPSHOT_MIN_OCTETS.max(stored.head.base.octets / 2);
        let old = codec::zone_key(SNAPSHOT, stored.id);
        let busy = self.jobs.iter().any(|job| job.id == stored.id)
            || self.garbage.iter().any(|some| some.low.starts_with(&old));
        if stored.head.since_base <= limit || busy {
            return;
        }
        let mut job = snapshot_job(stored.id, version);
        job.since_base = stored.head.since_base;
        self.jobs.push_back(job);
    }

    /// Does a portion of upkeep. Returns whether there is more to do.
    pub(super) fn upkeep(
        &mut self,
        portion: usize,
        occasion: Occasion,
    ) -> Result<bool, StoreError> {
        if let Some(mut job) = self.jobs.pop_front() {
            let mut batch = Batch::default();
            for (key, value) in job.portion(portion) {
                batch.put(&key, value);
            }
            self.store.write(batch)?;
            if job.is_complete() {
                self.finish_snapshot(&job)?;
            } else {
                self.jobs.push_front(job);
            }
        }
        if occasion == Occasion::Idle {
            self.apply_new_limits()?;
        }
        let is_above_limits = occasion == Occasion::Idle && self.tend_archives()?;
        let is_in_memory = |job: &LargeStepJob| job.step.is_some();
        if occasion == Occasion::Idle || self.lists.front().is_some_and(is_in_memory) {
            self.write_list(portion)?;
        }
        let stale: Vec<_> = self
            .zones()
            .values()
            .filter(|stored| stored.first_stored < stored.head.first_needed())
            .cloned()
            .collect();
        let mut room = portion;
        for stored in &stale {
            room = room.saturating_sub(self.remove_steps(stored, room)?);
        }
        while let (Some(some), true) = (self.garbage.front(), room > 0) {
            let removed = self.remove_some(&some.low, &some.high, room)?;
            if removed < room {
                self.garbage.pop_front();
            }
            room -= removed;
        }
        let has_jobs = !self.jobs.is_empty() || !self.lists.is_empty() || is_above_limits;
        Ok(has_jobs || !self.new_limits.is_empty() || room == 0)
    }

    /// Starts the list of a large step.
    pub(super) fn start_list(&mut self, candidate: &Candidate) {
        let (step, apex) = (candidate.step(), candidate.version().contents.apex());
        let id = self.zones().get(apex).map(|stored| stored.id);
        if let Some(id) = id.filter(|_| index::is_large(step)) {
            // The first versions of a cluster's zones come in one commit. Keeping all their steps would take too much
            // memory, so steps that do not fit are read when their turn comes.
            let held = self.lists.iter().filter_map(|job| job.step.as_ref());
            let octets = held.map(|step| step.octets()).sum::<usize>() + step.octets();
            let fits = self.lists.is_empty() || octets <= self.lists_in_memory_bytes;
            let in_memory = fits.then(|| Arc::clone(step));
            self.lists
                .push_back(LargeStepJob::new(id, step.seq, in_memory));
        }
    }

    /// Writes a portion of the list of a large step.
    fn write_list(&mut self, portion: usize) -> Result<(), StoreError> {
        let Some(mut job) = self.lists.pop_front() else {
            return Ok(());
        };
        let zone = self
            .zones()
            .values()
            .find(|stored| stored.id == job.id && stored.head.oldest <= job.seq)
            .map(|stored| stored.apex.clone());
        let Some(apex) = zone else {
            // It has left the history meanwhile.
            self.garbage.push_back(list_of_step(job.id, job.seq));
            return Ok(());
        };
        let step = match job.step.take() {
            Some(step) => step,
            None => match load::read_step(&self.store, &apex, job.id, job.seq) {
                Ok(step) => Arc::new(step),
                // Every search looks at a step that cannot be read, and finds the damage.
                Err(StreamError::Damaged(_)) => return Ok(()),
                Err(StreamError::Store(error)) => return Err(error),
            },
        };
        let mut batch = Batch::default();
        let complete = job.portion(&step, portion, |key, value| batch.put(key, value));
        self.store.write(batch)?;
        if !complete {
            job.step = Some(step);
            self.lists.push_front(job);
        }
        Ok(())
    }

    /// Makes a finished snapshot the base of its zone.
    pub(super) fn finish_snapshot(&mut self, job: &SnapshotJob) -> Result<(), StoreError> {
        let Some(mut stored) = self.zones().get(&job.apex).cloned() else {
            return Ok(());
        };
        if stored.id != job.id {
            return Ok(());
        }
        self.reopening.bulk_octets += job.octets;
        // Its parts must be on disk before the head names it.
        self.store.sync()?;
        let (old, known_older) = (stored.head.base, Arc::clone(&stored.head.older));
        if !old.snapshot
            && stored.head.oldest <= old.seq
            && let Ok(size) = step::peek_step(&self.store, stored.id, old.seq)
        {
            stored.head.kept_octets += size.octets;
        }
        // An older snapshot is kept when the steps since the last kept one are larger than it. So old versions are
        // found fast, and all snapshots together are no larger than the steps.
        let keeps_old = old.snapshot
            && old.seq + 1 >= stored.head.oldest
            && stored.head.since_older >= old.octets.max(SNAPSHOT_MIN_OCTETS);
        if keeps_old {
            Arc::make_mut(&mut stored.head.older).push(old);
            stored.head.since_older = 0;
        }
        stored.head.since_older += job.since_base;
        stored.head.base = Base {
            seq: job.seq,
            snapshot: true,
            octets: job.octets,
        };
        stored.head.since_base = stored.head.since_base.saturating_sub(job.since_base);
        let mut batch = Batch::default();
        put_head(&mut batch, &stored);
        put_older(&mut batch, stored.id, &known_older, &stored.head.older);
        if old.snapshot && !keeps_old {
            // An entry left by a failed commit may name it.
            batch.delete(&older_key(stored.id, old.seq));
        }
        self.store.write(batch)?;
        self.store.sync()?;
        if old.snapshot && !keeps_old {
            self.garbage
                .push_back(parts_of_snapshot(stored.id, old.seq));
        }
        self.zones_mut().insert(stored.apex.clone(), stored);
        Ok(())
    }

    /// Removes the entries of steps that left a zone's history. Returns their number. A step is removed together with
    /// its index entries; a large step in portions.
    pub(super) fn remove_steps(
        &mut self,
        stored: &Stored,
        room: usize,
    ) -> Result<usize, StoreError> {
        let low = codec::part_key(STEP, stored.id, 0, 0);
        let high = codec::part_key(STEP, stored.id, stored.head.first_needed(), 0);
        let mut removed = 0;
        while removed < room {
            let first = self.store.range(&low, &high, 1)?;
            let Some(seq) = first.first().and_then(|(key, _)| codec::seq_of(key)) else {
                if let Some(known) = self.zones_mut().get_mut(&stored.apex) {
                    known.first_stored = stored.head.first_needed();
                }
                break;
            };
            removed += self.remove_step(stored, seq, room - removed)?;
        }
        Ok(removed)
    }

    /// Removes a step, or a portion of a large step. Returns the number of removed entries.
    fn remove_step(&mut self, stored: &Stored, seq: u64, room: usize) -> Result<usize, StoreError> {
        let low = codec::part_key(STEP, stored.id, seq, 0);
        let high = codec::part_key(STEP, stored.id, seq + 1, 0);
        let keys = match large_steps::entry(&self.store, stored.id, seq)? {
            // From before the indexes: it has no index entries, and is removed in portions.
            _ if seq < stored.head.indexed => Vec::new(),
            Some(_) => {
                let list = list_of_step(stored.id, seq);
                // The list is removed in portions together with its step, so its key can come up again.
                if self.garbage.back().is_none_or(|last| last.low != list.low) {
                    self.garbage.push_back(list);
                }
                vec![IndexKey::Large(large_steps::large_key(stored.id, seq))]
            }
            None => match load::read_step(&self.store, &stored.apex, stored.id, seq) {
                Ok(step) => index::keys_of(&step, stored.id),
                // The index entries of a step that cannot be read stay behind. They do no harm.
                Err(StreamError::Damaged(_)) => Vec::new(),
                Err(StreamError::Store(error)) => return Err(error),
            },
        };
        let mut batch = Batch::default();
        for key in &keys {
            batch.delete(key);
        }
        if stored.replica.is_some() {
            let (low, high) = notes_range(stored.id, seq, seq);
            for (key, _) in &self.store.range(&low, &high, usize::MAX)? {
                batch.delete(key);
            }
        }
        let limit = if keys.len() > 1 { usize::MAX } else { room };
        for (key, _) in &self.store.range(&low, &high, limit)? {
            batch.delete(key);
        }
        let removed = batch.keys();
        self.store.write(batch)?;
        Ok(removed)
    }

    /// Removes at most `limit` entries. Returns their number.
    pub(super) fn remove_some(
        &self,
        low: &[u8],
        high: &[u8],
        limit: usize,
    ) -> Result<usize, StoreError> {
        let found = self.store.range(low, high, limit)?;
        if found.is_empty() {
            return Ok(0);
        }
        let mut batch = Batch::default();
        for (key, _) in &found {
            batch.delete(key);
        }
        let removed = batch.keys();
        self.store.write(batch)?;
        Ok(removed)
    }
}

fn list_of_step(id: u32, seq: u64) -> Garbage {
    Garbage {
        low: codec::part_key(FILTER, id, seq, 0).to_vec(),
        high: codec::part_key(FILTER, id, seq, u32::MAX).to_vec(),
    }
}

fn parts_of_snapshot(id: u32, seq: u64) -> Garbage {
    Garbage {
        low: codec::part_key(SNAPSHOT, id, seq, 0).to_vec(),
        high: codec::part_key(SNAPSHOT, id, seq, u32::MAX).to_vec(),
    }
}

pub(super) fn snapshot_job(id: u32, version: &Version) -> SnapshotJob {
    let Version {
        seq,
        serial,
        time_ms,
        contents,
        ..
    } = version;
    SnapshotJob::new(id, *seq, (*serial, *time_ms), contents.clone(), true)
}
