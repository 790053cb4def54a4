//! `template`: replies made from the question.

pub(crate) mod config;
pub(crate) mod handler;
