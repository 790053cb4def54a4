//! The descriptions of segments, and the segments of a zone.

use std::sync::Arc;

use dns::{Name, Serial};
use imbl::Vector;

use crate::Hash;
use crate::journal::BATCH_ENTRIES;
use crate::journal::codec::{self, SEGMENT, put_counted, seal, unseal};
use crate::journal::segments::objects::ObjectPlace;
use crate::journal::store::{Entries, StoreError, paged};

/// A part of a zone's history that is kept elsewhere: consecutive versions in one object that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first version.
    pub first: u64,
    /// The number of the last version.
    pub last: u64,
    /// The serial of the first version.
    pub first_serial: Serial,
    /// The serial of the last version.
    pub serial: Serial,
    /// The time of the first version, milliseconds since 1970 UTC.
    pub first_ms: u64,
    /// The time of the last version, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The hash before the first version; zeros when the first has no hashes.
    pub previous: Hash,
    /// The hash of the last version; zeros when it has none.
    pub hash: Hash,
    /// The size of the object, in octets.
    pub octets: u64,
    /// Where the index begins in the object, in octets.
    pub index_at: u64,
    /// The SHA-256 of the object.
    pub digest: Hash,
    /// Where the object is.
    pub place: ObjectPlace,
}

impl Segment {
    /// The key of its description.
    pub(in crate::journal) fn key(id: u32, last: u64) -> [u8; 13] {
        let mut key = [SEGMENT; 13];
        key[1..5].copy_from_slice(&id.to_be_bytes());
        key[5..].copy_from_slice(&last.to_be_bytes());
        key
    }

    pub(in crate::journal) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        for number in [
            self.first,
            self.last,
            u64::from(self.first_serial.encode()),
            u64::from(self.serial.encode()),
            self.first_ms,
            self.time_ms,
            self.octets,
            self.index_at,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for hash in [&self.previous, &self.hash, &self.digest] {
            out.extend_from_slice(hash.as_octets());
        }
        put_counted(&mut out, self.place.url.as_bytes());
        put_counted(&mut out, self.place.name.as_bytes());
        seal(key, out)
    }

    fn decode(key: &[u8], value: &[u8]) -> Option<Self> {
        let mut rest = unseal(key, value)?;
        let mut number = || {
            let (octets, after) = rest.split_first_chunk::<8>()?;
            rest = after;
            Some(u64::from_be_bytes(*octets))
        };
        let (first, last) = (number()?, number()?);
        let (first_serial, serial) = (number()?, number()?);
        let (first_ms, time_ms) = (number()?, number()?);
        let (octets, index_at) = (number()?, number()?);
        let mut hash = || {
            let (octets, after) = rest.split_first_chunk::<32>()?;
            rest = after;
            Some(Hash::from_octets(*octets))
        };
        let (previous, hash, digest) = (hash()?, hash()?, hash()?);
        let mut text = || {
            Some(Arc::from(
                std::str::from_utf8(codec::counted(&mut rest)?).ok()?,
            ))
        };
        let (url, name) = (text()?, text()?);
        let serial_of = |number| u32::try_from(number).ok().map(Serial::decode);
        let is_so = first <= last && codec::seq_of(key) == Some(last);
        is_so.then_some(Self {
            first,
            last,
            first_serial: serial_of(first_serial)?,
            serial: serial_of(serial)?,
            first_ms,
            time_ms,
            previous,
            hash,
            octets,
            index_at,
            digest,
            place: ObjectPlace { url, name },
        })
    }
}

/// The name of a segment's object.
pub(in crate::journal) fn name_of(
    apex: &Name,
    (first, last): (u64, u64),
    (first_serial, serial): (Serial, Serial),
    digest: &Hash,
) -> String {
    let zone = apex.to_string();
    let zone = match zone.trim_end_matches('.') {
        "" => "root".to_owned(),
        zone => escaped(zone),
    };
    let digest = digest.to_string();
    let short = digest.get(..16).unwrap_or(&digest);
    format!("{zone}/{first:012}-{last:012}_{first_serial}-{serial}_{short}.zws")
}

/// A zone's name as a part of a path.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for octet in name.bytes() {
        match octet {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => out.push(char::from(octet)),
            _ => {
                use std::fmt::Write;
                let _ = write!(out, "%{octet:02x}");
            }
        }
    }
    out
}

/// The segments of a zone, oldest first, without gaps between them.
#[derive(Debug, Clone, Default)]
pub(in crate::journal) struct Segments(Vector<Arc<Segment>>);

impl Segments {
    /// The number of the first version.
    pub(in crate::journal) fn first(&self) -> Option<u64> {
        self.0.front().map(|segment| segment.first)
    }

    /// The number of the last version.
    pub(in crate::journal) fn last(&self) -> Option<u64> {
        self.0.back().map(|segment| segment.last)
    }

    /// Adds the next segment. Says whether it joins.
    pub(in crate::journal) fn push(&mut self, segment: Arc<Segment>) -> bool {
        let joins = { self.0.back() }.is_none_or(|last| last.last + 1 == segment.first);
        if joins {
            self.0.push_back(segment);
        }
        joins
    }

    pub(in crate::journal) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Segment>> {
        self.0.iter()
    }

    /// The segment that has a version.
    pub(in crate::journal) fn of(&self, seq: u64) -> Option<&Arc<Segment>> {
        let place = self.0.binary_search_by(|segment| {
            if segment.last < seq {
                std::cmp::Ordering::Less
            } else if segment.first > seq {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        });
        self.0.get(place.ok()?)
    }

    /// Keeps what joins a history from one version to another; gives those that do not.
    pub(in crate::journal) fn joined(
        self,
        (oldest, newest): (u64, u64),
    ) -> (Self, Vec<Arc<Segment>>) {
        let mut kept: Vector<Arc<Segment>> = Vector::new();
        let mut left = Vec::new();
        for segment in self.0.iter().rev() {
            let joins = match kept.front() {
                None => segment.last + 1 >= oldest && segment.last <= newest,
                Some(next) => segment.last + 1 == next.first,
            };
            match joins {
                true => kept.push_front(Arc::clone(segment)),
                false => left.push(Arc::clone(segment)),
            }
        }
        (Self(kept), left)
    }
}

/// Reads the descriptions of a zone's segments. Damaged ones are left out: what is older then joins nothing.
pub(in crate::journal) fn read(store: &dyn Entries, id: u32) -> Result<Segments, StoreError> {
    let mut segments = Vector::new();
    let end = codec::zone_key(SEGMENT, id + 1);
    for entry in paged(store, &Segment::key(id, 0), &end, BATCH_ENTRIES) {
        let (key, value) = entry?;
        segments.extend(Segment::decode(&key, &value).map(Arc::new));
    }
    Ok(Segments(segments))
}
