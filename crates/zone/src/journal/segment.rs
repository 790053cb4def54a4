//! Parts of the history that are kept elsewhere, for years.
//!
//! A segment is an object with consecutive versions of a zone. It has the same entries as the database has for them:
//! steps, indexes, the contents before the first version, a head. So everything that reads the history reads it there, too.
//! A segment is written from the database while its versions are still there, read back, and only then noted in the
//! database. Versions of a zone with an archive leave the database only when a noted segment has them: after a crash
//! at any point each version is in the one or in the other.

use std::sync::Arc;

use dns::{Name, Serial};
use imbl::Vector;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::journal::BATCH_ENTRIES;
use crate::journal::codec::{self, SEGMENT, put_counted, seal, unseal};
use crate::journal::segment_objects::ObjectPlace;
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::{Hash, Version};

/// A part of a zone's history that is kept elsewhere: consecutive versions in one object that never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The number of the first version.
    pub first: u64,
    /// The number of the last version.
    pub last: u64,
    /// The number of the last version that counts, at most [`Self::last`]: if the database lost the versions after it,
    /// other versions have their numbers now.
    pub until: u64,
    /// The serial of the first version.
    pub first_serial: Serial,
    /// The serial of the last version that counts.
    pub serial: Serial,
    /// The time of the first version, milliseconds since 1970 UTC.
    pub first_ms: u64,
    /// The time of the last version that counts, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The hash before the first version; zeros when the first has no hashes.
    pub previous: Hash,
    /// The hash of the last version that counts; zeros when it has none.
    pub hash: Hash,
    /// The size of the object, in octets.
    pub octets: u64,
    /// Where the index begins in the object, in octets.
    pub index_at: u64,
    /// The SHA-256 of the object.
    pub digest: Hash,
    /// The SHA-256 of the object from there on. The index has those of the blocks.
    pub index_digest: Hash,
    /// Where the object is.
    pub place: ObjectPlace,
}

impl Segment {
    /// The key of its description.
    pub(super) fn key(id: u32, first: u64) -> [u8; 13] {
        codec::segment_key(id, first)
    }

    pub(super) fn encode(&self, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        for number in [
            self.first,
            self.last,
            self.until,
            u64::from(self.first_serial.encode()),
            u64::from(self.serial.encode()),
            self.first_ms,
            self.time_ms,
            self.octets,
            self.index_at,
        ] {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for hash in [&self.previous, &self.hash, &self.digest, &self.index_digest] {
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
        let (first, last, until) = (number()?, number()?, number()?);
        let (first_serial, serial) = (number()?, number()?);
        let (first_ms, time_ms) = (number()?, number()?);
        let (octets, index_at) = (number()?, number()?);
        let mut hash = || {
            let (octets, after) = rest.split_first_chunk::<32>()?;
            rest = after;
            Some(Hash::from_octets(*octets))
        };
        let (previous, last_hash) = (hash()?, hash()?);
        let (digest, index_digest) = (hash()?, hash()?);
        let mut text = || {
            Some(Arc::from(
                std::str::from_utf8(codec::counted(&mut rest)?).ok()?,
            ))
        };
        let (url, name) = (text()?, text()?);
        let serial_of = |number| u32::try_from(number).ok().map(Serial::decode);
        let is_so = first <= until && until <= last && codec::seq_of(key) == Some(first);
        is_so.then_some(Self {
            first,
            last,
            until,
            first_serial: serial_of(first_serial)?,
            serial: serial_of(serial)?,
            first_ms,
            time_ms,
            previous,
            hash: last_hash,
            octets,
            index_at,
            digest,
            index_digest,
            place: ObjectPlace { url, name },
        })
    }
}

/// What is escaped in a zone's name that is a part of a path.
const ESCAPED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The name of a segment's object.
pub(super) fn name_of(
    apex: &Name,
    (first, last): (u64, u64),
    (first_serial, serial): (Serial, Serial),
    digest: &Hash,
) -> String {
    let zone = apex.to_string();
    let zone = match zone.trim_end_matches('.') {
        "" => "root".to_owned(),
        zone => utf8_percent_encode(zone, &ESCAPED).to_string(),
    };
    let digest = digest.to_string();
    let short = digest.get(..16).unwrap_or(&digest);
    format!("{zone}/{first:012}-{last:012}_{first_serial}-{serial}_{short}.zws")
}

/// The segments of a zone, oldest first, without gaps between them.
#[derive(Debug, Clone, Default)]
pub(super) struct Segments(Vector<Arc<Segment>>);

impl Segments {
    /// The number of the first version.
    pub(super) fn first(&self) -> Option<u64> {
        self.0.front().map(|segment| segment.first)
    }

    /// The number of the last version.
    pub(super) fn last(&self) -> Option<u64> {
        self.0.back().map(|segment| segment.until)
    }

    /// Adds the next segment. Says whether it joins.
    pub(super) fn push(&mut self, segment: Arc<Segment>) -> bool {
        let joins = { self.0.back() }.is_none_or(|last| last.until + 1 == segment.first);
        if joins {
            self.0.push_back(segment);
        }
        joins
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<Segment>> {
        self.0.iter()
    }

    /// The versions with which they begin and end: their descriptions have serial and time of these.
    pub(super) fn ends(&self) -> Vec<u64> {
        let mut ends: Vec<_> = { self.0.iter() }
            .flat_map(|segment| [segment.first, segment.until])
            .collect();
        ends.dedup();
        ends
    }

    /// The segment that has a version.
    pub(super) fn of(&self, seq: u64) -> Option<&Arc<Segment>> {
        let place = self.0.binary_search_by(|segment| {
            if segment.until < seq {
                std::cmp::Ordering::Less
            } else if segment.first > seq {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        });
        self.0.get(place.ok()?)
    }

    /// Makes this version the last one: what is after it was lost from the database. Adds the change to a batch.
    pub(super) fn cut(&mut self, id: u32, newest: &Version, batch: &mut Batch) {
        while let Some(last) = self.0.back().cloned() {
            let key = Segment::key(id, last.first);
            if last.first > newest.seq {
                batch.delete(&key);
                self.0.pop_back();
                continue;
            }
            if last.until > newest.seq {
                let cut = Segment {
                    until: newest.seq,
                    serial: newest.serial,
                    time_ms: newest.time_ms,
                    hash: newest.link.map(|link| link.hash).unwrap_or_default(),
                    ..Segment::clone(&last)
                };
                batch.put(&key, cut.encode(&key));
                self.0.pop_back();
                self.0.push_back(Arc::new(cut));
            }
            return;
        }
    }

    /// Keeps what joins a history from one version to another; gives those that do not.
    pub(super) fn joined(self, (oldest, newest): (u64, u64)) -> (Self, Vec<Arc<Segment>>) {
        let mut kept: Vector<Arc<Segment>> = Vector::new();
        let mut left = Vec::new();
        for segment in self.0.iter().rev() {
            let joins = match kept.front() {
                None => segment.until + 1 >= oldest && segment.until <= newest,
                Some(next) => segment.until + 1 == next.first,
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
pub(super) fn read(store: &dyn Entries, id: u32) -> Result<Segments, StoreError> {
    let mut segments = Vector::new();
    let end = codec::zone_key(SEGMENT, id + 1);
    for entry in paged(store, &Segment::key(id, 0), &end, BATCH_ENTRIES) {
        let (key, value) = entry?;
        segments.extend(Segment::decode(&key, &value).map(Arc::new));
    }
    Ok(Segments(segments))
}
