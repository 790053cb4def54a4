//! Causes of versions that are still to come, beside the objects of their records.

use provenance::Cause;

/// So many causes may wait for a version of a zone; the earliest go first. One comes with each change of the Corefile
/// while a zone is frozen.
const NOTES_MOST: usize = 64;

/// Adds a cause of the next version that differs.
pub(super) fn add_note(notes: &mut Vec<Cause>, cause: Cause) {
    if notes.contains(&cause) {
        return;
    }
    if notes.len() == NOTES_MOST {
        notes.remove(0);
    }
    notes.push(cause);
}
