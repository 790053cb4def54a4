//! The metrics of `dns64`.

ops::declare_metrics! {
    pub(crate),
    TRANSLATED Counter "coredns_dns64_requests_translated" ["server"] "Queries that `dns64` answered with translated addresses";
}
