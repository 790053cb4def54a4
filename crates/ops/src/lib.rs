//! Clock, tasks, threads, logs, metrics and health: the needs of every server.

mod background;
mod clock;
mod exposition;
pub mod http;
pub mod metrics;
mod panics;
mod places;
mod tasks;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod watch;

#[cfg(any(test, feature = "testing"))]
pub use background::times_yielded;
pub use background::{
    BackgroundRuntime, begin_in_background, in_background, in_parallel, lower_priority,
    side_by_side, yield_to_others,
};
#[cfg(any(test, feature = "testing"))]
pub use clock::HandClock;
pub use clock::{Clock, SystemClock, TimeText, boottime, millis};
pub use metrics::{HandlerMetrics, RequestMetrics};
pub use panics::{catch_panic, panic_text};
pub use places::{Place, PlaceLimits, Places, Usage, source_of};
pub use tasks::{Name as TaskName, TaskEnd, TaskError, Tasks};
