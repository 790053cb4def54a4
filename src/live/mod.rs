//! What goes on around the zones at query time. What no zone can hold, and the
//! logging of queries.

mod log;
mod pods;

pub use log::{Exchange, QueryLog, Rules};
pub use pods::{InsecurePods, PodAnswer};
