//! Names of owners that come in canonical order, as a zone keeps them: each compressed against the owner before.
//!
//! An owner shares no more labels with any earlier owner than with the one right before it. So only the places of that
//! one are known, and nothing is hashed or looked up. These names enter the compression table only when a name out of
//! order comes.

use crate::SortKey;

/// Pointers have 14 bits (RFC 1035 section 4.1.4).
pub(super) const POINTER_END: usize = 0x4000;
/// The most labels of a name, plus one.
pub(super) const MAX_LABELS: usize = 128;
/// The most octets of a sort key.
const MAX_KEY_OCTETS: usize = 510;
/// A place that is not known, or is out of reach for a pointer.
pub(super) const UNKNOWN: u16 = u16::MAX;

/// An owner in the form of a zone's node.
#[derive(Clone, Copy, Debug)]
pub struct OwnerRef<'a> {
    /// Its sort key, relative to the apex.
    pub key: &'a [u8],
    /// Its labels below the apex in wire form, if the key alone cannot restore them. Else empty.
    pub relative: &'a [u8],
    /// The apex in wire form.
    pub apex: &'a [u8],
}

impl OwnerRef<'_> {
    /// Appends the wire form.
    pub fn write(&self, wire: &mut Vec<u8>) {
        if self.relative.is_empty() {
            SortKey::write_wire(self.key, wire);
        } else {
            wire.extend_from_slice(self.relative);
        }
        wire.extend_from_slice(self.apex);
    }
}

/// The last owner that was written. The index of a suffix is its count of labels below the apex.
#[derive(Debug)]
pub(super) struct OrderedTrail {
    key: [u8; MAX_KEY_OCTETS],
    len: usize,
    /// The number of labels below the apex.
    labels: usize,
    /// The end of each suffix in the key.
    key_ends: [u16; MAX_LABELS],
    /// The place of each suffix in the message, or [`UNKNOWN`].
    places: [u16; MAX_LABELS],
    /// The places of names that are not in the table.
    pub(super) pending: Vec<u16>,
}

impl OrderedTrail {
    pub(super) const fn new() -> Self {
        Self {
            key: [0; MAX_KEY_OCTETS],
            len: 0,
            labels: 0,
            key_ends: [0; MAX_LABELS],
            places: [UNKNOWN; MAX_LABELS],
            pending: Vec::new(),
        }
    }

    /// Begins with an owner that was written by other means. `places` are those of its suffixes, the apex first.
    pub(super) fn begin(&mut self, key: &[u8], places: &[u16]) {
        self.pending.clear();
        self.labels = 0;
        self.take_key(0, key);
        for (place, known) in self.places.iter_mut().zip(places) {
            *place = *known;
        }
    }

    /// The number of labels that an owner shares with the one before. `None` when it cannot be written from its key, or
    /// no pointer to the shared part is known.
    pub(super) fn shared(&self, owner: OwnerRef<'_>) -> Option<usize> {
        if !owner.relative.is_empty() {
            return None;
        }
        let common = common_front(&self.key[..self.len], owner.key);
        let mut shared = self.labels;
        while usize::from(self.key_ends[shared]) > common {
            shared -= 1;
        }
        let new = &owner.key[usize::from(self.key_ends[shared])..];
        (self.places[shared] != UNKNOWN && !new.contains(&1)).then_some(shared)
    }

    /// The octets of an owner that shares `shared` labels with the one before.
    pub(super) fn octets(&self, shared: usize, key: &[u8]) -> usize {
        // In the key an octet follows each label; on the wire one precedes it.
        key.len() - usize::from(self.key_ends[shared]) + 2
    }

    /// Appends the owner to a message that begins at `base`.
    pub(super) fn write(&mut self, octets: &mut Vec<u8>, base: usize, shared: usize, key: &[u8]) {
        let start = octets.len() - base;
        self.take_key(shared, key);
        for label in (shared + 1..=self.labels).rev() {
            let from = usize::from(self.key_ends[label - 1]);
            let text = &key[from..usize::from(self.key_ends[label]) - 1];
            self.places[label] = pointable(octets.len() - base);
            octets.push(u8::try_from(text.len()).expect("labels have at most 63 octets"));
            octets.extend_from_slice(text);
        }
        octets.extend_from_slice(&(self.places[shared] | 0xc000).to_be_bytes());
        if self.labels > shared && start < POINTER_END {
            self.pending.push(pointable(start));
        }
    }

    /// The pointer to the last owner, if a pointer can reach it.
    pub(super) fn pointer(&self) -> Option<u16> {
        let place = self.places[self.labels];
        (place != UNKNOWN).then_some(place | 0xc000)
    }

    /// Replaces the key, of which the first `shared` labels stay the same.
    fn take_key(&mut self, shared: usize, key: &[u8]) {
        let from = usize::from(self.key_ends[shared]);
        self.key[from..key.len()].copy_from_slice(&key[from..]);
        (self.len, self.labels) = (key.len(), shared);
        for (at, octet) in key.iter().enumerate().skip(from) {
            if *octet == 0 {
                self.labels += 1;
                self.key_ends[self.labels] =
                    u16::try_from(at + 1).expect("keys have at most 510 octets");
            }
        }
    }
}

/// The place, or [`UNKNOWN`] if no pointer can reach it.
fn pointable(place: usize) -> u16 {
    match u16::try_from(place) {
        Ok(place) if usize::from(place) < POINTER_END => place,
        _ => UNKNOWN,
    }
}

fn common_front(one: &[u8], other: &[u8]) -> usize {
    let mut common = 0;
    for (a, b) in one.chunks_exact(8).zip(other.chunks_exact(8)) {
        let [a, b] =
            [a, b].map(|chunk| u64::from_le_bytes(chunk.try_into().expect("eight octets")));
        if a != b {
            return common + (a ^ b).trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = one[common..].iter().zip(&other[common..]);
    common + rest.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_fronts_are_counted_in_octets() {
        for (one, other, want) in [
            ("", "", 0),
            ("a", "", 0),
            ("abcdefgh", "abcdefgh", 8),
            ("abcdefgx", "abcdefgh", 7),
            ("xbcdefgh", "abcdefgh", 0),
            ("abcdefgh01x3", "abcdefgh0123", 10),
            ("abcdefgh", "abcdefgh01", 8),
        ] {
            for (one, other) in [(one, other), (other, one)] {
                let common = common_front(one.as_bytes(), other.as_bytes());
                assert_eq!(common, want, "{one} {other}");
            }
        }
    }
}
