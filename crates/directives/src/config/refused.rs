//! The directives of CoreDNS that are refused, each with the reason.

/// Name and reason; the README prints them.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    (
        "auto",
        "files of zones are named one by one, with `file`: a file that is lost for a moment would be a zone that is gone",
    ),
    (
        "azure",
        "names come from the cluster and from zone files, not from Azure",
    ),
    (
        "cancel",
        "the time of a query is bounded without it: five seconds in `forward`",
    ),
    (
        "clouddns",
        "names come from the cluster and from zone files, not from Google Cloud",
    ),
    (
        "dnssec",
        "zones are handed over unsigned: a secondary that signs (Knot, BIND) keeps the keys",
    ),
    (
        "dnstap",
        "queries are told by `log` and counted by `prometheus`",
    ),
    ("erratic", "it answers wrongly on purpose, for tests"),
    (
        "etcd",
        "names come from the cluster and from zone files, not from etcd",
    ),
    (
        "geoip",
        "nothing is looked up about where a client is, for answers do not depend on it",
    ),
    (
        "grpc",
        "servers behind are asked over UDP, TCP, TLS and HTTPS: `forward`",
    ),
    (
        "grpc_server",
        "queries are answered over UDP, TCP and TLS, not over gRPC",
    ),
    ("header", "the flags of a reply say what the answer is"),
    (
        "https",
        "queries are answered over UDP, TCP and TLS, not over HTTPS",
    ),
    (
        "https3",
        "queries are answered over UDP, TCP and TLS, not over HTTPS",
    ),
    (
        "nomad",
        "names come from the cluster and from zone files, not from Nomad",
    ),
    (
        "on",
        "no commands are run: leave them to what starts and stops the process",
    ),
    (
        "proxyproto",
        "the client is who the packet comes from, for `acl` and `transfer` rely on it",
    ),
    (
        "quic",
        "queries are answered over UDP, TCP and TLS, not over QUIC",
    ),
    (
        "route53",
        "names come from the cluster and from zone files, not from AWS",
    ),
    (
        "secondary",
        "zones are written here, not held for others: BIND, Knot and NSD do that",
    ),
    (
        "shed",
        "what may wait at a time is bounded without it: see limits and defaults",
    ),
    (
        "sign",
        "zones are handed over unsigned: a secondary that signs (Knot, BIND) keeps the keys",
    ),
    (
        "trace",
        "no spans are sent; `log` tells how long answers took",
    ),
    (
        "view",
        "a name has one answer whoever asks, for a secondary has but one; `acl` says who may ask",
    ),
    ("whoami", "it tells clients their own address, for tests"),
];

/// Why a directive is refused.
pub(crate) fn reason(name: &str) -> Option<&'static str> {
    let found = REFUSED.iter().find(|(refused, _)| *refused == name);
    found.map(|(_, why)| *why)
}

/// The table in Markdown.
#[must_use]
pub fn refused_table() -> String {
    let mut table = String::from("| directive of CoreDNS | why it is refused |\n|---|---|\n");
    for (name, why) in REFUSED {
        table.push_str(&format!("| `{name}` | {why} |\n"));
    }
    table
}
