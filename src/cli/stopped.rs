//! The store of a server that does not run, and why a question got no answer.

use std::path::Path;
use std::time::Duration;

use history::{Fault, Refused};

use crate::cli::state_copy::StateCopy;
use crate::cli::state_files::StateFiles;
use crate::failure::Failure;
use crate::runtime::history_access::{PastError, StoredPast};

/// A question while no server runs.
pub(crate) const NOBODY: &str = "this command";

/// How often and how long to wait for another command to let go of the store.
const STORE_TRIES: u32 = 250;
/// The pause between two tries.
const STORE_PAUSE: Duration = Duration::from_millis(20);

/// The store of a server that does not run.
pub(crate) struct Stored {
    /// Its history. Closed before its files are removed.
    pub(crate) past: StoredPast,
    /// What is to be said of the files beside it, before they were changed.
    pub(crate) files: StateFiles,
    /// The copy of the state folder, if that is read.
    _copy: Option<StateCopy>,
}

impl Stored {
    fn of(mut past: StoredPast, files: StateFiles, copy: Option<StateCopy>) -> Self {
        if files.is_not_known() {
            past.be_unsure();
        }
        Self {
            past,
            files,
            _copy: copy,
        }
    }
}

/// Opens the store of a server that does not run; another command that reads it is waited for. With `read_only` a copy
/// is opened.
pub(crate) fn stored_past(state: &Path, read_only: bool) -> Result<Stored, Failure> {
    let mut tries = 0;
    loop {
        let opened = if read_only {
            // The marks of a copied file are not those of the file, so the files themselves are checked.
            StateCopy::of(state, files_of).and_then(|(copy, files)| {
                let past = StoredPast::open(copy.path(), "in the copy: ");
                let past = past.map_err(|error| error.about(copy.path(), state))?;
                Ok(Stored::of(past, files, Some(copy)))
            })
        } else {
            // An open store changes none of the files beside it, and keeps others from it.
            StoredPast::open(state, "")
                .and_then(|past| Ok(Stored::of(past, files_of(state)?, None)))
        };
        match opened {
            Err(PastError::Busy(_)) if tries < STORE_TRIES => {
                tries += 1;
                std::thread::park_timeout(STORE_PAUSE);
            }
            Err(PastError::Busy(failure) | PastError::Other(failure)) => return Err(failure),
            Ok(stored) => return Ok(stored),
        }
    }
}

/// What is to be said of the files of a state folder that no server uses.
fn files_of(state: &Path) -> Result<StateFiles, PastError> {
    StateFiles::check(state, false).map_err(PastError::Other)
}

/// Why the store or a running server gave no answer.
pub(crate) fn refused(why: impl Into<Refused>) -> Failure {
    let Refused {
        fault,
        text,
        may_pass: _,
    } = why.into();
    match fault {
        Fault::Wrong => Failure::unusable(text),
        Fault::NotKnown => Failure::not_known(text),
        Fault::Failed => Failure::running(text),
    }
}
