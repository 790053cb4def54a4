//! `history [ZONES...] { keep D; versions N; size BYTES; archive URL; publish; require_reason; sign KEYFILE; note …; note_every D }`:
//! how much of a zone's history is stored, what operators have to say, and which hashes are published. Ours.

pub(crate) mod note;
pub(crate) mod version_name;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ::zone::signing::SigningKey;
use archive::Address;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use corefile::quantity::{duration_or_seconds, size};
use dns::Name;

use crate::config::block::{Directive, Repeat, ServerBlock};
use crate::config::zone;
use crate::config::zoned::{self, Zoned};

/// The limits of a zone's history. A limit that is not written is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones that it applies to, and all zones below them.
    pub zones: Vec<Name>,
    /// Older versions may be deleted.
    pub keep: Option<Duration>,
    /// If there are more versions, the oldest may be deleted.
    pub versions: Option<NonZeroU64>,
    /// If the history has more bytes, its oldest versions may be deleted.
    pub size_bytes: Option<NonZeroU64>,
    /// The address of the archive: versions leave the store only when it has them.
    pub archive: Option<Arc<str>>,
    /// Whether `_version` in the zone tells the served version.
    pub publishes: bool,
    /// Whether an order about the zone (`freeze`, `rollback`, `release`, `advance`) needs a reason.
    pub requires_reason: bool,
    /// The file of the key that signs notes, and exports that name this Corefile.
    pub sign: Option<PathBuf>,
    /// The places that get signed notes of the newest hashes.
    pub notes: Vec<note::NoteOption>,
    /// How often.
    pub note_every: Option<Duration>,
}

impl Directive for History {
    const WORD: &'static str = "history";
    const USAGE: &'static str = "history [ZONES…] { … }";
    const SUMMARY: &'static str =
        "sets how many old versions are kept, for how long, and who hears of their hashes";
    const OPTIONS: &'static str =
        "keep, versions, size, archive, publish, require_reason, sign, note and note_every";
    const REPEAT: Repeat = Repeat::Several;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut history = History {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
            keep: None,
            versions: None,
            size_bytes: None,
            archive: None,
            publishes: false,
            requires_reason: false,
            sign: None,
            notes: Vec::new(),
            note_every: None,
        };
        if directive.lines.is_empty() {
            let fix = format!("write a block: its options are {}", Self::OPTIONS);
            report.error(&history.place, "history has no options", fix);
        }
        for line in &directive.lines {
            history.read_option(directive, line, report);
        }
        Some(history)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        zoned::check::<Self>(blocks, report);
        note::check(blocks, report);
    }
}

impl History {
    fn read_option(&mut self, directive: &Statement, line: &Line, report: &mut Report) {
        match line.name.text.as_str() {
            "keep" => {
                let value = line.value("DURATION", duration_or_seconds, report);
                line.set(&mut self.keep, value, report);
            }
            "versions" => {
                let parse = |text: &str| text.parse().map_err(|_| "not a whole number from 1");
                let value = line.value("NUMBER", parse, report);
                line.set(&mut self.versions, value, report);
            }
            "size" => {
                let parse = |text: &str| {
                    let size = size(text).map_err(|error| error.to_string())?;
                    NonZeroU64::new(size)
                        .ok_or_else(|| "the size is too small for any version".to_owned())
                };
                let value = line.value("BYTES", parse, report);
                line.set(&mut self.size_bytes, value, report);
            }
            "archive" => {
                let parse = |text: &str| {
                    let address = Address::parse(text).map_err(|error| error.to_string());
                    address.map(|_| Arc::from(text))
                };
                let value = line.value("URL", parse, report);
                line.set(&mut self.archive, value, report);
            }
            "publish" => {
                line.refuse_arguments(report);
                self.publishes = true;
            }
            "require_reason" => {
                line.refuse_arguments(report);
                self.requires_reason = true;
            }
            "sign" => {
                let value = key_file(directive, line, report);
                line.set(&mut self.sign, value, report);
            }
            "note" => {
                if let Some(note) = note::read(directive, line, report)
                    && !self.notes.iter().any(|it| it.target == note.target)
                {
                    self.notes.push(note);
                }
            }
            "note_every" => {
                let value = line.value("DURATION", note::interval, report);
                line.set(&mut self.note_every, value, report);
            }
            _ => directive.unknown_option(line, Self::OPTIONS, report),
        }
    }
}

/// Reads `sign KEYFILE`. The key is tried, so that a bad one is found before it is needed.
fn key_file(directive: &Statement, line: &Line, report: &mut Report) -> Option<PathBuf> {
    let token = line.exactly_one("KEYFILE", report)?;
    let path = directive.path(&token.text);
    if let Err(error) = SigningKey::read(&path) {
        let message = format!("sign {}: {error}", token.shown());
        report.error(&token.place, message, SigningKey::FIX);
    }
    Some(path)
}

impl Zoned for History {
    fn zones(&self) -> &[Name] {
        &self.zones
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn candidates(block: &ServerBlock) -> Vec<&Name> {
        block.zones_written().collect()
    }
}

#[cfg(test)]
mod tests;
