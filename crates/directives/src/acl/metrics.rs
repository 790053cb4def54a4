//! The metrics of `acl`.

ops::declare_metrics! {
    pub(crate),
    ALLOWED Counter "coredns_acl_allowed_requests" ["server", "view"] "Queries that `acl` allowed";
    BLOCKED Counter "coredns_acl_blocked_requests" ["server", "zone", "view"] "Queries that `acl` refused";
    FILTERED Counter "coredns_acl_filtered_requests" ["server", "zone", "view"] "Queries that `acl` answered without records";
    DROPPED Counter "coredns_acl_dropped_requests" ["server", "zone", "view"] "Queries that `acl` dropped";
}
