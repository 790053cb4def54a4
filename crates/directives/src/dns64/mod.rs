//! `dns64`: IPv6 addresses for names that have IPv4 addresses only.

pub(crate) mod config;
pub(crate) mod handler;
