//! What `forward` counts.

ops::declare_metrics! {
    pub(crate),
    PROXY_SECONDS Histogram "coredns_proxy_request_duration_seconds" ["proxy_name", "to", "rcode"] "How long upstreams took to answer";
    PROXY_HEALTHCHECK_FAILURES Counter "coredns_proxy_healthcheck_failures" ["proxy_name", "to"] "Failed health checks of upstreams";
    PROXY_CONNECTION_HITS Counter "coredns_proxy_conn_cache_hits" ["proxy_name", "to", "proto"] "Connections and sockets to upstreams that were used again";
    PROXY_CONNECTION_MISSES Counter "coredns_proxy_conn_cache_misses" ["proxy_name", "to", "proto"] "Connections and sockets to upstreams that were made";
    FORWARD_HEALTHCHECK_BROKEN Counter "coredns_forward_healthcheck_broken" [] "Queries for which all upstreams were down";
    FORWARD_CONCURRENT_REJECTS Counter "coredns_forward_max_concurrent_rejects" [] "Queries refused by max_concurrent";
}
