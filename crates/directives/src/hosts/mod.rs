//! `hosts`: names and addresses of a file.

pub(crate) mod config;
pub(crate) mod handler;
