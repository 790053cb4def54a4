//! What `acl` counts.

ops::declare_metrics! {
    pub(crate),
    ALLOWED Counter "coredns_acl_allowed_requests" ["server", "view"] "Queries that `acl` let go on";
    BLOCKED Counter "coredns_acl_blocked_requests" ["server", "zone", "view"] "Queries that `acl` refused";
    FILTERED Counter "coredns_acl_filtered_requests" ["server", "zone", "view"] "Queries that `acl` answered with nothing";
    DROPPED Counter "coredns_acl_dropped_requests" ["server", "zone", "view"] "Queries that `acl` left without an answer";
}
