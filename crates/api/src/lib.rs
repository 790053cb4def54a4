//! The history over HTTPS: questions without orders, for readers with a token or a certificate.
//!
//! A request takes these steps, and each can refuse it: its form ([`target`]), who asks ([`access`]), how often
//! ([`limits`]), the endpoint and its parameters ([`endpoint`]), the right to read the zone. Then the answer is made as for
//! the socket for readers, and streamed ([`respond`]). No endpoint gives an order: [`history::Streamed`] has none.
//!
//! # Not implemented
//! - HTTP/2: a connection has one request at a time, so its limits are simple.
//! - Text for people: the answers are the JSON lines of the command line.

pub mod endpoint;
pub mod openapi;

mod access;
mod body;
mod connection;
mod counts;
mod limits;
mod listener;
mod progress;
mod refusal;
mod respond;
mod reviewer;
mod site;
mod target;

pub use access::{Access, AllowedName, CertificateRules};
pub use counts::Counts;
pub use limits::Limits;
pub use listener::{Serving, serve};
pub use reviewer::Reviewer;
pub use site::Site;

#[cfg(test)]
mod tests;
