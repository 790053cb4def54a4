//! A query and its reply as they were on the wire, for the query log.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use ops::Clock;
use tokio_util::sync::CancellationToken;

use crate::chain::Router;
use crate::message::Metadata;

/// The properties of an exchange besides its messages.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// The error, if the reply is a failure.
    pub error: Option<&'a str>,
    /// The labels that handlers found for the query.
    pub metadata: &'a Metadata,
}

/// A query and its reply, as they were on the wire.
#[derive(Clone, Copy)]
pub struct LoggedExchange<'a> {
    /// The query.
    pub query: &'a [u8],
    /// The reply; empty if none was sent.
    pub reply: &'a [u8],
    /// The properties besides the messages.
    pub findings: Findings<'a>,
    /// The index of the question's block, if it was looked up.
    pub block: Option<usize>,
    /// Finds the block of any question.
    pub router: &'a Router,
    /// The client.
    pub peer: SocketAddr,
    /// Our address.
    pub local: SocketAddr,
    /// `udp` or `tcp`.
    pub proto: &'static str,
    /// The time taken to answer.
    pub took: Duration,
    /// The time at which the answer was complete.
    pub now: Instant,
}

/// A log of exchanges.
pub trait ExchangeLog: Send + Sync {
    /// Logs an exchange, if a rule wants it.
    fn log(&self, exchange: &LoggedExchange<'_>);

    /// Its background work, until `cancel`.
    fn background(
        &self,
        clock: &Arc<dyn Clock>,
        cancel: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>>;
}
