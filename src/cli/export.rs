//! `export`: versions and histories into files, each written aside and renamed when it is whole.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use history::{Follow, Output, Question, Request, answer, ask};

use crate::cli::args::{Asking, ExportWanted};
use crate::cli::commands::print;
use crate::cli::follow::{follow, to_stdout};
use crate::cli::stopped::{NOBODY, refused, stored_past};
use crate::failure::Failure;
use crate::runtime::history_access::StoredPast;

/// How often an export starts again when versions leave the history meanwhile.
const TRIES: usize = 4;

/// The source of the history: a running server, or the store.
struct Asked<'a> {
    /// The state folder.
    state: &'a Path,
    /// The store, when no server runs.
    past: Option<StoredPast>,
}

impl Asked<'_> {
    /// The answer to a question.
    fn answer(&mut self, request: Request, output: Output) -> Result<Vec<u8>, Failure> {
        let question = Question { request, output };
        let mut text = Vec::new();
        if self.past.is_none() {
            match ask(self.state, &question, &mut text) {
                Some(answered) => return answered.map(|()| text).map_err(refused),
                None => self.past = Some(stored_past(self.state)?),
            }
        }
        if let Some(past) = &self.past {
            answer(&question, past, NOBODY, &mut text).map_err(refused)?;
        }
        Ok(text)
    }
}

/// `export`.
///
/// # Errors
/// When a version is not there, or a file cannot be written.
pub fn export(wanted: ExportWanted) -> Result<(), Failure> {
    let ExportWanted {
        zones,
        to,
        history,
        follow: _,
        since,
        asking,
    } = wanted;
    match to {
        Some(to) => to_folder(&zones, &to, history, &asking),
        // The command line asks for one of the two.
        None => follow_export(&zones, since, &asking),
    }
}

/// `export --to`.
fn to_folder(zones: &[String], to: &Path, history: bool, asking: &Asking) -> Result<(), Failure> {
    let state = &asking.state.state;
    let unwritten = |error: io::Error| Failure::unusable(format!("{}: {error}", to.display()));
    fs::create_dir_all(to).map_err(unwritten)?;
    let mut asked = Asked { state, past: None };
    for zone in zones {
        let written = if history {
            write_history(&mut asked, zone, to)?
        } else {
            write_version(&mut asked, zone, to)?
        };
        let line = match asking.output {
            Output::Text => written.display().to_string(),
            Output::Json => {
                serde_json::json!({ "zone": zone, "file": written.display().to_string() })
                    .to_string()
            }
        };
        print(&format!("{line}\n"))?;
    }
    Ok(())
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
    let state = &asking.state.state;
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
fn write_version(asked: &mut Asked<'_>, zone: &str, to: &Path) -> Result<PathBuf, Failure> {
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
    write_whole(&path, |file| {
        file.write_all(&text)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    })?;
    Ok(path)
}

/// The whole history, `ZONE.ndjson`.
fn write_history(asked: &mut Asked<'_>, zone: &str, to: &Path) -> Result<PathBuf, Failure> {
    if zone.contains('@') {
        return Err(Failure::unusable(format!(
            "{zone}: --history writes the whole history; write ZONE without @"
        )));
    }
    let path = to.join(format!("{}.ndjson", file_stem(zone)));
    let unwritten = |error: io::Error| Failure::running(format!("{}: {error}", path.display()));
    let mut page = |after| {
        let zone = zone.to_owned();
        asked.answer(Request::History { zone, after }, Output::Json)
    };
    for _ in 0..TRIES {
        let mut is_whole = false;
        write_whole(&path, |file| {
            is_whole = pages(&mut page, &mut |text| {
                file.write_all(text).map_err(unwritten)
            })?;
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

/// Writes the beginning of a history and its versions, page by page; false when versions left the history in
/// between, and what was written has a gap.
fn pages(
    page: &mut dyn FnMut(Option<u64>) -> Result<Vec<u8>, Failure>,
    write: &mut dyn FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<bool, Failure> {
    let beginning = page(None)?;
    let mut after = number_in(&beginning, "after", false)?;
    write(&beginning)?;
    loop {
        let text = page(Some(after))?;
        if text.is_empty() {
            return Ok(true);
        }
        if number_in(&text, "version", false)? != after + 1 {
            return Ok(false);
        }
        after = number_in(&text, "version", true)?;
        write(&text)?;
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
        let whole = pages(&mut page, &mut |part| {
            text.extend_from_slice(part);
            Ok(())
        });
        let Ok(whole) = whole else {
            panic!("the pages are understood");
        };
        (whole, String::from_utf8(text).unwrap())
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
