//! Counts of handlers and sources, with CoreDNS's names and labels.
//!
//! The counts outlive the handlers: a reload makes new handlers, which continue the counts.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::{self as m, Labels, QuestionMetric, RequestMetrics, counts};

/// 0.25 ms to 8 s, as CoreDNS.
fn proxy_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

counts! {
    /// Counts of handlers and sources.
    HandlerMetrics {
        proxy_seconds PROXY_SECONDS: Family<Labels, Histogram, fn() -> Histogram> = Family::new_with_constructor(proxy_seconds);
        healthcheck_failures PROXY_HEALTHCHECK_FAILURES: Family<Labels, Counter>;
        connection_hits PROXY_CONNECTION_HITS: Family<Labels, Counter>;
        connection_misses PROXY_CONNECTION_MISSES: Family<Labels, Counter>;
        healthcheck_broken FORWARD_HEALTHCHECK_BROKEN: Counter;
        concurrent_rejects FORWARD_CONCURRENT_REJECTS: Counter;
        cache_entries CACHE_ENTRIES: Family<Labels, Gauge>;
        cache_requests CACHE_REQUESTS: Family<Labels, Counter>;
        cache_hits CACHE_HITS: Family<Labels, Counter>;
        cache_misses CACHE_MISSES: Family<Labels, Counter>;
        cache_prefetches CACHE_PREFETCHES: Family<Labels, Counter>;
        cache_drops CACHE_DROPS: Family<Labels, Counter>;
        cache_served_stale CACHE_SERVED_STALE: Family<Labels, Counter>;
        cache_evictions CACHE_EVICTIONS: Family<Labels, Counter>;
        hosts_entries HOSTS_ENTRIES: Family<Labels, Gauge>;
        hosts_reload HOSTS_RELOAD: Gauge<f64, AtomicU64>;
        + requests: RequestMetrics;
        + questions: QuestionCounts;
    }
}

impl HandlerMetrics {
    /// The counts of a metric.
    #[must_use]
    pub fn questions(&self, metric: QuestionMetric) -> Family<Labels, Counter> {
        let mut all = self.questions.0.iter();
        let found = all.find(|(own, _)| *own == metric);
        let (_, family) = found.expect("there are counts for each metric of the table");
        family.clone()
    }
}

/// Counts of handlers that look at questions, one for each of [`m::QUESTIONS`].
#[derive(Debug, Clone)]
pub struct QuestionCounts(Vec<(QuestionMetric, Family<Labels, Counter>)>);

impl Default for QuestionCounts {
    /// A metric without labels has its count from the start, as in CoreDNS.
    fn default() -> Self {
        let counts = m::QUESTIONS.iter().map(|metric| {
            let family = Family::<Labels, Counter>::default();
            if metric.metric().labels.is_empty() {
                drop(family.get_or_create(&Vec::new()));
            }
            (*metric, family)
        });
        Self(counts.collect())
    }
}

impl QuestionCounts {
    fn register(&self, registry: &mut Registry) {
        for (metric, family) in &self.0 {
            let metric = metric.metric();
            registry.register(metric.name, metric.help, family.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn what_a_handler_counts_is_scraped() {
        let metrics = HandlerMetrics::default();
        for metric in m::QUESTIONS {
            metrics
                .questions(*metric)
                .get_or_create(&Vec::new())
                .inc_by(7);
        }
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for metric in m::QUESTIONS {
            let line = format!("{}_total{{}} 7\n", metric.metric().name);
            assert!(text.contains(&line), "{line} in\n{text}");
        }
    }
}
