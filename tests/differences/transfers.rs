//! Transfers, NOTIFY and serials.

use super::kind::{Difference, Kind, Shown};

pub(super) const ROWS: &[Difference] = &[
    Difference {
        id: "subzone",
        kind: Kind::Transfers,
        what: "AXFR of a name below the apex, such as `svc.cluster.local`",
        coredns: "a zone with names that do not exist",
        ours: "NOTAUTH",
        why: "a subdomain of a zone is not a zone",
        instead: "transfer the zone itself",
        shown: Shown::Tests {
            because: "a transfer",
            tests: &["tests/situations/transfers s79_a_foreign_zone_is_not_transferred"],
        },
    },
    Difference {
        id: "transfer-once",
        kind: Kind::Transfers,
        what: "glue, addresses and SRV in transfers",
        coredns: "repeated, glue with TTL 0, weights that contradict each other, no cluster ids in sets of clusters",
        ours: "once, with the zone's TTL, and with cluster ids",
        why: "answers and transfers have the same records",
        instead: "nothing",
        shown: Shown::Tests {
            because: "a transfer",
            tests: &[
                "tests/promise every_case_answers_what_it_transfers",
                "tests/situations/transfers s78_a_transfer_has_everything_once_with_the_zone_s_ttl",
            ],
        },
    },
    Difference {
        id: "external-serial",
        kind: Kind::Transfers,
        what: "the serial of a zone of `k8s_external`",
        coredns: "does not change with Services",
        ours: "rises with each change of the zone, and only then",
        why: "it is an ordinary zone, which any secondary can hold",
        instead: "nothing",
        shown: Shown::Tests {
            because: "the comparison is of answers, and serials always differ",
            tests: &["crates/writer/src/tests/situations s86_each_zone_has_its_own_serial"],
        },
    },
    Difference {
        id: "file-serial",
        kind: Kind::Transfers,
        what: "the serial of a zone file",
        coredns: "the file's",
        ours: "one more than the last, the clock, or the file's, whichever is highest. A file with the same content and another serial makes no version. The serial of a signed file is kept, and has to rise with each content",
        why: "a serial names one content for ever",
        instead: "read the serial from `status` or the SOA, not from the file",
        shown: Shown::Tests {
            because: "the comparison is of answers, and serials always differ",
            tests: &[
                "crates/writer/src/tests/files the_serial_of_a_file_alone_is_no_version_and_lifts_the_next",
            ],
        },
    },
    Difference {
        id: "notify",
        kind: Kind::Transfers,
        what: "NOTIFY for a cluster's zones",
        coredns: "never sent",
        ours: "sent with each version. If it is refused, it is sent again at the SOA's retry, until the secondary has the version",
        why: "secondaries see a change at once; a secondary that is starting may refuse NOTIFY at first",
        instead: "write `allow` instead of `to` for peers that are not to be notified",
        shown: Shown::Tests {
            because: "not a question",
            tests: &["tests/situations/transfers s84_each_refused_notify_is_reported"],
        },
    },
    Difference {
        id: "transfer-elsewhere",
        kind: Kind::Transfers,
        what: "AXFR and IXFR of a name that is not a zone of this server, in a block with handlers",
        coredns: "handled by the block, also by `forward`",
        ours: "NOTAUTH",
        why: "RFC 5936 section 2.2.1; a transfer is not forwarded",
        instead: "transfer from the server that has the zone",
        shown: Shown::Tests {
            because: "a transfer",
            tests: &[
                "crates/server/src/dispatch/tests/transfers axfr_is_for_zones_on_connections_and_those_who_may",
            ],
        },
    },
    Difference {
        id: "transfer-refusals",
        kind: Kind::Transfers,
        what: "AXFR over UDP; IXFR without a SOA; IXFR over UDP",
        coredns: "REFUSED; REFUSED over UDP, SERVFAIL over TCP; REFUSED",
        ours: "NOTIMP; FORMERR; the differences if they fit, else the SOA",
        why: "RFC 5936 section 4.2; RFC 1995 sections 2 and 3",
        instead: "nothing: secondaries ask again over TCP",
        shown: Shown::Tests {
            because: "a transfer",
            tests: &[
                "crates/server/src/dispatch/tests/transfers axfr_is_for_zones_on_connections_and_those_who_may",
                "crates/server/src/dispatch/tests/transfers ixfr_needs_the_soa_of_the_zone_and_only_its_serial_counts",
                "crates/server/src/dispatch/tests/transfers ixfr_over_udp_is_the_differences_or_the_single_soa",
            ],
        },
    },
    Difference {
        id: "notify-in",
        kind: Kind::Transfers,
        what: "NOTIFY from elsewhere",
        coredns: "handled by the block like a question",
        ours: "NOTIMP",
        why: "zonewright is a primary, so no server notifies it",
        instead: "send NOTIFY to the secondaries",
        shown: Shown::Tests {
            because: "not a question",
            tests: &[
                "crates/server/src/dispatch/tests another_operation_is_notimp_before_its_records_are_read",
            ],
        },
    },
];
