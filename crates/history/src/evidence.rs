//! Evidence that can be checked without a store: an exported history, and the manifest of an export.

mod history_file;
mod manifest;
mod version_line;

#[cfg(test)]
pub(crate) use history_file::check_lines;
pub use history_file::{FileVerdict, check_history};
pub use manifest::{FileEntry, Manifest, ManifestError};
pub(crate) use version_line::CauseLine;
