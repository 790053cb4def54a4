//! `verify`: the history of a store, part by part, or an export.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dns::Name;
use history::{Anchors, AuditError, Noted, Output, Request, ZoneParts, write_verdicts};
use serde::{Deserialize, Serialize};
use zone::Hash;
use zone::journal::{PartVerdict, SegmentPart, SegmentsVerdict, Verdict};

use crate::cli::answered::{Asked, read_json};
use crate::cli::args::VerifyWanted;
use crate::cli::commands::print;
use crate::cli::evidence::{
    Sought, export_of, read_public_key, unreadable, verify_export, without_manifest,
};
use crate::cli::notes::CheckedNotes;
use crate::cli::progress::Progress;
use crate::cli::stopped::refused;
use crate::failure::Failure;

/// The most hashes that are looked for in a part: a running server takes a question of 64 KiB.
const MOST_HASHES: usize = 900;

/// `verify`.
///
/// # Errors
/// When there is no answer, or the history is not as it was written.
pub fn verify(wanted: VerifyWanted) -> Result<(), Failure> {
    let VerifyWanted {
        target,
        anchor: anchors,
        note,
        key,
        resume,
        reading,
    } = wanted;
    let export = target.as_deref().map(export_of).transpose()?.flatten();
    if key.is_some() && export.is_none() && note.is_none() {
        return Err(Failure::unusable(
            "--key checks the manifest of an export, or notes: name manifest.json or FILE.ndjson, or --note FILE",
        ));
    }
    if resume.is_some() && export.is_some() {
        return Err(Failure::unusable(
            "--resume is for a store with an archive; a file is read in one pass",
        ));
    }
    let key = key.as_deref().map(read_public_key).transpose()?;
    let output = reading.asking.output;
    let notes = match note {
        Some(file) => CheckedNotes::read(&file, key.as_ref())?,
        None => CheckedNotes::default(),
    };
    let mut text = Vec::new();
    let written = notes.write(output, &mut text);
    written.map_err(|error| Failure::running(error.to_string()))?;
    print(&String::from_utf8_lossy(&text))?;
    text.clear();
    let verified = match export {
        Some(file) => {
            let sought = Sought {
                anchors: &anchors,
                noted: &notes.noted,
                key: key.as_ref(),
                is_for_notes: !notes.is_empty(),
            };
            verify_export(&file, &sought, output, &mut text)
        }
        None => Store {
            zone: target,
            anchors: Anchors::parse(&anchors, &notes.noted).map_err(refused)?,
            has_notes: !notes.noted.is_empty(),
            sound: match resume {
                Some(file) => Sound::open(file, (anchors, notes.noted.clone()))?,
                None => Sound::default(),
            },
            asked: Asked::of(&reading),
        }
        .verify(output, &mut text),
    };
    print(&String::from_utf8_lossy(&text))?;
    // What is wrong with the notes comes before what is not known of the history.
    notes.judge().and(verified)
}

/// A store that is to be verified.
struct Store {
    /// Only this zone.
    zone: Option<String>,
    anchors: Anchors,
    /// Whether some of them are of notes.
    has_notes: bool,
    /// What is known to be good.
    sound: Sound,
    asked: Asked,
}

impl Store {
    /// Verifies the zones, and writes what was found.
    fn verify(mut self, output: Output, out: &mut dyn Write) -> Result<(), Failure> {
        if let Some(folder) = self.zone.clone().filter(|zone| Path::new(zone).is_dir())
            && !self.has_zone(&folder)
        {
            return Err(Failure::unusable(without_manifest(&folder)));
        }
        let zones = match self.asked.parts(self.zone.clone()) {
            // All zones of the notes are gone.
            Ok(zones) if zones.is_empty() && !self.has_notes => {
                return Err(refused(AuditError::NothingStored));
            }
            zones => zones?,
        };
        if let (Some(_), [only]) = (&self.zone, &*zones) {
            let zone = name_of(only)?;
            self.anchors = self.anchors.about(&zone).map_err(refused)?;
        }
        let files = self.asked.files()?;
        let mut found = Vec::new();
        for parts in &zones {
            found.push((name_of(parts)?, self.verdict_of(parts)?));
        }
        let written = files.write(output, out);
        written.map_err(|error| Failure::running(error.to_string()))?;
        let anchors = self.anchors.of_unknown(files.is_not_known());
        let verified = write_verdicts(found, &anchors, output, out);
        files.judge(verified.map_err(refused))
    }

    /// Whether there is a store, and it has a zone with this name.
    fn has_zone(&mut self, text: &str) -> bool {
        let zones = self.asked.parts(None).unwrap_or_default();
        let name = Name::parse(text).map(|name| name.to_lower().to_string());
        name.is_ok_and(|name| zones.iter().any(|known| known.zone == name))
    }

    /// Verifies the parts of a zone, oldest first. A segment may be added meanwhile.
    fn verdict_of(&mut self, zone: &ZoneParts) -> Result<Verdict, Failure> {
        let progress = Progress::begin(format!("verify {}", zone.zone), zone.versions());
        let mut segments = SegmentsVerdict::default();
        let mut listed = zone.segments.clone();
        // The versions of segments, from the first one up to the next one. The old part of the history is before them.
        let first = zone.segments.first().map_or(zone.oldest, |it| it.first);
        let mut next = first;
        loop {
            for part in &listed {
                match self.sound.verdict_of(&zone.zone, part) {
                    Some(known) => segments.reuse(part, known),
                    None if segments.is_away() => segments.skip(part),
                    None => {
                        // The first version names the hash of the one before it.
                        let is_there = |version| part.first <= version + 1 && version <= part.last;
                        let found = self.verify_part(&zone.zone, Some(part.first), &is_there)?;
                        self.sound.add(&zone.zone, part, &found)?;
                        segments.add(part, found);
                    }
                }
                progress.add(part.versions());
                next = part.until + 1;
            }
            // Versions of segments may still be here, too.
            let is_here = |version| version < first || zone.here <= version + 1;
            let here = self.verify_part(&zone.zone, None, &is_here)?;
            listed.clear();
            if here.verdict.oldest.0 > next {
                let now = self.asked.parts(Some(zone.zone.clone()))?;
                let added = now.into_iter().flat_map(|zone| zone.segments);
                listed.extend(added.filter(|part| part.first >= next));
            }
            if listed.is_empty() {
                return Ok(segments.join(here));
            }
        }
    }

    /// Verifies a segment, or what is stored here; `is_there` says which versions may be there.
    fn verify_part(
        &mut self,
        zone: &str,
        first: Option<u64>,
        is_there: &dyn Fn(u64) -> bool,
    ) -> Result<PartVerdict, Failure> {
        let name = Name::parse(zone).map_err(|error| Failure::running(error.to_string()))?;
        let anchors = self.anchors.hashes_among(&name, is_there);
        if anchors.len() > MOST_HASHES {
            return Err(Failure::unusable(format!(
                "{} hashes of {zone} are more than fit into one question; cut the file of notes into pieces with `split -l`, \
                 or verify an exported history: zonewright verify FILE.ndjson --note FILE",
                anchors.len()
            )));
        }
        let request = Request::Part {
            zone: zone.to_owned(),
            first,
            anchors,
        };
        read_json(&self.asked.answer(request, Output::Json)?)
    }
}

fn name_of(zone: &ZoneParts) -> Result<Name, Failure> {
    Name::parse(&zone.zone).map_err(|error| Failure::running(error.to_string()))
}

/// A segment that was verified, a line of the file.
#[derive(Debug, Serialize, Deserialize)]
struct SoundSegment {
    zone: String,
    segment: SegmentPart,
    verdict: PartVerdict,
}

/// The first line of the file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SoundHead {
    /// What the file is.
    form: String,
    /// The hashes that were looked for.
    anchors: Vec<String>,
    /// Those of notes.
    noted: Vec<Noted>,
}

/// The segments that are known to be good, in a file if there is one.
#[derive(Debug, Default)]
struct Sound {
    file: Option<(PathBuf, File)>,
    known: HashMap<(String, Hash), (SegmentPart, PartVerdict)>,
}

impl Sound {
    /// Reads a file; makes it if it is not there.
    fn open(path: PathBuf, (anchors, noted): (Vec<String>, Vec<Noted>)) -> Result<Self, Failure> {
        let head = SoundHead {
            form: "zonewright verify --resume 1".to_owned(),
            anchors,
            noted,
        };
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(unreadable(&path, &error)),
        };
        let mut lines = text.split(|octet| *octet == b'\n');
        let first: Option<SoundHead> = lines
            .next()
            .and_then(|line| serde_json::from_slice(line).ok());
        if !text.is_empty() && first.as_ref() != Some(&head) {
            let what = match first {
                Some(_) => "it is of a verification with other hashes",
                None => "it is another file",
            };
            return Err(Failure::unusable(format!(
                "{}: {what}; name a new file with --resume",
                path.display()
            )));
        }
        // A line that is not whole, at an interruption, is read again.
        let known = lines.filter_map(|line| serde_json::from_slice::<SoundSegment>(line).ok());
        let known = known
            .map(|it| ((it.zone, it.segment.digest), (it.segment, it.verdict)))
            .collect();
        let opened = OpenOptions::new().append(true).create(true).open(&path);
        let mut file = opened.map_err(|error| unreadable(&path, &error))?;
        let begin = match text.last() {
            None => format!("{}\n", serde_json::json!(head)),
            Some(b'\n') => String::new(),
            Some(_) => "\n".to_owned(),
        };
        file.write_all(begin.as_bytes())
            .map_err(|error| unreadable(&path, &error))?;
        Ok(Self {
            file: Some((path, file)),
            known,
        })
    }

    /// The verdict about a segment that is known to be good.
    fn verdict_of(&self, zone: &str, part: &SegmentPart) -> Option<PartVerdict> {
        let (known, verdict) = self.known.get(&(zone.to_owned(), part.digest))?;
        (known == part).then(|| verdict.clone())
    }

    /// Notes a segment, if it is good.
    fn add(&mut self, zone: &str, part: &SegmentPart, found: &PartVerdict) -> Result<(), Failure> {
        let Some((path, file)) = self
            .file
            .as_mut()
            .filter(|_| found.verdict.faults.is_empty())
        else {
            return Ok(());
        };
        let line = SoundSegment {
            zone: zone.to_owned(),
            segment: part.clone(),
            verdict: found.clone(),
        };
        writeln!(file, "{}", serde_json::json!(line)).map_err(|error| unreadable(path, &error))
    }
}
