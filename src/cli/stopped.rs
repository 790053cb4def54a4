//! The store of a server that does not run, and why a question got no answer.

use std::path::Path;
use std::time::Duration;

use history::{AuditError, Refused};

use crate::failure::Failure;
use crate::runtime::history_access::{PastError, StoredPast};

/// A question while no server runs.
pub(crate) const NOBODY: &str = "this command";

/// How often and how long to wait for another command to let go of the store.
const STORE_TRIES: u32 = 250;
/// The pause between two tries.
const STORE_PAUSE: Duration = Duration::from_millis(20);

/// Opens the store of a server that does not run; another command that reads it is waited for.
pub(crate) fn stored_past(state: &Path) -> Result<StoredPast, Failure> {
    let mut tries = 0;
    loop {
        match StoredPast::open(state) {
            Err(PastError::Busy(_)) if tries < STORE_TRIES => {
                tries += 1;
                std::thread::park_timeout(STORE_PAUSE);
            }
            Err(PastError::Busy(failure) | PastError::Other(failure)) => return Err(failure),
            Ok(past) => return Ok(past),
        }
    }
}

/// Why the store gave no answer, or one that says that something is wrong.
pub(crate) fn unanswered(error: &AuditError) -> Failure {
    if error.is_the_question() {
        Failure::unusable(error.to_string())
    } else {
        Failure::running(error.to_string())
    }
}

/// Why a running server gave no answer.
pub(crate) fn refused(refused: Refused) -> Failure {
    match refused {
        Refused::Question(text) => Failure::unusable(text),
        Refused::Server(text) => Failure::running(text),
    }
}
