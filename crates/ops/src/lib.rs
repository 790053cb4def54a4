//! What running the server needs besides its work: clock, tasks, logs, metrics, health.

mod aside;
mod clock;
mod exposition;
pub mod handler_metrics;
pub mod http;
pub mod metrics;
mod panics;
mod request_metrics;
mod tasks;
pub mod telemetry;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod time_text;

#[cfg(any(test, feature = "testing"))]
pub use aside::times_others_first;
pub use aside::{aside, at_once, give_way, others_first};
#[cfg(any(test, feature = "testing"))]
pub use clock::HandClock;
pub use clock::{Clock, SystemClock, millis};
pub use handler_metrics::HandlerMetrics;
pub use panics::catch_panic;
pub use request_metrics::RequestMetrics;
pub use tasks::{Name as TaskName, TaskEnd, TaskError, Tasks, panic_text};
pub use time_text::TimeText;
