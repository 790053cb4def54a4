//! What is wrong with the outside, as data.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cluster::{FactKey, Kind};
use crate::source::SourceStats;

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

/// The problems that last, for people who ask how things stand.
#[derive(Debug, Default)]
pub struct Standing {
    /// Their texts, and how often each was said. The lock protects the map for one change of it.
    texts: Mutex<BTreeMap<String, usize>>,
}

impl Standing {
    /// A problem is there.
    pub(super) fn add(&self, problem: &Problem) {
        *self.lock().entry(problem.to_string()).or_default() += 1;
    }

    /// It is mended.
    pub(super) fn remove(&self, problem: &Problem) {
        let mut texts = self.lock();
        let text = problem.to_string();
        if let Some(count) = texts.get_mut(&text) {
            *count -= 1;
            if *count == 0 {
                texts.remove(&text);
            }
        }
    }

    /// The texts in order, at most so many.
    #[must_use]
    pub fn texts(&self, most: usize) -> Vec<String> {
        self.lock().keys().take(most).cloned().collect()
    }

    /// The map, whatever became of a thread that held it.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Remembers which problems were said, so that each is said once while it lasts.
#[derive(Debug)]
pub(super) struct Said<K> {
    /// The problems said and not mended, by what they belong to.
    said: HashMap<K, Vec<Problem>>,
    /// Where they are shown.
    stats: Arc<SourceStats>,
}

impl<K: Hash + Eq> Said<K> {
    /// Nothing was said yet.
    pub(super) fn new(stats: Arc<SourceStats>) -> Self {
        Self {
            said: HashMap::new(),
            stats,
        }
    }

    /// `key` now has exactly these problems: gives those that were not said before.
    pub(super) fn now(&mut self, key: K, problems: Vec<Problem>) -> Vec<Problem> {
        let before = self.said.remove(&key).unwrap_or_default();
        let standing = self.stats.standing();
        problems.iter().for_each(|problem| standing.add(problem));
        before.iter().for_each(|problem| standing.remove(problem));
        let is_new = |problem: &&Problem| !before.contains(*problem);
        let new = problems.iter().filter(is_new).cloned().collect();
        if !problems.is_empty() {
            self.said.insert(key, problems);
        }
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

    /// These are mended.
    pub(super) fn forget(&mut self, mended: impl Fn(&K) -> bool) {
        let standing = self.stats.standing();
        self.said.retain(|key, problems| {
            let stays = !mended(key);
            if !stays {
                problems.iter().for_each(|problem| standing.remove(problem));
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
        let stats = Arc::new(SourceStats::default());
        let mut said = Said::new(Arc::clone(&stats));
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
        assert_eq!(
            said.now("a", vec![problem("x"), problem("y")]),
            [problem("y")]
        );
        assert_eq!(said.now("a", vec![problem("x")]), []);
        assert_eq!(stats.standing().texts(9), ["x"]);
        assert_eq!(said.now("a", vec![]), []);
        assert!(said.said.is_empty());
        assert_eq!(stats.standing().texts(9), [""; 0]);
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
    }

    #[test]
    fn a_complete_list_forgets_problems_that_are_gone() {
        let stats = Arc::new(SourceStats::default());
        let mut said = Said::new(Arc::clone(&stats));
        said.now("a", vec![problem("x")]);
        assert_eq!(
            said.all(HashMap::from([("b", vec![problem("y")])])),
            [problem("y")]
        );
        assert_eq!(stats.standing().texts(9), ["y"]);
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
        assert_eq!(stats.standing().texts(9), ["x", "y"]);
        assert_eq!(stats.standing().texts(1), ["x"]);
        said.forget(|key| *key == "a");
        assert_eq!(stats.standing().texts(9), ["y"]);
    }
}
