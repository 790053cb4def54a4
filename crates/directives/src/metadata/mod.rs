//! `metadata`: facts about queries, for log lines, rules and templates.

pub(crate) mod config;
pub(crate) mod handler;
