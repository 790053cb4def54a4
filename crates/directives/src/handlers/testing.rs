//! For tests of handlers: what they are built with.

use std::sync::Arc;

use ops::{Clock, HandlerMetrics};

use crate::forward::handler::Upstream;
use crate::forward::{Forward, OpenUpstreams};
use crate::handlers::Counts;
use crate::handlers::chain::{BuildError, Context};

/// Where handlers of tests count.
pub(crate) const fn counts(metrics: &HandlerMetrics) -> Counts<'_> {
    Counts {
        metrics,
        server: "dns://:53",
    }
}

/// Opens no upstreams.
struct NoUpstreams;

impl OpenUpstreams for NoUpstreams {
    fn open(&self, _: &Forward, _: &HandlerMetrics) -> Result<Vec<Upstream>, BuildError> {
        Ok(Vec::new())
    }
}

/// What handlers of tests are built with.
pub(crate) fn context<'a>(clock: &'a Arc<dyn Clock>, metrics: &'a HandlerMetrics) -> Context<'a> {
    Context {
        clock,
        counts: counts(metrics),
        hostname: "node",
        clients: None,
        upstreams: &NoUpstreams,
    }
}
