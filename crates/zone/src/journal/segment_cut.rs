//! Writes versions of the database as a segment.

use std::io;

use dns::Name;

use crate::Step;
use crate::journal::codec::{self, HEAD, STEP, StreamError, ZONE, seal};
use crate::journal::head::{Base, Head};
use crate::journal::index::{self, IndexKey};
use crate::journal::large_steps::{LargeStepJob, large_key};
use crate::journal::reader::{ReadError, Reader, unreadable};
use crate::journal::segment::{Segment, name_of};
use crate::journal::segment_blocks::{Writer, damaged, digest_of};
use crate::journal::segment_objects::ObjectPlace;
use crate::journal::snapshot::SnapshotJob;
use crate::journal::store::paged;
use crate::journal::{Stored, load};

/// The parts of a step or snapshot that are read or written at once.
const PORTION: usize = 64;

/// How much a segment has at most. It ends with the version that reaches one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutLimits {
    /// Versions.
    pub versions: u64,
    /// Octets of the object.
    pub octets: usize,
}

/// A segment that is not written yet.
#[derive(Debug)]
pub struct Cut {
    /// The object.
    pub octets: Vec<u8>,
    /// Its description.
    pub segment: Segment,
}

/// The versions of a segment while it is written.
struct Steps {
    last: u64,
    /// The first and the last that can be read.
    ends: Option<(Step, Step)>,
    keys: Vec<IndexKey>,
    /// The entries of large steps, and of their lists.
    large: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Reader {
    /// The versions of a zone that are in no segment: the first, and the newest. `None` when the zone is not in the store.
    #[must_use]
    pub fn unarchived(&self, apex: &Name) -> Option<(u64, u64)> {
        let stored = self.stored(apex).ok()?;
        Some((stored.unarchived(), stored.head.seq))
    }

    /// About the octets of the versions of a zone that are in no segment: their part of all in the database.
    #[must_use]
    pub fn unarchived_octets(&self, apex: &Name) -> u64 {
        let Ok(stored) = self.stored(apex) else {
            return 0;
        };
        let waiting = (stored.head.seq + 1).saturating_sub(stored.unarchived());
        let all = (stored.head.seq + 1)
            .saturating_sub(stored.head.oldest)
            .max(1);
        let part = u128::from(stored.head.kept_octets) * u128::from(waiting) / u128::from(all);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Writes the oldest versions that are in no segment as one, for the archive at this address. `None` when there are none.
    ///
    /// # Errors
    /// [`ReadError`] when the zone does not exist or its versions cannot be read.
    pub fn cut(&self, apex: &Name, url: &str, limits: CutLimits) -> Result<Option<Cut>, ReadError> {
        let stored = self.stored(apex)?;
        let first = stored.unarchived();
        if first > stored.head.seq || limits.versions == 0 {
            return Ok(None);
        }
        let mut writer = Writer::new();
        let mut steps = self.write_steps(&stored, first, limits, &mut writer)?;
        let id = stored.id;
        let failed = |error: StreamError| unreadable(apex, first, error);
        let Some((oldest, newest)) = steps.ends.take() else {
            return Err(failed(StreamError::Damaged("no version can be read")));
        };
        // The contents before the first version that can be read.
        let base = oldest.seq.saturating_sub(1);
        let snapshot = match &oldest.from {
            Some((serial, _)) => {
                let contents = self.contents_at(apex, base, None)?;
                Some(SnapshotJob::new(id, base, (*serial, 0), contents, true))
            }
            None => None,
        };
        let head = Head {
            serial: newest.serial,
            seq: steps.last,
            oldest: first,
            kept_octets: 0,
            base: Base {
                seq: if snapshot.is_some() { base } else { oldest.seq },
                snapshot: snapshot.is_some(),
                octets: 0,
            },
            since_base: 0,
            indexed: first,
            hash: { newest.link }
                .filter(|_| newest.seq == steps.last)
                .map(|link| link.hash),
            since_older: 0,
            left_behind: None,
            older: std::sync::Arc::default(),
        };
        let key = codec::zone_key(HEAD, id);
        writer.add(&key, &head.encode(&key));
        steps.keys.sort_unstable();
        for key in &steps.keys {
            writer.add(key, &seal(key, Vec::new()));
        }
        if let Some(mut job) = snapshot {
            while !job.is_complete() {
                for (key, value) in job.portion(PORTION) {
                    writer.add(&key, &value);
                }
            }
        }
        steps.large.sort_unstable();
        for (key, value) in steps.large {
            writer.add(&key, &value);
        }
        let key = codec::zone_key(ZONE, id);
        writer.add(&key, &seal(&key, stored.apex.as_wire().to_vec()));
        let ends = (first, steps.last);
        Ok(Some(described(
            writer,
            &stored.apex,
            url,
            ends,
            (&oldest, &newest),
        )))
    }

    /// Writes a segment to its archive, and reads it back.
    ///
    /// # Errors
    /// When it cannot be written or read, or is not what was written.
    pub fn put(&self, cut: Cut) -> io::Result<Segment> {
        let Cut { octets, segment } = cut;
        let place = &segment.place;
        let failed = |doing, error: io::Error| {
            io::Error::new(error.kind(), format!("{place} cannot be {doing}: {error}"))
        };
        let written = self.remote.objects().write(place, octets);
        written.map_err(|error| failed("written", error))?;
        let read = self.digest_of(&segment);
        if read.map_err(|error| failed("read back", error))? != segment.digest {
            return Err(failed("used", damaged("it is not what was written to it")));
        }
        Ok(segment)
    }

    /// Adds steps to a segment, from `first` to the limits.
    fn write_steps(
        &self,
        stored: &Stored,
        first: u64,
        limits: CutLimits,
        writer: &mut Writer,
    ) -> Result<Steps, ReadError> {
        let mut steps = Steps {
            last: first,
            ends: None,
            keys: Vec::new(),
            large: Vec::new(),
        };
        for seq in first..=stored.head.seq {
            let is_full = seq - first >= limits.versions || writer.octets() >= limits.octets;
            if is_full {
                break;
            }
            let (low, high) = (
                codec::part_key(STEP, stored.id, seq, 0),
                codec::part_key(STEP, stored.id, seq, u32::MAX),
            );
            // As it is stored: what is damaged here must not look sound there.
            for part in paged(&*self.store, &low, &high, PORTION) {
                let (key, value) = part?;
                writer.add(&key, &value);
                // What is behind the last part is left from another stream.
                if codec::is_last(&value) {
                    break;
                }
            }
            steps.last = seq;
            match load::read_step(&*self.store, &stored.apex, stored.id, seq) {
                Ok(step) => steps.add(step, stored.id),
                // Every search looks at it and finds the damage.
                Err(StreamError::Damaged(_)) => {
                    let key = large_key(stored.id, seq);
                    steps.large.push((key.to_vec(), seal(&key, Vec::new())));
                }
                Err(error @ StreamError::Store(_)) => {
                    return Err(unreadable(&stored.apex, seq, error));
                }
            }
        }
        Ok(steps)
    }
}

impl Steps {
    /// Notes the index entries of a step.
    fn add(&mut self, step: Step, id: u32) {
        if index::is_large(&step) {
            let mut job = LargeStepJob::new(id, step.seq, None);
            let large = &mut self.large;
            while !job.portion(&step, usize::MAX, |key, value| {
                large.push((key.to_vec(), value))
            }) {}
        } else {
            self.keys.extend(index::keys_of(&step, id));
        }
        // The records of the first and the last are not needed.
        let step = Step {
            removed: dns::RrList::default(),
            added: dns::RrList::default(),
            causes: Vec::new(),
            ..step
        };
        self.ends = Some(match self.ends.take() {
            None => (step.clone(), step),
            Some((oldest, _)) => (oldest, step),
        });
    }
}

fn described(
    writer: Writer,
    apex: &Name,
    url: &str,
    (first, last): (u64, u64),
    (oldest, newest): (&Step, &Step),
) -> Cut {
    let (octets, index_at) = writer.finish();
    let digest = digest_of(&octets);
    let split = usize::try_from(index_at).unwrap_or(octets.len());
    let serials = (oldest.serial, newest.serial);
    let name = name_of(apex, (first, last), serials, &digest);
    let previous = oldest.link.filter(|_| oldest.seq == first);
    let hash = newest.link.filter(|_| newest.seq == last);
    Cut {
        segment: Segment {
            first,
            last,
            until: last,
            first_serial: oldest.serial,
            serial: newest.serial,
            first_ms: oldest.time_ms,
            time_ms: newest.time_ms,
            previous: previous.map(|link| link.previous).unwrap_or_default(),
            hash: hash.map(|link| link.hash).unwrap_or_default(),
            octets: octets.len() as u64,
            index_at,
            digest,
            index_digest: digest_of(octets.get(split..).unwrap_or_default()),
            place: ObjectPlace {
                url: url.into(),
                name: name.into(),
            },
        },
        octets,
    }
}
