//! What is known of each place that gets signed notes: for status and metrics.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use history::NoteLine;
use ops::metrics as m;
use ops::metrics::Sample;
use zone::Hash;

/// The places by their names, as in the Corefile.
#[derive(Debug, Default)]
pub(crate) struct NoteBoard {
    /// Locked for one change or one reading.
    places: Mutex<BTreeMap<String, Known>>,
}

/// What is known of a place that gets notes, or got some before a reload.
#[derive(Debug, Default)]
struct Known {
    /// The key; `None` when the place gets no notes any more.
    key: Option<Hash>,
    written: u64,
    failed: u64,
    /// The time of the last note that arrived, milliseconds since 1970 UTC.
    written_ms: Option<u64>,
    /// Since when notes do not arrive, and why not.
    failing: Option<(u64, String)>,
}

impl NoteBoard {
    fn places(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets which places get notes. Counts stay.
    pub(crate) fn set_current<'a>(&self, current: impl Iterator<Item = (&'a str, Hash)>) {
        let mut places = self.places();
        places.values_mut().for_each(|place| place.key = None);
        for (name, key) in current {
            places.entry(name.to_owned()).or_default().key = Some(key);
        }
    }

    /// Takes note of a note. The log says it when the state of the place changes.
    pub(crate) fn note(&self, name: &str, key: Hash, now_ms: u64, done: Result<(), String>) {
        let mut places = self.places();
        let place = places.entry(name.to_owned()).or_default();
        place.key = Some(key);
        match done {
            Ok(()) => {
                place.written += 1;
                place.written_ms = Some(now_ms);
                if place.failing.take().is_some() {
                    tracing::info!(to = name, "notes arrive again");
                }
            }
            Err(error) => {
                place.failed += 1;
                let since = match &place.failing {
                    Some((since, _)) => *since,
                    None => {
                        tracing::error!(
                            to = name,
                            error,
                            "a note of the newest hashes cannot be written; it is tried again"
                        );
                        now_ms
                    }
                };
                place.failing = Some((since, error));
            }
        }
    }

    /// The places, for status.
    pub(crate) fn lines(&self) -> Vec<NoteLine> {
        let line_of = |(name, place): (&String, &Known)| {
            let key = place.key?;
            let failing = place.failing.as_ref();
            Some(NoteLine {
                to: name.clone(),
                key: key.to_string(),
                written_ms: place.written_ms,
                failing_since_ms: failing.map(|(since, _)| *since),
                error: failing.map(|(_, error)| error.clone()),
            })
        };
        self.places().iter().filter_map(line_of).collect()
    }

    /// The values that are read at scrape.
    pub(crate) fn samples(&self, out: &mut Vec<Sample>) {
        for (name, place) in self.places().iter() {
            for (outcome, count) in [("written", place.written), ("failed", place.failed)] {
                let labels = [name.as_str(), outcome];
                out.push(Sample::new(m::NOTES, &labels, number(count)));
            }
            if let (Some(_), Some(written)) = (place.key, place.written_ms) {
                let seconds = number(written / 1000);
                out.push(Sample::new(m::NOTE_SECONDS, &[name], seconds));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53")]
const fn number(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is known of the only place.
    fn line(board: &NoteBoard) -> (Option<u64>, Option<u64>, Option<String>) {
        let lines = board.lines();
        assert_eq!(lines.len(), 1);
        let NoteLine {
            written_ms,
            failing_since_ms,
            error,
            ..
        } = lines[0].clone();
        (written_ms, failing_since_ms, error)
    }

    #[test]
    fn a_place_fails_from_its_first_error_until_a_note_arrives() {
        let board = NoteBoard::default();
        let key = Hash::from_octets([1; 32]);
        board.set_current([("log", key)].into_iter());
        assert_eq!(line(&board), (None, None, None));
        board.note("log", key, 10, Ok(()));
        assert_eq!(line(&board), (Some(10), None, None));
        board.note("log", key, 20, Err("one".to_owned()));
        board.note("log", key, 30, Err("two".to_owned()));
        let failing = (Some(10), Some(20), Some("two".to_owned()));
        assert_eq!(line(&board), failing);
        board.note("log", key, 40, Ok(()));
        assert_eq!(line(&board), (Some(40), None, None));
    }

    #[test]
    fn a_place_that_is_not_configured_any_more_keeps_its_counts_alone() {
        let board = NoteBoard::default();
        let key = Hash::from_octets([1; 32]);
        board.note("file n", key, 10, Err("no".to_owned()));
        board.note("file n", key, 1_000, Ok(()));
        let mut samples = Vec::new();
        board.samples(&mut samples);
        assert_eq!(samples.len(), 3);
        board.set_current(std::iter::empty());
        assert!(board.lines().is_empty());
        let mut samples = Vec::new();
        board.samples(&mut samples);
        assert_eq!(samples.len(), 2);
    }
}
