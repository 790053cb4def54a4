//! Checks the files beside the database for an auditor: which of them are not as they were written, and what is not known
//! therefore.

use std::io;
use std::path::Path;

use crate::chain::Damage;
use crate::journal::file_finding::FileFinding;
use crate::journal::incarnation;
use crate::journal::serial_files::{Known, NEWEST, NewestFault, SERIALS, Serials};

/// Checks the files `serials`, `newest`, `incarnation` and `mark` of a state folder. `is_in_use`: a server runs on the folder
/// and writes the last three again before it needs them, so they are left out.
///
/// What a missing `newest` hides is said of each zone, where it hides something ([`Reader::verify`](super::Reader::verify)).
///
/// # Errors
/// When a file is there and cannot be read.
pub fn check_files(dir: &Path, is_in_use: bool) -> io::Result<Vec<FileFinding>> {
    let mut found = Vec::from_iter(check_serials(dir)?);
    if !is_in_use {
        found.extend(check_newest(dir)?);
        found.extend(incarnation::check(dir)?);
    }
    Ok(found)
}

fn check_serials(dir: &Path) -> io::Result<Option<FileFinding>> {
    let serials = Serials::read(dir)?;
    let (damage, what) = match serials.damaged {
        // It is written with the first version.
        0 if serials.present || Known::read(dir)?.serials.is_empty() => return Ok(None),
        0 => (
            Damage::Unknown,
            "it is missing: up to which serials versions may have been announced is not known"
                .to_owned(),
        ),
        lines => (
            Damage::Changed,
            format!(
                "lines of it are damaged ({lines}): up to which serials versions of their zones may have been announced is \
                 not known"
            ),
        ),
    };
    Ok(Some(FileFinding {
        file: SERIALS,
        damage: Some(damage),
        what,
    }))
}

fn check_newest(dir: &Path) -> io::Result<Option<FileFinding>> {
    Ok(match Known::read(dir)?.fault {
        None | Some(NewestFault::Missing | NewestFault::Empty) => None,
        Some(NewestFault::Damaged) => Some(FileFinding {
            file: NEWEST,
            damage: Some(Damage::Unknown),
            what: "a part of it is damaged, by a change or by a loss of power: whether it named later versions is not known"
                .to_owned(),
        }),
    })
}
