//! What goes on around the zones at query time: the chain of a server block's handlers, what no zone can
//! hold, and the logging of queries.

mod acl;
mod any;
mod autopath;
mod cache;
mod chaos;
mod consolidate;
mod dns64;
mod forward;
#[cfg(test)]
mod fuzz_tests;
mod hosts;
mod loadbalance;
mod local;
mod log;
mod loops;
mod metadata;
mod name_text;
mod rewrite;
mod tally;
mod template;
#[cfg(test)]
mod testing;

pub use acl::{Acl, AclRule};
pub use any::Any;
pub use autopath::{Autopath, Search};
pub use cache::Cache;
pub use chaos::Chaos;
pub use consolidate::Consolidated;
pub use dns64::Dns64;
pub use forward::{
    AskError, Forward, Https, ResolveError, Upstream, UpstreamSockets, UpstreamTls, random_id,
    resolve,
};
pub use hosts::Hosts;
pub use loadbalance::{BadWeights, Loadbalance, Weights};
pub use local::Local;
pub use log::{QueryLog, Rules};
pub use loops::Loop;
pub use metadata::{ClusterMetadata, Metadata};
pub use rewrite::Rewrite;
pub use tally::Counts;
pub use template::{ReadRecord, Templates};
