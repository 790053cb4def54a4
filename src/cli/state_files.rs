//! The files of a state folder beside the database, as `verify` checks them.

use std::io::{self, Write};
use std::path::Path;

use history::{Output, SCHEMA};
use serde_json::json;
use zone::journal::{Damage, FileFinding, check_files};

use crate::cli::file_faults::write_faults;
use crate::failure::Failure;
use crate::runtime::{holds, reload, secret_ids};

/// What is to be said of the files of a state folder.
#[derive(Debug, Default)]
pub(crate) struct StateFiles(Vec<FileFinding>);

impl StateFiles {
    /// Checks the files. `is_in_use`: a server runs on the folder. Then its files may be out of reach, which is no fault of
    /// them, and `state` may be its socket.
    pub(crate) fn check(state: &Path, is_in_use: bool) -> Result<Self, Failure> {
        if is_in_use && !state.is_dir() {
            return Ok(Self::default());
        }
        let checked = || -> io::Result<Self> {
            let mut found = check_files(state, is_in_use)?;
            found.extend(holds::check(state)?);
            found.extend(reload::check(state)?);
            found.extend(secret_ids::check(state)?);
            Ok(Self(found))
        };
        match checked() {
            Err(error) if is_in_use && error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(Self::default())
            }
            Err(error) => Err(Failure::running(format!("{}: {error}", state.display()))),
            Ok(files) => Ok(files),
        }
    }

    /// Writes a line for each file of which there is something to say.
    pub(crate) fn write(&self, output: Output, out: &mut dyn Write) -> io::Result<()> {
        for FileFinding { file, damage, what } in &self.0 {
            match (damage, output) {
                (Some(Damage::Unknown), Output::Text) => {
                    writeln!(out, "{file}: NOT KNOWN: {what}")?
                }
                (Some(damage), _) => {
                    write_faults(file, None, &[(*damage, what.clone())], output, out)?;
                }
                (None, Output::Text) => writeln!(out, "{file}: {what}")?,
                (None, Output::Json) => {
                    let line = json!({ "schema": SCHEMA, "file": file, "good": true, "faults": [], "remark": what });
                    writeln!(out, "{line}")?;
                }
            }
        }
        Ok(())
    }

    /// Whether a file leaves open which versions there were: it is not known, or the folder may be a copy.
    pub(crate) fn is_not_known(&self) -> bool {
        let mut found = self.0.iter();
        found.any(|it| it.damage.is_none_or(|damage| damage == Damage::Unknown))
    }

    /// The failure of files that are not as they were written, and of histories that are not (`verified`): what is certain
    /// comes first.
    pub(crate) fn judge(&self, verified: Result<(), Failure>) -> Result<(), Failure> {
        let with = |wanted: fn(Damage) -> bool| {
            let names = self.0.iter().filter(|it| it.damage.is_some_and(wanted));
            let names: Vec<&str> = names.map(|it| it.file).collect();
            (!names.is_empty()).then(|| names.join(", "))
        };
        let changed = with(|damage| damage != Damage::Unknown);
        match (verified, changed) {
            (Err(failure), _) if !failure.is_not_known() => Err(failure),
            (_, Some(files)) => {
                let text = format!("not as it was written in the state folder: {files}");
                Err(Failure::running(text))
            }
            (Err(failure), None) => Err(failure),
            (Ok(()), None) => match with(|damage| damage == Damage::Unknown) {
                None => Ok(()),
                Some(files) => {
                    let text = format!("not all of the state folder is known: {files}");
                    Err(Failure::not_known(text))
                }
            },
        }
    }
}
