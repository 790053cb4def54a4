//! Counters of handlers, with the names of CoreDNS's metrics.

use ops::HandlerMetrics;
use ops::metrics::Metric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// The metrics of a listener's handlers.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// The counters.
    pub metrics: &'a HandlerMetrics,
    /// The listener, such as `dns://:53`.
    pub server: &'a str,
}

/// One metric of a listener, with a counter for each set of other labels.
#[derive(Debug)]
pub(crate) struct Tally {
    metric: Metric,
    server: String,
    family: Family<Vec<(&'static str, String)>, Counter>,
}

impl Counts<'_> {
    /// The counters of a metric.
    pub(crate) fn tally(self, metric: Metric) -> Tally {
        Tally {
            metric,
            server: self.server.to_owned(),
            family: self.metrics.counter(metric),
        }
    }
}

impl Tally {
    /// The counter with these labels, which follow `server`.
    pub(crate) fn counter(&self, labels: &[&str]) -> Counter {
        let server = self.metric.labels.first().filter(|it| **it == "server");
        let server = server.map(|_| self.server.as_str());
        let values = server.into_iter().chain(labels.iter().copied());
        let names = self.metric.labels.iter().copied();
        let all = names.zip(values.map(ToOwned::to_owned)).collect();
        self.family.get_or_create_owned(&all)
    }

    /// Adds one to the counter with these labels.
    pub(crate) fn increase(&self, labels: &[&str]) {
        self.counter(labels).inc();
    }

    /// The value of the counter with these labels.
    #[cfg(test)]
    pub(crate) fn get(&self, labels: &[&str]) -> u64 {
        self.counter(labels).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::metrics::BLOCKED;
    use crate::config::handler_metrics;
    use crate::local::metrics::LOCALHOST;

    #[test]
    fn counts_are_told_by_server_and_labels_and_shared() {
        let metrics = handler_metrics();
        let on = |server| Counts {
            metrics: &metrics,
            server,
        };
        on("dns://:53").tally(BLOCKED).increase(&["z.", ""]);
        on("dns://:53").tally(BLOCKED).increase(&["z.", ""]);
        on("dns://:54").tally(BLOCKED).increase(&["z.", ""]);
        assert_eq!(on("dns://:53").tally(BLOCKED).get(&["z.", ""]), 2);
        on("dns://:53").tally(LOCALHOST).increase(&[]);
        assert_eq!(on("dns://:54").tally(LOCALHOST).get(&[]), 1);
    }
}
