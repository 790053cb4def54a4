//! Parts of the history that are kept elsewhere, for years.
//!
//! A segment is an object with consecutive versions of a zone. It has the same entries as the database has for them:
//! steps, indexes, the contents before the first version, a head. So everything that reads the history reads it there, too.
//! A segment is written from the database while its versions are still there, read back, and only then noted in the
//! database. Versions of a zone with an archive leave the database only when a noted segment has them: after a crash
//! at any point each version is in the one or in the other.

mod beyond;
mod block_file;
mod cut;
mod noted;
mod objects;
mod opened;
mod segment;

pub use cut::{Cut, CutLimits};
pub(super) use objects::NoObjects;
pub use objects::{ObjectPlace, Objects};
pub(super) use opened::Remote;
pub use segment::Segment;
pub(super) use segment::{Segments, descriptions, read};
