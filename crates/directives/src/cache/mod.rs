//! `cache`: replies of the next are kept.

pub(crate) mod config;
pub(crate) mod handler;
