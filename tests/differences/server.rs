//! Differences in what the server does itself: its Corefile, messages that no chain sees, its log.

use super::kind::{Difference, elsewhere};

/// All of them.
pub(super) const OF_SERVER: &[Difference] = &[
    elsewhere(
        "strict",
        [
            "`tls://` without `tls`, an unknown scheme or a range such as `10.0.0.0/33` as a key, an empty Corefile",
            "plain text on port 853, a zone of that name, a server of its own making on port 53",
            "an error, with its place",
            "nobody means that",
        ],
        "no query: crates/directives/src/config/tests/keys.rs",
    ),
    elsewhere(
        "reasons",
        [
            "REFUSED and NOTIMP, for who speaks EDNS",
            "the code alone",
            "with the reason: EDE 20 (not authoritative), 18 (prohibited), 21 (not supported)",
            "RFC 8914; whoever looks for the cause finds it in the reply",
        ],
        "crates/server/src/dispatch/tests/edns.rs",
    ),
    elsewhere(
        "notify-in",
        [
            "NOTIFY from elsewhere",
            "runs through the block as if it were a question",
            "NOTIMP",
            "zones are written here, there is nobody to hear it from",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "nobody",
        [
            "a name of a block in which nothing answers (`errors`, `log`, `prometheus` and the like alone)",
            "SERVFAIL",
            "REFUSED with EDE 20",
            "nothing failed; the name is none of ours, and the client asks elsewhere",
        ],
        "crates/server/src/chain.rs",
    ),
    elsewhere(
        "alias-elsewhere",
        [
            "an alias in a zone file to a name that another zone here lacks",
            "NXDOMAIN, with the SOA of the alias's zone",
            "NOERROR with the alias alone",
            "that SOA says nothing of the other zone; who asks goes on from there and is told by it",
        ],
        "crates/server/src/zone_handler.rs",
    ),
    elsewhere(
        "doh-status",
        [
            "a request over HTTPS or HTTP/3 whose method is not GET or POST, or whose body is said to be something else",
            "400",
            "405, or 415",
            "RFC 9110 sections 15.5.6 and 15.5.16; the client sees which it is",
        ],
        "tests/encrypted.rs",
    ),
    elsewhere(
        "self-signed",
        [
            "an upstream by TLS that shows the very certificate `tls` trusts, made as an authority (`CA:TRUE`)",
            "taken",
            "refused, with the reason in the log; one that is signed by an authority, or made with `CA:FALSE`, is taken",
            "the TLS library takes no authority's certificate for a server's",
        ],
        "crates/directives/src/forward/open.rs",
    ),
    elsewhere(
        "class-of-block",
        [
            "classes other than IN",
            "REFUSED, unless any block of the listener has `chaos` or `forward`",
            "REFUSED, unless the block of the name has a handler for them",
            "one block does not open another",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "transfer-elsewhere",
        [
            "AXFR and IXFR of a name that is no zone of ours, in a block with handlers",
            "run through the block, `forward` as well",
            "NOTAUTH",
            "RFC 5936 section 2.2.1; a transfer is not forwarded",
        ],
        "crates/server/src/dispatch/tests/transfers.rs",
    ),
    elsewhere(
        "capitals",
        [
            "capital letters of a question, in the owners of its answer",
            "small",
            "as the question has them",
            "owners are compressed against the question (RFC 1035 section 4.1.4), and names have no case",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "internal-questions",
        [
            "what the server asks itself (targets of aliases, `dns64`, `rewrite` of `cname`), in `log`",
            "lines of their own",
            "no line",
            "one question is one line",
        ],
        "crates/directives/src/log/handler/tests.rs",
    ),
    elsewhere(
        "transfer-line",
        [
            "a transfer that is given, in `log`",
            "a line of a query, with the size of its first message",
            "none; `transfer finished` tells serials, records, octets, messages and time",
            "when it ends is what there is to know",
        ],
        "crates/transfer/src/stream.rs",
    ),
];
