//! Strings that many facts share (namespaces, port names, managers), kept once.

use std::collections::HashSet;
use std::sync::Arc;

/// The least number of strings at which unused ones are looked for.
const SWEEP_AT_LEAST: usize = 1024;

/// Gives the same `Arc` for the same text. Strings nobody else holds any more are dropped whenever
/// their number has doubled, so that a cluster with changing names does not grow it for ever.
#[derive(Debug)]
pub struct Interner {
    strings: HashSet<Arc<str>>,
    /// Number of strings at which the next sweep is made.
    sweep_at: usize,
}

impl Default for Interner {
    fn default() -> Self {
        Self {
            strings: HashSet::new(),
            sweep_at: SWEEP_AT_LEAST,
        }
    }
}

impl Interner {
    /// The shared form of `text`.
    pub fn get(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.strings.get(text) {
            return Arc::clone(known);
        }
        if self.strings.len() >= self.sweep_at {
            self.strings.retain(|string| Arc::strong_count(string) > 1);
            self.sweep_at = (self.strings.len() * 2).max(SWEEP_AT_LEAST);
        }
        let new: Arc<str> = text.into();
        self.strings.insert(Arc::clone(&new));
        new
    }

    /// How many strings are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.strings.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_text_shares_one_allocation() {
        let mut interner = Interner::default();
        let first = interner.get("default");
        assert!(Arc::ptr_eq(&first, &interner.get("default")));
        assert!(!Arc::ptr_eq(&first, &interner.get("other")));
    }

    #[test]
    fn strings_nobody_holds_do_not_pile_up() {
        let mut interner = Interner::default();
        let held = interner.get("held");
        for number in 0..100_000 {
            interner.get(&format!("name-{number}"));
        }
        assert!(
            interner.len() <= SWEEP_AT_LEAST + 1,
            "{} strings",
            interner.len()
        );
        assert!(Arc::ptr_eq(&held, &interner.get("held")));
    }
}
