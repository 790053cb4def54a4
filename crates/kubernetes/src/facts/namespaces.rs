//! The exposed namespaces, for handlers that answer from more than a version's records.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashSet;

/// The names of the exposed namespaces. The writer publishes them with the versions; readers take no lock. A change
/// of one namespace costs one namespace.
#[derive(Debug, Default)]
pub struct SeenNamespaces {
    /// `None` until the namespaces were listed for the first time.
    known: ArcSwapOption<Known>,
}

#[derive(Debug, Default, Clone)]
struct Known {
    names: HashSet<Arc<str>>,
    /// Whether other namespaces than these are unknown.
    is_partial: bool,
}

impl SeenNamespaces {
    /// Whether a namespace is exposed; `None` while that is not known.
    #[must_use]
    pub fn contains(&self, name: &str) -> Option<bool> {
        let known = self.known.load();
        known.as_ref()?.says(|names| names.contains(name))
    }

    /// Whether any namespace is exposed; `None` while that is not known.
    #[must_use]
    pub fn has_any(&self) -> Option<bool> {
        let known = self.known.load();
        known.as_ref()?.says(|names| !names.is_empty())
    }

    /// Whether all exposed namespaces are known.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let known = self.known.load();
        known.as_ref().is_some_and(|known| !known.is_partial)
    }

    /// Replaces all namespaces.
    pub fn publish_all(&self, names: impl Iterator<Item = Arc<str>>) {
        self.publish_known(names, false);
    }

    /// Publishes some namespaces. Others stay unknown.
    pub fn publish_some(&self, names: impl Iterator<Item = Arc<str>>) {
        self.publish_known(names, true);
    }

    fn publish_known(&self, names: impl Iterator<Item = Arc<str>>, is_partial: bool) {
        let names = names.collect();
        self.known
            .store(Some(Arc::new(Known { names, is_partial })));
    }

    /// Updates namespaces, each with whether it is exposed now.
    pub fn publish(&self, changed: impl Iterator<Item = (Arc<str>, bool)>) {
        let mut known = self.known.load().as_deref().cloned().unwrap_or_default();
        for (name, is_seen) in changed {
            if is_seen {
                known.names.insert(name);
            } else {
                known.names.remove(&name);
            }
        }
        self.known.store(Some(Arc::new(known)));
    }
}

impl Known {
    /// Evaluates a condition on the known namespaces. "No" is certain only when all of them are known.
    fn says(&self, is_so: impl FnOnce(&HashSet<Arc<str>>) -> bool) -> Option<bool> {
        let is_so = is_so(&self.names);
        (is_so || !self.is_partial).then_some(is_so)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_before_anything_is_known() {
        let seen = SeenNamespaces::default();
        assert_eq!((seen.contains("a"), seen.has_any()), (None, None));
        seen.publish_all(std::iter::empty());
        assert_eq!(
            (seen.contains("a"), seen.has_any()),
            (Some(false), Some(false))
        );
    }

    #[test]
    fn changes_add_up() {
        let seen = SeenNamespaces::default();
        seen.publish_all(["a".into(), "b".into()].into_iter());
        seen.publish([("a".into(), false), ("c".into(), true)].into_iter());
        let now = ["a", "b", "c"].map(|name| seen.contains(name).unwrap());
        assert_eq!(now, [false, true, true]);
    }

    #[test]
    fn of_what_is_not_among_some_nothing_is_said() {
        let seen = SeenNamespaces::default();
        seen.publish_some(std::iter::empty());
        assert_eq!(seen.has_any(), None);
        seen.publish_some(["a".into()].into_iter());
        let said = (seen.contains("a"), seen.contains("b"), seen.has_any());
        assert_eq!(said, (Some(true), None, Some(true)));
        seen.publish_all(["a".into()].into_iter());
        assert_eq!(seen.contains("b"), Some(false));
    }
}
