//! `forward`: other servers are asked for names that are not ours.

pub(crate) mod config;
pub(crate) mod handler;
