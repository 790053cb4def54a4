//! The places of serials among the kept versions of a zone.

use std::sync::PoisonError;

use dns::{Name, Serial};

use crate::journal::reader::{ReadError, Reader};
use crate::journal::segment::Segment;
use crate::journal::serial_search::{SerialPlace, Turns, ZoneTurns};
use crate::journal::{Stored, step};

impl Reader {
    /// The place of a serial among the kept versions of a zone up to one of them. Costs a look at each version for the first question, and
    /// a binary search for others. Of a segment of an archive only the first and the last version is looked at, unless
    /// they show that it has more than one turn.
    ///
    /// # Errors
    /// [`ReadError`] when the zone does not exist or cannot be read.
    pub fn place_of(
        &self,
        apex: &Name,
        serial: Serial,
        newest: u64,
    ) -> Result<SerialPlace, ReadError> {
        let stored = self.stored(apex)?;
        let turns = self.turns(&stored)?;
        let range = (stored.first(), stored.head.seq.min(newest));
        let ends = stored.segments.ends();
        turns.find(range, &ends, serial, |seq| Ok(self.moment(apex, seq)?.0))
    }

    /// The turns of all kept versions.
    fn turns(&self, stored: &Stored) -> Result<Turns, ReadError> {
        let (oldest, newest) = (stored.first(), stored.head.seq);
        let known = self.known_turns(stored);
        let mut zone = known.filter(|it| it.oldest <= oldest);
        if let Some((seq, serial)) = zone.as_ref().and_then(|it| it.turns.last) {
            // Versions that were lost meanwhile have others in their place.
            let is_same =
                (oldest..=newest).contains(&seq) && self.moment(&stored.apex, seq)?.0 == serial;
            zone = zone.filter(|_| is_same);
        }
        let mut zone = zone.unwrap_or_else(|| ZoneTurns {
            id: stored.id,
            oldest,
            turns: Turns::default(),
        });
        let mut next = zone.turns.last.map_or(oldest, |(seq, _)| seq + 1);
        while next <= newest {
            let segment = stored.segments.of(next);
            let segment = segment.filter(|it| next < stored.head.oldest && it.first >= next);
            if let Some(segment) = segment {
                self.look_at_segment(stored, segment, &mut zone.turns)?;
                next = segment.until + 1;
            } else {
                zone.turns.look((next, self.serial_of(stored, next)?));
                next += 1;
            }
        }
        let mut all = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(stored.apex.clone(), zone.clone());
        Ok(zone.turns)
    }

    fn known_turns(&self, stored: &Stored) -> Option<ZoneTurns> {
        let all = self.turns.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&stored.apex).filter(|it| it.id == stored.id);
        known.cloned()
    }

    /// Looks at the versions of a segment.
    fn look_at_segment(
        &self,
        stored: &Stored,
        segment: &Segment,
        turns: &mut Turns,
    ) -> Result<(), ReadError> {
        turns.look((segment.first, segment.first_serial));
        if segment.first_serial.up_to(segment.serial) <= Serial::MAX_STEP {
            turns.look((segment.until, segment.serial));
            return Ok(());
        }
        for seq in segment.first + 1..=segment.until {
            turns.look((seq, self.moment(&stored.apex, seq)?.0));
        }
        Ok(())
    }

    /// The serial of a version, most likely in the database.
    fn serial_of(&self, stored: &Stored, seq: u64) -> Result<Serial, ReadError> {
        if seq >= stored.head.oldest
            && let Ok((serial, ..)) = step::peek_version(&*self.store, stored.id, seq)
        {
            return Ok(serial);
        }
        Ok(self.moment(&stored.apex, seq)?.0)
    }
}
