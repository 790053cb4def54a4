//! Ed25519 keys (RFC 8032) in the files that openssl reads and writes, and their signatures.
//!
//! The private key is PKCS#8 in PEM, the public key is `SubjectPublicKeyInfo` in PEM (RFC 8410). A signature is the bare 64
//! bytes, so `openssl pkeyutl -verify -rawin` checks it.

use std::path::Path;

use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivatePkcs8KeyDer, SubjectPublicKeyInfoDer};
use zone::Hash;

use crate::failure::Failure;

/// The DER before the 32 bytes of a public key: algorithm 1.3.101.112 without parameters, and the head of a bit string
/// (RFC 8410 section 4).
const PUBLIC_KEY_HEAD: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// A key that signs.
pub(crate) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Reads a private key.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let unusable = |why: String| {
            let file = file.display();
            Failure::unusable(format!(
                "{file}: {why}; make a key with `openssl genpkey -algorithm ed25519 -out KEYFILE`"
            ))
        };
        let der = PrivatePkcs8KeyDer::from_pem_file(file)
            .map_err(|error| unusable(format!("no private key can be read: {error}")))?;
        // openssl writes keys without the public half, which the stricter function refuses.
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_pkcs8_der())
            .map_err(|error| unusable(format!("it is no Ed25519 key: {error}")))?;
        Ok(Self(pair))
    }

    /// The SHA-256 of the public key.
    pub(crate) fn id(&self) -> Hash {
        id_of(self.0.public_key().as_ref())
    }

    /// The signature of a text.
    pub(crate) fn sign(&self, text: &[u8]) -> Vec<u8> {
        self.0.sign(text).as_ref().to_vec()
    }
}

/// A key that checks signatures.
pub(crate) struct PublicKey(Vec<u8>);

impl PublicKey {
    /// Reads a public key.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let unusable = |why: String| Failure::unusable(format!("{}: {why}", file.display()));
        let der = SubjectPublicKeyInfoDer::from_pem_file(file)
            .map_err(|error| unusable(format!("no public key can be read: {error}")))?;
        match der.strip_prefix(PUBLIC_KEY_HEAD.as_slice()) {
            Some(key) if key.len() == 32 => Ok(Self(key.to_vec())),
            _ => Err(unusable("it is no Ed25519 public key".to_owned())),
        }
    }

    /// The SHA-256 of the key.
    pub(crate) fn id(&self) -> Hash {
        id_of(&self.0)
    }

    /// Whether a signature is that of a text.
    pub(crate) fn has_signed(&self, text: &[u8], signature: &[u8]) -> bool {
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
