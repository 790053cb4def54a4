//! What goes on around the zones at query time. What no zone can hold, and the
//! logging of queries.

mod log;
mod names;
mod pods;
mod zonal;

pub use log::{Exchange, QueryLog, Rules};
pub use names::{LiveAnswer, LiveNames};
pub use pods::InsecurePods;
pub use zonal::{RenderService, ZonalNames};
