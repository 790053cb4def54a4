//! Times that may have been there twice, because the clock was set back.
//!
//! A version has the time of the one before if the clock shows an earlier one. So adjacent versions with one time tell
//! that the clock was set back, and so does a newest version that is ahead of the clock. They do not tell how far: the store
//! would have to note the clock beside the time. So what is said here is that a time may have been there twice, near such
//! versions alone.

use dns::{Name, Serial};
use serde_json::{Value, json};
use zone::journal::{Archived, last_of_known};

use crate::error::AuditError;
use crate::moment::TimeText;
use crate::past::{Past, segment_ends};

/// So many versions after the one that is answered are looked at: what was published while the clock was ahead.
const LOOKED_AHEAD: u64 = 64;
/// The time after such versions in which the clock may still have been ahead, milliseconds. It has no bound, but more than a
/// day is unlikely, and all later times would be in doubt.
const AHEAD_MS: u64 = 24 * 3600 * 1000;

/// A time that may have been there twice, and the versions that may have been current then, besides the answered one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SetBack {
    zone: Name,
    /// The time in the question, milliseconds since 1970 UTC.
    asked_ms: u64,
    /// The time that the versions have.
    time_ms: u64,
    /// The serials of the first and the last of the versions.
    first: Serial,
    last: Serial,
    /// Whether these are no more than two versions, which may also have been published within a millisecond.
    is_pair: bool,
}

impl SetBack {
    /// What is known of a time that is answered with a version; `None` where nothing says that the clock was set back.
    pub(super) fn find(
        past: &dyn Past,
        zone: &Name,
        seq: u64,
        asked_ms: u64,
    ) -> Result<Option<Self>, AuditError> {
        let Some(versions) = Versions::of(past, zone) else {
            return Ok(None);
        };
        let answered = versions.place_of(seq);
        let entry = versions.get(answered)?;
        let is_near = asked_ms.saturating_sub(entry.time_ms) <= AHEAD_MS;
        if is_near {
            let before = (answered > 1).then(|| versions.get(answered - 1));
            if entry.has_time_of_another(before.transpose()?.as_ref()) {
                return versions.with_time(entry.time_ms, asked_ms).map(Some);
            }
        }
        versions.set_back_after((answered, entry), asked_ms)
    }

    /// What is known of a time before the oldest version; `None` where nothing says that the clock was set back.
    pub(super) fn before_all(
        past: &dyn Past,
        zone: &Name,
        asked_ms: u64,
    ) -> Result<Option<Self>, AuditError> {
        let Some(versions) = Versions::of(past, zone) else {
            return Ok(None);
        };
        let first = versions.get(1)?;
        let is_near = first.first_ms.saturating_sub(asked_ms) <= AHEAD_MS;
        let is_only = versions.newest() == 1 && past.now_ms() < first.time_ms;
        match is_near && (is_only || first.has_time_of_another(None)) {
            true => versions.with_time(first.time_ms, asked_ms).map(Some),
            false if is_near => versions.set_back_after((1, first), asked_ms),
            false => Ok(None),
        }
    }

    /// For people, without the comment's sign.
    pub(super) fn text(&self) -> String {
        let Self {
            zone,
            asked_ms,
            time_ms,
            first,
            last,
            is_pair,
        } = self;
        let (asked, time) = (TimeText(*asked_ms), TimeText(*time_ms));
        if first == last {
            return format!(
                "{asked} may have been there twice: serial {last} has the time {time}, and the clock was set back meanwhile; how far is not known. If it was, that version was current, too: ask for {zone}@{last}"
            );
        }
        let or = match is_pair {
            true => ", or both came within a millisecond",
            false => "",
        };
        format!(
            "{asked} may have been there twice: serials {first} to {last} have one time, {time}, as the clock was set back{or}; how far is not known. If it was, one of them was current, too: `log` lists them, {zone}@SERIAL asks for one"
        )
    }

    /// For programs: the time that the versions have, and the first and the last of them.
    pub(super) fn json(&self) -> Value {
        json!({
            "time": TimeText(self.time_ms).to_string(),
            "timeMs": self.time_ms,
            "first": self.first.encode(),
            "last": self.last.encode(),
        })
    }
}

/// A version, or several that are condensed.
struct Entry {
    /// Of the last version.
    serial: Serial,
    /// The time of the first version.
    first_ms: u64,
    /// The time of the last version.
    time_ms: u64,
    /// The number of versions.
    count: u64,
}

impl Entry {
    /// Whether a version of it has the time of one before it.
    fn has_time_of_another(&self, before: Option<&Self>) -> bool {
        self.count > 1 && self.first_ms == self.time_ms
            || before.is_some_and(|before| before.time_ms == self.first_ms)
    }
}

/// All versions of a zone by their places, from 1 on: those of the old part of the history, then the others.
struct Versions<'a> {
    past: &'a dyn Past,
    zone: &'a Name,
    archived: Vec<Archived>,
    /// The oldest and the newest version that is not in the old part.
    kept: (u64, u64),
}

impl<'a> Versions<'a> {
    fn of(past: &'a dyn Past, zone: &'a Name) -> Option<Self> {
        Some(Self {
            past,
            zone,
            archived: past.archived(zone),
            kept: past.range(zone)?,
        })
    }

    fn old(&self) -> u64 {
        self.archived.len() as u64
    }

    fn newest(&self) -> u64 {
        self.old() + self.kept.1 + 1 - self.kept.0
    }

    /// The place of a version; that of a condensed one is the place of those that it is with.
    fn place_of(&self, seq: u64) -> u64 {
        match seq.checked_sub(self.kept.0) {
            Some(after) => self.old() + 1 + after,
            None => 1 + self.archived.partition_point(|entry| entry.seq < seq) as u64,
        }
    }

    fn get(&self, place: u64) -> Result<Entry, AuditError> {
        let index = usize::try_from(place - 1).unwrap_or(usize::MAX);
        if let Some(entry) = self.archived.get(index) {
            return Ok(Entry {
                serial: entry.serial,
                first_ms: entry.first_ms,
                time_ms: entry.time_ms,
                count: entry.versions(),
            });
        }
        let seq = self.kept.0 + place - 1 - self.old();
        let (serial, time_ms) = self.past.moment(self.zone, seq)?;
        Ok(Entry {
            serial,
            first_ms: time_ms,
            time_ms,
            count: 1,
        })
    }

    /// The first versions after this one that tell that the clock was set back.
    fn set_back_after(
        &self,
        (answered, mut entry): (u64, Entry),
        asked_ms: u64,
    ) -> Result<Option<SetBack>, AuditError> {
        let newest = self.newest();
        for place in answered + 1..=newest.min(answered + LOOKED_AHEAD) {
            let next = match self.get(place) {
                // The answer needs nothing of the segment that has these.
                Err(AuditError::Archive(_) | AuditError::ArchiveAway(_)) => return Ok(None),
                next => next?,
            };
            let before = std::mem::replace(&mut entry, next);
            let is_ahead = place == newest && self.past.now_ms() < entry.time_ms;
            if is_ahead || entry.has_time_of_another(Some(&before)) {
                return self.with_time(entry.time_ms, asked_ms).map(Some);
            }
        }
        Ok(None)
    }

    /// The versions with a time.
    fn with_time(&self, time_ms: u64, asked_ms: u64) -> Result<SetBack, AuditError> {
        let newest = self.newest();
        let (oldest, old) = (self.kept.0, self.old());
        let known: Vec<u64> = { segment_ends(self.past, self.zone).into_iter() }
            .filter_map(|seq| Some(seq.checked_sub(oldest)? + 1 + old))
            .collect();
        let before = last_of_known((1, newest), &known, |place| {
            Ok::<_, AuditError>(self.get(place)?.time_ms < time_ms)
        })?;
        let last = last_of_known((1, newest), &known, |place| {
            Ok::<_, AuditError>(self.get(place)?.first_ms <= time_ms)
        })?;
        let first = self.get(before + 1)?;
        // The serials of condensed versions are not known, except for the last: the first comes after the one before.
        let is_first_known = first.count == 1 || before == 0;
        let from = if is_first_known { before + 1 } else { before };
        Ok(SetBack {
            zone: self.zone.clone(),
            asked_ms,
            time_ms,
            first: self.get(from)?.serial,
            last: self.get(last)?.serial,
            is_pair: last == before + 2 && first.count == 1 && self.get(last)?.count == 1,
        })
    }
}
