//! Answering: sockets, requests, lookups.

mod dispatch;
pub mod lookup;
mod reply;
mod server;
mod settings;
mod stats;
mod tcp;
#[cfg(test)]
pub(crate) mod testing;
mod udp;

pub use server::{BindError, NamedTask, Parts, Server};
pub use settings::{NotifySettings, Settings, TcpSettings, TransferSettings};
pub use stats::{Count, Proto, Stats, TransferOutcome};
