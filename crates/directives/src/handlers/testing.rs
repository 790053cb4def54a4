//! For tests of handlers: what they are built with.

use std::sync::Arc;

use ops::{Clock, HandlerMetrics};

use crate::forward::handler::UpstreamSockets;
use crate::forward::resolved::Resolved;
use crate::handlers::Counts;
use crate::handlers::chain::Context;

/// Where handlers of tests count.
pub(crate) const fn counts(metrics: &HandlerMetrics) -> Counts<'_> {
    Counts {
        metrics,
        server: "dns://:53",
    }
}

/// What handlers of tests are built with.
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
