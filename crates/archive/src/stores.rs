//! Reads and writes objects for callers that wait.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path as ObjectPath;
use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, ObjectStoreExt, PutPayload, RetryConfig,
};
use tokio::runtime::Runtime;
use zone::journal::{ObjectPlace, Objects};

use crate::address::{Address, Kind};

/// How long one request may take. A segment has some MiB.
const REQUEST_TIME: Duration = Duration::from_secs(60);
/// How long a connection may take to be made.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// How long failed requests are tried again. Whoever asks about the past waits for it.
const RETRY_TIME: Duration = Duration::from_secs(10);
/// How often a failed request is tried again.
const RETRIES: usize = 3;

/// The archives that were used, by address. They are opened when they are first needed.
#[derive(Default)]
pub struct Stores {
    open: Mutex<BTreeMap<Arc<str>, Opened>>,
    /// Drives the requests, so that callers need no runtime of their own.
    runtime: OnceLock<Option<Runtime>>,
}

#[derive(Clone)]
struct Opened {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    /// The folder, if it is one.
    folder: Option<PathBuf>,
}

impl Opened {
    /// An error of reading. Without its folder, an archive is away; the object is not known to be lost.
    fn failed(&self, error: io::Error) -> io::Error {
        self.folder.as_deref().and_then(no_folder).unwrap_or(error)
    }
}

/// The error of an archive whose folder is not there; `None` when it is, or nobody may look.
fn no_folder(folder: &Path) -> Option<io::Error> {
    let found = std::fs::metadata(folder);
    let is_missing = found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    is_missing.then(|| io::Error::other(format!("there is no folder {}", folder.display())))
}

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

impl Drop for Stores {
    fn drop(&mut self) {
        if let Some(Some(runtime)) = self.runtime.take() {
            // Nothing waits for what it still does.
            runtime.shutdown_background();
        }
    }
}

impl Stores {
    /// No archive is open yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn opened(&self, url: &Arc<str>) -> io::Result<Opened> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = open.get(url) {
            return Ok(opened.clone());
        }
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let address = Address::parse(url).map_err(|error| invalid(error.to_string()))?;
        if let Some(error) = address.folder().and_then(no_folder) {
            return Err(error);
        }
        let opened = Opened {
            store: store(&address).map_err(|error| invalid(plain(&error)))?,
            folder: match &address.kind {
                Kind::Folder(folder) => Some(folder.into()),
                Kind::S3 | Kind::Google | Kind::Azure => None,
            },
            prefix: address.prefix,
        };
        open.insert(Arc::clone(url), opened.clone());
        Ok(opened)
    }

    fn wait<T>(&self, request: impl Future<Output = object_store::Result<T>>) -> io::Result<T> {
        let runtime = self.runtime.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder
                .worker_threads(1)
                .thread_name("archive")
                .enable_all()
                .build()
                .ok()
        });
        let runtime = runtime.as_ref().ok_or(io::ErrorKind::OutOfMemory)?;
        runtime.block_on(request).map_err(|error| io_error(&error))
    }
}

impl Objects for Stores {
    fn read(&self, place: &ObjectPlace, range: Range<u64>) -> io::Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let opened = self.opened(&place.url)?;
        let store = &opened.store;
        let path = path_of(&opened.prefix, &place.name)?;
        let (end, reads) = (range.end, Arc::clone(store));
        let read = self.wait({
            let path = path.clone();
            async move { reads.get_range(&path, range).await }
        });
        match read {
            Ok(octets) => Ok(octets.into()),
            // A range behind the end of an object has no kind of its own.
            Err(error) if error.kind() == io::ErrorKind::Other => {
                let size = self.wait(async move { store.head(&path).await });
                match size.is_ok_and(|object| object.size < end) {
                    true => Err(io::Error::new(
                        io::ErrorKind::UnexpectedEof,
                        "it is cut off",
                    )),
                    false => Err(error),
                }
            }
            Err(error) => Err(opened.failed(error)),
        }
    }

    fn write(&self, place: &ObjectPlace, octets: Vec<u8>) -> io::Result<()> {
        let opened = self.opened(&place.url)?;
        // The store would make it again.
        if let Some(error) = opened.folder.as_deref().and_then(no_folder) {
            return Err(error);
        }
        let path = path_of(&opened.prefix, &place.name)?;
        let store = Arc::clone(&opened.store);
        self.wait(async move { store.put(&path, PutPayload::from(octets)).await })?;
        Ok(())
    }
}

/// The path of an object in its store.
fn path_of(prefix: &ObjectPath, name: &str) -> io::Result<ObjectPath> {
    let name = ObjectPath::parse(name);
    let name =
        name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))?;
    Ok(prefix.parts().chain(name.parts()).collect())
}

/// Opens an archive with what the environment says.
fn store(address: &Address) -> object_store::Result<Arc<dyn ObjectStore>> {
    // The provider that everything here uses. It is set once for the process.
    let _is_set = rustls::crypto::ring::default_provider().install_default();
    // Names without a prefix, such as TOKEN, are known to the builders, too, but mean something else here.
    let environment = |prefixes: &'static [&str]| {
        std::env::vars_os().filter_map(move |(name, value)| {
            let name = name.into_string().ok()?.to_lowercase();
            let is_ours = prefixes.iter().any(|prefix| name.starts_with(prefix));
            Some((name, value.into_string().ok()?)).filter(|_| is_ours)
        })
    };
    let options = ClientOptions::new()
        .with_connect_timeout(CONNECT_TIME)
        .with_timeout(REQUEST_TIME)
        .with_allow_http(true);
    let retries = RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: RETRIES,
        retry_timeout: RETRY_TIME,
    };
    // The builders have the same methods, but no trait.
    macro_rules! built {
        ($builder:ty, $key:ty, $prefixes:expr) => {{
            let mut builder = <$builder>::new();
            for (name, value) in environment(&$prefixes) {
                if let Ok(key) = name.parse::<$key>() {
                    builder = builder.with_config(key, value);
                }
            }
            let builder = builder.with_url(address.url.as_str());
            Arc::new(
                builder
                    .with_client_options(options)
                    .with_retry(retries)
                    .build()?,
            )
        }};
    }
    Ok(match &address.kind {
        Kind::Folder(folder) => {
            Arc::new(LocalFileSystem::new_with_prefix(folder)?.with_fsync(true))
        }
        Kind::S3 => built!(AmazonS3Builder, AmazonS3ConfigKey, ["aws_"]),
        Kind::Google => built!(
            GoogleCloudStorageBuilder,
            GoogleConfigKey,
            ["google_", "service_account"]
        ),
        Kind::Azure => built!(
            MicrosoftAzureBuilder,
            AzureConfigKey,
            ["azure_", "identity_", "msi_"]
        ),
    })
}

/// An error of a store, by what it means for whoever asked.
fn io_error(error: &object_store::Error) -> io::Error {
    use object_store::Error as E;
    let kind = match error {
        E::NotFound { .. } => io::ErrorKind::NotFound,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        E::InvalidPath { .. } => io::ErrorKind::InvalidInput,
        E::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        E::Generic { .. }
        | E::JoinError { .. }
        | E::NotSupported { .. }
        | E::Precondition { .. }
        | E::NotModified { .. }
        | E::NotImplemented { .. }
        | E::UnknownConfigurationKey { .. }
        | _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, plain(error))
}

/// The text of an error, on one line, and not longer than a line of a log should be.
fn plain(error: &object_store::Error) -> String {
    const MOST: usize = 300;
    let text = error.to_string();
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(MOST)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_what_was_written_under_its_name_and_parts_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let stores = Stores::new();
        let url = format!("file://{}", folder.path().display());
        let place = ObjectPlace {
            url: url.into(),
            name: "z.example/000000000001-000000000002.zws".into(),
        };
        let missing = stores.read(&place, 0..4).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        stores.write(&place, b"segment".to_vec()).unwrap();
        assert_eq!(stores.read(&place, 2..5).unwrap(), b"gme");
        assert_eq!(stores.read(&place, 5..100).unwrap(), b"nt");
        let behind = stores.read(&place, 50..100).unwrap_err();
        assert_eq!(behind.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(
            std::fs::read(folder.path().join(&*place.name)).unwrap(),
            b"segment"
        );
        stores.write(&place, b"again".to_vec()).unwrap();
        assert_eq!(stores.read(&place, 0..100).unwrap(), b"again");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let stores = Stores::new();
        let place = ObjectPlace {
            url: "file:///no/such/folder".into(),
            name: "z/1.zws".into(),
        };
        let gone = "there is no folder /no/such/folder";
        assert_eq!(stores.write(&place, vec![1]).unwrap_err().to_string(), gone);
        assert_eq!(stores.read(&place, 0..1).unwrap_err().to_string(), gone);
    }

    #[test]
    fn a_folder_that_was_taken_away_is_named_and_is_not_made_again() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("archive");
        std::fs::create_dir(&folder).unwrap();
        let stores = Stores::new();
        let place = ObjectPlace {
            url: format!("file://{}", folder.display()).into(),
            name: "z/1.zws".into(),
        };
        stores.write(&place, vec![1]).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let gone = format!("there is no folder {}", folder.display());
        assert_eq!(stores.read(&place, 0..1).unwrap_err().to_string(), gone);
        assert_eq!(stores.write(&place, vec![1]).unwrap_err().to_string(), gone);
        assert!(!folder.exists());
    }
}
