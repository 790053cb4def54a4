//! The bytes of what replicas say to each other.
//!
//! A connection begins with an exchange of fixed size. The side that connects sends an [`Opening`]: the formats that it knows and what
//! the connection is for. The other side answers with the format of all that follows, or with 0 if they have none in common:
//!
//! ```text
//! opening   magic (4)  lowest format (2)  highest format (2)  purpose (1)
//! answer    magic (4)  format (2)
//! ```
//!
//! Then there are messages of this form, numbers in network order:
//!
//! ```text
//! bytes of the head (4)  bytes of the payload (4)  head  payload
//! ```
//!
//! The head says everything but the payload of a step or a snapshot, so a large message can be recognised before all of it is there. A value has
//! one form only: what is decoded and encoded again has the same bytes.
//!
//! The peer is authenticated before its first byte is read. The limits are for a peer that is broken.

mod octets;

use dns::DecodeError;
use replicas::ceiling::Ceiling;
use replicas::chain::{Epoch, Part, Snapshot, Step};
use replicas::frame::{Body, Frame, Hello};
use replicas::knowledge::{Knowledge, Versions, Vow};
use replicas::replica::Token;

use std::sync::Arc;

use self::octets::{Reader, Writer};

/// The format that this code writes.
pub const FORMAT: u16 = 1;
/// Bytes of an [`Opening`].
pub const OPENING_BYTES: usize = 9;
/// Bytes of the answer to an [`Opening`].
pub const ANSWER_BYTES: usize = 6;
/// Bytes before the head of a message.
pub const PREFIX_BYTES: usize = 8;
/// The most bytes of a head: a Hello about [`ZONES_MAX`] zones has about 20 MB.
pub const HEAD_MAX_BYTES: usize = 32 << 20;
/// The most bytes of a payload: a snapshot is a zone with its whole history.
pub const PAYLOAD_MAX_BYTES: usize = 1 << 30;
/// The most zones of a message.
pub const ZONES_MAX: usize = 1 << 16;
/// The most versions of one zone in a Hello.
pub const VERSIONS_MAX: usize = 1 << 16;

/// The first bytes of both sides.
const MAGIC: [u8; 4] = *b"zwrl";
/// Bytes of a version without its content.
const TIP_BYTES: usize = 52;

/// The reason why bytes are no message, or a value cannot be written as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// They do not begin as a connection between replicas does.
    #[error("the peer is no replica")]
    Magic,
    /// There is no common format.
    #[error("the peer knows formats {lowest} to {highest}, not {FORMAT}")]
    Format {
        /// The lowest format of the peer.
        lowest: u16,
        /// Its highest one.
        highest: u16,
    },
    /// They end too early.
    #[error("a message ends too early")]
    Short,
    /// There are more of them than belong to the message.
    #[error("a message has bytes after its end")]
    Trailing,
    /// A kind or a choice that there is not.
    #[error("a message has the unknown choice {0}")]
    Choice(u8),
    /// A name is malformed.
    #[error("a name is malformed: {0}")]
    Name(#[source] DecodeError),
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// Names are not in order, or one is there twice.
    #[error("zones are not in order")]
    Order,
    /// There are more items or bytes than are allowed.
    #[error("{count} are more than {max}")]
    Count {
        /// How many there are.
        count: usize,
        /// How many there may be.
        max: usize,
    },
}

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Frames of a follower and a leader.
    Link,
    /// One question and its answer.
    Greeting,
}

/// The first bytes of the side that connects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// The oldest format that it knows.
    pub lowest: u16,
    /// The newest format that it knows.
    pub highest: u16,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// The lengths of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes of the head; at most [`HEAD_MAX_BYTES`].
    pub head_bytes: usize,
    /// Bytes of the payload; at most [`PAYLOAD_MAX_BYTES`].
    pub payload_bytes: usize,
}

/// A message as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    /// Prefix and head.
    pub start: Vec<u8>,
    /// The payload, which may be empty.
    pub payload: Arc<[u8]>,
}

impl Opening {
    /// What this code says.
    #[must_use]
    pub const fn of(purpose: Purpose) -> Self {
        Self {
            lowest: FORMAT,
            highest: FORMAT,
            purpose,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; OPENING_BYTES] {
        let [a, b] = self.lowest.to_be_bytes();
        let [c, d] = self.highest.to_be_bytes();
        let purpose = match self.purpose {
            Purpose::Link => 1,
            Purpose::Greeting => 2,
        };
        let [m, n, o, p] = MAGIC;
        [m, n, o, p, a, b, c, d, purpose]
    }

    /// Reads the bytes of a peer.
    ///
    /// # Errors
    /// [`FormatError::Magic`] and [`FormatError::Choice`]. Formats that are not known are no error.
    pub const fn decode(bytes: [u8; OPENING_BYTES]) -> Result<Self, FormatError> {
        let [m, n, o, p, a, b, c, d, purpose] = bytes;
        if !matches!([m, n, o, p], MAGIC) {
            return Err(FormatError::Magic);
        }
        let purpose = match purpose {
            1 => Purpose::Link,
            2 => Purpose::Greeting,
            other => return Err(FormatError::Choice(other)),
        };
        Ok(Self {
            lowest: u16::from_be_bytes([a, b]),
            highest: u16::from_be_bytes([c, d]),
            purpose,
        })
    }

    /// The answer to it, and whether there is a common format.
    ///
    /// # Errors
    /// [`FormatError::Format`], after the answer was sent.
    pub fn answer(self) -> ([u8; ANSWER_BYTES], Result<(), FormatError>) {
        let Self {
            lowest, highest, ..
        } = self;
        let is_known = (lowest..=highest).contains(&FORMAT);
        let format = if is_known { FORMAT } else { 0 };
        let [a, b] = format.to_be_bytes();
        let [m, n, o, p] = MAGIC;
        let result = if is_known {
            Ok(())
        } else {
            Err(FormatError::Format { lowest, highest })
        };
        ([m, n, o, p, a, b], result)
    }
}

/// Reads the answer to an [`Opening`].
///
/// # Errors
/// [`FormatError::Magic`], and [`FormatError::Format`] when the peer does not know our format.
pub fn take_answer(bytes: [u8; ANSWER_BYTES]) -> Result<(), FormatError> {
    let [m, n, o, p, a, b] = bytes;
    if [m, n, o, p] != MAGIC {
        return Err(FormatError::Magic);
    }
    match u16::from_be_bytes([a, b]) {
        FORMAT => Ok(()),
        format => Err(FormatError::Format {
            lowest: format,
            highest: format,
        }),
    }
}

impl Prefix {
    /// Reads it.
    ///
    /// # Errors
    /// [`FormatError::Count`].
    pub fn decode(bytes: [u8; PREFIX_BYTES]) -> Result<Self, FormatError> {
        let [a, b, c, d, e, f, g, h] = bytes;
        let within = |bytes: [u8; 4], max: usize| {
            let count = usize::try_from(u32::from_be_bytes(bytes)).unwrap_or(usize::MAX);
            (count <= max)
                .then_some(count)
                .ok_or(FormatError::Count { count, max })
        };
        Ok(Self {
            head_bytes: within([a, b, c, d], HEAD_MAX_BYTES)?,
            payload_bytes: within([e, f, g, h], PAYLOAD_MAX_BYTES)?,
        })
    }
}

impl Encoded {
    /// Puts the prefix before a head.
    fn new(head: &Writer, payload: Arc<[u8]>) -> Result<Self, FormatError> {
        let mut prefix = Writer::default();
        prefix.count(head.0.len(), HEAD_MAX_BYTES)?;
        prefix.count(payload.len(), PAYLOAD_MAX_BYTES)?;
        let mut start = prefix.0;
        start.extend(&head.0);
        Ok(Self { start, payload })
    }
}

/// A frame as it is sent.
///
/// # Errors
/// [`FormatError::Count`].
pub fn encode_frame(frame: &Frame) -> Result<Encoded, FormatError> {
    let mut head = Writer::default();
    let payload = match &frame.body {
        Body::Part(part) => Arc::clone(&part.payload),
        Body::Step(step) => Arc::clone(&step.payload),
        Body::Snapshot(snapshot) => Arc::clone(&snapshot.payload),
        Body::Hello(_)
        | Body::Stored(..)
        | Body::Staged(..)
        | Body::Shown(..)
        | Body::Alive { .. }
        | Body::Aligned
        | Body::Refused(_)
        | Body::Continue(..)
        | Body::Align
        | Body::Visible(..)
        | Body::Ping => Arc::default(),
    };
    head.byte(kind_of(&frame.body));
    head.epoch(frame.epoch);
    write_body(&frame.body, &mut head)?;
    Encoded::new(&head, payload)
}

/// The number of a kind of frames.
const fn kind_of(body: &Body) -> u8 {
    match body {
        Body::Hello(_) => 1,
        Body::Stored(..) => 2,
        Body::Shown(..) => 3,
        Body::Alive { .. } => 4,
        Body::Aligned => 5,
        Body::Refused(_) => 6,
        Body::Continue(..) => 7,
        Body::Step(_) => 8,
        Body::Snapshot(_) => 9,
        Body::Align => 10,
        Body::Visible(..) => 11,
        Body::Ping => 12,
        Body::Part(_) => 13,
        Body::Staged(..) => 14,
    }
}

/// What follows kind and epoch in a head.
fn write_body(body: &Body, head: &mut Writer) -> Result<(), FormatError> {
    match body {
        Body::Hello(hello) => {
            head.u64(hello.digest);
            head.by_name(&hello.zones, ZONES_MAX, |head, tips| {
                head.count(tips.len(), VERSIONS_MAX)?;
                tips.iter().for_each(|tip| head.tip(tip));
                Ok(())
            })?;
            write_knowledge(&hello.knowledge, head)?;
        }
        Body::Stored(zone, tip)
        | Body::Shown(zone, tip)
        | Body::Continue(zone, tip)
        | Body::Visible(zone, tip) => {
            head.name(zone)?;
            head.tip(tip);
        }
        Body::Staged(zone, tip, part) => {
            head.name(zone)?;
            head.tip(tip);
            head.u32(*part);
        }
        Body::Part(part) => {
            head.name(&part.zone)?;
            head.tip(&part.tip);
            head.u32(part.number);
        }
        Body::Alive { is_store_ok } => head.is_set(*is_store_ok),
        Body::Refused(ceiling) => write_ceiling(ceiling, head)?,
        Body::Step(step) => {
            head.name(&step.zone)?;
            head.tip(&step.tip);
            head.hash(&step.previous);
        }
        Body::Snapshot(snapshot) => {
            head.name(&snapshot.zone)?;
            head.tip(&snapshot.tip);
        }
        Body::Aligned | Body::Align | Body::Ping => {}
    }
    Ok(())
}

/// Reads a frame.
///
/// # Errors
/// [`FormatError`].
pub fn decode_frame(head: &[u8], payload: Arc<[u8]>) -> Result<Frame, FormatError> {
    let mut reader = Reader::new(head);
    let kind = reader.byte()?;
    let epoch = reader.epoch()?;
    let may_have_payload = matches!(kind, 8 | 9 | 13);
    if !payload.is_empty() && !may_have_payload {
        return Err(FormatError::Trailing);
    }
    let body = read_body(kind, &mut reader, payload)?;
    reader.end()?;
    Ok(Frame { epoch, body })
}

/// The epoch of a frame of which only the head is there.
///
/// # Errors
/// [`FormatError::Short`].
pub fn epoch_of(head: &[u8]) -> Result<Epoch, FormatError> {
    let mut reader = Reader::new(head);
    reader.byte()?;
    reader.epoch()
}

/// Reads what follows kind and epoch.
fn read_body(kind: u8, head: &mut Reader<'_>, payload: Arc<[u8]>) -> Result<Body, FormatError> {
    Ok(match kind {
        1 => Body::Hello(Hello {
            digest: head.u64()?,
            zones: head.by_name(ZONES_MAX, |head| {
                let count = head.count(VERSIONS_MAX, TIP_BYTES)?;
                (0..count).map(|_| head.tip()).collect()
            })?,
            knowledge: read_knowledge(head)?,
        }),
        2 => Body::Stored(head.name()?, head.tip()?),
        3 => Body::Shown(head.name()?, head.tip()?),
        4 => Body::Alive {
            is_store_ok: head.is_set()?,
        },
        5 => Body::Aligned,
        6 => Body::Refused(read_ceiling(head)?),
        7 => Body::Continue(head.name()?, head.tip()?),
        8 => Body::Step(Step {
            zone: head.name()?,
            tip: head.tip()?,
            previous: head.hash()?,
            payload,
        }),
        9 => Body::Snapshot(Snapshot {
            zone: head.name()?,
            tip: head.tip()?,
            payload,
        }),
        10 => Body::Align,
        11 => Body::Visible(head.name()?, head.tip()?),
        12 => Body::Ping,
        13 => Body::Part(Part {
            zone: head.name()?,
            tip: head.tip()?,
            number: head.u32()?,
            payload,
        }),
        14 => Body::Staged(head.name()?, head.tip()?, head.u32()?),
        other => return Err(FormatError::Choice(other)),
    })
}

/// A question to another replica: its number, the epoch, and the ceiling of it.
///
/// # Errors
/// [`FormatError::Count`].
pub fn encode_question(
    token: Token,
    epoch: Epoch,
    ceiling: &Ceiling,
) -> Result<Encoded, FormatError> {
    let mut head = Writer::default();
    head.u64(token);
    head.epoch(epoch);
    write_ceiling(ceiling, &mut head)?;
    Encoded::new(&head, Arc::default())
}

/// Reads a question.
///
/// # Errors
/// [`FormatError`].
pub fn decode_question(head: &[u8]) -> Result<(Token, Epoch, Ceiling), FormatError> {
    let mut reader = Reader::new(head);
    let question = (reader.u64()?, reader.epoch()?, read_ceiling(&mut reader)?);
    reader.end()?;
    Ok(question)
}

/// The answer to a question, with its number.
///
/// # Errors
/// [`FormatError::Count`].
pub fn encode_reply(token: Token, knowledge: &Knowledge) -> Result<Encoded, FormatError> {
    let mut head = Writer::default();
    head.u64(token);
    write_knowledge(knowledge, &mut head)?;
    Encoded::new(&head, Arc::default())
}

/// Reads the answer to a question.
///
/// # Errors
/// [`FormatError`].
pub fn decode_reply(head: &[u8]) -> Result<(Token, Knowledge), FormatError> {
    let mut reader = Reader::new(head);
    let reply = (reader.u64()?, read_knowledge(&mut reader)?);
    reader.end()?;
    Ok(reply)
}

fn write_ceiling(ceiling: &Ceiling, head: &mut Writer) -> Result<(), FormatError> {
    let Ceiling { common, above } = ceiling;
    head.is_set(common.is_some());
    if let Some(common) = common {
        head.serial(*common);
    }
    head.by_name(above, ZONES_MAX, |head, serial| {
        head.serial(*serial);
        Ok(())
    })
}

fn read_ceiling(head: &mut Reader<'_>) -> Result<Ceiling, FormatError> {
    Ok(Ceiling {
        common: if head.is_set()? {
            Some(head.serial()?)
        } else {
            None
        },
        above: head.by_name(ZONES_MAX, Reader::serial)?,
    })
}

fn write_knowledge(knowledge: &Knowledge, head: &mut Writer) -> Result<(), FormatError> {
    let Knowledge {
        replica,
        vow,
        zones,
        is_store_ok,
        is_leading,
    } = knowledge;
    head.replica(replica)?;
    head.epoch(vow.epoch);
    head.epoch(vow.branch);
    write_ceiling(&vow.ceiling, head)?;
    head.by_name(zones, ZONES_MAX, |head, versions| {
        head.tip(&versions.announced);
        head.tip(&versions.newest);
        Ok(())
    })?;
    head.is_set(*is_store_ok);
    head.is_set(*is_leading);
    Ok(())
}

fn read_knowledge(head: &mut Reader<'_>) -> Result<Knowledge, FormatError> {
    Ok(Knowledge {
        replica: head.replica()?,
        vow: Vow {
            epoch: head.epoch()?,
            branch: head.epoch()?,
            ceiling: read_ceiling(head)?,
        },
        zones: head.by_name(ZONES_MAX, |head| {
            Ok(Versions {
                announced: head.tip()?,
                newest: head.tip()?,
            })
        })?,
        is_store_ok: head.is_set()?,
        is_leading: head.is_set()?,
    })
}

#[cfg(test)]
mod tests;
