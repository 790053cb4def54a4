//! Where we answer otherwise than CoreDNS, on purpose: one table, which the README prints and the
//! comparison with a real CoreDNS holds both servers to.
//!
//! Each difference that the comparison can meet has a rule there that makes our answer of CoreDNS's; an
//! answer that no rule gives fails it, and so does a rule that nothing needs.

mod handlers;
mod kind;
mod server;

pub use kind::{Difference, Shown};
use kind::{compared, elsewhere};

/// All of them: those of zones, of handlers, of the server.
pub fn all() -> impl Iterator<Item = &'static Difference> {
    let of_handlers = OF_ZONES.iter().chain(handlers::OF_HANDLERS);
    of_handlers.chain(server::OF_SERVER)
}

/// What zones hold, and how they are served.
const OF_ZONES: &[Difference] = &[
    compared(
        "lenient",
        [
            "`http.tcp.svc…` without underscores, `_._tcp.svc…`, labels in front of a pod's or a reverse name",
            "answers them like the names they resemble",
            "NXDOMAIN",
            "they are not names of the zone, no secondary could answer them",
        ],
    ),
    compared(
        "ent",
        [
            "a name that is only passed through, such as `_tcp.web.shop.svc…` or `dns…`",
            "NXDOMAIN, except at `svc`, `pod` and namespaces",
            "NODATA",
            "RFC 8020; secondaries say so",
        ],
    ),
    compared(
        "empty",
        [
            "`svc`, `pod`, or a namespace, with nothing below",
            "NODATA",
            "NXDOMAIN",
            "no record can be transferred for it, so a secondary says NXDOMAIN",
        ],
    ),
    compared(
        "types",
        [
            "SOA, TXT, PTR and other types that a name does not have",
            "NODATA or NXDOMAIN, by the type",
            "NODATA where the name exists, NXDOMAIN where it does not",
            "whether a name exists does not depend on what is asked (RFC 8020)",
        ],
    ),
    compared(
        "any",
        [
            "ANY",
            "NODATA or NXDOMAIN",
            "one RRset that is there",
            "RFC 8482; NODATA would be untrue",
        ],
    ),
    compared(
        "port-address",
        [
            "A and AAAA at `_port._proto` names",
            "the Service's addresses",
            "NODATA",
            "the specification has SRV there and nothing else",
        ],
    ),
    compared(
        "pod-srv",
        [
            "SRV at pod names",
            "port 0 of the pod itself",
            "NODATA",
            "the specification has addresses there and nothing else",
        ],
    ),
    compared(
        "weight",
        [
            "weights of SRV records",
            "100/n, by query and by transfer in different ways",
            "100 throughout",
            "equal weights mean the same spread, and one endpoint more rewrites no other record",
        ],
    ),
    compared(
        "additional",
        [
            "addresses beside SRV records, when endpoints of one host name have different ports",
            "those of endpoints that have the port",
            "all addresses of the target",
            "an RRset is given whole (RFC 2181)",
        ],
    ),
    compared(
        "repeats",
        [
            "the same record twice in one section",
            "happens",
            "never",
            "an RRset holds a record once (RFC 2181)",
        ],
    ),
    compared(
        "alias-types",
        [
            "other types than A, AAAA and CNAME at an alias",
            "NODATA",
            "the CNAME, and what its target has",
            "a CNAME answers every type (RFC 1034), and secondaries say so",
        ],
    ),
    compared(
        "alias-missing",
        [
            "an alias whose target lies in the zone and is missing, or lacks the type",
            "NODATA, without the CNAME",
            "the CNAME, with NXDOMAIN or NODATA for the target",
            "RFC 6604; the alias exists",
        ],
    ),
    compared(
        "alias-elsewhere",
        [
            "an alias whose target lies in another zone, even one served here",
            "looks the target up",
            "the CNAME alone; looked up where the block, or the one that the target belongs to, has more than zones (`forward`)",
            "the zone ends there, and a secondary may not have the other",
        ],
    ),
    compared(
        "soa",
        [
            "fields of the SOA",
            "refresh 7200, retry 1800; TTL at most 300",
            "refresh 300, retry 30, unless `apex` says otherwise; the zone's TTL",
            "secondaries that missed a NOTIFY soon see the next version",
        ],
    ),
    compared(
        "ns",
        [
            "NS, and the addresses of `ns.dns`",
            "none where the block has `bind`; in reverse zones a name that does not exist",
            "always one, of a name that exists in the zone that is served",
            "BIND refuses a zone without NS",
        ],
    ),
    compared(
        "reverse",
        [
            "`svc`, `pod`, `ns.dns` and `dns-version` in reverse zones",
            "exist",
            "NXDOMAIN",
            "reverse zones hold PTRs",
        ],
    ),
    compared(
        "hidden-ptr",
        [
            "a PTR to a name that does not exist: hidden by `namespace_labels` or `ignore empty_service`, of a slice without Service, of an ExternalName",
            "answers it; nothing at all for a slice without the label of its Service",
            "NXDOMAIN",
            "hidden means hidden",
        ],
    ),
    compared(
        "numberless",
        [
            "a slice's port without a number",
            "its name exists",
            "NXDOMAIN",
            "there is no SRV to put there",
        ],
    ),
    compared(
        "dotted-pod",
        [
            "`endpoint_pod_names`, and a pod's name with a dot",
            "a name of two labels, which it does not answer",
            "the dashed address",
            "a pod's name with a dot is no label",
        ],
    ),
    compared(
        "fqdn",
        [
            "several FQDN endpoints, or one beside addresses",
            "several CNAMEs, or CNAME or NODATA at random",
            "left out at the Service's name, and reported",
            "a CNAME stands alone (RFC 1034)",
        ],
    ),
    compared(
        "end-of-chain",
        [
            "`fallthrough`, and nothing that comes after",
            "SERVFAIL",
            "NXDOMAIN",
            "the zone is ours: what nobody has does not exist",
        ],
    ),
    compared(
        "case",
        [
            "a question with capital letters in the zone's part",
            "NS and `ns.dns` are not found",
            "found",
            "names have no case (RFC 4343)",
        ],
    ),
    compared(
        "pod-zero",
        [
            "`pods verified`, and an IPv6 address that ends in `::`",
            "the label ends in a dash (`fd00--`)",
            "it ends in 0 (`fd00--0`), as endpoints have it",
            "secondaries may refuse a label that ends in a dash",
        ],
    ),
    compared(
        "external",
        [
            "`k8s_external`",
            "CNAME beside SRV, hidden namespaces shown, one port of several, SRV with the TTL of `kubernetes`, junk in front of a Service's name answered, NXDOMAIN before the first list, a serial that stands still when Services come and go",
            "a CNAME alone, hidden is hidden, every port, one TTL, `_port._proto` and nothing else, SERVFAIL before the first list, a serial that goes up with every change of the zone and with nothing else",
            "it is a zone like others, for every secondary",
        ],
    ),
    compared(
        "clusterset",
        [
            "zones of sets of clusters",
            "no PTRs, no cluster ids in transfers, no address for an import without ports, `dns-version` 1.1.0, SERVFAIL for all zones where the CRD is missing",
            "PTRs, cluster ids, the address, `dns-version` 1.0.0, SERVFAIL for these zones alone",
            "KEP-1645, and the rest goes on",
        ],
    ),
    elsewhere(
        "api-limits",
        [
            "`apiserver_qps`, `apiserver_burst`, `apiserver_max_inflight`",
            "come too late to limit the client",
            "limit it",
            "that is what they say",
        ],
        "no query: crates/kubernetes/src/source/api_server/throttle.rs",
    ),
    elsewhere(
        "selectors",
        [
            "`!=` and several requirements for one key in `labels` and `namespace_labels`",
            "refused",
            "as in the API",
            "an operator writes what `kubectl -l` takes",
        ],
        "CoreDNS does not start: crates/kubernetes/src/facts/selector/tests.rs",
    ),
    elsewhere(
        "subzone",
        [
            "AXFR of a name below the apex, such as `svc.cluster.local`",
            "a zone with invented names",
            "NOTAUTH",
            "a subdomain of a zone is no zone",
        ],
        "a transfer, not a query: tests/situations.rs",
    ),
    elsewhere(
        "transfer-once",
        [
            "glue, addresses and SRV in transfers",
            "repeated, glue with TTL 0, weights that contradict each other",
            "once, with the zone's TTL",
            "what is answered is what is transferred",
        ],
        "a transfer, not a query: tests/promise.rs",
    ),
    elsewhere(
        "front",
        [
            "the Service in front of the server, which NS names",
            "any Service with an endpoint at one of its addresses, hidden ones too; with `bind`, none",
            "one with an endpoint at one of the block's addresses and ports, unless it is hidden",
            "another process of the host is no way to us",
        ],
        "no Service has an endpoint on loopback: zones/apex-discovered",
    ),
    elsewhere(
        "overlay",
        [
            "a zone file behind `kubernetes` by `fallthrough`",
            "answers of the file have its SOA, and it is no part of the transferred zone",
            "one zone with one SOA, which is transferred whole",
            "a zone has one start of authority",
        ],
        "zones/overlay, tests/situations.rs",
    ),
    elsewhere(
        "overlay-live",
        [
            "a record of that file at a name of `pods insecure` or `zonal`",
            "the cluster's answer",
            "the file's",
            "it is transferred, and a secondary answers it",
        ],
        "tests/why.rs",
    ),
    elsewhere(
        "notify",
        [
            "NOTIFY for a cluster's zones",
            "never sent",
            "sent with each version; what was refused is told again at the SOA's retry, until the secondary holds the version",
            "secondaries see a change at once; one that is just starting refuses at first",
        ],
        "not a query: tests/situations.rs",
    ),
    elsewhere(
        "port-63",
        [
            "a port name of 63 octets (64 with `_`)",
            "every AXFR of the zone fails",
            "left out and reported",
            "one tenant must not stop everybody's transfers",
        ],
        "a name of which DNS cannot ask: zones/ports",
    ),
    elsewhere(
        "unsynced",
        [
            "before everything was listed",
            "SERVFAIL with an invented SOA",
            "SERVFAIL with EDE 14, without SOA",
            "there is no version yet",
        ],
        "a moment the comparison does not catch: tests/situations.rs",
    ),
    elsewhere(
        "corefile",
        [
            "a stray or missing `}` in the Corefile",
            "accepted",
            "an error, with its place",
            "half a configuration is an outage later",
        ],
        "no query: crates/directives/src/config/tests/grammar.rs",
    ),
    elsewhere(
        "datagram",
        [
            "a reply of more than 1232 octets in a datagram",
            "as large as the client takes",
            "TC above 1232 octets, whatever the client takes; no more is asked for of a server behind",
            "larger datagrams get lost in fragments",
        ],
        "tests/handlers.rs",
    ),
];

/// The table in Markdown.
#[must_use]
pub fn table() -> String {
    let mut table = String::from("| | CoreDNS | zonewright | because |\n|---|---|---|---|\n");
    for difference in all() {
        let Difference {
            id: _,
            what,
            coredns,
            ours,
            why,
            shown: _,
        } = difference;
        table.push_str(&format!("| {what} | {coredns} | {ours} | {why} |\n"));
    }
    table
}

#[test]
fn places_where_differences_are_shown_exist() {
    for difference in all() {
        let Shown::Elsewhere(place) = difference.shown else {
            continue;
        };
        let mut files = place.split([' ', ',']).filter(|word| word.contains('/'));
        let missing = files.find(|file| !std::path::Path::new(file).exists());
        assert_eq!(missing, None, "{}", difference.id);
    }
}
