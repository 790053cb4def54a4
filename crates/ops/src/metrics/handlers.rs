//! Counts of handlers, one for each metric that a directive declares, with CoreDNS's names and labels.
//!
//! The counts outlive the handlers: a reload makes new handlers, which continue the counts.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeMetric;
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::{Labels, Metric, MetricKind, RequestMetrics};

/// A value that goes up and down.
pub type Level = Gauge<f64, AtomicU64>;

/// Times of handlers.
pub type Times = Family<Labels, Histogram, fn() -> Histogram>;

/// 0.25 ms to 8 s, as CoreDNS.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

/// The counts of one metric.
#[derive(Debug)]
enum Counts {
    Counter(Family<Labels, Counter>),
    Gauge(Family<Labels, Level>),
    Histogram(Times),
}

/// Counts of handlers and of requests to API servers.
#[derive(Debug, Clone)]
pub struct HandlerMetrics {
    /// Counts of requests to API servers.
    pub requests: RequestMetrics,
    handlers: Arc<Vec<(Metric, Counts)>>,
}

impl HandlerMetrics {
    /// Counts for these metrics of handlers.
    pub fn new(metrics: impl Iterator<Item = Metric>) -> Self {
        let counts = metrics.map(|metric| {
            let counts = match metric.kind {
                MetricKind::Counter => Counts::Counter(Family::default()),
                MetricKind::Gauge => Counts::Gauge(Family::default()),
                MetricKind::Histogram => Counts::Histogram(Family::new_with_constructor(seconds)),
            };
            (metric, counts)
        });
        Self {
            requests: RequestMetrics::default(),
            handlers: Arc::new(counts.collect()),
        }
    }

    fn counts(&self, metric: Metric) -> &Counts {
        let found = self.handlers.iter().find(|(own, _)| *own == metric);
        let (_, counts) = found.expect("the directive declares the metrics of its handler");
        counts
    }

    /// A counter.
    ///
    /// # Panics
    /// When no directive declares it, or with another kind.
    #[must_use]
    pub fn counter(&self, metric: Metric) -> Family<Labels, Counter> {
        match self.counts(metric) {
            Counts::Counter(family) => family.clone(),
            Counts::Gauge(_) | Counts::Histogram(_) => panic!("{} is no counter", metric.name),
        }
    }

    /// A gauge.
    ///
    /// # Panics
    /// When no directive declares it, or with another kind.
    #[must_use]
    pub fn gauge(&self, metric: Metric) -> Family<Labels, Level> {
        match self.counts(metric) {
            Counts::Gauge(family) => family.clone(),
            Counts::Counter(_) | Counts::Histogram(_) => panic!("{} is no gauge", metric.name),
        }
    }

    /// A histogram of seconds.
    ///
    /// # Panics
    /// When no directive declares it, or with another kind.
    #[must_use]
    pub fn histogram(&self, metric: Metric) -> Times {
        match self.counts(metric) {
            Counts::Histogram(family) => family.clone(),
            Counts::Counter(_) | Counts::Gauge(_) => panic!("{} is no histogram", metric.name),
        }
    }

    /// Adds the counts to those that are scraped.
    pub fn register(&self, registry: &mut Registry) {
        self.requests.register(registry);
        for (metric, counts) in &*self.handlers {
            match counts {
                Counts::Counter(family) => register(registry, metric, family),
                Counts::Gauge(family) => register(registry, metric, family),
                Counts::Histogram(family) => register(registry, metric, family),
            }
        }
    }
}

/// Adds the counts of a metric to those that are scraped. One without labels has its count from the start, as in
/// CoreDNS.
fn register<M, C>(registry: &mut Registry, metric: &Metric, family: &Family<Labels, M, C>)
where
    M: EncodeMetric + TypedMetric + Clone + Debug + Send + Sync + 'static,
    C: MetricConstructor<M> + Clone + Debug + Send + Sync + 'static,
{
    let Metric { name, help, .. } = *metric;
    match metric.labels {
        [] => registry.register(name, help, family.get_or_create_owned(&Labels::new())),
        _ => registry.register(name, help, family.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    crate::declare_metrics! {
        pub(super),
        ALONE Counter "alone" [] "Without labels";
        COUNTER Counter "counter" ["a"] "With a label";
        GAUGE Gauge "gauge" ["a"] "A level";
        HISTOGRAM Histogram "histogram" ["a"] "Times";
    }

    #[test]
    fn what_a_handler_counts_is_scraped() {
        let metrics = HandlerMetrics::new(METRICS.iter().copied());
        let labels = vec![("a", "b".to_owned())];
        metrics.counter(ALONE).get_or_create(&Vec::new()).inc();
        metrics.counter(COUNTER).get_or_create(&labels).inc_by(7);
        metrics.gauge(GAUGE).get_or_create(&labels).set(8.0);
        let histogram = metrics.histogram(HISTOGRAM);
        histogram.get_or_create(&labels).observe(9.0);
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            "alone_total 1\n",
            "counter_total{a=\"b\"} 7\n",
            "gauge{a=\"b\"} 8.0\n",
            "histogram_sum{a=\"b\"} 9.0\n",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
