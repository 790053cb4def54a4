//! What is counted of requests to API servers, by the names, labels and buckets that CoreDNS has for it.
//!
//! By host, so that clusters behind one server are one; the counts outlive the sources, which a reload
//! makes anew.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::handler_metrics::Labels;
use crate::metrics as m;

/// All requests read.
const VERB: &str = "GET";

/// The default buckets of Prometheus's own client for Go, which CoreDNS uses.
const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// How long something of a request took.
fn seconds() -> Histogram {
    Histogram::new(BUCKETS)
}

/// What is counted of requests to API servers.
#[derive(Debug, Clone)]
pub struct RequestMetrics {
    /// Requests, by the code of the answer.
    requests: Family<Labels, Counter>,
    /// How long lists took, answers included.
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    /// How long requests waited before they were sent.
    waits: Family<Labels, Histogram, fn() -> Histogram>,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds as fn() -> Histogram),
            waits: Family::new_with_constructor(seconds as fn() -> Histogram),
        }
    }
}

impl RequestMetrics {
    /// Counts an answer, or that there was none.
    pub fn count(&self, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = vec![
            ("code", code),
            ("method", VERB.to_owned()),
            ("host", host.to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Notes how long a list took, its answer included. Watches take as long as they like.
    pub fn took(&self, host: &str, time: Duration) {
        let histogram = self.seconds.get_or_create(&by_host(host));
        histogram.observe(time.as_secs_f64());
    }

    /// Notes how long a request waited for its turn.
    pub fn waited(&self, host: &str, time: Duration) {
        let histogram = self.waits.get_or_create(&by_host(host));
        histogram.observe(time.as_secs_f64());
    }

    /// Has them scraped.
    pub fn register(&self, registry: &mut Registry) {
        let (metric, counter) = (m::REST_REQUESTS, self.requests.clone());
        registry.register(metric.name, metric.help, counter);
        for (metric, histogram) in [
            (m::REST_SECONDS, &self.seconds),
            (m::REST_WAITS, &self.waits),
        ] {
            registry.register(metric.name, metric.help, histogram.clone());
        }
    }
}

/// The labels of a histogram.
fn by_host(host: &str) -> Labels {
    vec![("verb", VERB.to_owned()), ("host", host.to_owned())]
}
