//! Logs and metrics.

use super::kind::{Difference, Kind, Shown};

pub(super) const ROWS: &[Difference] = &[
    Difference {
        id: "plugin",
        kind: Kind::Logs,
        what: "the label `plugin` of `coredns_dns_responses_total`",
        coredns: "the first handler of the block that wraps replies, empty for errors",
        ours: "the handler that made the reply",
        why: "the label is meant to name the handler that answered",
        instead: "change queries that select by `plugin`",
        shown: Shown::Tests {
            because: "not a question",
            tests: &["tests/flags flags_of_coredns_start_what_looks_like_it"],
        },
    },
    Difference {
        id: "size",
        kind: Kind::Logs,
        what: "`{rsize}` of `log`, and `coredns_dns_response_size_bytes`",
        coredns: "bytes without compression, with an OPT that a handler or an upstream added",
        ours: "`{rsize}` without compression and OPT; the metric has the size on the wire",
        why: "the OPT is added for each client at the end",
        instead: "expect smaller sizes in the metric",
        shown: Shown::Handlers,
    },
    Difference {
        id: "json-log",
        kind: Kind::Logs,
        what: "`-log-format=json`, the lines of `log`",
        coredns: "fields for the query, such as `qname` and `rcode`, beside the line in `msg`",
        ours: "the line in `message`, with `timestamp` and `level`",
        why: "the format of `log` chooses what a line has",
        instead: "name the fields in the format of `log`, as text or as JSON of its own",
        shown: Shown::Tests {
            because: "not a question",
            tests: &["tests/flags json_lines_have_the_line_of_a_query"],
        },
    },
    Difference {
        id: "internal-questions",
        kind: Kind::Logs,
        what: "questions that the server asks itself (targets of aliases, `dns64`, `rewrite` of `cname`), in `log`",
        coredns: "lines of their own",
        ours: "no line",
        why: "one line for each question of a client",
        instead: "count by the line of the client's question",
        shown: Shown::Tests {
            because: "not a question",
            tests: &[
                "tests/handlers questions_that_the_server_asks_itself_and_transfers_are_no_lines_of_queries",
            ],
        },
    },
    Difference {
        id: "transfer-line",
        kind: Kind::Logs,
        what: "a transfer, in `log`",
        coredns: "a line of a query, with the size of its first message",
        ours: "none, but a line `transfer finished` with serials, records, bytes, messages and time",
        why: "the result of a transfer is known only at its end",
        instead: "search for `transfer finished`",
        shown: Shown::Tests {
            because: "not a question",
            tests: &[
                "tests/handlers questions_that_the_server_asks_itself_and_transfers_are_no_lines_of_queries",
            ],
        },
    },
];
