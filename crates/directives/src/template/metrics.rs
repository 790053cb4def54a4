//! What `template` counts.

ops::declare_metrics! {
    pub(crate),
    MATCHES Counter "coredns_template_matches" ["server", "zone", "view", "class", "type"] "Queries that a `template` was for";
    FAILURES Counter "coredns_template_template_failures" ["server", "zone", "view", "class", "type", "section", "template"] "Templates that could not be filled in";
    RR_FAILURES Counter "coredns_template_rr_failures" ["server", "zone", "view", "class", "type", "section", "template"] "Filled-in templates that were no record";
}
