//! `loop`: questions that come back end the server.

pub(crate) mod handler;
