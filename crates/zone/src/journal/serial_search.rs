//! Finds the version that has a serial.
//!
//! Serials rise, but after one was moved back by two wide steps (RFC 1982 section 7) an old version may have a serial that
//! is both before and after later ones, or the same as a later one. So versions are divided into turns: within a turn
//! serials rise by less than the circle in all. Nearly every history is one turn. A binary search is right in a turn
//! only, and only a look at each serial tells where the next one begins: a reader does that once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use dns::{Name, Serial};

/// The place of a serial among the kept versions that are not condensed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SerialPlace {
    /// This version has it. Of several it is the newest.
    At(u64),
    /// No version has it: this one is before it, and the next one after it.
    Between(u64),
    /// It is after the newest version.
    After,
    /// It is before the oldest version.
    Before,
}

/// The turns of a zone, as far as its versions were looked at.
#[derive(Debug, Clone, Default)]
pub(super) struct Turns {
    /// The first version of each, oldest first.
    pub(super) firsts: Vec<u64>,
    /// How far the last version is ahead of the first of its turn.
    pub(super) advance: u32,
    /// The last version that was looked at.
    pub(super) last: Option<(u64, Serial)>,
}

impl Turns {
    /// Looks at the next version. Of a run of versions that is looked at as one, its first and then its last is given.
    pub(super) fn look(&mut self, (seq, serial): (u64, Serial)) {
        let wide = |advance: &u32| *advance <= Serial::MAX_STEP;
        let last = self.last.replace((seq, serial));
        let step = last.map(|(_, last)| last.up_to(serial)).filter(wide);
        let advance = step.and_then(|step| self.advance.checked_add(step));
        if let Some(advance) = advance.filter(wide) {
            self.advance = advance;
        } else {
            // A turn that begins with the version before is right, too, and a run is not divided.
            let first = last.filter(|_| step.is_some()).map_or(seq, |(seq, _)| seq);
            self.firsts.push(first);
            self.advance = step.unwrap_or(0);
        }
    }

    /// Finds a serial among these versions, as [`last_of_known`] does.
    pub(super) fn find<E>(
        &self,
        (oldest, newest): (u64, u64),
        known: &[u64],
        serial: Serial,
        mut serial_of: impl FnMut(u64) -> Result<Serial, E>,
    ) -> Result<SerialPlace, E> {
        let (mut place, mut next) = (None, None);
        for first in self.firsts.iter().rev().map(|first| oldest.max(*first)) {
            let last = next.map_or(newest, |(seq, _)| seq - 1);
            if last < first {
                continue;
            }
            let (begin, end) = (serial_of(first)?, serial_of(last)?);
            let within = begin.up_to(serial);
            if within <= begin.up_to(end) {
                let found = last_of_known((first, last), known, |seq| {
                    Ok(begin.up_to(serial_of(seq)?) <= within)
                })?;
                if serial_of(found)? == serial {
                    return Ok(SerialPlace::At(found));
                }
                place = place.or(Some(SerialPlace::Between(found)));
            } else if let Some((_, after)) = next
                && end.up_to(serial) < end.up_to(after)
            {
                place = place.or(Some(SerialPlace::Between(last)));
            }
            next = Some((first, begin));
        }
        Ok(match place {
            Some(place) => place,
            None if serial.is_after(serial_of(newest)?) => SerialPlace::After,
            None => SerialPlace::Before,
        })
    }
}

/// Finds a serial among versions, for tests. Looks at each of them.
///
/// # Errors
/// The error of `serial_of`.
#[cfg(any(test, feature = "testing"))]
pub fn find_serial<E>(
    versions: std::ops::RangeInclusive<u64>,
    serial: Serial,
    mut serial_of: impl FnMut(u64) -> Result<Serial, E>,
) -> Result<SerialPlace, E> {
    let range = (*versions.start(), *versions.end());
    let mut turns = Turns::default();
    for seq in versions {
        turns.look((seq, serial_of(seq)?));
    }
    turns.find(range, &[], serial, serial_of)
}

/// The last version for which `holds` is true; the one before the oldest when there is none. Costs a binary search:
/// if `holds` is true for a version, it must be true for all before it, as with serials and times.
///
/// # Errors
/// The error of `holds`.
fn last_of<E>(
    (oldest, newest): (u64, u64),
    mut holds: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    let (mut low, mut high) = (oldest, newest + 1);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low - 1)
}

/// Like [`last_of`]. `known`, in ascending order, are versions for which `holds` reads nothing, such as those with which a
/// segment begins and ends. They are looked at first: of the others only those between two of them are.
///
/// # Errors
/// The error of `holds`.
pub fn last_of_known<E>(
    (oldest, newest): (u64, u64),
    known: &[u64],
    mut holds: impl FnMut(u64) -> Result<bool, E>,
) -> Result<u64, E> {
    let known = known.get(known.partition_point(|seq| *seq < oldest)..);
    let known = known.unwrap_or_default();
    let known = known.get(..known.partition_point(|seq| *seq <= newest));
    let known = known.unwrap_or_default();
    let (mut low, mut high) = (0, known.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match holds(known[middle])? {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    let first = low.checked_sub(1).map_or(oldest, |at| known[at] + 1);
    let last = known.get(low).map_or(newest, |seq| seq - 1);
    last_of((first, last), holds)
}

/// The turns of a zone in the store.
#[derive(Debug, Clone)]
pub(super) struct ZoneTurns {
    pub(super) id: u32,
    /// The oldest version that was looked at.
    pub(super) oldest: u64,
    pub(super) turns: Turns,
}

/// The turns that the copies of a reader know.
#[derive(Debug, Clone, Default)]
pub(super) struct KnownTurns(
    /// The lock protects the map alone: nothing is read while it is held.
    pub(super) Arc<Mutex<BTreeMap<Name, ZoneTurns>>>,
);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The place of a serial among versions with these serials, the first of which is number 1.
    fn place(serials: &[u32], serial: u32) -> SerialPlace {
        let newest = u64::try_from(serials.len()).unwrap();
        let serial_of = |seq: u64| {
            let place = usize::try_from(seq - 1).unwrap();
            Ok::<_, ()>(Serial::decode(serials[place]))
        };
        find_serial(1..=newest, Serial::decode(serial), serial_of).unwrap()
    }

    #[test]
    fn after_a_serial_was_moved_back_each_version_is_found_by_its_serial() {
        let moved = [1_800_000_000, 3_900_000_000, 1_700_000_000];
        for (seq, serial) in (1..).zip(moved) {
            assert_eq!(place(&moved, serial), SerialPlace::At(seq), "{serial}");
        }
        assert_eq!(place(&moved, 3_000_000_000), SerialPlace::Between(1));
        assert_eq!(place(&moved, 1_700_000_001), SerialPlace::After);
        assert_eq!(place(&moved, 4_000_000_000), SerialPlace::Between(2));
        let again = [5, 7, 2_000_000_000, 4_000_000_000, 6, 7, 8];
        assert_eq!(place(&again, 5), SerialPlace::At(1));
        assert_eq!(place(&again, 6), SerialPlace::At(5));
        assert_eq!(place(&again, 7), SerialPlace::At(6), "the newest of two");
        assert_eq!(place(&again, 3_000_000_000), SerialPlace::Between(3));
    }

    #[test]
    fn a_serial_that_no_version_has_is_between_two_or_outside() {
        let plain = [100, 101, 200];
        assert_eq!(place(&plain, 102), SerialPlace::Between(2));
        assert_eq!(place(&plain, 99), SerialPlace::Before);
        assert_eq!(place(&plain, 201), SerialPlace::After);
        let wrapped = [u32::MAX - 1, 2, 5];
        assert_eq!(place(&wrapped, 2), SerialPlace::At(2));
        assert_eq!(place(&wrapped, u32::MAX), SerialPlace::Between(1));
        assert_eq!(place(&wrapped, u32::MAX - 2), SerialPlace::Before);
    }

    proptest! {
        #[test]
        fn the_newest_version_with_a_serial_is_found(
            first: u32,
            steps in prop::collection::vec(
                prop_oneof![1..5_u32, 1..=Serial::MAX_STEP, Just(Serial::MAX_STEP)], 0..40,
            ),
        ) {
            let mut serials = vec![first];
            for step in steps {
                serials.push(serials.last().unwrap().wrapping_add(step));
            }
            for serial in &serials {
                let newest = serials.iter().rposition(|it| it == serial).unwrap();
                let seq = u64::try_from(newest).unwrap() + 1;
                prop_assert_eq!(place(&serials, *serial), SerialPlace::At(seq));
            }
        }
    }
}
