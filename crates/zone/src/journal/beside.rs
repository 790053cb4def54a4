//! Entries beside the versions: what the writer of some zones wants to know again after a restart.
//!
//! The journal does not look into them. They are no history and no promise: they are written with a commit, or between
//! commits without a sync, and when one of a zone is damaged, all of the zone count as unknown.
//!
//! Key: `f`, the zone's name in wire form, the length of the entry's own key (2), that key, the part (2). A value has a
//! flag, whether it is the last part, and the octets.

use dns::Name;

use crate::journal::codec::{BESIDE, PART_OCTETS, seal, unseal};
use crate::journal::store::{Batch, Entries, StoreError, paged};
use crate::journal::{BATCH_ENTRIES, Journal};

/// The flag of an entry's last part.
const LAST: u8 = 1;

/// A key and its value; `None` removes the entry.
pub type Beside = (Vec<u8>, Option<Vec<u8>>);

/// The place of entries in the database: the start of their keys.
pub(super) struct Place(Vec<u8>);

impl Place {
    /// The place of a zone's entries of a kind.
    pub(super) fn of(kind: u8, apex: &Name) -> Self {
        Self([&[kind], apex.to_lower().as_wire()].concat())
    }

    /// The range of the keys; the end is exclusive. No name goes on after its root, so no other zone is in it.
    fn range(&self) -> [Vec<u8>; 2] {
        let high = [&self.0[..], &[u8::MAX; 3]].concat();
        [self.0.clone(), high]
    }

    /// The start of the keys of an entry.
    pub(super) fn entry(&self, own: &[u8]) -> Vec<u8> {
        let length = u16::try_from(own.len()).unwrap_or(u16::MAX);
        [&self.0, &length.to_be_bytes()[..], own].concat()
    }
}

impl Journal {
    /// Writes entries beside the versions of a zone, all or none. They are durable with the next version. A key has fewer
    /// than 2^16 octets.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be written.
    pub fn put_beside(&mut self, apex: &Name, entries: &[Beside]) -> Result<(), StoreError> {
        let mut batch = Batch::default();
        put(&self.store, &mut batch, &Place::of(BESIDE, apex), entries)?;
        self.store.write(batch)
    }

    /// Writes entries beside the versions of a zone with the next commit, if that works: in the same batch.
    pub fn put_beside_next(&mut self, apex: &Name, entries: Vec<Beside>) {
        self.beside_next.push((apex.clone(), entries));
    }

    /// Adds the entries of the next commit to its batch.
    pub(super) fn add_beside(&self, batch: &mut Batch) -> Result<(), StoreError> {
        for (apex, entries) in &self.beside_next {
            put(&self.store, batch, &Place::of(BESIDE, apex), entries)?;
        }
        Ok(())
    }

    /// Removes all entries beside the versions of a zone.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read or written.
    pub fn forget_beside(&mut self, apex: &Name) -> Result<(), StoreError> {
        let [low, high] = Place::of(BESIDE, apex).range();
        loop {
            let entries = self.store.range(&low, &high, BATCH_ENTRIES)?;
            if entries.is_empty() {
                return Ok(());
            }
            let mut batch = Batch::default();
            for (key, _) in entries {
                batch.delete(&key);
            }
            self.store.write(batch)?;
        }
    }

    /// Reads the entries beside the versions of a zone, in the order of their keys. `None` if one of them is damaged.
    ///
    /// # Errors
    /// [`StoreError`] when the database cannot be read.
    pub fn read_beside(
        &mut self,
        apex: &Name,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<Option<()>, StoreError> {
        let (octets, done) = read(&self.store, &Place::of(BESIDE, apex), &mut each)?;
        self.reopening.bulk_octets += octets;
        Ok(done)
    }
}

/// Adds changes of entries to a batch.
pub(super) fn put(
    store: &dyn Entries,
    batch: &mut Batch,
    place: &Place,
    entries: &[Beside],
) -> Result<(), StoreError> {
    for (key, value) in entries {
        let key = place.entry(key);
        let parts = parts_of(&key, value.as_deref());
        let (low, high) = (part_key(&key, 0), part_key(&key, u16::MAX));
        let old = store.range(&low, &high, usize::from(u16::MAX))?;
        for (old, _) in old.iter().skip(parts.len()) {
            batch.delete(old);
        }
        for (key, value) in parts {
            batch.put(&key, value);
        }
    }
    Ok(())
}

/// The entries' own keys with their values, to `each`, up to the first damaged one. Gives the octets that were read, and
/// `None` if one is damaged.
pub(super) fn read(
    store: &dyn Entries,
    place: &Place,
    each: &mut impl FnMut(&[u8], &[u8]),
) -> Result<(u64, Option<()>), StoreError> {
    let mut done = Some(());
    let octets = read_all(store, place, &mut |own, value| {
        match value {
            Some(value) => each(own, value),
            None => done = None,
        }
        done
    })?;
    Ok((octets, done))
}

/// The entries' own keys with their values, to `each`; no value for a damaged one. Ends when `each` gives `None`. Gives the
/// octets that were read.
pub(super) fn read_all(
    store: &dyn Entries,
    place: &Place,
    each: &mut impl FnMut(&[u8], Option<&[u8]>) -> Option<()>,
) -> Result<u64, StoreError> {
    let [low, high] = place.range();
    let mut octets = 0;
    // The entry that is being read: the start of its keys, its value, and its next part, `None` when it is told.
    let mut entry: Vec<u8> = Vec::new();
    let mut value = Vec::new();
    let mut next = None;
    let own_start = low.len() + 2;
    for found in paged(store, &low, &high, BATCH_ENTRIES) {
        let (key, part) = found?;
        octets += part.len() as u64;
        let (of, number) = key.split_at(key.len().saturating_sub(2));
        if of != entry {
            // The last part of the one before is missing.
            if next.is_some() && each(own_of(&entry, own_start), None).is_none() {
                return Ok(octets);
            }
            entry = of.to_vec();
            value.clear();
            next = Some(0_u16);
        }
        let Some(part_number) = next else {
            continue;
        };
        let payload = unseal(&key, &part).filter(|_| number == part_number.to_be_bytes());
        let told = match payload.and_then(|it| it.split_first()) {
            None => {
                next = None;
                each(own_of(&entry, own_start), None)
            }
            Some((flag, payload)) => {
                value.extend_from_slice(payload);
                next = (*flag != LAST).then_some(part_number + 1);
                match next {
                    Some(_) => Some(()),
                    None => each(own_of(&entry, own_start), Some(&value)),
                }
            }
        };
        if told.is_none() {
            return Ok(octets);
        }
    }
    if next.is_some() {
        each(own_of(&entry, own_start), None);
    }
    Ok(octets)
}

/// The entry's own key, in the start of its keys.
fn own_of(entry: &[u8], start: usize) -> &[u8] {
    entry.get(start..).unwrap_or_default()
}

pub(super) fn part_key(entry: &[u8], part: u16) -> Vec<u8> {
    [entry, &part.to_be_bytes()].concat()
}

/// The parts of a value with their keys; none for `None`.
fn parts_of(entry: &[u8], value: Option<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let Some(value) = value else {
        return Vec::new();
    };
    let mut chunks: Vec<&[u8]> = value.chunks(PART_OCTETS).collect();
    if chunks.is_empty() {
        chunks.push(&[]);
    }
    let last = chunks.len() - 1;
    let part = |(place, chunk): (usize, &[u8])| {
        let key = part_key(entry, u16::try_from(place).unwrap_or(u16::MAX));
        let flag = if place == last { LAST } else { 0 };
        let payload = [&[flag], chunk].concat();
        let value = seal(&key, payload);
        (key, value)
    };
    chunks.into_iter().enumerate().map(part).collect()
}
