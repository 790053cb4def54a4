//! DNS values: names, serials, TTLs, records and their wire and text forms. No I/O, no clock.
//!
//! Everything that enters as text or as octets enters here, through a checked constructor; inside,
//! a name is a [`Name`], a serial a [`Serial`], a TTL a [`Ttl`].

mod name;
mod rtype;
mod serial;
mod ttl;

pub use name::{DecodeError, Name, ParseError, SortKey};
pub use rtype::Rtype;
pub use serial::Serial;
pub use ttl::Ttl;
