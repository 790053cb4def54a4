//! Reads the lines of an exported history back into the values that were written.
//!
//! A line is read loosely: [`super::history_file`] writes each value again and compares the line byte for byte.

use std::borrow::Cow;

use dns::{Name, RrList, RrRef, Rtype, Serial, Soa, Ttl};
use provenance::{Cause, Kind, ObjectKey, Origin, Verb};
use serde::Deserialize;
use zone::{Hash, Link, Step};

/// The first line.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ZoneLine {
    pub(super) form: String,
    pub(super) zone: String,
    pub(super) after: u64,
    pub(super) records_before: u64,
}

/// A record from before the oldest version.
#[derive(Deserialize)]
pub(super) struct RecordLine {
    wire: String,
    /// The index of its group of causes; absent for a record from before.
    #[serde(default)]
    cause: u32,
}

/// A version.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VersionLine {
    version: u64,
    time_ms: u64,
    records: usize,
    previous_soa: Option<String>,
    soa: String,
    previous_hash: Option<String>,
    content_hash: Option<String>,
    hash: Option<String>,
    causes: Vec<Vec<CauseLine>>,
    removed: Vec<RecordLine>,
    added: Vec<RecordLine>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CauseLine {
    verb: String,
    kind: Option<String>,
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    manager: String,
    /// Answers of commands have it, exports do not.
    #[serde(default)]
    last_manager: String,
    operation: String,
    place: String,
}

/// A line of an exported history.
pub(super) enum Line {
    Zone(ZoneLine),
    Record(RecordLine),
    Version(Box<VersionLine>),
}

#[derive(Deserialize)]
struct LineType<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
}

impl Line {
    /// Reads a line; `None` if it is none. serde's tagged enum would first hold the whole line as a tree, several times
    /// its size.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let LineType { kind } = serde_json::from_slice(text).ok()?;
        match &*kind {
            "zone" => serde_json::from_slice(text).ok().map(Self::Zone),
            "record" => serde_json::from_slice(text).ok().map(Self::Record),
            "version" => serde_json::from_slice(text).ok().map(Self::Version),
            _ => None,
        }
    }
}

/// The bytes that hexadecimal digits mean.
fn octets_of(hex: &str) -> Option<Vec<u8>> {
    let digit = |octet: &u8| {
        char::from(*octet)
            .to_digit(16)
            .and_then(|it| u8::try_from(it).ok())
    };
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

/// Reads a record in uncompressed wire form: owner, type, class IN, TTL, length, data.
fn with_record<T>(hex: &str, tag: u32, call: impl FnOnce(RrRef<'_>) -> T) -> Option<T> {
    let wire = octets_of(hex)?;
    let mut end = 0;
    while *wire.get(end)? > 0 {
        end += usize::from(wire[end]) + 1;
    }
    let (owner, rest) = wire.split_at_checked(end + 1)?;
    Name::from_wire(owner).ok()?;
    let (head, data) = rest.split_first_chunk::<10>()?;
    let [t0, t1, 0, 1, l0, l1, l2, l3, d0, d1] = *head else {
        return None;
    };
    let is_whole = data.len() == usize::from(u16::from_be_bytes([d0, d1]));
    let rr = RrRef {
        owner,
        rtype: Rtype(u16::from_be_bytes([t0, t1])),
        ttl: Ttl::decode(u32::from_be_bytes([l0, l1, l2, l3])),
        data,
        tag,
    };
    is_whole.then(|| call(rr))
}

/// The SOA and serial of a record in wire form.
fn soa_of(hex: &str) -> Option<(Serial, Soa)> {
    let read = |rr: RrRef<'_>| Soa::decode(rr.data, rr.ttl);
    let (soa, serial) = with_record(hex, 0, read)??;
    Some((serial, soa))
}

impl RecordLine {
    /// Adds the record to a list.
    pub(super) fn push(&self, list: &mut RrList) -> Option<()> {
        with_record(&self.wire, self.cause, |rr| list.push(rr))
    }
}

fn list_of(lines: &[RecordLine]) -> Option<RrList> {
    let mut list = RrList::default();
    for line in lines {
        line.push(&mut list)?;
    }
    Some(list)
}

impl CauseLine {
    /// The cause that was written; `None` if it has a word that is not known.
    pub(crate) fn cause(&self) -> Option<Cause> {
        let kind = match &self.kind {
            None => None,
            Some(kind) => Some(Kind::ALL.into_iter().find(|it| it.as_str() == kind)?),
        };
        Some(Cause {
            verb: Verb::named(&self.verb)?,
            kind,
            key: ObjectKey::new(&self.namespace, &self.name),
            origin: Origin {
                uid: self.uid.as_str().into(),
                resource_version: self.resource_version.as_str().into(),
                manager: match &*self.last_manager {
                    "" => self.manager.as_str().into(),
                    last => last.into(),
                },
                operation: self.operation.as_str().into(),
                place: self.place.as_str().into(),
            },
        })
    }
}

impl VersionLine {
    /// The step that the line was written from; `None` when a value is malformed.
    pub(super) fn step(&self) -> Option<Step> {
        let (serial, soa) = soa_of(&self.soa)?;
        let from = match &self.previous_soa {
            None => None,
            Some(before) => Some(soa_of(before)?),
        };
        let hash = |text: &String| text.parse::<Hash>().ok();
        let link = match (&self.previous_hash, &self.content_hash, &self.hash) {
            (None, None, None) => None,
            (Some(previous), Some(content), Some(own)) => Some(Link {
                previous: hash(previous)?,
                content: hash(content)?,
                hash: hash(own)?,
            }),
            _ => return None,
        };
        let groups = self.causes.iter();
        let causes = groups.map(|group| group.iter().map(CauseLine::cause).collect());
        Some(Step {
            seq: self.version,
            time_ms: self.time_ms,
            from,
            serial,
            soa,
            removed: list_of(&self.removed)?,
            added: list_of(&self.added)?,
            causes: causes.collect::<Option<_>>()?,
            records: self.records,
            link,
        })
    }
}
