//! Finds the longest of some names that is a suffix of a name: which zone or which block a query belongs to.

use std::collections::HashMap;

/// Values by name. Each counts for its name and all names below it. Names are in lower case, in wire form.
#[derive(Debug, Clone)]
pub struct SuffixMap<T> {
    values: HashMap<Box<[u8]>, T>,
    /// A bit for each length in octets that some name has. Other lengths are not looked up.
    lengths: [u64; 4],
}

impl<T> Default for SuffixMap<T> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            lengths: [0; 4],
        }
    }
}

impl<T> SuffixMap<T> {
    /// Adds a value. If the name has one already, that one stays.
    pub fn add(&mut self, lower_wire: &[u8], value: T) {
        if let Some(word) = self.lengths.get_mut(lower_wire.len() / 64) {
            *word |= 1 << (lower_wire.len() % 64);
        }
        self.values.entry(lower_wire.into()).or_insert(value);
    }

    /// The value of exactly this name.
    #[must_use]
    pub fn get(&self, lower_wire: &[u8]) -> Option<&T> {
        let word = self.lengths.get(lower_wire.len() / 64)?;
        if word & 1 << (lower_wire.len() % 64) == 0 {
            return None;
        }
        self.values.get(lower_wire)
    }

    /// The value of the longest name that is this name or an ancestor of it.
    #[must_use]
    pub fn find(&self, lower_wire: &[u8]) -> Option<&T> {
        let mut rest = lower_wire;
        loop {
            if let Some(value) = self.get(rest) {
                return Some(value);
            }
            let length = usize::from(*rest.first()?);
            if length == 0 {
                return None;
            }
            rest = rest.get(length + 1..)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Name;

    #[test]
    fn the_longest_name_holds_and_of_two_the_first_counts() {
        let mut map = SuffixMap::default();
        let wire = |name: &str| name.parse::<Name>().unwrap().as_wire().to_vec();
        for (value, name) in ["org.", "example.org.", "org.", "nettles.example."]
            .iter()
            .enumerate()
        {
            map.add(&wire(name), value);
        }
        for (name, want) in [
            ("org.", Some(0)),
            ("a.b.org.", Some(0)),
            ("example.org.", Some(1)),
            ("www.example.org.", Some(1)),
            ("xexample.org.", Some(0)),
            // A name of the same length as one in the map, but a different one.
            ("nettle.examples.", None),
            ("a.nettles.example.", Some(3)),
            ("example.", None),
            (".", None),
        ] {
            assert_eq!(map.find(&wire(name)).copied(), want, "{name}");
        }
        assert_eq!(map.get(&wire("www.example.org.")), None);
        map.add(&wire("."), 9);
        assert_eq!(map.find(&wire("com.")), Some(&9));
        assert_eq!(map.find(&[]), None);
    }

    #[test]
    fn names_of_every_length_are_found() {
        let mut map = SuffixMap::default();
        let mut name = Name::root();
        let mut names = Vec::new();
        while let Ok(longer) = name.child("abc") {
            name = longer;
            names.push(name.clone());
        }
        assert_eq!(name.as_wire().len(), 253);
        for name in names.iter().rev() {
            assert_eq!(map.find(name.as_wire()), None);
            map.add(name.as_wire(), name.clone());
            assert_eq!(map.find(name.as_wire()), Some(name));
            map = SuffixMap::default();
        }
    }
}
