//! `autopath`: the search path of clients, walked for them.

pub(crate) mod config;
pub(crate) mod handler;
