//! Verifies that the stored history is as it was written.
//!
//! Three passes check all kept data of a zone. The *steps*, oldest first: each must be stored byte for byte as it
//! would be written, have the right hash, be in the index, and follow the previous step in number, serial, SOA,
//! number of records and hash. The *contents*, from the base to both ends: each version's records must have the hash
//! that its step names. The *snapshots*: each must be stored as it would be written, with the content of its version.
//! The head must agree with the newest step.
//!
//! A person who can write the store can also write a consistent chain. So hashes prove only as much as other places
//! confirm: `log` lines, exports, a note. Whoever noted one hash can tell that nothing before it was changed.

use std::collections::BTreeSet;

use dns::{Name, Serial};
use serde::{Deserialize, Serialize};

use crate::chain::{Before, Checked, Damage};
use crate::journal::archive::Archived;
use crate::journal::codec::{self, Entry, HEAD, PartWriter, SNAPSHOT, STEP};
use crate::journal::codec::{StreamError, Streamed};
use crate::journal::head::{Base, Head};
use crate::journal::load::{self, State};
use crate::journal::reader::{ReadError, Reader};
use crate::journal::serial_floor::Lost;
use crate::journal::snapshot::SnapshotJob;
use crate::journal::store::{Entries, StoreError};
use crate::journal::{Stored, archive, index, large_steps, step, stream_seek};
use crate::{ContentTree, Contents, Hash, Link, Step, Version};

/// A step without its entries.
const NOT_INDEXED: &str = "it is missing from the index";
/// The most faults that are reported.
const FAULTS_KEPT: usize = 100;
/// The number of parts of a snapshot that are compared at once.
const PORTION: usize = 64;

/// A version that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Fault {
    /// The number of the version.
    pub seq: u64,
    /// Its serial, if it can be read.
    pub serial: Option<u32>,
    /// What happened to it.
    pub damage: Damage,
    /// A description of the fault.
    pub what: String,
}

/// The result of verifying a zone's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Number, serial and time of the oldest kept version.
    pub oldest: (u64, Option<Serial>, u64),
    /// Number and serial of the newest version.
    pub newest: (u64, Serial),
    /// The number of checked versions.
    pub versions: u64,
    /// How many of them, the oldest, were stored before there were hashes.
    pub unhashed: u64,
    /// The entries of older versions that are kept.
    pub archived: u64,
    /// The older versions in entries of which the hash cannot be computed again: they are condensed, or have no records.
    pub condensed: u64,
    /// The segments of the archive that were read, with versions of those checked.
    pub segments: u64,
    /// How many of them were not read again, as an earlier verification found them good.
    #[serde(default)]
    pub reused_segments: u64,
    /// The hash that the oldest version with hashes names as its predecessor's; zeros when there is no such version.
    pub anchor: Hash,
    /// The hash of the newest version.
    pub head: Option<Hash>,
    /// The versions that have one of the requested hashes. The version before the oldest one counts, too, if the oldest
    /// one names its hash.
    pub anchored: Vec<Anchored>,
    /// The faults, oldest version first; empty when the history is intact.
    pub faults: Vec<Fault>,
    /// The first and the last number of versions that were not read, because the archive cannot be reached.
    #[serde(default)]
    pub unread: Vec<(u64, u64)>,
}

/// A version with a hash that was noted elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchored {
    /// The hash.
    pub hash: Hash,
    /// The number of the version.
    pub seq: u64,
    /// Its serial.
    pub serial: Serial,
}

/// The verdict about a part of a history: a segment, or what is stored here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartVerdict {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// The hashes of the versions with which segments end, where the part has them: number and hash.
    #[serde(default)]
    pub ends: Vec<(u64, Hash)>,
}

impl From<Verdict> for PartVerdict {
    fn from(verdict: Verdict) -> Self {
        let ends = Vec::new();
        Self { verdict, ends }
    }
}

impl PartVerdict {
    /// The hash of the version with which a segment ends, if the part has it.
    pub(super) fn end(&self, version: u64) -> Option<Hash> {
        let mut ends = self.ends.iter();
        ends.find(|(seq, _)| *seq == version).map(|(_, hash)| *hash)
    }
}

impl Reader {
    /// Verifies the versions of a zone that are here, not in segments, and finds those with these hashes. Notes the hashes of
    /// the versions `ends`.
    pub(super) fn verify_until(
        &self,
        apex: &Name,
        anchors: &[Hash],
        ends: &[u64],
    ) -> Result<PartVerdict, ReadError> {
        let newest = self.stored(apex).ok().map(|stored| stored.head.serial);
        let lost = self.losses.known(apex, newest);
        loop {
            let stored = match (self.stored(apex), &lost) {
                (Err(ReadError::NoZone(_)), Some((lost, damage, what))) => {
                    return Ok(Verdict::of_nothing(*lost, *damage, what).into());
                }
                (stored, _) => stored?,
            };
            let mut walk = Walk::new(self, &stored, anchors);
            walk.wanted = ends;
            let PartVerdict { mut verdict, ends } = walk.run()?;
            // A snapshot that was replaced during the pass is no fault.
            let moved = self.stored(apex)?.head.base != stored.head.base;
            if verdict.faults.is_empty() || !moved {
                let newest = &stored.head;
                verdict
                    .faults
                    .extend(self.acts(apex, 0)?.faults.into_iter().map(|what| Fault {
                        seq: newest.seq,
                        serial: Some(newest.serial.encode()),
                        damage: Damage::Chain,
                        what,
                    }));
                verdict
                    .faults
                    .extend(self.corefile_faults()?.map(|what| Fault {
                        seq: newest.seq,
                        serial: Some(newest.serial.encode()),
                        damage: Damage::Changed,
                        what,
                    }));
                // If a version recorded the loss meanwhile, the loss is reported twice.
                verdict.faults.extend(lost.map(|(_, damage, what)| Fault {
                    seq: stored.head.seq + 1,
                    serial: None,
                    damage,
                    what,
                }));
                return Ok(PartVerdict { verdict, ends });
            }
        }
    }
}

impl Verdict {
    /// The result for a zone that lost all versions.
    fn of_nothing(lost: Lost, damage: Damage, what: &str) -> Self {
        let mut verdict = Self::unread(0, (0, lost.newest));
        verdict.faults.push(Fault {
            seq: 0,
            serial: Some(lost.newest.encode()),
            damage,
            what: what.to_owned(),
        });
        verdict
    }

    /// A history of which nothing is read yet.
    #[must_use]
    pub const fn unread(oldest: u64, newest: (u64, Serial)) -> Self {
        Self {
            oldest: (oldest, None, 0),
            newest,
            versions: 0,
            unhashed: 0,
            archived: 0,
            condensed: 0,
            segments: 0,
            reused_segments: 0,
            anchor: Hash::ZERO,
            head: None,
            anchored: Vec::new(),
            faults: Vec::new(),
            unread: Vec::new(),
        }
    }
}

/// A zone that is being verified.
pub(super) struct Walk<'a> {
    /// Knows where the history begins now.
    reader: &'a Reader,
    store: &'a dyn Entries,
    /// The zone at the start of the pass.
    stored: &'a Stored,
    anchors: &'a [Hash],
    faults: BTreeSet<Fault>,
    /// The versions whose steps are missing.
    missing: BTreeSet<u64>,
    verdict: Verdict,
    /// The versions whose hashes are noted, and their hashes.
    wanted: &'a [u64],
    ends: Vec<(u64, Hash)>,
}

/// A version, and the contents before it if they can be built.
type Begin = (Step, Option<(Contents, ContentTree)>);

/// The version before the one that is checked, and its number of records.
struct Last {
    before: Before,
    serial: Serial,
    hash: Option<Hash>,
    records: usize,
}

impl<'a> Walk<'a> {
    pub(super) fn new(reader: &'a Reader, stored: &'a Stored, anchors: &'a [Hash]) -> Self {
        let head = &stored.head;
        Self {
            reader,
            store: &*reader.store,
            stored,
            anchors,
            faults: BTreeSet::new(),
            missing: BTreeSet::new(),
            verdict: Verdict {
                head: head.hash,
                ..Verdict::unread(head.oldest, (head.seq, head.serial))
            },
            wanted: &[],
            ends: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<PartVerdict, StoreError> {
        self.steps()?;
        self.contents()?;
        self.archive()?;
        let head = &self.stored.head;
        let base = head.base.snapshot.then_some(head.base);
        for snapshot in head.older.iter().copied().chain(base) {
            self.snapshot(snapshot)?;
        }
        self.verdict.faults = self.faults.into_iter().collect();
        Ok(PartVerdict {
            verdict: self.verdict,
            ends: self.ends,
        })
    }

    /// Records a fault of a version. Data that upkeep removed during the pass are no fault. The head moves before
    /// they are removed, so it is enough to check this after the read.
    fn fault(&mut self, seq: u64, serial: Option<Serial>, damage: Damage, what: impl Into<String>) {
        let now = self.reader.stored(&self.stored.apex);
        let stands = now.is_ok_and(|now| still_stands(&now, seq));
        if stands && self.faults.len() < FAULTS_KEPT && !self.missing.contains(&seq) {
            self.faults.insert(Fault {
                seq,
                serial: serial.map(Serial::encode),
                damage,
                what: what.into(),
            });
        }
    }

    /// Returns the value that was read; `None` after recording damage.
    fn read<T>(&mut self, seq: u64, read: Streamed<T>) -> Result<Option<T>, StoreError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(StreamError::Damaged(what)) => {
                self.fault(seq, None, Damage::Changed, what);
                Ok(None)
            }
            Err(StreamError::Store(error)) if error.is_damage() => {
                self.fault(seq, None, Damage::Changed, error.to_string());
                Ok(None)
            }
            Err(StreamError::Store(error)) => Err(error),
        }
    }

    fn steps(&mut self) -> Result<(), StoreError> {
        let Stored { apex, id, head, .. } = self.stored;
        let mut last: Option<Last> = None;
        for seq in head.oldest..=head.seq {
            let first = self.store.get(&codec::part_key(STEP, *id, seq, 0));
            if first.as_ref().is_ok_and(Option::is_none) {
                self.fault(seq, None, Damage::Lost, "it is missing");
                self.missing.insert(seq);
                last = None;
                continue;
            }
            let read = step::read_raw_step(self.store, *id, seq);
            let Some(raw) = self.read(seq, read)? else {
                last = None;
                continue;
            };
            let contents = raw.clone().into_contents(apex);
            let step = raw.into_step(apex);
            let empty = Contents::empty(apex, step.soa.clone());
            let contents = contents.map_or(empty, |(contents, ..)| contents);
            if self.verdict.versions == 0 {
                self.verdict.oldest = (seq, Some(step.serial), step.time_ms);
            }
            self.verdict.versions += 1;
            for (damage, what) in step.causes.iter().flatten().filter_map(Lost::told_by) {
                self.fault(seq, Some(step.serial), damage, what);
            }
            let before = self.one_step(&step, last.as_ref());
            self.exactness(&step, &contents)?;
            for key in (seq >= head.indexed)
                .then(|| index::keys_of(&step, *id))
                .into_iter()
                .flatten()
            {
                if !index::has(self.store, &key)? {
                    self.fault(seq, Some(step.serial), Damage::Changed, NOT_INDEXED);
                }
            }
            let is_large = matches!(large_steps::entry(self.store, *id, seq)?, Some(1..));
            if is_large && !large_steps::is_stored(self.store, &step, *id)? {
                self.fault(seq, Some(step.serial), Damage::Changed, NOT_INDEXED);
            }
            last = Some(Last {
                before,
                serial: step.serial,
                hash: step.link.map(|link| link.hash),
                records: step.records,
            });
        }
        let newest = last.map(|last| (last.serial, last.hash));
        if newest.is_some_and(|newest| newest != (head.serial, head.hash)) {
            self.fault(
                head.seq,
                Some(head.serial),
                Damage::Chain,
                "the zone's head names another version",
            );
        }
        let key = codec::zone_key(HEAD, *id);
        let value = self.store.get(&key)?;
        if value
            .and_then(|value| Head::decode(&key, &value))
            .is_none_or(|now| now.seq < head.seq)
        {
            let what = "the zone's head is damaged";
            self.fault(head.seq, Some(head.serial), Damage::Changed, what);
        }
        Ok(())
    }

    /// Checks a step's hash, and that the step follows the version before it.
    fn one_step(&mut self, step: &Step, last: Option<&Last>) -> Before {
        self.anchor(step);
        let Checked { before, fault } =
            Checked::of(step, &self.stored.apex, last.map(|last| &last.before));
        if let Some((damage, what)) = fault {
            self.fault(step.seq, Some(step.serial), damage, what);
        }
        let (added, removed) = (step.added.len(), step.removed.len());
        if last.is_some_and(|last| last.records + added != step.records + removed) {
            let what = "it has another number of records than it says";
            self.fault(step.seq, Some(step.serial), Damage::Chain, what);
        }
        before
    }

    /// Notes the requested hashes that a step has or names.
    fn anchor(&mut self, step: &Step) {
        let Some(link) = step.link else {
            self.verdict.unhashed += 1;
            return;
        };
        if self.wanted.contains(&step.seq) {
            self.ends.push((step.seq, link.hash));
        }
        if self.anchors.contains(&link.hash) {
            self.verdict.anchored.push(Anchored {
                hash: link.hash,
                seq: step.seq,
                serial: step.serial,
            });
        }
        if self.verdict.versions != self.verdict.unhashed + 1 {
            return;
        }
        self.verdict.anchor = link.previous;
        if let Some((serial, _)) = &step.from
            && self.anchors.contains(&link.previous)
        {
            self.verdict.anchored.push(Anchored {
                hash: link.previous,
                seq: step.seq.saturating_sub(1),
                serial: *serial,
            });
        }
    }

    /// Checks that a step is stored as it would be written.
    pub(super) fn exactness(&mut self, step: &Step, contents: &Contents) -> Result<(), StoreError> {
        if !self.is_exact(step, contents)? {
            let what = "it is not stored as it was written";
            self.fault(step.seq, Some(step.serial), Damage::Changed, what);
        }
        Ok(())
    }

    /// Whether a step is stored byte for byte as it would be written now.
    fn is_exact(&self, step: &Step, contents: &Contents) -> Result<bool, StoreError> {
        let id = self.stored.id;
        let mut parts = PartWriter::new(STEP, id, step.seq);
        let mut entries = Vec::new();
        let mut same = Ok(true);
        step::write_step(step, contents, &mut parts, |parts, octets, begins| {
            if begins {
                parts.begin(octets.len(), &mut entries);
            }
            parts.push(octets, &mut entries);
            if let Ok(true) = same {
                same = are_stored(self.store, &entries);
            }
            entries.clear();
        });
        if !same? {
            return Ok(false);
        }
        parts.finish(&mut entries);
        Ok(are_stored(self.store, &entries)? && self.ends_after(STEP, step.seq, &entries)?)
    }

    /// Whether the last of these entries is the last of its stream.
    fn ends_after(&self, kind: u8, seq: u64, entries: &[Entry]) -> Result<bool, StoreError> {
        let Some((last, _)) = entries.last() else {
            return Ok(false);
        };
        let mut low = last.to_vec();
        low.push(0);
        let high = codec::part_key(kind, self.stored.id, seq + 1, 0);
        Ok(self.store.range(&low, &high, 1)?.is_empty())
    }

    /// Checks the contents, from the base to both ends of the history.
    fn contents(&mut self) -> Result<(), StoreError> {
        let Stored { apex, id, head, .. } = self.stored;
        let base_seq = head.base.seq;
        let read = load::read_base(self.store, self.stored);
        let Some(base) = self.read(base_seq, read)? else {
            return Ok(());
        };
        let base_tree = ContentTree::of(&base.contents);
        let (mut state, mut tree) = (base.clone(), base_tree.clone());
        while state.seq < head.seq {
            let seq = state.seq + 1;
            let read = load::read_step(self.store, apex, *id, seq);
            let Some(step) = self.read(seq, read)? else {
                break;
            };
            let done = state.advance(&step);
            if self.read(seq, done)?.is_none() {
                break;
            }
            tree = tree_after(&tree, &step, &state.contents);
            if !self.has_content(&step, &state, &tree) {
                break;
            }
        }
        let (mut state, mut tree) = (base, base_tree);
        while state.seq >= head.oldest {
            let seq = state.seq;
            let read = load::read_step(self.store, apex, *id, seq);
            let Some(step) = self.read(seq, read)? else {
                break;
            };
            if !self.has_content(&step, &state, &tree) {
                break;
            }
            if step.from.is_none() {
                break;
            }
            let done = state.retreat(&step);
            if self.read(seq, done)?.is_none() {
                break;
            }
            tree = tree_after(&tree, &step, &state.contents);
        }
        Ok(())
    }

    /// Checks the entries from before the history, newest first: each must lead to the version from which the next one
    /// starts, and have the content that its hash names. Only a whole version has a hash that can be computed again.
    fn archive(&mut self) -> Result<(), StoreError> {
        let Stored {
            apex, id, archive, ..
        } = self.stored;
        if archive.is_empty() {
            return Ok(());
        }
        let Some((mut after, mut state)) = self.begin_of_archive()? else {
            return Ok(());
        };
        for entry in archive.iter().rev() {
            let read = archive::read_step(self.store, apex, *id, entry.seq);
            let Some(step) = self.read(entry.seq, read)? else {
                return Ok(());
            };
            self.verdict.archived += 1;
            if !entry.is_whole() {
                self.verdict.condensed += entry.versions();
            }
            self.archived_step(entry, &step, &after);
            state = state.filter(|(contents, tree)| {
                let hash = tree.content_hash(contents);
                let is_so = step.link.is_none_or(|link| link.content == hash);
                if !is_so {
                    let what = "its records do not have its content hash";
                    self.fault(step.seq, Some(step.serial), Damage::Changed, what);
                }
                is_so && entry.has_records
            });
            state = match state.map(|(contents, tree)| (step.revert(&contents), tree)) {
                Some((Ok(contents), tree)) => {
                    let tree = tree_after(&tree, &step, &contents);
                    Some((contents, tree))
                }
                Some((Err(error), _)) => {
                    self.fault(
                        step.seq,
                        Some(step.serial),
                        Damage::Changed,
                        error.to_string(),
                    );
                    None
                }
                None => None,
            };
            after = step;
        }
        Ok(())
    }

    /// The oldest version that is not condensed, and the contents before it; `None` when it cannot be read. What cannot be
    /// read in the archive elsewhere is a fault of its own.
    fn begin_of_archive(&mut self) -> Result<Option<Begin>, StoreError> {
        let Stored { apex, id, head, .. } = self.stored;
        let first = self.stored.first();
        if first == head.oldest {
            let read = load::read_step(self.store, apex, *id, first);
            let Some(step) = self.read(first, read)? else {
                return Ok(None);
            };
            let state = self.state_before(&step)?;
            return Ok(Some((step, state)));
        }
        let Ok(step) = self.reader.step(apex, first) else {
            return Ok(None);
        };
        let before = self.reader.contents_at(apex, first.saturating_sub(1), None);
        let state = before.ok().map(|contents| {
            let tree = ContentTree::of(&contents);
            (contents, tree)
        });
        Ok(Some((step, state)))
    }

    /// The contents before the oldest step of the history; `None` when they cannot be built.
    fn state_before(
        &mut self,
        oldest: &Step,
    ) -> Result<Option<(Contents, ContentTree)>, StoreError> {
        let (seq, near) = (
            oldest.seq,
            load::read_near(self.store, self.stored, oldest.seq),
        );
        let Some(mut state) = self.read(seq, near)? else {
            return Ok(None);
        };
        let Stored { apex, id, .. } = self.stored;
        while state.seq >= seq {
            let read = load::read_step(self.store, apex, *id, state.seq);
            let done = read.and_then(|step| state.retreat(&step));
            if self.read(seq, done)?.is_none() {
                return Ok(None);
            }
        }
        while state.seq + 1 < seq {
            let read = load::read_step(self.store, apex, *id, state.seq + 1);
            let done = read.and_then(|step| state.advance(&step));
            if self.read(seq, done)?.is_none() {
                return Ok(None);
            }
        }
        let tree = ContentTree::of(&state.contents);
        Ok(Some((state.contents, tree)))
    }

    /// Checks an entry from before the history beside the version after it.
    fn archived_step(&mut self, entry: &Archived, step: &Step, after: &Step) {
        let mut wrong = Vec::new();
        let from = after.from.as_ref();
        if from.is_none_or(|(serial, soa)| *serial != step.serial || *soa != step.soa) {
            wrong.push((Damage::Chain, "the version after it does not follow it"));
        }
        let previous = after.link.map(|link| link.previous);
        if previous.unwrap_or_default() != step.link.map(|link| link.hash).unwrap_or_default() {
            wrong.push((Damage::Chain, "the version after it names another hash"));
        }
        let is_described = (entry.serial, entry.time_ms) == (step.serial, step.time_ms);
        if !is_described {
            wrong.push((Damage::Changed, "it is not as it is described"));
        }
        if let Some(link) = step.link {
            let again = Link::of(step, &self.stored.apex, link.previous, link.content);
            if entry.is_whole() && again.hash != link.hash {
                wrong.push((Damage::Changed, "its hash does not match its stored data"));
            }
            if self.anchors.contains(&link.hash) {
                self.verdict.anchored.push(Anchored {
                    hash: link.hash,
                    seq: step.seq,
                    serial: step.serial,
                });
            }
        }
        for (damage, what) in wrong {
            self.fault(step.seq, Some(step.serial), damage, what);
        }
    }

    /// Checks that contents have the hash that their step names.
    fn has_content(&mut self, step: &Step, state: &State, tree: &ContentTree) -> bool {
        let is_so = step
            .link
            .is_none_or(|link| link.content == tree.content_hash(&state.contents));
        if !is_so {
            let what = "its records do not have its content hash";
            self.fault(step.seq, Some(step.serial), Damage::Changed, what);
        }
        is_so
    }

    /// Checks that a snapshot is stored as it would be written, with the content of its version.
    fn snapshot(&mut self, base: Base) -> Result<(), StoreError> {
        let Stored { apex, id, head, .. } = self.stored;
        let read = step::read_snapshot(self.store, apex, *id, base.seq);
        let Some((contents, serial, time_ms)) = self.read(base.seq, read)? else {
            return Ok(());
        };
        if base.seq >= head.oldest {
            let read = load::read_step(self.store, apex, *id, base.seq);
            if let Some(step) = self.read(base.seq, read)? {
                let same = (step.serial, step.time_ms) == (serial, time_ms);
                let hash = ContentTree::of(&contents).content_hash(&contents);
                if !same || step.link.is_some_and(|link| link.content != hash) {
                    let what = "its snapshot holds another content";
                    self.fault(base.seq, Some(serial), Damage::Changed, what);
                }
            }
        }
        let begins = stream_seek::can_seek(self.store, SNAPSHOT, *id, base.seq)?;
        let mut job = SnapshotJob::new(*id, base.seq, (serial, time_ms), contents, begins);
        let mut exact = true;
        while exact && !job.is_complete() {
            let entries = job.portion(PORTION);
            exact = are_stored(self.store, &entries)?;
            if exact && job.is_complete() {
                exact = self.ends_after(SNAPSHOT, base.seq, &entries)?;
            }
        }
        if !exact {
            let what = "its snapshot is not stored as it was written";
            self.fault(base.seq, Some(serial), Damage::Changed, what);
        }
        Ok(())
    }
}

/// Whether the store should still have all data of a version: it is in the history, or needed to read it.
fn still_stands(now: &Stored, seq: u64) -> bool {
    let head = &now.head;
    seq >= head.first_needed()
        || now.archive.get(seq).is_some()
        || head.older.iter().any(|base| base.seq == seq)
        || (head.base.snapshot && head.base.seq == seq)
}

/// The tree of contents after applying or reverting a step.
fn tree_after(tree: &ContentTree, step: &Step, contents: &Contents) -> ContentTree {
    tree.updated(contents, &step.touched(contents.apex()).collect())
}

/// A sentence for an operator if a loaded version does not have the content that its hash names.
pub(super) fn doubts(version: &Version) -> Vec<String> {
    let holds = version
        .link
        .is_none_or(|link| link.content == version.content_hash());
    if holds {
        return Vec::new();
    }
    vec![format!(
        "zone {}: the records of serial {} are not the ones published under it; `zonewright \
         verify` names the first version that is not as it was written",
        version.contents.apex(),
        version.serial
    )]
}

fn are_stored(store: &dyn Entries, entries: &[Entry]) -> Result<bool, StoreError> {
    for (key, value) in entries {
        if store.get(key)?.is_none_or(|found| *found != **value) {
            return Ok(false);
        }
    }
    Ok(true)
}
