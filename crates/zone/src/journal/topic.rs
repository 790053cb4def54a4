//! The subject of a search in the history: a name, a record or an object.

use dns::{Name, RrRef};
use provenance::{FactKey, Kind, ObjectKey};

use crate::digest::Hasher;
use crate::journal::codec::{BY_NAME, BY_OBJECT, BY_RECORD};

/// The subject of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Topic {
    kind: u8,
    /// The first bytes of the hash of the subject.
    hash: [u8; 8],
}

impl Topic {
    /// A topic of a kind of keys, with the hash of the bytes that `fill` adds.
    fn new(kind: u8, fill: impl FnOnce(&mut Hasher)) -> Self {
        let mut hasher = Hasher::new(kind);
        fill(&mut hasher);
        let mut hash = [0; 8];
        hash.copy_from_slice(&hasher.finish().as_octets()[..8]);
        Self { kind, hash }
    }

    /// Steps that touch a name.
    #[must_use]
    pub fn name(name: &Name) -> Self {
        Self::owner(name.as_wire())
    }

    /// Steps that touch an owner, given in wire form.
    pub(super) fn owner(owner: &[u8]) -> Self {
        Self::new(BY_NAME, |hasher| {
            hasher.update(&owner.to_ascii_lowercase());
        })
    }

    /// Steps that add or remove a record.
    #[must_use]
    pub fn record(rr: RrRef<'_>) -> Self {
        Self::new(BY_RECORD, |hasher| hasher.record(rr))
    }

    /// Steps that an object caused. Without a kind: steps that the configuration, a file or the store caused under
    /// this name.
    #[must_use]
    pub fn object(kind: Option<Kind>, key: &ObjectKey) -> Self {
        Self::new(BY_OBJECT, |hasher| {
            let kind = kind.map_or("", Kind::as_str);
            for text in [kind, "/", &key.namespace, "/", &key.name] {
                hasher.update(text.as_bytes());
            }
        })
    }

    /// Steps that an object caused.
    #[must_use]
    pub fn fact(key: &FactKey) -> Self {
        Self::object(Some(key.kind), &key.key)
    }

    /// The short hash in the list of a large step.
    pub(super) const fn print(&self) -> u32 {
        let [a, b, c, d, ..] = self.hash;
        u32::from_be_bytes([a, b, c, d])
    }

    /// The key of a step's index entry.
    pub(super) fn key(&self, id: u32, seq: u64) -> [u8; 21] {
        let mut key = [self.kind; 21];
        key[1..5].copy_from_slice(&id.to_be_bytes());
        key[5..13].copy_from_slice(&self.hash);
        key[13..].copy_from_slice(&seq.to_be_bytes());
        key
    }
}
