//! The manifest of an export: which files there are, their sizes and digests, and the newest hash of each zone.
//!
//! It is JSON in one fixed form: an object with sorted keys, indented by two spaces, with a line break at the end. So a
//! manifest that was changed anywhere but in its values is found by writing it again.

use dns::Serial;
use serde_json::{Value, json};
use zone::Hash;

use crate::moment::TimeText;

/// The form that a manifest names.
const FORM: &str = "zonewright export 1";

/// A file of an export.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Its name, without a folder.
    pub file: String,
    /// Its size.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: Hash,
    /// The zone.
    pub zone: String,
    /// The number of versions.
    pub versions: u64,
    /// The serial of the newest version.
    pub serial: Serial,
    /// The time of the newest version, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The hash of the newest version.
    pub hash: Option<Hash>,
}

/// A manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The files, in the order of their names.
    pub files: Vec<FileEntry>,
    /// The time of the export, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The SHA-256 of the public key that checks the signature, as the DER of `SubjectPublicKeyInfo`; `None` when the
    /// manifest is not signed.
    pub key: Option<Hash>,
}

/// The reason why a manifest cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It is no manifest.
    #[error("it is no manifest of the form \"{FORM}\"")]
    Malformed,
    /// It has values, but other bytes than were written.
    #[error("it is not written as it was exported")]
    Changed,
}

impl Manifest {
    /// The text of the file.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            files,
            time_ms,
            key,
        } = self;
        let manifest = json!({
            "files": files.iter().map(FileEntry::json).collect::<Vec<_>>(),
            "form": FORM,
            "key": key.map(|key| key.to_string()),
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
        });
        format!("{manifest:#}\n")
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let value: Value = serde_json::from_slice(text).map_err(|_| ManifestError::Malformed)?;
        let manifest = Self::of(&value).ok_or(ManifestError::Malformed)?;
        if manifest.text().as_bytes() == text {
            Ok(manifest)
        } else {
            Err(ManifestError::Changed)
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let files = value["files"].as_array()?.iter().map(FileEntry::of);
        Some(Self {
            files: files.collect::<Option<_>>()?,
            time_ms: value["timeMs"].as_u64()?,
            key: hash_of(&value["key"])?,
        })
    }
}

/// A hash or null.
fn hash_of(value: &Value) -> Option<Option<Hash>> {
    if value.is_null() {
        return Some(None);
    }
    value.as_str()?.parse().ok().map(Some)
}

impl FileEntry {
    fn json(&self) -> Value {
        let Self {
            file,
            bytes,
            sha256,
            zone,
            versions,
            serial,
            time_ms,
            hash,
        } = self;
        json!({
            "file": file,
            "bytes": bytes,
            "sha256": sha256.to_string(),
            "zone": zone,
            "versions": versions,
            "serial": serial.encode(),
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
            "hash": hash.map(|hash| hash.to_string()),
        })
    }

    fn of(value: &Value) -> Option<Self> {
        let file = value["file"].as_str()?;
        let is_name = !file.is_empty() && !file.starts_with('.') && !file.contains(['/', '\0']);
        Some(Self {
            file: is_name.then(|| file.to_owned())?,
            bytes: value["bytes"].as_u64()?,
            sha256: hash_of(&value["sha256"])??,
            zone: value["zone"].as_str()?.to_owned(),
            versions: value["versions"].as_u64()?,
            serial: Serial::decode(value["serial"].as_u64()?.try_into().ok()?),
            time_ms: value["timeMs"].as_u64()?,
            hash: hash_of(&value["hash"])?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let entry = FileEntry {
            file: "z.ndjson".into(),
            bytes: 77,
            sha256: Hash::from_octets([3; 32]),
            zone: "z.".into(),
            versions: 4,
            serial: Serial::decode(9),
            time_ms: 1_795_269_602_000,
            hash: Some(Hash::from_octets([4; 32])),
        };
        Manifest {
            files: vec![entry],
            time_ms: 1_795_269_603_000,
            key: None,
        }
    }

    #[test]
    fn a_manifest_that_is_changed_anywhere_is_not_the_one_that_was_written() {
        let manifest = manifest();
        let text = manifest.text();
        assert_eq!(Manifest::parse(text.as_bytes()), Ok(manifest.clone()));
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut octets = text.clone().into_bytes();
                octets[at] ^= 1 << bit;
                let read = Manifest::parse(&octets);
                assert_ne!(read, Ok(manifest.clone()), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_file_of_a_manifest_is_in_its_folder() {
        for file in ["../z", "/etc/passwd", ".", "", "a/b"] {
            let mut manifest = manifest();
            manifest.files[0].file = file.to_owned();
            let read = Manifest::parse(manifest.text().as_bytes());
            assert_eq!(read, Err(ManifestError::Malformed), "{file}");
        }
    }
}
