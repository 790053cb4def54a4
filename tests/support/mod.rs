//! What integration tests share: real servers as children, and a small DNS client on hickory.
//!
//! A test file says `mod support;` and asks first for what it needs:
//!
//! ```ignore
//! if support::needs::lacks(&["bind", "knot"]) {
//!     return;
//! }
//! ```
//!
//! The helpers are synchronous; a test that is itself asynchronous calls them from
//! `spawn_blocking`. Every server listens on 127.0.0.1, lives in its own temporary folder and is
//! ended by its process id when its owner is dropped.
#![allow(
    dead_code,
    unused_imports,
    reason = "each test file compiles this module and uses its own part of it"
)]
#![allow(
    unreachable_pub,
    reason = "a module of a test has no outside, `pub` marks what tests call"
)]
#![allow(
    missing_docs,
    clippy::missing_docs_in_private_items,
    reason = "plain fields say it by name"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a helper that fails fails the test"
)]
#![allow(
    clippy::print_stderr,
    reason = "what is left out must be seen in the test's output"
)]

pub mod apiserver;
pub mod cases;
pub mod certificates;
pub mod contents;
pub mod doh;
pub mod fleet;
pub mod lists;
pub mod needs;
pub mod ports;
pub mod process;
pub mod product;
pub mod proxy;
pub mod random;
pub mod rbac;
pub mod recorder;
pub mod secondary;
pub mod upstream;
pub mod wire;
pub mod zonewright;
