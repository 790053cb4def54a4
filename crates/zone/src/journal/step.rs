//! Encodes and decodes steps and snapshots as byte streams.
//!
//! A stream contains the whole step, including its causes; repeated strings are written once. A first step is written
//! as the nodes of its version, like a snapshot.

use dns::{Name, RrList, RrRef, Rtype, Serial, Soa};

use crate::journal::causes::{CauseTable, put_causes};
use crate::journal::codec::{
    PartWriter, SNAPSHOT, STEP, Stream, StreamError, Streamed, put_counted, put_number, put_soa,
};
use crate::journal::store::Entries;
use crate::{Contents, Hash, Link, Node, Step};

/// The step starts from an earlier version.
const HAS_FROM: u8 = 1;
/// The SOA is the one of the previous version.
const SAME_SOA: u8 = 2;
/// The added records are written as nodes, each node with one tag.
const AS_NODES: u8 = 4;
/// The version's hashes come after the causes.
const HAS_LINK: u8 = 8;

/// Writes a step. `contents` are those of its version: a first step is written as their nodes, which is smaller and
/// can be read without sorting. The flag passed to `out` says whether these bytes begin a record that can be searched
/// for ([`PartWriter::begin`]); steps without hashes are older than such searches.
pub(super) fn write_step(
    step: &Step,
    contents: &Contents,
    parts: &mut PartWriter,
    mut out: impl FnMut(&mut PartWriter, &[u8], bool),
) {
    let tags = node_tags(step, contents);
    let mut head = head_of(step, tags.is_some());
    if let Some(tags) = tags {
        let begins = step.link.is_some();
        put_number(&mut head, tags.len() as u64);
        out(parts, &head, begins);
        for (node, tag) in contents.nodes().zip(tags) {
            head.clear();
            put_number(&mut head, u64::from(tag));
            put_counted(&mut head, node.as_octets());
            out(parts, &head, begins);
        }
    } else {
        out(parts, &head, false);
        for list in [&step.removed, &step.added] {
            put_list(list, &mut |octets| out(parts, octets, false));
        }
    }
}

/// The part of a step before its records.
pub(super) fn head_of(step: &Step, as_nodes: bool) -> Vec<u8> {
    let mut head = Vec::new();
    let same_soa = step.from.as_ref().is_some_and(|(_, soa)| *soa == step.soa);
    let mut flags = 0;
    for (flag, set) in [
        (HAS_FROM, step.from.is_some()),
        (SAME_SOA, same_soa),
        (AS_NODES, as_nodes),
        (HAS_LINK, step.link.is_some()),
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
    put_causes(&mut head, &step.causes, step.link.is_some());
    if let Some(Link {
        previous,
        content,
        hash,
    }) = &step.link
    {
        for hash in [previous, content, hash] {
            head.extend_from_slice(hash.as_octets());
        }
    }
    head
}

/// The tag of each node, if the step adds exactly the nodes of the contents in their order.
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

/// Writes a list of records. Consecutive records of one owner share it.
pub(super) fn put_list(list: &RrList, out: &mut impl FnMut(&[u8])) {
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

/// Reads a list of records, or those of one owner. Adds each tag to `named`. Returns the records and the number of
/// all records.
pub(super) fn take_list(
    stream: &mut Stream<'_>,
    only: Option<&Name>,
    mut named: impl FnMut(u32),
) -> Streamed<(RrList, usize)> {
    let mut list = RrList::default();
    let mut owner = Vec::new();
    let count = stream.count()?;
    for _ in 0..count {
        let name = stream.counted()?;
        if !name.is_empty() {
            name.clone_into(&mut owner);
        }
        if dns::wire_name_len(&owner) != Some(owner.len()) {
            return Err(StreamError::Damaged("an owner is malformed"));
        }
        let rtype = u16::try_from(stream.number()?)
            .map_err(|_| StreamError::Damaged("a type is too large"))?;
        let ttl = stream.ttl()?;
        let tag = stream.number32()?;
        named(tag);
        let data = stream.counted()?;
        if u16::try_from(data.len()).is_err() {
            return Err(StreamError::Damaged("a record's data are too long"));
        }
        if only.is_some_and(|only| !owner.eq_ignore_ascii_case(only.as_wire())) {
            continue;
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
    Ok((list, count))
}

/// The values at the beginning of a step's stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepSize {
    /// The time of the version.
    pub(super) time_ms: u64,
    /// The size of the step as it counts towards the limits.
    pub(super) octets: u64,
}

pub(super) fn peek_step(store: &dyn Entries, id: u32, seq: u64) -> Streamed<StepSize> {
    let mut stream = Stream::new(store, STEP, id, seq);
    stream.window = 1;
    stream.octet()?;
    stream.number()?;
    Ok(StepSize {
        time_ms: stream.number()?,
        octets: stream.number()?,
    })
}

/// Reads only serial, time and SOA of a step's version.
pub(super) fn peek_version(store: &dyn Entries, id: u32, seq: u64) -> Streamed<(Serial, u64, Soa)> {
    let mut stream = Stream::new(store, STEP, id, seq);
    stream.window = 1;
    let flags = stream.octet()?;
    stream.number()?;
    let time_ms = stream.number()?;
    stream.number()?;
    stream.number()?;
    let mut soa = None;
    if flags & HAS_FROM != 0 {
        soa = Some(stream.soa()?.0);
    }
    let serial = Serial::decode(stream.number32()?);
    let soa = match soa {
        Some(soa) if flags & SAME_SOA != 0 => soa,
        _ => stream.soa()?.0,
    };
    Ok((serial, time_ms, soa))
}

/// A step as read. If it was written as nodes, they are separate.
#[derive(Clone)]
pub(super) struct RawStep {
    /// The step; `added` is empty if there are nodes.
    step: Step,
    nodes: Option<Vec<(Node, u32)>>,
}

/// Reads only the hashes of a step's version.
pub(super) fn peek_link(store: &dyn Entries, id: u32, seq: u64) -> Streamed<Option<Link>> {
    let mut stream = Stream::new(store, STEP, id, seq);
    stream.window = 1;
    Ok(take_head(&mut stream, seq)?.0.link)
}

/// Reads a step without its records.
pub(super) fn peek_causes(store: &dyn Entries, id: u32, seq: u64) -> Streamed<Step> {
    let mut stream = Stream::new(store, STEP, id, seq);
    stream.window = 1;
    let (mut step, causes, _) = take_head(&mut stream, seq)?;
    step.causes = causes.groups(|_| true)?;
    Ok(step)
}

pub(super) fn read_raw_step(store: &dyn Entries, id: u32, seq: u64) -> Streamed<RawStep> {
    take_raw_step(&mut Stream::new(store, STEP, id, seq), seq, true)
}

/// Reads a step to the end of its stream. Causes are left out unless they are wanted.
pub(super) fn take_raw_step(stream: &mut Stream<'_>, seq: u64, why: bool) -> Streamed<RawStep> {
    let (mut step, causes, as_nodes) = take_head(stream, seq)?;
    step.causes = causes.groups(|_| why)?;
    let mut nodes = None;
    if as_nodes {
        let mut list = Vec::new();
        for _ in 0..stream.count()? {
            list.push(take_tagged_node(stream)?);
        }
        nodes = Some(list);
    } else {
        (step.removed, _) = take_list(stream, None, drop)?;
        (step.added, _) = take_list(stream, None, drop)?;
    }
    stream.end()?;
    Ok(RawStep { step, nodes })
}

/// Reads the part of a step before its records, with undecoded causes. The flag says whether the records are nodes.
pub(super) fn take_head(stream: &mut Stream<'_>, seq: u64) -> Streamed<(Step, CauseTable, bool)> {
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
    let causes = CauseTable::take(stream, flags & HAS_LINK != 0)?;
    let link = if flags & HAS_LINK == 0 {
        None
    } else {
        Some(Link {
            previous: take_hash(stream)?,
            content: take_hash(stream)?,
            hash: take_hash(stream)?,
        })
    };
    let step = Step {
        seq,
        time_ms,
        from,
        serial,
        soa,
        removed: RrList::default(),
        added: RrList::default(),
        causes: Vec::new(),
        records,
        link,
    };
    Ok((step, causes, flags & AS_NODES != 0))
}

pub(super) fn take_tagged_node(stream: &mut Stream<'_>) -> Streamed<(Node, u32)> {
    let tag = stream.number32()?;
    Ok((take_node(stream)?, tag))
}

impl RawStep {
    /// The hashes of the step's version.
    pub(super) const fn link(&self) -> Option<Link> {
        self.step.link
    }

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

    /// The contents that a first step leads to.
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

fn take_hash(stream: &mut Stream<'_>) -> Streamed<Hash> {
    let octets = stream.take(32)?.try_into();
    Ok(Hash::from_octets(
        octets.expect("so many octets were taken"),
    ))
}

pub(super) fn take_node(stream: &mut Stream<'_>) -> Streamed<Node> {
    Node::decode(stream.counted()?).ok_or(StreamError::Damaged("a node is malformed"))
}

/// The part of a snapshot before its nodes.
pub(super) fn snapshot_head(contents: &Contents, serial: Serial, time_ms: u64) -> Vec<u8> {
    let mut head = Vec::new();
    put_soa(&mut head, contents.soa(), serial);
    put_number(&mut head, time_ms);
    put_number(&mut head, contents.record_count() as u64);
    put_number(&mut head, contents.owner_count() as u64);
    head
}

pub(super) fn put_node(out: &mut Vec<u8>, node: &Node) {
    put_counted(out, node.as_octets());
}

/// The part of a snapshot before its nodes.
pub(super) struct SnapshotHead {
    pub(super) soa: Soa,
    pub(super) serial: Serial,
    pub(super) time_ms: u64,
    /// The number of records.
    pub(super) records: usize,
    pub(super) owners: usize,
}

pub(super) fn take_snapshot_head(stream: &mut Stream<'_>) -> Streamed<SnapshotHead> {
    let (soa, serial) = stream.soa()?;
    Ok(SnapshotHead {
        soa,
        serial,
        time_ms: stream.number()?,
        records: stream.count()?,
        owners: stream.count()?,
    })
}

pub(super) fn read_snapshot(
    store: &dyn Entries,
    apex: &Name,
    id: u32,
    seq: u64,
) -> Streamed<(Contents, Serial, u64)> {
    let mut stream = Stream::new(store, SNAPSHOT, id, seq);
    let SnapshotHead {
        soa,
        serial,
        time_ms,
        records,
        owners,
    } = take_snapshot_head(&mut stream)?;
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
            "a snapshot has another number of records than it says",
        ));
    }
    Ok((contents, serial, time_ms))
}
