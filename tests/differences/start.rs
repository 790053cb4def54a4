//! What a Corefile may say: what CoreDNS accepts and zonewright refuses, and options that have another effect.

use super::kind::{Difference, Kind, Shown};

pub(super) const ROWS: &[Difference] = &[
    Difference {
        id: "corefile",
        kind: Kind::Start,
        what: "a stray or missing `}` in the Corefile",
        coredns: "accepted",
        ours: "an error, with its place",
        why: "half a configuration may cause an outage later",
        instead: "run `check`, and correct the braces",
        shown: Shown::Tests {
            because: "CoreDNS reads a different configuration",
            tests: &[
                "crates/directives/src/config/tests/grammar a_missing_brace_is_an_error_though_coredns_may_let_it_pass",
                "crates/directives/src/config/tests/grammar a_stray_brace_is_an_error_where_coredns_serves_a_zone_of_that_name",
            ],
        },
    },
    Difference {
        id: "strict",
        kind: Kind::Start,
        what: "`tls://` without `tls`, an unknown scheme or a range such as `10.0.0.0/33` as a key, an empty Corefile",
        coredns: "plain text on port 853, a zone of that name, a default server on port 53",
        ours: "an error, with its place",
        why: "it is certainly a mistake",
        instead: "give `tls` its certificate, write the zone that is meant, or write `. { whoami }`",
        shown: Shown::Tests {
            because: "zonewright does not start",
            tests: &[
                "crates/directives/src/config/tests/keys what_is_no_zone_is_refused",
                "crates/directives/src/config/tests/grammar a_file_without_blocks_is_an_error_where_coredns_starts_whoami",
            ],
        },
    },
    Difference {
        id: "extra-words",
        kind: Kind::Start,
        what: "a word too many behind an option, such as `ignore empty_service more`",
        coredns: "ignored",
        ours: "an error, with its place",
        why: "it may be an option that is meant to have an effect",
        instead: "remove the word",
        shown: Shown::Tests {
            because: "zonewright does not start",
            tests: &[
                "crates/directives/src/kubernetes/tests s98_options_that_are_wrong_are_refused_with_their_place",
            ],
        },
    },
    Difference {
        id: "self-signed",
        kind: Kind::Start,
        what: "a TLS upstream whose own certificate is the authority that `tls` trusts (`CA:TRUE`)",
        coredns: "accepted",
        ours: "refused, with the reason in the log. A certificate that an authority has signed, or one with `CA:FALSE`, is accepted",
        why: "the TLS library does not accept the certificate of an authority for a server",
        instead: "make a certificate with `CA:FALSE`, or one signed by an authority, and trust that",
        shown: Shown::Tests {
            because: "about the certificate of an upstream",
            tests: &[
                "crates/directives/src/forward/open an_authority_s_own_certificate_is_no_upstream_s",
            ],
        },
    },
    Difference {
        id: "file-unusable",
        kind: Kind::Start,
        what: "a zone file that does not parse, at the start",
        coredns: "the server does not start",
        ours: "the zone is SERVFAIL and `/ready` says 503 until the file is correct. All other zones are served. `check` fails",
        why: "a zone file must not stop the DNS of the cluster",
        instead: "run `check` before the start, as in a CI job",
        shown: Shown::Tests {
            because: "CoreDNS does not start",
            tests: &[
                "tests/followed a_zone_file_that_cannot_be_used_at_the_first_start_stops_its_own_names_alone",
            ],
        },
    },
    Difference {
        id: "file-fallthrough",
        kind: Kind::Start,
        what: "`fallthrough` of several `file` in one block",
        coredns: "the last one counts for all",
        ours: "each counts for its own zones",
        why: "an option of one `file` does not change another",
        instead: "write it in each `file` that is to have it",
        shown: Shown::Tests {
            because: "the order of directives is fixed in the generated ones",
            tests: &[
                "crates/directives/src/file/tests a_name_is_left_to_forward_where_every_layer_of_its_zone_leaves_it",
            ],
        },
    },
    Difference {
        id: "hosts-option",
        kind: Kind::Start,
        what: "a line in the block of `hosts` before `fallthrough` that is neither an option nor an address with a name",
        coredns: "ignored without a message",
        ours: "ignored with a warning",
        why: "it may be a misspelt option",
        instead: "remove the line",
        shown: Shown::Tests {
            because: "only the log differs",
            tests: &[
                "crates/directives/src/config/tests/handlers lines_of_hosts_without_address_or_name_are_passed_over_with_a_warning",
            ],
        },
    },
    Difference {
        id: "hosts-lines",
        kind: Kind::Start,
        what: "lines in the block of `hosts` after `fallthrough`",
        coredns: "refused",
        ours: "accepted if they begin with an address, else refused",
        why: "the order of options does not matter for addresses",
        instead: "nothing: what CoreDNS accepts is accepted",
        shown: Shown::Tests {
            because: "CoreDNS does not start",
            tests: &[
                "crates/directives/src/config/tests/handlers hosts_lines_may_follow_fallthrough",
            ],
        },
    },
    Difference {
        id: "selectors",
        kind: Kind::Start,
        what: "`!=` and several requirements for one key in `labels` and `namespace_labels`",
        coredns: "refused",
        ours: "as in the API",
        why: "operators write the syntax of `kubectl -l`",
        instead: "nothing: what CoreDNS accepts means the same",
        shown: Shown::Tests {
            because: "CoreDNS does not start",
            tests: &[
                "crates/kubernetes/src/facts/selector/tests each_operator_means_what_the_api_means",
            ],
        },
    },
    Difference {
        id: "api-limits",
        kind: Kind::Start,
        what: "`apiserver_qps`, `apiserver_burst`, `apiserver_max_inflight`",
        coredns: "no effect, because they are set too late",
        ours: "they limit the client",
        why: "the options are meant to limit the client",
        instead: "remove them, or set them to what the start may take from the API server",
        shown: Shown::Tests {
            because: "it is about requests to the API server",
            tests: &[
                "crates/kubernetes/src/source/api_server/throttle a_burst_goes_at_once_and_the_rest_at_the_pace",
                "crates/kubernetes/src/source/api_server/throttle no_more_are_under_way_than_may_be",
            ],
        },
    },
];
