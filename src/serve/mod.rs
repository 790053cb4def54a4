//! Answering: sockets, requests, lookups.

mod dispatch;
mod handover;
pub mod lookup;
mod options;
mod reply;
mod server;
mod settings;
mod stats;
mod tcp;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
mod udp;

pub use options::Identity;
pub use server::{BindError, NamedTask, Parts, Server};
pub use settings::{NotifySettings, Settings, TcpSettings, TransferSettings};
pub use stats::{Count, Proto, Stats, TransferOutcome};
pub use tls::{TlsClients, TlsError, TlsIdentity, TlsMaterial};
