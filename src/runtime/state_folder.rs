//! The state folder that a server uses: the configured one, or a temporary one where that cannot be written at the start.
//!
//! A server in CoreDNS's place must answer although its disk is full or read-only. Nobody outside knows its serials as long as
//! no zone and no history is handed out, so it can count from the clock in an empty folder. A server that hands something out
//! does not do that: serials, hashes and notes would contradict those that others have.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use directives::config::{Config, History, HistoryApi, Transfer};
use history::is_served;
use ring::digest::{SHA256, digest};
use rustix::process::geteuid;
use zone::journal::{Journal, OpenError};

/// Memory that each process may write on Linux, also in a container with a read-only root.
const SHARED_MEMORY: &str = "/dev/shm";

/// The state folder of a server.
#[derive(Debug, Clone)]
pub(crate) struct StateFolder {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Why it is a temporary one, as a sentence for the operator.
    pub(crate) temporary: Option<String>,
}

impl StateFolder {
    /// The configured folder if it can be written, else a temporary one if the Corefile allows that.
    pub(crate) fn choose(configured: &Path, config: &Config) -> Self {
        let itself = || Self {
            path: configured.to_owned(),
            temporary: None,
        };
        let error = match Journal::probe(configured) {
            Ok(()) => {
                remove_earlier(configured);
                return itself();
            }
            Err(error) => error,
        };
        // The others are mistakes, and a rollout shows them. A disk fails at any time.
        if !matches!(
            error,
            OpenError::Unusable { .. } | OpenError::KeptFromUs { .. }
        ) {
            return itself();
        }
        let error = error.to_string();
        if let Some(directive) = handed_out(config) {
            tracing::error!(
                error,
                "the state folder cannot be written, and {directive} hands out what is in it: make room, or make it writable"
            );
            return itself();
        }
        match places().find_map(|place| create(&place, configured).ok()) {
            Some(path) => {
                let temporary = format!(
                    "{error}. Until the next start versions are in {}, and holds and the history before are not in use",
                    path.display()
                );
                tracing::error!("{temporary}");
                let temporary = Some(temporary);
                Self { path, temporary }
            }
            None => {
                tracing::error!("there is no place for a temporary state folder either");
                itself()
            }
        }
    }

    /// Why a server with this folder cannot use a configuration.
    pub(crate) fn refuses(&self, config: &Config) -> Option<String> {
        let directive = handed_out(config).filter(|_| self.temporary.is_some())?;
        Some(format!(
            "{directive} hands out what is in the state folder, and this server has a temporary one: restart it when the folder can be written"
        ))
    }
}

/// The folder of the server that a command asks: the temporary one if a server runs there, and none in the configured one.
pub(crate) fn asked(configured: PathBuf) -> PathBuf {
    let server = fs::metadata(&configured).map(|it| it.uid()).ok();
    let mut temporary = places().map(|place| place.join(name_of(&configured)));
    let found = temporary.find(|folder| is_of(folder, server) && is_served(folder));
    match found {
        Some(folder) if !is_served(&configured) => folder,
        Some(_) | None => configured,
    }
}

/// The first directive that hands zones or their history out, or writes about them elsewhere.
fn handed_out(config: &Config) -> Option<String> {
    config.servers.iter().find_map(|block| {
        let transfer = block.get().map(|it: &Transfer| ("transfer", &it.place));
        let api = block
            .get()
            .map(|it: &HistoryApi| ("history_api", &it.place));
        let mut histories = block.all::<History>();
        let history = histories.find(|it| it.archive.is_some() || !it.notes.is_empty());
        let history = history.map(|it| ("history", &it.place));
        let (word, place) = transfer.or(api).or(history)?;
        Some(format!("`{word}` in {place}"))
    })
}

/// Places for a temporary folder, in the order in which they are tried.
fn places() -> impl Iterator<Item = PathBuf> {
    [std::env::temp_dir(), PathBuf::from(SHARED_MEMORY)].into_iter()
}

/// The name of the temporary folder: commands find it by the name of the configured one.
fn name_of(configured: &Path) -> String {
    let whole = std::path::absolute(configured);
    let whole = whole.as_deref().unwrap_or(configured);
    let sum = digest(&SHA256, whole.as_os_str().as_bytes());
    let sum: String = { sum.as_ref().iter().take(8) }
        .map(|octet| format!("{octet:02x}"))
        .collect();
    format!("zonewright-state-{sum}")
}

/// Whether a folder is ours, or that of the user whose server we ask. Everybody may make one in these places.
fn is_of(folder: &Path, user: Option<u32>) -> bool {
    let Ok(found) = fs::symlink_metadata(folder) else {
        return false;
    };
    let is_known = found.uid() == geteuid().as_raw() || user == Some(found.uid());
    found.is_dir() && found.mode() & 0o077 == 0 && is_known
}

/// Creates an empty folder that can be written. The one of an earlier start goes, unless a server runs there.
fn create(place: &Path, configured: &Path) -> io::Result<PathBuf> {
    let folder = place.join(name_of(configured));
    if is_of(&folder, None) && !Journal::is_locked(&folder) {
        fs::remove_dir_all(&folder)?;
    }
    DirBuilder::new().mode(0o700).create(&folder)?;
    if let Err(error) = Journal::probe(&folder) {
        fs::remove_dir_all(&folder)?;
        return Err(io::Error::other(error));
    }
    Ok(folder)
}

/// Removes what an earlier start made while the folder could not be written.
fn remove_earlier(configured: &Path) {
    for folder in places().map(|place| place.join(name_of(configured))) {
        if is_of(&folder, None)
            && !Journal::is_locked(&folder)
            && let Err(error) = fs::remove_dir_all(&folder)
        {
            let folder = folder.display();
            tracing::warn!(%error, %folder, "the temporary state folder of an earlier start cannot be removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use directives::config::{Overrides, parse_text};

    use super::*;

    fn config(block: &str) -> Config {
        let text = format!("z {{\n{block}\n}}\n");
        let overrides = Overrides { default_port: 53 };
        let loaded = parse_text("Corefile", &text, &overrides, &|_| None);
        loaded
            .unwrap_or_else(|rejected| panic!("{rejected}"))
            .config
    }

    #[test]
    fn what_others_hold_is_handed_out() {
        for (block, want) in [
            ("", None),
            ("history {\n keep 1h\n}", None),
            ("transfer {\n allow 192.0.2.1\n}", Some("`transfer`")),
            ("history {\n archive file:///a\n}", Some("`history`")),
        ] {
            let found = handed_out(&config(&format!(
                "kubernetes {{\n manifests m\n }}\n{block}"
            )));
            let want = want.map(|word| format!("{word} in Corefile:5:1"));
            assert_eq!(found, want, "{block}");
        }
    }

    #[test]
    fn a_folder_that_can_be_written_is_used_and_a_file_is_a_mistake() {
        let place = tempfile::tempdir().unwrap();
        let config = config("forward . 192.0.2.1");
        let file = place.path().join("file");
        fs::write(&file, "").unwrap();
        for path in [place.path().join("state"), file] {
            let chosen = StateFolder::choose(&path, &config);
            assert_eq!((chosen.path, chosen.temporary), (path, None));
        }
    }

    #[test]
    fn a_temporary_folder_is_empty_and_not_that_of_a_running_server() {
        let place = tempfile::tempdir().unwrap();
        let configured = Path::new("/proc/none/state");
        let folder = create(place.path(), configured).unwrap();
        fs::write(folder.join("old"), "").unwrap();
        assert_eq!(create(place.path(), configured).unwrap(), folder);
        assert!(!folder.join("old").exists());
        let (journal, _) = Journal::open(&folder, std::sync::Arc::new(|| 0)).unwrap();
        assert!(create(place.path(), configured).is_err());
        drop(journal);
        assert!(create(place.path(), configured).is_ok());
    }

    #[test]
    fn a_folder_of_others_is_no_temporary_folder() {
        let place = tempfile::tempdir().unwrap();
        let configured = Path::new("/proc/none/state");
        let folder = place.path().join(name_of(configured));
        let elsewhere = place.path().join("elsewhere");
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &folder).unwrap();
        assert!(create(place.path(), configured).is_err() && elsewhere.exists());
    }
}
