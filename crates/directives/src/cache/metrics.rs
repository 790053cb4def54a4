//! The metrics of `cache`.

ops::declare_metrics! {
    pub(crate),
    ENTRIES Gauge "coredns_cache_entries" ["server", "type", "zones", "view"] "Replies in the cache: success, denial";
    REQUESTS Counter "coredns_cache_requests" ["server", "zones", "view"] "Questions to the cache";
    HITS Counter "coredns_cache_hits" ["server", "type", "zones", "view"] "Questions answered from the cache: success, denial";
    MISSES Counter "coredns_cache_misses" ["server", "zones", "view"] "Questions not answered from the cache";
    PREFETCHES Counter "coredns_cache_prefetch" ["server", "zones", "view"] "Replies that were refreshed before or after they expired";
    DROPS Counter "coredns_cache_drops" ["server", "zones", "view"] "Replies not kept because they answer another question";
    SERVED_STALE Counter "coredns_cache_served_stale" ["server", "zones", "view"] "Questions answered from expired replies";
    EVICTIONS Counter "coredns_cache_evictions" ["server", "type", "zones", "view"] "Replies evicted for newer ones: success, denial";
}
