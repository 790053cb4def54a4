//! What integration tests share: real servers as children, and a small DNS client on hickory.
//!
//! A test asks first for what it needs:
//!
//! ```ignore
//! if crate::support::needs::lacks(&["bind", "knot"]) {
//!     return;
//! }
//! ```
//!
//! The helpers are synchronous; a test that is itself asynchronous calls them from
//! `spawn_blocking`. Every server listens on 127.0.0.1, lives in its own temporary folder and is
//! ended by its process id when its owner is dropped.

pub mod apiserver;
pub mod cases;
pub mod certificates;
pub mod cluster;
pub mod contents;
pub mod doh;
pub mod etcd;
pub mod evidence;
pub mod fleet;
pub mod https;
pub mod kubelet;
pub mod lists;
pub mod machine;
pub mod namespaces;
pub mod needs;
pub mod page;
pub mod ports;
pub mod process;
pub mod product;
pub mod proxy;
pub mod random;
pub mod rbac;
pub mod recorder;
pub mod secondary;
pub mod service_imports;
pub mod strangers;
pub mod tree;
pub mod upstream;
pub mod wire;
pub mod zonewright;
