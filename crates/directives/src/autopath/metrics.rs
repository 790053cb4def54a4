//! The metrics of `autopath`.

ops::declare_metrics! {
    pub(crate),
    SUCCESS Counter "coredns_autopath_success" ["server"] "Queries that `autopath` answered with a name of the client's search path";
}
