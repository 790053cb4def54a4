//! Verifies a history in parts: each segment of the archive, and the versions in the database. So a verification of years
//! can tell how far it is, and go on where it was interrupted.

use std::sync::Arc;

use dns::{Name, Serial};
use serde::{Deserialize, Serialize};

use crate::Hash;
use crate::chain::Damage;
use crate::journal::reader::{ReadError, Reader};
use crate::journal::segment::Segment;
use crate::journal::segment_blocks::damaged;
use crate::journal::segment_opened::failed;
use crate::journal::store::{ArchiveFault, StoreError};
use crate::journal::{Anchored, Fault, PartVerdict, Stored, Verdict};

/// The most faults of segments that are reported.
const FAULTS_MOST: usize = 100;

/// A segment, as far as its verification needs it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentPart {
    /// The number of its first version.
    pub first: u64,
    /// The number of its last version that counts.
    pub until: u64,
    /// The number of its last version.
    pub last: u64,
    /// The serial of its first version.
    pub first_serial: Serial,
    /// The hash of the last version that counts; zeros when it has none.
    pub hash: Hash,
    /// The SHA-256 of its object.
    pub digest: Hash,
    /// Where the object is.
    pub place: String,
}

impl From<&Segment> for SegmentPart {
    fn from(segment: &Segment) -> Self {
        Self {
            first: segment.first,
            until: segment.until,
            last: segment.last,
            first_serial: segment.first_serial,
            hash: segment.hash,
            digest: segment.digest,
            place: segment.place.to_string(),
        }
    }
}

impl SegmentPart {
    /// The number of its versions that count.
    #[must_use]
    pub const fn versions(&self) -> u64 {
        self.until + 1 - self.first
    }
}

impl Reader {
    /// The number of the oldest version of a zone that is here, not only in segments; `None` for a zone that does not exist.
    #[must_use]
    pub fn oldest_here(&self, apex: &Name) -> Option<u64> {
        self.stored(apex).ok().map(|stored| stored.head.oldest)
    }

    /// The segments of a zone, oldest first. None for a zone that has none or does not exist.
    #[must_use]
    pub fn segment_parts(&self, apex: &Name) -> Vec<SegmentPart> {
        let Ok(stored) = self.stored(apex) else {
            return Vec::new();
        };
        stored.segments.iter().map(|it| (&**it).into()).collect()
    }

    /// Verifies the segment that begins with this version, and finds the versions with these hashes. Of an object that is
    /// damaged, lost or cannot be reached, the verdict has a fault and no version.
    ///
    /// # Errors
    /// [`ReadError`] when there is no such segment, or the database fails for another reason than damage.
    pub fn verify_segment(
        &self,
        apex: &Name,
        first: u64,
        anchors: &[Hash],
    ) -> Result<PartVerdict, ReadError> {
        let stored = self.stored(apex)?;
        let segment = { stored.segments.of(first) }.filter(|segment| segment.first == first);
        let Some(segment) = segment else {
            return Err(ReadError::NoVersion {
                apex: apex.clone(),
                seq: first,
                oldest: stored.segments.first().unwrap_or(stored.head.oldest),
                newest: stored.head.seq,
            });
        };
        match self.verdict_of(&stored, segment, anchors) {
            Err(ReadError::Store(error)) => {
                let mut verdict = Verdict::unread(first, (segment.until, segment.serial));
                let fault = fault_of(segment, error)?;
                if fault.damage == Damage::Unknown {
                    verdict.unread.push((first, segment.until));
                }
                verdict.faults.push(fault);
                Ok(verdict.into())
            }
            found => found,
        }
    }

    fn verdict_of(
        &self,
        stored: &Stored,
        segment: &Arc<Segment>,
        anchors: &[Hash],
    ) -> Result<PartVerdict, ReadError> {
        let digest = self.digest_of(segment);
        if digest.map_err(|error| failed(segment, &error))? != segment.digest {
            return Err(failed(segment, &damaged("it is not as it was written")).into());
        }
        let within = self.within(stored, segment)?;
        within.verify_until(&stored.apex, anchors, &[segment.until])
    }

    /// Verifies the versions of a zone that are here, not only in segments, and finds those with these hashes. Costs a pass
    /// over them. Of a zone that the database cannot read, the verdict has a fault and no version.
    ///
    /// # Errors
    /// [`ReadError`] when the zone does not exist, or the database fails for another reason than damage.
    pub fn verify_here(&self, apex: &Name, anchors: &[Hash]) -> Result<PartVerdict, ReadError> {
        let parts = self.segment_parts(apex);
        let ends: Vec<u64> = parts.iter().map(|part| part.until).collect();
        match self.verify_until(apex, anchors, &ends) {
            Err(ReadError::Store(error)) if error.is_damage() => {
                let head = self.stored(apex)?.head;
                let mut verdict = Verdict::unread(head.oldest, (head.seq, head.serial));
                verdict.faults.push(Fault {
                    seq: head.seq,
                    serial: Some(head.serial.encode()),
                    damage: Damage::Changed,
                    what: format!("its history cannot be read: {error}"),
                });
                Ok(verdict.into())
            }
            found => found,
        }
    }

    /// Verifies the kept history of a zone, and finds the versions with these hashes. Costs a pass over the history.
    ///
    /// # Errors
    /// [`ReadError`] when the zone does not exist, or the database fails for another reason than damage.
    pub fn verify(&self, apex: &Name, anchors: &[Hash]) -> Result<Verdict, ReadError> {
        // A segment that is added meanwhile is of versions that are still here.
        let parts = self.segment_parts(apex);
        let here = self.verify_here(apex, anchors)?;
        let mut segments = SegmentsVerdict::default();
        for part in parts {
            match segments.is_away() {
                true => segments.skip(&part),
                false => segments.add(&part, self.verify_segment(apex, part.first, anchors)?),
            }
        }
        Ok(segments.join(here))
    }
}

/// A segment that cannot be read as a fault; an error when the database failed.
fn fault_of(segment: &Segment, error: StoreError) -> Result<Fault, StoreError> {
    let damage = match &error {
        StoreError::Archive(error) => match error.fault {
            ArchiveFault::Damaged => Damage::Changed,
            ArchiveFault::Lost => Damage::Lost,
            ArchiveFault::Away => Damage::Unknown,
        },
        StoreError::Broken { .. } => Damage::Changed,
        StoreError::Io { .. } => return Err(error),
    };
    Ok(Fault {
        seq: segment.until,
        serial: Some(segment.serial.encode()),
        damage,
        what: error.to_string(),
    })
}

/// What was found in the segments of a zone.
#[derive(Debug, Default)]
pub struct SegmentsVerdict {
    /// Of the oldest segment that could be read.
    oldest: Option<Verdict>,
    /// The number of the newest version.
    until: Option<u64>,
    /// The hash that the next version must name; `None` when it is not known.
    before: Option<Hash>,
    versions: u64,
    unhashed: u64,
    segments: u64,
    reused: u64,
    anchored: Vec<Anchored>,
    faults: Vec<Fault>,
    unread: Vec<(u64, u64)>,
}

impl SegmentsVerdict {
    /// Whether the archive could not be reached. Then further segments are not tried, as each would be waited for.
    #[must_use]
    pub const fn is_away(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Notes that the next segment was not read, because the archive cannot be reached.
    pub fn skip(&mut self, part: &SegmentPart) {
        let mut found = Verdict::unread(part.first, (part.until, part.first_serial));
        found.unread.push((part.first, part.until));
        found.faults.push(Fault {
            seq: part.until,
            serial: None,
            damage: Damage::Unknown,
            what: format!(
                "the object {} was not read, as the archive cannot be reached",
                part.place
            ),
        });
        self.add(part, found.into());
    }

    /// Adds the next segment, which an earlier verification found good.
    pub fn reuse(&mut self, part: &SegmentPart, found: PartVerdict) {
        self.reused += 1;
        self.add(part, found);
    }

    /// Adds the next segment; the oldest first.
    pub fn add(&mut self, part: &SegmentPart, found: PartVerdict) {
        let end = found.end(part.until);
        let found = found.verdict;
        self.until = Some(part.until);
        let room = FAULTS_MOST.saturating_sub(self.faults.len());
        self.faults.extend(found.faults.iter().take(room).cloned());
        self.unread.extend(&found.unread);
        if found.versions == 0 {
            self.before = None;
            return;
        }
        if self.before.is_some_and(|before| before != found.anchor) {
            self.faults.push(Fault {
                seq: part.first,
                serial: Some(part.first_serial.encode()),
                damage: Damage::Chain,
                what: format!("{} does not follow the segment before it", part.place),
            });
        }
        // Versions that do not count are followed by others.
        self.before = match part.until == part.last {
            true => found.head,
            false => Some(end.unwrap_or(part.hash)),
        };
        self.versions += found.versions.saturating_sub(part.last - part.until);
        self.unhashed += found.unhashed;
        self.segments += 1;
        self.anchored.extend(found.anchored.iter().copied());
        self.oldest.get_or_insert(found);
    }

    /// The verdict about the whole history: that about the database, which may have some versions of the segments, too, and
    /// this.
    #[must_use]
    pub fn join(self, here: PartVerdict) -> Verdict {
        let until = self.until.unwrap_or(0);
        let end = here.end(until);
        let mut here = here.verdict;
        let begins = here.oldest.0;
        let is_next = until + 1 == begins && here.unhashed == 0 && here.versions > 0;
        let (seq, serial, known, what) = match is_next {
            true => {
                let serial = here.oldest.1.map(Serial::encode);
                let what = "it does not follow the last version of the archive";
                (begins, serial, Some(here.anchor), what)
            }
            // Both have the version.
            false => (
                until,
                None,
                end,
                "the archive has another version of this number",
            ),
        };
        if let (Some(before), Some(known)) = (self.before, known)
            && before != known
        {
            here.faults.push(Fault {
                seq,
                serial,
                damage: Damage::Chain,
                what: what.to_owned(),
            });
        }
        let twice = (until + 1).saturating_sub(begins);
        here.versions += self.versions.saturating_sub(twice);
        here.unhashed = (here.unhashed + self.unhashed).min(here.versions);
        here.segments = self.segments;
        here.reused_segments = self.reused;
        here.faults.extend(self.faults);
        here.unread = self.unread;
        for anchored in self.anchored {
            if !here.anchored.contains(&anchored) {
                here.anchored.push(anchored);
            }
        }
        if let Some(oldest) = self.oldest.filter(|oldest| oldest.oldest.0 < begins) {
            here.oldest = oldest.oldest;
            here.anchor = oldest.anchor;
        }
        here.faults.sort();
        here.faults.dedup();
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_read_after_a_doubt_that_a_version_recorded_and_not_after_one_that_is_away() {
        let part = SegmentPart {
            first: 1,
            until: 4,
            last: 4,
            first_serial: Serial::decode(100),
            hash: Hash::ZERO,
            digest: Hash::ZERO,
            place: "object".to_owned(),
        };
        let mut found = Verdict::unread(part.first, (part.until, part.first_serial));
        found.versions = 4;
        found.faults.push(Fault {
            seq: 2,
            serial: None,
            damage: Damage::Unknown,
            what: "versions may be lost".to_owned(),
        });
        let mut segments = SegmentsVerdict::default();
        segments.add(&part, found.into());
        assert!(!segments.is_away());
        segments.skip(&part);
        assert!(segments.is_away());
    }
}
