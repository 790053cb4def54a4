//! Running the process: the clock it lives by.

mod clock;

pub use clock::{Clock, SystemClock};
