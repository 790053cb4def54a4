//! The metrics: one table with the name and help of each, and the counts behind them. Those of a directive are declared in
//! its folder.
//!
//! Labels are bounded sets: zone, kind, outcome, configured secondary; never a queried name or a
//! client's address. A test holds the README's table to the metrics that are declared.

mod handlers;
mod process;
mod requests;
mod scrape;

pub use handlers::{HandlerMetrics, Level, Times};
pub use process::Metrics;
pub use requests::RequestMetrics;
pub use scrape::{Gather, Sample};

/// Label names and values of one count.
pub type Labels = Vec<(&'static str, String)>;

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows; its name ends in `_total` when scraped.
    Counter,
    /// Goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// An entry of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The name, without `_total`.
    pub name: &'static str,
    /// The type.
    pub kind: MetricKind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// One sentence for people.
    pub help: &'static str,
}

/// Declares metrics: a constant for each, and `METRICS`, the table of all. Their visibility comes first.
#[macro_export]
macro_rules! declare_metrics {
    ($vis:vis, $($constant:ident $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(
            #[doc = $help]
            $vis const $constant: $crate::metrics::Metric = $crate::metrics::Metric {
                name: $name,
                kind: $crate::metrics::MetricKind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )*
        /// All of these metrics.
        $vis const METRICS: &[$crate::metrics::Metric] = &[$($constant),*];
    };
}

declare_metrics! {
    pub,
    BUILD_INFO Gauge "zonewright_build_info" ["version"] "1, with the version that runs";
    ZONE_SERIAL Gauge "zonewright_zone_serial" ["zone"] "Serial of the current version";
    ZONE_VERSION_SECONDS Gauge "zonewright_zone_version_timestamp_seconds" ["zone"] "When the current version was made, seconds since 1970";
    ZONE_RECORDS Gauge "zonewright_zone_records" ["zone"] "Records of the current version";
    ZONE_OWNERS Gauge "zonewright_zone_owners" ["zone"] "Owner names of the current version";
    ZONE_BYTES Gauge "zonewright_zone_bytes" ["zone"] "Octets of the current version's records, uncompressed";
    ZONE_HISTORY_STEPS Gauge "zonewright_zone_history_steps" ["zone"] "Steps kept in memory for IXFR";
    ZONE_HISTORY_BYTES Gauge "zonewright_zone_history_bytes" ["zone"] "Octets of the steps kept in memory";
    ZONE_STALE Gauge "zonewright_zone_stale" ["zone"] "1 while the zone's source is away";
    ZONE_HELD Gauge "zonewright_zone_held" ["zone"] "1 while a version is held: its losses are too large, or secondaries would refuse it";
    ZONE_ORDERED Gauge "zonewright_zone_ordered" ["zone", "order"] "1 while an operator's order holds for the zone: frozen, rolled_back";
    ZONE_HELD_RECORDS Gauge "zonewright_zone_held_records" ["zone"] "Records that the held version would lose; 0 while nothing is held for its losses";
    ZONE_WARNINGS Gauge "zonewright_zone_warnings" ["zone"] "Things in the zone that some secondaries refuse";
    GATE Counter "zonewright_gate" ["zone", "outcome"] "What became of versions that were held (held, released, recovered, expired) and of orders (frozen, rolled_back, resumed)";
    VERSIONS Counter "zonewright_versions" ["zone"] "Versions published";
    RECORDS_ADDED Counter "zonewright_records_added" ["zone"] "Records that versions added";
    RECORDS_REMOVED Counter "zonewright_records_removed" ["zone"] "Records that versions removed";
    COMMIT_SECONDS Histogram "zonewright_commit_duration_seconds" [] "From candidates to durable, published versions";
    PROGRAMMING_SECONDS Histogram "zonewright_programming_duration_seconds" [] "From a change seen to its version published";
    DNS_PROGRAMMING_SECONDS Histogram "coredns_kubernetes_dns_programming_duration_seconds" ["service_kind"] "From a change of endpoints, by their slice's annotation `endpoints.kubernetes.io/last-change-trigger-time`, to the version that holds it; unlike in CoreDNS not for what was listed or deleted, and once for slices of a Service that one version holds: cluster_ip, headless_with_selector";
    COMMIT_FAILURES Counter "zonewright_commit_failures" [] "Commits that the store refused; each is tried again";
    OBJECT_PROBLEMS Gauge "zonewright_object_problems" [] "Things in objects that DNS cannot hold and that were left out";
    SOURCE_SYNCED Gauge "zonewright_source_synced" ["source"] "1 once everything was listed";
    SOURCE_STALE_SECONDS Gauge "zonewright_source_stale_seconds" ["source"] "Seconds since the source went away; 0 while it is there";
    SOURCE_OBJECTS Gauge "zonewright_source_objects" ["source", "kind"] "Objects known";
    SOURCE_EVENTS Counter "zonewright_source_events" ["source", "kind"] "Watch events and changed manifests";
    SOURCE_LISTS Counter "zonewright_source_lists" ["source", "kind"] "Complete lists";
    SOURCE_ERRORS Counter "zonewright_source_errors" ["source", "kind"] "Failed lists, watches and readings";
    SOURCE_MALFORMED Counter "zonewright_source_malformed" ["source", "kind"] "Objects or parts of objects that could not be read";
    REST_REQUESTS Counter "coredns_kubernetes_rest_client_requests" ["code", "method", "host"] "Requests to API servers, watches too; code is `<error>` where no answer came";
    REST_SECONDS Histogram "coredns_kubernetes_rest_client_request_duration_seconds" ["verb", "host"] "How long lists of API servers took, a page each";
    REST_WAITS Histogram "coredns_kubernetes_rest_client_rate_limiter_duration_seconds" ["verb", "host"] "How long requests to API servers waited for `apiserver_qps` and `apiserver_max_inflight`";
    QUERIES Counter "zonewright_queries" ["transport", "rcode"] "Queries answered";
    DROPPED Counter "zonewright_queries_dropped" ["reason"] "Messages without an answer: not_a_query, send_error";
    TRUNCATED Counter "zonewright_queries_truncated" [] "Datagrams answered with TC";
    TCP_CONNECTIONS Gauge "zonewright_tcp_connections" [] "Open TCP connections";
    TCP_ACCEPTED Counter "zonewright_tcp_accepted" [] "TCP connections accepted";
    TCP_CLOSED Counter "zonewright_tcp_closed" ["reason"] "TCP connections closed by us: limit, timeout; accept_error";
    QUIC_CONNECTIONS Gauge "zonewright_quic_connections" [] "Open QUIC connections";
    QUIC_ACCEPTED Counter "zonewright_quic_accepted" [] "QUIC connections accepted";
    QUIC_CLOSED Counter "zonewright_quic_closed" ["reason"] "QUIC connections refused or closed by us: limit, timeout";
    TLS_FAILURES Counter "zonewright_tls_failures" [] "TLS handshakes that failed, those of QUIC too";
    TRANSFERS Counter "zonewright_transfers" ["kind", "outcome"] "Transfers: axfr, ixfr, ixfr_as_axfr; complete, broken, failed, up_to_date, denied, over_limit";
    TRANSFER_RECORDS Counter "zonewright_transfer_records" [] "Records sent in transfers";
    TRANSFER_BYTES Counter "zonewright_transfer_bytes" [] "Octets sent in transfers";
    TSIG_FAILURES Counter "zonewright_tsig_failures" [] "Signed messages that failed verification";
    NOTIFY Counter "zonewright_notify" ["outcome"] "NOTIFY messages: sent, acknowledged, refused, given_up";
    SECONDARY_SERIAL Gauge "zonewright_secondary_serial" ["zone", "secondary"] "Serial that the secondary took last; absent until it took one";
    SECONDARY_LAG_VERSIONS Gauge "zonewright_secondary_lag_versions" ["zone", "secondary"] "Versions that the secondary is behind";
    SECONDARY_LAG_SECONDS Gauge "zonewright_secondary_lag_seconds" ["zone", "secondary"] "Seconds since the oldest version that the secondary has not taken";
    COREDNS_BUILD_INFO Gauge "coredns_build_info" ["version", "revision", "goversion"] "1, with the version that runs; revision and goversion are empty";
    HTTPS_RESPONSES Counter "coredns_dns_https_responses" ["server", "status"] "Responses over HTTPS, in blocks with prometheus";
    HTTPS3_RESPONSES Counter "coredns_dns_https3_responses" ["server", "status"] "Responses over HTTP/3, in blocks with prometheus";
    QUIC_RESPONSES Counter "coredns_dns_quic_responses" ["server", "status"] "What became of queries over QUIC, in blocks with prometheus: the code of RFC 9250, such as 0x0";
    DNS_REQUESTS Counter "coredns_dns_requests" ["server", "zone", "view", "proto", "family", "type"] "Queries, in blocks with prometheus; zone is the key of the block, dropped where none fits; family is 1 for IPv4, 2 for IPv6";
    DNS_DURATION Histogram "coredns_dns_request_duration_seconds" ["server", "zone", "view"] "How long answers took";
    DNS_REQUEST_BYTES Histogram "coredns_dns_request_size_bytes" ["server", "zone", "view", "proto"] "Octets of queries on the wire";
    DNS_RESPONSE_BYTES Histogram "coredns_dns_response_size_bytes" ["server", "zone", "view", "proto"] "Octets of replies on the wire, so compressed and with OPT, unlike CoreDNS";
    DNS_DO_REQUESTS Counter "coredns_dns_do_requests" ["server", "zone", "view"] "Queries with the DO bit";
    DNS_RESPONSES Counter "coredns_dns_responses" ["server", "zone", "view", "rcode", "plugin"] "Replies, with the directive that made them; empty when the server did";
    PLUGIN_ENABLED Gauge "coredns_plugin_enabled" ["server", "zone", "view", "name"] "1 for each directive that takes part in answers, by the first key of its block";
    PANICS Counter "coredns_panics" [] "Handlers that panicked; the query got SERVFAIL";
    HEALTH_DURATION Histogram "coredns_health_request_duration_seconds" [] "How long our own /health took, asked every second";
    HEALTH_FAILURES Counter "coredns_health_request_failures" [] "How often our own /health did not answer";
    CPU_SECONDS Counter "process_cpu_seconds" [] "Time of processors that was used";
    RESIDENT_BYTES Gauge "process_resident_memory_bytes" [] "Memory in use";
    VIRTUAL_BYTES Gauge "process_virtual_memory_bytes" [] "Memory that is mapped";
    OPEN_FDS Gauge "process_open_fds" [] "Open file descriptors";
    MAX_FDS Gauge "process_max_fds" [] "The most file descriptors that may be open";
    START_TIME Gauge "process_start_time_seconds" [] "When the process began, seconds since 1970";
    RELOAD_FAILED Counter "coredns_reload_failed" [] "Corefiles that were not taken into use: something was wrong with them";
    RELOAD_VERSION Gauge "coredns_reload_version_info" ["hash", "value"] "1, with the digest of the Corefile that was taken last; absent before the first reload";
    STORE_BYTES Gauge "zonewright_store_bytes" [] "Octets of the store's files";
}

/// Declares a struct of counts, each with its metric, and `register`, which adds them to those that are scraped. A count
/// starts empty unless a value is given.
macro_rules! counts {
    (
        $(#[$doc:meta])*
        $name:ident { $($field:ident $metric:ident: $kind:ty $(= $start:expr)?;)* }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $name {
            $(
                #[doc = concat!("[`", stringify!($metric), "`](crate::metrics::", stringify!($metric), ").")]
                pub $field: $kind,
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: counts!(@start $($start)?),)*
                }
            }
        }

        impl $name {
            /// Adds the counts to those that are scraped.
            pub fn register(&self, registry: &mut prometheus_client::registry::Registry) {
                $(
                    let metric = crate::metrics::$metric;
                    registry.register(metric.name, metric.help, self.$field.clone());
                )*
            }
        }
    };
    (@start) => { Default::default() };
    (@start $start:expr) => { $start };
}
use counts;
