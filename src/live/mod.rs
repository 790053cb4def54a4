//! What goes on around the zones at query time. For now: the logging of queries.

mod log;

pub use log::{Exchange, QueryLog, Rules};
