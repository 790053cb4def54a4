//! What is to be said of a file beside the database.

use std::fs;
use std::io;
use std::path::Path;

use crate::chain::Damage;

/// What is to be said of a file of a state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFinding {
    /// The file's name.
    pub file: &'static str,
    /// What happened to it; `None` for a remark about a file that may be as it was written.
    pub damage: Option<Damage>,
    /// What that means.
    pub what: String,
}

/// The text of a file, if it is there.
pub(super) fn read_if_there(dir: &Path, name: &str) -> io::Result<Option<String>> {
    match fs::read(dir.join(name)) {
        Ok(octets) => Ok(Some(String::from_utf8_lossy(&octets).into_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
