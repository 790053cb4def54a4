//! Why a state folder cannot be used, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::journal::codec::{FORMAT, FORMAT_TEXT};
use crate::journal::store::StoreError;

/// Why the state folder cannot be used. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses it.
    #[error("the state folder {} is in use by {holder}: stop that process, or give another folder with --state", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
        /// Who holds it, as far as it can be told.
        holder: String,
    },
    /// It holds other files.
    #[error("the state folder {} holds other files ({found}): give an empty or a new folder with --state", dir.display())]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// The first of them by name.
        found: String,
    },
    /// It was written in another layout.
    #[error("the state folder {} has the layout {found:?}, this zonewright reads \"{FORMAT_TEXT}{FORMAT}\": use the zonewright that wrote it, or give another folder with --state", dir.display())]
    OtherFormat {
        /// The folder.
        dir: PathBuf,
        /// What its format file says.
        found: String,
    },
    /// It is no folder.
    #[error("{} is a file, not a state folder: give a folder with --state", dir.display())]
    File {
        /// What was given.
        dir: PathBuf,
    },
    /// It cannot be written, created or read.
    #[error("the state folder {} cannot be used, {doing} failed: {source}; make it writable for this user, or give another folder with --state", dir.display())]
    Unusable {
        /// The folder.
        dir: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The database in it does not open, and not because it is damaged.
    #[error("the database in {} does not open: {source}; free disk space or memory, or give another folder with --state", dir.display())]
    Database {
        /// The folder.
        dir: PathBuf,
        /// What the store said.
        source: StoreError,
    },
}
