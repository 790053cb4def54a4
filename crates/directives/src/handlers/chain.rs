//! The chain of a server block as it is built: each directive adds its handler.

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

/// What the handlers of a server block are built with.
#[derive(Clone)]
pub struct Context<'a> {
    /// Tells the time.
    pub clock: &'a Arc<dyn Clock>,
    /// Where they count.
    pub counts: Counts<'a>,
    /// The name of the machine.
    pub hostname: &'a str,
    /// The pods of the block's cluster by address, where they are known.
    pub clients: Option<Arc<ClientPods>>,
    /// The addresses of upstreams that are written as names.
    pub resolved: &'a Resolved,
    /// How many sockets towards upstreams there may be.
    pub sockets: &'a UpstreamSockets,
}

/// A chain that is being built.
pub struct Chain<'a> {
    /// What its handlers are built with.
    pub context: Context<'a>,
    /// The handlers so far.
    pub(crate) handlers: Vec<Arc<dyn Handler>>,
}

impl Chain<'_> {
    /// Adds a handler behind the others.
    pub fn add(&mut self, handler: impl Handler) {
        self.handlers.push(Arc::new(handler));
    }
}

/// A file or a name that a handler needs and that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub struct BuildError {
    place: Place,
    what: String,
    source: Box<dyn Error + Send + Sync>,
}

impl BuildError {
    /// The error of the directive at `place`, which cannot use `what`.
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
