//! Differences in what the server does itself: its Corefile, messages that no chain sees, its log.

use super::kind::{Difference, elsewhere};

pub(super) const OF_SERVER: &[Difference] = &[
    elsewhere(
        "strict",
        [
            "`tls://` without `tls`, an unknown scheme or a range such as `10.0.0.0/33` as a key, an empty Corefile",
            "plain text on port 853, a zone of that name, a default server on port 53",
            "an error, with its place",
            "it is certainly a mistake",
        ],
        "no query: crates/directives/src/config/tests/keys.rs",
    ),
    elsewhere(
        "reasons",
        [
            "REFUSED and NOTIMP, for a client with EDNS",
            "only the code",
            "with the reason: EDE 20 (not authoritative), 18 (prohibited), 21 (not supported)",
            "RFC 8914; the reply tells the cause",
        ],
        "crates/server/src/dispatch/tests/edns.rs",
    ),
    elsewhere(
        "notify-in",
        [
            "NOTIFY from elsewhere",
            "handled by the block like a question",
            "NOTIMP",
            "zonewright is a primary, so no server notifies it",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "nobody",
        [
            "a name of a block without a handler that answers (only `errors`, `log`, `prometheus` and the like)",
            "SERVFAIL",
            "REFUSED with EDE 20",
            "nothing failed; this server does not serve the name, and the client can ask another one",
        ],
        "crates/server/src/chain.rs",
    ),
    elsewhere(
        "alias-elsewhere",
        [
            "an alias in a zone file to a name that another zone here lacks",
            "NXDOMAIN, with the SOA of the alias's zone",
            "NOERROR with only the alias",
            "that SOA is not of the other zone; the client asks the other zone next, and gets its answer",
        ],
        "crates/server/src/zone_handler.rs",
    ),
    elsewhere(
        "doh-status",
        [
            "a request over HTTPS or HTTP/3 with a method other than GET and POST, or with another content type",
            "400",
            "405, or 415",
            "RFC 9110 sections 15.5.6 and 15.5.16; the client can tell the two apart",
        ],
        "tests/encrypted.rs",
    ),
    elsewhere(
        "self-signed",
        [
            "a TLS upstream whose own certificate is the authority that `tls` trusts (`CA:TRUE`)",
            "accepted",
            "refused, with the reason in the log. A certificate that an authority has signed, or one with `CA:FALSE`, is accepted",
            "the TLS library does not accept the certificate of an authority for a server",
        ],
        "crates/directives/src/forward/open.rs",
    ),
    elsewhere(
        "class-of-block",
        [
            "classes other than IN",
            "REFUSED, unless a block of the listener has `chaos` or `forward`",
            "REFUSED, unless the block of the name has a handler for them",
            "a block does not change the answers of another block",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "transfer-elsewhere",
        [
            "AXFR and IXFR of a name that is not a zone of this server, in a block with handlers",
            "handled by the block, also by `forward`",
            "NOTAUTH",
            "RFC 5936 section 2.2.1; a transfer is not forwarded",
        ],
        "crates/server/src/dispatch/tests/transfers.rs",
    ),
    elsewhere(
        "capitals",
        [
            "capital letters of a question, in its answer",
            "as the question has them in the zone's part of owners, SOAs and targets of SRV too, but for `k8s_external`: small there",
            "as the question has them in owners that are the question's name; small elsewhere",
            "owners are compressed against the question (RFC 1035 section 4.1.4), and names have no case",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "internal-questions",
        [
            "questions that the server asks itself (targets of aliases, `dns64`, `rewrite` of `cname`), in `log`",
            "lines of their own",
            "no line",
            "one line for each question of a client",
        ],
        "crates/directives/src/log/handler/tests.rs",
    ),
    elsewhere(
        "transfer-line",
        [
            "a transfer, in `log`",
            "a line of a query, with the size of its first message",
            "none, but a line `transfer finished` with serials, records, octets, messages and time",
            "the result of a transfer is known only at its end",
        ],
        "crates/transfer/src/stream.rs",
    ),
    elsewhere(
        "transfer-refusals",
        [
            "AXFR over UDP; IXFR without a SOA; IXFR over UDP",
            "REFUSED; REFUSED over UDP, SERVFAIL over TCP; REFUSED",
            "NOTIMP; FORMERR; the differences if they fit, else the SOA",
            "RFC 5936 section 4.2; RFC 1995 sections 2 and 3; secondaries come again over TCP by themselves",
        ],
        "crates/server/src/dispatch/tests/transfers.rs",
    ),
];
