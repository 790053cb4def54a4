//! The room that each namespace has for the records of its objects.
//!
//! Objects get room in the order of their creation, then by name, until one does not fit: it and all after it are left
//! out. So what is left out is a function of the facts, whatever the order in which they came. The objects of a
//! namespace are kept in two parts, those with room and those beyond. A change moves only objects that come or go, each
//! in O(log n).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use provenance::{FactKey, Kind, ObjectKey};

/// The place of an object in the order in which room is given: its age and its name.
type Place = (u64, Arc<str>);

/// The rooms of all namespaces, for each kind of object.
#[derive(Debug, Default)]
pub struct Rooms {
    /// The most records of a namespace.
    limit: usize,
    rooms: HashMap<(Kind, Arc<str>), Room>,
    /// The age and the number of records of each object that asks for some.
    asked: HashMap<FactKey, (u64, usize)>,
}

/// The room of one namespace for objects of one kind.
#[derive(Debug, Default)]
struct Room {
    /// The objects with room, each with its number of records.
    within: BTreeMap<Place, usize>,
    /// The objects without, which come after all others.
    beyond: BTreeMap<Place, usize>,
    /// The records of the objects with room.
    used: usize,
}

/// Notes that an object came to the other part. Twice is never.
fn toggle(moved: &mut BTreeSet<Arc<str>>, name: &Arc<str>) {
    if !moved.remove(name) {
        moved.insert(Arc::clone(name));
    }
}

impl Room {
    /// Removes an object.
    fn take(&mut self, place: &Place, moved: &mut BTreeSet<Arc<str>>) {
        match self.within.remove(place) {
            Some(records) => self.used -= records,
            None if self.beyond.remove(place).is_some() => toggle(moved, &place.1),
            None => {}
        }
    }

    /// Adds an object to the part where its place is.
    fn put(&mut self, place: Place, records: usize, moved: &mut BTreeSet<Arc<str>>) {
        let first_beyond = self.beyond.first_key_value();
        if first_beyond.is_some_and(|(first, _)| *first < place) {
            toggle(moved, &place.1);
            self.beyond.insert(place, records);
        } else {
            self.used += records;
            self.within.insert(place, records);
        }
    }

    /// Moves objects until those with room are as many as fit.
    fn settle(&mut self, limit: usize, moved: &mut BTreeSet<Arc<str>>) {
        while self.used > limit
            && let Some((place, records)) = self.within.pop_last()
        {
            self.used -= records;
            toggle(moved, &place.1);
            self.beyond.insert(place, records);
        }
        while let Some(first) = self.beyond.first_entry()
            && self.used + first.get() <= limit
        {
            let (place, records) = first.remove_entry();
            self.used += records;
            toggle(moved, &place.1);
            self.within.insert(place, records);
        }
    }
}

impl Rooms {
    /// Rooms for so many records.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Sets the number of records for which an object asks. Gives the objects of its namespace, itself included, that are
    /// left out now and were not before, or the other way round.
    pub fn set(&mut self, key: &FactKey, created_s: u64, records: usize) -> Vec<ObjectKey> {
        // An object whose age is unknown is the youngest.
        let age = if created_s == 0 { u64::MAX } else { created_s };
        let before = match records {
            0 => self.asked.remove(key),
            _ => self.asked.insert(key.clone(), (age, records)),
        };
        if before.unwrap_or((age, 0)) == (age, records) {
            return Vec::new();
        }
        let FactKey { kind, key } = key;
        let ObjectKey { namespace, name } = key;
        let of = (*kind, Arc::clone(namespace));
        let room = self.rooms.entry(of.clone()).or_default();
        let mut moved = BTreeSet::new();
        if let Some((age, _)) = before {
            room.take(&(age, Arc::clone(name)), &mut moved);
        }
        if records > 0 {
            room.put((age, Arc::clone(name)), records, &mut moved);
        }
        room.settle(self.limit, &mut moved);
        if room.within.is_empty() && room.beyond.is_empty() {
            self.rooms.remove(&of);
        }
        let in_namespace = |name| ObjectKey {
            namespace: Arc::clone(namespace),
            name,
        };
        moved.into_iter().map(in_namespace).collect()
    }

    /// Whether an object is left out.
    #[must_use]
    pub fn is_beyond(&self, kind: Kind, key: &ObjectKey) -> bool {
        let room = self.rooms.get(&(kind, Arc::clone(&key.namespace)));
        let Some(room) = room.filter(|room| !room.beyond.is_empty()) else {
            return false;
        };
        let asked = self.asked.get(&kind.of(key));
        asked.is_some_and(|(age, _)| room.beyond.contains_key(&(*age, Arc::clone(&key.name))))
    }

    /// What to say of an object that is left out.
    #[must_use]
    pub fn complaint(&self, key: &ObjectKey) -> String {
        format!(
            "it is left out: the objects of the namespace {} that are older, and this one, have more than {} records (`limits namespace`)",
            key.namespace, self.limit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: usize) -> FactKey {
        Kind::Service.of(&ObjectKey::new("a", &format!("s{number}")))
    }

    /// The names that are left out.
    fn beyond(rooms: &Rooms) -> Vec<usize> {
        let is_beyond = |number: &usize| rooms.is_beyond(Kind::Service, &key(*number).key);
        (0..8).filter(is_beyond).collect()
    }

    #[test]
    fn security_05_the_oldest_objects_of_a_namespace_have_room_and_others_keep_theirs() {
        let mut rooms = Rooms::new(10);
        assert!(rooms.set(&key(0), 3, 4).is_empty());
        assert!(rooms.set(&key(1), 1, 4).is_empty());
        // The youngest does not fit, and stays out when one that would fit comes after it.
        assert_eq!(rooms.set(&key(2), 5, 4), [key(2).key]);
        assert_eq!(rooms.set(&key(3), 6, 1), [key(3).key]);
        assert_eq!(beyond(&rooms), [2, 3]);
        // An older one takes the room of the youngest that has some.
        assert_eq!(rooms.set(&key(4), 2, 3), [key(0).key]);
        assert_eq!(beyond(&rooms), [0, 2, 3]);
        // Another namespace, and another kind, have rooms of their own.
        let other = Kind::Service.of(&ObjectKey::new("b", "s0"));
        assert!(rooms.set(&other, 9, 10).is_empty());
        let import = Kind::ServiceImport.of(&key(0).key);
        assert!(rooms.set(&import, 9, 10).is_empty());
        assert_eq!(rooms.set(&key(1), 1, 0), [key(0).key]);
        assert_eq!(beyond(&rooms), [2, 3]);
        // Of unknown age is the youngest.
        assert_eq!(rooms.set(&key(5), 0, 1), [key(5).key]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// The same objects have room in whatever order they came, and each object that came or went is named.
        #[test]
        fn what_has_room_is_a_function_of_the_objects(
            changes in prop::collection::vec((0..8_usize, 0..4_u64, 0..6_usize), 1..60),
            limit in 1..20_usize,
        ) {
            let mut rooms = Rooms::new(limit);
            let mut objects: BTreeMap<usize, (u64, usize)> = BTreeMap::new();
            for (number, created_s, records) in changes {
                let before = beyond(&rooms);
                let moved = rooms.set(&key(number), created_s, records);
                match records {
                    0 => drop(objects.remove(&number)),
                    _ => drop(objects.insert(number, (created_s, records))),
                }
                let after = beyond(&rooms);
                let differs = |number: &usize| before.contains(number) != after.contains(number);
                let want: Vec<ObjectKey> =
                    (0..8).filter(differs).map(|number| key(number).key).collect();
                prop_assert_eq!(moved, want);
                let mut again = Rooms::new(limit);
                for (number, (created_s, records)) in objects.iter().rev() {
                    again.set(&key(*number), *created_s, *records);
                }
                prop_assert_eq!(&after, &beyond(&again));
                let used: usize = objects
                    .iter()
                    .filter(|(number, _)| !after.contains(number))
                    .map(|(_, (_, records))| records)
                    .sum();
                prop_assert!(used <= limit);
            }
        }
    }
}
