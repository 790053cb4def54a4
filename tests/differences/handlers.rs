//! What handlers do around the zones.

use super::kind::{Difference, Kind, Shown};

pub(super) const ROWS: &[Difference] = &[
    Difference {
        id: "zones-uncached",
        kind: Kind::Handlers,
        what: "answers of zones behind `cache`",
        coredns: "kept, their TTLs capped",
        ours: "never kept; their TTLs are those of the zone",
        why: "clients of this server and of a secondary get the same answer, and zones are in memory already",
        instead: "set the TTL of the zone with `ttl`",
        shown: Shown::Tests {
            because: "generated option sets have no `cache`",
            tests: &[
                "crates/directives/src/cache/handler/tests names_of_zones_are_never_kept_but_what_they_leave_to_the_next_is",
            ],
        },
    },
    Difference {
        id: "subnet",
        kind: Kind::Handlers,
        what: "the client subnet (RFC 7871) of a query that is forwarded",
        coredns: "is forwarded to the upstream; `cache` gives the reply to all",
        ours: "is not forwarded, unless `client_subnet` or `rewrite edns0 subnet`; then `cache` keeps replies by subnet",
        why: "the reply for one network is not that for another",
        instead: "write `client_subnet` in `forward`",
        shown: Shown::Tests {
            because: "generated option sets have no upstream",
            tests: &[
                "crates/directives/src/forward/handler/tests security_12_the_client_s_subnet_stays_here_unless_wanted",
            ],
        },
    },
    Difference {
        id: "neighbours",
        kind: Kind::Handlers,
        what: "cookies, keepalive and padding of a query that is forwarded",
        coredns: "are forwarded to the upstream",
        ours: "are not forwarded",
        why: "they apply to one hop (RFC 7873, 7828, 7830)",
        instead: "nothing",
        shown: Shown::Handlers,
    },
    Difference {
        id: "forged",
        kind: Kind::Handlers,
        what: "a datagram from an upstream with the right ID and another question",
        coredns: "FORMERR to the client",
        ours: "ignored: the right one may still come",
        why: "RFC 5452 section 9.1: it is no reply, and a forger is not to end the query",
        instead: "nothing",
        shown: Shown::Handlers,
    },
    Difference {
        id: "flight",
        kind: Kind::Handlers,
        what: "equal questions that are forwarded at once",
        coredns: "one query to the upstream for each",
        ours: "one for all",
        why: "RFC 5452 section 5: each more is a chance for a forged reply",
        instead: "do not count the queries of clients at the upstream: count them here",
        shown: Shown::Tests {
            because: "it needs a slow upstream",
            tests: &[
                "crates/directives/src/forward/handler/tests security_11_equal_questions_at_once_are_one_query",
            ],
        },
    },
    Difference {
        id: "port",
        kind: Kind::Handlers,
        what: "the port from which a forwarded query is sent by UDP",
        coredns: "that of an idle socket, if there is one",
        ours: "a new one",
        why: "RFC 5452 section 9.2: it must not be known; `coredns_proxy_conn_cache_hits_total` has none of UDP",
        instead: "allow all ports from this server in the firewall of the upstream",
        shown: Shown::Tests {
            because: "generated option sets have no upstream",
            tests: &[
                "crates/directives/src/forward/handler/tests security_11_each_query_leaves_from_a_port_of_its_own",
            ],
        },
    },
    Difference {
        id: "class",
        kind: Kind::Handlers,
        what: "names of `hosts` in classes other than IN",
        coredns: "answered as if in IN",
        ours: "the next handler is asked",
        why: "a hosts file has addresses of class IN",
        instead: "ask in class IN",
        shown: Shown::Handlers,
    },
    Difference {
        id: "autopath-itself",
        kind: Kind::Handlers,
        what: "with `autopath`, a question for the search path itself",
        coredns: "SERVFAIL",
        ours: "answered as any other name",
        why: "it is a name in the zone",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no `autopath`",
            tests: &[
                "crates/directives/src/autopath/handler/tests unknown_clients_other_namespaces_and_the_path_itself_pass",
            ],
        },
    },
    Difference {
        id: "autopath-end",
        kind: Kind::Handlers,
        what: "`autopath` if no handler answers one of the names",
        coredns: "SERVFAIL without SOA",
        ours: "the first reply is used",
        why: "the question itself has an answer",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no `autopath`",
            tests: &[
                "crates/directives/src/autopath/handler/tests where_nothing_answers_the_last_name_the_first_reply_stands",
            ],
        },
    },
    Difference {
        id: "autopath-alias",
        kind: Kind::Handlers,
        what: "`autopath` if the first name of the path is an alias",
        coredns: "the alias twice",
        ours: "once",
        why: "a name has one alias",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no `autopath`",
            tests: &[
                "crates/directives/src/autopath/handler/tests s95_the_third_element_answers_behind_an_alias_and_other_names_are_left_alone",
            ],
        },
    },
    Difference {
        id: "rewrite-question",
        kind: Kind::Handlers,
        what: "`rewrite continue` of only types and classes",
        coredns: "the reply has the rewritten question",
        ours: "the client's own question",
        why: "clients drop replies to questions that they did not ask",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no `rewrite`",
            tests: &[
                "crates/directives/src/rewrite/handler/tests types_classes_ttls_and_codes_become_others",
            ],
        },
    },
    Difference {
        id: "rewrite-options",
        kind: Kind::Handlers,
        what: "options that `rewrite edns0` adds without `revert`",
        coredns: "are in the reply",
        ours: "are not in the reply",
        why: "they are meant for the upstream",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no `rewrite`",
            tests: &[
                "crates/directives/src/rewrite/handler/tests options_are_set_added_replaced_and_taken_out",
            ],
        },
    },
];
