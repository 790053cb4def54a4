//! The namespaces that are seen, for those who answer from more than a version's records.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use imbl::HashSet;

/// The names of the namespaces that exist and may be seen. The writer publishes them with the versions;
/// readers look without a lock. A change of one namespace costs one namespace.
#[derive(Debug, Default)]
pub struct SeenNamespaces {
    /// The names; `None` until the namespaces were listed for the first time.
    names: ArcSwapOption<HashSet<Arc<str>>>,
}

impl SeenNamespaces {
    /// Whether a namespace is seen; `None` while nothing is known.
    #[must_use]
    pub fn contains(&self, name: &str) -> Option<bool> {
        let names = self.names.load();
        names.as_ref().map(|names| names.contains(name))
    }

    /// Whether any namespace is seen; `None` while nothing is known.
    #[must_use]
    pub fn has_any(&self) -> Option<bool> {
        let names = self.names.load();
        names.as_ref().map(|names| !names.is_empty())
    }

    /// From now on exactly these are seen.
    pub fn publish_all(&self, names: impl Iterator<Item = Arc<str>>) {
        self.names.store(Some(Arc::new(names.collect())));
    }

    /// These have changed: each with whether it is seen now.
    pub fn publish(&self, changed: impl Iterator<Item = (Arc<str>, bool)>) {
        let before = self.names.load_full().unwrap_or_default();
        let mut names = HashSet::clone(&before);
        for (name, is_seen) in changed {
            if is_seen {
                names.insert(name);
            } else {
                names.remove(&name);
            }
        }
        self.names.store(Some(Arc::new(names)));
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
}
