//! `log`: queries are logged.

pub(crate) mod config;
pub(crate) mod handler;
