//! What goes on around the zones at query time: the chain of a server block's handlers, what no zone can
//! hold, and the logging of queries.

pub(crate) mod chain;
#[cfg(test)]
mod fuzz_tests;
pub(crate) mod name_text;
pub(crate) mod tally;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::errors::consolidate::Consolidated;
pub use crate::forward::OpenUpstreams;
pub use crate::forward::handler::{
    AskError, Https, ResolveError, Secured, Upstream, UpstreamSockets, UpstreamTls, random_id,
    resolve,
};
pub use crate::history::version_name::VersionName;
pub use crate::kubernetes::synthesized::{ClusterNames, RenderService};
pub use crate::log::handler::{QueryLog, Rules};
pub use chain::{BuildError, Context};
pub use tally::Counts;
