//! The reasons why a state folder cannot be used.

use std::io;
use std::path::PathBuf;

use crate::journal::codec::{FORMAT, FORMAT_TEXT};
use crate::journal::store::StoreError;

/// The reason why the state folder cannot be used. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process uses the folder.
    #[error("the state folder {} is in use by {holder}: stop that process, or give another folder with --state", dir.display())]
    Locked {
        /// The folder.
        dir: PathBuf,
        /// The other process, if it is known.
        holder: String,
    },
    /// The folder holds other files.
    #[error("the state folder {} holds other files ({found}): give an empty or a new folder with --state", dir.display())]
    Foreign {
        /// The folder.
        dir: PathBuf,
        /// The first of these files by name.
        found: String,
    },
    /// The folder was written in another layout.
    #[error("the state folder {} has the layout {found:?} in its file format, this zonewright reads \"{FORMAT_TEXT}{FORMAT}\": use the zonewright that wrote it, or give another folder with --state", dir.display())]
    OtherFormat {
        /// The folder.
        dir: PathBuf,
        /// The text of its format file.
        found: String,
    },
    /// The path is a file.
    #[error("{} is a file, not a state folder: give a folder with --state", dir.display())]
    File {
        /// The path.
        dir: PathBuf,
    },
    /// The folder cannot be written, created or read.
    #[error("the state folder {} cannot be used, {doing} failed: {source}; make room or make it writable for this user, or give another folder with --state", dir.display())]
    Unusable {
        /// The folder.
        dir: PathBuf,
        /// The operation that failed.
        doing: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// A file or folder in it, or itself, has an owner and rights that keep us out.
    #[error("the state folder {} cannot be used: {} belongs to uid {owner}, and this process may not {doing} it; give the folder and all in it to the user that runs the server (chown -R USER {}), or give another folder with --state", dir.display(), path.display(), dir.display())]
    KeptFromUs {
        /// The state folder.
        dir: PathBuf,
        /// The first such file or folder.
        path: PathBuf,
        /// The user it belongs to.
        owner: u32,
        /// `read` or `write`.
        doing: &'static str,
    },
    /// The database in the folder does not open, and it is not damaged.
    #[error("the database in {} cannot be opened: {source}; free disk space or memory, or give another folder with --state", dir.display())]
    Database {
        /// The folder.
        dir: PathBuf,
        /// The error of the database.
        source: StoreError,
    },
}
