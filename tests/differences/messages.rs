//! Messages themselves: their size, flags, options and codes of refusal.

use super::kind::{Difference, Kind, Shown};

pub(super) const ROWS: &[Difference] = &[
    Difference {
        id: "datagram",
        kind: Kind::Messages,
        what: "a reply of more than 1232 bytes over UDP",
        coredns: "up to the size that the client accepts",
        ours: "TC above 1232 bytes, even if the client accepts more. Upstreams are asked for at most 1232 bytes too",
        why: "larger datagrams are fragmented and get lost",
        instead: "allow DNS over TCP to this server; `bufsize` sets a smaller size, never a larger one",
        shown: Shown::Handlers,
    },
    Difference {
        id: "cut",
        kind: Kind::Messages,
        what: "a reply from another server that does not fit into the client's datagram",
        coredns: "TC with the records that fit",
        ours: "TC without records",
        why: "a part of an RRset is of no use (RFC 2181 section 9), so the client has to ask again over TCP",
        instead: "allow DNS over TCP to this server",
        shown: Shown::Handlers,
    },
    Difference {
        id: "additional-cut",
        kind: Kind::Messages,
        what: "additional records (addresses beside SRV) that do not fit beside the answer",
        coredns: "TC, and fewer records",
        ours: "left out, without TC",
        why: "RFC 2181 section 9: TC only if the answer itself does not fit",
        instead: "ask for the addresses of a target that has none beside it",
        shown: Shown::Tests {
            because: "a large answer is asked again over TCP",
            tests: &[
                "crates/server/src/dispatch/tests additional_records_are_left_out_rather_than_the_answer",
            ],
        },
    },
    Difference {
        id: "reasons",
        kind: Kind::Messages,
        what: "REFUSED and NOTIMP, for a client with EDNS",
        coredns: "only the code",
        ours: "with the reason: EDE 20 (not authoritative), 18 (prohibited), 21 (not supported)",
        why: "RFC 8914; the reply tells the cause",
        instead: "nothing",
        shown: Shown::Tests {
            because: "all generated questions are answered",
            tests: &[
                "crates/server/src/dispatch/tests/edns extended_errors_say_why_there_is_no_answer",
            ],
        },
    },
    Difference {
        id: "opt-unasked",
        kind: Kind::Messages,
        what: "`acl`, `ederror` of `template` and `rewrite edns0`, where the client speaks no EDNS, or speaks it without DO",
        coredns: "an OPT in the reply, with DO except for `rewrite`",
        ours: "no OPT; DO copied from the client",
        why: "RFC 6891 section 7: a client without EDNS gets no OPT; RFC 3225: DO is copied",
        instead: "ask with EDNS",
        shown: Shown::Handlers,
    },
    Difference {
        id: "extended-errors",
        kind: Kind::Messages,
        what: "extended errors (RFC 8914) of an upstream",
        coredns: "all",
        ours: "at most 4, of 256 bytes in all",
        why: "a reply is not larger than the client takes",
        instead: "nothing",
        shown: Shown::Tests {
            because: "generated option sets have no upstream",
            tests: &[
                "crates/server/src/udp/tests security_a_reply_with_extended_errors_is_never_larger_than_the_client_takes",
            ],
        },
    },
    Difference {
        id: "checking-disabled",
        kind: Kind::Messages,
        what: "the flag CD of a query, in replies of our own",
        coredns: "copied",
        ours: "cleared",
        why: "RFC 4035 section 3.1.6: an authoritative reply has it cleared",
        instead: "nothing",
        shown: Shown::Clusters,
    },
    Difference {
        id: "class-of-block",
        kind: Kind::Messages,
        what: "classes other than IN",
        coredns: "REFUSED, unless a block of the listener has `chaos` or `forward`",
        ours: "REFUSED, unless the block of the name has a handler for them",
        why: "a block does not change the answers of another block",
        instead: "write `chaos` into each block that is to answer it",
        shown: Shown::Tests {
            because: "it needs two blocks",
            tests: &["crates/server/src/dispatch/tests classes_and_operations_we_do_not_serve"],
        },
    },
    Difference {
        id: "doh-status",
        kind: Kind::Messages,
        what: "a request over HTTPS or HTTP/3 with a method other than GET and POST, or with another content type",
        coredns: "400",
        ours: "405, or 415",
        why: "RFC 9110 sections 15.5.6 and 15.5.16; the client can tell the two apart",
        instead: "treat all three as errors of the client",
        shown: Shown::Tests {
            because: "not over UDP or TCP",
            tests: &[
                "tests/encrypted bad_requests_over_https_have_a_status_and_do_not_end_the_connection",
            ],
        },
    },
];
