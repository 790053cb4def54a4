//! The metrics of `local`.

ops::declare_metrics! {
    pub(crate),
    LOCALHOST Counter "coredns_local_localhost_requests" [] "Queries for names in or like localhost that `local` answered";
}
