//! Counters of handlers that look at questions: CoreDNS's metrics of its plugins.

use ops::HandlerMetrics;
use ops::metrics::Metric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;

/// Where the handlers of a listener count.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// The counters.
    pub metrics: &'a HandlerMetrics,
    /// The listener, such as `dns://:53`.
    pub server: &'a str,
}

/// A metric, for a listener where it has one, counted by its other labels.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Which metric.
    metric: Metric,
    /// The listener.
    server: String,
    /// The counts.
    family: Family<Vec<(&'static str, String)>, Counter>,
}

impl Counts<'_> {
    /// A metric's counts.
    pub(crate) fn tally(self, metric: Metric) -> Tally {
        Tally {
            metric,
            server: self.server.to_owned(),
            family: self.metrics.counter(metric),
        }
    }
}

impl Tally {
    /// The counter of these labels, those behind `server`.
    pub(crate) fn counter(&self, labels: &[&str]) -> Counter {
        let server = self.metric.labels.first().filter(|it| **it == "server");
        let server = server.map(|_| self.server.as_str());
        let values = server.into_iter().chain(labels.iter().copied());
        let names = self.metric.labels.iter().copied();
        let all = names.zip(values.map(ToOwned::to_owned)).collect();
        self.family.get_or_create_owned(&all)
    }

    /// One more of these labels.
    pub(crate) fn increase(&self, labels: &[&str]) {
        self.counter(labels).inc();
    }

    /// The count of these labels.
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
