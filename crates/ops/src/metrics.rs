//! The metrics: one table with the name and help of each, and the counts behind them. A directive's metrics are
//! declared in its folder.
//!
//! Labels are bounded sets: zone, kind, outcome, configured secondary; never a queried name or a client's address. A
//! test holds the README's table to the metrics that are declared.

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
    BUILD_INFO Gauge "zonewright_build_info" ["version"] "1, labelled with the version of the running program";
    ZONE_SERIAL Gauge "zonewright_zone_serial" ["zone"] "Serial of the current version";
    ZONE_VERSION_SECONDS Gauge "zonewright_zone_version_timestamp_seconds" ["zone"] "Time at which the current version was made, in seconds since 1970";
    ZONE_RECORDS Gauge "zonewright_zone_records" ["zone"] "Records of the current version";
    ZONE_OWNERS Gauge "zonewright_zone_owners" ["zone"] "Owner names of the current version";
    ZONE_BYTES Gauge "zonewright_zone_bytes" ["zone"] "Size of the current version's records in bytes, uncompressed";
    ZONE_HISTORY_STEPS Gauge "zonewright_zone_history_steps" ["zone"] "Steps kept in memory for IXFR";
    ZONE_HISTORY_BYTES Gauge "zonewright_zone_history_bytes" ["zone"] "Size in bytes of the steps kept in memory";
    ZONE_SIGNATURES_END Gauge "zonewright_zone_signatures_end_timestamp_seconds" ["zone"] "Earliest end of a signature in the current version, in seconds since 1970; absent for zones that are not signed in their file";
    ZONE_STALE Gauge "zonewright_zone_stale" ["zone"] "1 while the zone's source is unreachable";
    ZONE_HELD Gauge "zonewright_zone_held" ["zone"] "1 while a version is held: its losses are too large, or secondaries would refuse it";
    ZONE_ORDERED Gauge "zonewright_zone_ordered" ["zone", "order"] "1 while an operator holds the zone: frozen, rolled_back";
    ZONE_HELD_RECORDS Gauge "zonewright_zone_held_records" ["zone"] "Records that the held version would lose; 0 if no version is held for its losses";
    ZONE_HELD_NAMESPACES Gauge "zonewright_zone_held_namespaces" ["zone"] "Namespaces that are held alone for their losses, while the rest of the zone is published";
    ZONE_WARNINGS Gauge "zonewright_zone_warnings" ["zone"] "Problems in the zone for which some secondaries refuse it; 0 for a zone without `transfer`";
    GATE Counter "zonewright_gate" ["zone", "outcome"] "Holds by outcome. Of the gate: held, released, recovered, expired. Of operators: frozen, rolled_back, resumed";
    VERSIONS Counter "zonewright_versions" ["zone"] "Versions published";
    RECORDS_ADDED Counter "zonewright_records_added" ["zone"] "Records added by versions";
    RECORDS_REMOVED Counter "zonewright_records_removed" ["zone"] "Records removed by versions";
    COMMIT_SECONDS Histogram "zonewright_commit_duration_seconds" [] "Duration of a commit, from the candidate to the durable, published version";
    PROGRAMMING_SECONDS Histogram "zonewright_programming_duration_seconds" [] "Time from the arrival of a change to the publication of its version";
    DNS_PROGRAMMING_SECONDS Histogram "coredns_kubernetes_dns_programming_duration_seconds" ["service_kind"] "Time from a change of endpoints (the annotation `endpoints.kubernetes.io/last-change-trigger-time` of their slice) to the version that has it: cluster_ip, headless_with_selector. Unlike in CoreDNS listed and deleted slices do not count, and several slices of a Service in one version count once";
    COMMIT_FAILURES Counter "zonewright_commit_failures" [] "Commits that the store refused; each is tried again";
    DROPPED_EARLY Counter "zonewright_history_dropped_early" ["zone"] "Versions that were dropped from the history although they were younger than `keep`, because `versions` or `size` allow no more";
    NOTES Counter "zonewright_notes" ["to", "outcome"] "Signed notes of the newest hashes by place (`note` of `history`): written, failed";
    NOTE_SECONDS Gauge "zonewright_note_timestamp_seconds" ["to"] "Time of the last note that arrived at the place, in seconds since 1970; absent before the first";
    ARCHIVE_WAITING Gauge "zonewright_archive_waiting_versions" ["zone"] "Versions that are not in the zone's archive yet";
    ARCHIVE_SEGMENTS Counter "zonewright_archive_segments" ["zone"] "Segments that were written to the zone's archive";
    ARCHIVE_FAILURES Counter "zonewright_archive_failures" ["zone"] "Segments that could not be written to the zone's archive; each is tried again, and no version is dropped until it works";
    PEERS_AHEAD Counter "zonewright_peers_ahead" ["zone", "outcome"] "Peers with a later serial than ours: followed, ignored (see `status`)";
    OBJECT_PROBLEMS Gauge "zonewright_object_problems" [] "Things in objects that DNS cannot hold and that were left out";
    SOURCE_SYNCED Gauge "zonewright_source_synced" ["source"] "1 once everything was listed";
    SOURCE_PROBLEMS Gauge "zonewright_source_problems" ["source"] "Current problems of the source, as in `status`: manifests and objects that cannot be read and are left out or kept as they were, folders that cannot be read, missing APIs and rights";
    SOURCE_STALE_SECONDS Gauge "zonewright_source_stale_seconds" ["source"] "Seconds since the source went away; 0 while it is there";
    SOURCE_OBJECTS Gauge "zonewright_source_objects" ["source", "kind"] "Objects known";
    SOURCE_EVENTS Counter "zonewright_source_events" ["source", "kind"] "Watch events and changed manifests";
    SOURCE_LISTS Counter "zonewright_source_lists" ["source", "kind"] "Complete lists";
    SOURCE_ERRORS Counter "zonewright_source_errors" ["source", "kind"] "Lists, watches and reads of files that failed";
    SOURCE_MALFORMED Counter "zonewright_source_malformed" ["source", "kind"] "Objects or parts of objects that could not be read";
    REST_REQUESTS Counter "coredns_kubernetes_rest_client_requests" ["code", "method", "host"] "Requests to API servers, including watches; code is `<error>` if there was no answer";
    REST_SECONDS Histogram "coredns_kubernetes_rest_client_request_duration_seconds" ["verb", "host"] "Duration of list requests to API servers, for each page";
    REST_WAITS Histogram "coredns_kubernetes_rest_client_rate_limiter_duration_seconds" ["verb", "host"] "Time for which requests to API servers waited because of `apiserver_qps` and `apiserver_max_inflight`";
    QUERIES Counter "zonewright_queries" ["transport", "rcode"] "Queries answered";
    DROPPED Counter "zonewright_queries_dropped" ["reason"] "Messages without an answer: not_a_query, send_error, overload (too many wait for a handler), rate_limit";
    RATE_SLIPPED Counter "zonewright_rate_limit_slipped" [] "Datagrams answered with TC because of a rate limit";
    TRUNCATED Counter "zonewright_queries_truncated" [] "Datagrams answered with TC";
    TCP_CONNECTIONS Gauge "zonewright_tcp_connections" [] "Open TCP connections";
    TCP_ACCEPTED Counter "zonewright_tcp_accepted" [] "TCP connections accepted";
    TCP_CLOSED Counter "zonewright_tcp_closed" ["reason"] "TCP connections that the server closed (limit, timeout) or failed to accept (accept_error)";
    QUIC_CONNECTIONS Gauge "zonewright_quic_connections" [] "Open QUIC connections";
    QUIC_ACCEPTED Counter "zonewright_quic_accepted" [] "QUIC connections accepted";
    QUIC_CLOSED Counter "zonewright_quic_closed" ["reason"] "QUIC connections refused or closed by us: limit, timeout";
    TLS_FAILURES Counter "zonewright_tls_failures" [] "TLS handshakes that failed, those of QUIC too";
    TRANSFERS Counter "zonewright_transfers" ["kind", "outcome"] "Transfers: axfr, ixfr, ixfr_as_axfr; complete, broken, failed, up_to_date, ahead, denied, over_limit";
    TRANSFER_RECORDS Counter "zonewright_transfer_records" [] "Records sent in transfers";
    TRANSFER_BYTES Counter "zonewright_transfer_bytes" [] "Bytes sent in transfers";
    TSIG_FAILURES Counter "zonewright_tsig_failures" [] "Signed messages that failed verification";
    NOTIFY Counter "zonewright_notify" ["outcome"] "NOTIFY messages: sent, acknowledged, refused, given_up";
    SECONDARY_SERIAL Gauge "zonewright_secondary_serial" ["zone", "secondary"] "Serial that the secondary transferred last; absent until its first transfer";
    SECONDARY_LAG_VERSIONS Gauge "zonewright_secondary_lag_versions" ["zone", "secondary"] "Versions that the secondary is behind";
    SECONDARY_SILENT_SECONDS Gauge "zonewright_secondary_silent_seconds" ["zone", "secondary"] "Seconds since the secondary asked for the SOA or a transfer, or since it is configured; a secondary asks at each refresh even if nothing changes";
    SECONDARY_LAG_SECONDS Gauge "zonewright_secondary_lag_seconds" ["zone", "secondary"] "Age in seconds of the oldest version that the secondary has not transferred; the time before the start of this server does not count";
    HISTORY_API_REQUESTS Counter "zonewright_history_api_requests" ["endpoint", "result"] "Requests to history_api: ok, wrong, unknown, failed, unauthenticated, forbidden, limited, unavailable; endpoint is `none` for those that reach none";
    HISTORY_API_REVIEWS Counter "zonewright_history_api_reviews" ["review", "outcome"] "Reviews of tokens and of rights (access) by the API server: allowed, denied, failed (nobody reads then)";
    HISTORY_API_REFUSED Counter "zonewright_history_api_refused" ["reason"] "Connections to history_api that were not served or closed early: limit, handshake";
    HISTORY_API_CONNECTIONS Gauge "zonewright_history_api_connections" [] "Open connections to history_api";
    COREDNS_BUILD_INFO Gauge "coredns_build_info" ["version", "revision", "goversion"] "1, labelled with the version of the running program; revision and goversion are empty";
    HTTPS_RESPONSES Counter "coredns_dns_https_responses" ["server", "status"] "Responses over HTTPS, in blocks with prometheus";
    HTTPS3_RESPONSES Counter "coredns_dns_https3_responses" ["server", "status"] "Responses over HTTP/3, in blocks with prometheus";
    QUIC_RESPONSES Counter "coredns_dns_quic_responses" ["server", "status"] "Queries over QUIC by their code of RFC 9250, such as 0x0, in blocks with prometheus";
    DNS_REQUESTS Counter "coredns_dns_requests" ["server", "zone", "view", "proto", "family", "type"] "Queries, in blocks with prometheus. zone is the key of the block, or `dropped` if no key fits. family is 1 for IPv4, 2 for IPv6";
    DNS_DURATION Histogram "coredns_dns_request_duration_seconds" ["server", "zone", "view"] "Time from a query to its reply";
    DNS_REQUEST_BYTES Histogram "coredns_dns_request_size_bytes" ["server", "zone", "view", "proto"] "Size of queries on the wire";
    DNS_RESPONSE_BYTES Histogram "coredns_dns_response_size_bytes" ["server", "zone", "view", "proto"] "Size of replies on the wire. Unlike in CoreDNS that is compressed and with OPT";
    DNS_DO_REQUESTS Counter "coredns_dns_do_requests" ["server", "zone", "view"] "Queries with the DO bit";
    DNS_RESPONSES Counter "coredns_dns_responses" ["server", "zone", "view", "rcode", "plugin"] "Replies by the directive that made them; plugin is empty if the server made the reply itself";
    PLUGIN_ENABLED Gauge "coredns_plugin_enabled" ["server", "zone", "view", "name"] "1 for each directive that takes part in answers; zone is the first key of its block";
    PANICS Counter "coredns_panics" [] "Panics while a message is answered; the client gets SERVFAIL";
    HEALTH_DURATION Histogram "coredns_health_request_duration_seconds" [] "Duration of the request that the server sends to its own /health every second";
    HEALTH_FAILURES Counter "coredns_health_request_failures" [] "Requests of the server to its own /health that got no answer";
    CPU_SECONDS Counter "process_cpu_seconds" [] "CPU time used, in seconds";
    RESIDENT_BYTES Gauge "process_resident_memory_bytes" [] "Memory in use";
    VIRTUAL_BYTES Gauge "process_virtual_memory_bytes" [] "Mapped memory";
    OPEN_FDS Gauge "process_open_fds" [] "Open file descriptors";
    MAX_FDS Gauge "process_max_fds" [] "Limit of open file descriptors";
    START_TIME Gauge "process_start_time_seconds" [] "Time at which the process started, in seconds since 1970";
    RELOAD_FAILED Counter "coredns_reload_failed" [] "Reloads that failed because of a problem in the Corefile";
    COREFILE_REFUSED Gauge "zonewright_corefile_refused" [] "1 while the Corefile that was read last is not in use because of a problem in it; 0 once another one, or the previous one again, is in use";
    RELOAD_VERSION Gauge "coredns_reload_version_info" ["hash", "value"] "1, labelled with the digest of the Corefile that was loaded last; absent before the first reload";
    STATE_TEMPORARY Gauge "zonewright_state_temporary" [] "1 if the state folder could not be written at the start and a temporary one is in use";
    STORE_BYTES Gauge "zonewright_store_bytes" [] "Size of the store's files in bytes";
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
