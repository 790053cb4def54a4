//! Ed25519 keys (RFC 8032) in the files that openssl reads and writes, and their signatures.
//!
//! The private key is PKCS#8 in PEM, the public key is `SubjectPublicKeyInfo` in PEM (RFC 8410). A signature is the bare 64
//! bytes, so `openssl pkeyutl -verify -rawin` checks it.

use std::fmt;
use std::path::Path;

use pki_types::pem::PemObject;
use pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use crate::Hash;

/// The DER before the 32 bytes of a public key: algorithm 1.3.101.112 without parameters, and the head of a bit string
/// (RFC 8410 section 4).
const PUBLIC_KEY_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// The reason why a key file cannot be used. No variant has a part of the file.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It cannot be read, or has no private key.
    #[error("no private key can be read: {0}")]
    NoPrivateKey(String),
    /// It has a private key of another kind.
    #[error("it is no Ed25519 key: {0}")]
    OtherKey(String),
    /// It cannot be read, or has no public key.
    #[error("no public key can be read: {0}")]
    NoPublicKey(String),
    /// It has a public key of another kind.
    #[error("it is no Ed25519 public key")]
    OtherPublicKey,
}

/// A key that signs.
pub struct SigningKey(Ed25519KeyPair);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey {}", self.id())
    }
}

impl SigningKey {
    /// How a key is made, for people.
    pub const FIX: &'static str =
        "make a key with `openssl genpkey -algorithm ed25519 -out KEYFILE`";

    /// Reads a private key.
    ///
    /// # Errors
    /// [`KeyError::NoPrivateKey`], [`KeyError::OtherKey`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let der = PrivatePkcs8KeyDer::from_pem_file(file)
            .map_err(|error| KeyError::NoPrivateKey(error.to_string()))?;
        // openssl writes keys without the public half, which the stricter function refuses.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
            .map_err(|error| KeyError::OtherKey(error.to_string()))?;
        Ok(Self(pair))
    }

    /// The SHA-256 of the public key.
    #[must_use]
    pub fn id(&self) -> Hash {
        id_of(self.0.public_key().as_ref())
    }

    /// The signature of a text.
    #[must_use]
    pub fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

/// A key that checks signatures.
#[derive(Debug)]
pub struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads a public key.
    ///
    /// # Errors
    /// [`KeyError::NoPublicKey`], [`KeyError::OtherPublicKey`].
    pub fn read(file: &Path) -> Result<Self, KeyError> {
        let der = SubjectPublicKeyInfoDer::from_pem_file(file)
            .map_err(|error| KeyError::NoPublicKey(error.to_string()))?;
        match der.strip_prefix(PUBLIC_KEY_HEAD.as_slice()) {
            Some(key) if key.len() == 32 => Ok(Self(key.to_vec())),
            _ => Err(KeyError::OtherPublicKey),
        }
    }

    /// The SHA-256 of the key.
    #[must_use]
    pub fn id(&self) -> Hash {
        id_of(&self.0)
    }

    /// Whether a signature is that of a text.
    #[must_use]
    pub fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(text, signature).is_ok()
    }
}

/// The SHA-256 of a public key as DER, which `openssl pkey -pubin -outform DER | sha256sum` prints, too.
fn id_of(key: &[u8]) -> Hash {
    sha256(&[&PUBLIC_KEY_HEAD, key].concat())
}

fn sha256(octets: &[u8]) -> Hash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, octets).as_ref());
    Hash::from_octets(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of RFC 8410 section 10.3, and its public half (section 10.1).
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
        -----END PRIVATE KEY-----\n";
    const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n\
        -----END PUBLIC KEY-----\n";

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn a_key_and_its_public_half_have_one_id_and_only_its_own_signature_is_good() {
        let key = SigningKey::read(file(PRIVATE).path()).unwrap();
        let public = PublicKey::read(file(PUBLIC).path()).unwrap();
        assert_eq!(key.id(), public.id());
        let signature = key.sign(b"a text");
        assert_eq!(signature.len(), 64);
        assert!(public.has_signed(b"a text", &signature));
        for at in 0..signature.len() {
            let mut changed = signature.clone();
            changed[at] ^= 1;
            assert!(!public.has_signed(b"a text", &changed), "byte {at}");
        }
        assert!(!public.has_signed(b"a texT", &signature));
        assert!(!public.has_signed(b"a text", &signature[1..]));
        assert!(!public.has_signed(b"a text", &[]));
    }

    #[test]
    fn no_error_and_no_debug_text_has_a_part_of_the_key() {
        let secret = "MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp";
        let cut = file(&PRIVATE.replace("dVhC", ""));
        let error = SigningKey::read(cut.path()).unwrap_err();
        let key = SigningKey::read(file(PRIVATE).path()).unwrap();
        let public = PublicKey::read(file(PRIVATE).path()).unwrap_err();
        for text in [
            error.to_string(),
            format!("{error:?}"),
            public.to_string(),
            format!("{key:?}"),
        ] {
            assert!(!text.contains(&secret[28..]), "{text}");
        }
        let none = SigningKey::read(Path::new("/nowhere/key.pem")).unwrap_err();
        assert!(none.to_string().starts_with("no private key can be read: "));
    }
}
