//! What goes on around the zones at query time: the chain of a server block's handlers, what no zone can
//! hold, and the logging of queries.

mod acl;
mod any;
mod autopath;
mod cache;
pub mod chain;
mod chaos;
mod consolidate;
mod dns64;
mod exchange;
mod forward;
mod hosts;
mod loadbalance;
mod local;
mod log;
mod loops;
pub mod message;
mod metadata;
mod name_text;
mod names;
mod pods;
mod rewrite;
pub mod shuffle;
mod tally;
mod template;
#[cfg(test)]
pub(crate) mod testing;
mod zonal;
pub mod zones;

pub use acl::{Acl, AclRule};
pub use any::Any;
pub use autopath::{Autopath, Search};
pub use cache::Cache;
pub use chain::{Block, Found, Handler, Next, Router, Shape};
pub use chaos::Chaos;
pub use consolidate::Consolidated;
pub use dns64::Dns64;
pub use exchange::{ExchangeLog, Findings, LoggedExchange};
pub use forward::{
    AskError, Forward, Https, ResolveError, Upstream, UpstreamSockets, UpstreamTls, random_id,
    resolve,
};
pub use hosts::Hosts;
pub use loadbalance::{BadWeights, Loadbalance, Weights};
pub use local::Local;
pub use log::{QueryLog, Rules};
pub use loops::Loop;
pub use message::{Failure, Origin, Outcome, Proto, Question, Reply, Request};
pub use metadata::{ClusterMetadata, Metadata};
pub use names::{LiveAnswer, LiveNames};
pub use pods::InsecurePods;
pub(crate) use pods::address as pod_address;
pub use rewrite::Rewrite;
pub use tally::Counts;
pub use template::{ReadRecord, Templates};
pub use zonal::{RenderService, ZonalNames};
pub use zones::BlockZones;
