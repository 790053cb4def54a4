//! What is wrong with the outside, as data.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use provenance::{FactKey, Kind};

/// What a problem is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum About {
    /// The source as a whole.
    Source,
    /// All objects of a kind: a permission, an API that is not there.
    Kind(Kind),
    /// An object whose name could not be read.
    SomeObject(Kind),
    /// One object.
    Object(FactKey),
    /// A file of a manifest folder.
    File,
}

/// Something that was left out, and why. Nothing stops for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Problem {
    /// What it is about.
    pub about: About,
    /// `FILE:LINE` or `FILE` of a manifest; empty for an API server.
    pub place: Arc<str>,
    /// What is wrong and, where it is not plain, what to do.
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

/// The problems of a source that are not mended, for people who ask how it stands.
#[derive(Debug, Default, Clone)]
pub(super) struct Board(Arc<Mutex<BTreeMap<String, usize>>>);

impl Board {
    /// The texts and how often each stands. The lock protects them for one change or one reading.
    fn texts(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// These stand from now on.
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

    /// The first of what stands, in order.
    pub(super) fn first(&self, limit: usize) -> Vec<String> {
        self.texts().keys().take(limit).cloned().collect()
    }
}

/// Remembers which problems were said, so that each is said once while it lasts.
#[derive(Debug)]
pub(super) struct Said<K> {
    /// The problems said and not mended, by what they belong to.
    standing: HashMap<K, Vec<Problem>>,
    board: Board,
}

impl<K: Hash + Eq> Said<K> {
    /// Nothing was said yet; what will be is shown on the board.
    pub(super) fn on(board: Board) -> Self {
        Self {
            standing: HashMap::new(),
            board,
        }
    }

    /// `key` now has exactly these problems: gives those that were not said before.
    pub(super) fn now(&mut self, key: K, problems: Vec<Problem>) -> Vec<Problem> {
        let before = self.standing.remove(&key).unwrap_or_default();
        self.board.remove(&before);
        if problems.is_empty() {
            return Vec::new();
        }
        self.board.add(&problems);
        let is_new = |problem: &&Problem| !before.contains(*problem);
        let new = problems.iter().filter(is_new).cloned().collect();
        self.standing.insert(key, problems);
        new
    }

    /// These are all the problems there are: gives those that were not said before.
    pub(super) fn all(&mut self, problems: HashMap<K, Vec<Problem>>) -> Vec<Problem> {
        self.forget(|key| !problems.contains_key(key));
        problems
            .into_iter()
            .flat_map(|(key, list)| self.now(key, list))
            .collect()
    }

    pub(super) fn forget(&mut self, mended: impl Fn(&K) -> bool) {
        let board = &self.board;
        self.standing.retain(|key, problems| {
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
    fn a_problem_is_said_once_until_it_is_mended() {
        let board = Board::default();
        let mut said = Said::on(board.clone());
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
        assert_eq!(
            said.now("a", vec![problem("x"), problem("y")]),
            [problem("y")]
        );
        assert_eq!(said.now("a", vec![problem("x")]), []);
        assert_eq!(said.now("a", vec![]), []);
        assert!(said.standing.is_empty());
        assert!(board.first(9).is_empty());
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
    }

    #[test]
    fn a_complete_list_forgets_problems_that_are_gone() {
        let board = Board::default();
        let mut said = Said::on(board.clone());
        said.now("a", vec![problem("x")]);
        assert_eq!(
            said.all(HashMap::from([("b", vec![problem("y")])])),
            [problem("y")]
        );
        assert_eq!(board.first(9), ["y"]);
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
    }
}
