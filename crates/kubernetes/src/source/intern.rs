//! Interns strings that many facts share, such as namespaces, port names and managers.

use std::collections::HashSet;
use std::sync::Arc;

/// The smallest number of strings at which unused ones are removed.
const SWEEP_AT_LEAST: usize = 1024;

/// Returns the same `Arc` for the same text. Unused strings are removed whenever the number of strings has doubled,
/// so that changing names do not fill the memory.
#[derive(Debug)]
pub struct Interner {
    strings: HashSet<Arc<str>>,
    /// The number of strings at which unused ones are removed next.
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

    /// The number of interned strings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.strings.len()
    }

    /// Whether there are no interned strings.
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
