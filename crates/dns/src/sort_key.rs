//! Sort keys: names as plain octet strings in canonical order (RFC 4034 section 6.1), for indexes.

use std::fmt;

use crate::wire_name::wire_is_within;

/// A name as a sortable octet string, relative to an apex: labels from the right, in lower case, each followed by 0.
/// The octets 0 and 1 within a label become 1 1 and 1 2. Keys sort in canonical order of their names. The keys of all
/// names below a name begin with its key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortKey(Vec<u8>);

impl SortKey {
    /// The ends of the keys of a name and of its ancestors below the apex, in the key of the name; the highest ancestor
    /// first.
    pub fn ends(key: &[u8]) -> impl DoubleEndedIterator<Item = usize> {
        let octets = key.iter().enumerate();
        octets
            .filter(|(_, octet)| **octet == 0)
            .map(|(at, _)| at + 1)
    }

    /// The key of a wire name within a wire apex; `None` when it is not within.
    #[must_use]
    pub fn of_wire(wire: &[u8], apex: &[u8]) -> Option<Self> {
        let mut key = Vec::with_capacity(wire.len());
        Self::write(wire, apex, &mut key).then_some(Self(key))
    }

    /// As [`Self::of_wire`], into `key`, which is cleared first. False when the name is not within the apex.
    pub fn write(wire: &[u8], apex: &[u8], key: &mut Vec<u8>) -> bool {
        key.clear();
        if !wire_is_within(wire, apex) {
            return false;
        }
        let mut starts = [0_u8; 128];
        let mut count = 0;
        let mut at = 0;
        while at < wire.len() - apex.len() {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "names have at most 255 octets"
            )]
            {
                starts[count] = at as u8;
            }
            count += 1;
            at += usize::from(wire[at]) + 1;
        }
        for start in starts[..count].iter().rev() {
            let start = usize::from(*start);
            let length = usize::from(wire[start]);
            for octet in &wire[start + 1..=start + length] {
                match octet.to_ascii_lowercase() {
                    low @ (0 | 1) => key.extend_from_slice(&[1, low + 1]),
                    other => key.push(other),
                }
            }
            key.push(0);
        }
        true
    }

    /// The octets.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Writes the wire form of a key's name, without its apex, in lower case.
    pub fn write_wire(key: &[u8], wire: &mut Vec<u8>) {
        let mut ends = [0_u16; 128];
        let (mut count, mut is_plain) = (0, true);
        for (at, octet) in key.iter().enumerate() {
            if *octet == 0 {
                ends[count] = u16::try_from(at + 1).expect("keys have at most 510 octets");
                count += 1;
            }
            is_plain &= *octet != 1;
        }
        for index in (0..count).rev() {
            let start = if index == 0 {
                0
            } else {
                usize::from(ends[index - 1])
            };
            let label = &key[start..usize::from(ends[index]) - 1];
            let length_at = wire.len();
            wire.push(0);
            if is_plain {
                wire.extend_from_slice(label);
                wire[length_at] = u8::try_from(label.len()).expect("labels have at most 63 octets");
                continue;
            }
            let mut octets = label.iter();
            while let Some(octet) = octets.next() {
                match octet {
                    1 => wire.push(octets.next().map_or(0, |low| low - 1)),
                    other => wire.push(*other),
                }
            }
            #[allow(
                clippy::cast_possible_truncation,
                reason = "labels have at most 63 octets"
            )]
            {
                wire[length_at] = (wire.len() - length_at - 1) as u8;
            }
        }
    }
}

impl fmt::Debug for SortKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}
