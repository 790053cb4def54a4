//! DNS values: names, serials, TTLs, records and their wire and text forms. No I/O, no clock.
//!
//! Text and octets become values here, through checked constructors: a name is a [`Name`], a serial a [`Serial`], a TTL
//! a [`Ttl`].

mod compress;
mod cookie;
pub mod edns;
mod header;
mod name;
mod network;
mod ordered;
mod rdata;
mod record;
mod rtype;
mod serial;
mod sort_key;
#[cfg(any(test, feature = "testing"))]
mod steps;
mod suffix;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod text;
pub mod tsig;
mod ttl;
mod wire;
mod wire_name;
mod wire_query;
mod wire_record;
mod wire_reply;

pub use cookie::{CookieSecrets, Secret};
pub use header::{Rcode, flags};
pub use name::WireText;
pub use name::{DecodeError, Name, ParseError};
pub use network::{Network, NotANetwork};
pub use ordered::OwnerRef;
pub use rdata::{Rdata, Soa};
pub use record::RrBlock;
pub use record::{Record, RrList, RrListIter, RrRef};
pub use rtype::{Rtype, UnknownType, class_name, class_of_name};
pub use serial::Serial;
pub use sort_key::SortKey;
pub use suffix::SuffixMap;
pub use text::{RecordLines, RecordText};
pub use ttl::Ttl;
pub use wire::set_length;
pub use wire::{
    HEADER_OCTETS, MAX_MESSAGE_OCTETS, Mark, MessageWriter, OPT_OCTETS, OptReply, Section,
};
pub use wire_name::{wire_is_within, wire_name_len};
pub use wire_query::{Query, Unreadable};
pub use wire_record::{RawRecord, RawRecords, tsig_place};
pub use wire_reply::{BadReply, Response};
