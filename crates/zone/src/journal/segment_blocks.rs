//! The file of a segment: entries in ascending order of their keys, in compressed blocks that can be read one by one.
//!
//! ```text
//! zonewright segment 1\n
//! block*                  each a zlib stream of entries: length, key, length, value
//! filter                  a Bloom filter over the topics of the index entries
//! index                   a zlib stream: for each block its length, SHA-256 (32 octets) and first key
//! tail                    40 octets: offsets of filter and index, their checksums, the mark
//! ```
//!
//! Numbers within blocks and index are stored in groups of seven bits, lowest first; those of the tail are big-endian. zlib,
//! because every language can read it: evidence must not need this program.

use std::io::{self, Read, Write};
use std::ops::Range;

use flate2::Compression;
use flate2::bufread::ZlibDecoder;
use flate2::write::ZlibEncoder;
use ring::digest::{SHA256, digest};

use crate::Hash;
use crate::journal::codec::{
    BY_NAME, BY_OBJECT, BY_RECORD, LARGE, counted, number, put_counted, put_number,
};

/// The first line of the file.
const MAGIC: &[u8] = b"zonewright segment 1\n";
/// The last octets of the file.
const MARK: &[u8; 8] = b"zw end 1";
/// The size of the tail, in octets.
const TAIL_OCTETS: usize = 3 * 8 + 2 * 4 + 8;
/// A block is complete when its entries have this size, in octets.
const BLOCK_OCTETS: usize = 64 << 10;
/// The most octets of a block, packed or not: the last entry may begin at its end, and is smaller than 8 KiB.
const MOST_BLOCK_OCTETS: u64 = (BLOCK_OCTETS + (16 << 10)) as u64;
/// The most octets of an index: some for each block.
const MOST_INDEX_OCTETS: u64 = 16 << 20;
/// Bits of the filter for each topic: one of 100 other topics seems to be there.
const BITS_PER_TOPIC: usize = 10;
/// Bits that are set for a topic.
const PROBES: u64 = 7;

/// Where a block is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    range: Range<u64>,
    digest: Hash,
    first: Box<[u8]>,
}

/// Collects entries into a file.
pub(super) struct Writer {
    file: Vec<u8>,
    /// The entries of the block that is not complete.
    block: Vec<u8>,
    first: Box<[u8]>,
    places: Vec<Place>,
    topics: Vec<u64>,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self {
            file: MAGIC.to_vec(),
            block: Vec::new(),
            first: Box::default(),
            places: Vec::new(),
            topics: Vec::new(),
        }
    }

    /// The size of the complete blocks, in octets.
    pub(super) fn octets(&self) -> usize {
        self.file.len()
    }

    /// Adds an entry. Its key must be above all keys so far.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8]) {
        if self.block.is_empty() {
            self.first = key.into();
        }
        put_counted(&mut self.block, key);
        put_counted(&mut self.block, value);
        self.topics.extend(topic_in(key));
        if self.block.len() >= BLOCK_OCTETS {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let begin = self.file.len() as u64;
        let packed = packed(&self.block);
        self.file.extend_from_slice(&packed);
        self.places.push(Place {
            range: begin..self.file.len() as u64,
            digest: digest_of(&packed),
            first: std::mem::take(&mut self.first),
        });
        self.block.clear();
    }

    /// The file, and the offset of its filter: what is behind it is read first.
    pub(super) fn finish(mut self) -> (Vec<u8>, u64) {
        self.end_block();
        let Self {
            mut file,
            places,
            topics,
            ..
        } = self;
        let filter_at = file.len();
        file.extend_from_slice(&filter_of(&topics));
        let index_at = file.len();
        let mut index = Vec::new();
        for place in &places {
            put_number(&mut index, place.range.end - place.range.start);
            index.extend_from_slice(place.digest.as_octets());
            put_counted(&mut index, &place.first);
        }
        file.extend_from_slice(&packed(&index));
        let end = file.len();
        let sums = [filter_at..index_at, index_at..end].map(|range| crc32fast::hash(&file[range]));
        for number in [filter_at, index_at, end] {
            file.extend_from_slice(&(number as u64).to_be_bytes());
        }
        for sum in sums {
            file.extend_from_slice(&sum.to_be_bytes());
        }
        file.extend_from_slice(MARK);
        (file, filter_at as u64)
    }
}

fn packed(octets: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let done = encoder.write_all(octets).and_then(|()| encoder.finish());
    done.expect("memory takes all octets")
}

fn unpacked(octets: &[u8], most: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut decoder = ZlibDecoder::new(octets);
    (&mut decoder).take(most).read_to_end(&mut out)?;
    let is_all = decoder.total_in() == octets.len() as u64;
    if is_all {
        Ok(out)
    } else {
        Err(damaged("a block is longer than it says"))
    }
}

/// The SHA-256 of some octets.
pub(super) fn digest_of(octets: &[u8]) -> Hash {
    let mut sum = [0; 32];
    sum.copy_from_slice(digest(&SHA256, octets).as_ref());
    Hash::from_octets(sum)
}

/// An error that says that the file is not as it was written.
pub(super) fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The hash of the topic in the key of an index entry. All large steps are one topic.
fn topic_in(key: &[u8]) -> Option<u64> {
    if key.first() == Some(&LARGE) {
        return Some(u64::from(LARGE) << 32 | u64::from(LARGE));
    }
    let kind = key
        .first()
        .filter(|kind| [BY_NAME, BY_RECORD, BY_OBJECT].contains(kind))?;
    let hash = u64::from_be_bytes(key.get(5..13)?.try_into().ok()?);
    Some(hash.rotate_left(u32::from(*kind)))
}

/// The bits of a topic, in a filter of this many bits.
fn probes(topic: u64, bits: u64) -> impl Iterator<Item = u64> {
    let step = (topic >> 32) | 1;
    (0..PROBES).map(move |probe| topic.wrapping_add(probe.wrapping_mul(step)) % bits)
}

fn filter_of(topics: &[u64]) -> Vec<u8> {
    let mut topics = topics.to_vec();
    topics.sort_unstable();
    topics.dedup();
    let mut filter = vec![0_u8; (topics.len() * BITS_PER_TOPIC).div_ceil(8).max(1)];
    let bits = filter.len() as u64 * 8;
    for topic in topics {
        for bit in probes(topic, bits) {
            filter[place_of(bit)] |= 1 << (bit % 8);
        }
    }
    filter
}

fn place_of(bit: u64) -> usize {
    usize::try_from(bit / 8).expect("a filter is in memory")
}

/// The end of a file: where its blocks are, and what they may concern.
pub(super) struct Index {
    places: Vec<Place>,
    filter: Vec<u8>,
}

impl Index {
    /// Reads the octets of a file from the offset of its filter on.
    pub(super) fn read(end: &[u8], filter_at: u64) -> io::Result<Self> {
        const CUT: &str = "the end of the file is cut off";
        let (body, tail) = end
            .split_last_chunk::<TAIL_OCTETS>()
            .ok_or_else(|| damaged(CUT))?;
        let number = |at: usize| {
            let octets = tail[at..at + 8].try_into();
            u64::from_be_bytes(octets.expect("the slice has eight octets"))
        };
        let sum = |at: usize| {
            let octets = tail[at..at + 4].try_into();
            u32::from_be_bytes(octets.expect("the slice has four octets"))
        };
        let (begin, index_at, file_end) = (number(0), number(8), number(16));
        let is_so = tail[32..] == *MARK
            && begin == filter_at
            && file_end.checked_sub(filter_at) == Some(body.len() as u64);
        let split = index_at
            .checked_sub(filter_at)
            .and_then(|at| usize::try_from(at).ok());
        let (filter, index) = split
            .filter(|_| is_so)
            .and_then(|split| body.split_at_checked(split))
            .filter(|(filter, _)| !filter.is_empty())
            .ok_or_else(|| damaged("the end of the file is not that of a segment"))?;
        if [filter, index].map(crc32fast::hash) != [sum(24), sum(28)] {
            return Err(damaged("the index has a wrong checksum"));
        }
        Ok(Self {
            places: places(&unpacked(index, MOST_INDEX_OCTETS)?, filter_at)?,
            filter: filter.to_vec(),
        })
    }

    /// Whether the file may have an index entry of the topic of this key.
    pub(super) fn may_have(&self, key: &[u8]) -> bool {
        let bits = self.filter.len() as u64 * 8;
        topic_in(key).is_none_or(|topic| {
            probes(topic, bits).all(|bit| self.filter[place_of(bit)] & (1 << (bit % 8)) != 0)
        })
    }

    /// The first key.
    pub(super) fn first(&self) -> Option<&[u8]> {
        self.places.first().map(|place| &*place.first)
    }

    /// The number of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.places.len()
    }

    /// The number of the block that has a key if there is one; the first block for a key before all.
    pub(super) fn block_of(&self, key: &[u8]) -> usize {
        let after = self.places.partition_point(|place| *place.first <= *key);
        after.saturating_sub(1)
    }

    /// Where some adjacent blocks are.
    pub(super) fn range(&self, blocks: Range<usize>) -> Range<u64> {
        let among = self.places.get(blocks).unwrap_or_default();
        match (among.first(), among.last()) {
            (Some(first), Some(last)) => first.range.start..last.range.end,
            (None, _) | (_, None) => 0..0,
        }
    }

    /// The block of this number, from the octets of some adjacent blocks that begin at `offset`.
    pub(super) fn block(&self, number: usize, octets: &[u8], offset: u64) -> io::Result<Block> {
        let place = self
            .places
            .get(number)
            .ok_or_else(|| damaged("there is no such block"))?;
        let at = |offset_in: u64| usize::try_from(offset_in - offset).ok();
        let range = at(place.range.start).zip(at(place.range.end));
        let octets = range.and_then(|(begin, end)| octets.get(begin..end));
        let octets = octets.ok_or_else(|| damaged("a block is cut off"))?;
        if digest_of(octets) != place.digest {
            return Err(damaged("a block has another SHA-256 than the index says"));
        }
        Block::of(unpacked(octets, MOST_BLOCK_OCTETS)?)
    }

    /// The size in memory, in octets.
    pub(super) fn weight(&self) -> u64 {
        let keys = self
            .places
            .iter()
            .map(|place| place.first.len() + size_of::<Place>());
        (self.filter.len() + keys.sum::<usize>()) as u64
    }
}

fn places(mut index: &[u8], end: u64) -> io::Result<Vec<Place>> {
    let mut places = Vec::new();
    let mut begin = MAGIC.len() as u64;
    while !index.is_empty() {
        let place = (|| {
            let len = number(&mut index).filter(|len| *len <= MOST_BLOCK_OCTETS)?;
            let (digest, after) = index.split_first_chunk::<32>()?;
            index = after;
            Some(Place {
                range: begin..begin.checked_add(len)?,
                digest: Hash::from_octets(*digest),
                first: counted(&mut index)?.into(),
            })
        })();
        let place = place.ok_or_else(|| damaged("the index is malformed"))?;
        begin = place.range.end;
        places.push(place);
    }
    let is_sorted = places.is_sorted_by(|a, b| a.first < b.first);
    if is_sorted && begin == end {
        Ok(places)
    } else {
        Err(damaged("the index is malformed"))
    }
}

/// The entries of a block.
pub(super) struct Block {
    octets: Vec<u8>,
    /// Where key and value of each entry are.
    entries: Vec<[Range<u32>; 2]>,
}

impl Block {
    fn of(octets: Vec<u8>) -> io::Result<Self> {
        const MALFORMED: &str = "a block is malformed";
        let mut entries = Vec::new();
        let mut rest = &octets[..];
        while !rest.is_empty() {
            let mut next = || {
                let text = counted(&mut rest)?;
                let end = u32::try_from(octets.len() - rest.len()).ok()?;
                Some(end - u32::try_from(text.len()).ok()?..end)
            };
            let entry = next().zip(next()).ok_or_else(|| damaged(MALFORMED))?;
            entries.push(<[_; 2]>::from(entry));
        }
        let block = Self { octets, entries };
        let is_sorted = block.entries().is_sorted_by(|a, b| a.0 < b.0);
        if is_sorted {
            Ok(block)
        } else {
            Err(damaged(MALFORMED))
        }
    }

    fn part(&self, range: &Range<u32>) -> &[u8] {
        &self.octets[range.start as usize..range.end as usize]
    }

    fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.entries
            .iter()
            .map(|[key, value]| (self.part(key), self.part(value)))
    }

    /// The entry of this number, in ascending order of keys.
    pub(super) fn entry(&self, number: usize) -> Option<(&[u8], &[u8])> {
        let [key, value] = self.entries.get(number)?;
        Some((self.part(key), self.part(value)))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The number of entries whose key is below this one.
    pub(super) fn below(&self, key: &[u8]) -> usize {
        self.entries.partition_point(|[it, _]| self.part(it) < key)
    }

    /// The size in memory, in octets.
    pub(super) fn weight(&self) -> u64 {
        (self.octets.capacity() + self.entries.capacity() * size_of::<[Range<u32>; 2]>()) as u64
    }
}
