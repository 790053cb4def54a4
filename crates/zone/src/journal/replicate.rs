//! Versions of a zone that several replicas have: durable first, announced later, and dropped if they are not.
//!
//! A step is decoded, applied to the newest version and checked by its hash on every replica, also on the one that made it
//! ([`Journal::open_step`]). So all of them store the same history. It is durable after [`Journal::commit_opened`], in the batch
//! and with the sync of every other commit, and readers do not see it until [`Journal::announce`]. That mark is not
//! synced: after a loss of power it may be behind, and [`Journal::load_chain`] gives more versions that are not announced.
//!
//! Only versions after the announced one can be dropped, with all that came with them ([`Journal::truncate`]). Their serials
//! are not used again: the ceiling in the file of serials is above them, and so is [`Journal::floor`].

use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Name, Serial};

use crate::journal::acts;
use crate::journal::codec::{self, HEAD, KEPT, ZONE, seal, unseal};
use crate::journal::corefiles;
use crate::journal::head::Head;
use crate::journal::parcel::{self, Attached, Parcel, PayloadError, Staged};
use crate::journal::replica_entries::{Announced, Notes, Replicated, Tip};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::journal::{BATCH_ENTRIES, CommitError, Journal, Stored};
use crate::version::Misfit;
use crate::{Candidate, Hash, Journaled, Link, MemoryLimits, Version};

/// The key of what this replica keeps beside the zones.
const KEPT_KEY: &[u8] = &[KEPT];
/// The most acts that are kept of a zone.
const ACTS_MOST: u64 = acts::MOST;

/// A step or snapshot that leads to a version, not durable yet.
#[derive(Debug)]
pub struct Opened {
    candidate: Candidate,
    coming: Coming,
}

impl Opened {
    /// The version that it leads to.
    #[must_use]
    pub const fn version(&self) -> &Version {
        self.candidate.version()
    }

    /// Whether a Corefile comes with it: a commit takes one.
    #[must_use]
    pub const fn has_corefile(&self) -> bool {
        self.coming.attached.corefile.is_some()
    }
}

/// What comes with a version of the next commit.
#[derive(Debug)]
pub(super) struct Coming {
    apex: Name,
    seq: u64,
    epoch: u64,
    attached: Attached,
    is_snapshot: bool,
    /// The acts that replace those of the zone, of a snapshot.
    acts: Vec<(u64, Vec<u8>)>,
}

/// Why a step is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenStepError {
    /// Its payload is not taken.
    #[error(transparent)]
    Payload(#[from] PayloadError),
    /// It does not follow the newest version.
    #[error("a step does not follow the newest version")]
    Unfit,
    /// It does not lead to the version that it names.
    #[error("a step leads to another version than it names")]
    WrongHash,
}

/// Why nothing became durable.
#[derive(Debug, thiserror::Error)]
pub enum ReplicateError {
    /// Nothing of it is in the store, or will be after a restart.
    #[error(transparent)]
    Refused(CommitError),
    /// What is on the disk is not known: the process has to end, and read it again.
    #[error("it is not known what is on the disk: {0}")]
    Unknown(#[source] StoreError),
    /// The zone has no such version after the announced one.
    #[error("zone {apex} has no version {seq} that can be its newest")]
    NoVersion {
        /// The zone.
        apex: Name,
        /// The version.
        seq: u64,
    },
}

impl Journal {
    /// A candidate as it goes to the journals of all replicas, this one included.
    #[must_use]
    pub fn parcel_of(candidate: &Candidate, epoch: u64, attached: Attached) -> Parcel {
        let left_behind = candidate.version().left_behind;
        Parcel::of_step(epoch, Arc::clone(candidate.step()), left_behind, attached)
    }

    /// Applies a step to the newest version of its zone, `None` before the first. `staged` has the parts that came before
    /// the payload. Costs the step.
    ///
    /// # Errors
    /// [`OpenStepError`] when it is malformed, does not follow that version, or does not lead to `tip`.
    pub fn open_step(
        apex: &Name,
        previous: Option<&Version>,
        tip: &Tip,
        (staged, payload): (Staged, &[u8]),
        limits: MemoryLimits,
    ) -> Result<Opened, OpenStepError> {
        let opened = parcel::open(apex, (tip.seq, false), staged, payload)?;
        made(apex, previous, tip, opened, false, limits)
    }

    /// Takes a snapshot: the content before a step, and the step. Costs a pass over the zone.
    ///
    /// # Errors
    /// As [`Self::open_step`].
    pub fn open_snapshot(
        apex: &Name,
        tip: &Tip,
        (staged, payload): (Staged, &[u8]),
        limits: MemoryLimits,
    ) -> Result<Opened, OpenStepError> {
        let mut opened = parcel::open(apex, (tip.seq, true), staged, payload)?;
        let before = opened.before.take();
        let from = opened.step.from.as_ref().map(|(serial, _)| *serial);
        let named = opened.step.link.ok_or(OpenStepError::WrongHash)?;
        let version = before.zip(from).map(|(contents, serial)| {
            // Its own hash is not known here: the step names it, and its hash covers the name.
            let link = Link {
                previous: Hash::ZERO,
                content: Hash::ZERO,
                hash: named.previous,
            };
            let (seq, history) = (
                tip.seq.saturating_sub(1),
                crate::version::History::default(),
            );
            Version::restore(seq, serial, 0, contents, history, Some(link))
        });
        made(apex, version.as_ref(), tip, opened, true, limits)
    }

    /// Makes opened steps durable, all or none and in order, with what this replica keeps ([`Self::kept`]). They are not
    /// announced. Several steps share one sync; a snapshot comes alone.
    ///
    /// # Errors
    /// [`ReplicateError::Refused`] when nothing of it is left, [`ReplicateError::Unknown`] when that is not known.
    pub fn commit_opened(
        &mut self,
        opened: Vec<Opened>,
        kept: Option<&[u8]>,
    ) -> Result<Vec<Journaled>, ReplicateError> {
        let mut candidates = Vec::with_capacity(opened.len());
        for Opened { candidate, coming } in opened {
            candidates.push(candidate);
            self.coming.push(coming);
        }
        self.kept_next = kept.map(<[u8]>::to_vec);
        let before = self.store.keys_written();
        let written = self.write_once(&candidates);
        self.coming.clear();
        self.kept_next = None;
        if let Err(error) = written {
            return Err(self.undo(error, &candidates));
        }
        self.upkeep_after(before);
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    /// Writes candidates without a second try: a store that is damaged is read again by the next process.
    fn write_once(&mut self, candidates: &[Candidate]) -> Result<(), CommitError> {
        self.heal()?;
        if candidates.is_empty() {
            let mut batch = Batch::default();
            self.add_kept(&mut batch);
            self.store.write(batch)?;
            return Ok(self.store.sync()?);
        }
        let serials = self.begin_write(candidates)?;
        self.write_database(candidates)?;
        self.end_write(candidates, serials);
        Ok(())
    }

    /// Finds out whether something of a failed write is left.
    fn undo(&mut self, error: CommitError, candidates: &[Candidate]) -> ReplicateError {
        let store_error = match error {
            CommitError::Store(error) => error,
            CommitError::Serials(_) | CommitError::Backwards { .. } | CommitError::Open(_) => {
                return ReplicateError::Refused(error);
            }
        };
        if store_error.is_damage() || self.store.has_failed_sync() {
            return ReplicateError::Unknown(store_error);
        }
        // What is on the disk is read again.
        self.store.close();
        if self.heal().is_err() || self.has_left(candidates) {
            return ReplicateError::Unknown(store_error);
        }
        ReplicateError::Refused(CommitError::Store(store_error))
    }

    /// Whether a head in the store is ahead of memory.
    fn has_left(&self, candidates: &[Candidate]) -> bool {
        let is_known = |candidate: &Candidate| {
            let apex = candidate.version().contents.apex();
            let Some(stored) = self.zones().get(apex).cloned() else {
                return !self.has_name(apex);
            };
            let key = codec::zone_key(HEAD, stored.id);
            let head = self.store.get(&key).map(|value| {
                let head = value.and_then(|value| Head::decode(&key, &value));
                head.is_some_and(|head| {
                    head.seq == stored.head.seq && head.hash == stored.head.hash
                })
            });
            head.unwrap_or(false)
        };
        !candidates.iter().all(is_known)
    }

    /// Whether the store has a zone with this name, or cannot be read.
    fn has_name(&self, apex: &Name) -> bool {
        let low = codec::zone_key(ZONE, 0);
        let mut names = paged(&self.store, &low, &[ZONE + 1], BATCH_ENTRIES);
        names.any(|entry| {
            entry.map_or(true, |(key, value)| {
                unseal(&key, &value).is_some_and(|name| name == apex.as_wire())
            })
        })
    }

    /// What this replica keeps beside the zones: written with [`Self::commit_opened`]. `None` when there is nothing that can
    /// be read.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read.
    pub fn kept(&self) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.store.get(KEPT_KEY)?;
        Ok(value.and_then(|value| unseal(KEPT_KEY, &value).map(<[u8]>::to_vec)))
    }

    /// Adds what this replica keeps to a batch.
    pub(super) fn add_kept(&self, batch: &mut Batch) {
        if let Some(kept) = &self.kept_next {
            batch.put(KEPT_KEY, seal(KEPT_KEY, kept.clone()));
        }
    }

    /// What comes with a candidate; `None` without replicas.
    pub(super) fn coming(&self, candidate: &Candidate) -> Option<&Coming> {
        let (apex, seq) = (candidate.version().contents.apex(), candidate.step().seq);
        let mut all = self.coming.iter();
        all.find(|coming| coming.seq == seq && coming.apex == *apex)
    }

    /// Adds what comes with the candidates to the batch that moves the heads.
    pub(super) fn add_coming(
        &self,
        batch: &mut Batch,
        touched: &BTreeMap<Name, Stored>,
        candidates: &[Candidate],
    ) -> Result<(), StoreError> {
        if self.coming.is_empty() && touched.values().all(|stored| stored.replica.is_none()) {
            return Ok(());
        }
        self.add_kept(batch);
        let mut all_acts = Vec::new();
        let mut numbers: BTreeMap<&Name, u64> = BTreeMap::new();
        for (coming, candidate) in self.coming.iter().zip(candidates) {
            let Some(stored) = touched.get(&coming.apex) else {
                continue;
            };
            if coming.is_snapshot {
                self.replace_acts(batch, coming)?;
            }
            let last = match numbers.get(&coming.apex) {
                Some(last) => *last,
                None => self.newest_act(&coming.apex)?.number,
            };
            let count = coming.attached.acts.len() as u64;
            numbers.insert(&coming.apex, last + count);
            for act in &coming.attached.acts {
                all_acts.push((coming.apex.clone(), act.clone()));
            }
            let corefile = coming.attached.corefile.as_ref();
            if let Some(corefile) = corefile {
                self.put_corefile(batch, corefile, corefiles::MOST)?;
            }
            let notes = Notes {
                left_behind: candidate.version().left_behind,
                acts: if count == 0 {
                    (0, 0)
                } else {
                    (last + 1, count)
                },
                corefile: corefile.map_or_else(String::new, |it| it.digest.clone()),
                state: coming.attached.state.clone(),
            };
            notes.put(batch, stored.id, coming.seq);
        }
        self.put_acts(batch, &all_acts, ACTS_MOST)?;
        for (apex, stored) in touched {
            let before = self.zones().get(apex).cloned();
            let before = before.filter(|before| before.id == stored.id);
            if let Some(before) = &before
                && before.replica.is_none()
                && stored.replica.is_some()
            {
                let left_behind = before.head.left_behind;
                let notes = Notes {
                    left_behind,
                    ..Notes::default()
                };
                notes.put(batch, stored.id, before.head.seq);
            }
            if let Some(replica) = &stored.replica
                && before.is_none_or(|before| before.replica.as_ref() != Some(replica))
            {
                replica.put(batch, stored.id);
            }
        }
        Ok(())
    }

    /// Puts the acts of a snapshot in place of those of its zone.
    fn replace_acts(&self, batch: &mut Batch, coming: &Coming) -> Result<(), StoreError> {
        let [low, high] = acts::range_of(&coming.apex);
        for (key, _) in self.store.range(&low, &high, usize::MAX)? {
            batch.delete(&key);
        }
        for (number, act) in &coming.acts {
            let key = acts::key_of(&coming.apex, *number);
            batch.put(&key, seal(&key, act.clone()));
        }
        Ok(())
    }

    /// Shows a version and all before it to readers. The mark is not synced. Costs the mark; `version` is the version.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be written: the mark is in memory all the same.
    pub fn announce(&mut self, version: &Version) -> Result<(), StoreError> {
        let apex = version.contents.apex();
        let Some(mut stored) = self.zones().get(apex).cloned() else {
            return Ok(());
        };
        let Some(replica) = &mut stored.replica else {
            return Ok(());
        };
        if version.seq <= replica.announced.seq || version.seq > stored.head.seq {
            return Ok(());
        }
        replica.announced = Announced {
            seq: version.seq,
            serial: version.serial,
            hash: version.link.map(|link| link.hash),
        };
        let mut batch = Batch::default();
        replica.put(&mut batch, stored.id);
        self.zones_mut().insert(apex.clone(), stored);
        self.store.write(batch)?;
        self.note_newest();
        self.start_snapshot(version);
        Ok(())
    }

    /// Takes every durable version as announced, because this process has no other replicas. For after [`Self::open`].
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be written.
    pub fn announce_all(&mut self) -> Result<(), StoreError> {
        let all: Vec<Stored> = self.zones().values().cloned().collect();
        let mut batch = Batch::default();
        for mut stored in all {
            let head = Announced::of(&stored.head);
            let Some(replica) = &mut stored.replica else {
                continue;
            };
            if replica.announced != head {
                replica.announced = head;
                replica.put(&mut batch, stored.id);
                self.zones_mut().insert(stored.apex.clone(), stored);
            }
        }
        if batch.keys() > 0 {
            self.store.write(batch)?;
            self.store.sync()?;
        }
        Ok(())
    }

    /// What the program kept with the newest durable version of a zone; empty when there is nothing.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read.
    pub fn state_of(&self, apex: &Name) -> Result<Vec<u8>, StoreError> {
        let stored = self.zones().get(apex).cloned();
        let Some(stored) = stored else {
            return Ok(Vec::new());
        };
        Ok(Notes::read(&self.store, stored.id, stored.head.seq)?.state)
    }
}

impl Announced {
    /// The newest version.
    pub(super) const fn of(head: &Head) -> Self {
        Self {
            seq: head.seq,
            serial: head.serial,
            hash: head.hash,
        }
    }
}

impl Stored {
    /// The version that readers see.
    pub(super) fn announced(&self) -> Announced {
        let replica = self.replica.as_ref();
        replica.map_or_else(|| Announced::of(&self.head), |it| it.announced)
    }

    /// The epoch of a version.
    pub(super) fn epoch_of(&self, seq: u64) -> u64 {
        self.replica.as_ref().map_or(0, |it| it.epoch_of(seq))
    }

    /// The tip of a version.
    pub(super) fn tip(&self, version: Announced) -> Tip {
        Tip {
            epoch: self.epoch_of(version.seq),
            seq: version.seq,
            serial: version.serial,
            hash: version.hash.unwrap_or_default(),
        }
    }

    /// The zone as readers see it; `None` before the first announced version.
    pub(super) fn seen(mut self) -> Option<Self> {
        let seen = self.announced();
        if seen.seq == 0 {
            return None;
        }
        self.head.seq = seen.seq;
        self.head.serial = seen.serial;
        self.head.hash = seen.hash;
        Some(self)
    }

    /// Notes that a version is stored for replicas, or that one is not.
    pub(super) fn note_coming(&mut self, coming: Option<&Coming>, known: Option<&Self>) {
        let known = known.filter(|known| known.id == self.id);
        match coming {
            Some(coming) => {
                let before = known.map_or(Announced::NONE, |it| it.announced());
                let replica = self
                    .replica
                    .get_or_insert_with(|| Replicated::after(before));
                replica.begin(coming.seq, coming.epoch);
            }
            None => {
                let head = Announced::of(&self.head);
                if let Some(replica) = &mut self.replica {
                    replica.announced = head;
                }
            }
        }
    }
}

impl Coming {
    /// Whether it replaces what is stored of the zone.
    pub(super) const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }
}

/// The version that an opened step leads to.
fn made(
    apex: &Name,
    previous: Option<&Version>,
    tip: &Tip,
    opened: parcel::Opened,
    is_snapshot: bool,
    limits: MemoryLimits,
) -> Result<Opened, OpenStepError> {
    let parcel::Opened {
        step,
        left_behind,
        attached,
        before: _,
        acts,
    } = opened;
    let (serial, link): (Serial, Option<Link>) = (step.serial, step.link);
    if serial != tip.serial || link.map(|link| link.hash) != Some(tip.hash) {
        return Err(OpenStepError::WrongHash);
    }
    let seq = step.seq;
    let candidate = Candidate::after_step(previous, apex, step, left_behind, limits);
    let candidate = candidate.map_err(|misfit| match misfit {
        Misfit::Other => OpenStepError::Unfit,
        Misfit::Hash => OpenStepError::WrongHash,
    })?;
    let coming = Coming {
        apex: apex.to_lower(),
        seq,
        epoch: tip.epoch,
        attached,
        is_snapshot,
        acts,
    };
    Ok(Opened { candidate, coming })
}
