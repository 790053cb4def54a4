//! The exposed namespaces, for handlers that answer from more than a version's records.

use std::collections::BTreeSet;
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
    unknown: Unknown,
}

/// The namespaces that may exist although they are not known.
#[derive(Debug, Default, Clone)]
pub(super) enum Unknown {
    /// None: all are known.
    #[default]
    Nothing,
    /// These.
    Some(Arc<BTreeSet<Arc<str>>>),
    /// All others.
    Rest,
}

impl Unknown {
    /// Whether a namespace may exist although it is not known.
    pub(super) fn contains(&self, namespace: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::Some(names) => names.contains(namespace),
            Self::Rest => true,
        }
    }

    /// After all namespaces but the held ones are known, which stay as they are in a table with this as unknown; without a
    /// table everything is unknown.
    pub(super) fn but(before: Option<&Self>, held: &BTreeSet<Arc<str>>) -> Self {
        let unknown = held
            .iter()
            .filter(|name| before.is_none_or(|it| it.contains(name)));
        let unknown: BTreeSet<Arc<str>> = unknown.cloned().collect();
        match unknown.is_empty() {
            true => Self::Nothing,
            false => Self::Some(Arc::new(unknown)),
        }
    }
}

impl SeenNamespaces {
    /// Whether a namespace is exposed; `None` while that is not known.
    #[must_use]
    pub fn contains(&self, name: &str) -> Option<bool> {
        let known = self.known.load();
        let known = known.as_ref()?;
        let is_seen = known.names.contains(name);
        (is_seen || !known.unknown.contains(name)).then_some(is_seen)
    }

    /// Whether any namespace is exposed; `None` while that is not known.
    #[must_use]
    pub fn has_any(&self) -> Option<bool> {
        let known = self.known.load();
        let known = known.as_ref()?;
        let has_any = !known.names.is_empty();
        (has_any || matches!(known.unknown, Unknown::Nothing)).then_some(has_any)
    }

    /// Whether all exposed namespaces are known, or all but some held ones.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let known = self.known.load();
        known
            .as_ref()
            .is_some_and(|known| !matches!(known.unknown, Unknown::Rest))
    }

    /// Replaces all namespaces.
    pub fn publish_all(&self, names: impl Iterator<Item = Arc<str>>) {
        self.publish_known(names.collect(), Unknown::Nothing);
    }

    /// Publishes some namespaces. Others stay unknown.
    pub fn publish_some(&self, names: impl Iterator<Item = Arc<str>>) {
        self.publish_known(names.collect(), Unknown::Rest);
    }

    /// Replaces all namespaces but the held ones, which stay as they are. If a held one was not known before, it stays unknown,
    /// unless it is among these.
    pub fn publish_but(&self, names: impl Iterator<Item = Arc<str>>, held: &BTreeSet<Arc<str>>) {
        let before = self.known.load();
        let before = before.as_ref();
        let unknown = Unknown::but(before.map(|known| &known.unknown), held);
        let is_new = |name: &Arc<str>| !held.contains(name) || unknown.contains(name);
        let mut names: HashSet<Arc<str>> = names.filter(is_new).collect();
        let old = before.into_iter().flat_map(|known| &known.names);
        names.extend(old.filter(|name| held.contains(*name)).cloned());
        self.publish_known(names, unknown);
    }

    fn publish_known(&self, names: HashSet<Arc<str>>, unknown: Unknown) {
        self.known.store(Some(Arc::new(Known { names, unknown })));
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

    #[test]
    fn held_namespaces_stay_as_they_are() {
        let held: BTreeSet<Arc<str>> = ["a".into(), "b".into()].into();
        let now = |seen: &SeenNamespaces| ["a", "b", "c", "d"].map(|name| seen.contains(name));
        let seen = SeenNamespaces::default();
        seen.publish_all(["a".into(), "c".into()].into_iter());
        seen.publish_but(["b".into(), "d".into()].into_iter(), &held);
        let (yes, no) = (Some(true), Some(false));
        assert_eq!(now(&seen), [yes, no, no, yes]);
        // Nothing was known before.
        let seen = SeenNamespaces::default();
        seen.publish_but(["b".into(), "d".into()].into_iter(), &held);
        assert_eq!(now(&seen), [None, yes, no, yes]);
        seen.publish_but(["c".into()].into_iter(), &held);
        assert_eq!(now(&seen), [None, yes, yes, no]);
        seen.publish_all(["c".into()].into_iter());
        assert_eq!(now(&seen), [no, no, yes, no]);
    }
}
