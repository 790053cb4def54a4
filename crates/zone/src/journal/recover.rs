//! Restores the newest undamaged version of a zone and removes the damaged ones after it.

use dns::{Name, Serial};

use crate::journal::archive::{Archive, garbage_before};
use crate::journal::codec::{self, HEAD, STEP, StreamError, ZONE};
use crate::journal::garbage::{Garbage, garbage_of};
use crate::journal::open_error::OpenError;
use crate::journal::repair::Keep;
use crate::journal::scan::scan;
use crate::journal::store::{Batch, StoreError};
use crate::journal::{BATCH_ENTRIES, Journal, Loaded, Stored, load, put_head, step, verify};
use crate::{MemoryLimits, Version};

impl Journal {
    /// Copies what can be read to a new database.
    pub(super) fn salvage(&mut self, notes: &mut Vec<String>) -> Result<(), OpenError> {
        self.jobs.clear();
        let scan = self
            .dir
            .start_anew(&self.store, Keep::Readable, notes, scan)?;
        notes.extend(scan.notes);
        self.garbage = scan.garbage.into();
        self.lists = scan.lists.into();
        self.next_id = self.next_id.max(scan.next_id);
        *self.zones_mut() = scan.zones;
        Ok(())
    }

    /// Loads a zone and removes its damaged versions.
    pub(super) fn restore(
        &mut self,
        apex: &Name,
        limits: MemoryLimits,
    ) -> Result<Loaded, StoreError> {
        let Some(stored) = self.zones().get(apex).cloned() else {
            return Ok(Loaded {
                version: None,
                notes: Vec::new(),
            });
        };
        let newest = stored.head.clone();
        let (version, notes) = match load::restore(&self.store, &stored, limits) {
            Ok(sound) => {
                let notes = match sound.fault {
                    None => verify::doubts(&sound.version),
                    Some(what) => {
                        self.cut(stored, &sound.version)?;
                        let left = Some(sound.version.serial);
                        self.losses.add(apex, left, newest.serial);
                        self.pass_over(apex, newest.serial);
                        vec![format!(
                            "zone {apex}: serials after {} up to {} are lost ({what})",
                            sound.version.serial, newest.serial
                        )]
                    }
                };
                (Some(sound.version), notes)
            }
            Err(StreamError::Damaged(what)) => {
                self.forget(&stored)?;
                self.losses.add(apex, None, newest.serial);
                self.pass_over(apex, newest.serial);
                let note = format!(
                    "zone {apex}: all versions up to serial {} are lost ({what})",
                    newest.serial
                );
                (None, vec![note])
            }
            Err(StreamError::Store(error)) => return Err(error),
        };
        Ok(Loaded { version, notes })
    }

    /// Makes sure that the next serial of a zone is above this one.
    pub(super) fn pass_over(&mut self, apex: &Name, serial: Serial) {
        let floor = self
            .floors
            .get(apex)
            .map_or(serial, |floor| floor.later(serial));
        self.floors.insert(apex.clone(), floor);
    }

    /// Makes an older version the newest of a zone.
    fn cut(&mut self, mut stored: Stored, newest: &Version) -> Result<(), StoreError> {
        let head = &mut stored.head;
        let (last, id) = (head.seq, stored.id);
        head.serial = newest.serial;
        head.seq = newest.seq;
        head.hash = newest.link.map(|link| link.hash);
        let cut_archive = head.oldest > newest.seq;
        head.oldest = head.oldest.min(newest.seq);
        (head.kept_octets, head.since_base) = (0, 0);
        for seq in head.oldest..=newest.seq {
            // A step before the base may be damaged too; then it counts nothing.
            if let Ok(size) = step::peek_step(&self.store, id, seq) {
                head.kept_octets += size.octets;
                head.since_base += if seq > head.base.seq { size.octets } else { 0 };
            }
        }
        let mut batch = Batch::default();
        put_head(&mut batch, &stored);
        stored.segments.cut(id, newest, &mut batch);
        self.store.write(batch)?;
        self.store.sync()?;
        if cut_archive {
            stored.archive = Archive::default();
            for Garbage { low, high } in garbage_before(id, u64::MAX) {
                while self.remove_some(&low, &high, BATCH_ENTRIES)? > 0 {}
            }
        }
        let low = codec::part_key(STEP, id, newest.seq + 1, 0);
        let high = codec::part_key(STEP, id, last, u32::MAX);
        self.zones_mut().insert(stored.apex.clone(), stored);
        // Removed at once, because the next commits write under these keys.
        while self.remove_some(&low, &high, BATCH_ENTRIES)? > 0 {}
        self.store.sync()
    }

    /// Removes a zone of which nothing can be read.
    fn forget(&mut self, stored: &Stored) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        batch.delete(&codec::zone_key(ZONE, stored.id));
        batch.delete(&codec::zone_key(HEAD, stored.id));
        self.store.write(batch)?;
        self.store.sync()?;
        self.zones_mut().remove(&stored.apex);
        self.garbage.extend(garbage_of(stored.id));
        Ok(())
    }
}
