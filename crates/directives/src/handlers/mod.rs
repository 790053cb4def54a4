//! The parts around the zones at query time: the chain of a server block's handlers, names that no zone can hold, and
//! the query log.

pub(crate) mod chain;
#[cfg(test)]
mod fuzz_tests;
pub(crate) mod name_text;
pub(crate) mod tally;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::errors::consolidate::Consolidated;
pub use crate::file::MissingFile;
pub use crate::forward::handler::{UpstreamSockets, random_id};
pub use crate::forward::resolved::Resolved;
pub use crate::forward::{resolve_upstreams, unresolved_upstreams};
pub use crate::history::version_name::VersionName;
pub use crate::kubernetes::synthesized::{ClusterNames, RenderService};
pub use crate::log::handler::{QueryLog, Rules};
pub use chain::{BuildError, Context};
pub use tally::Counts;
