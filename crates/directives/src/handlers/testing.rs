//! For tests of handlers: where they count.

use ops::HandlerMetrics;

use crate::handlers::Counts;

/// Where handlers of tests count.
pub(crate) const fn counts(metrics: &HandlerMetrics) -> Counts<'_> {
    Counts {
        metrics,
        server: "dns://:53",
    }
}
