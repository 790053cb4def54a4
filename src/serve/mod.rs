//! Answering: sockets, requests, lookups.

mod batch;
mod dispatch;
mod handover;
mod later;
mod listener;
mod options;
mod reply;
mod seldom;
mod server;
mod settings;
mod stats;
pub mod tally;
mod tcp;
#[cfg(test)]
pub(crate) mod testing;
mod tls;
mod udp;
mod way;

pub use crate::live::Proto;
pub use listener::{Answering, BindError, Listener, NamedTask, Standing, overlap};
pub use options::Identity;
pub use server::{Common, Parts, Server, Told};
pub use settings::{Settings, TcpSettings};
pub use stats::{Count, Stats};
pub use tls::{TlsClients, TlsError, TlsIdentity, TlsMaterial};
