//! `errors`: errors are logged.

pub(crate) mod config;
pub(crate) mod consolidate;
