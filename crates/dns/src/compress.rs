//! Compression of names (RFC 1035 section 4.1.4): the places of name suffixes in a message.
//!
//! The table is a hash map from name suffix to place in the message. Each hit is compared with the message, letter by
//! letter, so a pointer never changes the case of a name (RFC 5936 section 3.4). Most names of a zone share a suffix
//! with the previous name. So that name is remembered, with the hash and the place of each of its suffixes, and shared
//! suffixes are neither hashed nor looked up again.

use crate::ordered::{MAX_LABELS, OrderedTrail, OwnerRef, POINTER_END, UNKNOWN};
use crate::wire_name::{MAX_NAME_OCTETS, wire_name_len};

/// The number of further places of the table that a search for a suffix tries.
const PROBES: usize = 8;

/// The use of a name. Owners come in an order of their own, and so do names in data: each role has its own trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The owner of a record, or the question's name.
    Owner = 0,
    Data = 1,
}

#[derive(Debug)]
pub(super) struct Compressor {
    table: Table,
    trails: [Trail; 2],
    /// The form in which the names of this message are written.
    mode: Mode,
    ordered: OrderedTrail,
}

/// The form in which the names of a message are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// No name is written yet, except the question's.
    Open,
    /// Owners in order so far, each against the one before it.
    Ordered,
    /// By the table, which holds all names.
    Table,
}

/// The places of suffixes, by hash.
#[derive(Debug)]
struct Table {
    /// Epoch (16 bits), hash (32), place (16).
    slots: Box<[u64]>,
    /// Marks the entries of this message. Other entries are of earlier messages.
    epoch: u16,
    /// Entries made since [`Compressor::forget_undo`].
    undo: Vec<usize>,
}

/// The last name that was written. The index of a suffix is its count of labels.
#[derive(Debug)]
struct Trail {
    wire: [u8; 255],
    /// The octets of the name; 0 when there is none.
    len: usize,
    labels: usize,
    /// The octets of each suffix.
    octets: [u8; MAX_LABELS],
    hashes: [u64; MAX_LABELS],
    /// The place of each suffix, or [`UNKNOWN`].
    places: [u16; MAX_LABELS],
}

impl Trail {
    const fn new() -> Self {
        Self {
            wire: [0; 255],
            len: 0,
            labels: 0,
            octets: [1; MAX_LABELS],
            hashes: [0; MAX_LABELS],
            places: [UNKNOWN; MAX_LABELS],
        }
    }

    /// Replaces the last name. Shared suffixes keep hash and place.
    fn follow(&mut self, wire: &[u8]) {
        let common = common_end(&self.wire[..self.len], wire);
        let mut starts = [0_u8; MAX_LABELS];
        let (mut labels, mut at) = (0, 0);
        while let Some(length) = wire.get(at).filter(|length| **length > 0) {
            starts[labels] = u8::try_from(at).expect("names have at most 255 octets");
            labels += 1;
            at += usize::from(*length) + 1;
        }
        let mut shared = 0;
        let mut end = at.min(wire.len());
        for suffix in 1..=labels {
            let start = usize::from(starts[labels - suffix]);
            let octets = wire.len() - start;
            // A length octet may look like a letter, so the suffix counts only if a suffix of the last name began
            // there.
            let is_shared = shared + 1 == suffix
                && suffix <= self.labels
                && octets <= common
                && usize::from(self.octets[suffix]) == octets;
            if is_shared {
                shared = suffix;
            } else {
                self.octets[suffix] = u8::try_from(octets).expect("names have at most 255 octets");
                self.hashes[suffix] = mix(self.hashes[suffix - 1], &wire[start..end]);
                self.places[suffix] = UNKNOWN;
            }
            end = start;
        }
        let new = wire.len() - usize::from(self.octets[shared]);
        if self.len == wire.len() {
            self.wire[..new].copy_from_slice(&wire[..new]);
        } else {
            self.wire[..wire.len()].copy_from_slice(wire);
        }
        (self.len, self.labels) = (wire.len(), labels);
    }
}

impl Compressor {
    /// With room for `2^bits` suffixes.
    pub(super) fn new(bits: u32) -> Self {
        Self {
            table: Table {
                slots: vec![0; 1 << bits].into_boxed_slice(),
                epoch: 0,
                undo: Vec::new(),
            },
            trails: [const { Trail::new() }; 2],
            mode: Mode::Open,
            ordered: OrderedTrail::new(),
        }
    }

    pub(super) fn begin(&mut self) {
        self.forget_trails();
        self.mode = Mode::Open;
        if self.table.epoch == u16::MAX {
            self.table.slots.fill(0);
            self.table.epoch = 0;
        }
        self.table.epoch += 1;
    }

    /// Makes the names written so far final.
    pub(super) fn forget_undo(&mut self) {
        self.table.undo.clear();
    }

    /// Forgets all names written since [`Self::forget_undo`].
    pub(super) fn undo(&mut self) {
        self.forget_trails();
        for slot in self.table.undo.drain(..) {
            self.table.slots[slot] = 0;
        }
    }

    /// Forgets the places at or after `end`, where the message was cut.
    pub(super) fn cut(&mut self, end: usize) {
        self.forget_trails();
        for entry in &mut self.table.slots {
            // Only a cut over several records leads here. It is rare, so a pass over the small table is cheap enough.
            if place_of(*entry) >= end {
                *entry = 0;
            }
        }
    }

    const fn forget_trails(&mut self) {
        self.trails[0].len = 0;
        self.trails[0].labels = 0;
        self.trails[1].len = 0;
        self.trails[1].labels = 0;
    }

    /// Whether no name is written yet, except the question's.
    pub(super) fn is_open(&self) -> bool {
        self.mode == Mode::Open
    }

    /// Prepares for names in any order and in data: enters the names of the message into the table.
    pub(super) fn settle(&mut self, message: &[u8]) {
        if self.mode == Mode::Ordered {
            let mut pending = std::mem::take(&mut self.ordered.pending);
            let mut wire = Vec::with_capacity(MAX_NAME_OCTETS);
            for place in pending.drain(..) {
                wire.clear();
                self.enter(message, usize::from(place), &mut wire);
            }
            self.ordered.pending = pending;
        }
        self.mode = Mode::Table;
    }

    /// Enters the labels at a place, up to their pointer. `wire` is empty, and is filled with the whole name.
    fn enter(&mut self, message: &[u8], place: usize, wire: &mut Vec<u8>) {
        let (mut at, mut own) = (place, None);
        loop {
            let length = usize::from(message[at]);
            if length >= 0xc0 {
                own.get_or_insert(wire.len());
                at = (length & 0x3f) << 8 | usize::from(message[at + 1]);
                continue;
            }
            wire.extend_from_slice(&message[at..=at + length]);
            if length == 0 {
                break;
            }
            at += length + 1;
        }
        let own = own.unwrap_or(wire.len());
        let trail = &mut self.trails[Role::Owner as usize];
        trail.follow(wire);
        for suffix in (1..=trail.labels).rev() {
            let start = wire.len() - usize::from(trail.octets[suffix]);
            if start >= own {
                break;
            }
            trail.places[suffix] = self.table.remember(trail.hashes[suffix], place + start);
        }
    }

    /// Begins the order with the owner that was just written.
    pub(super) fn begin_order(&mut self, owner: OwnerRef<'_>) {
        let labels = owner.key.iter().filter(|octet| **octet == 0).count();
        let trail = &self.trails[Role::Owner as usize];
        if owner.relative.is_empty() && labels <= trail.labels {
            let places = &trail.places[trail.labels - labels..=trail.labels];
            self.ordered.begin(owner.key, places);
            self.mode = Mode::Ordered;
        }
    }

    /// The trail of the last owner and the count of labels that this owner shares with it, when both are in order.
    pub(super) fn in_order(&mut self, owner: OwnerRef<'_>) -> Option<(&mut OrderedTrail, usize)> {
        if self.mode != Mode::Ordered {
            return None;
        }
        let shared = self.ordered.shared(owner)?;
        Some((&mut self.ordered, shared))
    }

    /// Enters an uncompressed name of the message into the table.
    pub(super) fn note(&mut self, message: &[u8], place: usize) {
        let name = &message[place..];
        let Some(name) = wire_name_len(name).map(|length| &name[..length]) else {
            return;
        };
        let trail = &mut self.trails[Role::Owner as usize];
        trail.follow(name);
        for suffix in 1..=trail.labels {
            let at = place + name.len() - usize::from(trail.octets[suffix]);
            trail.places[suffix] = self.table.remember(trail.hashes[suffix], at);
        }
    }

    /// Writes a name to the end of a message that begins at `base`, the longest known suffix as a pointer, and stores
    /// its place.
    pub(super) fn write(&mut self, octets: &mut Vec<u8>, base: usize, wire: &[u8], role: Role) {
        let trail = &mut self.trails[role as usize];
        let is_same = trail.len == wire.len() && trail.wire[..trail.len] == *wire;
        if !is_same {
            trail.follow(wire);
        }
        let message = &octets[base..];
        let here = message.len();
        let mut known = trail.labels;
        while known > 0 && trail.places[known] == UNKNOWN {
            let suffix = &wire[wire.len() - usize::from(trail.octets[known])..];
            if let Some(place) = self.table.find(message, trail.hashes[known], suffix) {
                trail.places[known] = place;
            } else {
                known -= 1;
            }
        }
        if known == 0 {
            octets.extend_from_slice(wire);
        } else {
            let new = wire.len() - usize::from(trail.octets[known]);
            octets.extend_from_slice(&wire[..new]);
            octets.extend_from_slice(&(trail.places[known] | 0xc000).to_be_bytes());
        }
        for suffix in (known + 1)..=trail.labels {
            let at = here + wire.len() - usize::from(trail.octets[suffix]);
            trail.places[suffix] = self.table.remember(trail.hashes[suffix], at);
        }
    }
}

impl Table {
    fn find(&self, message: &[u8], hash: u64, suffix: &[u8]) -> Option<u16> {
        let hash = upper(hash);
        let mut slot = self.slot(hash);
        for _ in 0..PROBES {
            let entry = self.slots[slot];
            if entry >> 48 != u64::from(self.epoch) {
                return None;
            }
            let place = place_of(entry);
            if (entry >> 16) & 0xffff_ffff == u64::from(hash) && spells(message, place, suffix) {
                return u16::try_from(place).ok();
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        None
    }

    /// Stores the place of a suffix if a pointer can reach it. Returns the place in its stored form.
    fn remember(&mut self, hash: u64, place: usize) -> u16 {
        let Some(kept) = u16::try_from(place).ok().filter(|_| place < POINTER_END) else {
            return UNKNOWN;
        };
        let hash = upper(hash);
        let mut slot = self.slot(hash);
        for _ in 0..PROBES {
            if self.slots[slot] >> 48 != u64::from(self.epoch) {
                let epoch = u64::from(self.epoch) << 48;
                self.slots[slot] = epoch | u64::from(hash) << 16 | u64::from(kept);
                self.undo.push(slot);
                break;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        kept
    }

    fn slot(&self, hash: u32) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}

/// Whether the octets at a place of a message are this uncompressed name, letter by letter.
fn spells(message: &[u8], place: usize, name: &[u8]) -> bool {
    let mut at = place;
    let mut rest = name;
    loop {
        let Some(length) = message.get(at) else {
            return false;
        };
        if *length >= 0xc0 {
            let low = message.get(at + 1).copied().unwrap_or_default();
            let target = usize::from(length & 0x3f) << 8 | usize::from(low);
            if target >= at {
                return false;
            }
            at = target;
            continue;
        }
        let octets = usize::from(*length) + 1;
        match (message.get(at..at + octets), rest.get(..octets)) {
            (Some(ours), Some(theirs)) if ours == theirs => {}
            _ => return false,
        }
        if *length == 0 {
            return true;
        }
        at += octets;
        rest = &rest[octets..];
    }
}

/// The octets that two names have in common at their ends.
fn common_end(one: &[u8], other: &[u8]) -> usize {
    let mut common = 0;
    for (a, b) in one.rchunks_exact(8).zip(other.rchunks_exact(8)) {
        let [a, b] =
            [a, b].map(|chunk| u64::from_be_bytes(chunk.try_into().expect("eight octets")));
        if a != b {
            return common + (a ^ b).trailing_zeros() as usize / 8;
        }
        common += 8;
    }
    let rest = one[..one.len() - common].iter().rev();
    let rest = rest.zip(other[..other.len() - common].iter().rev());
    common + rest.take_while(|(a, b)| a == b).count()
}

const fn place_of(entry: u64) -> usize {
    (entry & 0xffff) as usize
}

const fn upper(hash: u64) -> u32 {
    (hash >> 32) as u32
}

/// Adds the hash of a label to that of the labels behind it. Labels often differ in their last letters only
/// (addresses, numbers). Both halves of each product count, so that such letters reach every bit.
fn mix(seed: u64, label: &[u8]) -> u64 {
    let mut hash = seed ^ (label.len() as u64);
    let mut chunks = label.chunks_exact(8);
    for chunk in &mut chunks {
        let word = u64::from_le_bytes(chunk.try_into().expect("chunks have 8 octets"));
        hash = folded_product(hash ^ word);
    }
    let mut word = [0; 8];
    let tail = chunks.remainder();
    word[..tail.len()].copy_from_slice(tail);
    folded_product(hash ^ u64::from_le_bytes(word))
}

/// The two halves of a product with an odd constant (2^64 over the golden ratio), XORed.
fn folded_product(word: u64) -> u64 {
    let product = u128::from(word) * 0x9e37_79b9_7f4a_7c15;
    let [a, b, c, d, e, f, g, h, ..] = (product ^ (product >> 64)).to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_ends_are_counted_in_octets() {
        for (one, other, want) in [
            ("", "", 0),
            ("a", "", 0),
            ("abcdefgh", "abcdefgh", 8),
            ("xbcdefgh", "abcdefgh", 7),
            ("abcdefgx", "abcdefgh", 0),
            ("0123abcdefgh", "x123abcdefgh", 11),
            ("0123abcdefgh", "3abcdefgh", 9),
            ("01234567abcdxfgh", "01234567abcdefgh", 3),
            ("aaaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaaa1", 17),
        ] {
            assert_eq!(
                common_end(one.as_bytes(), other.as_bytes()),
                want,
                "{one} {other}"
            );
            assert_eq!(
                common_end(other.as_bytes(), one.as_bytes()),
                want,
                "{other} {one}"
            );
        }
    }

    #[test]
    fn what_only_looks_like_a_common_label_is_not_pointed_to() {
        // The second label of the first name is the letters 0x03 c o m after an a: no label begins there.
        let first = b"\x05a\x03com\x03org\x00";
        let second = b"\x01b\x03com\x03org\x00";
        let mut compressor = Compressor::new(4);
        compressor.begin();
        let mut octets = vec![0; 12];
        compressor.write(&mut octets, 0, first, Role::Owner);
        compressor.write(&mut octets, 0, second, Role::Owner);
        // "b" and "com" are written, "org" is a pointer.
        assert_eq!(octets[12 + first.len()..], *b"\x01b\x03com\xc0\x12");
    }
}
