//! For tests: certificates, a journal in memory, and replicas in one process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "for tests: what fails here fails the test"
)]

mod authority;
mod journal;
mod member;

pub use authority::Authority;
pub use journal::{MemoryJournal, step_after};
pub use member::{Installation, Member, Told, soon};
