//! The layout of stored values: keys, checksums, numbers, streams.
//!
//! Keys are big-endian, so that the entries of a zone are in order: kind, zone id, seq, part. Every value ends with a
//! CRC-32 over key and payload, which detects values that were damaged or moved to another key. Steps and snapshots
//! are byte streams that are cut into parts. The checksum of each part continues the one of the part before, and the
//! last part is marked as the last, so parts of different writes never join.

use std::ops::RangeInclusive;

use dns::{Serial, Soa, Ttl};

use crate::journal::store::{Entries, Octets, Page, StoreError};

/// The text of the file that names the layout, without the layout's number.
pub(super) const FORMAT_TEXT: &str = "zonewright state ";
/// The number of the layout. A store with another layout is refused, except [`FORMAT_BEFORE`].
pub(super) const FORMAT: u32 = 2;
/// The layout without hashes and indexes. It is read and turned into [`FORMAT`] at once. Only new steps get hashes
/// and index entries; searches read its old steps one by one.
pub(super) const FORMAT_BEFORE: u32 = 1;
/// The bytes of a stream in one part. A value stays below 3.5 KiB: sled writes pages above 128 KiB as files of their
/// own, which it neither syncs nor removes, and a page holds about 16 values.
pub(super) const PART_OCTETS: usize = 3500;
/// The number of parts that are read at once.
const READ_AHEAD: usize = 32;

/// The key of the store's own entry.
pub(super) const META_KEY: &[u8] = b"m";
/// The kind of keys that map a zone id to its name.
pub(super) const ZONE: u8 = b'z';
/// The kind of keys that hold a zone's head.
pub(super) const HEAD: u8 = b'h';
/// The kind of keys that hold steps.
pub(super) const STEP: u8 = b'd';
/// The kind of keys that hold snapshots.
pub(super) const SNAPSHOT: u8 = b's';
/// The kind of index keys by name.
pub(super) const BY_NAME: u8 = b'n';
/// The kind of index keys by record.
pub(super) const BY_RECORD: u8 = b'r';
/// The kind of index keys by object.
pub(super) const BY_OBJECT: u8 = b'o';
/// The kind of keys for steps that are too large for the indexes.
pub(super) const LARGE: u8 = b'w';
/// The kind of keys that hold the lists of large steps.
pub(super) const FILTER: u8 = b'x';
/// The kind of keys for older snapshots.
pub(super) const OLDER: u8 = b'b';
/// The kind of keys that hold the steps of the archive.
pub(super) const ARCHIVE: u8 = b'a';
/// The kind of keys that describe the entries of the archive.
pub(super) const ARCHIVED: u8 = b'c';
/// The kind of keys that describe segments.
pub(super) const SEGMENT: u8 = b'g';
/// The kind of keys that hold acts.
pub(super) const ACT: u8 = b'e';
/// The kind of keys beside the versions.
pub(super) const BESIDE: u8 = b'f';
/// The kind of keys that hold Corefiles.
pub(super) const COREFILE: u8 = b't';
/// The kind of keys that hold what replicas know of a zone and its versions.
pub(super) const REPLICA: u8 = b'k';
/// The key of what a replica keeps beside the zones.
pub(super) const KEPT: u8 = b'q';
/// The kinds of keys that a zone has many of.
pub(super) const MANY: [u8; 12] = [
    STEP, SNAPSHOT, BY_NAME, BY_RECORD, BY_OBJECT, LARGE, FILTER, OLDER, ARCHIVE, ARCHIVED,
    SEGMENT, REPLICA,
];

/// The key of an entry that a zone has once.
pub(super) fn zone_key(kind: u8, id: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

pub(super) fn part_key(kind: u8, id: u32, seq: u64, part: u32) -> [u8; 17] {
    let mut key = [kind; 17];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..13].copy_from_slice(&seq.to_be_bytes());
    key[13..].copy_from_slice(&part.to_be_bytes());
    key
}

/// The key of the description of a segment that begins with a version.
pub(super) fn segment_key(id: u32, first: u64) -> [u8; 13] {
    let mut key = [SEGMENT; 13];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..].copy_from_slice(&first.to_be_bytes());
    key
}

pub(super) fn id_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?))
}

pub(super) fn seq_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?))
}

/// The checksum of a payload under its key, continuing another checksum.
fn check(before: u32, key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

/// Appends its checksum to a payload.
pub(super) fn seal(key: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let sum = check(0, key, &payload);
    payload.extend_from_slice(&sum.to_be_bytes());
    payload
}

/// The payload of a value; `None` when its checksum is wrong.
pub(super) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (payload, sum) = value.split_last_chunk::<4>()?;
    (check(0, key, payload) == u32::from_be_bytes(*sum)).then_some(payload)
}

/// The flag of the last part.
const LAST: u8 = 1;
/// The flag of a part that begins with a record.
const BEGINS: u8 = 2;

/// Whether a part is the last of its stream.
pub(super) fn is_last(payload: &[u8]) -> bool {
    payload.first().is_some_and(|flags| flags & LAST != 0)
}

/// Whether a part begins with a record. Then the stream can be read from there.
pub(super) fn begins_with_record(payload: &[u8]) -> bool {
    payload.first().is_some_and(|flags| flags & BEGINS != 0)
}

#[derive(Debug, Clone)]
pub(super) struct PartWriter {
    kind: u8,
    id: u32,
    seq: u64,
    part: u32,
    /// The checksum of the previous part.
    chain: u32,
    /// Bytes that do not fill a part yet, after the flag byte.
    pending: Vec<u8>,
    /// The bytes of the stream so far.
    octets: u64,
}

pub(super) type Entry = ([u8; 17], Vec<u8>);

impl PartWriter {
    /// Starts a stream of this kind for a version of a zone.
    pub(super) fn new(kind: u8, id: u32, seq: u64) -> Self {
        Self {
            kind,
            id,
            seq,
            part: 0,
            chain: 0,
            pending: vec![0],
            octets: 0,
        }
    }

    /// The bytes of the stream so far.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Announces a record of this length. If it does not fit into the current part, it begins the next, which is
    /// marked with [`BEGINS`]. For streams that are read from the middle.
    pub(super) fn begin(&mut self, len: usize, out: &mut Vec<Entry>) {
        if self.pending.len() > 1 && self.pending.len() + len > PART_OCTETS + 1 {
            self.emit(out);
        }
        if self.pending.len() == 1 {
            self.pending[0] |= BEGINS;
        }
    }

    /// Adds bytes. Full parts are added to `out`.
    pub(super) fn push(&mut self, mut octets: &[u8], out: &mut Vec<Entry>) {
        self.octets += octets.len() as u64;
        loop {
            let room = PART_OCTETS + 1 - self.pending.len();
            let (now, later) = octets.split_at(room.min(octets.len()));
            self.pending.extend_from_slice(now);
            octets = later;
            if octets.is_empty() {
                return;
            }
            self.emit(out);
        }
    }

    /// Ends the stream and adds its last part to `out`.
    pub(super) fn finish(mut self, out: &mut Vec<Entry>) {
        self.pending[0] |= LAST;
        self.emit(out);
    }

    /// Adds the pending part to `out`.
    fn emit(&mut self, out: &mut Vec<Entry>) {
        let key = part_key(self.kind, self.id, self.seq, self.part);
        let mut value = std::mem::replace(&mut self.pending, vec![0]);
        self.chain = check(self.chain, &key, &value);
        value.extend_from_slice(&self.chain.to_be_bytes());
        out.push((key, value));
        self.part += 1;
    }
}

#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    #[error("{0}")]
    Damaged(&'static str),
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) type Streamed<T> = Result<T, StreamError>;

/// A store without entries.
struct Nothing;

static NOTHING: Nothing = Nothing;

impl Entries for Nothing {
    fn get(&self, _key: &[u8]) -> Result<Option<Octets>, StoreError> {
        Ok(None)
    }

    fn range(&self, _low: &[u8], _high: &[u8], _limit: usize) -> Page {
        Ok(Vec::new())
    }

    fn range_back(&self, _low: &[u8], _high: &[u8], _limit: usize) -> Page {
        Ok(Vec::new())
    }
}

/// Reads a stream part by part and checks each part.
pub(super) struct Stream<'a> {
    store: &'a dyn Entries,
    kind: u8,
    id: u32,
    seq: u64,
    /// The last version whose parts are read ahead.
    last: u64,
    part: u32,
    /// The checksum of the previous part.
    chain: u32,
    /// Whether the last part was read.
    ended: bool,
    /// Parts that were read ahead, in reverse order.
    ahead: Vec<(Octets, Octets)>,
    /// The number of parts to read at once.
    pub(super) window: usize,
    /// Bytes that were read.
    buffer: Vec<u8>,
    /// The number of bytes of the buffer that were taken.
    taken: usize,
}

impl<'a> Stream<'a> {
    pub(super) const fn new(store: &'a dyn Entries, kind: u8, id: u32, seq: u64) -> Self {
        Self {
            store,
            kind,
            id,
            seq,
            last: seq,
            part: 0,
            chain: 0,
            ended: false,
            ahead: Vec::new(),
            window: 2,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Opens the streams of consecutive versions. Parts are read ahead as if it were one stream.
    pub(super) const fn through(
        store: &'a dyn Entries,
        kind: u8,
        id: u32,
        seqs: &RangeInclusive<u64>,
    ) -> Self {
        let mut stream = Self::new(store, kind, id, *seqs.start());
        stream.last = *seqs.end();
        stream.window = READ_AHEAD;
        stream
    }

    /// A stream of bytes that are in memory.
    pub(super) fn of_octets(octets: &[u8]) -> Stream<'static> {
        let mut stream = Stream::new(&NOTHING, STEP, 0, 0);
        stream.buffer.extend_from_slice(octets);
        stream.ended = true;
        stream
    }

    /// The bytes that were not taken yet, of a stream in memory.
    pub(super) fn rest(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Continues with the stream of the next version. This stream must end here. After its end there may be left-over
    /// parts of a longer stream with the same key.
    pub(super) fn go_on(&mut self) -> Streamed<()> {
        self.end()?;
        self.seq += 1;
        (self.part, self.chain, self.ended) = (0, 0, false);
        let first = part_key(self.kind, self.id, self.seq, 0);
        while self.ahead.pop_if(|(key, _)| **key < first[..]).is_some() {}
        Ok(())
    }

    /// Continues with another part, which begins with a record. `chain` is the checksum of the part before it.
    pub(super) fn go_to(&mut self, part: u32, chain: u32) {
        (self.part, self.chain) = (part, chain);
        self.ahead.clear();
        self.buffer.clear();
        (self.taken, self.ended) = (0, false);
    }

    pub(super) const fn is_at_end(&self) -> bool {
        self.ended && self.taken == self.buffer.len()
    }

    fn fill(&mut self) -> Streamed<()> {
        if self.ended {
            return Err(StreamError::Damaged("a stream ends too early"));
        }
        let key = part_key(self.kind, self.id, self.seq, self.part);
        if self.ahead.is_empty() {
            let end = part_key(self.kind, self.id, self.last, u32::MAX);
            self.ahead = self.store.range(&key, &end, self.window)?;
            self.ahead.reverse();
            self.window = READ_AHEAD;
        }
        let (found, value) = self
            .ahead
            .pop()
            .ok_or(StreamError::Damaged("a part is missing"))?;
        if *found != key {
            return Err(StreamError::Damaged("a part is missing"));
        }
        let (payload, sum) = value
            .split_last_chunk::<4>()
            .ok_or(StreamError::Damaged("a part is too short"))?;
        self.chain = check(self.chain, &key, payload);
        if self.chain != u32::from_be_bytes(*sum) {
            return Err(StreamError::Damaged("a part has a wrong checksum"));
        }
        let (flag, octets) = payload
            .split_first()
            .ok_or(StreamError::Damaged("a part is too short"))?;
        self.ended = flag & LAST != 0;
        self.part += 1;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(octets);
        Ok(())
    }

    /// Takes the next `len` bytes.
    pub(super) fn take(&mut self, len: usize) -> Streamed<&[u8]> {
        while self.buffer.len() - self.taken < len {
            self.fill()?;
        }
        let start = self.taken;
        self.taken += len;
        Ok(&self.buffer[start..self.taken])
    }

    pub(super) fn octet(&mut self) -> Streamed<u8> {
        Ok(self.take(1)?[0])
    }

    /// Takes a number, stored in groups of seven bits, lowest first.
    pub(super) fn number(&mut self) -> Streamed<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            number |= u64::from(octet & 0x7f) << shift;
            if octet < 0x80 {
                return Ok(number);
            }
        }
        Err(StreamError::Damaged("a number is too long"))
    }

    /// Takes a number that counts something in memory.
    pub(super) fn count(&mut self) -> Streamed<usize> {
        usize::try_from(self.number()?).map_err(|_| StreamError::Damaged("a count is too large"))
    }

    pub(super) fn number32(&mut self) -> Streamed<u32> {
        u32::try_from(self.number()?).map_err(|_| StreamError::Damaged("a number is too large"))
    }

    /// Takes a length and as many bytes.
    pub(super) fn counted(&mut self) -> Streamed<&[u8]> {
        let len = self.count()?;
        if len > 64 << 20 {
            return Err(StreamError::Damaged("a length is too large"));
        }
        self.take(len)
    }

    /// Takes a TTL. One with the top bit is damaged: read as 0, as a reader of the wire has to, it would have the same meaning
    /// as another byte.
    pub(super) fn ttl(&mut self) -> Streamed<Ttl> {
        let seconds = self.number32()?;
        let is_ttl = seconds <= Ttl::MAX.seconds();
        let ttl = is_ttl.then(|| Ttl::decode(seconds));
        ttl.ok_or(StreamError::Damaged("a TTL is too large"))
    }

    /// Takes a SOA and its serial.
    pub(super) fn soa(&mut self) -> Streamed<(Soa, Serial)> {
        let ttl = self.ttl()?;
        Soa::decode(self.counted()?, ttl).ok_or(StreamError::Damaged("a SOA is malformed"))
    }

    /// Checks that the stream ends here.
    pub(super) fn end(&self) -> Streamed<()> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(StreamError::Damaged("a stream is longer than it says"))
        }
    }
}

/// Appends a number in groups of seven bits, lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).expect("seven bits fit an octet") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("seven bits fit an octet"));
}

/// Appends a length and the bytes.
pub(super) fn put_counted(out: &mut Vec<u8>, octets: &[u8]) {
    put_number(out, octets.len() as u64);
    out.extend_from_slice(octets);
}

/// Takes a number from the start of some bytes, as [`put_number`] appends it.
pub(super) fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (octet, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(octet & 0x7f) << shift;
        if *octet < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a length and as many bytes from the start of some bytes.
pub(super) fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(number(rest)?).ok()?;
    let (octets, after) = rest.split_at_checked(len)?;
    *rest = after;
    Some(octets)
}

/// Appends a SOA with its serial.
pub(super) fn put_soa(out: &mut Vec<u8>, soa: &Soa, serial: Serial) {
    put_number(out, u64::from(soa.ttl.seconds()));
    put_counted(out, soa.rdata(serial).as_octets());
}
