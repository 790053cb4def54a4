//! `verify --note FILE`: signed notes that were kept elsewhere, and the versions that they name.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::path::Path;

use history::{Note, NoteError, Noted, Output, SCHEMA, SignedNote, read_notes};
use ops::TimeText;
use serde_json::json;
use zone::Hash;
use zone::journal::Damage;
use zone::signing::PublicKey;

use crate::cli::evidence::{OTHER_KEY, other_key, signature_of, unreadable};
use crate::cli::file_faults::write_faults;
use crate::failure::Failure;

/// What notes are of that name different versions with one number.
const TWO_HISTORIES: &str =
    "the notes are of two histories: after a restore of an old state folder they go to a new file";
/// The most faults that are kept.
const FAULTS_KEPT: usize = 100;

/// Notes that were read; none by default.
#[derive(Debug, Default)]
pub(crate) struct CheckedNotes {
    /// The file; empty without one.
    file: String,
    /// The number of good notes.
    count: u64,
    /// The times of the first and the last of them, milliseconds since 1970 UTC.
    times_ms: Option<(u64, u64)>,
    /// The key that checked the signatures, as its SHA-256.
    key: Option<Hash>,
    faults: Vec<(Damage, String)>,
    /// The other keys that notes say they are signed with, and how many do.
    others: BTreeMap<Hash, u64>,
    /// The zones of which two versions have the same number, each with the first of them.
    twofold: BTreeMap<String, String>,
    /// The versions that the good ones name, each once.
    pub(crate) noted: Vec<Noted>,
    /// The hash of each version, and the line that has it.
    hashes: BTreeMap<(String, u64), (Hash, u64)>,
}

impl CheckedNotes {
    /// Reads and checks a file of notes, or a single one with its signature beside it.
    pub(crate) fn read(path: &Path, key: Option<&PublicKey>) -> Result<Self, Failure> {
        let mut notes = Self {
            file: path.display().to_string(),
            key: key.map(PublicKey::id),
            ..Self::default()
        };
        let signature = signature_of(path);
        if signature.exists() {
            let text = fs::read(path).map_err(|error| unreadable(path, &error))?;
            let signature = fs::read(&signature).map_err(|error| unreadable(&signature, &error))?;
            let read = Note::parse(&text).map(|note| SignedNote { note, signature });
            notes.take_in(1, read, key);
            return Ok(notes);
        }
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let mut each = |line, read| notes.take_in(line, read, key);
        read_notes(&mut BufReader::new(file), &mut each)
            .map_err(|error| unreadable(path, &error))?;
        if notes.count == 0 && notes.faults.is_empty() && notes.others.is_empty() {
            notes.fault(Damage::Lost, "there is no note in it".to_owned());
        }
        Ok(notes)
    }

    /// Whether no file was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.file.is_empty()
    }

    fn fault(&mut self, damage: Damage, what: String) {
        if self.faults.len() < FAULTS_KEPT {
            self.faults.push((damage, what));
        }
    }

    fn take_in(&mut self, line: u64, read: Result<SignedNote, NoteError>, key: Option<&PublicKey>) {
        let SignedNote { note, signature } = match read {
            Ok(signed) => signed,
            Err(error) => return self.fault(Damage::Changed, format!("line {line}: {error}")),
        };
        if let Some(key) = key
            && !key.has_signed(note.text().as_bytes(), &signature)
        {
            let own = Note {
                key: key.id(),
                ..note.clone()
            };
            if own == note || key.has_signed(own.text().as_bytes(), &signature) {
                let what = format!("line {line}: the signature is not that of the note");
                return self.fault(Damage::Changed, what);
            }
            *self.others.entry(note.key).or_default() += 1;
            return;
        }
        self.count += 1;
        let (first, last) = self.times_ms.unwrap_or((note.time_ms, note.time_ms));
        self.times_ms = Some((first.min(note.time_ms), last.max(note.time_ms)));
        for zone in note.zones {
            let name = zone.zone.to_lower().to_string();
            let of = (name.clone(), zone.version);
            let (hash, earlier) = *self.hashes.entry(of).or_insert((zone.hash, line));
            if hash != zone.hash {
                let version = zone.version;
                self.twofold.entry(name).or_insert_with_key(|name| {
                    format!(
                        "version {version} of {name} has another hash in line {line} than in line {earlier}"
                    )
                });
            } else if earlier == line {
                self.noted.push(Noted {
                    zone: name,
                    version: zone.version,
                    hash: hash.to_string(),
                });
            }
        }
    }

    /// Why notes that are as they were written do not prove what they say, with the damage as programs read it.
    fn remarks(&self) -> Vec<(Damage, String)> {
        let two = self.twofold.values().map(|what| {
            let what = format!("the notes are of two histories: {what}");
            (Damage::Chain, what)
        });
        let other =
            { self.others.iter().zip(self.key.iter().cycle()) }.map(|((other, count), key)| {
                let what = format!("notes: {count}, {}", other_key(*other, *key));
                (Damage::Unknown, what)
            });
        two.chain(other).collect()
    }

    /// Writes what is known of the notes themselves.
    pub(crate) fn write(&self, output: Output, out: &mut dyn Write) -> io::Result<()> {
        let Self {
            file,
            count,
            times_ms,
            key,
            faults,
            others,
            twofold: _,
            noted: _,
            hashes: _,
        } = self;
        if self.is_empty() {
            return Ok(());
        }
        let remarks = self.remarks();
        let is_good = faults.is_empty() && remarks.is_empty();
        let signature = match (key, faults.is_empty(), others.is_empty()) {
            (None, _, _) => "unchecked",
            (Some(_), false, _) => "bad",
            (Some(_), true, false) => "otherKey",
            (Some(_), true, true) => "good",
        };
        if output == Output::Json {
            let all = faults.iter().chain(&remarks);
            let fault = |(damage, what): &(Damage, String)| json!({ "damage": damage.as_str(), "what": what });
            let line = json!({
                "schema": SCHEMA,
                "file": file,
                "good": is_good,
                "signature": signature,
                "notes": count,
                "faults": all.map(fault).collect::<Vec<_>>(),
            });
            return writeln!(out, "{line}");
        }
        write_faults(file, None, faults, output, out)?;
        for (_, what) in remarks {
            writeln!(out, "{file}: {what}")?;
        }
        if let (Some((first, last)), true) = (times_ms, is_good) {
            let (first, last) = (TimeText(*first), TimeText(*last));
            let (good, signature) = match key.is_some() {
                true => ("good; ", "signed with this key"),
                false => (
                    "",
                    "the signatures were not checked, --key FILE checks them",
                ),
            };
            writeln!(
                out,
                "{file}: {good}notes: {count}, from {first} to {last}; {signature}"
            )?;
        }
        Ok(())
    }

    /// The failure of notes that are not as they were written, or prove nothing.
    pub(crate) fn judge(&self) -> Result<(), Failure> {
        let why = if !self.faults.is_empty() {
            "not as it was written"
        } else if !self.twofold.is_empty() {
            TWO_HISTORIES
        } else if !self.others.is_empty() {
            OTHER_KEY
        } else {
            return Ok(());
        };
        let file = &self.file;
        Err(Failure::running(format!("{file}: {why}")))
    }
}
