//! Differences in what handlers do around the zones.

use super::kind::{Difference, elsewhere};

/// All of them.
pub(super) const OF_HANDLERS: &[Difference] = &[
    elsewhere(
        "hosts-lines",
        [
            "lines in the block of `hosts` that are behind `fallthrough`",
            "not accepted",
            "accepted, where they begin with an address; else refused",
            "the order of options says nothing of addresses",
        ],
        "CoreDNS does not start: crates/directives/src/config/tests/handlers.rs",
    ),
    elsewhere(
        "hosts-option",
        [
            "a line in the block of `hosts`, in front of `fallthrough`, that is no option and no address with a name",
            "passed over, nothing is said",
            "passed over, with a warning",
            "it may be an option, misspelt",
        ],
        "no query: crates/directives/src/config/tests/handlers.rs",
    ),
    elsewhere(
        "plugin",
        [
            "the label `plugin` of `coredns_dns_responses_total`",
            "the first of the block that wraps replies, nothing for errors",
            "the handler that made the reply",
            "it is to say who answered",
        ],
        "tests/handlers/metrics.rs leaves it out",
    ),
    elsewhere(
        "neighbours",
        [
            "cookies, keepalive and padding of a query that is forwarded",
            "go on to the server behind",
            "stay here",
            "they are between two neighbours (RFC 7873, 7828, 7830)",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "cut",
        [
            "a reply from another server that does not fit into the client's datagram",
            "TC, and the records that fit",
            "TC, and none",
            "a part of an RRset is of no use (RFC 2181 section 9): the client comes again by TCP",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "class",
        [
            "names of `hosts` in classes other than IN",
            "answered as if in IN",
            "go on to the next handler",
            "a hosts file has addresses of the Internet",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "zones-uncached",
        [
            "answers of zones behind `cache`",
            "kept, their TTLs capped",
            "never kept, their TTLs are the zone's",
            "who asks us and who asks a secondary gets the same; they are from memory already",
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
            "an OPT in the reply, with DO but for `rewrite`",
            "no OPT; DO as the client has it",
            "RFC 6891 section 7: who does not speak EDNS is not spoken to in it; RFC 3225: DO is copied",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "size",
        [
            "`{rsize}` of `log`, and `coredns_dns_response_size_bytes`",
            "octets without compression, with the OPT if it was made by a handler or came from a server behind",
            "`{rsize}` without compression and OPT; the metric counts what is on the wire",
            "the OPT is made for each client at the very end",
        ],
        "tests/handlers.rs",
    ),
    elsewhere(
        "autopath-itself",
        [
            "a question for the search path itself, with `autopath`",
            "SERVFAIL",
            "the answer of any name",
            "it is a name of the zone",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "autopath-end",
        [
            "`autopath` where no handler answers one of the names",
            "SERVFAIL without SOA",
            "the first reply stands",
            "what was asked for has an answer",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "autopath-alias",
        [
            "`autopath` where the first name of the path is an alias",
            "the alias twice",
            "once",
            "a name has one alias",
        ],
        "crates/directives/src/autopath/handler/tests.rs",
    ),
    elsewhere(
        "rewrite-question",
        [
            "`rewrite continue` of types and classes alone",
            "the reply has the rewritten question",
            "the client's own question",
            "clients drop replies to what they did not ask",
        ],
        "crates/directives/src/rewrite/handler/tests.rs",
    ),
    elsewhere(
        "rewrite-options",
        [
            "options that `rewrite edns0` puts in without `revert`",
            "come back in the reply",
            "do not",
            "they are for who is asked",
        ],
        "crates/directives/src/rewrite/handler/edns.rs",
    ),
];
