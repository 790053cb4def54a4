//! What running the server needs besides its work: the clock.

mod clock;

pub use clock::{Clock, SystemClock};
