//! Reads versions that are kept elsewhere, each from the segment that has it.

use std::collections::BTreeMap;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, RwLock};

use dns::{Name, Serial};
use ops::side_by_side;
use ring::digest::{Context, SHA256};

use crate::journal::archive::Archive;
use crate::journal::codec::{self, HEAD, LARGE, ZONE};
use crate::journal::head::Head;
use crate::journal::reader::{ReadError, Reader};
use crate::journal::segment::{Segment, Segments};
use crate::journal::segment_blocks::damaged;
use crate::journal::segment_opened::{Opened, failed};
use crate::journal::serial_floor::Losses;
use crate::journal::serial_search::KnownTurns;
use crate::journal::store::{Entries, StoreError};
use crate::journal::topic::Topic;
use crate::journal::{EarlyDrops, Stored};
use crate::{Hash, Step};

/// The octets of an object that are hashed at once.
const HASHED_OCTETS: u64 = 1 << 20;
/// The most segments that are searched at once, and the most steps that are fetched at once.
const MOST_AT_ONCE: usize = 8;

impl Reader {
    /// Reads a version where it is. It may leave the database while it is read there: then it is read again.
    pub(super) fn anywhere<T>(
        &self,
        apex: &Name,
        seq: u64,
        read: &dyn Fn(&Self) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        if let Some(beyond) = self.beyond(apex, seq)? {
            return read(&beyond);
        }
        let found = read(self);
        match self.beyond(apex, seq)? {
            Some(beyond) => read(&beyond),
            None => found,
        }
    }

    /// A reader of the segment that has a version; `None` when the database has the version, or nothing has it.
    pub(super) fn beyond(&self, apex: &Name, seq: u64) -> Result<Option<Self>, ReadError> {
        let stored = self.stored(apex)?;
        let segment = stored.segments.of(seq).filter(|_| seq < stored.head.oldest);
        let reader = segment.map(|segment| self.within(&stored, segment));
        Ok(reader.transpose()?)
    }

    /// Like [`Self::beyond`], for contents: a segment has also those of the version before its first.
    pub(super) fn contents_beyond(&self, apex: &Name, seq: u64) -> Result<Option<Self>, ReadError> {
        let stored = self.stored(apex)?;
        let is_here = seq + 1 >= stored.head.oldest;
        let segment = stored
            .segments
            .of(seq)
            .or_else(|| stored.segments.of(seq + 1));
        let reader = segment
            .filter(|_| !is_here)
            .map(|segment| self.within(&stored, segment));
        Ok(reader.transpose()?)
    }

    /// A reader of the versions of a segment alone.
    pub(super) fn within(
        &self,
        stored: &Stored,
        segment: &Arc<Segment>,
    ) -> Result<Self, StoreError> {
        let opened = self.remote.open(segment)?;
        let read = |opened: &_| head_of(opened, segment, &stored.apex);
        let head = opened.head(&stored.apex, read)?;
        let zone = Stored {
            apex: stored.apex.clone(),
            id: head.0,
            first_stored: head.1.oldest,
            head: head.1,
            oldest_size: None,
            early: EarlyDrops::default(),
            archive: Archive::default(),
            segments: Segments::default(),
            replica: None,
        };
        Ok(Self {
            store: Arc::new(opened),
            zones: Arc::new(RwLock::new(BTreeMap::from([(zone.apex.clone(), zone)]))),
            losses: Losses::default(),
            remote: Arc::clone(&self.remote),
            turns: KnownTurns::default(),
            is_local: false,
            is_segment: true,
            is_durable: false,
        })
    }

    /// Searches segments for a topic, as [`Self::find`] does in the database. Segments are searched side by side, and
    /// found steps are fetched side by side before `call` has their numbers: the more at once, the more `call` wants.
    pub(super) fn find_beyond<E: From<ReadError>>(
        &self,
        stored: &Stored,
        topic: Topic,
        (low, high): (u64, u64),
        call: &mut dyn FnMut(u64) -> Result<bool, E>,
    ) -> Result<(), E> {
        let high = high.min(stored.head.oldest.saturating_sub(1));
        let among = |segment: &&Arc<Segment>| segment.first <= high && segment.until >= low;
        let segments: Vec<_> = stored.segments.iter().rev().filter(among).collect();
        let find = |segment: &&_| self.found_in(stored, segment, topic, (low, high));
        // Reads a part of the step. Its block is kept then; an error comes again when the step is wanted.
        let fetch = |seq: &u64| drop(self.moment(&stored.apex, *seq));
        let (mut rest, mut at_once) = (&segments[..], 1);
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(at_once));
            let (mut found, mut end) = (Vec::new(), Ok(()));
            for seqs in side_by_side(now, &find) {
                match seqs {
                    Ok(seqs) if end.is_ok() => found.extend(seqs),
                    Ok(_) => {}
                    Err(error) => end = end.and(Err(error)),
                }
            }
            for seqs in found.chunks(at_once) {
                side_by_side(seqs, &fetch);
                for seq in seqs {
                    if !call(*seq)? {
                        return Ok(());
                    }
                }
            }
            end?;
            rest = later;
            at_once = (at_once * 2).min(MOST_AT_ONCE);
        }
        Ok(())
    }

    /// The numbers of the steps in a segment that may concern a topic, in descending order.
    fn found_in(
        &self,
        stored: &Stored,
        segment: &Arc<Segment>,
        topic: Topic,
        (low, high): (u64, u64),
    ) -> Result<Vec<u64>, ReadError> {
        let mut found = Vec::new();
        let opened = self.remote.open(segment)?;
        let large = codec::zone_key(LARGE, 0);
        if opened.may_have(&topic.key(0, 0)) || opened.may_have(&large) {
            let reader = self.within(stored, segment)?;
            let range = (low.max(segment.first), high.min(segment.until));
            let mut note = |seq| {
                found.push(seq);
                Ok::<_, ReadError>(true)
            };
            reader.find_here(&reader.stored(&stored.apex)?, topic, range, &mut note)?;
        }
        Ok(found)
    }

    /// The steps of a zone in `seqs` that are only in segments, oldest first.
    pub(super) fn steps_beyond(
        &self,
        stored: &Stored,
        seqs: &RangeInclusive<u64>,
    ) -> Result<Vec<Arc<Step>>, ReadError> {
        let high = (*seqs.end()).min(stored.head.oldest.saturating_sub(1));
        let mut steps = Vec::new();
        for segment in stored.segments.iter() {
            let range = segment.first.max(*seqs.start())..=segment.until.min(high);
            if !range.is_empty() {
                steps.extend(self.within(stored, segment)?.steps(&stored.apex, range)?);
            }
        }
        Ok(steps)
    }

    /// Serial and time of the last version of a zone that is in a segment.
    #[must_use]
    pub fn archived_until(&self, apex: &Name) -> Option<(Serial, u64)> {
        let stored = self.stored(apex).ok()?;
        let last = stored.segments.iter().next_back()?;
        Some((last.serial, last.time_ms))
    }

    /// Serial and time of a version with which a segment begins or ends: its description has them.
    pub(super) fn described_moment(&self, stored: &Stored, seq: u64) -> Option<(Serial, u64)> {
        let segment = stored.segments.of(seq)?;
        if seq == segment.first {
            return Some((segment.first_serial, segment.first_ms));
        }
        (seq == segment.until).then_some((segment.serial, segment.time_ms))
    }

    /// The SHA-256 of a segment's object as it is now.
    pub(super) fn digest_of(&self, segment: &Segment) -> io::Result<Hash> {
        let mut context = Context::new(&SHA256);
        let mut at = 0;
        while at < segment.octets {
            let range = at..segment.octets.min(at + HASHED_OCTETS);
            let wanted = range.end - range.start;
            let octets = self.remote.objects().read(&segment.place, range)?;
            if octets.len() as u64 != wanted {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            context.update(&octets);
            at += wanted;
        }
        let mut digest = [0; 32];
        digest.copy_from_slice(context.finish().as_ref());
        Ok(Hash::from_octets(digest))
    }
}

/// The id and head in a segment, which must be those of its description.
fn head_of(opened: &Opened, segment: &Segment, apex: &Name) -> Result<(u32, Head), StoreError> {
    let malformed = || failed(segment, &damaged("it is another segment"));
    let id = opened
        .first_key()
        .and_then(codec::id_of)
        .ok_or_else(malformed)?;
    let key = codec::zone_key(ZONE, id);
    let name = opened.get(&key)?.ok_or_else(malformed)?;
    if codec::unseal(&key, &name) != Some(apex.as_wire()) {
        return Err(malformed());
    }
    let key = codec::zone_key(HEAD, id);
    let value = opened.get(&key)?.ok_or_else(malformed)?;
    let head = Head::decode(&key, &value).ok_or_else(malformed)?;
    let is_base = match head.base.snapshot {
        true => (segment.first..=segment.last).contains(&head.base.seq.saturating_add(1)),
        false => head.base.seq == segment.first,
    };
    let is_so = (head.oldest, head.seq, head.indexed)
        == (segment.first, segment.last, segment.first)
        && is_base;
    if is_so {
        Ok((id, head))
    } else {
        Err(malformed())
    }
}
