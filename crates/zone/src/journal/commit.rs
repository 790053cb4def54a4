//! Commits versions: entries first, heads last, one sync. Also recovers when the database fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Name, Serial};

use crate::journal::archive::{Archive, Leaving};
use crate::journal::codec::{self, Entry, HEAD, PartWriter, STEP, ZONE};
use crate::journal::garbage::garbage_of;
use crate::journal::head::{Base, Head, counted_octets, put_older};
use crate::journal::open_error::OpenError;
use crate::journal::repair::Keep;
use crate::journal::replicate::Coming;
use crate::journal::scan::scan;
use crate::journal::segment::Segments;
use crate::journal::serial_files::Line;
use crate::journal::serial_floor::Lost;
use crate::journal::store::{Batch, Store, StoreError};
use crate::journal::upkeep::snapshot_job;
use crate::journal::{
    BATCH_ENTRIES, CommitError, DAMAGED_COMMITS, EarlyDrops, Journal, Stored, load, put_head,
};
use crate::journal::{index, step};
use crate::{Candidate, MemoryLimits};

struct Plan {
    /// The zone after the commit.
    stored: Stored,
    /// The zone's previous id, when its history starts again.
    replaces: Option<u32>,
    /// The steps that leave the history.
    leaving: Vec<Leaving>,
}

impl Journal {
    pub(super) fn write(&mut self, candidates: &[Candidate]) -> Result<(), CommitError> {
        self.heal()?;
        let serials = self.begin_write(candidates)?;
        while let Err(error) = self.write_database(candidates) {
            // After a failed write, sled refuses all work. There may be damage in a part that was not read so far, so
            // try again with the database reopened, then with a new one.
            let again = error.is_damage() && self.damaged_commits < DAMAGED_COMMITS;
            self.damaged_commits += u32::from(again);
            match self.heal() {
                Ok(()) if again => {}
                Ok(()) => return Err(error.into()),
                Err(closed) if again => return Err(closed.into()),
                Err(closed) => {
                    // The next commit tries again.
                    tracing::warn!(error = %closed, "the database still cannot be opened again");
                    return Err(error.into());
                }
            }
        }
        self.end_write(candidates, serials);
        Ok(())
    }

    /// Checks the serials of candidates, and makes sure that the ceilings cover them. Returns them.
    pub(super) fn begin_write(
        &mut self,
        candidates: &[Candidate],
    ) -> Result<Vec<(Name, Serial)>, CommitError> {
        check_serials(candidates)?;
        let serials: Vec<_> = candidates
            .iter()
            .map(|candidate| {
                let version = candidate.version();
                (version.contents.apex().clone(), version.serial)
            })
            .collect();
        if !self.is_noted {
            // Only then is a version that never reached the database known to be unpublished.
            self.note_newest();
        }
        self.serials.cover(&serials).map_err(CommitError::Serials)?;
        Ok(serials)
    }

    /// Notes that candidates are durable.
    pub(super) fn end_write(&mut self, candidates: &[Candidate], serials: Vec<(Name, Serial)>) {
        self.damaged_commits = 0;
        for candidate in candidates {
            let apex = candidate.version().contents.apex();
            if self.losses.get(apex).is_none() {
                continue;
            }
            let mut causes = candidate.step().causes.iter().flatten();
            if causes.any(|cause| Lost::told_by(cause).is_some()) {
                self.losses.remove(apex);
            }
        }
        for (apex, serial) in serials {
            if self.coming.is_empty() {
                self.floors.remove(&apex);
                self.committed.insert(apex, serial);
                continue;
            }
            // Another replica does not know what was dropped here.
            if self
                .floors
                .get(&apex)
                .is_some_and(|floor| !floor.is_after(serial))
            {
                self.floors.remove(&apex);
            }
            let highest = self
                .committed
                .get(&apex)
                .map_or(serial, |it| it.later(serial));
            self.committed.insert(apex, highest);
        }
        self.note_newest();
    }

    /// Writes the file `newest` beside the database: the newest serials, and the losses that no version has recorded
    /// yet.
    pub(super) fn note_newest(&mut self) {
        let mut newest: Vec<_> = self
            .zones()
            .values()
            .map(|stored| (stored.apex.clone(), stored.announced()))
            // What is not announced may be dropped, and is not lost then.
            .filter(|(_, announced)| announced.seq > 0)
            .map(|(apex, announced)| (apex, announced.serial))
            .collect();
        let (exact, unsure): (Vec<_>, Vec<_>) =
            (self.losses.all().into_iter()).partition(|(_, lost)| lost.is_exact);
        for (apex, lost) in exact {
            match newest.iter_mut().find(|(known, _)| *known == apex) {
                Some((_, serial)) => *serial = serial.later(lost.newest),
                None => newest.push((apex, lost.newest)),
            }
        }
        let unsure = unsure.into_iter().map(|(apex, lost)| (apex, lost.newest));
        // Versions that the machine lost in its last crash may have been published: no commit since the boot proves
        // the opposite.
        let lines = newest.into_iter().map(|(apex, serial)| Line {
            is_newest: !self.floors.contains_key(&apex),
            apex,
            serial,
        });
        let newest: Vec<_> = lines.collect();
        match self.newest.write(&newest, &unsure.collect::<Vec<_>>()) {
            Ok(()) => self.is_noted = true,
            // Nothing depends on this file.
            Err(error) => tracing::debug!(%error, "cannot write the file of the newest serials"),
        }
    }

    /// Writes the entries and then, in one batch, the heads. What could not be written is not reported as dropped.
    pub(super) fn write_database(&mut self, candidates: &[Candidate]) -> Result<(), StoreError> {
        let known = self.early.len();
        let written = self.write_entries(candidates);
        if written.is_err() {
            self.early.truncate(known);
        }
        written
    }

    fn write_entries(&mut self, candidates: &[Candidate]) -> Result<(), StoreError> {
        let mut touched: BTreeMap<Name, Stored> = BTreeMap::new();
        let mut garbage = Vec::new();
        let mut last = Batch::default();
        self.add_beside(&mut last)?;
        let mut entries = Vec::new();
        for candidate in candidates {
            let apex = candidate.version().contents.apex();
            let known = match touched.get(apex) {
                Some(stored) => Some(stored.clone()),
                None => self.zones().get(apex).cloned(),
            };
            let is_snapshot = self.coming(candidate).is_some_and(Coming::is_snapshot);
            let Plan {
                mut stored,
                replaces,
                leaving,
            } = match &known {
                Some(old) if is_snapshot => Plan {
                    replaces: Some(old.id),
                    ..self.plan(candidate, None)
                },
                known => self.plan(candidate, known.as_ref()),
            };
            stored.note_coming(self.coming(candidate), known.as_ref());
            garbage.extend(self.archive(&mut stored, leaving, &mut last));
            let stored = self.write_candidate(candidate, stored, &mut entries)?;
            if stored.head.base.seq == candidate.step().seq {
                self.reopening.bulk_octets += stored.head.base.octets;
            } else if index::is_large(candidate.step()) {
                self.reopening.bulk_octets += candidate.step().octets() as u64;
            }
            if let Some(known) = known.filter(|known| known.id == stored.id) {
                put_older(&mut last, stored.id, &known.head.older, &stored.head.older);
            }
            if let Some(old) = replaces {
                last.delete(&codec::zone_key(ZONE, old));
                last.delete(&codec::zone_key(HEAD, old));
                garbage.extend(garbage_of(old));
            }
            touched.insert(stored.apex.clone(), stored);
        }
        for (key, value) in entries {
            last.put(&key, value);
        }
        for candidate in candidates {
            if let Some(stored) = touched.get(candidate.version().contents.apex()) {
                index::put(&mut last, candidate.step(), stored.id);
            }
        }
        self.add_coming(&mut last, &touched, candidates)?;
        for stored in touched.values() {
            put_head(&mut last, stored);
            put_zone(&mut last, stored);
        }
        self.store.write(last)?;
        self.store.sync()?;
        for stored in touched.values() {
            garbage.extend(self.snapshots_left(stored));
        }
        self.zones_mut().extend(touched);
        self.garbage.extend(garbage);
        for candidate in candidates {
            self.start_snapshot(candidate.version());
            self.start_list(candidate);
        }
        Ok(())
    }

    /// Decides under which id and base a candidate is stored.
    fn plan(&mut self, candidate: &Candidate, known: Option<&Stored>) -> Plan {
        let step = candidate.step();
        let apex = candidate.version().contents.apex();
        let counted = counted_octets(step.octets());
        let linked = known.filter(|stored| {
            stored.head.seq + 1 == step.seq
                && (step.from.as_ref()).is_some_and(|(serial, _)| *serial == stored.head.serial)
        });
        if let Some(stored) = linked {
            let mut stored = stored.clone();
            stored.head.serial = step.serial;
            stored.head.seq = step.seq;
            stored.head.hash = step.link.map(|link| link.hash);
            stored.head.left_behind = candidate.version().left_behind;
            stored.head.kept_octets += counted;
            stored.head.since_base += counted;
            let leaving = self.retain(&mut stored);
            return Plan {
                stored,
                replaces: None,
                leaving,
            };
        }
        let id = self.next_id;
        self.next_id += 1;
        let first = step.from.is_none();
        let head = Head {
            serial: step.serial,
            seq: step.seq,
            oldest: step.seq,
            // A first step counts only when it is no longer the base.
            kept_octets: if first { 0 } else { counted },
            base: Base {
                seq: step.seq,
                snapshot: !first,
                octets: 0,
            },
            since_base: 0,
            indexed: step.seq,
            hash: step.link.map(|link| link.hash),
            since_older: 0,
            left_behind: candidate.version().left_behind,
            older: Arc::default(),
        };
        Plan {
            stored: Stored {
                apex: apex.clone(),
                id,
                head,
                first_stored: step.seq,
                oldest_size: None,
                early: EarlyDrops::default(),
                archive: Archive::default(),
                segments: Segments::default(),
                replica: None,
            },
            replaces: known.map(|stored| stored.id),
            leaving: Vec::new(),
        }
    }

    /// Writes a candidate's step, and its contents when no earlier entry gives them. Full batches are written at
    /// once; the rest stays in `entries`.
    fn write_candidate(
        &self,
        candidate: &Candidate,
        mut stored: Stored,
        entries: &mut Vec<Entry>,
    ) -> Result<Stored, StoreError> {
        let step = candidate.step();
        let version = candidate.version();
        let is_base = stored.head.base.seq == step.seq;
        if is_base && stored.head.base.snapshot {
            let mut job = snapshot_job(stored.id, version);
            while !job.is_complete() {
                entries.extend(job.portion(BATCH_ENTRIES));
                self.write_full(entries)?;
            }
            stored.head.base.octets = job.octets;
        }
        let mut parts = PartWriter::new(STEP, stored.id, step.seq);
        let mut done = Ok(());
        step::write_step(
            step,
            &version.contents,
            &mut parts,
            |parts, octets, begins| {
                if begins {
                    parts.begin(octets.len(), entries);
                }
                parts.push(octets, entries);
                if done.is_ok() {
                    done = self.write_full(entries);
                }
            },
        );
        done?;
        let octets = parts.octets();
        parts.finish(entries);
        if is_base && !stored.head.base.snapshot {
            stored.head.base.octets = octets;
        }
        Ok(stored)
    }

    /// Writes the entries when they fill a batch.
    fn write_full(&self, entries: &mut Vec<Entry>) -> Result<(), StoreError> {
        if entries.len() < BATCH_ENTRIES {
            return Ok(());
        }
        let mut batch = Batch::default();
        for (key, value) in entries.drain(..) {
            batch.put(&key, value);
        }
        self.store.write(batch)
    }

    /// Opens the database again after a failed write.
    pub(super) fn heal(&mut self) -> Result<(), OpenError> {
        if !self.store.is_poisoned() {
            return Ok(());
        }
        // Portions that were not synced may be lost.
        self.jobs.clear();
        let mut notes = Vec::new();
        let damaged = self.damaged_commits.max(self.damaged_upkeep) >= DAMAGED_COMMITS;
        let scan = if damaged {
            self.damaged_upkeep = 0;
            self.dir
                .start_anew(&self.store, Keep::Readable, &mut notes, scan)?
        } else {
            self.dir.open_database(&self.store, &mut notes, scan)?
        };
        notes.extend(scan.notes);
        for note in notes {
            tracing::warn!(note, "the database was opened again");
        }
        self.garbage = scan.garbage.into();
        self.lists = scan.lists.into();
        self.next_id = self.next_id.max(scan.next_id);
        // Memory knows what was durable and published. A stored head that is further ahead belongs to a failed
        // commit; the next commit overwrites it. If the head is missing or behind, history is lost, and the zone
        // starts again with its next commit.
        let store = self.store.clone();
        self.zones_mut().retain(|apex, stored| {
            let kept =
                scan.zones.get(apex).is_some_and(|found| {
                    found.id == stored.id && found.head.seq >= stored.head.seq
                }) && (!damaged || is_whole(&store, stored));
            if let Some(found) = scan.zones.get(apex) {
                // The entries that a failed commit dropped are being removed.
                stored.head.older = Arc::clone(&found.head.older);
                stored.segments = found.segments.clone();
                stored.archive = found.archive.clone().joined(stored.first());
            }
            if !kept {
                tracing::warn!(zone = %apex, "the zone's history is lost and starts again");
            }
            kept
        });
        Ok(())
    }
}

/// Refuses versions whose serial is not after that of the version before: a serial never goes back.
fn check_serials(candidates: &[Candidate]) -> Result<(), CommitError> {
    for candidate in candidates {
        let (version, from) = (candidate.version(), candidate.step().from.as_ref());
        if let Some((previous, _)) = from
            && !version.serial.is_after(*previous)
        {
            return Err(CommitError::Backwards {
                apex: version.contents.apex().clone(),
                previous: *previous,
                serial: version.serial,
            });
        }
    }
    Ok(())
}

/// Whether everything that a zone's newest version is built from can be read.
fn is_whole(store: &Store, stored: &Stored) -> bool {
    let limits = MemoryLimits {
        steps: 0,
        octets: 0,
    };
    load::restore(store, stored, limits).is_ok_and(|sound| sound.fault.is_none())
}

fn put_zone(batch: &mut Batch, stored: &Stored) {
    let key = codec::zone_key(ZONE, stored.id);
    batch.put(&key, codec::seal(&key, stored.apex.as_wire().to_vec()));
}
