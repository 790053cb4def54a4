//! Answering: sockets, requests, lookups.

mod activity;
mod answer;
mod batch;
pub mod chain;
mod dispatch;
mod doh;
mod exchange;
mod handover;
mod https;
mod later;
mod listener;
pub mod message;
mod names;
mod options;
mod places;
mod pods;
mod reply;
mod seldom;
mod server;
mod settings;
pub mod shuffle;
mod stats;
pub mod tally;
mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tls;
mod udp;
mod way;
mod zonal;
pub mod zones;

pub use chain::{Block, Found, Handler, Next, Router, Shape};
pub use exchange::{ExchangeLog, Findings, LoggedExchange};
pub use listener::{Answering, BindError, Listener, NamedTask, Standing, overlap};
pub use message::{Failure, Origin, Outcome, Proto, Question, Reply, Request};
pub use names::{LiveAnswer, LiveNames};
pub use options::Identity;
pub use pods::InsecurePods;
pub use server::{Common, Parts, Server, Told};
pub use settings::{Settings, StreamLimits, TcpSettings};
pub use stats::{Count, Stats};
pub use tls::{TlsClients, TlsError, TlsIdentity, TlsMaterial};
pub use zonal::{RenderService, ZonalNames};
pub use zones::BlockZones;
