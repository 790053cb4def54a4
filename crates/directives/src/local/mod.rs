//! `local`: names of the machine itself.

pub(crate) mod config;
pub(crate) mod handler;
