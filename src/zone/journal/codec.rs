//! How records of the store are laid out: keys, checks, numbers, steps, nodes.
//!
//! Keys are big-endian, so that entries of a zone stand in order: kind, zone id, seq, part. Every value
//! ends with a CRC-32 over key and payload, so a value that was damaged or put elsewhere is seen. Steps
//! and snapshots are octet streams cut into parts; each part's check goes on from the one before, and
//! the last part says that it is the last: parts of different writings never join.

use std::collections::HashMap;
use std::sync::Arc;

use crate::cluster::{Cause, Kind, ObjectKey, Origin, Verb};
use crate::dns::{Name, RrList, RrRef, Rtype, Serial, Soa, Ttl};
use crate::zone::journal::store::{Octets, Store, StoreError};
use crate::zone::{Contents, Node, Step};

/// The layout's version. A store with another one is refused.
pub(super) const FORMAT: u32 = 1;
/// Octets of a stream in one part. A value stays under 3.5 KiB: sled writes pages above 128 KiB as
/// files of their own, unsynced and leaking, and a page is about 16 values.
pub(super) const PART_OCTETS: usize = 3500;
/// How many parts are read at once.
const READ_AHEAD: usize = 32;

/// The key of the store's own record.
pub(super) const META_KEY: &[u8] = b"m";
/// The kind of keys that give a zone id its name.
pub(super) const ZONE: u8 = b'z';
/// The kind of keys that hold a zone's head.
pub(super) const HEAD: u8 = b'h';
/// The kind of keys that hold steps.
pub(super) const STEP: u8 = b'd';
/// The kind of keys that hold snapshots.
pub(super) const SNAPSHOT: u8 = b's';

/// The key of a record there is one of per zone.
pub(super) fn zone_key(kind: u8, id: u32) -> [u8; 5] {
    let mut key = [kind; 5];
    key[1..].copy_from_slice(&id.to_be_bytes());
    key
}

/// The key of a part.
pub(super) fn part_key(kind: u8, id: u32, seq: u64, part: u32) -> [u8; 17] {
    let mut key = [kind; 17];
    key[1..5].copy_from_slice(&id.to_be_bytes());
    key[5..13].copy_from_slice(&seq.to_be_bytes());
    key[13..].copy_from_slice(&part.to_be_bytes());
    key
}

/// The zone id in a key.
pub(super) fn id_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(1..5)?.try_into().ok()?))
}

/// The seq in a part's key.
pub(super) fn seq_of(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(5..13)?.try_into().ok()?))
}

/// The check of a payload under its key, going on from another check.
fn check(before: u32, key: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(before);
    hasher.update(key);
    hasher.update(payload);
    hasher.finalize()
}

/// A payload with its check.
pub(super) fn seal(key: &[u8], mut payload: Vec<u8>) -> Vec<u8> {
    let sum = check(0, key, &payload);
    payload.extend_from_slice(&sum.to_be_bytes());
    payload
}

/// The payload of a value whose check holds.
pub(super) fn unseal<'a>(key: &[u8], value: &'a [u8]) -> Option<&'a [u8]> {
    let (payload, sum) = value.split_last_chunk::<4>()?;
    (check(0, key, payload) == u32::from_be_bytes(*sum)).then_some(payload)
}

/// What a zone's history rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Base {
    /// The version it gives.
    pub(super) seq: u64,
    /// Whether it is a snapshot; else it is the first step.
    pub(super) snapshot: bool,
    /// Its octets.
    pub(super) octets: u64,
}

/// Where a zone's history stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The serial of the newest version.
    pub(super) serial: Serial,
    /// Its number.
    pub(super) seq: u64,
    /// The number of the oldest step that is kept.
    pub(super) oldest: u64,
    /// The octets of the kept steps.
    pub(super) kept_octets: u64,
    /// What contents are built from.
    pub(super) base: Base,
    /// The octets of the steps after the base.
    pub(super) since_base: u64,
}

impl Head {
    /// The record under its key.
    pub(super) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(61);
        out.extend_from_slice(&self.serial.encode().to_be_bytes());
        for number in [
            self.seq,
            self.oldest,
            self.kept_octets,
            self.base.seq,
            self.base.octets,
            self.since_base,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        out.push(u8::from(self.base.snapshot));
        seal(key, out)
    }

    /// Reads the record.
    pub(super) fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let payload = unseal(key, value)?;
        let (serial, rest) = payload.split_first_chunk::<4>()?;
        let (numbers, snapshot) = rest.split_first_chunk::<48>()?;
        let number = |index: usize| {
            let octets = numbers[index * 8..index * 8 + 8].try_into();
            u64::from_be_bytes(octets.expect("the slice has eight octets"))
        };
        Some(Self {
            serial: Serial::decode(u32::from_be_bytes(*serial)),
            seq: number(0),
            oldest: number(1),
            kept_octets: number(2),
            base: Base {
                seq: number(3),
                snapshot: *snapshot == [1],
                octets: number(4),
            },
            since_base: number(5),
        })
    }
}

/// Cuts a stream into parts.
#[derive(Debug, Clone)]
pub(super) struct PartWriter {
    /// Steps or snapshots.
    kind: u8,
    /// The zone.
    id: u32,
    /// The version.
    seq: u64,
    /// The number of the next part.
    part: u32,
    /// The check of the part before.
    chain: u32,
    /// Octets that do not fill a part yet, behind the flag octet.
    pending: Vec<u8>,
    /// Octets of the stream so far.
    octets: u64,
}

/// A key and its value.
pub(super) type Entry = ([u8; 17], Vec<u8>);

impl PartWriter {
    /// A stream of this kind for a version of a zone.
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

    /// Octets of the stream so far.
    pub(super) const fn octets(&self) -> u64 {
        self.octets
    }

    /// Adds octets; parts that are full go out.
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

    /// Ends the stream: the last part goes out.
    pub(super) fn finish(mut self, out: &mut Vec<Entry>) {
        self.pending[0] = 1;
        self.emit(out);
    }

    /// Gives the pending part out.
    fn emit(&mut self, out: &mut Vec<Entry>) {
        let key = part_key(self.kind, self.id, self.seq, self.part);
        let mut value = std::mem::replace(&mut self.pending, vec![0]);
        self.chain = check(self.chain, &key, &value);
        value.extend_from_slice(&self.chain.to_be_bytes());
        out.push((key, value));
        self.part += 1;
    }
}

/// Why a stream cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum StreamError {
    /// A part is missing, damaged or malformed.
    #[error("{0}")]
    Damaged(&'static str),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of reading from a stream.
pub(super) type Streamed<T> = Result<T, StreamError>;

/// Reads a stream part by part, checking each.
pub(super) struct Stream<'a> {
    /// The database.
    store: &'a Store,
    /// Steps or snapshots.
    kind: u8,
    /// The zone.
    id: u32,
    /// The version.
    seq: u64,
    /// The number of the next part.
    part: u32,
    /// The check of the part before.
    chain: u32,
    /// Whether the last part was read.
    ended: bool,
    /// Parts read ahead, in reverse order.
    ahead: Vec<(Octets, Octets)>,
    /// How many parts to read at once.
    window: usize,
    /// Octets read and not taken.
    buffer: Vec<u8>,
    /// How many octets of the buffer were taken.
    taken: usize,
}

impl<'a> Stream<'a> {
    /// The stream of this kind for a version of a zone.
    pub(super) const fn new(store: &'a Store, kind: u8, id: u32, seq: u64) -> Self {
        Self {
            store,
            kind,
            id,
            seq,
            part: 0,
            chain: 0,
            ended: false,
            ahead: Vec::new(),
            window: 2,
            buffer: Vec::new(),
            taken: 0,
        }
    }

    /// Reads the next part into the buffer.
    fn fill(&mut self) -> Streamed<()> {
        if self.ended {
            return Err(StreamError::Damaged("a record ends too early"));
        }
        let key = part_key(self.kind, self.id, self.seq, self.part);
        if self.ahead.is_empty() {
            let end = part_key(self.kind, self.id, self.seq, u32::MAX);
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
            return Err(StreamError::Damaged("a part's check does not hold"));
        }
        let (flag, octets) = payload
            .split_first()
            .ok_or(StreamError::Damaged("a part is too short"))?;
        self.ended = *flag == 1;
        self.part += 1;
        self.buffer.drain(..self.taken);
        self.taken = 0;
        self.buffer.extend_from_slice(octets);
        Ok(())
    }

    /// The next so many octets.
    pub(super) fn take(&mut self, len: usize) -> Streamed<&[u8]> {
        while self.buffer.len() - self.taken < len {
            self.fill()?;
        }
        let start = self.taken;
        self.taken += len;
        Ok(&self.buffer[start..self.taken])
    }

    /// The next octet.
    fn octet(&mut self) -> Streamed<u8> {
        Ok(self.take(1)?[0])
    }

    /// A number of seven-bit groups, lowest first.
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

    /// A number that counts something in memory.
    pub(super) fn count(&mut self) -> Streamed<usize> {
        usize::try_from(self.number()?).map_err(|_| StreamError::Damaged("a count is too large"))
    }

    /// A number of 32 bits.
    fn number32(&mut self) -> Streamed<u32> {
        u32::try_from(self.number()?).map_err(|_| StreamError::Damaged("a number is too large"))
    }

    /// A length and so many octets.
    pub(super) fn counted(&mut self) -> Streamed<&[u8]> {
        let len = self.count()?;
        if len > 64 << 20 {
            return Err(StreamError::Damaged("a length is too large"));
        }
        self.take(len)
    }

    /// SOA fields with their serial.
    fn soa(&mut self) -> Streamed<(Soa, Serial)> {
        let ttl = Ttl::decode(self.number32()?);
        Soa::decode(self.counted()?, ttl).ok_or(StreamError::Damaged("a SOA is malformed"))
    }

    /// The stream must end here.
    fn end(&self) -> Streamed<()> {
        if self.ended && self.taken == self.buffer.len() {
            Ok(())
        } else {
            Err(StreamError::Damaged("a record is longer than it says"))
        }
    }
}

/// Appends a number of seven-bit groups, lowest first.
pub(super) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).expect("seven bits fit an octet") | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).expect("seven bits fit an octet"));
}

/// Appends a length and the octets.
fn put_counted(out: &mut Vec<u8>, octets: &[u8]) {
    put_number(out, octets.len() as u64);
    out.extend_from_slice(octets);
}

/// Appends SOA fields with their serial.
fn put_soa(out: &mut Vec<u8>, soa: &Soa, serial: Serial) {
    put_number(out, u64::from(soa.ttl.seconds()));
    put_counted(out, soa.rdata(serial).as_octets());
}

/// The step comes from a version before.
const HAS_FROM: u8 = 1;
/// The SOA fields are those of the version before.
const SAME_SOA: u8 = 2;
/// The added records are written as nodes: all of them, each node with one tag.
const AS_NODES: u8 = 4;

/// Writes a step. `contents` are those of its version: a first step is written as their nodes, which is
/// smaller and reads back without sorting anything.
pub(super) fn write_step(
    step: &Step,
    contents: &Contents,
    parts: &mut PartWriter,
    mut out: impl FnMut(&mut PartWriter, &[u8]),
) {
    let tags = node_tags(step, contents);
    let mut head = Vec::new();
    let same_soa = step.from.as_ref().is_some_and(|(_, soa)| *soa == step.soa);
    let mut flags = 0;
    for (flag, set) in [
        (HAS_FROM, step.from.is_some()),
        (SAME_SOA, same_soa),
        (AS_NODES, tags.is_some()),
    ] {
        flags |= if set { flag } else { 0 };
    }
    head.push(flags);
    for number in [
        step.seq,
        step.time_ms,
        step.octets() as u64,
        step.records as u64,
    ] {
        put_number(&mut head, number);
    }
    if let Some((serial, soa)) = &step.from {
        put_soa(&mut head, soa, *serial);
    }
    put_number(&mut head, u64::from(step.serial.encode()));
    if !same_soa {
        put_soa(&mut head, &step.soa, step.serial);
    }
    put_causes(&mut head, &step.causes);
    if let Some(tags) = tags {
        put_number(&mut head, tags.len() as u64);
        out(parts, &head);
        for (node, tag) in contents.nodes().zip(tags) {
            head.clear();
            put_number(&mut head, u64::from(tag));
            put_counted(&mut head, node.as_octets());
            out(parts, &head);
        }
    } else {
        out(parts, &head);
        for list in [&step.removed, &step.added] {
            put_list(list, &mut |octets| out(parts, octets));
        }
    }
}

/// The tag of each node, when the step adds exactly the nodes of the contents, in their order.
fn node_tags(step: &Step, contents: &Contents) -> Option<Vec<u32>> {
    if step.from.is_some() || !step.removed.is_empty() {
        return None;
    }
    let mut added = step.added.iter();
    let mut tags = Vec::with_capacity(contents.owner_count());
    for node in contents.nodes() {
        let owner = node.owner_wire(contents.apex());
        let mut tag = None;
        for rr in node.records(&owner, 0) {
            let known = added.next()?;
            let tag = *tag.get_or_insert(known.tag);
            if known != (RrRef { tag, ..rr }) {
                return None;
            }
        }
        tags.push(tag?);
    }
    added.next().is_none().then_some(tags)
}

/// Writes a list of records; an owner that repeats is written once.
fn put_list(list: &RrList, out: &mut impl FnMut(&[u8])) {
    let mut octets = Vec::new();
    put_number(&mut octets, list.len() as u64);
    let mut last: &[u8] = &[];
    for rr in list {
        put_counted(&mut octets, if rr.owner == last { &[] } else { rr.owner });
        last = rr.owner;
        put_number(&mut octets, u64::from(rr.rtype.0));
        put_number(&mut octets, u64::from(rr.ttl.seconds()));
        put_number(&mut octets, u64::from(rr.tag));
        put_counted(&mut octets, rr.data);
        out(&octets);
        octets.clear();
    }
    out(&octets);
}

/// Reads a list of records.
fn take_list(stream: &mut Stream<'_>) -> Streamed<RrList> {
    let mut list = RrList::default();
    let mut owner = Vec::new();
    for _ in 0..stream.count()? {
        let name = stream.counted()?;
        if !name.is_empty() {
            name.clone_into(&mut owner);
        }
        if crate::dns::wire_name_len(&owner) != Some(owner.len()) {
            return Err(StreamError::Damaged("an owner is malformed"));
        }
        let rtype = u16::try_from(stream.number()?)
            .map_err(|_| StreamError::Damaged("a type is too large"))?;
        let ttl = Ttl::decode(stream.number32()?);
        let tag = stream.number32()?;
        let data = stream.counted()?;
        if u16::try_from(data.len()).is_err() {
            return Err(StreamError::Damaged("a record's data are too long"));
        }
        list.push(RrRef {
            owner: &owner,
            rtype: Rtype(rtype),
            ttl,
            data,
            tag,
        });
    }
    list.shrink();
    Ok(list)
}

/// The number that stands for a verb in the store, for ever.
const fn verb_code(verb: Verb) -> u8 {
    match verb {
        Verb::Applied => 1,
        Verb::Deleted => 2,
        Verb::Listed => 3,
        Verb::Vanished => 4,
        Verb::Configured => 5,
    }
}

/// The verb a number stands for.
const fn verb_of(code: u8) -> Option<Verb> {
    Some(match code {
        1 => Verb::Applied,
        2 => Verb::Deleted,
        3 => Verb::Listed,
        4 => Verb::Vanished,
        5 => Verb::Configured,
        _ => return None,
    })
}

/// The number that stands for a kind in the store, for ever; never 0.
const fn kind_code(kind: Kind) -> u8 {
    match kind {
        Kind::Namespace => 1,
        Kind::Service => 2,
        Kind::EndpointSlice => 3,
    }
}

/// The kind a number stands for.
fn kind_of(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| kind_code(*kind) == code)
}

/// Writes groups of causes, each distinct string once.
fn put_causes(out: &mut Vec<u8>, groups: &[Vec<Cause>]) {
    let mut places: HashMap<&str, u64> = HashMap::new();
    let mut strings = Vec::new();
    let mut body = Vec::new();
    put_number(&mut body, groups.len() as u64);
    for group in groups {
        put_number(&mut body, group.len() as u64);
        for cause in group {
            body.push(verb_code(cause.verb));
            body.push(cause.kind.map_or(0, kind_code));
            for text in cause_texts(cause) {
                let next = places.len() as u64;
                let place = *places.entry(text).or_insert_with(|| {
                    put_counted(&mut strings, text.as_bytes());
                    next
                });
                put_number(&mut body, place);
            }
        }
    }
    put_number(out, places.len() as u64);
    out.extend_from_slice(&strings);
    out.extend_from_slice(&body);
}

/// The strings of a cause, in the order they are stored.
fn cause_texts(cause: &Cause) -> [&str; 6] {
    let Cause {
        verb: _,
        kind: _,
        key: ObjectKey { namespace, name },
        origin:
            Origin {
                uid,
                resource_version,
                manager,
                place,
            },
    } = cause;
    [namespace, name, uid, resource_version, manager, place]
}

/// Reads groups of causes.
fn take_causes(stream: &mut Stream<'_>) -> Streamed<Vec<Vec<Cause>>> {
    const MALFORMED: StreamError = StreamError::Damaged("a cause is malformed");
    let mut strings: Vec<Arc<str>> = Vec::new();
    for _ in 0..stream.count()? {
        let text = std::str::from_utf8(stream.counted()?).map_err(|_| MALFORMED)?;
        strings.push(text.into());
    }
    let mut groups = Vec::new();
    for _ in 0..stream.count()? {
        let mut group = Vec::new();
        for _ in 0..stream.count()? {
            let verb = verb_of(stream.octet()?).ok_or(MALFORMED)?;
            let kind = match stream.octet()? {
                0 => None,
                code => Some(kind_of(code).ok_or(MALFORMED)?),
            };
            let mut texts: [Arc<str>; 6] = Default::default();
            for text in &mut texts {
                let place = stream.count()?;
                *text = Arc::clone(strings.get(place).ok_or(MALFORMED)?);
            }
            let [namespace, name, uid, resource_version, manager, place] = texts;
            group.push(Cause {
                verb,
                kind,
                key: ObjectKey { namespace, name },
                origin: Origin {
                    uid,
                    resource_version,
                    manager,
                    place,
                },
            });
        }
        groups.push(group);
    }
    Ok(groups)
}

/// What stands at the beginning of a step's record.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSize {
    /// When the version was made.
    pub(super) time_ms: u64,
    /// What the step counts towards the limits.
    pub(super) octets: u64,
}

/// Reads only the beginning of a step.
pub(super) fn peek_step(store: &Store, id: u32, seq: u64) -> Streamed<StepSize> {
    let mut stream = Stream::new(store, STEP, id, seq);
    stream.window = 1;
    stream.octet()?;
    stream.number()?;
    Ok(StepSize {
        time_ms: stream.number()?,
        octets: stream.number()?,
    })
}

/// A step as read, its nodes apart when it was written so.
pub(super) struct RawStep {
    /// The step; `added` is empty when there are nodes.
    step: Step,
    /// Nodes with their tags.
    nodes: Option<Vec<(Node, u32)>>,
}

/// Reads a step.
pub(super) fn read_raw_step(store: &Store, id: u32, seq: u64) -> Streamed<RawStep> {
    let mut stream = Stream::new(store, STEP, id, seq);
    let flags = stream.octet()?;
    if stream.number()? != seq {
        return Err(StreamError::Damaged("a step has another one's number"));
    }
    let time_ms = stream.number()?;
    stream.number()?;
    let records = stream.count()?;
    let from = if flags & HAS_FROM == 0 {
        None
    } else {
        let (soa, serial) = stream.soa()?;
        Some((serial, soa))
    };
    let serial = Serial::decode(stream.number32()?);
    let soa = match &from {
        Some((_, soa)) if flags & SAME_SOA != 0 => soa.clone(),
        _ => stream.soa()?.0,
    };
    let causes = take_causes(&mut stream)?;
    let mut step = Step {
        seq,
        time_ms,
        from,
        serial,
        soa,
        removed: RrList::default(),
        added: RrList::default(),
        causes,
        records,
    };
    let mut nodes = None;
    if flags & AS_NODES == 0 {
        step.removed = take_list(&mut stream)?;
        step.added = take_list(&mut stream)?;
    } else {
        let mut list = Vec::new();
        for _ in 0..stream.count()? {
            let tag = stream.number32()?;
            list.push((take_node(&mut stream)?, tag));
        }
        nodes = Some(list);
    }
    stream.end()?;
    Ok(RawStep { step, nodes })
}

impl RawStep {
    /// The whole step.
    pub(super) fn into_step(self, apex: &Name) -> Step {
        let Self { mut step, nodes } = self;
        for (node, tag) in nodes.into_iter().flatten() {
            let owner = node.owner_wire(apex);
            for rr in node.records(&owner, tag) {
                step.added.push(rr);
            }
        }
        step.added.shrink();
        step
    }

    /// The contents a first step leads to.
    pub(super) fn into_contents(self, apex: &Name) -> Option<(Contents, Serial, u64)> {
        let Self { step, nodes } = self;
        if step.from.is_some() {
            return None;
        }
        let contents = match nodes {
            Some(nodes) => {
                let nodes = nodes.into_iter().map(|(node, _)| node);
                Contents::from_sorted(apex, step.soa.clone(), nodes)?
            }
            None => step.apply(&Contents::empty(apex, step.soa.clone())).ok()?,
        };
        (contents.record_count() == step.records).then_some((contents, step.serial, step.time_ms))
    }
}

/// Reads a node.
fn take_node(stream: &mut Stream<'_>) -> Streamed<Node> {
    Node::decode(stream.counted()?).ok_or(StreamError::Damaged("a node is malformed"))
}

/// The beginning of a snapshot.
pub(super) fn snapshot_head(contents: &Contents, serial: Serial, time_ms: u64) -> Vec<u8> {
    let mut head = Vec::new();
    put_soa(&mut head, contents.soa(), serial);
    put_number(&mut head, time_ms);
    put_number(&mut head, contents.record_count() as u64);
    put_number(&mut head, contents.owner_count() as u64);
    head
}

/// One node of a snapshot.
pub(super) fn put_node(out: &mut Vec<u8>, node: &Node) {
    put_counted(out, node.as_octets());
}

/// Reads a snapshot.
pub(super) fn read_snapshot(
    store: &Store,
    apex: &Name,
    id: u32,
    seq: u64,
) -> Streamed<(Contents, Serial, u64)> {
    let mut stream = Stream::new(store, SNAPSHOT, id, seq);
    let (soa, serial) = stream.soa()?;
    let time_ms = stream.number()?;
    let records = stream.count()?;
    let owners = stream.count()?;
    let mut fault = None;
    let nodes = (0..owners).map_while(|_| match take_node(&mut stream) {
        Ok(node) => Some(node),
        Err(error) => {
            fault = Some(error);
            None
        }
    });
    let contents = Contents::from_sorted(apex, soa, nodes);
    if let Some(error) = fault {
        return Err(error);
    }
    stream.end()?;
    let contents = contents.ok_or(StreamError::Damaged(
        "the owners of a snapshot are not in order",
    ))?;
    if contents.record_count() != records || contents.owner_count() != owners {
        return Err(StreamError::Damaged(
            "a snapshot has not the records it says",
        ));
    }
    Ok((contents, serial, time_ms))
}
