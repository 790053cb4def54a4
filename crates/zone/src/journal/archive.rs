//! Keeps versions that the limits of the history drop before their time.
//!
//! The history is a chain of steps without gaps, and its limits drop the oldest. One namespace that changes all the time
//! would drop the versions of all others. So a step that is younger than `keep` goes to the archive. The archive has limits
//! of its own: half of those of the history. When it reaches one, the namespace with the most versions in it (or the most
//! octets) pays: its adjacent versions are condensed into one entry, then their records are dropped. Only when it has nothing
//! left to give, the oldest entry is dropped.
//!
//! The archive covers all versions from its oldest entry to the one before the history, without gaps. An entry has the
//! hashes of its last version and names the hash before its first one, so the chain leads through it. The hash of a version
//! that is whole can be computed again. The hashes between the versions of a condensed entry are gone: its last content is
//! checked by the content's hash.
//!
//! An entry is written in one batch with what it replaces. After a crash, entries that do not join the history are garbage.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use dns::{Name, RrList, Serial};
use imbl::Vector;
use provenance::{Cause, Kind};

use crate::gate::Share;
use crate::journal::codec::{
    self, ARCHIVE, ARCHIVED, PartWriter, Stream, StreamError, Streamed, seal, unseal,
};
use crate::journal::garbage::{Garbage, descriptions};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::journal::{BATCH_ENTRIES, Journal, Retention, Stored, load, step};
use crate::{Contents, Step};

/// The part of the history's limits that the archive has.
const PART: u64 = 2;
/// The records of a larger entry are dropped, in bytes: an entry is written as a whole.
const MOST_ENTRY_OCTETS: u64 = 256 << 10;
/// The size of an entry besides its records: numbers, causes, hashes, keys.
const ENTRY_OCTETS: u64 = 256;
/// The most entries that are condensed at once.
const CONDENSED_AT_ONCE: usize = 64;
/// The most changes of a zone's archive in one portion of upkeep.
const CHANGES_AT_ONCE: usize = 8;

/// A version from before the history, or several adjacent ones that are condensed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    /// The number of the first version.
    pub first: u64,
    /// The number of the last version.
    pub seq: u64,
    /// The serial of the last version.
    pub serial: Serial,
    /// The time of the first version, milliseconds since 1970 UTC.
    pub first_ms: u64,
    /// The time of the last version, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The namespace that alone caused it; `None` when an operator, a file or several namespaces took part.
    pub share: Option<Share>,
    /// Whether its records are kept.
    pub has_records: bool,
    /// The size, in bytes.
    octets: u64,
}

impl Archived {
    fn of(step: &Step) -> Self {
        Self {
            first: step.seq,
            seq: step.seq,
            serial: step.serial,
            first_ms: step.time_ms,
            time_ms: step.time_ms,
            share: share_of(step),
            has_records: true,
            octets: step.octets() as u64 + ENTRY_OCTETS,
        }
    }

    /// The number of versions.
    #[must_use]
    pub const fn versions(&self) -> u64 {
        self.seq - self.first + 1
    }

    /// Whether it is one version as it was published.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        self.first == self.seq && self.has_records
    }

    /// What must stay of a step, and what is left of it as an entry: a large one loses its records.
    fn fitted(mut self, step: Step) -> (Self, Step) {
        let step = match self.has_records && self.octets <= MOST_ENTRY_OCTETS {
            true => step,
            false => bare(step),
        };
        self.has_records &= self.octets <= MOST_ENTRY_OCTETS;
        self.octets = step.octets() as u64 + ENTRY_OCTETS;
        (self, step)
    }

    /// An entry of versions up to this step, as a test needs it.
    #[cfg(any(test, feature = "testing"))]
    #[must_use]
    pub fn made(step: &Step, first: u64, first_ms: u64, has_records: bool) -> Self {
        Self {
            first,
            first_ms,
            has_records,
            ..Self::of(step)
        }
    }

    fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(64);
        for number in [self.first, self.first_ms, self.time_ms, self.octets] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.extend_from_slice(&self.serial.encode().to_be_bytes());
        out.push(u8::from(self.has_records));
        if let Some(share) = &self.share {
            out.extend_from_slice(share.as_str().as_bytes());
        }
        seal(key, out)
    }

    fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let seq = codec::seq_of(key)?;
        let mut rest = unseal(key, value)?;
        let mut number = || {
            let (octets, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_be_bytes(*octets))
        };
        let (first, first_ms, time_ms, octets) = (number()?, number()?, number()?, number()?);
        let (serial, rest) = rest.split_first_chunk::<4>()?;
        let (has_records, share) = rest.split_first()?;
        let share = std::str::from_utf8(share).ok()?;
        (first <= seq).then(|| Self {
            first,
            seq,
            serial: Serial::decode(u32::from_be_bytes(*serial)),
            first_ms,
            time_ms,
            share: (!share.is_empty()).then(|| Share::new(share)),
            has_records: *has_records == 1,
            octets,
        })
    }
}

/// The namespace that alone caused a step.
fn share_of(step: &Step) -> Option<Share> {
    let mut namespaces = step.causes.iter().flatten().map(namespace_of);
    let first = namespaces.next()??;
    let is_alone = namespaces.all(|other| other == Some(first));
    let is_soa_same = { step.from.as_ref() }.is_some_and(|(_, soa)| *soa == step.soa);
    (is_alone && is_soa_same).then(|| Share::new(first))
}

fn namespace_of(cause: &Cause) -> Option<&str> {
    let name = match cause.kind? {
        Kind::Namespace => &cause.key.name,
        Kind::Service | Kind::EndpointSlice | Kind::Pod | Kind::ServiceImport => {
            &cause.key.namespace
        }
    };
    Some(&**name).filter(|name| !name.is_empty())
}

/// A step without its records and their causes: only what people and the configuration did to the whole version stays.
fn bare(step: Step) -> Step {
    let mut causes = step.causes;
    for group in &mut causes {
        group.retain(Cause::is_of_version);
    }
    causes.retain(|group| !group.is_empty());
    Step {
        removed: RrList::default(),
        added: RrList::default(),
        causes,
        ..step
    }
}

/// The entries of a zone's archive, oldest first.
#[derive(Debug, Clone, Default)]
pub(super) struct Archive {
    entries: Vector<Archived>,
    /// Their size.
    octets: u64,
}

/// What comes next when an archive is above its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Change {
    /// The oldest entry goes; whether it is younger than it should be.
    Drop { is_early: bool },
    /// These entries become one.
    Condense(Range<usize>),
    /// This entry loses its records.
    Strip(usize),
}

/// The limits of an archive.
#[derive(Debug, Clone, Copy)]
struct Limits {
    entries: u64,
    octets: u64,
    /// Entries from before this time are too old, milliseconds since 1970 UTC.
    oldest_ms: u64,
}

impl Archive {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// The entries, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Archived> {
        self.entries.iter()
    }

    /// The entry that ends with a version.
    pub(super) fn get(&self, seq: u64) -> Option<&Archived> {
        let place = self.entries.binary_search_by(|it| it.seq.cmp(&seq)).ok()?;
        self.entries.get(place)
    }

    fn push(&mut self, entry: Archived) {
        self.octets += entry.octets;
        self.entries.push_back(entry);
    }

    /// Puts an entry in the place of some others.
    fn replace(&mut self, range: Range<usize>, entry: Option<Archived>) {
        let mut gone = self.entries.split_off(range.start);
        let later = gone.split_off(range.end - range.start);
        self.octets -= gone.iter().map(|entry| entry.octets).sum::<u64>();
        self.octets += entry.as_ref().map_or(0, |entry| entry.octets);
        self.entries.extend(entry);
        self.entries.append(later);
    }

    /// Keeps what joins a history that begins with this version.
    pub(super) fn joined(mut self, oldest: u64) -> Self {
        // Later ones are from a commit that failed.
        while { self.entries.back() }.is_some_and(|entry| entry.seq >= oldest) {
            self.entries.pop_back();
        }
        let mut next = oldest;
        let mut joined = 0;
        for entry in self.entries.iter().rev() {
            if entry.seq + 1 != next {
                break;
            }
            next = entry.first;
            joined += 1;
        }
        let entries = self.entries.split_off(self.entries.len() - joined);
        let octets = entries.iter().map(|entry| entry.octets).sum();
        Self { entries, octets }
    }

    /// The number of the first version.
    pub(super) fn first(&self) -> Option<u64> {
        self.entries.front().map(|entry| entry.first)
    }

    /// What comes next; `None` when the limits hold.
    fn next_change(&self, limits: Limits) -> Option<Change> {
        let oldest = self.entries.front()?;
        let is_early = oldest.time_ms >= limits.oldest_ms;
        let drops = Change::Drop { is_early };
        let too_many = self.entries.len() as u64 > limits.entries;
        let too_large = self.octets > limits.octets;
        if !is_early {
            return Some(drops);
        }
        if !too_many && !too_large {
            return None;
        }
        let weight = |entry: &Archived| match too_many {
            true => entry.versions(),
            false => entry.octets,
        };
        let Some(most) = self.share_with_most(weight) else {
            return Some(drops);
        };
        if let Some(run) = self.longest_run(most, too_large && !too_many) {
            return Some(Change::Condense(run));
        }
        let is_strippable =
            |it: &Archived| it.share.as_ref() == Some(most) && it.has_records && too_large;
        let largest = { self.entries.iter().enumerate() }
            .filter(|(_, entry)| is_strippable(entry))
            .max_by_key(|(_, entry)| entry.octets);
        match largest {
            Some((place, entry)) if entry.octets > ENTRY_OCTETS => Some(Change::Strip(place)),
            Some(_) | None => Some(drops),
        }
    }

    /// The namespace whose entries weigh most.
    fn share_with_most(&self, weight: impl Fn(&Archived) -> u64) -> Option<&Share> {
        let mut sums: BTreeMap<&Share, u64> = BTreeMap::new();
        for entry in &self.entries {
            if let Some(share) = &entry.share {
                *sums.entry(share).or_default() += weight(entry);
            }
        }
        let most = sums.into_iter().max_by_key(|(_, sum)| *sum);
        most.map(|(share, _)| share)
    }

    /// The longest run of adjacent entries of a namespace that can be condensed; with `recorded` of those with records
    /// only.
    fn longest_run(&self, share: &Share, recorded: bool) -> Option<Range<usize>> {
        let mut longest = 0..0;
        let mut run = 0..0;
        for (place, entry) in self.entries.iter().enumerate() {
            let fits = entry.share.as_ref() == Some(share) && (entry.has_records || !recorded);
            let is_next = fits && run.end == place && run.len() < CONDENSED_AT_ONCE;
            run = match (fits, is_next) {
                (_, true) => run.start..place + 1,
                (true, false) => place..place + 1,
                (false, false) => 0..0,
            };
            if run.len() > longest.len() {
                longest = run.clone();
            }
        }
        (longest.len() > 1).then_some(longest)
    }
}

/// The key of the entry that describes an entry of the archive.
pub(super) fn described_key(id: u32, seq: u64) -> [u8; 13] {
    let mut key = [ARCHIVED; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&seq.to_be_bytes());
    key
}

/// Reads the descriptions of a zone's archive. Damaged ones are left out: what is older then joins nothing.
pub(super) fn read(store: &dyn Entries, id: u32) -> Result<Archive, StoreError> {
    let mut archive = Archive::default();
    let end = codec::zone_key(ARCHIVED, id + 1);
    for entry in paged(store, &described_key(id, 0), &end, BATCH_ENTRIES) {
        let (key, value) = entry?;
        if let Some(entry) = Archived::decode(&key, &value) {
            archive.push(entry);
        }
    }
    Ok(archive)
}

/// A step that leaves the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leaving {
    pub(super) seq: u64,
    /// Whether it is younger than the history should be.
    pub(super) is_early: bool,
    /// Whether a segment has it.
    pub(super) is_elsewhere: bool,
    /// Whether it lies between segments and the history, so that they do not join it any more.
    pub(super) is_break: bool,
}

/// The stored entries of a zone before a version.
pub(super) fn garbage_before(id: u32, seq: u64) -> [Garbage; 2] {
    [
        Garbage {
            low: codec::zone_key(ARCHIVED, id).to_vec(),
            high: described_key(id, seq).to_vec(),
        },
        Garbage {
            low: codec::zone_key(ARCHIVE, id).to_vec(),
            high: codec::part_key(ARCHIVE, id, seq, 0).to_vec(),
        },
    ]
}

/// Reads the step of an entry.
pub(super) fn read_step(store: &dyn Entries, apex: &Name, id: u32, seq: u64) -> Streamed<Step> {
    let mut stream = Stream::new(store, ARCHIVE, id, seq);
    Ok(step::take_raw_step(&mut stream, seq, true)?.into_step(apex))
}

pub(super) fn put(batch: &mut Batch, stored: &Stored, entry: &Archived, step: &Step) {
    let mut parts = PartWriter::new(ARCHIVE, stored.id, step.seq);
    let mut entries = Vec::new();
    // A step that is not the first is not written as nodes.
    let contents = Contents::empty(&stored.apex, step.soa.clone());
    step::write_step(step, &contents, &mut parts, |parts, octets, begins| {
        if begins {
            parts.begin(octets.len(), &mut entries);
        }
        parts.push(octets, &mut entries);
    });
    parts.finish(&mut entries);
    for (key, value) in entries {
        batch.put(&key, value);
    }
    let key = described_key(stored.id, entry.seq);
    batch.put(&key, entry.encode(&key));
}

impl Journal {
    /// Adds steps that leave the history to the archive, in the batch that moves the head. One that cannot be read is lost: no
    /// commit fails for it. Returns what is left of a broken archive.
    pub(super) fn archive(
        &mut self,
        stored: &mut Stored,
        leaving: Vec<Leaving>,
        batch: &mut Batch,
    ) -> Vec<Garbage> {
        let mut garbage = Vec::new();
        for Leaving {
            seq,
            is_early,
            is_elsewhere,
            is_break,
        } in leaving
        {
            if is_elsewhere {
                continue;
            }
            if is_break {
                garbage.extend(garbage_before(stored.id, seq));
                garbage.push(descriptions(stored.id, seq));
                stored.archive = Archive::default();
            }
            let left = is_early.then(|| self.left(stored, seq));
            if let Some(Ok((entry, step))) = left {
                put(batch, stored, &entry, &step);
                stored.archive.push(entry);
                continue;
            }
            let lost: u64 = stored.archive.iter().map(Archived::versions).sum();
            self.note_early(stored, if is_early { lost + 1 } else { 0 });
            if !stored.archive.is_empty() {
                garbage.extend(garbage_before(stored.id, seq));
                stored.archive = Archive::default();
            }
        }
        garbage
    }

    /// What stays of a step that leaves the history. The records of a large one are not read, and those of a first one
    /// are those of all later versions together.
    fn left(&self, stored: &Stored, seq: u64) -> Streamed<(Archived, Step)> {
        let octets = step::peek_step(&self.store, stored.id, seq)?.octets;
        if octets <= MOST_ENTRY_OCTETS {
            let step = load::read_step(&self.store, &stored.apex, stored.id, seq)?;
            if step.from.is_some() {
                return Ok((Archived::of(&step), step));
            }
        }
        let head = step::peek_causes(&self.store, stored.id, seq)?;
        let entry = Archived {
            has_records: false,
            ..Archived::of(&head)
        };
        Ok((entry, bare(head)))
    }

    /// Brings the archives within their limits, in portions. Returns whether there is more to do.
    pub(super) fn tend_archives(&mut self) -> Result<bool, StoreError> {
        let mut is_more = false;
        let zones = self.zones();
        let filled = zones.values().filter(|stored| !stored.archive.is_empty());
        let filled: Vec<Stored> = filled.cloned().collect();
        drop(zones);
        for mut stored in filled {
            let limits = self.limits_of(&stored);
            for _ in 0..CHANGES_AT_ONCE {
                let Some(change) = stored.archive.next_change(limits) else {
                    break;
                };
                self.change(&mut stored, change)?;
            }
            is_more |= stored.archive.next_change(limits).is_some();
        }
        Ok(is_more)
    }

    fn limits_of(&self, stored: &Stored) -> Limits {
        let Retention {
            keep,
            versions,
            octets,
            is_archived: _,
        } = { self.retention.get(&stored.apex).copied() }.unwrap_or_default();
        let keep_ms = u64::try_from(keep.as_millis()).unwrap_or(u64::MAX);
        Limits {
            entries: versions / PART,
            octets: octets / PART,
            oldest_ms: (self.clock)().saturating_sub(keep_ms),
        }
    }

    fn change(&mut self, stored: &mut Stored, change: Change) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        let mut early = 0;
        let (range, entry) = match change {
            Change::Drop { is_early } => {
                let oldest = stored.archive.entries.front().filter(|_| is_early);
                early = oldest.map_or(0, Archived::versions);
                (0..1, None)
            }
            Change::Strip(place) => (
                place..place + 1,
                self.joint(stored, place..place + 1, true)?,
            ),
            Change::Condense(range) => (range.clone(), self.joint(stored, range, false)?),
        };
        // What cannot be read joins nothing any more, and neither does what is before it.
        let range = match (&entry, range.start) {
            (None, 1..) => {
                let lost = stored.archive.entries.iter().take(range.end);
                early = lost.map(Archived::versions).sum();
                0..range.end
            }
            (Some(_), _) | (None, 0) => range,
        };
        for gone in stored
            .archive
            .entries
            .iter()
            .skip(range.start)
            .take(range.len())
        {
            batch.delete(&described_key(stored.id, gone.seq));
            let low = codec::part_key(ARCHIVE, stored.id, gone.seq, 0);
            let high = codec::part_key(ARCHIVE, stored.id, gone.seq + 1, 0);
            for (key, _) in self.store.range(&low, &high, usize::MAX)? {
                batch.delete(&key);
            }
        }
        let entry = entry.map(|(entry, step)| {
            put(&mut batch, stored, &entry, &step);
            entry
        });
        self.store.write(batch)?;
        self.note_early(stored, early);
        stored.archive.replace(range, entry);
        self.zones_mut().insert(stored.apex.clone(), stored.clone());
        Ok(())
    }

    /// Several entries as one; `None` when one of them cannot be read.
    fn joint(
        &self,
        stored: &Stored,
        range: Range<usize>,
        is_stripped: bool,
    ) -> Result<Option<(Archived, Step)>, StoreError> {
        let entries: Vec<&Archived> = { stored.archive.entries.iter() }
            .skip(range.start)
            .take(range.len())
            .collect();
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return Ok(None);
        };
        let has_records = !is_stripped && entries.iter().all(|entry| entry.has_records);
        let mut steps = Vec::with_capacity(entries.len());
        for entry in &entries {
            match read_step(&self.store, &stored.apex, stored.id, entry.seq) {
                Ok(step) if has_records => steps.push(Arc::new(step)),
                Ok(step) => steps.push(Arc::new(bare(step))),
                Err(StreamError::Damaged(_)) => return Ok(None),
                Err(StreamError::Store(error)) => return Err(error),
            }
        }
        let Some(step) = Step::condensed(&steps) else {
            return Ok(None);
        };
        let entry = Archived {
            first: first.first,
            first_ms: first.first_ms,
            share: first.share.clone(),
            has_records,
            octets: step.octets() as u64 + ENTRY_OCTETS,
            ..(*last).clone()
        };
        Ok(Some(entry.fitted(step)))
    }
}
