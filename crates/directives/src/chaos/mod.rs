//! `chaos`: what is told in class CH.

pub(crate) mod config;
pub(crate) mod handler;
