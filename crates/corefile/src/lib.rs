//! The grammar of the Corefile, which is that of CoreDNS (its Caddyfile): words, blocks, directives, places.
//!
//! Two steps only record: the [`lexer`] makes words, and the [`parser`] makes blocks and puts in snippets, imports and
//! environment variables. The meaning of directives is not known here. Reading continues after an error: all are reported
//! together, each with file, line, column and fix.

pub mod address;
pub mod argument;
pub mod digest;
pub mod environment;
mod import;
pub mod lexer;
pub mod parser;
pub mod place;
pub mod quantity;
pub mod slip;
pub mod text;

pub use address::{DNS_PORT, HttpAddress, HttpAddressError, HttpHost, dns_address};
pub use place::{Place, Problem};
pub use quantity::GoDuration;
