//! Records of the store of any octets: a sound version or a loss that is said, never another content.
//!
//! The octets are put where the database keeps them, under their keys: below the checks that sled makes
//! of its own files. Half of them get a right check sum, so that what lies behind it is reached.

use ::fuzz::{Fuzz, Outcome};

use super::*;
use crate::journal::codec::{seal, unseal};
use crate::journal::store::Entries as _;
use crate::laws::fixed_history;

/// Entries of a store: keys with their values.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// A store with some versions and a snapshot, what it holds, and the versions.
struct Subject {
    /// The bench; its journal is closed.
    bench: Bench,
    /// All that the database holds.
    entries: Entries,
    truth: Vec<Version>,
}

impl Subject {
    fn new() -> Self {
        let mut bench = Bench::new();
        let mut truth = Vec::new();
        for plan in &fixed_history(6) {
            bench.commit(plan);
            truth.extend(bench.version.clone());
        }
        let next = bulky_at(bench.version.as_ref(), 1, Serial::decode(2000));
        bench.put(next);
        truth.extend(bench.version.clone());
        bench.settle();
        let all = bench
            .journal()
            .store
            .range(&[0], &[255], usize::MAX)
            .unwrap();
        let entries: Entries = all
            .iter()
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .filter(|(key, _)| key != codec::META_KEY)
            .collect();
        assert!(entries.len() > 6, "{}", entries.len());
        Self {
            bench,
            entries,
            truth,
        }
    }

    /// The entries as inputs: the number of the entry, then its payload.
    fn seeds(&self) -> Vec<Vec<u8>> {
        let input = |(number, (key, value)): (usize, &(Vec<u8>, Vec<u8>))| {
            let payload = unseal(key, value).unwrap_or(value);
            let number = u8::try_from(number % 256).unwrap();
            [&[number, 1], payload].concat()
        };
        self.entries.iter().enumerate().map(input).collect()
    }

    /// Puts a value in, reads everything, puts the right one back.
    fn give(&self, input: &[u8]) -> Outcome {
        let [number, sealed, payload @ ..] = input else {
            return Ok("short".to_owned());
        };
        let (key, value) = &self.entries[usize::from(*number) % self.entries.len()];
        let store = &self.bench.journal.as_ref().unwrap().store;
        let changed = match sealed % 2 {
            1 => seal(key, payload.to_vec()),
            _ => payload.to_vec(),
        };
        let put = |value: Vec<u8>| {
            let mut batch = Batch::default();
            batch.put(key, value);
            store.write(batch).unwrap();
        };
        put(changed.clone());
        let outcome = self.read(store, sealed % 2 == 1);
        put(value.clone());
        outcome
    }

    /// Reads what an opening reads.
    fn read(&self, store: &Store, is_sealed: bool) -> Outcome {
        let scan = match scan(store) {
            Ok(scan) => scan,
            Err(error) => return Ok(format!("{error:?}").chars().take(40).collect()),
        };
        let Some(stored) = scan.zones.get(&apex()) else {
            return Ok("no zone".to_owned());
        };
        match load::restore(store, stored, UNLIMITED) {
            Ok(sound) => {
                let version = sound.version;
                let is_true = self.truth.iter().any(|known| {
                    known.seq == version.seq
                        && known.serial == version.serial
                        && known.contents.same_as(&version.contents)
                });
                // Behind a right check sum only the hashes are left, which `verify` follows.
                let is_found = || {
                    let journal = self.bench.journal.as_ref().unwrap();
                    let verdict = journal.reader().verify(&apex(), &[]);
                    verdict.is_err() || verdict.is_ok_and(|verdict| !verdict.faults.is_empty())
                };
                match is_true || (is_sealed && is_found()) {
                    true => Ok(format!(
                        "version {:?} {:?}",
                        version.seq.min(9),
                        sound.fault
                    )),
                    false => Err(format!("version {} is another", version.serial)),
                }
            }
            Err(StreamError::Damaged(what)) => Ok(format!("damaged {what}")),
            Err(StreamError::Store(error)) => Ok(format!("{error:?}").chars().take(40).collect()),
        }
    }
}

#[test]
fn records_of_the_store_of_any_octets_are_sound_or_refused() {
    let subject = Subject::new();
    Fuzz::new(subject.seeds(), &[]).run("store record", |input| subject.give(input));
}

/// The search itself: a fault that a record with a right check sum alone reaches.
#[test]
fn a_fault_planted_behind_a_record_of_the_store_is_found() {
    let subject = Subject::new();
    let planted = |input: &[u8]| {
        let outcome = subject.give(input)?;
        let is_deep =
            outcome.starts_with("damaged") && input.get(1).is_some_and(|sealed| sealed % 2 == 1);
        assert!(!is_deep, "planted");
        Ok(outcome)
    };
    Fuzz::new(subject.seeds(), &[]).finds("store record", planted);
}
