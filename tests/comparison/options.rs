//! The option sets: what both servers are told, word for word, but for their ports.

use std::path::Path;

/// Names, and the addresses of Services and endpoints of both families: 10.0.0.0/8 and fd00:10::/32.
const ALL: &[&str] = &[
    "cluster.local",
    "10.in-addr.arpa",
    "0.1.0.0.0.0.d.f.ip6.arpa",
];

#[derive(Clone, Copy, Debug)]
pub struct OptionSet {
    pub name: &'static str,
    /// The zones of `kubernetes`, as written: names or CIDRs.
    pub zones: &'static [&'static str],
    /// Lines in the block of `kubernetes`.
    pub kubernetes: &'static str,
    /// Further zones of the server block.
    pub other_zones: &'static [&'static str],
    /// Lines beside `kubernetes`.
    pub beside: &'static str,
    /// The TTL of ordinary records.
    pub ttl: u32,
    /// The TTL of those outside, if it is another one.
    pub external_ttl: Option<u32>,
    /// The zone of names outside, of those that are `k8s_external`'s.
    pub external: Option<&'static str>,
    /// The zone of the set of clusters.
    pub clusterset: Option<&'static str>,
}

/// The plain one: `kubernetes` without options, with reverse zones.
const PLAIN: OptionSet = OptionSet {
    name: "plain",
    zones: ALL,
    kubernetes: "",
    other_zones: &[],
    beside: "",
    ttl: 5,
    external_ttl: None,
    external: None,
    clusterset: None,
};

/// A set with names outside.
const fn external(name: &'static str, kubernetes: &'static str, beside: &'static str) -> OptionSet {
    OptionSet {
        name,
        kubernetes,
        zones: &["cluster.local"],
        other_zones: &[
            "out.example",
            "113.0.203.in-addr.arpa",
            "100.51.198.in-addr.arpa",
        ],
        beside,
        external: Some("out.example."),
        ..PLAIN
    }
}

/// A set that differs from the plain one in options of `kubernetes`.
const fn with(name: &'static str, kubernetes: &'static str) -> OptionSet {
    OptionSet {
        name,
        kubernetes,
        ..PLAIN
    }
}

pub const SETS: &[OptionSet] = &[
    PLAIN,
    OptionSet {
        ttl: 30,
        ..with("ttl 30", "ttl 30")
    },
    OptionSet {
        ttl: 600,
        ..with("ttl 600", "ttl 600")
    },
    OptionSet {
        ttl: 0,
        ..with("ttl 0", "ttl 0")
    },
    with("namespaces", "namespaces blue empty missing"),
    with("namespace_labels", "namespace_labels team in (a,b),expose"),
    with("labels", "labels tier=web"),
    with(
        "labels and namespaces",
        "labels tier notin (db)\nnamespaces green",
    ),
    with("pods insecure", "pods insecure"),
    with(
        "pods insecure, namespaces",
        "pods insecure\nnamespaces blue",
    ),
    with("pods verified", "pods verified"),
    with("pods verified, labels", "pods verified\nlabels tier=web"),
    with("endpoint_pod_names", "endpoint_pod_names"),
    with("noendpoints", "noendpoints"),
    with("ignore empty_service", "ignore empty_service"),
    with("fallthrough", "fallthrough"),
    with(
        "fallthrough of some",
        "fallthrough blue.svc.cluster.local in-addr.arpa",
    ),
    OptionSet {
        zones: &["cluster.local", "other.example", "10.in-addr.arpa"],
        ..with("several zones", "pods verified")
    },
    OptionSet {
        zones: &[
            "deep.zone.example",
            "10.96.64.0/23",
            "10.244.0.0/16",
            "fd00:10:96::/112",
        ],
        ..with("CIDRs", "")
    },
    OptionSet {
        zones: &["cluster.local", "in-addr.arpa", "ip6.arpa"],
        ..with("whole reverse trees", "fallthrough ip6.arpa")
    },
    with("zonal", "zonal"),
    external(
        "k8s_external",
        "",
        "k8s_external out.example 113.0.203.in-addr.arpa 100.51.198.in-addr.arpa",
    ),
    external(
        "k8s_external with headless",
        "namespaces blue green",
        "k8s_external out.example 113.0.203.in-addr.arpa 100.51.198.in-addr.arpa {\n headless\n apex names\n }",
    ),
    OptionSet {
        ttl: 20,
        external_ttl: Some(40),
        ..external(
            "k8s_external, hidden namespaces and a TTL",
            "namespace_labels team in (a,b)\nttl 20",
            "k8s_external out.example 113.0.203.in-addr.arpa 100.51.198.in-addr.arpa {\n headless\n ttl 40\n }",
        )
    },
    OptionSet {
        zones: &["cluster.local", "set.example", "10.in-addr.arpa"],
        clusterset: Some("set.example."),
        ..with("multicluster", "multicluster set.example")
    },
    with(
        "many options",
        "pods verified\nendpoint_pod_names\nignore empty_service\nnamespaces blue green\nttl 60",
    )
    .with_ttl(60),
];

impl OptionSet {
    /// Whether a zone is one of `k8s_external`.
    pub fn is_external(&self, zone: &str) -> bool {
        self.external.is_some()
            && self
                .other_zones
                .iter()
                .any(|other| format!("{other}.") == zone)
    }

    /// The TTL of ordinary records of a zone.
    pub fn ttl_of(&self, zone: &str) -> u32 {
        self.external_ttl
            .filter(|_| self.is_external(zone))
            .unwrap_or(self.ttl)
    }

    /// The label of the name server outside.
    pub fn apex(&self) -> &'static str {
        if self.says("apex") { "names" } else { "dns" }
    }

    /// Whether a zone is that of the set of clusters.
    pub fn is_clusterset(&self, zone: &str) -> bool {
        self.clusterset == Some(zone)
    }

    const fn with_ttl(self, ttl: u32) -> Self {
        Self { ttl, ..self }
    }

    /// The server block on a port, for an API server.
    pub fn block(&self, kubeconfig: &Path, port: u16) -> String {
        let source = format!("kubeconfig {}", kubeconfig.display());
        self.block_of(&source, &port.to_string())
    }

    /// The server block of zonewright on a port. With `headless` it publishes `externalIPs` as CoreDNS always does; without,
    /// a difference says that it does not.
    pub fn our_block(&self, kubeconfig: &Path, port: u16) -> String {
        let block = self.block(kubeconfig, port);
        block.replace(" headless\n", " headless\n external_ips\n")
    }

    /// Whether zonewright publishes `externalIPs`.
    pub fn publishes_external_ips(&self) -> bool {
        self.says("headless")
    }

    /// The server block on a port, with this line that says where the cluster is.
    pub fn block_of(&self, source: &str, port: &str) -> String {
        let keys: Vec<String> = self
            .zones
            .iter()
            .chain(self.other_zones)
            .map(|zone| format!("{zone}:{port}"))
            .collect();
        format!(
            "{} {{\n bind 127.0.0.1\n kubernetes {} {{\n {source}\n{}\n }}\n transfer {{\n to *\n }}\n{}\n}}\n",
            keys.join(" "),
            self.zones.join(" "),
            self.kubernetes,
            self.beside
        )
    }

    /// Whether the options have this word.
    pub fn says(&self, word: &str) -> bool {
        self.kubernetes.split_whitespace().any(|it| it == word)
            || self.beside.split_whitespace().any(|it| it == word)
    }

    /// The zones of the block by their names, CIDRs spelt out.
    pub fn zone_names(&self) -> Vec<String> {
        self.zones
            .iter()
            .chain(self.other_zones)
            .flat_map(|zone| names_of(zone))
            .collect()
    }

    /// The zones that hold names, not addresses.
    pub fn forward_zones(&self) -> Vec<String> {
        self.zone_names()
            .into_iter()
            .filter(|zone| !is_reverse(zone))
            .collect()
    }
}

/// Whether a name lies in the trees of addresses.
pub fn is_reverse(name: &str) -> bool {
    name.ends_with("in-addr.arpa.") || name.ends_with("ip6.arpa.")
}

/// The zones that a key means: those of the CIDRs in use are written down here, so that neither server
/// is believed.
fn names_of(key: &str) -> Vec<String> {
    let names: &[&str] = match key {
        "10.96.64.0/23" => &["64.96.10.in-addr.arpa.", "65.96.10.in-addr.arpa."],
        "10.244.0.0/16" => &["244.10.in-addr.arpa."],
        "fd00:10:96::/112" => {
            &["0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa."]
        }
        other => return vec![format!("{other}.")],
    };
    names.iter().map(|name| (*name).to_owned()).collect()
}
