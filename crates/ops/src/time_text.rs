//! How a time is written for people.

use std::fmt;

use jiff::Timestamp;

/// A time as people and RFC 3339 write it, to the millisecond, UTC; from milliseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub struct TimeText(pub u64);

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = i64::try_from(self.0)
            .ok()
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        match stamp {
            Some(stamp) => write!(f, "{stamp:.3}"),
            None => write!(f, "{} ms", self.0),
        }
    }
}
