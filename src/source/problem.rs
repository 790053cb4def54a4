//! What is wrong with the outside, as data.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use crate::cluster::{FactKey, Kind};

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

/// Remembers which problems were said, so that each is said once while it lasts.
#[derive(Debug)]
pub(super) struct Said<K> {
    /// The problems said and not mended, by what they belong to.
    standing: HashMap<K, Vec<Problem>>,
}

impl<K> Default for Said<K> {
    fn default() -> Self {
        Self {
            standing: HashMap::new(),
        }
    }
}

impl<K: Hash + Eq> Said<K> {
    /// `key` now has exactly these problems: gives those that were not said before.
    pub(super) fn now(&mut self, key: K, problems: Vec<Problem>) -> Vec<Problem> {
        if problems.is_empty() {
            self.standing.remove(&key);
            return Vec::new();
        }
        let before = self.standing.get(&key);
        let is_new = |problem: &&Problem| !before.is_some_and(|said| said.contains(*problem));
        let new = problems.iter().filter(is_new).cloned().collect();
        self.standing.insert(key, problems);
        new
    }

    /// These are all the problems there are: gives those that were not said before.
    pub(super) fn all(&mut self, problems: HashMap<K, Vec<Problem>>) -> Vec<Problem> {
        self.standing.retain(|key, _| problems.contains_key(key));
        problems
            .into_iter()
            .flat_map(|(key, list)| self.now(key, list))
            .collect()
    }

    /// These are mended.
    pub(super) fn forget(&mut self, mended: impl Fn(&K) -> bool) {
        self.standing.retain(|key, _| !mended(key));
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
        let mut said = Said::default();
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
        assert_eq!(
            said.now("a", vec![problem("x"), problem("y")]),
            [problem("y")]
        );
        assert_eq!(said.now("a", vec![problem("x")]), []);
        assert_eq!(said.now("a", vec![]), []);
        assert!(said.standing.is_empty());
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
    }

    #[test]
    fn a_complete_list_forgets_problems_that_are_gone() {
        let mut said = Said::default();
        said.now("a", vec![problem("x")]);
        assert_eq!(
            said.all(HashMap::from([("b", vec![problem("y")])])),
            [problem("y")]
        );
        assert_eq!(said.now("a", vec![problem("x")]), [problem("x")]);
    }
}
