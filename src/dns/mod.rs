//! DNS values: names, serials, TTLs, records and their wire and text forms. No I/O, no clock.
//!
//! Everything that enters as text or as octets enters here, through a checked constructor; inside,
//! a name is a [`Name`], a serial a [`Serial`], a TTL a [`Ttl`].

mod name;
mod rdata;
mod record;
mod rtype;
mod serial;
mod text;
mod ttl;

pub(crate) use name::wire_name_len;
pub use name::{DecodeError, Name, ParseError, SortKey};
pub use rdata::{Rdata, Soa};
pub use record::{Record, RrList, RrListIter, RrRef};
pub use rtype::Rtype;
pub use serial::Serial;
pub use text::{RecordText, ZoneWriter};
pub use ttl::Ttl;
