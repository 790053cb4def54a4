//! Counts of requests to API servers, with CoreDNS's names, labels and buckets.
//!
//! The labels name the host: clusters behind one server share a count. The counts outlive the sources, which a reload
//! replaces.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;

use crate::metrics::{Labels, counts};

/// All requests are reads.
const VERB: &str = "GET";

/// The default buckets of Prometheus's own client for Go, which CoreDNS uses.
const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

fn seconds() -> Histogram {
    Histogram::new(BUCKETS)
}

counts! {
    /// Counts of requests to API servers.
    RequestMetrics {
        requests REST_REQUESTS: Family<Labels, Counter>;
        seconds REST_SECONDS: Family<Labels, Histogram, fn() -> Histogram> = Family::new_with_constructor(seconds);
        waits REST_WAITS: Family<Labels, Histogram, fn() -> Histogram> = Family::new_with_constructor(seconds);
    }
}

impl RequestMetrics {
    /// Counts an answer, or a request without one.
    pub fn count(&self, host: &str, code: Option<u16>) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let labels = vec![
            ("code", code),
            ("method", VERB.to_owned()),
            ("host", host.to_owned()),
        ];
        self.requests.get_or_create(&labels).inc();
    }

    /// Counts the time of a list, its answer included. Watches are not counted, as they are meant to be long.
    pub fn took(&self, host: &str, time: Duration) {
        let histogram = self.seconds.get_or_create(&by_host(host));
        histogram.observe(time.as_secs_f64());
    }

    /// Counts the time that a request waited for its turn.
    pub fn waited(&self, host: &str, time: Duration) {
        let histogram = self.waits.get_or_create(&by_host(host));
        histogram.observe(time.as_secs_f64());
    }
}

fn by_host(host: &str) -> Labels {
    vec![("verb", VERB.to_owned()), ("host", host.to_owned())]
}
