//! Loads the versions of a zone from the announced one on.

use std::sync::Arc;

use dns::Name;

use crate::journal::codec::StreamError;
use crate::journal::replica_entries::{Announced, Notes, Tip};
use crate::journal::store::{Batch, StoreError};
use crate::journal::{Journal, LoadError, Stored, load, step};
use crate::{Candidate, Hash, Journaled, MemoryLimits, Version};

/// The versions of a zone from the announced one on.
#[derive(Debug)]
pub struct LoadedChain {
    /// The announced version, with its tip; `None` before the first.
    pub announced: Option<(Tip, Version)>,
    /// Those after it, oldest first.
    pub later: Vec<(Tip, Journaled)>,
    /// What was lost, in sentences for an operator.
    pub notes: Vec<String>,
}

impl Journal {
    /// Loads the announced version of a zone and those after it, as far as they are undamaged.
    ///
    /// # Errors
    /// [`LoadError`] when the database cannot be read or written.
    pub fn load_chain(
        &mut self,
        apex: &Name,
        limits: MemoryLimits,
    ) -> Result<LoadedChain, LoadError> {
        let apex = apex.to_lower();
        let failed = |source| LoadError::Store {
            apex: apex.clone(),
            source,
        };
        let loaded = self.load(&apex, limits)?;
        let stored = self.zones().get(&apex).cloned();
        let (Some(mut stored), Some(version)) = (stored, loaded.version) else {
            return Ok(LoadedChain {
                announced: None,
                later: Vec::new(),
                notes: loaded.notes,
            });
        };
        if stored.replica.is_some() {
            self.remove_beyond(&stored).map_err(failed)?;
        }
        let announced = stored.announced();
        let head = Announced::of(&stored.head);
        if announced.seq >= head.seq {
            // Damage may have left less than what was announced: the mark must not cover versions that come later.
            if let Some(replica) = &mut stored.replica {
                replica.announced = head;
                replica.cut(head.seq);
                let mut batch = Batch::default();
                replica.put(&mut batch, stored.id);
                self.store.write(batch).map_err(failed)?;
            }
            let tip = stored.tip(head);
            self.zones_mut().insert(apex, stored);
            return Ok(LoadedChain {
                announced: Some((tip, version)),
                later: Vec::new(),
                notes: loaded.notes,
            });
        }
        match self.read_chain(&stored, announced, limits) {
            Ok(mut chain) => {
                chain.notes.splice(..0, loaded.notes);
                self.drop_unread(&stored, &mut chain)?;
                Ok(chain)
            }
            Err(StreamError::Store(error)) => Err(failed(error)),
            Err(StreamError::Damaged(what)) => {
                let newest = stored.head.serial;
                self.drop_zone(stored)
                    .and_then(|done| done)
                    .map_err(failed)?;
                self.losses.add(&apex, None, newest);
                self.pass_over(&apex, newest);
                let note =
                    format!("zone {apex}: all versions up to serial {newest} are lost ({what})");
                Ok(LoadedChain {
                    announced: None,
                    later: Vec::new(),
                    notes: [loaded.notes, vec![note]].concat(),
                })
            }
        }
    }

    /// Drops the versions after those that were read.
    fn drop_unread(&mut self, stored: &Stored, chain: &mut LoadedChain) -> Result<(), LoadError> {
        let last = chain.later.last().map(|(tip, _)| tip.seq);
        let last = last.or(chain.announced.as_ref().map(|(tip, _)| tip.seq));
        let Some(last) = last.filter(|last| *last < stored.head.seq) else {
            return Ok(());
        };
        let Stored { apex, head, .. } = stored;
        chain.notes.push(format!(
            "zone {apex}: versions after {last} up to {} are dropped: their hashes are wrong",
            head.seq
        ));
        self.truncate(apex, last).map_err(|error| LoadError::Store {
            apex: apex.clone(),
            source: StoreError::Broken {
                doing: "dropping versions",
                what: error.to_string(),
            },
        })
    }

    /// Reads the announced version and those after it.
    fn read_chain(
        &self,
        stored: &Stored,
        announced: Announced,
        limits: MemoryLimits,
    ) -> Result<LoadedChain, StreamError> {
        let first = match announced.seq {
            0 => stored.head.base.seq,
            seq => seq,
        };
        if first < stored.head.base.seq {
            return Err(StreamError::Damaged(
                "the announced version cannot be built",
            ));
        }
        let mut begin = stored.clone();
        let (serial, ..) = step::peek_version(&self.store, stored.id, first)?;
        begin.head.seq = first;
        begin.head.serial = serial;
        begin.head.left_behind = Notes::read(&self.store, stored.id, first)?.left_behind;
        let sound = load::restore(&self.store, &begin, limits)?;
        if sound.version.seq != first {
            return Err(StreamError::Damaged("the announced version cannot be read"));
        }
        let mut newest = sound.version;
        let tip = |version: &Version| Tip {
            epoch: stored.epoch_of(version.seq),
            seq: version.seq,
            serial: version.serial,
            hash: version.link.map_or(Hash::ZERO, |link| link.hash),
        };
        let mut later = Vec::new();
        let mut base = None;
        let notes = Vec::new();
        if announced.seq == 0 {
            let step = load::read_step(&self.store, &stored.apex, stored.id, first)?;
            let candidate = Candidate::stored(newest.clone(), Arc::new(step));
            later.push((tip(&newest), candidate.journaled()));
        } else {
            base = Some((tip(&newest), newest.clone()));
        }
        for seq in first + 1..=stored.head.seq {
            let step = load::read_step(&self.store, &stored.apex, stored.id, seq)?;
            let left_behind = Notes::read(&self.store, stored.id, seq)?.left_behind;
            let next =
                Candidate::after_step(Some(&newest), &stored.apex, step, left_behind, limits);
            // It is sound by its checksums, and yet another version than its hash says.
            let Ok(candidate) = next else {
                break;
            };
            newest = candidate.version().clone();
            later.push((tip(&newest), candidate.journaled()));
        }
        Ok(LoadedChain {
            announced: base,
            later,
            notes,
        })
    }
}
