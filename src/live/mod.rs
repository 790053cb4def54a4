//! What goes on around the zones at query time: the chain of a server block's handlers, what no zone can
//! hold, and the logging of queries.

mod any;
pub mod chain;
mod chaos;
mod consolidate;
mod loadbalance;
mod log;
pub mod message;
mod names;
mod pods;
pub mod shuffle;
#[cfg(test)]
pub(crate) mod testing;
mod zonal;
pub mod zones;

pub use any::Any;
pub use chain::{Block, Handler, Next, Router, Shape};
pub use chaos::Chaos;
pub use consolidate::Consolidated;
pub use loadbalance::{BadWeights, Loadbalance, Weights};
pub use log::{Exchange, QueryLog, Rules};
pub use message::{Failure, Origin, Outcome, Proto, Question, Reply, Request};
pub use names::{LiveAnswer, LiveNames};
pub use pods::InsecurePods;
pub use zonal::{RenderService, ZonalNames};
pub use zones::BlockZones;
