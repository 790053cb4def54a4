//! The chain of a server block while it is built: each directive adds its handlers.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use corefile::place::Place;
use kubernetes::facts::ClientPods;
use ops::Clock;
use server::Handler;

use crate::forward::handler::sockets::UpstreamSockets;
use crate::forward::resolved::Resolved;
use crate::handlers::tally::Counts;

/// The environment of the handlers of a server block.
#[derive(Clone)]
pub struct Context<'a> {
    /// The clock.
    pub clock: &'a Arc<dyn Clock>,
    /// The metrics of the handlers.
    pub counts: Counts<'a>,
    /// The name of the machine.
    pub hostname: &'a str,
    /// The pods of the block's cluster by address, if they are known.
    pub clients: Option<Arc<ClientPods>>,
    /// The addresses of upstreams that are written as names.
    pub resolved: &'a Resolved,
    /// The limit of sockets to upstreams.
    pub sockets: &'a UpstreamSockets,
}

/// A chain while it is built.
pub struct Chain<'a> {
    /// The environment of its handlers.
    pub context: Context<'a>,
    /// The handlers so far.
    pub(crate) handlers: Vec<Arc<dyn Handler>>,
}

impl Chain<'_> {
    /// Adds a handler after the others.
    pub fn add(&mut self, handler: impl Handler) {
        self.handlers.push(Arc::new(handler));
    }
}

/// An unusable file or name that a handler needs.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct BuildError {
    place: Place,
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

impl BuildError {
    /// The error of the directive at `place` that cannot use `what`.
    pub fn new(
        place: &Place,
        what: impl fmt::Display,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        Self {
            place: place.clone(),
            what: what.to_string(),
            source: source.into(),
        }
    }
}
