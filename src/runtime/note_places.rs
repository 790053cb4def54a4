//! Writes a signed note to a place: a file, the log, a ConfigMap. No place makes another one wait, and none waits for ever.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use directives::config::NoteTarget;
use history::SignedNote;
use kubernetes::source::api_server::{Auth, ConfigMapText, apply_config_map};
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::plan::notes::PlannedPlace;
use crate::runtime::sources::auth_of;

/// The text of a note in a ConfigMap.
const NOTE: &str = "note.json";
/// Its signature.
const SIGNATURE: &str = "note.json.sig";

/// A place that gets notes.
#[derive(Debug)]
pub(crate) enum NotePlace {
    /// Each note is appended.
    File {
        path: PathBuf,
        /// Held while a note is written, also by a write that nothing waits for any more.
        writing: Arc<Mutex<()>>,
    },
    /// Each note is a line.
    Log,
    /// The newest note.
    ConfigMap {
        /// Where the API server is; `None` when there is none.
        auth: Option<Auth>,
        namespace: String,
        name: String,
    },
}

impl NotePlace {
    /// A planned place.
    pub(crate) fn new(planned: &PlannedPlace) -> Self {
        match &planned.target {
            NoteTarget::File(path) => Self::File {
                path: path.clone(),
                writing: Arc::default(),
            },
            NoteTarget::Log => Self::Log,
            NoteTarget::ConfigMap { namespace, name } => Self::ConfigMap {
                auth: { planned.server.as_ref() }.and_then(|source| auth_of(source).ok()),
                namespace: namespace.clone(),
                name: name.clone(),
            },
        }
    }

    /// Writes a note.
    ///
    /// # Errors
    /// The reason in words, also when it is not written in time.
    pub(crate) async fn write(&self, signed: &SignedNote, within: Duration) -> Result<(), String> {
        let written = timeout(within, self.write_at_leisure(signed)).await;
        written.unwrap_or_else(|_| Err(format!("it is not written within {} s", within.as_secs())))
    }

    async fn write_at_leisure(&self, signed: &SignedNote) -> Result<(), String> {
        match self {
            Self::File { path, writing } => {
                let writing = Arc::clone(writing).lock_owned().await;
                let (path, line) = (path.clone(), signed.line());
                let append = move || {
                    let done = append(&path, &line);
                    drop(writing);
                    done
                };
                let done = tokio::task::spawn_blocking(append).await;
                done.map_err(|error| error.to_string())?
                    .map_err(|error| file_fault(&error))
            }
            Self::Log if !tracing::enabled!(tracing::Level::INFO) => Err(
                "the log filter leaves out lines of level info; let --log-filter have info"
                    .to_owned(),
            ),
            Self::Log => {
                let (note, signature) = (signed.note.text(), signed.signature_text());
                tracing::info!(note, signature, "newest hashes");
                Ok(())
            }
            Self::ConfigMap {
                auth,
                namespace,
                name,
            } => {
                let none = || "there is no API server".to_owned();
                let auth = auth.clone().ok_or_else(none)?;
                let written = ConfigMapText {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    data: [(NOTE.to_owned(), signed.note.text())].into(),
                    binary_data: [(SIGNATURE.to_owned(), signed.signature_text())].into(),
                };
                let done = apply_config_map(auth, &written).await;
                done.map_err(|error| error.to_string())
            }
        }
    }
}

/// The error of a file, with the fix.
fn file_fault(error: &io::Error) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error.to_string();
    }
    format!(
        "{error}; check owner and mode, and restart the server if the folder was not there, or not in the Corefile, when it started"
    )
}

/// Opens a file to append to it, and creates it. Who may write in its folder cannot direct the notes elsewhere by a link.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = flags.bits().cast_signed();
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true);
    let opened = options.custom_flags(flags).open(path);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::LOOP.raw_os_error() => io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is a symbolic link; write the path of a file",
        ),
        Some(_) | None => error,
    })?;
    if !file.metadata()?.is_file() {
        let why = "it is no regular file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    Ok(file)
}

/// Appends a line to a file. A line that is only written in part is taken back, and begins no other.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = open(path)?;
    let before = file.seek(SeekFrom::End(0))?;
    let mut text = String::new();
    if before > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            text.push('\n');
        }
    }
    text.push_str(line);
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_data());
    if written.is_err() {
        // If this fails, too, the next line begins after it.
        let _taken_back = file.set_len(before);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_appended_and_a_cut_one_begins_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        append(&path, "one\n").unwrap();
        append(&path, "two\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::write(&path, "one\ntw").unwrap();
        append(&path, "three\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntw\nthree\n");
        // A log is rotated by moving it away.
        std::fs::rename(&path, folder.path().join("notes.1")).unwrap();
        append(&path, "four\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "four\n");
    }

    #[test]
    fn what_is_no_regular_file_gets_no_line() {
        let folder = tempfile::tempdir().unwrap();
        let [target, link] = ["target", "link"].map(|name| folder.path().join(name));
        std::fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [&link, Path::new("/dev/null")] {
            let error = append(path, "one\n").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        }
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "");
        let nowhere = append(Path::new("/nowhere/notes"), "one\n").unwrap_err();
        assert_eq!(nowhere.kind(), io::ErrorKind::NotFound);
    }
}
