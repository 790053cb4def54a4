//! The metrics of `forward`.

ops::declare_metrics! {
    pub(crate),
    PROXY_SECONDS Histogram "coredns_proxy_request_duration_seconds" ["proxy_name", "to", "rcode"] "Time from a query to an upstream to its reply";
    PROXY_HEALTHCHECK_FAILURES Counter "coredns_proxy_healthcheck_failures" ["proxy_name", "to"] "Failed health checks of upstreams";
    PROXY_CONNECTION_HITS Counter "coredns_proxy_conn_cache_hits" ["proxy_name", "to", "proto"] "Reused connections and sockets to upstreams";
    PROXY_CONNECTION_MISSES Counter "coredns_proxy_conn_cache_misses" ["proxy_name", "to", "proto"] "New connections and sockets to upstreams";
    FORWARD_HEALTHCHECK_BROKEN Counter "coredns_forward_healthcheck_broken" [] "Queries for which all upstreams were down";
    FORWARD_CONCURRENT_REJECTS Counter "coredns_forward_max_concurrent_rejects" [] "Queries refused by max_concurrent";
}
