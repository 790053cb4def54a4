//! What `dns64` counts.

ops::declare_metrics! {
    pub(crate),
    TRANSLATED Counter "coredns_dns64_requests_translated" ["server"] "Queries that `dns64` answered with made addresses";
}
