//! The grammar of the Corefile, which is that of CoreDNS (its Caddyfile): words, blocks, directives, places.
//!
//! Reading goes in steps that only record: words ([`lexer`]), then blocks with snippets, imports and
//! environment put in ([`parser`]). What a directive means is not known here. Nothing stops at the first
//! error: all come out together, each with file, line, column and what to do.

pub mod address;
mod argument;
pub mod digest;
pub mod environment;
mod import;
pub mod lexer;
pub mod parser;
pub mod place;
pub mod quantity;

pub use address::{DNS_PORT, HttpAddress, HttpAddressError, HttpHost, dns_address};
pub use place::{Place, Problem};
pub use quantity::GoDuration;
