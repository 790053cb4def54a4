//! What `cache` counts.

ops::declare_metrics! {
    pub(crate),
    ENTRIES Gauge "coredns_cache_entries" ["server", "type", "zones", "view"] "Replies kept: success, denial";
    REQUESTS Counter "coredns_cache_requests" ["server", "zones", "view"] "Questions to the cache";
    HITS Counter "coredns_cache_hits" ["server", "type", "zones", "view"] "Questions answered from the cache: success, denial";
    MISSES Counter "coredns_cache_misses" ["server", "zones", "view"] "Questions not answered from the cache";
    PREFETCHES Counter "coredns_cache_prefetch" ["server", "zones", "view"] "Replies asked for again before or after their end";
    DROPS Counter "coredns_cache_drops" ["server", "zones", "view"] "Replies not kept because their question is another";
    SERVED_STALE Counter "coredns_cache_served_stale" ["server", "zones", "view"] "Questions answered by replies after their end";
    EVICTIONS Counter "coredns_cache_evictions" ["server", "type", "zones", "view"] "Replies that made room for others: success, denial";
}
