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

/// Opens the store of a server that does not run; another command that reads it is waited for. With `read_only` a copy
/// is opened.
pub(crate) fn stored_past(state: &Path, read_only: bool) -> Result<Stored, Failure> {
    let mut tries = 0;
    loop {
        let opened = if read_only {
            StateCopy::of(state).and_then(|copy| {
                let past = StoredPast::open(copy.path(), "in the copy: ")?;
                // The marks of a copied file are not those of the file.
                with_files(past, state, Some(copy))
            })
        } else {
            StoredPast::open(state, "").and_then(|past| with_files(past, state, None))
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

/// Opening a store changes none of the files beside it, and keeps others from it meanwhile.
fn with_files(
    past: StoredPast,
    state: &Path,
    copy: Option<StateCopy>,
) -> Result<Stored, PastError> {
    let files = StateFiles::check(state, false).map_err(PastError::Other)?;
    Ok(Stored {
        past,
        files,
        _copy: copy,
    })
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
