//! A step or a snapshot on its way to another replica: what a journal knows of a version, in parts of bounded size.
//!
//! Most steps are one payload: the step with its records and causes, and what became durable with it. If that is large, the
//! records and causes come in parts before it. A snapshot is the oldest step that has a hash, after the content before it and the
//! acts so far, which come in parts: the receiver applies the step, and its hash says whether all of it is right. The steps
//! after it follow as others do.
//!
//! A payload is a format number, data, and a CRC-32. What a peer sends has limits, and is decoded without trust.

use std::sync::Arc;

use dns::{Name, RrList};

use crate::journal::acts::Act;
use crate::journal::causes::CauseTable;
use crate::journal::codec::{
    Stream, StreamError, Streamed, counted, number, put_counted, put_number,
};
use crate::journal::corefiles::{self, KeptCorefile};
use crate::journal::replica_entries::{Tip, put_left_behind, take_left_behind};
use crate::journal::step;
use crate::{Contents, LeftBehind, Node, Step};

/// The number of the format.
const FORMAT: u8 = 1;
/// The records are in the payload.
const HAS_RECORDS: u8 = 1;
/// A step with more bytes comes in parts.
const INLINE_OCTETS: usize = 512 << 10;
/// About so many bytes are in a part.
const PART_OCTETS: usize = 512 << 10;
/// The most bytes of a payload that is taken.
const PAYLOAD_MOST: usize = 16 << 20;
/// The most bytes of all parts of a step or snapshot in memory.
const STAGED_MOST: usize = 1 << 30;
/// The most acts that come with a version.
const ACTS_MOST: usize = 4096;
/// The most acts that come with a snapshot.
const ACTS_IN_ALL_MOST: usize = 20_000;
/// The most bytes of an act.
const ACT_MOST: usize = 256 << 10;

/// The kind of a part with nodes of the content before the step.
const NODES: u8 = 1;
/// The kind of a part with acts.
const ACTS: u8 = 2;
/// The kind of a part with bytes of what comes before the records.
const HEAD: u8 = 3;
/// The kind of a part with removed records.
const REMOVED: u8 = 4;
/// The kind of a part with added records.
const ADDED: u8 = 5;

/// Why a payload is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// It is of a later release.
    #[error("format {0} of a step is not known")]
    Format(u8),
    /// It is not as it was written, or leads to another version than it says.
    #[error("a step is malformed: {0}")]
    Malformed(&'static str),
    /// It is larger than what is taken.
    #[error("a step or snapshot is too large")]
    TooLarge,
}

impl From<StreamError> for PayloadError {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::Damaged(what) => Self::Malformed(what),
            StreamError::Store(_) => Self::Malformed("it has no records"),
        }
    }
}

/// What becomes durable together with a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attached {
    /// What was done to the zone since the version before.
    pub acts: Vec<Act>,
    /// The Corefile that is in use from now on.
    pub corefile: Option<KeptCorefile>,
    /// What the program keeps with the version: holds, and the state of the gate. The journal does not look into it. At most
    /// 1 MiB.
    pub state: Vec<u8>,
}

/// What comes next of a parcel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Portion {
    /// A part, with more to come.
    Part(Vec<u8>),
    /// The payload of the step or snapshot.
    Last(Vec<u8>),
}

/// How far a parcel was sent.
#[derive(Debug, Clone)]
enum Place {
    /// Nodes after this key.
    Nodes(Option<Box<[u8]>>),
    /// Acts from this one on.
    Acts(usize),
    /// Bytes from this one on.
    Head(usize),
    /// Records from this byte on.
    Removed(usize),
    /// Records from this byte on.
    Added(usize),
    /// All parts were sent.
    Last,
}

/// A step or snapshot that is being sent. Costs the step; a snapshot shares the content with its version.
#[derive(Debug)]
pub struct Parcel {
    tip: Tip,
    /// The hash of the version before.
    previous: crate::Hash,
    step: Arc<Step>,
    left_behind: Option<LeftBehind>,
    attached: Attached,
    /// The content before the step, of a snapshot.
    before: Option<Contents>,
    /// The acts so far, of a snapshot: each with its number, as it is stored.
    acts: Vec<(u64, Vec<u8>)>,
    is_snapshot: bool,
    head: Vec<u8>,
    place: Place,
}

impl Parcel {
    /// A step of this epoch.
    pub(super) fn of_step(
        epoch: u64,
        step: Arc<Step>,
        left_behind: Option<LeftBehind>,
        attached: Attached,
    ) -> Self {
        let link = step.link.unwrap_or(crate::Link {
            previous: crate::Hash::ZERO,
            content: crate::Hash::ZERO,
            hash: crate::Hash::ZERO,
        });
        let head = step::head_of(&step, false);
        let is_inline = head.len() + step.octets() <= INLINE_OCTETS;
        Self {
            tip: Tip {
                epoch,
                seq: step.seq,
                serial: step.serial,
                hash: link.hash,
            },
            previous: link.previous,
            place: if is_inline {
                Place::Last
            } else {
                Place::Head(0)
            },
            step,
            left_behind,
            attached,
            before: None,
            acts: Vec::new(),
            is_snapshot: false,
            head,
        }
    }

    /// The same as a snapshot, with the content before the step and the acts so far.
    pub(super) fn with_past(mut self, before: Option<Contents>, acts: Vec<(u64, Vec<u8>)>) -> Self {
        self.before = before;
        self.acts = acts;
        // Those of the step are among them.
        self.attached.acts = Vec::new();
        self.is_snapshot = true;
        self.place = Place::Nodes(None);
        self
    }

    /// The version that it leads to.
    #[must_use]
    pub const fn tip(&self) -> &Tip {
        &self.tip
    }

    /// The hash of the version before.
    #[must_use]
    pub const fn previous(&self) -> &crate::Hash {
        &self.previous
    }

    /// Whether it is a snapshot.
    #[must_use]
    pub const fn is_snapshot(&self) -> bool {
        self.is_snapshot
    }

    /// Its bytes, about.
    #[must_use]
    pub fn octets(&self) -> usize {
        self.head.len() + self.step.octets() + self.attached.state.len()
    }

    /// Whether it is one payload without parts.
    #[must_use]
    pub const fn is_inline(&self) -> bool {
        matches!(self.place, Place::Last)
    }

    /// The next part, or the payload after all parts; the payload again after that.
    pub fn next_portion(&mut self) -> Portion {
        while let Some(octets) = self.part() {
            if let Some(octets) = octets {
                return Portion::Part(sealed(octets));
            }
        }
        Portion::Last(sealed(self.last()))
    }

    /// Whether records and causes are in the payload.
    fn has_records(&self) -> bool {
        self.head.len() + self.step.octets() <= INLINE_OCTETS
    }

    /// The next part. The inner `None` if there is none of a kind, the outer one after the last.
    #[allow(
        clippy::option_option,
        reason = "no part of a kind, and no part at all"
    )]
    fn part(&mut self) -> Option<Option<Vec<u8>>> {
        let place = self.place.clone();
        let after_past = if self.has_records() {
            Place::Last
        } else {
            Place::Head(0)
        };
        let (part, next) = match place {
            Place::Nodes(after) => {
                let part = self.nodes(after.as_deref());
                match part {
                    Some((octets, last)) => (Some(octets), Place::Nodes(Some(last))),
                    None => (None, Place::Acts(0)),
                }
            }
            Place::Acts(first) => match self.some_acts(first) {
                Some((octets, next)) => (Some(octets), Place::Acts(next)),
                None => (None, after_past),
            },
            Place::Head(first) => {
                let end = self.head.len().min(first + PART_OCTETS);
                let octets = [&[FORMAT, HEAD], &self.head[first..end]].concat();
                let is_end = end == self.head.len();
                let next = if is_end {
                    Place::Removed(0)
                } else {
                    Place::Head(end)
                };
                (Some(octets), next)
            }
            Place::Removed(first) => match records(REMOVED, &self.step.removed, first) {
                Some((octets, next)) => (Some(octets), Place::Removed(next)),
                None => (None, Place::Added(0)),
            },
            Place::Added(first) => match records(ADDED, &self.step.added, first) {
                Some((octets, next)) => (Some(octets), Place::Added(next)),
                None => (None, Place::Last),
            },
            Place::Last => return None,
        };
        self.place = next;
        Some(part)
    }

    /// A part with nodes after a key, and the key of the last one.
    fn nodes(&self, after: Option<&[u8]>) -> Option<(Vec<u8>, Box<[u8]>)> {
        let before = self.before.as_ref()?;
        let mut octets = vec![FORMAT, NODES];
        let mut last = None;
        let mut put = |node: &Node| {
            step::put_node(&mut octets, node);
            last = Some(node.key().into());
            octets.len() >= PART_OCTETS
        };
        let _is_full = match after {
            None => before.nodes().any(&mut put),
            Some(key) => before.nodes_after(key).any(&mut put),
        };
        Some((octets, last?))
    }

    /// A part with acts, and the place of the next one.
    fn some_acts(&self, first: usize) -> Option<(Vec<u8>, usize)> {
        let rest = self.acts.get(first..).filter(|rest| !rest.is_empty())?;
        let mut octets = vec![FORMAT, ACTS];
        let mut next = first;
        for (number, act) in rest {
            put_number(&mut octets, *number);
            put_counted(&mut octets, act);
            next += 1;
            if octets.len() >= PART_OCTETS {
                break;
            }
        }
        Some((octets, next))
    }

    /// The payload after all parts.
    fn last(&self) -> Vec<u8> {
        let has_records = self.has_records();
        let mut out = vec![FORMAT, if has_records { HAS_RECORDS } else { 0 }];
        if has_records {
            put_counted(&mut out, &self.head);
            for list in [&self.step.removed, &self.step.added] {
                step::put_list(list, &mut |octets| out.extend_from_slice(octets));
            }
        }
        put_left_behind(&mut out, self.left_behind);
        let Attached {
            acts,
            corefile,
            state,
        } = &self.attached;
        put_number(&mut out, acts.len() as u64);
        for act in acts {
            put_counted(&mut out, &act.to_octets());
        }
        out.push(u8::from(corefile.is_some()));
        if let Some(corefile) = corefile {
            put_counted(&mut out, &corefiles::value_of(corefile));
        }
        put_counted(&mut out, state);
        out
    }
}

/// A part with some records of a list, and the place of the next one.
fn records(kind: u8, list: &RrList, first: usize) -> Option<(Vec<u8>, usize)> {
    let mut rest = list.iter_behind(first);
    let mut some = RrList::default();
    while some.as_octets().len() < PART_OCTETS
        && let Some(rr) = rest.next()
    {
        some.push(rr);
    }
    let mut octets = vec![FORMAT, kind];
    step::put_list(&some, &mut |it| octets.extend_from_slice(it));
    let next = list.as_octets().len() - rest.octets_left();
    (!some.is_empty()).then_some((octets, next))
}

/// Appends the checksum.
fn sealed(mut octets: Vec<u8>) -> Vec<u8> {
    let sum = crc32fast::hash(&octets);
    octets.extend_from_slice(&sum.to_be_bytes());
    octets
}

/// The data of a payload after its format.
fn unsealed(octets: &[u8]) -> Result<&[u8], PayloadError> {
    if octets.len() > PAYLOAD_MOST {
        return Err(PayloadError::TooLarge);
    }
    let payload = octets.split_last_chunk::<4>();
    let (payload, sum) = payload.ok_or(PayloadError::Malformed("it is too short"))?;
    if crc32fast::hash(payload) != u32::from_be_bytes(*sum) {
        return Err(PayloadError::Malformed("its checksum is wrong"));
    }
    match payload.split_first() {
        Some((&FORMAT, rest)) => Ok(rest),
        Some((format, _)) => Err(PayloadError::Format(*format)),
        None => Err(PayloadError::Malformed("it is too short")),
    }
}

/// The parts of a step or snapshot that came so far.
#[derive(Debug, Default)]
pub struct Staged {
    nodes: Vec<Node>,
    acts: Vec<(u64, Vec<u8>)>,
    head: Vec<u8>,
    removed: RrList,
    added: RrList,
    /// The bytes that they take, about.
    octets: usize,
}

impl Staged {
    /// Takes the next part.
    ///
    /// # Errors
    /// [`PayloadError`] when it is malformed, or when there is too much.
    pub fn take(&mut self, part: &[u8]) -> Result<(), PayloadError> {
        let rest = unsealed(part)?;
        let short = PayloadError::Malformed("it is too short");
        let (kind, rest) = rest.split_first().ok_or(short)?;
        let before = self.octets;
        match *kind {
            NODES => self.take_nodes(rest)?,
            ACTS => self.take_acts(rest)?,
            HEAD => {
                self.head.extend_from_slice(rest);
                self.octets += rest.len();
            }
            REMOVED | ADDED => {
                let mut stream = Stream::of_octets(rest);
                let (list, _) = step::take_list(&mut stream, None, drop)?;
                stream.end()?;
                self.octets += list.as_octets().len();
                let all = match *kind {
                    REMOVED => &mut self.removed,
                    _ => &mut self.added,
                };
                *all = std::mem::take(all).and(&list);
            }
            _ => return Err(PayloadError::Malformed("a part is of an unknown kind")),
        }
        if self.octets == before {
            return Err(PayloadError::Malformed("a part is empty"));
        }
        if self.octets > STAGED_MOST {
            return Err(PayloadError::TooLarge);
        }
        Ok(())
    }

    fn take_nodes(&mut self, rest: &[u8]) -> Result<(), PayloadError> {
        let mut stream = Stream::of_octets(rest);
        while !stream.is_at_end() {
            let node = step::take_node(&mut stream)?;
            self.octets += node.as_octets().len();
            self.nodes.push(node);
        }
        Ok(())
    }

    fn take_acts(&mut self, mut rest: &[u8]) -> Result<(), PayloadError> {
        const MALFORMED: PayloadError = PayloadError::Malformed("an act is malformed");
        while !rest.is_empty() {
            let number = number(&mut rest).ok_or(MALFORMED)?;
            let act = counted(&mut rest).ok_or(MALFORMED)?;
            let follows =
                { self.acts.last() }.is_none_or(|(last, _)| last.checked_add(1) == Some(number));
            let is_one = act.split_first_chunk::<32>();
            let is_one = is_one.is_some_and(|(_, act)| Act::read(number, act).is_some());
            if !follows || !is_one || number == 0 {
                return Err(MALFORMED);
            }
            if act.len() > ACT_MOST || self.acts.len() >= ACTS_IN_ALL_MOST {
                return Err(PayloadError::TooLarge);
            }
            self.octets += act.len();
            self.acts.push((number, act.to_vec()));
        }
        Ok(())
    }
}

/// A step or snapshot as it came, not applied yet.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) step: Step,
    pub(super) left_behind: Option<LeftBehind>,
    pub(super) attached: Attached,
    /// The content before the step, of a snapshot.
    pub(super) before: Option<Contents>,
    /// The acts so far, of a snapshot.
    pub(super) acts: Vec<(u64, Vec<u8>)>,
}

/// Opens the payload of a step or snapshot that leads to the version with this number, after its parts.
pub(super) fn open(
    apex: &Name,
    (seq, is_snapshot): (u64, bool),
    staged: Staged,
    payload: &[u8],
) -> Result<Opened, PayloadError> {
    let rest = unsealed(payload)?;
    let mut stream = Stream::of_octets(rest);
    let has_records = match stream.octet()? {
        0 => false,
        HAS_RECORDS => true,
        _ => return Err(PayloadError::Malformed("its flags are unknown")),
    };
    let Staged {
        nodes,
        acts,
        mut head,
        mut removed,
        mut added,
        octets: _,
    } = staged;
    if has_records {
        if !head.is_empty() || !removed.is_empty() || !added.is_empty() {
            return Err(PayloadError::Malformed("its records come twice"));
        }
        head = stream.counted()?.to_vec();
        (removed, _) = step::take_list(&mut stream, None, drop)?;
        (added, _) = step::take_list(&mut stream, None, drop)?;
    }
    let mut step = take_step_head(&head, seq)?;
    step.removed = removed;
    step.added = added;
    let (left_behind, attached) = take_attached(stream.rest())?;
    let has_past = !nodes.is_empty() || !acts.is_empty();
    if has_past && !is_snapshot {
        return Err(PayloadError::Malformed(
            "a step comes with a snapshot's parts",
        ));
    }
    let before = match &step.from {
        None if !nodes.is_empty() => {
            let what = "a first version has a content before it";
            return Err(PayloadError::Malformed(what));
        }
        Some((_, soa)) if is_snapshot => {
            let before = Contents::from_sorted(apex, soa.clone(), nodes);
            Some(before.ok_or(PayloadError::Malformed("its owners are not in order"))?)
        }
        Some(_) | None => None,
    };
    Ok(Opened {
        step,
        left_behind,
        attached,
        before,
        acts,
    })
}

/// Reads what comes before the records.
fn take_step_head(head: &[u8], seq: u64) -> Result<Step, PayloadError> {
    let mut stream = Stream::of_octets(head);
    let (mut step, causes, as_nodes) = step::take_head(&mut stream, seq)?;
    stream.end()?;
    step.causes = groups(&causes)?;
    match as_nodes {
        true => Err(PayloadError::Malformed("its records are nodes")),
        false => Ok(step),
    }
}

fn groups(causes: &CauseTable) -> Streamed<Vec<Vec<provenance::Cause>>> {
    causes.groups(|_| true)
}

/// Reads what became durable with a version.
fn take_attached(mut rest: &[u8]) -> Result<(Option<LeftBehind>, Attached), PayloadError> {
    const MALFORMED: PayloadError = PayloadError::Malformed("what comes with it is malformed");
    let rest = &mut rest;
    let left_behind = take_left_behind(rest).ok_or(MALFORMED)?;
    let count = number(rest).ok_or(MALFORMED)?;
    if count > ACTS_MOST as u64 {
        return Err(PayloadError::TooLarge);
    }
    let mut acts = Vec::new();
    for _ in 0..count {
        let octets = counted(rest).ok_or(MALFORMED)?;
        if octets.len() > ACT_MOST {
            return Err(PayloadError::TooLarge);
        }
        acts.push(Act::read(0, octets).ok_or(MALFORMED)?);
    }
    let (flag, after) = rest.split_first().ok_or(MALFORMED)?;
    *rest = after;
    let corefile = match flag {
        0 => None,
        1 => {
            let value = counted(rest).ok_or(MALFORMED)?;
            Some(corefiles::corefile_of(value).ok_or(MALFORMED)?)
        }
        2.. => return Err(MALFORMED),
    };
    let state = counted(rest).ok_or(MALFORMED)?.to_vec();
    if !rest.is_empty() {
        return Err(MALFORMED);
    }
    let attached = Attached {
        acts,
        corefile,
        state,
    };
    Ok((left_behind, attached))
}
