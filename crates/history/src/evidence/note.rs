//! A note: the newest hash of each zone, in a text that is signed and kept elsewhere.
//!
//! The text is JSON in one fixed form: an object with sorted keys, without spaces and line breaks. So `jq -cj .note` prints
//! the bytes that are signed, and a text that was changed anywhere but in its values is found by writing it again.

use std::io::{self, BufRead, Read};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use dns::{Name, Serial};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use zone::Hash;

use crate::moment::TimeText;

/// The form that a note names.
const FORM: &str = "zonewright note 1";
/// The most bytes of a line: many times a note of the zones that one server can have.
const LINE_OCTETS: u64 = 16 << 20;

/// The newest version of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedZone {
    /// The zone.
    pub zone: Name,
    /// The number of the version in the zone's history.
    pub version: u64,
    /// The serial of the version.
    pub serial: Serial,
    /// The time of the version, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The hash of the version. It stands for all versions up to this one.
    pub hash: Hash,
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// The name of the server's machine or pod.
    pub server: String,
    /// The time of the note, milliseconds since 1970 UTC.
    pub time_ms: u64,
    /// The SHA-256 of the public key that checks the signature, as the DER of `SubjectPublicKeyInfo`.
    pub key: Hash,
    /// The zones that have a version, in the order of the configuration.
    pub zones: Vec<NotedZone>,
}

/// The reason why a note cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It is no note.
    #[error("it is no signed note of the form \"{FORM}\"")]
    Malformed,
    /// It has values, but other bytes than were written.
    #[error("it is not as it was written")]
    Changed,
}

impl Note {
    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            server,
            time_ms,
            key,
            zones,
        } = self;
        json!({
            "form": FORM,
            "key": key.to_string(),
            "server": server,
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
            "zones": zones.iter().map(NotedZone::json).collect::<Vec<_>>(),
        })
        .to_string()
    }

    /// Reads the text of a note.
    ///
    /// # Errors
    /// [`NoteError`].
    pub fn parse(text: &[u8]) -> Result<Self, NoteError> {
        let value: Value = serde_json::from_slice(text).map_err(|_| NoteError::Malformed)?;
        let note = Self::of(&value).ok_or(NoteError::Malformed)?;
        if note.text().as_bytes() == text {
            Ok(note)
        } else {
            Err(NoteError::Changed)
        }
    }

    fn of(value: &Value) -> Option<Self> {
        let zones = value["zones"].as_array()?.iter().map(NotedZone::of);
        Some(Self {
            server: value["server"].as_str()?.to_owned(),
            time_ms: value["timeMs"].as_u64()?,
            key: value["key"].as_str()?.parse().ok()?,
            zones: zones.collect::<Option<_>>()?,
        })
    }
}

impl NotedZone {
    fn json(&self) -> Value {
        let Self {
            zone,
            version,
            serial,
            time_ms,
            hash,
        } = self;
        json!({
            "zone": zone.to_string(),
            "version": version,
            "serial": serial.encode(),
            "time": TimeText(*time_ms).to_string(),
            "timeMs": time_ms,
            "hash": hash.to_string(),
        })
    }

    fn of(value: &Value) -> Option<Self> {
        Some(Self {
            zone: Name::parse(value["zone"].as_str()?).ok()?,
            version: value["version"].as_u64()?,
            serial: Serial::decode(value["serial"].as_u64()?.try_into().ok()?),
            time_ms: value["timeMs"].as_u64()?,
            hash: value["hash"].as_str()?.parse().ok()?,
        })
    }
}

/// A note with its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedNote {
    /// The note.
    pub note: Note,
    /// The signature of [`Note::text`].
    pub signature: Vec<u8>,
}

/// A line as it is written.
#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow)]
    note: &'a RawValue,
    signature: &'a str,
}

impl SignedNote {
    /// The signature as text.
    #[must_use]
    pub fn signature_text(&self) -> String {
        BASE64.encode(&self.signature)
    }

    /// The line of a file of notes, with its end.
    #[must_use]
    pub fn line(&self) -> String {
        let (text, signature) = (self.note.text(), self.signature_text());
        format!("{{\"note\":{text},\"signature\":\"{signature}\"}}\n")
    }

    /// Reads the line of a file of notes.
    ///
    /// # Errors
    /// [`NoteError`].
    pub fn parse(line: &[u8]) -> Result<Self, NoteError> {
        let written: Written<'_> =
            serde_json::from_slice(line).map_err(|_| NoteError::Malformed)?;
        let signed = Self {
            note: Note::parse(written.note.get().as_bytes())?,
            signature: BASE64
                .decode(written.signature)
                .map_err(|_| NoteError::Malformed)?,
        };
        if signed.line().as_bytes() == line {
            Ok(signed)
        } else {
            Err(NoteError::Changed)
        }
    }
}

/// Reads a file of notes and calls `each` with the number of each line and its note.
///
/// # Errors
/// When the file cannot be read.
pub fn read_notes(
    input: &mut dyn BufRead,
    each: &mut dyn FnMut(u64, Result<SignedNote, NoteError>),
) -> io::Result<()> {
    let mut text = Vec::new();
    for line in 1.. {
        text.clear();
        // The borrow keeps the rest of the input for the next line.
        let octets = (&mut *input)
            .take(LINE_OCTETS)
            .read_until(b'\n', &mut text)?;
        if octets == 0 {
            break;
        }
        if text.last() != Some(&b'\n') {
            input.skip_until(b'\n')?;
        }
        each(line, SignedNote::parse(&text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed() -> SignedNote {
        let zone = NotedZone {
            zone: Name::parse("we\\\"ird\\010.z.").unwrap(),
            version: 7,
            serial: Serial::decode(9),
            time_ms: 1_795_269_602_000,
            hash: Hash::from_octets([4; 32]),
        };
        let note = Note {
            server: "a\t\"server\"".to_owned(),
            time_ms: 1_795_269_603_000,
            key: Hash::from_octets([5; 32]),
            zones: vec![zone],
        };
        SignedNote {
            note,
            signature: vec![6; 64],
        }
    }

    #[test]
    fn a_line_that_is_changed_anywhere_is_not_the_one_that_was_written() {
        let signed = signed();
        let line = signed.line();
        assert_eq!(SignedNote::parse(line.as_bytes()), Ok(signed.clone()));
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        for at in 0..line.len() {
            for bit in 0..8 {
                let mut octets = line.clone().into_bytes();
                octets[at] ^= 1 << bit;
                let read = SignedNote::parse(&octets);
                // Names are equal whatever their case is, and bytes are not.
                let read = read.map(|read| read.line());
                assert_ne!(read.as_ref(), Ok(&line), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn the_text_of_a_note_is_in_its_line_and_has_sorted_keys() {
        let signed = signed();
        let text = signed.note.text();
        assert!(signed.line().contains(&text), "{text}");
        assert_eq!(Note::parse(text.as_bytes()), Ok(signed.note));
        let first = text.find("\"form\"").unwrap();
        let last = text.find("\"zones\"").unwrap();
        assert!(first < last && !text.contains(": "), "{text}");
    }

    #[test]
    fn each_line_of_a_file_is_read_for_itself() {
        let good = signed().line();
        let cut = &good[..good.len() - 9];
        let file = format!("{good}{cut}\n{good}no note\n{good}{cut}");
        let mut found = Vec::new();
        read_notes(&mut file.as_bytes(), &mut |line, read| {
            found.push((line, read.is_ok()));
        })
        .unwrap();
        let want = [true, false, true, false, true, false];
        let want: Vec<_> = (1..).zip(want).collect();
        assert_eq!(found, want);
    }
}
