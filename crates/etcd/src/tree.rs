//! The keys of one zone, ordered as in etcd, and the names that a change touches.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use dns::Name;
use provenance::{Cause, Origin, Verb};

use crate::key::Layout;
use crate::service::Service;

/// The most keys below a name whose records it has, too. CoreDNS has no limit; a message has.
pub(crate) const MOST_BELOW: usize = 500;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision of the last change.
    pub revision: i64,
    /// The time to live that its lease was granted, in seconds; `None` without a lease.
    pub lease_seconds: Option<u32>,
}

/// A change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It was put.
    Put(KeyValue),
    /// It was deleted, or its lease expired.
    Deleted {
        /// The key.
        key: String,
        /// The revision of the deletion.
        revision: i64,
    },
}

/// A key of the tree.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The name, and the service; or why it has no records.
    pub(crate) service: Result<(Name, Service), String>,
    pub(crate) lease_seconds: Option<u32>,
    revision: i64,
}

/// The names that changes touched, each with the places of its causes.
#[derive(Debug, Default)]
pub struct Dirty {
    /// The names.
    pub names: BTreeMap<Name, BTreeSet<u32>>,
    /// The causes.
    pub causes: Vec<Cause>,
}

/// The keys of one zone.
#[derive(Debug)]
pub struct Tree {
    pub(crate) layout: Layout,
    pub(crate) entries: BTreeMap<Arc<str>, Entry>,
    /// The keys that have no records.
    bad: BTreeSet<Arc<str>>,
}

impl Tree {
    /// A tree without keys.
    #[must_use]
    pub const fn new(layout: Layout) -> Self {
        Self {
            layout,
            entries: BTreeMap::new(),
            bad: BTreeSet::new(),
        }
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Applies a change. One that is older than the key here changes nothing.
    pub fn apply(&mut self, change: Change, dirty: &mut Dirty) {
        match change {
            Change::Put(kv) => self.put(kv, Verb::Applied, dirty),
            Change::Deleted { key, revision } => self.remove(&key, Verb::Deleted, revision, dirty),
        }
    }

    /// Takes a complete list.
    pub fn replace(&mut self, list: Vec<KeyValue>, dirty: &mut Dirty) {
        let listed: BTreeSet<&str> = list.iter().map(|kv| kv.key.as_str()).collect();
        let gone = self.entries.iter();
        let gone = gone.filter(|(key, _)| !listed.contains(&***key));
        let gone: Vec<_> = gone
            .map(|(key, entry)| (Arc::clone(key), entry.revision))
            .collect();
        for (key, revision) in gone {
            self.remove(&key, Verb::Vanished, revision, dirty);
        }
        for kv in list {
            // A restored store may count from an earlier revision: the value decides.
            if let Some(known) = self.entries.get_mut(kv.key.as_str()) {
                known.revision = known.revision.min(kv.revision - 1);
            }
            self.put(kv, Verb::Listed, dirty);
        }
    }

    fn put(&mut self, kv: KeyValue, verb: Verb, dirty: &mut Dirty) {
        let known = self.entries.get_key_value(kv.key.as_str());
        if known.is_some_and(|(_, known)| known.revision >= kv.revision) {
            return;
        }
        let name = self.layout.name(&kv.key);
        let service = name.and_then(|name| Ok((name, Service::parse(&kv.value)?)));
        let entry = Entry {
            service,
            lease_seconds: kv.lease_seconds,
            revision: kv.revision,
        };
        let is_same = known.is_some_and(|(_, known)| {
            known.service == entry.service && known.lease_seconds == entry.lease_seconds
        });
        let key = known.map_or_else(|| kv.key.into(), |(key, _)| Arc::clone(key));
        if !is_same {
            self.mark(&key, verb, entry.revision, dirty);
        }
        match &entry.service {
            Ok(_) => drop(self.bad.remove(&key)),
            Err(_) => drop(self.bad.insert(Arc::clone(&key))),
        }
        self.entries.insert(key, entry);
    }

    fn remove(&mut self, key: &str, verb: Verb, revision: i64, dirty: &mut Dirty) {
        let known = self.entries.get(key);
        if known.is_some_and(|known| known.revision <= revision) {
            self.entries.remove(key);
            self.bad.remove(key);
            self.mark(key, verb, revision, dirty);
        }
    }

    /// Notes the names that a key has part in: its own, and all above it.
    fn mark(&self, key: &str, verb: Verb, revision: i64, dirty: &mut Dirty) {
        let name = self.layout.name(key);
        let place = u32::try_from(dirty.causes.len()).expect("fewer than 2^32 causes in one batch");
        let origin = Origin {
            resource_version: revision.to_string().into(),
            ..Origin::default()
        };
        dirty.causes.push(Cause {
            origin,
            ..Cause::of(verb, key)
        });
        for name in name.into_iter().flat_map(|name| self.at_and_above(name)) {
            let causes = dirty.names.entry(name).or_default();
            // A name with more keys below it has no records of theirs.
            if causes.len() <= 2 * MOST_BELOW {
                causes.insert(place);
            }
        }
    }

    /// A name of the zone and all above it, up to the zone.
    fn at_and_above(&self, name: Name) -> impl Iterator<Item = Name> {
        let apex = self.layout.zone();
        std::iter::successors(Some(name), move |name| {
            (name != apex).then(|| name.parent()).flatten()
        })
    }

    /// All names that may have records.
    #[must_use]
    pub fn names(&self) -> BTreeSet<Name> {
        let mut names = BTreeSet::from([self.layout.zone().clone()]);
        for entry in self.entries.values() {
            let Ok((name, _)) = &entry.service else {
                continue;
            };
            for name in self.at_and_above(name.clone()) {
                if !names.insert(name) {
                    break;
                }
            }
        }
        names
    }

    /// What is wrong with keys, each with its key.
    pub fn problems(&self) -> impl Iterator<Item = String> {
        self.bad.iter().filter_map(|key| {
            let why = self.entries.get(key)?.service.as_ref().err()?;
            Some(format!("{key}: {why}"))
        })
    }

    /// The entries below a name, in the order of keys.
    fn below(&self, name: &Name) -> impl Iterator<Item = (&Arc<str>, &Entry)> {
        let mut prefix = self.layout.key(name);
        if !prefix.ends_with('/') {
            prefix.push('/');
        }
        let from: Bound<&str> = Bound::Included(&prefix);
        let range = self.entries.range::<str, _>((from, Bound::Unbounded));
        let range: Vec<_> = range
            .take_while(|(key, _)| key.starts_with(&*prefix))
            .take(MOST_BELOW + 1)
            .collect();
        range.into_iter()
    }

    /// The entries that answer for a name: those below it, else its own, as CoreDNS looks for them. `None` if there are too
    /// many.
    pub(crate) fn found(&self, name: &Name) -> Option<Vec<(&Arc<str>, &Entry)>> {
        let mut found: Vec<_> = self.below(name).collect();
        if found.is_empty() {
            found.extend(self.exact(name));
        }
        (found.len() <= MOST_BELOW).then_some(found)
    }

    /// The entry of a name itself.
    pub(crate) fn exact(&self, name: &Name) -> Option<(&Arc<str>, &Entry)> {
        self.entries.get_key_value(self.layout.key(name).as_str())
    }
}
