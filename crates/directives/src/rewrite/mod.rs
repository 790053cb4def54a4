//! `rewrite`: questions become other questions.

pub(crate) mod config;
pub(crate) mod handler;
