//! Differences in what handlers do around the zones.

use super::kind::{Difference, elsewhere};

pub(super) const OF_HANDLERS: &[Difference] = &[
    elsewhere(
        "hosts-lines",
        [
            "lines in the block of `hosts` after `fallthrough`",
            "not accepted",
            "accepted if they begin with an address, else refused",
            "the order of options does not matter for addresses",
        ],
        "CoreDNS does not start: crates/directives/src/config/tests/handlers.rs",
    ),
    elsewhere(
        "hosts-option",
        [
            "a line in the block of `hosts` before `fallthrough` that is neither an option nor an address with a name",
            "ignored without a message",
            "ignored with a warning",
            "it may be a misspelt option",
        ],
        "no query: crates/directives/src/config/tests/handlers.rs",
    ),
    elsewhere(
        "plugin",
        [
            "the label `plugin` of `coredns_dns_responses_total`",
            "the first handler of the block that wraps replies, empty for errors",
            "the handler that made the reply",
            "the label is meant to name the handler that answered",
        ],
        "tests/handlers/metrics.rs leaves it out",
    ),
    elsewhere(
        "neighbours",
        [
            "cookies, keepalive and padding of a query that is forwarded",
            "are forwarded to the upstream",
            "are not forwarded",
            "they apply to one hop (RFC 7873, 7828, 7830)",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "forged",
        [
            "a datagram from a server behind with the right ID and another question",
            "FORMERR to the client",
            "ignored: the right one may still come",
            "RFC 5452 section 9.1: it is no reply, and who forges one is not to end the query",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "flight",
        [
            "equal questions that are forwarded at once",
            "one query to the server behind for each",
            "one for all",
            "RFC 5452 section 5: each more is a chance for a forged reply",
        ],
        "needs a slow server: crates/directives/src/forward/handler/tests.rs",
    ),
    elsewhere(
        "port",
        [
            "the port that a forwarded query leaves from in a datagram",
            "that of an idle socket, if there is one",
            "a new one",
            "RFC 5452 section 9.2: it must not be known; `coredns_proxy_conn_cache_hits_total` has none of UDP",
        ],
        "tests/handlers/metrics.rs",
    ),
    elsewhere(
        "subnet",
        [
            "the client subnet (RFC 7871) of a query that is forwarded",
            "goes on to the server behind; `cache` gives the reply to all",
            "stays here, unless `client_subnet` or `rewrite edns0 subnet`; then `cache` keeps replies by subnet",
            "the reply for one network is not that for another",
        ],
        "crates/directives/src/forward/handler/tests.rs",
    ),
    elsewhere(
        "extended-errors",
        [
            "extended errors (RFC 8914) of a server behind",
            "all",
            "at most 4, of 256 octets in all",
            "a reply is not larger than the client takes",
        ],
        "crates/server/src/udp/tests.rs",
    ),
    elsewhere(
        "cut",
        [
            "a reply from another server that does not fit into the client's datagram",
            "TC with the records that fit",
            "TC without records",
            "a part of an RRset is of no use (RFC 2181 section 9), so the client has to ask again over TCP",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "class",
        [
            "names of `hosts` in classes other than IN",
            "answered as if in IN",
            "the next handler is asked",
            "a hosts file has addresses of class IN",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "zones-uncached",
        [
            "answers of zones behind `cache`",
            "kept, their TTLs capped",
            "never kept; their TTLs are those of the zone",
            "clients of this server and of a secondary get the same answer, and zones are in memory already",
        ],
        "needs a cluster: crates/directives/src/cache/handler/tests.rs",
    ),
    elsewhere(
        "checking-disabled",
        [
            "the flag CD of a query, in replies of our own",
            "copied",
            "cleared",
            "RFC 4035 section 3.1.6: an authoritative reply has it cleared",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "opt-unasked",
        [
            "`acl`, `ederror` of `template` and `rewrite edns0`, where the client speaks no EDNS, or speaks it without DO",
            "an OPT in the reply, with DO except for `rewrite`",
            "no OPT; DO copied from the client",
            "RFC 6891 section 7: a client without EDNS gets no OPT; RFC 3225: DO is copied",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "size",
        [
            "`{rsize}` of `log`, and `coredns_dns_response_size_bytes`",
            "bytes without compression, with an OPT that a handler or an upstream added",
            "`{rsize}` without compression and OPT; the metric has the size on the wire",
            "the OPT is added for each client at the end",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "autopath-itself",
        [
            "with `autopath`, a question for the search path itself",
            "SERVFAIL",
            "answered as any other name",
            "it is a name in the zone",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "autopath-end",
        [
            "`autopath` if no handler answers one of the names",
            "SERVFAIL without SOA",
            "the first reply is used",
            "the question itself has an answer",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "autopath-alias",
        [
            "`autopath` if the first name of the path is an alias",
            "the alias twice",
            "once",
            "a name has one alias",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "rewrite-question",
        [
            "`rewrite continue` of only types and classes",
            "the reply has the rewritten question",
            "the client's own question",
            "clients drop replies to questions that they did not ask",
        ],
        "crates/directives/src/rewrite/handler/tests.rs",
    ),
    elsewhere(
        "rewrite-options",
        [
            "options that `rewrite edns0` adds without `revert`",
            "are in the reply",
            "are not in the reply",
            "they are meant for the upstream",
        ],
        "crates/directives/src/rewrite/handler/edns.rs",
    ),
];
