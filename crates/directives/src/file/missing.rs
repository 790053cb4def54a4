//! The names below a cluster's zone that a file would have which could never be used: nobody knows which they are.

use std::any::Any;
use std::sync::Arc;

use dns::Name;
use server::{Synthesized, SynthesizedNames};
use zone::Version;
use zonefile::follow::FileStats;

/// Says of the names that a file may have that they are not known, until it could be used.
#[derive(Debug)]
pub struct MissingFile {
    /// Says whether the file could be used.
    pub file: Arc<FileStats>,
    /// The names that are the file's, with those below them.
    pub names: Vec<Name>,
}

impl SynthesizedNames for MissingFile {
    fn answer(&self, _: &Version, name: &[u8]) -> Synthesized {
        let is_below = |above: &Name| dns::wire_is_within(name, above.as_wire());
        if self.file.is_missing() && self.names.iter().any(is_below) {
            Synthesized::Unknown
        } else {
            Synthesized::Missing
        }
    }

    fn is_same(&self, other: &dyn SynthesizedNames) -> bool {
        let other = (other as &dyn Any).downcast_ref::<Self>();
        other.is_some_and(|other| Arc::ptr_eq(&self.file, &other.file) && self.names == other.names)
    }
}
