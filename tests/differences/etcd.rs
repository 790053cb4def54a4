//! `etcd`.

use super::kind::Kind;
use super::{Difference, Shown};

/// What `etcd` does otherwise.
pub const ROWS: &[Difference] = &[
    Difference {
        id: "etcd-wildcard",
        kind: Kind::Names,
        what: "`etcd`, `*` or `any` as a label of a question",
        coredns: "all keys that match",
        ours: "an ordinary label, so mostly NXDOMAIN. A key with the label `*` has no records",
        why: "a secondary knows no keys, and would answer otherwise",
        instead: "ask the name above, which has the records of all keys below it",
        shown: Shown::Tests {
            because: "the generated trees have ordinary labels",
            tests: &["crates/etcd/src/key a_key_that_no_query_is_for_says_why"],
        },
    },
    Difference {
        id: "etcd-alias",
        kind: Kind::Answers,
        what: "`etcd`, a key with a host name",
        coredns: "CNAME for A, AAAA and TXT with the addresses of the target; several CNAMEs, or CNAME beside addresses; SRV at the same name",
        ours: "one CNAME, for all types, if that is all that the name has and it has no port and no `mail`. Else SRV and MX, and no CNAME",
        why: "RFC 1034 section 3.6.2: nothing is beside an alias, and secondaries refuse it",
        instead: "give a host for SRV a port, and an alias a key with no other below or beside it",
        shown: Shown::Tests {
            because: "its answers depend on upstreams",
            tests: &[
                "crates/etcd/src/records/tests a_host_name_without_a_port_is_an_alias_where_nothing_else_is",
            ],
        },
    },
    Difference {
        id: "etcd-weight",
        kind: Kind::Answers,
        what: "`etcd`, weights of SRV records",
        coredns: "the share of all in per cent",
        ours: "as the keys have them, 100 without",
        why: "the proportions are the same, and one more key changes no other record",
        instead: "do not count by weight",
        shown: Shown::Tests {
            because: "weights are left out of the comparison",
            tests: &["crates/etcd/src/records/tests a_name_has_the_records_of_all_keys_below_it"],
        },
    },
    Difference {
        id: "etcd-ttl",
        kind: Kind::Answers,
        what: "`etcd`, TTLs",
        coredns: "one for each record; with a lease what is left of it at the question",
        ours: "the lowest of an RRset (RFC 2181 section 5.2); with a lease the time that it was granted",
        why: "a version of a zone has one TTL for an RRset, and time alone makes no version",
        instead: "give keys with leases a short `ttl`",
        shown: Shown::Tests {
            because: "TTLs are left out of the comparison",
            tests: &[
                "crates/etcd/src/records/tests a_lease_bounds_the_ttl",
                "tests/cluster_etcd a_lease_that_ends_takes_its_name_along_and_bounds_its_ttl",
            ],
        },
    },
    Difference {
        id: "etcd-reverse",
        kind: Kind::Answers,
        what: "`etcd`, types other than PTR and TXT in reverse zones",
        coredns: "addresses, SRV and CNAME of the keys",
        ours: "NODATA",
        why: "reverse zones hold PTRs",
        instead: "ask them in the forward zone",
        shown: Shown::Tests {
            because: "the generated questions for reverse zones are for PTR",
            tests: &["crates/etcd/src/records/tests a_reverse_zone_has_pointers_of_its_own_keys"],
        },
    },
    Difference {
        id: "etcd-pointer",
        kind: Kind::Answers,
        what: "`etcd`, PTR in a zone of names",
        coredns: "the host name of the key",
        ours: "NODATA",
        why: "it points from a name, not from an address",
        instead: "ask for CNAME or SRV",
        shown: Shown::Tests {
            because: "the generated questions for PTR are for reverse zones",
            tests: &[
                "crates/etcd/src/records/tests a_host_name_without_a_port_is_an_alias_where_nothing_else_is",
            ],
        },
    },
    Difference {
        id: "etcd-bad-key",
        kind: Kind::Names,
        what: "`etcd`, a value that is no service, a label with a dot, a host that is no name",
        coredns: "SERVFAIL for its name and all names above it",
        ours: "the key is left out, and `status` and the log say why",
        why: "one bad key must not take the names of others away",
        instead: "correct the key",
        shown: Shown::Tests {
            because: "the generated trees have good keys",
            tests: &["crates/etcd/src/records/tests a_bad_value_is_reported_and_hides_no_other"],
        },
    },
    Difference {
        id: "etcd-many",
        kind: Kind::Answers,
        what: "`etcd`, more than 500 keys below a name, or an RRset of more than 60000 bytes",
        coredns: "all of them, cut to the size of the message",
        ours: "the name has none of their records, and `status` and the log say so",
        why: "no message has room for them",
        instead: "give the zone addresses below `dns/apex`, or use `no_apex_fallback`",
        shown: Shown::Tests {
            because: "the generated trees are smaller",
            tests: &[
                "crates/etcd/src/records/tests too_many_keys_below_a_name_are_reported_and_left_out",
            ],
        },
    },
    Difference {
        id: "etcd-own-key",
        kind: Kind::Answers,
        what: "`etcd`, a key that is the zone itself",
        coredns: "its addresses, if no key is below it",
        ours: "not read",
        why: "users with the right to read the zone alone read the keys below it",
        instead: "use `dns/apex`",
        shown: Shown::Tests {
            because: "the generated trees have keys below the zone",
            tests: &["crates/etcd/src/key a_key_that_no_query_is_for_says_why"],
        },
    },
    Difference {
        id: "etcd-capitals",
        kind: Kind::Names,
        what: "`etcd`, keys with capital letters",
        coredns: "found for the names above them alone",
        ours: "left out and reported",
        why: "names are looked up in lower case",
        instead: "write keys in lower case",
        shown: Shown::Tests {
            because: "the generated trees have small letters",
            tests: &["crates/etcd/src/key a_key_that_no_query_is_for_says_why"],
        },
    },
    Difference {
        id: "etcd-stubzones",
        kind: Kind::Start,
        what: "`etcd { stubzones }`",
        coredns: "ignored",
        ours: "an error that says why",
        why: "somebody expects an effect of it",
        instead: "remove it; `forward ZONE ADDRESS` asks another server",
        shown: Shown::Tests {
            because: "zonewright does not start",
            tests: &[
                "crates/directives/src/etcd/mod an_option_that_cannot_be_used_is_refused_with_the_fix",
            ],
        },
    },
    Difference {
        id: "etcd-away",
        kind: Kind::Answers,
        what: "`etcd`, an etcd that cannot be reached",
        coredns: "SERVFAIL",
        ours: "the last version, with EDE 3; SERVFAIL only before the first",
        why: "old truth is better than no answer",
        instead: "look at `zonewright_zone_stale`",
        shown: Shown::Tests {
            because: "the comparison has an etcd",
            tests: &[
                "tests/cluster_etcd the_last_version_is_served_while_etcd_is_away_also_after_a_restart",
            ],
        },
    },
];
