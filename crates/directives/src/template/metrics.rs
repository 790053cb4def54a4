//! The metrics of `template`.

ops::declare_metrics! {
    pub(crate),
    MATCHES Counter "coredns_template_matches" ["server", "zone", "view", "class", "type"] "Queries that a `template` matched";
    FAILURES Counter "coredns_template_template_failures" ["server", "zone", "view", "class", "type", "section", "template"] "Templates that could not be filled in";
    RR_FAILURES Counter "coredns_template_rr_failures" ["server", "zone", "view", "class", "type", "section", "template"] "Templates whose result was not a valid record";
}
