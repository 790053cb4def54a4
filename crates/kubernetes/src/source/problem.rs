//! The problems of a source, as data.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provenance::{FactKey, Kind};

/// The subject of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// The source as a whole.
    Source,
    /// All objects of a kind: for example a permission or an API is missing.
    Kind(Kind),
    /// An object whose name could not be read.
    SomeObject(Kind),
    /// One object.
    Object(FactKey),
    /// A file of a manifest folder.
    File,
}

/// A part that was left out, with the reason. The source continues.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The subject.
    pub about: About,
    /// `FILE:LINE` or `FILE` of a manifest; empty for an API server.
    pub place: Arc<str>,
    /// The problem and, if it is not obvious, its solution.
    pub message: String,
}

impl Problem {
    /// A problem of the whole source.
    pub(super) fn of_source(message: String) -> Self {
        Self {
            about: About::Source,
            place: "".into(),
            message,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        match &self.about {
            About::Source | About::Kind(_) | About::File => {}
            About::SomeObject(kind) => write!(f, "a {kind}: ")?,
            About::Object(object) => write!(f, "{} {}: ", object.kind, object.key)?,
        }
        f.write_str(&self.message)
    }
}

/// The current problems of a source, for `status`.
#[derive(Debug, Default, Clone)]
pub(super) struct Board(Arc<Mutex<BTreeMap<String, usize>>>);

impl Board {
    /// The messages, each with its number of problems. The lock is held for one change or one reading.
    fn texts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds current problems.
    pub(super) fn add(&self, problems: &[Problem]) {
        let mut texts = self.texts();
        for problem in problems {
            *texts.entry(problem.to_string()).or_default() += 1;
        }
    }

    fn remove(&self, problems: &[Problem]) {
        let mut texts = self.texts();
        for problem in problems {
            let text = problem.to_string();
            if let Some(count) = texts.get_mut(&text) {
                *count -= 1;
                if *count == 0 {
                    texts.remove(&text);
                }
            }
        }
    }

    /// The number of current problems.
    pub(super) fn count(&self) -> usize {
        self.texts().values().sum()
    }

    /// The first current problems, in order of their text.
    pub(super) fn first(&self, limit: usize) -> Vec<String> {
        self.texts().keys().take(limit).cloned().collect()
    }
}

/// Remembers the problems that were reported, so that each is reported once while it lasts.
#[derive(Debug)]
pub(super) struct Reported<K> {
    /// The current problems, by their subject.
    current: HashMap<K, Vec<Problem>>,
    board: Board,
}

impl<K: Hash + Eq> Reported<K> {
    /// Starts without problems. Later ones are added to the board.
    pub(super) fn on(board: Board) -> Self {
        Self {
            current: HashMap::new(),
            board,
        }
    }

    /// Replaces the problems of `key`. Returns the new ones.
    pub(super) fn now(&mut self, key: K, problems: Vec<Problem>) -> Vec<Problem> {
        let before = self.current.remove(&key).unwrap_or_default();
        self.board.remove(&before);
        if problems.is_empty() {
            return Vec::new();
        }
        self.board.add(&problems);
        let is_new = |problem: &&Problem| !before.contains(*problem);
        let new = problems.iter().filter(is_new).cloned().collect();
        self.current.insert(key, problems);
        new
    }

    /// Replaces all problems. Returns the new ones.
    pub(super) fn all(&mut self, problems: HashMap<K, Vec<Problem>>) -> Vec<Problem> {
        self.forget(|key| !problems.contains_key(key));
        problems
            .into_iter()
            .flat_map(|(key, list)| self.now(key, list))
            .collect()
    }

    pub(super) fn forget(&mut self, mended: impl Fn(&K) -> bool) {
        let board = &self.board;
        self.current.retain(|key, problems| {
            let stays = !mended(key);
            if !stays {
                board.remove(problems);
            }
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A problem with this message.
    fn problem(message: &str) -> Problem {
        Problem {
            about: About::Source,
            place: "".into(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn a_problem_is_reported_once_until_it_is_solved() {
        let board = Board::default();
        let mut reported = Reported::on(board.clone());
        assert_eq!(reported.now("a", vec![problem("x")]), [problem("x")]);
        assert_eq!(
            reported.now("a", vec![problem("x"), problem("y")]),
            [problem("y")]
        );
        assert_eq!(reported.now("a", vec![problem("x")]), []);
        assert_eq!(reported.now("a", vec![]), []);
        assert!(reported.current.is_empty());
        assert!(board.first(9).is_empty());
        assert_eq!(reported.now("a", vec![problem("x")]), [problem("x")]);
    }

    #[test]
    fn a_complete_list_forgets_problems_that_are_gone() {
        let board = Board::default();
        let mut reported = Reported::on(board.clone());
        reported.now("a", vec![problem("x")]);
        assert_eq!(
            reported.all(HashMap::from([("b", vec![problem("y")])])),
            [problem("y")]
        );
        assert_eq!(board.first(9), ["y"]);
        assert_eq!(reported.now("a", vec![problem("x")]), [problem("x")]);
    }
}
