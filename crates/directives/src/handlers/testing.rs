//! For tests of handlers: their environment.

use std::sync::Arc;

use ops::{Clock, HandlerMetrics};

use crate::forward::handler::UpstreamSockets;
use crate::forward::resolved::Resolved;
use crate::handlers::Counts;
use crate::handlers::chain::Context;

/// The metrics of a handler under test.
pub(crate) const fn counts(metrics: &HandlerMetrics) -> Counts<'_> {
    Counts {
        metrics,
        server: "dns://:53",
    }
}

/// The environment of a handler under test.
pub(crate) fn context<'a>(
    clock: &'a Arc<dyn Clock>,
    metrics: &'a HandlerMetrics,
    (resolved, sockets): &'a (Resolved, UpstreamSockets),
) -> Context<'a> {
    Context {
        clock,
        counts: counts(metrics),
        hostname: "node",
        clients: None,
        resolved,
        sockets,
    }
}
