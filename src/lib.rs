//! zonewright: DNS for Kubernetes that the world's ordinary DNS servers can hold.
//!
//! This crate is the program: its command line, the plan made of a configuration, start, reload and shutdown. The parts are in
//! `crates/`; ARCHITECTURE.md says how the data flows through them. The glossary is docs/glossary.md.

pub mod cli;
pub mod doctor;
pub mod emit;
pub mod failure;
pub mod plan;
pub mod runtime;
