//! `export`: versions and histories into files, each written aside and renamed when it is whole.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use directives::config::History;
use dns::Name;
use history::{AuditError, Follow, Manifest, Output, Request, SCHEMA, ZoneParts};
use ops::{Clock, SystemClock, millis};
use zone::journal::{Damage, Fault};
use zone::signing::SigningKey;

use crate::cli::answered::Asked;
use crate::cli::args::{Asking, Configuration, ExportWanted};
use crate::cli::commands::{load, print};
use crate::cli::evidence::{CheckedFile, MANIFEST, signature_of};
use crate::cli::follow::{follow, to_stdout};
use crate::cli::progress::Progress;
use crate::failure::Failure;

/// How often an export starts again when versions leave the history meanwhile.
const TRIES: usize = 4;

/// `export`.
///
/// # Errors
/// When a version is not there, or a file cannot be written.
pub fn export(wanted: ExportWanted) -> Result<(), Failure> {
    let ExportWanted {
        zones,
        to,
        history,
        sign,
        corefile,
        follow: _,
        since,
        reading,
    } = wanted;
    let (mut asked, output) = (Asked::of(&reading), reading.asking.output);
    if let Some(zone) = zones.iter().find_map(|zone| zone.strip_suffix("@held")) {
        return Err(Failure::unusable(format!(
            "what waits is no version, and is not exported: zonewright show {zone}@held prints it"
        )));
    }
    let zones = match zones.is_empty() && to.is_some() {
        true => all_zones(&mut asked)?,
        false => zones,
    };
    if to.as_deref() == Some(Path::new("-")) {
        return Err(Failure::unusable(why_not_standard_output(history)));
    }
    // Read before anything is written.
    let sign = match corefile {
        Some(corefile) => Some(key_file_of(&zones, corefile)?),
        None => sign,
    };
    let key = sign.as_deref().map(read_signing_key).transpose()?;
    match (to, history) {
        (Some(to), true) => {
            make_folder(&to)?;
            histories_to_folder(&zones, &to, key.as_ref(), (&mut asked, output))
        }
        (Some(to), false) => {
            make_folder(&to)?;
            versions_to_folder(&zones, &to, (&mut asked, output))
        }
        // The command line asks for one of the two.
        (None, _) => follow_export(&zones, since, &reading.asking),
    }
}

/// Why nothing is exported to standard output, and what to do.
const fn why_not_standard_output(history: bool) -> &'static str {
    match history {
        true => {
            "--to names a folder: a history is checked by its manifest, which is written beside it. Write --to FOLDER and read \
             FOLDER/ZONE.ndjson; new versions on standard output are `export ZONE --follow`; a folder with this name is --to ./-"
        }
        false => {
            "--to names a folder: for a version on standard output write `show ZONE@SERIAL`; a folder with this name is --to ./-"
        }
    }
}

/// The zones of the server or of the store that have versions.
fn all_zones(asked: &mut Asked) -> Result<Vec<String>, Failure> {
    let (whole, lost): (Vec<_>, Vec<_>) = asked
        .parts(None)?
        .into_iter()
        .partition(|parts| parts.versions() > 0);
    for ZoneParts { zone, .. } in lost {
        tracing::warn!("{zone} is not exported: all its versions are lost");
    }
    if whole.is_empty() {
        return Err(Failure::unusable(AuditError::NothingStored.to_string()));
    }
    Ok(whole.into_iter().map(|parts| parts.zone).collect())
}

/// Reads a private key.
fn read_signing_key(file: &Path) -> Result<SigningKey, Failure> {
    let fix = SigningKey::FIX;
    SigningKey::read(file)
        .map_err(|error| Failure::unusable(format!("{}: {error}; {fix}", file.display())))
}

/// The file of the key with which a Corefile signs what it says of some zones.
fn key_file_of(zones: &[String], corefile: PathBuf) -> Result<PathBuf, Failure> {
    let shown = corefile.display().to_string();
    let loaded = load(&Configuration { corefile, port: 53 })?;
    let mut found: Option<PathBuf> = None;
    for text in zones {
        let zone = Name::parse(text).map_err(|error| Failure::unusable(error.to_string()))?;
        let mut blocks = loaded.config.blocks_of(&zone);
        let sign = blocks.find_map(|block| block.for_zone::<History>(&zone)?.sign.clone());
        let Some(sign) = sign else {
            return Err(Failure::unusable(format!(
                "{shown}: the history of {zone} has no sign; write: sign KEYFILE, or name a key with --sign"
            )));
        };
        if found.as_ref().is_some_and(|other| *other != sign) {
            return Err(Failure::unusable(format!(
                "{shown}: the zones have different keys, and a manifest has one signature; export them one by one, or name a key with --sign"
            )));
        }
        found = Some(sign);
    }
    found.ok_or_else(|| Failure::unusable("no zone is named"))
}

/// Makes the folder to write to.
fn make_folder(to: &Path) -> Result<(), Failure> {
    fs::create_dir_all(to).map_err(|error| Failure::unusable(format!("{}: {error}", to.display())))
}

/// `export --to`.
fn versions_to_folder(
    zones: &[String],
    to: &Path,
    (asked, output): (&mut Asked, Output),
) -> Result<(), Failure> {
    for zone in zones {
        let written = write_version(asked, zone, to)?;
        print_written(zone, &written, output)?;
    }
    Ok(())
}

/// `export --history --to`. Each file is checked as a stranger would, and the manifest says what was found in it.
fn histories_to_folder(
    zones: &[String],
    to: &Path,
    key: Option<&SigningKey>,
    (asked, output): (&mut Asked, Output),
) -> Result<(), Failure> {
    let mut files = BTreeMap::new();
    for zone in zones {
        let written = write_history(asked, zone, to)?;
        let checked = CheckedFile::read(&written, &[])?;
        let (file, faults) = (written.display(), &checked.verdict.verdict.faults);
        let known = |fault: &&Fault| fault.damage != Damage::Unknown;
        match (faults.iter().find(known), faults.first()) {
            (Some(Fault { damage, what, .. }), _) => {
                tracing::warn!("{file}: the history is not as it was written, {damage}: {what}");
            }
            (None, Some(fault)) => tracing::warn!("{file}: NOT KNOWN: {}", fault.what),
            (None, None) => {}
        }
        let entry = checked.entry();
        files.insert(entry.file.clone(), entry);
        print_written(zone, &written, output)?;
    }
    let manifest = Manifest {
        files: files.into_values().collect(),
        time_ms: millis(SystemClock.wall()),
        key: key.map(SigningKey::id),
    };
    let text = manifest.text();
    let path = to.join(MANIFEST);
    // Without a manifest beside it, an old signature looks like a lost one.
    let signature = signature_of(&path);
    match fs::remove_file(&signature) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(Failure::running(format!(
                "{}: {error}",
                signature.display()
            )));
        }
        Ok(()) | Err(_) => {}
    }
    write_octets(&path, text.as_bytes())?;
    print_written("", &path, output)?;
    if let Some(key) = key {
        write_octets(&signature, &key.sign(text.as_bytes()))?;
        print_written("", &signature, output)?;
    }
    Ok(())
}

/// Prints the name of a file that was written.
fn print_written(zone: &str, written: &Path, output: Output) -> Result<(), Failure> {
    let file = written.display().to_string();
    let zone = (!zone.is_empty()).then_some(zone);
    let line = match output {
        Output::Text => file,
        Output::Json => {
            serde_json::json!({ "schema": SCHEMA, "zone": zone, "file": file }).to_string()
        }
    };
    print(&format!("{line}\n"))
}

/// Writes bytes to a file, aside and renamed.
fn write_octets(path: &Path, octets: &[u8]) -> Result<(), Failure> {
    write_whole(path, |file| {
        file.write_all(octets)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    })
}

/// `export --follow`.
fn follow_export(zones: &[String], since: Option<String>, asking: &Asking) -> Result<(), Failure> {
    let [zone] = zones else {
        return Err(Failure::unusable("--follow takes one ZONE"));
    };
    let request = |cursor| {
        Request::Follow(Follow {
            zone: Some(zone.clone()),
            since: since.clone(),
            is_whole: true,
            cursor,
            ..Follow::default()
        })
    };
    let state = &asking.state.folder();
    follow(state, Output::Json, &request, &mut to_stdout)
}

/// Writes a file aside and renames it.
fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let unwritten = |error: io::Error| Failure::running(format!("{}: {error}", path.display()));
    let mut aside = path.as_os_str().to_owned();
    aside.push(".part");
    let aside = PathBuf::from(aside);
    let mut file = BufWriter::new(File::create(&aside).map_err(unwritten)?);
    if let Err(failure) = fill(&mut file) {
        // The failure is reported; a file that stays would be written over by the next try.
        let _left = fs::remove_file(&aside);
        return Err(failure);
    }
    let file = file
        .into_inner()
        .map_err(|error| unwritten(error.into_error()))?;
    file.sync_all().map_err(unwritten)?;
    fs::rename(&aside, path).map_err(unwritten)
}

/// A zone's name as part of a file's.
fn file_stem(zone: &str) -> String {
    let bare = zone.trim_end_matches('.').to_ascii_lowercase();
    let bare = if bare.is_empty() {
        "root".to_owned()
    } else {
        bare
    };
    bare.replace('/', "_")
}

/// One version as a master file, `ZONE.SERIAL.zone`.
fn write_version(asked: &mut Asked, zone: &str, to: &Path) -> Result<PathBuf, Failure> {
    let request = Request::Show {
        zone: zone.to_owned(),
        name: None,
    };
    let text = asked.answer(request, Output::Text)?;
    // The first line is `; ZONE serial SERIAL of TIME, N records`.
    let head = text.split(|octet| *octet == b'\n').next().unwrap_or(&[]);
    let head = String::from_utf8_lossy(head);
    let mut words = head.split(' ').skip(1);
    let (name, serial) = (words.next().unwrap_or(zone), words.nth(1).unwrap_or("0"));
    let path = to.join(format!("{}.{serial}.zone", file_stem(name)));
    write_octets(&path, &text)?;
    Ok(path)
}

/// The whole history, `ZONE.ndjson`.
fn write_history(asked: &mut Asked, zone: &str, to: &Path) -> Result<PathBuf, Failure> {
    if zone.contains('@') {
        return Err(Failure::unusable(format!(
            "{zone}: --history writes the whole history; write ZONE without @"
        )));
    }
    let path = to.join(format!("{}.ndjson", file_stem(zone)));
    let unwritten = |error: io::Error| Failure::running(format!("{}: {error}", path.display()));
    let parts = asked.parts(Some(zone.to_owned()))?;
    let versions = parts.first().map_or(0, ZoneParts::versions);
    let mut page = |after| {
        let zone = zone.to_owned();
        asked.answer(Request::History { zone, after }, Output::Json)
    };
    for _ in 0..TRIES {
        let progress = Progress::begin(format!("export {zone}"), versions);
        let mut is_whole = false;
        write_whole(&path, |file| {
            let mut write = |text: &[u8], versions| {
                progress.add(versions);
                file.write_all(text).map_err(unwritten)
            };
            is_whole = pages(&mut page, &mut write)?;
            Ok(())
        })?;
        if is_whole {
            return Ok(path);
        }
    }
    // The output has a gap.
    fs::remove_file(&path).map_err(unwritten)?;
    Err(Failure::running(format!(
        "{zone}: versions leave the history faster than it is written; try again, or let `history` keep more"
    )))
}

/// Writes a page that has so many versions.
type WritePage<'a> = dyn FnMut(&[u8], u64) -> Result<(), Failure> + 'a;

/// Writes the beginning of a history and its versions, page by page, each with the number of its versions; false when
/// versions left the history in between, and what was written has a gap.
fn pages(
    page: &mut dyn FnMut(Option<u64>) -> Result<Vec<u8>, Failure>,
    write: &mut WritePage<'_>,
) -> Result<bool, Failure> {
    let beginning = page(None)?;
    let mut after = number_in(&beginning, "after", false)?;
    write(&beginning, 0)?;
    loop {
        let text = page(Some(after))?;
        if text.is_empty() {
            return Ok(true);
        }
        if number_in(&text, "version", false)? != after + 1 {
            return Ok(false);
        }
        let before = after;
        after = number_in(&text, "version", true)?;
        write(&text, after - before)?;
    }
}

/// A number in the first line of a page, or in its last.
fn number_in(page: &[u8], field: &str, last: bool) -> Result<u64, Failure> {
    let mut lines = page
        .split(|octet| *octet == b'\n')
        .filter(|line| !line.is_empty());
    let line = if last {
        lines.next_back()
    } else {
        lines.next()
    };
    let value: Option<serde_json::Value> = line.and_then(|line| serde_json::from_slice(line).ok());
    value
        .and_then(|value| value.get(field)?.as_u64())
        .ok_or_else(|| Failure::running("cannot read the history that the server sent".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The output of pages, and whether it is complete.
    fn written(pages_of: &[&[u64]]) -> (bool, String) {
        let mut asked = 0;
        let mut page = |after: Option<u64>| {
            let Some(after) = after else {
                return Ok(b"{\"after\":4}\n".to_vec());
            };
            let page = pages_of.get(asked).copied().unwrap_or_default();
            asked += 1;
            assert!(page.first().is_none_or(|first| *first > after));
            let lines = page.iter().map(|it| format!("{{\"version\":{it}}}\n"));
            Ok(lines.collect::<String>().into_bytes())
        };
        let mut text = Vec::new();
        let whole = pages(&mut page, &mut |part, _| {
            text.extend_from_slice(part);
            Ok(())
        });
        let Ok(whole) = whole else {
            panic!("the pages are understood");
        };
        (whole, String::from_utf8(text).unwrap())
    }

    #[test]
    fn standard_output_is_refused_with_another_way_to_what_was_wanted() {
        let (history, version) = (
            why_not_standard_output(true),
            why_not_standard_output(false),
        );
        assert!(history.contains("read FOLDER/ZONE.ndjson"), "{history}");
        assert!(!history.contains("`show"), "{history}");
        assert!(version.contains("`show ZONE@SERIAL`"), "{version}");
    }

    #[test]
    fn a_page_that_does_not_follow_the_one_before_is_seen() {
        let (whole, text) = written(&[&[5, 6], &[7]]);
        assert!(whole && text.ends_with("{\"version\":7}\n"), "{text}");
        assert!(written(&[]).0);
        let (whole, text) = written(&[&[5, 6], &[8]]);
        assert!(!whole && !text.contains('8'), "{text}");
        assert!(!written(&[&[6]]).0);
    }
}
