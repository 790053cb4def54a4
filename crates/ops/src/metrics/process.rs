//! All metrics of the process, and the counts of its writer and its health.

use std::fmt;
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::metrics::scrape::Gathered;
use crate::metrics::{Gather, HandlerMetrics, Labels, counts};

/// CoreDNS's bounds for the time that our own health check took, in seconds.
const HEALTH_BUCKETS: [f64; 5] = [0.000_25, 0.002_5, 0.025, 0.25, 2.5];

/// 0.25 ms to 33 s.
fn commit_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_25, 2.0, 18))
}

/// 1 ms to 9 minutes, as CoreDNS.
fn dns_programming_seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 20))
}

counts! {
    /// Counts of the writer, and of the health checks of the process by itself.
    ProcessCounts {
        versions VERSIONS: Family<Labels, Counter>;
        added RECORDS_ADDED: Family<Labels, Counter>;
        removed RECORDS_REMOVED: Family<Labels, Counter>;
        commit_seconds COMMIT_SECONDS: Histogram = commit_seconds();
        programming_seconds PROGRAMMING_SECONDS: Histogram = commit_seconds();
        dns_programming_seconds DNS_PROGRAMMING_SECONDS: Family<Labels, Histogram, fn() -> Histogram> = Family::new_with_constructor(dns_programming_seconds);
        commit_failures COMMIT_FAILURES: Counter;
        dropped_early DROPPED_EARLY: Family<Labels, Counter>;
        peers_ahead PEERS_AHEAD: Family<Labels, Counter>;
        problems OBJECT_PROBLEMS: Gauge;
        health_seconds HEALTH_DURATION: Histogram = Histogram::new(HEALTH_BUCKETS);
        health_failures HEALTH_FAILURES: Counter;
        gate GATE: Family<Labels, Counter>;
    }
}

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// The counts of the writer and of health checks.
    pub counts: ProcessCounts,
}

impl Metrics {
    /// Metrics that start at zero, and those that `gather` reads at each scrape.
    #[must_use]
    pub fn new(gather: Gather, handlers: &HandlerMetrics) -> Self {
        let mut registry = Registry::default();
        let counts = ProcessCounts::default();
        counts.register(&mut registry);
        handlers.register(&mut registry);
        registry.register_collector(Box::new(Gathered(gather)));
        Self { registry, counts }
    }

    /// Counts a version.
    pub fn count_version(&self, zone: &str, added: usize, removed: usize) {
        let labels: Labels = vec![("zone", zone.to_owned())];
        self.counts.versions.get_or_create(&labels).inc();
        self.counts
            .added
            .get_or_create(&labels)
            .inc_by(added as u64);
        self.counts
            .removed
            .get_or_create(&labels)
            .inc_by(removed as u64);
    }

    /// Counts the end of a held version.
    pub fn count_gate(&self, zone: &str, outcome: &str) {
        let labels = vec![("zone", zone.to_owned()), ("outcome", outcome.to_owned())];
        self.counts.gate.get_or_create(&labels).inc();
    }

    /// Counts versions that were dropped from the history before their time.
    pub fn count_dropped_early(&self, zone: &str, versions: u64) {
        let labels = vec![("zone", zone.to_owned())];
        self.counts
            .dropped_early
            .get_or_create(&labels)
            .inc_by(versions);
    }

    /// Counts a peer with a later serial than ours.
    pub fn count_peer_ahead(&self, zone: &str, is_followed: bool) {
        let outcome = if is_followed { "followed" } else { "ignored" };
        let labels = vec![("zone", zone.to_owned()), ("outcome", outcome.to_owned())];
        self.counts.peers_ahead.get_or_create(&labels).inc();
    }

    /// Counts a commit and the time between each of its changes and their publication.
    pub fn count_commit(&self, commit: Duration, latencies: &[Duration]) {
        self.counts.commit_seconds.observe(commit.as_secs_f64());
        for latency in latencies {
            self.counts
                .programming_seconds
                .observe(latency.as_secs_f64());
        }
    }

    /// Counts the time between a change of endpoints and its publication.
    pub fn count_programmed(&self, service_kind: &str, latency: Duration) {
        let labels = vec![("service_kind", service_kind.to_owned())];
        let histogram = self.counts.dns_programming_seconds.get_or_create(&labels);
        histogram.observe(latency.as_secs_f64());
    }

    /// The metrics in the OpenMetrics text format.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        match text::encode(&mut out, &self.registry) {
            Ok(()) => out,
            Err(fmt::Error) => "# the metrics could not be written\n# EOF\n".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{QUERIES, Sample, ZONE_SERIAL};

    #[test]
    fn counted_and_gathered_metrics_are_scraped() {
        let gather: Gather = std::sync::Arc::new(|| {
            vec![
                Sample::new(ZONE_SERIAL, &["z."], 7.0),
                Sample::new(QUERIES, &["udp", "NOERROR"], 3.0),
            ]
        });
        let metrics = Metrics::new(gather, &HandlerMetrics::new(std::iter::empty()));
        metrics.count_version("z.", 2, 1);
        metrics.count_commit(Duration::from_millis(1), &[Duration::from_millis(2)]);
        metrics.count_programmed("cluster_ip", Duration::from_millis(2));
        let text = metrics.text();
        for line in [
            "zonewright_zone_serial{zone=\"z.\"} 7.0",
            "zonewright_queries_total{transport=\"udp\",rcode=\"NOERROR\"} 3.0",
            "zonewright_records_added_total{zone=\"z.\"} 2",
            "zonewright_commit_duration_seconds_count 1",
            "programming_duration_seconds_bucket{le=\"0.002\",service_kind=\"cluster_ip\"} 1",
            "programming_duration_seconds_bucket{le=\"524.288\",service_kind=\"cluster_ip\"} 1",
        ] {
            assert!(text.contains(line), "{line} in\n{text}");
        }
    }
}
