//! Where segments are kept: a folder or a bucket.

use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The place of an object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPlace {
    /// The address of the folder or bucket, such as `s3://bucket/dns`.
    pub url: Arc<str>,
    /// The name in it, with `/` between its parts.
    pub name: Arc<str>,
}

impl std::fmt::Display for ObjectPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.url.trim_end_matches('/'), self.name)
    }
}

/// Reads and writes objects. Calls wait for the network: they are not made on a thread that must not wait.
pub trait Objects: Send + Sync {
    /// Some octets of an object; fewer when it ends before.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such object, others when it cannot be read.
    fn read(&self, place: &ObjectPlace, range: Range<u64>) -> io::Result<Vec<u8>>;

    /// Writes a whole object. When this returns, it is durable.
    ///
    /// # Errors
    /// When it cannot be written.
    fn write(&self, place: &ObjectPlace, octets: Vec<u8>) -> io::Result<()>;
}

/// Objects that nobody can read.
pub(super) struct NoObjects;

impl Objects for NoObjects {
    fn read(&self, _: &ObjectPlace, _: Range<u64>) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: &ObjectPlace, _: Vec<u8>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
