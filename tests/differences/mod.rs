//! Our deliberate differences from CoreDNS: one table, which the README prints and the comparison with a real CoreDNS
//! checks.
//!
//! Each difference that the comparison can meet has a rule there, which turns CoreDNS's answer into ours. An answer
//! without a rule fails the comparison, and so does a rule that nothing needs.

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
            "they are not names of the zone, so no secondary could answer them",
        ],
    ),
    compared(
        "ent",
        [
            "a name without records that has names below it, such as `_tcp.web.shop.svc…` or `dns…`",
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
            "a name exists for all types or for none (RFC 8020)",
        ],
    ),
    compared(
        "any",
        [
            "ANY",
            "NODATA or NXDOMAIN",
            "one RRset of the name",
            "RFC 8482; NODATA would be untrue",
        ],
    ),
    compared(
        "port-address",
        [
            "A and AAAA at `_port._proto` names",
            "the Service's addresses",
            "NODATA",
            "the specification has only SRV there",
        ],
    ),
    compared(
        "pod-srv",
        [
            "SRV at pod names",
            "port 0 of the pod itself",
            "NODATA",
            "the specification has only addresses there",
        ],
    ),
    compared(
        "weight",
        [
            "weights of SRV records",
            "100/n, calculated differently for queries and for transfers",
            "100 throughout",
            "equal weights give the same distribution, and one more endpoint changes no other record",
        ],
    ),
    compared(
        "additional",
        [
            "addresses beside SRV records, when endpoints of one host name have different ports",
            "those of endpoints that have the port",
            "all addresses of the target",
            "an RRset is always sent whole (RFC 2181)",
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
            "types other than A, AAAA and CNAME at an alias",
            "NODATA",
            "the CNAME, and the records of its target",
            "a CNAME answers every type (RFC 1034), and secondaries do that",
        ],
    ),
    compared(
        "alias-missing",
        [
            "an alias whose target is in the zone, but is missing or lacks the type",
            "NODATA, without the CNAME",
            "the CNAME, with NXDOMAIN or NODATA for the target",
            "RFC 6604; the alias exists",
        ],
    ),
    compared(
        "alias-elsewhere",
        [
            "an alias whose target is in another zone, even one of this server",
            "looks the target up",
            "the CNAME alone. The target is looked up if its block, or the block of the alias, has other handlers than zones (`forward`)",
            "the target is not in the zone, and a secondary may not have the other zone",
        ],
    ),
    compared(
        "soa",
        [
            "fields of the SOA",
            "refresh 7200, retry 1800; TTL at most 300",
            "refresh 300, retry 30, unless `apex` says otherwise; the zone's TTL",
            "a secondary that missed a NOTIFY soon gets the next version",
        ],
    ),
    compared(
        "ns",
        [
            "NS, and the addresses of `ns.dns`",
            "none if the block has `bind`; in reverse zones a name that does not exist",
            "always present, with a name that exists in a served zone",
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
            "a PTR to a name that does not exist: of a Service hidden by `namespace_labels` or `ignore empty_service`, of a slice without a Service, of an ExternalName",
            "answers it, but nothing for a slice without the label of its Service",
            "NXDOMAIN",
            "a hidden Service has no names at all",
        ],
    ),
    compared(
        "numberless",
        [
            "a slice's port without a number",
            "its name exists",
            "NXDOMAIN",
            "without a port number there is no SRV record",
        ],
    ),
    compared(
        "dotted-pod",
        [
            "`endpoint_pod_names`, and a pod's name with a dot",
            "makes a name of two labels, and does not answer it",
            "the dashed address",
            "a name with a dot is not a label",
        ],
    ),
    compared(
        "fqdn",
        [
            "several FQDN endpoints, or one beside addresses",
            "several CNAMEs, or CNAME or NODATA at random",
            "left out at the Service's name, and reported",
            "a CNAME has no other records beside it (RFC 1034)",
        ],
    ),
    compared(
        "end-of-chain",
        [
            "`fallthrough` without a handler behind it",
            "SERVFAIL",
            "NXDOMAIN",
            "the zone is ours: a name that no handler has does not exist",
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
            "it ends in 0 (`fd00--0`), as for endpoints",
            "secondaries may refuse a label that ends in a dash",
        ],
    ),
    compared(
        "external",
        [
            "`k8s_external`",
            "CNAME beside SRV, hidden namespaces answered, one of several ports, SRV with the TTL of `kubernetes`, answers for extra labels in front of a Service's name, NXDOMAIN before the first list, a serial that does not change with Services",
            "a CNAME alone, no answers for hidden namespaces, every port, one TTL, only `_port._proto` in front of a Service's name, SERVFAIL before the first list, a serial that rises with each change of the zone and only then",
            "it is an ordinary zone, which any secondary can hold",
        ],
    ),
    compared(
        "clusterset",
        [
            "zones of sets of clusters",
            "no PTRs, no cluster ids in transfers, no address for an import without ports, `dns-version` 1.1.0, SERVFAIL for all zones where the CRD is missing",
            "PTRs, cluster ids, the address, `dns-version` 1.0.0, SERVFAIL for these zones alone",
            "KEP-1645; other zones still work",
        ],
    ),
    elsewhere(
        "api-limits",
        [
            "`apiserver_qps`, `apiserver_burst`, `apiserver_max_inflight`",
            "have no effect, because they are set too late",
            "limit the client",
            "the options are meant to limit the client",
        ],
        "no query: crates/kubernetes/src/source/api_server/throttle.rs",
    ),
    elsewhere(
        "selectors",
        [
            "`!=` and several requirements for one key in `labels` and `namespace_labels`",
            "refused",
            "as in the API",
            "operators write the syntax of `kubectl -l`",
        ],
        "CoreDNS does not start: crates/kubernetes/src/facts/selector/tests.rs",
    ),
    elsewhere(
        "subzone",
        [
            "AXFR of a name below the apex, such as `svc.cluster.local`",
            "a zone with names that do not exist",
            "NOTAUTH",
            "a subdomain of a zone is not a zone",
        ],
        "a transfer, not a query: tests/situations.rs",
    ),
    elsewhere(
        "transfer-once",
        [
            "glue, addresses and SRV in transfers",
            "repeated, glue with TTL 0, weights that contradict each other",
            "once, with the zone's TTL",
            "answers and transfers have the same records",
        ],
        "a transfer, not a query: tests/promise.rs",
    ),
    elsewhere(
        "front",
        [
            "the Service in front of the server, which NS names",
            "any Service with an endpoint at one of its addresses, even a hidden one; with `bind` none",
            "a Service with an endpoint at one of the block's addresses and ports, unless it is hidden",
            "a Service of another process on the host does not lead to this server",
        ],
        "no Service has an endpoint on loopback: zones/apex-discovered",
    ),
    elsewhere(
        "overlay",
        [
            "a zone file behind `kubernetes` by `fallthrough`",
            "answers from the file have its own SOA, and the file is not in the transferred zone",
            "one zone with one SOA, transferred as a whole",
            "a zone has one SOA",
        ],
        "zones/overlay, tests/situations.rs",
    ),
    elsewhere(
        "overlay-live",
        [
            "a record of that file at a name of `pods insecure` or `zonal`",
            "the cluster's answer",
            "the file's",
            "the file's record is transferred, and secondaries answer it",
        ],
        "tests/why.rs",
    ),
    elsewhere(
        "file-negative-ttl",
        [
            "the TTL of the SOA in negative answers of a zone file",
            "the SOA's own TTL",
            "the lower one of that and the SOA's minimum",
            "RFC 2308 section 5; raise the minimum where denials are to be kept longer",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "file-authority",
        [
            "answers of a zone file, authority section",
            "the NS of the zone",
            "empty",
            "the client has its answer; who needs the NS asks for them",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "file-without-ns",
        [
            "a zone file without NS at its apex",
            "served without",
            "served and transferred with `ns.dns` below the apex as NS, and warned about",
            "BIND refuses a zone without NS; write the NS that clients are to see",
        ],
        "crates/zonefile/src/tests.rs",
    ),
    elsewhere(
        "file-unusable",
        [
            "a zone file that does not parse, at the start",
            "the server does not start",
            "its names are SERVFAIL and `/ready` says 503 until it is right, all else is served; `check` says what is wrong",
            "a zone file must not stop the DNS of the cluster",
        ],
        "tests/followed.rs",
    ),
    elsewhere(
        "file-fallthrough",
        [
            "`fallthrough` of several `file` in one block",
            "what the last one says counts for all",
            "each for its own zones",
            "write it in each that is to have it",
        ],
        "crates/directives/src/file/tests.rs",
    ),
    elsewhere(
        "link-addresses",
        [
            "addresses of `ns.dns` that hold on one link alone (`fe80::…`)",
            "listed",
            "left out",
            "nobody beyond the link can use them; name others in `apex`",
        ],
        "src/plan/addresses.rs",
    ),
    elsewhere(
        "external-itself",
        [
            "a Service of type ExternalName that names itself",
            "CNAME to itself; NODATA for addresses",
            "NXDOMAIN, and reported in the log and `status`",
            "the alias leads nowhere; correct its `externalName`",
        ],
        "crates/kubernetes/src/schema/service.rs",
    ),
    elsewhere(
        "ending-pod",
        [
            "`pods verified`, and a pod that is being deleted and still runs",
            "NXDOMAIN if the deletion began before CoreDNS started, else its address",
            "its address until the pod is gone",
            "what is answered does not depend on when the server started",
        ],
        "crates/kubernetes/src/schema/pod.rs",
    ),
    elsewhere(
        "external-hosts",
        [
            "`k8s_external`, SRV to the host name of a load balancer that `hosts` of the block knows",
            "its address in the additional section",
            "no address there",
            "a secondary has none either; clients ask for the name",
        ],
        "crates/server/src/dispatch/tests.rs",
    ),
    elsewhere(
        "notify",
        [
            "NOTIFY for a cluster's zones",
            "never sent",
            "sent with each version. If it is refused, it is sent again at the SOA's retry, until the secondary has the version",
            "secondaries see a change at once; a secondary that is starting may refuse NOTIFY at first",
        ],
        "not a query: tests/situations.rs",
    ),
    elsewhere(
        "port-63",
        [
            "a port name of 63 octets (64 with `_`)",
            "every AXFR of the zone fails",
            "left out and reported",
            "one tenant must not stop the transfers of all",
        ],
        "a name of which DNS cannot ask: zones/ports",
    ),
    elsewhere(
        "unsynced",
        [
            "before all objects are listed",
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
            "a half configuration may cause an outage later",
        ],
        "no query: crates/directives/src/config/tests/grammar.rs",
    ),
    elsewhere(
        "datagram",
        [
            "a reply of more than 1232 bytes in a datagram",
            "up to the size that the client accepts",
            "TC above 1232 bytes, even if the client accepts more. Upstreams are asked for at most 1232 bytes too",
            "larger datagrams are fragmented and get lost",
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
