//! A query and its reply as they were on the wire, for what logs them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use ops::Clock;
use tokio_util::sync::CancellationToken;

use crate::chain::Router;
use crate::message::Metadata;

/// What is known of an exchange besides its messages.
#[derive(Debug, Clone, Copy)]
pub struct Findings<'a> {
    /// Why the reply is no answer, if it is none.
    pub error: Option<&'a str>,
    /// What handlers found out about the query.
    pub metadata: &'a Metadata,
}

/// A query and its reply, as they were on the wire.
#[derive(Clone, Copy)]
pub struct LoggedExchange<'a> {
    /// The query.
    pub query: &'a [u8],
    /// The reply; nothing where none was sent.
    pub reply: &'a [u8],
    /// What is known besides the messages.
    pub findings: Findings<'a>,
    /// The place of the block that the question is for, if it came so far.
    pub block: Option<usize>,
    /// Knows the block of any question.
    pub router: &'a Router,
    /// Who asked.
    pub peer: SocketAddr,
    /// Where the query arrived.
    pub local: SocketAddr,
    /// `udp` or `tcp`.
    pub proto: &'static str,
    /// How long the answer took.
    pub took: Duration,
    /// When it was there.
    pub now: Instant,
}

/// Logs exchanges.
pub trait ExchangeLog: Send + Sync {
    /// Logs an exchange, if it is to be logged.
    fn log(&self, exchange: &LoggedExchange<'_>);

    /// What has to run beside it, until `cancel`.
    fn background(
        &self,
        clock: &Arc<dyn Clock>,
        cancel: &CancellationToken,
    ) -> Vec<BoxFuture<'static, ()>>;
}
