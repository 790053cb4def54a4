//! The room that each namespace has for the records of its objects.
//!
//! An object has two shares: the records of its own names, and those of its endpoints. The own names of all objects get room first,
//! so that no number of endpoints takes a new Service its name. Within each share objects get room in the order of their
//! creation, then by name, until one does not fit: it and all after it are left out. So what is left out is a function of the
//! facts, whatever the order in which they came. The shares of a namespace are kept in two parts, those with room and those
//! beyond. A change moves only shares that come or go, each in O(log n).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use provenance::{FactKey, Kind, ObjectKey};

/// The records for which an object asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Those of its own names.
    pub own: usize,
    /// Those of its endpoints. All records of a headless Service are.
    pub endpoints: usize,
}

/// A share of an object, in the order in which room is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Share {
    Own,
    Endpoints,
}

impl Asked {
    /// The number of records of each share.
    const fn shares(self) -> [(Share, usize); 2] {
        [(Share::Own, self.own), (Share::Endpoints, self.endpoints)]
    }
}

/// The place of a share in the order in which room is given: then the object's age and its name.
type Place = (Share, u64, Arc<str>);

/// The shares that came to the other part, each with the object's name.
type Moved = BTreeSet<(Share, Arc<str>)>;

/// The rooms of all namespaces, for each kind of object.
#[derive(Debug, Default)]
pub struct Rooms {
    /// The most records of a namespace.
    limit: usize,
    rooms: HashMap<(Kind, Arc<str>), Room>,
    /// The age and the records of each object that asks for some.
    asked: HashMap<FactKey, (u64, Asked)>,
}

/// The room of one namespace for objects of one kind.
#[derive(Debug, Default)]
struct Room {
    /// The shares with room, each with its number of records.
    within: BTreeMap<Place, usize>,
    /// The shares without, which come after all others.
    beyond: BTreeMap<Place, usize>,
    /// The records of the shares with room.
    used: usize,
}

/// Notes that a share came to the other part. Twice is never.
fn toggle(moved: &mut Moved, (share, _, name): &Place) {
    let of = (*share, Arc::clone(name));
    if !moved.remove(&of) {
        moved.insert(of);
    }
}

impl Room {
    /// Removes a share.
    fn take(&mut self, place: &Place, moved: &mut Moved) {
        match self.within.remove(place) {
            Some(records) => self.used -= records,
            None if self.beyond.remove(place).is_some() => toggle(moved, place),
            None => {}
        }
    }

    /// Adds a share to the part where its place is.
    fn put(&mut self, place: Place, records: usize, moved: &mut Moved) {
        let first_beyond = self.beyond.first_key_value();
        if first_beyond.is_some_and(|(first, _)| *first < place) {
            toggle(moved, &place);
            self.beyond.insert(place, records);
        } else {
            self.used += records;
            self.within.insert(place, records);
        }
    }

    /// Moves shares until those with room are as many as fit.
    fn settle(&mut self, limit: usize, moved: &mut Moved) {
        while self.used > limit
            && let Some((place, records)) = self.within.pop_last()
        {
            self.used -= records;
            toggle(moved, &place);
            self.beyond.insert(place, records);
        }
        while let Some(first) = self.beyond.first_entry()
            && self.used + first.get() <= limit
        {
            let (place, records) = first.remove_entry();
            self.used += records;
            toggle(moved, &place);
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

    /// Sets the records for which an object asks. Gives the objects of its namespace, itself included, of which a share is left
    /// out now and was not before, or the other way round.
    pub fn set(&mut self, key: &FactKey, created_s: u64, records: Asked) -> Vec<ObjectKey> {
        let was_left_out = self.left_out(key.kind, &key.key);
        // An object whose age is unknown is the youngest.
        let age = if created_s == 0 { u64::MAX } else { created_s };
        let before = match records == Asked::default() {
            true => self.asked.remove(key),
            false => self.asked.insert(key.clone(), (age, records)),
        };
        if before.unwrap_or((age, Asked::default())) == (age, records) {
            return Vec::new();
        }
        let FactKey { kind, key } = key;
        let ObjectKey { namespace, name } = key;
        let of = (*kind, Arc::clone(namespace));
        let mut moved = Moved::new();
        let room = self.rooms.entry(of.clone()).or_default();
        if let Some((age, records)) = before {
            for (share, _) in records.shares() {
                room.take(&(share, age, Arc::clone(name)), &mut moved);
            }
        }
        for (share, records) in records.shares() {
            if records > 0 {
                room.put((share, age, Arc::clone(name)), records, &mut moved);
            }
        }
        room.settle(self.limit, &mut moved);
        if room.within.is_empty() && room.beyond.is_empty() {
            self.rooms.remove(&of);
        }
        let mut names: BTreeSet<Arc<str>> = moved.into_iter().map(|(_, name)| name).collect();
        // Its shares may have changed their sizes to or from nothing.
        names.remove(name);
        if was_left_out != self.left_out(*kind, key) {
            names.insert(Arc::clone(name));
        }
        let in_namespace = |name| ObjectKey {
            namespace: Arc::clone(namespace),
            name,
        };
        names.into_iter().map(in_namespace).collect()
    }

    /// Whether an object is left out: it has no room for its own names, or it asks for none and has no room for its endpoints.
    #[must_use]
    pub fn is_beyond(&self, kind: Kind, key: &ObjectKey) -> bool {
        let asked = self.asked.get(&kind.of(key));
        asked.is_some_and(|(age, records)| {
            let share = match records.own {
                0 => Share::Endpoints,
                _ => Share::Own,
            };
            self.lacks(kind, key, (share, *age))
        })
    }

    /// Whether the endpoints of an object are left out.
    #[must_use]
    pub fn lacks_endpoints(&self, kind: Kind, key: &ObjectKey) -> bool {
        let asked = self.asked.get(&kind.of(key));
        asked.is_some_and(|(age, _)| self.lacks(kind, key, (Share::Endpoints, *age)))
    }

    /// Whether an object is left out, and whether its endpoints are.
    fn left_out(&self, kind: Kind, key: &ObjectKey) -> (bool, bool) {
        (self.is_beyond(kind, key), self.lacks_endpoints(kind, key))
    }

    /// Whether a share of an object has no room.
    fn lacks(&self, kind: Kind, key: &ObjectKey, (share, age): (Share, u64)) -> bool {
        let room = self.rooms.get(&(kind, Arc::clone(&key.namespace)));
        let room = room.filter(|room| !room.beyond.is_empty());
        let place = (share, age, Arc::clone(&key.name));
        room.is_some_and(|room| room.beyond.contains_key(&place))
    }

    /// What to say of an object of which something is left out.
    #[must_use]
    pub fn complaint(&self, kind: Kind, key: &ObjectKey) -> Option<String> {
        let left_out = match self.left_out(kind, key) {
            (true, _) => "it is left out",
            (false, true) => "its endpoints are left out",
            (false, false) => return None,
        };
        Some(format!(
            "{left_out}: the objects of the namespace {} that are older, and this one, have more than {} records (`limits namespace`)",
            key.namespace, self.limit
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(number: usize) -> FactKey {
        Kind::Service.of(&ObjectKey::new("a", &format!("s{number}")))
    }

    fn endpoints(endpoints: usize) -> Asked {
        Asked { own: 0, endpoints }
    }

    /// The names that are left out.
    fn beyond(rooms: &Rooms) -> Vec<usize> {
        let is_beyond = |number: &usize| rooms.is_beyond(Kind::Service, &key(*number).key);
        (0..8).filter(is_beyond).collect()
    }

    #[test]
    fn security_05_the_oldest_objects_of_a_namespace_have_room_and_others_keep_theirs() {
        let mut rooms = Rooms::new(10);
        assert!(rooms.set(&key(0), 3, endpoints(4)).is_empty());
        assert!(rooms.set(&key(1), 1, endpoints(4)).is_empty());
        // The youngest does not fit, and stays out when one that would fit comes after it.
        assert_eq!(rooms.set(&key(2), 5, endpoints(4)), [key(2).key]);
        assert_eq!(rooms.set(&key(3), 6, endpoints(1)), [key(3).key]);
        assert_eq!(beyond(&rooms), [2, 3]);
        // An older one takes the room of the youngest that has some.
        assert_eq!(rooms.set(&key(4), 2, endpoints(3)), [key(0).key]);
        assert_eq!(beyond(&rooms), [0, 2, 3]);
        // Another namespace, and another kind, have rooms of their own.
        let other = Kind::Service.of(&ObjectKey::new("b", "s0"));
        assert!(rooms.set(&other, 9, endpoints(10)).is_empty());
        let import = Kind::ServiceImport.of(&key(0).key);
        assert!(rooms.set(&import, 9, endpoints(10)).is_empty());
        assert_eq!(rooms.set(&key(1), 1, endpoints(0)), [key(0).key]);
        assert_eq!(beyond(&rooms), [2, 3]);
        // Of unknown age is the youngest.
        assert_eq!(rooms.set(&key(5), 0, endpoints(1)), [key(5).key]);
    }

    /// The newest Service of a namespace was left out before the endpoints of an older, headless one.
    #[test]
    fn own_names_have_room_before_the_endpoints_of_older_objects() {
        let mut rooms = Rooms::new(10);
        assert!(rooms.set(&key(0), 1, endpoints(6)).is_empty());
        let old = Asked {
            own: 1,
            endpoints: 3,
        };
        assert!(rooms.set(&key(1), 2, old).is_empty());
        let new = Asked {
            own: 2,
            endpoints: 0,
        };
        assert_eq!(rooms.set(&key(2), 3, new), [key(1).key]);
        assert_eq!(beyond(&rooms), [0; 0]);
        let lacks = |rooms: &Rooms, number| rooms.lacks_endpoints(Kind::Service, &key(number).key);
        assert!(lacks(&rooms, 1) && !lacks(&rooms, 0));
        let said = rooms.complaint(Kind::Service, &key(1).key).unwrap();
        assert!(said.starts_with("its endpoints are left out: "), "{said}");
        assert_eq!(rooms.set(&key(3), 4, new), [key(0).key]);
        assert_eq!(beyond(&rooms), [0]);
        assert_eq!(rooms.set(&key(2), 3, Asked::default()), [key(0).key]);
        assert!(lacks(&rooms, 1) && !lacks(&rooms, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        /// The same objects have room in whatever order they came, and each object that came or went is named.
        #[test]
        fn what_has_room_is_a_function_of_the_objects(
            changes in prop::collection::vec((0..8_usize, 0..4_u64, 0..4_usize, 0..6_usize), 1..60),
            limit in 1..20_usize,
        ) {
            let mut rooms = Rooms::new(limit);
            let mut objects: BTreeMap<usize, (u64, Asked)> = BTreeMap::new();
            let without = |rooms: &Rooms| -> Vec<usize> {
                let lacks = |number: &usize| rooms.lacks_endpoints(Kind::Service, &key(*number).key);
                (0..8).filter(lacks).collect()
            };
            for (number, created_s, own, endpoints) in changes {
                let records = Asked { own, endpoints };
                let (before, before_endpoints) = (beyond(&rooms), without(&rooms));
                let moved = rooms.set(&key(number), created_s, records);
                match records == Asked::default() {
                    true => drop(objects.remove(&number)),
                    false => drop(objects.insert(number, (created_s, records))),
                }
                let (after, after_endpoints) = (beyond(&rooms), without(&rooms));
                let differs = |number: &usize| {
                    before.contains(number) != after.contains(number)
                        || before_endpoints.contains(number) != after_endpoints.contains(number)
                };
                let want: Vec<ObjectKey> =
                    (0..8).filter(differs).map(|number| key(number).key).collect();
                prop_assert_eq!(moved, want);
                let mut again = Rooms::new(limit);
                for (number, (created_s, records)) in objects.iter().rev() {
                    again.set(&key(*number), *created_s, *records);
                }
                prop_assert_eq!(&after, &beyond(&again));
                prop_assert_eq!(&after_endpoints, &without(&again));
                let used_by = |(number, (_, records)): (&usize, &(u64, Asked))| {
                    let own = if after.contains(number) { 0 } else { records.own };
                    let has_endpoints = !after_endpoints.contains(number);
                    own + if has_endpoints { records.endpoints } else { 0 }
                };
                let used: usize = objects.iter().map(used_by).sum();
                prop_assert!(used <= limit);
            }
        }
    }
}
