//! `loadbalance`: the order of addresses.

pub(crate) mod config;
pub(crate) mod handler;
