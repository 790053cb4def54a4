//! Evidence that can be checked without a store: an exported history, the manifest of an export, and signed notes.

mod history_file;
mod manifest;
mod note;
mod version_line;

#[cfg(test)]
pub(crate) use history_file::check_lines;
pub use history_file::{FileVerdict, check_history};
pub use manifest::{FileEntry, Manifest, ManifestError};
pub use note::{Note, NoteError, NotedZone, SignedNote, read_notes};
pub(crate) use version_line::CauseLine;
