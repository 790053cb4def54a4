//! The directives of the Corefile: what each says, and what answers at query time where it says so.

pub mod config;
pub mod handlers;
