//! Reads segments: their indexes and blocks are fetched when they are needed, and the last ones kept in memory.

use std::io;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use dns::Name;
use quick_cache::sync::Cache;
use quick_cache::{Options, OptionsBuilder, Weighter};

use crate::Hash;
use crate::journal::head::Head;
use crate::journal::segment::Segment;
use crate::journal::segment_blocks::{Block, Index, damaged, digest_of};
use crate::journal::segment_objects::Objects;
use crate::journal::store::{ArchiveError, ArchiveFault, Entries, Octets, Page, StoreError};

/// The memory for indexes, in octets.
const INDEXES_OCTETS: u64 = 16 << 20;
/// The memory for blocks, in octets.
const BLOCKS_OCTETS: u64 = 16 << 20;
/// About the size of an index, and of a block: how many entries a cache is prepared for.
const USUAL_OCTETS: u64 = 64 << 10;
/// Whoever reads one block after the other gets as many at once.
const BLOCKS_AHEAD: usize = 16;

/// What was read of segments, for all readers.
pub(super) struct Remote {
    objects: Arc<dyn Objects>,
    segments: Cache<Hash, Arc<Known>, ByOctets>,
    blocks: Cache<(Hash, usize), Arc<Block>, ByOctets>,
}

/// What is known of a segment that was opened.
struct Known {
    index: Index,
    /// The zone that it is of, with its id and head there. Read when they are needed.
    zone: OnceLock<(Name, u32, Head)>,
}

#[derive(Clone)]
struct ByOctets;

impl Weighter<Hash, Arc<Known>> for ByOctets {
    fn weight(&self, _: &Hash, known: &Arc<Known>) -> u64 {
        known.index.weight()
    }
}

impl Weighter<(Hash, usize), Arc<Block>> for ByOctets {
    fn weight(&self, _: &(Hash, usize), block: &Arc<Block>) -> u64 {
        block.weight()
    }
}

impl Remote {
    pub(super) fn of(objects: Arc<dyn Objects>) -> Self {
        Self {
            objects,
            segments: Cache::with_options(
                within(INDEXES_OCTETS),
                ByOctets,
                <_>::default(),
                <_>::default(),
            ),
            blocks: Cache::with_options(
                within(BLOCKS_OCTETS),
                ByOctets,
                <_>::default(),
                <_>::default(),
            ),
        }
    }

    /// Where the objects are.
    pub(super) fn objects(&self) -> &Arc<dyn Objects> {
        &self.objects
    }

    /// Opens a segment: its index is fetched if it is not in memory.
    pub(super) fn open(self: &Arc<Self>, segment: &Arc<Segment>) -> Result<Opened, StoreError> {
        let failed = |error| failed(segment, &error);
        let known = match self.segments.get(&segment.digest) {
            Some(known) => known,
            None => {
                let range = segment.index_at..segment.octets;
                let end = self.objects.read(&segment.place, range).map_err(failed)?;
                if digest_of(&end) != segment.index_digest {
                    let error = damaged("its index is not as it was written");
                    return Err(failed(error));
                }
                let index = Index::read(&end, segment.index_at).map_err(failed)?;
                let known = Arc::new(Known {
                    index,
                    zone: OnceLock::new(),
                });
                self.segments.insert(segment.digest, Arc::clone(&known));
                known
            }
        };
        Ok(Opened {
            segment: Arc::clone(segment),
            remote: Arc::clone(self),
            known,
        })
    }
}

/// A cache of so many octets. It has one part, so that one large index may fill it.
fn within(octets: u64) -> Options {
    let usual = usize::try_from(octets / USUAL_OCTETS).unwrap_or(1);
    let options = OptionsBuilder::new()
        .shards(1)
        .estimated_items_capacity(usual)
        .weight_capacity(octets)
        .build();
    options.expect("both capacities are set")
}

/// An error of the archive, with the object's place and the versions that it has.
pub(super) fn failed(segment: &Segment, error: &io::Error) -> StoreError {
    let place = &segment.place;
    let (first, last) = (segment.first_serial, segment.serial);
    // The name begins with that of the zone.
    let zone = place.name.split('/').next().unwrap_or_default();
    let versions = format!("serials {first} to {last} of {zone}");
    let kind = error.kind();
    if [io::ErrorKind::InvalidData, io::ErrorKind::UnexpectedEof].contains(&kind) {
        let what =
            format!("the object {place} of the archive, with {versions}, is damaged: {error}");
        return ArchiveError::new(ArchiveFault::Damaged, what).into();
    }
    if kind == io::ErrorKind::NotFound {
        let what = format!("the object {place} of the archive, with {versions}, does not exist");
        return ArchiveError::new(ArchiveFault::Lost, what).into();
    }
    let url = &place.url;
    let what = format!("the archive {url} cannot be read, and {versions} are in it: {error}");
    ArchiveError::new(ArchiveFault::Away, what).into()
}

/// A segment whose entries can be read.
pub(super) struct Opened {
    segment: Arc<Segment>,
    remote: Arc<Remote>,
    known: Arc<Known>,
}

impl Opened {
    /// The first key.
    pub(super) fn first_key(&self) -> Option<&[u8]> {
        self.known.index.first()
    }

    /// The id and head that a zone has in the segment; `read` gives them the first time.
    pub(super) fn head(
        &self,
        apex: &Name,
        read: impl FnOnce(&Self) -> Result<(u32, Head), StoreError>,
    ) -> Result<(u32, Head), StoreError> {
        match self.known.zone.get() {
            Some((known, id, head)) if known == apex => Ok((*id, head.clone())),
            Some(_) | None => {
                let (id, head) = read(self)?;
                // Another reader may have been first.
                let zone = (apex.clone(), id, head.clone());
                let _known = self.known.zone.set(zone);
                Ok((id, head))
            }
        }
    }

    /// Whether there may be an index entry of the topic of this key.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        self.known.index.may_have(key)
    }

    fn block(&self, number: usize) -> Result<Arc<Block>, StoreError> {
        let key = |number| (self.segment.digest, number);
        let blocks = &self.remote.blocks;
        if let Some(block) = blocks.get(&key(number)) {
            return Ok(block);
        }
        let goes_on = number > 0 && blocks.peek(&key(number - 1)).is_some();
        let count = if goes_on { BLOCKS_AHEAD } else { 1 };
        let numbers = number..self.known.index.blocks().min(number + count);
        let fetched = self
            .fetched(numbers)
            .map_err(|error| failed(&self.segment, &error))?;
        let wanted = fetched.first().cloned();
        for (number, block) in (number..).zip(fetched) {
            blocks.insert(key(number), block);
        }
        wanted.ok_or_else(|| failed(&self.segment, &damaged("there is no such block")))
    }

    fn fetched(&self, numbers: Range<usize>) -> io::Result<Vec<Arc<Block>>> {
        let range = self.known.index.range(numbers.clone());
        let offset = range.start;
        let octets = self.remote.objects.read(&self.segment.place, range)?;
        let block = |number| {
            self.known
                .index
                .block(number, &octets, offset)
                .map(Arc::new)
        };
        numbers.map(block).collect()
    }
}

fn octets_of((key, value): (&[u8], &[u8])) -> (Octets, Octets) {
    (Octets::of(key), Octets::of(value))
}

impl Entries for Opened {
    fn get(&self, key: &[u8]) -> Result<Option<Octets>, StoreError> {
        let block = self.block(self.known.index.block_of(key))?;
        let found = block.entry(block.below(key));
        Ok(found
            .filter(|(it, _)| *it == key)
            .map(|(_, value)| Octets::of(value)))
    }

    fn range(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        let mut found = Vec::new();
        for number in self.known.index.block_of(low)..self.known.index.blocks() {
            let block = self.block(number)?;
            let end = block.below(high);
            let room = limit - found.len();
            let among = (block.below(low)..end).take(room);
            found.extend(among.filter_map(|at| block.entry(at)).map(octets_of));
            if end < block.len() || found.len() == limit {
                break;
            }
        }
        Ok(found)
    }

    fn range_back(&self, low: &[u8], high: &[u8], limit: usize) -> Page {
        let mut found = Vec::new();
        for number in (0..=self.known.index.block_of(high)).rev() {
            let block = self.block(number)?;
            let begin = block.below(low);
            let room = limit - found.len();
            let among = (begin..block.below(high)).rev().take(room);
            found.extend(among.filter_map(|at| block.entry(at)).map(octets_of));
            if begin > 0 || found.len() == limit {
                break;
            }
        }
        Ok(found)
    }
}
