//! What goes on around the zones at query time: the chain of a server block's handlers, what no zone can
//! hold, and the logging of queries.

#[cfg(test)]
mod fuzz_tests;
pub(crate) mod name_text;
pub(crate) mod tally;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::acl::handler::{Acl, AclRule};
pub use crate::any::Any;
pub use crate::autopath::handler::{Autopath, Search};
pub use crate::cache::handler::Cache;
pub use crate::chaos::handler::Chaos;
pub use crate::dns64::handler::Dns64;
pub use crate::errors::consolidate::Consolidated;
pub use crate::forward::handler::{
    AskError, Forward, Https, ResolveError, Secured, Upstream, UpstreamSockets, UpstreamTls,
    random_id, resolve,
};
pub use crate::hosts::handler::Hosts;
pub use crate::loadbalance::handler::{BadWeights, Loadbalance, Weights};
pub use crate::local::handler::Local;
pub use crate::log::handler::{QueryLog, Rules};
pub use crate::r#loop::handler::Loop;
pub use crate::metadata::handler::{ClusterMetadata, Metadata};
pub use crate::rewrite::handler::Rewrite;
pub use crate::template::handler::{ReadRecord, Templates};
pub use tally::Counts;
