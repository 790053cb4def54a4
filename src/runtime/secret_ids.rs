//! What names a secret of a Corefile in the history. Nobody can guess the secret from it: it depends on a random key in the state folder.
//!
//! The text of a Corefile that was read has the hash of each key of TSIG in its place, and the digest of a Corefile covers its
//! secrets. A person who may read the history could try secrets against both, as long as nothing secret is needed for that. The
//! key of the folder stays the same, so two versions can be compared.

use std::io;
use std::path::{Path, PathBuf};

use ring::hmac::{self, HMAC_SHA256, HMAC_SHA512};
use ring::rand::{SecureRandom, SystemRandom};
use zone::journal::serial_files::{sum, write_durably};
use zone::journal::{Damage, FileFinding};

/// The file in the state folder.
const FILE: &str = "corefile.key";
/// Where it is written before it is renamed.
const NEXT: &str = "corefile.key.next";
/// The bytes of the key.
const KEY_OCTETS: usize = 32;
/// What is before and after the hash of a secret in a text, see `directives`.
const BEFORE: &str = "(key-";
const AFTER: char = ')';
/// The digits of a SHA-256.
const HASH_DIGITS: usize = 64;
/// The bytes of an id.
const ID_OCTETS: usize = 8;

/// The key that a file has, which is before its checksum; `None` when it is damaged. Older releases wrote no checksum.
fn key_of(octets: &[u8]) -> Option<[u8; KEY_OCTETS]> {
    let (key, rest) = octets.split_first_chunk()?;
    (rest.is_empty() || rest == sum(key).as_bytes()).then_some(*key)
}

/// Checks the file for an auditor.
pub(crate) fn check(state: &Path) -> io::Result<Option<FileFinding>> {
    let octets = match std::fs::read(state.join(FILE)) {
        Ok(octets) => octets,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok(key_of(&octets).is_none().then(|| FileFinding {
        file: FILE,
        damage: Some(Damage::Changed),
        what: "the key of the ids of secrets is not as it was written: from the next start on secrets have other ids in the history, \
               and the Corefile another digest, though nobody changed them"
            .to_owned(),
    }))
}

/// Gives ids to secrets.
pub(crate) struct SecretIds {
    key: [u8; KEY_OCTETS],
    /// The state folder, if it does not have the key yet.
    unkept: Option<PathBuf>,
}

impl SecretIds {
    /// Those of a state folder. Nothing is written yet: a new folder has to be empty.
    ///
    /// # Errors
    /// When there are no random numbers, or the folder cannot be read.
    pub(crate) fn of(state: &Path) -> io::Result<Self> {
        match std::fs::read(state.join(FILE)) {
            Ok(octets) => {
                if let Some(key) = key_of(&octets) {
                    // The file of an older release gets a checksum.
                    let is_old = octets.len() == KEY_OCTETS;
                    let unkept = is_old.then(|| state.to_owned());
                    return Ok(Self { key, unkept });
                }
                tracing::warn!("the key of the ids of secrets is damaged: they have new ids");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut key = [0; KEY_OCTETS];
        let filled = SystemRandom::new().fill(&mut key);
        filled.map_err(|_| io::Error::other("there are no random numbers"))?;
        let unkept = Some(state.to_owned());
        Ok(Self { key, unkept })
    }

    /// Writes the key to the folder, if it is new.
    pub(crate) fn keep(&mut self) {
        let Some(state) = self.unkept.take() else {
            return;
        };
        let octets = [&self.key, sum(self.key).as_bytes()].concat();
        if let Err(error) = write_durably(&state, FILE, NEXT, &octets) {
            tracing::warn!(%error, "the key of the ids of secrets cannot be stored: they have other ids after the next start");
        }
    }

    /// The digest of a Corefile as others may see it.
    pub(crate) fn digest(&self, digest: &str) -> String {
        let key = hmac::Key::new(HMAC_SHA512, &self.key);
        hex(hmac::sign(&key, digest.as_bytes()).as_ref())
    }

    /// The text of a Corefile as others may see it.
    pub(crate) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once(BEFORE) {
            out.push_str(before);
            out.push_str(BEFORE);
            rest = after;
            let digits = after.chars().take_while(char::is_ascii_hexdigit).count();
            let (hash, end) = after.split_at(digits);
            if digits == HASH_DIGITS && end.starts_with(AFTER) {
                out.push_str(&self.id(hash));
                rest = end;
            }
        }
        out.push_str(rest);
        out
    }

    fn id(&self, hash: &str) -> String {
        let key = hmac::Key::new(HMAC_SHA256, &self.key);
        let tag = hmac::sign(&key, hash.as_bytes());
        hex(tag.as_ref().get(..ID_OCTETS).unwrap_or_default())
    }
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with the hash of a secret.
    fn with(hash: &str) -> String {
        format!("z {{\n    tsig {{\n        secret k. (key-{hash}) hmac-sha256\n    }}\n}}\n")
    }

    #[test]
    fn an_id_is_the_same_for_a_history_and_another_one_elsewhere() {
        let state = tempfile::tempdir().unwrap();
        let mut first = SecretIds::of(state.path()).unwrap();
        assert!(std::fs::read_dir(state.path()).unwrap().next().is_none());
        first.keep();
        let again = SecretIds::of(state.path()).unwrap();
        let elsewhere = SecretIds::of(Path::new("/nonexistent/state")).unwrap();
        let [one, two] = ["1", "2"].map(|digit| with(&digit.repeat(HASH_DIGITS)));
        assert_eq!(first.text(&one), again.text(&one));
        assert_eq!(first.digest("ab"), again.digest("ab"));
        assert_ne!(first.text(&one), first.text(&two));
        assert_ne!(first.text(&one), elsewhere.text(&one));
        assert_ne!(first.digest("ab"), elsewhere.digest("ab"));
        assert!(!first.text(&one).contains("11111111"));
        assert_eq!(first.text(&one).len(), with(&"1".repeat(16)).len());
    }

    #[test]
    fn other_words_of_a_text_stay() {
        let ids = SecretIds::of(Path::new("/nonexistent/state")).unwrap();
        for text in ["", "(key-", "(key-12)", "a (key-xyz) (key-", "ä(key-ä"] {
            assert_eq!(ids.text(text), text);
        }
    }
}
