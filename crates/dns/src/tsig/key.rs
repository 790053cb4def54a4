//! TSIG keys: algorithms and secrets.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use ::hmac::{Hmac, KeyInit, Mac};
use arc_swap::ArcSwap;
use ring::hmac;
use sha2::Sha224;

use crate::Name;
use crate::tsig::RECORD_OCTETS;

/// A MAC algorithm (RFC 8945 section 6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Algorithm {
    /// hmac-sha1: for old peers.
    Sha1,
    /// hmac-sha224.
    Sha224,
    /// hmac-sha256.
    Sha256,
    /// hmac-sha256, its MAC cut to half.
    Sha256Half,
    /// hmac-sha384.
    Sha384,
    /// hmac-sha384, its MAC cut to half.
    Sha384Half,
    /// hmac-sha512.
    Sha512,
    /// hmac-sha512, its MAC cut to half.
    Sha512Half,
}

/// The text names no algorithm we have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown TSIG algorithm \"{0}\": write hmac-sha256, hmac-sha224, hmac-sha384, hmac-sha512 or, for old peers, hmac-sha1"
)]
pub struct UnknownAlgorithm(String);

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Sha1,
        Self::Sha224,
        Self::Sha256,
        Self::Sha256Half,
        Self::Sha384,
        Self::Sha384Half,
        Self::Sha512,
        Self::Sha512Half,
    ];

    /// The name as text, without the root's dot.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sha1 => "hmac-sha1",
            Self::Sha224 => "hmac-sha224",
            Self::Sha256 => "hmac-sha256",
            Self::Sha256Half => "hmac-sha256-128",
            Self::Sha384 => "hmac-sha384",
            Self::Sha384Half => "hmac-sha384-192",
            Self::Sha512 => "hmac-sha512",
            Self::Sha512Half => "hmac-sha512-256",
        }
    }

    /// The name in wire form: one label and the root.
    pub(super) const fn wire(self) -> &'static [u8] {
        match self {
            Self::Sha1 => b"\x09hmac-sha1\x00",
            Self::Sha224 => b"\x0bhmac-sha224\x00",
            Self::Sha256 => b"\x0bhmac-sha256\x00",
            Self::Sha256Half => b"\x0fhmac-sha256-128\x00",
            Self::Sha384 => b"\x0bhmac-sha384\x00",
            Self::Sha384Half => b"\x0fhmac-sha384-192\x00",
            Self::Sha512 => b"\x0bhmac-sha512\x00",
            Self::Sha512Half => b"\x0fhmac-sha512-256\x00",
        }
    }

    /// The algorithm with an uncut MAC. Some peers cut the MAC and use this name.
    pub(super) const fn uncut(self) -> Self {
        match self {
            Self::Sha1 | Self::Sha224 | Self::Sha256 | Self::Sha384 | Self::Sha512 => self,
            Self::Sha256Half => Self::Sha256,
            Self::Sha384Half => Self::Sha384,
            Self::Sha512Half => Self::Sha512,
        }
    }

    /// Whether a name in wire form is the algorithm's, whatever the case of its letters.
    pub(super) fn is_named(self, wire: &[u8]) -> bool {
        self.wire().eq_ignore_ascii_case(wire)
    }

    fn hasher(self, secret: &[u8]) -> Hasher {
        let of_ring = |algorithm| Hasher::Ring(hmac::Key::new(algorithm, secret));
        match self {
            Self::Sha1 => of_ring(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY),
            Self::Sha224 => Hasher::Sha224(Box::new(
                Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"),
            )),
            Self::Sha256 | Self::Sha256Half => of_ring(hmac::HMAC_SHA256),
            Self::Sha384 | Self::Sha384Half => of_ring(hmac::HMAC_SHA384),
            Self::Sha512 | Self::Sha512Half => of_ring(hmac::HMAC_SHA512),
        }
    }

    /// Octets of the hash: a secret should have as many (RFC 2104 section 3).
    #[must_use]
    pub const fn hash_octets(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 | Self::Sha256Half => 32,
            Self::Sha384 | Self::Sha384Half => 48,
            Self::Sha512 | Self::Sha512Half => 64,
        }
    }

    /// Octets of the MAC as it is sent.
    #[must_use]
    pub const fn mac_octets(self) -> usize {
        match self {
            Self::Sha1 | Self::Sha224 | Self::Sha256 | Self::Sha384 | Self::Sha512 => {
                self.hash_octets()
            }
            Self::Sha256Half | Self::Sha384Half | Self::Sha512Half => self.hash_octets() / 2,
        }
    }
}

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let bare = text.strip_suffix('.').unwrap_or(text);
        Self::ALL
            .into_iter()
            .find(|algorithm| algorithm.as_str().eq_ignore_ascii_case(bare))
            .ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

/// The most octets of a hash.
const MAX_HASH_OCTETS: usize = 64;

/// Computes MACs with the secret that it holds.
enum Hasher {
    Ring(hmac::Key),
    Sha224(Box<Hmac<Sha224>>),
}

impl Hasher {
    /// The whole MAC over pieces, at the front of the array.
    fn mac(&self, pieces: &[&[u8]]) -> [u8; MAX_HASH_OCTETS] {
        let mut octets = [0; MAX_HASH_OCTETS];
        match self {
            Self::Ring(key) => {
                let mut context = hmac::Context::with_key(key);
                pieces.iter().for_each(|piece| context.update(piece));
                let tag = context.sign();
                octets[..tag.as_ref().len()].copy_from_slice(tag.as_ref());
            }
            Self::Sha224(key) => {
                let mut context = Hmac::clone(key);
                pieces.iter().for_each(|piece| context.update(piece));
                let tag = context.finalize().into_bytes();
                octets[..tag.len()].copy_from_slice(&tag);
            }
        }
        octets
    }
}

/// A key that is shared with a peer.
pub struct Key {
    pub(super) name: Name,
    pub(super) algorithm: Algorithm,
    /// The secret, in the form of the MAC's implementation.
    hasher: Hasher,
}

impl Key {
    /// A key from its secret.
    #[must_use]
    pub fn new(name: &Name, algorithm: Algorithm, secret: &[u8]) -> Self {
        Self {
            name: name.to_lower(),
            algorithm,
            hasher: algorithm.hasher(secret),
        }
    }

    /// The name, in lower case.
    #[must_use]
    pub const fn name(&self) -> &Name {
        &self.name
    }

    /// Octets of a TSIG record of this key without error.
    #[must_use]
    pub fn tsig_octets(&self) -> usize {
        let names = self.name.as_wire().len() + self.algorithm.wire().len();
        names + RECORD_OCTETS + self.algorithm.mac_octets()
    }

    /// The MAC over pieces, cut as it is sent.
    pub(super) fn mac(&self, pieces: &[&[u8]]) -> Vec<u8> {
        self.hasher.mac(pieces)[..self.algorithm.mac_octets()].to_vec()
    }

    /// Whether a MAC, cut or whole, is right. Both sides are hashed once more, so the time taken does not show where
    /// they differ.
    pub(super) fn is_mac(&self, pieces: &[&[u8]], mac: &[u8]) -> bool {
        let right = self.hasher.mac(pieces);
        let Some(front) = right[..self.algorithm.hash_octets()].get(..mac.len()) else {
            return false;
        };
        self.hasher.mac(&[front]) == self.hasher.mac(&[mac])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.algorithm.as_str())
    }
}

/// The keys of the process, by name.
#[derive(Debug, Default)]
pub struct Keys(HashMap<Name, Arc<Key>>);

impl Keys {
    /// Takes keys. Of two with one name the last counts.
    #[must_use]
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        Self(
            keys.into_iter()
                .map(|key| (key.name.clone(), Arc::new(key)))
                .collect(),
        )
    }

    /// The key of a name.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&Arc<Key>> {
        self.0.get(name)
    }
}

/// The current keys, which can be replaced while others read them.
#[derive(Debug, Default)]
pub struct KeyRing(ArcSwap<Keys>);

impl KeyRing {
    /// Starts with these keys.
    #[must_use]
    pub fn new(keys: Keys) -> Self {
        Self(ArcSwap::from_pointee(keys))
    }

    /// The keys for one request. They stay the same until the guard is dropped.
    #[must_use]
    pub fn current(&self) -> arc_swap::Guard<Arc<Keys>> {
        self.0.load()
    }

    /// Replaces the keys. Exchanges that began with the old keys continue with them.
    pub fn replace(&self, keys: Keys) {
        self.0.store(Arc::new(keys));
    }
}
