//! What handlers and sources count, by the names and labels that CoreDNS has for it.
//!
//! The counts outlive the handlers: a reload makes new ones, which go on counting.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::RequestMetrics;
use crate::metrics::{self as m, QuestionMetric};

/// Labels of a count.
pub type Labels = Vec<(&'static str, String)>;
/// A number that goes up and down and need not be whole.
pub type Number = Gauge<f64, std::sync::atomic::AtomicU64>;

/// How long an upstream took: 0.25 ms to 8 s, as CoreDNS.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 16))
}

/// What handlers and sources count.
#[derive(Debug, Clone)]
pub struct HandlerMetrics {
    /// How long upstreams took, by upstream and response code.
    pub proxy_seconds: Family<Labels, Histogram, fn() -> Histogram>,
    /// Failed health checks, by upstream.
    pub healthcheck_failures: Family<Labels, Counter>,
    /// Connections that were used again, by upstream and protocol.
    pub connection_hits: Family<Labels, Counter>,
    /// Connections that were made, by upstream and protocol.
    pub connection_misses: Family<Labels, Counter>,
    /// Queries for which all upstreams were down.
    pub healthcheck_broken: Counter,
    /// Queries that were too many at once.
    pub concurrent_rejects: Counter,
    /// Replies kept, by server, kind and zones.
    pub cache_entries: Family<Labels, Gauge>,
    /// Questions, by server and zones.
    pub cache_requests: Family<Labels, Counter>,
    /// Those whose reply was kept.
    pub cache_hits: Family<Labels, Counter>,
    /// Those whose reply was not.
    pub cache_misses: Family<Labels, Counter>,
    /// Replies that were asked for before or after their end.
    pub cache_prefetches: Family<Labels, Counter>,
    /// Replies to something else than was asked.
    pub cache_drops: Family<Labels, Counter>,
    /// Replies after their end.
    pub cache_served_stale: Family<Labels, Counter>,
    /// Replies that made room for others.
    pub cache_evictions: Family<Labels, Counter>,
    /// Addresses and names of hosts files.
    pub hosts_entries: Family<Labels, Gauge>,
    /// When the hosts file that was read last was changed.
    pub hosts_reload: Number,
    /// What sources count of their requests to API servers.
    pub requests: RequestMetrics,
    /// Counts of handlers that look at questions, one for each of [`m::QUESTIONS`].
    questions: Vec<(QuestionMetric, Family<Labels, Counter>)>,
}

/// A metric and its counts; one without labels is there from the start, as in CoreDNS.
fn question_counts(metric: &QuestionMetric) -> (QuestionMetric, Family<Labels, Counter>) {
    let family = Family::<Labels, Counter>::default();
    if metric.metric().labels.is_empty() {
        drop(family.get_or_create(&Vec::new()));
    }
    (*metric, family)
}

impl Default for HandlerMetrics {
    fn default() -> Self {
        Self {
            proxy_seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            healthcheck_failures: Family::default(),
            connection_hits: Family::default(),
            connection_misses: Family::default(),
            healthcheck_broken: Counter::default(),
            concurrent_rejects: Counter::default(),
            cache_entries: Family::default(),
            cache_requests: Family::default(),
            cache_hits: Family::default(),
            cache_misses: Family::default(),
            cache_prefetches: Family::default(),
            cache_drops: Family::default(),
            cache_served_stale: Family::default(),
            cache_evictions: Family::default(),
            hosts_entries: Family::default(),
            hosts_reload: Number::default(),
            requests: RequestMetrics::default(),
            questions: m::QUESTIONS.iter().map(question_counts).collect(),
        }
    }
}

impl HandlerMetrics {
    /// The counts of a metric.
    #[must_use]
    pub fn questions(&self, metric: QuestionMetric) -> Family<Labels, Counter> {
        let mut all = self.questions.iter();
        let found = all.find(|(own, _)| *own == metric);
        let (_, family) = found.expect("there are counts for each metric of the table");
        family.clone()
    }

    /// Has them scraped.
    pub fn register(&self, registry: &mut Registry) {
        // No `..`: a field that is not registered does not compile without a warning.
        let Self {
            proxy_seconds,
            healthcheck_failures,
            connection_hits,
            connection_misses,
            healthcheck_broken,
            concurrent_rejects,
            cache_entries,
            cache_requests,
            cache_hits,
            cache_misses,
            cache_prefetches,
            cache_drops,
            cache_served_stale,
            cache_evictions,
            hosts_entries,
            hosts_reload,
            requests,
            questions,
        } = self;
        requests.register(registry);
        let counters = [
            (m::PROXY_HEALTHCHECK_FAILURES, healthcheck_failures),
            (m::PROXY_CONNECTION_HITS, connection_hits),
            (m::PROXY_CONNECTION_MISSES, connection_misses),
            (m::CACHE_REQUESTS, cache_requests),
            (m::CACHE_HITS, cache_hits),
            (m::CACHE_MISSES, cache_misses),
            (m::CACHE_PREFETCHES, cache_prefetches),
            (m::CACHE_DROPS, cache_drops),
            (m::CACHE_SERVED_STALE, cache_served_stale),
            (m::CACHE_EVICTIONS, cache_evictions),
        ];
        for (metric, family) in counters {
            registry.register(metric.name, metric.help, family.clone());
        }
        for (metric, family) in questions {
            let metric = metric.metric();
            registry.register(metric.name, metric.help, family.clone());
        }
        let gauges = [
            (m::CACHE_ENTRIES, cache_entries),
            (m::HOSTS_ENTRIES, hosts_entries),
        ];
        for (metric, family) in gauges {
            registry.register(metric.name, metric.help, family.clone());
        }
        let plain = [
            (m::FORWARD_HEALTHCHECK_BROKEN, healthcheck_broken),
            (m::FORWARD_CONCURRENT_REJECTS, concurrent_rejects),
        ];
        for (metric, counter) in plain {
            registry.register(metric.name, metric.help, counter.clone());
        }
        let metric = m::PROXY_SECONDS;
        registry.register(metric.name, metric.help, proxy_seconds.clone());
        let metric = m::HOSTS_RELOAD;
        registry.register(metric.name, metric.help, hosts_reload.clone());
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
