//! `acl`: who may ask what.

pub(crate) mod config;
pub(crate) mod handler;
