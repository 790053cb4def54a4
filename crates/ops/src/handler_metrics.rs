//! What handlers and sources count, by the names and labels that CoreDNS has for it.
//!
//! The counts outlive the handlers: a reload makes new ones, which go on counting.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::RequestMetrics;
use crate::metrics as m;

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
    /// What handlers that look at questions count: those of [`QUESTIONS`].
    questions: Vec<Family<Labels, Counter>>,
}

/// The counts of handlers that look at questions.
const QUESTIONS: &[m::Metric] = &[
    m::ACL_ALLOWED,
    m::ACL_BLOCKED,
    m::ACL_FILTERED,
    m::ACL_DROPPED,
    m::AUTOPATH_SUCCESS,
    m::TEMPLATE_MATCHES,
    m::TEMPLATE_FAILURES,
    m::TEMPLATE_RR_FAILURES,
    m::DNS64_TRANSLATED,
    m::LOCAL_LOCALHOST,
];

/// The counts of a metric; one without labels is there from the start, as in CoreDNS.
fn questions_of(metric: &m::Metric) -> Family<Labels, Counter> {
    let family = Family::<Labels, Counter>::default();
    if metric.labels.is_empty() {
        drop(family.get_or_create(&Vec::new()));
    }
    family
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
            questions: QUESTIONS.iter().map(questions_of).collect(),
        }
    }
}

impl HandlerMetrics {
    /// The counts of one of [`QUESTIONS`]; those of another metric are scraped by nobody.
    #[must_use]
    pub fn questions(&self, metric: m::Metric) -> Family<Labels, Counter> {
        let mut all = QUESTIONS.iter().zip(&self.questions);
        let found = all.find(|(own, _)| **own == metric);
        found.map(|(_, family)| family.clone()).unwrap_or_default()
    }

    /// Has them scraped.
    pub fn register(&self, registry: &mut Registry) {
        self.requests.register(registry);
        let counters = [
            (m::PROXY_HEALTHCHECK_FAILURES, &self.healthcheck_failures),
            (m::PROXY_CONNECTION_HITS, &self.connection_hits),
            (m::PROXY_CONNECTION_MISSES, &self.connection_misses),
            (m::CACHE_REQUESTS, &self.cache_requests),
            (m::CACHE_HITS, &self.cache_hits),
            (m::CACHE_MISSES, &self.cache_misses),
            (m::CACHE_PREFETCHES, &self.cache_prefetches),
            (m::CACHE_DROPS, &self.cache_drops),
            (m::CACHE_SERVED_STALE, &self.cache_served_stale),
            (m::CACHE_EVICTIONS, &self.cache_evictions),
        ];
        for (metric, family) in counters {
            registry.register(metric.name, metric.help, family.clone());
        }
        for (metric, family) in QUESTIONS.iter().zip(&self.questions) {
            registry.register(metric.name, metric.help, family.clone());
        }
        let gauges = [
            (m::CACHE_ENTRIES, &self.cache_entries),
            (m::HOSTS_ENTRIES, &self.hosts_entries),
        ];
        for (metric, family) in gauges {
            registry.register(metric.name, metric.help, family.clone());
        }
        let plain = [
            (m::FORWARD_HEALTHCHECK_BROKEN, &self.healthcheck_broken),
            (m::FORWARD_CONCURRENT_REJECTS, &self.concurrent_rejects),
        ];
        for (metric, counter) in plain {
            registry.register(metric.name, metric.help, counter.clone());
        }
        let (metric, seconds) = (m::PROXY_SECONDS, self.proxy_seconds.clone());
        registry.register(metric.name, metric.help, seconds);
        let (metric, number) = (m::HOSTS_RELOAD, self.hosts_reload.clone());
        registry.register(metric.name, metric.help, number);
    }
}
