//! Parses the meaning of a name from its labels alone: the inverse of the names that the schema writes.
//!
//! Nothing is looked up: if a name is parsed as a Service's, that Service may not exist. Names that only the server
//! answers are parsed too: pods by any spelling of their address, and the endpoints of a topology zone,
//! `ZONE.pin._zone.service.namespace.svc` and `ZONE.prefer._zone.…`, where ZONE may have several labels.

use std::net::IpAddr;

use dns::{Name, ParseError};
use provenance::ObjectKey;

use crate::facts::Protocol;

/// The kind of names in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZoneForm {
    /// The names of a cluster.
    Forward,
    /// The names of a set of clusters.
    Clusterset,
    /// The names of Services reached from outside.
    External,
    /// The names of addresses.
    Reverse,
}

impl ZoneForm {
    /// The version of the specification that a zone follows, as text of `dns-version`: DNS-Based Service Discovery
    /// for Kubernetes 1.1.0 section 2.2, KEP-1645's specification 1.0.0.
    pub(super) const fn schema_version(self) -> Option<&'static str> {
        match self {
            Self::Forward => Some("1.1.0"),
            Self::Clusterset => Some("1.0.0"),
            Self::External | Self::Reverse => None,
        }
    }

    /// The name in a zone below which all names are those of Services or imports; `None` if these can be anywhere.
    #[must_use]
    pub fn services(self, zone: &Name) -> Option<Name> {
        match self {
            Self::Forward | Self::Clusterset => Branch::Services.name(zone).ok(),
            Self::External | Self::Reverse => None,
        }
    }
}

/// The label below which a zone has names of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Branch {
    /// `svc`: Services and ServiceImports.
    Services,
    /// `pod`.
    Pods,
}

impl Branch {
    const ALL: [Self; 2] = [Self::Services, Self::Pods];

    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Services => "svc",
            Self::Pods => "pod",
        }
    }

    /// Its name in a zone: `svc.zone` or `pod.zone`.
    ///
    /// # Errors
    /// [`ParseError`] when the name would be too long.
    pub fn name(self, zone: &Name) -> Result<Name, ParseError> {
        zone.child(self.label())
    }

    /// The name of a namespace: `namespace.svc.zone` or `namespace.pod.zone`.
    ///
    /// # Errors
    /// [`ParseError`] when the label is too long or the name would be.
    pub fn namespace(self, namespace: &str, zone: &Name) -> Result<Name, ParseError> {
        self.name(zone)?.child(&namespace.to_ascii_lowercase())
    }
}

/// The label of the name that says which version of the specification a zone follows.
pub(super) const SCHEMA_VERSION: &str = "dns-version";
/// The label of the names of a headless Service's endpoints by topology zone.
pub const TOPOLOGY: &str = "_zone";
/// The labels of a cluster zone's default name server, from the left.
pub const NAME_SERVER: [&str; 2] = ["ns", "dns"];

impl ZoneForm {
    /// The labels directly below the apex under which all names of objects are; empty if these can be anywhere.
    #[must_use]
    pub const fn top_labels(self) -> &'static [&'static str] {
        const LABELS: &[&str] = &[
            Branch::Services.label(),
            SCHEMA_VERSION,
            Branch::Pods.label(),
        ];
        match self {
            Self::Forward => LABELS,
            Self::Clusterset => LABELS.split_at(2).0,
            Self::External | Self::Reverse => &[],
        }
    }
}

impl Protocol {
    /// The label of the protocol in SRV owners (DNS-Based Service Discovery for Kubernetes 2.3.2).
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Tcp => "_tcp",
            Self::Udp => "_udp",
            Self::Sctp => "_sctp",
        }
    }
}

/// The meaning of a name in a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParsedName<'n> {
    /// The apex.
    Apex,
    /// At or below `dns-version`, or the default name server.
    OfZone,
    /// Above all namespaces.
    Branch(Branch),
    /// Above all objects of a namespace.
    Namespace {
        /// The kind of the objects; in an external zone they are Services.
        branch: Branch,
        /// The label of the namespace.
        namespace: &'n [u8],
    },
    /// At or below the name of an object.
    Object(ObjectName<'n>),
    /// The name of an address, in a reverse zone.
    Address(IpAddr),
    /// The schema has no such name.
    Other,
}

/// The name of a Service, an import or a pod, or a name below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectName<'n> {
    /// The kind of the object.
    pub branch: Branch,
    /// The label of its namespace.
    pub namespace: &'n [u8],
    /// Its own label. A pod's label is its address, see [`pod_address`](crate::schema::pod_address).
    pub name: &'n [u8],
    /// The labels before its own.
    pub below: Below<'n>,
}

impl ObjectName<'_> {
    /// The key of the object. Bytes that are not UTF-8 are replaced; no object has such a key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        let text = String::from_utf8_lossy;
        ObjectKey::new(&text(self.namespace), &text(self.name))
    }
}

/// The labels below an object's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Below<'n> {
    /// None: the name is the object's own.
    Nothing,
    /// One label without underscore: an endpoint's.
    Endpoint(&'n [u8]),
    /// `endpoint.cluster`, in zones of ServiceImports.
    ClusterEndpoint {
        /// The id of the cluster.
        cluster: &'n [u8],
        /// The endpoint's label.
        endpoint: &'n [u8],
    },
    /// `_protocol`: the ports of that protocol are below it. The label has its underscore.
    Protocol(&'n [u8]),
    /// `_port._protocol`; the underscores are left out here.
    Port {
        /// The name of the port.
        port: &'n [u8],
        /// The protocol.
        protocol: &'n [u8],
    },
    /// Two labels of which the second has no underscore. The schema writes no such name; for CoreDNS it is a port.
    /// Underscores are left out here.
    BarePort {
        /// The name of the port.
        port: &'n [u8],
        /// The protocol.
        protocol: &'n [u8],
    },
    /// `ZONE.pin._zone`, or a name above it.
    Topology {
        /// The answer for a topology zone without endpoints; `None` for `_zone` itself.
        rule: Option<TopologyRule>,
        /// ZONE as labels in wire form, without a root; empty if there is none.
        zone: &'n [u8],
    },
    /// Other labels; this is the one next to the object's own.
    Other(&'n [u8]),
}

/// The answer for a topology zone without endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TopologyRule {
    /// Nothing.
    Pin,
    /// All endpoints.
    Prefer,
}

impl TopologyRule {
    const ALL: [Self; 2] = [Self::Pin, Self::Prefer];

    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Prefer => "prefer",
        }
    }
}

/// Parses a name of a zone. `name` is in lower-case wire form and within the zone. Allocates only for reverse zones.
#[must_use]
pub fn parse_name<'n>(form: ZoneForm, zone: &Name, name: &'n [u8]) -> ParsedName<'n> {
    let above = name.len().saturating_sub(zone.as_wire().len());
    let mut labels = LastFirst(&name[..above]);
    if form == ZoneForm::Reverse {
        let address = Name::from_wire(name)
            .ok()
            .and_then(|it| it.reversed_address());
        return address.map_or(ParsedName::Other, ParsedName::Address);
    }
    if labels.0.is_empty() {
        return ParsedName::Apex;
    }
    let branch = match form {
        ZoneForm::External | ZoneForm::Reverse => Branch::Services,
        ZoneForm::Forward | ZoneForm::Clusterset => {
            let top = labels.next().unwrap_or_default();
            match Branch::ALL
                .into_iter()
                .find(|it| it.label().as_bytes() == top)
            {
                Some(branch) if labels.0.is_empty() => return ParsedName::Branch(branch),
                Some(branch) => branch,
                None => {
                    let of_zone = [SCHEMA_VERSION].iter().chain(&NAME_SERVER);
                    let is_of_zone = { of_zone }.any(|label| label.as_bytes() == top);
                    return match is_of_zone {
                        true => ParsedName::OfZone,
                        false => ParsedName::Other,
                    };
                }
            }
        }
    };
    let namespace = labels.next().unwrap_or_default();
    let Some(name) = labels.next() else {
        return ParsedName::Namespace { branch, namespace };
    };
    let below = match (form, branch) {
        (ZoneForm::Forward, Branch::Services) => below_zonal(labels),
        (_, _) => below(labels, form == ZoneForm::Clusterset),
    };
    ParsedName::Object(ObjectName {
        branch,
        namespace,
        name,
        below,
    })
}

/// The labels below a Service's own, if topology zones can have names.
fn below_zonal(labels: LastFirst<'_>) -> Below<'_> {
    let mut rest = LastFirst(labels.0);
    if rest.next() != Some(TOPOLOGY.as_bytes()) {
        return below(labels, false);
    }
    let Some(label) = rest.next() else {
        let (rule, zone) = (None, rest.0);
        return Below::Topology { rule, zone };
    };
    let mut rules = TopologyRule::ALL.into_iter();
    match rules.find(|rule| rule.label().as_bytes() == label) {
        None => below(labels, false),
        rule => Below::Topology { rule, zone: rest.0 },
    }
}

/// The labels below an object's own.
fn below(mut labels: LastFirst<'_>, is_clusterset: bool) -> Below<'_> {
    let Some(last) = labels.next() else {
        return Below::Nothing;
    };
    let protocol = last.strip_prefix(b"_");
    match (labels.next(), labels.next()) {
        (None, _) if protocol.is_some() => Below::Protocol(last),
        (None, _) => Below::Endpoint(last),
        (Some(first), None) => {
            let named = first.strip_prefix(b"_");
            let port = named.unwrap_or(first);
            match (protocol, named) {
                (Some(protocol), _) => Below::Port { port, protocol },
                (None, None) if is_clusterset => Below::ClusterEndpoint {
                    cluster: last,
                    endpoint: first,
                },
                (None, _) => Below::BarePort {
                    port,
                    protocol: last,
                },
            }
        }
        (Some(_), Some(_)) => Below::Other(last),
    }
}

/// The topology zone of [`Below::Topology`] as text.
#[must_use]
pub fn topology_text(zone: &[u8]) -> String {
    let mut labels: Vec<_> = LastFirst(zone).map(String::from_utf8_lossy).collect();
    labels.reverse();
    labels.join(".")
}

/// Labels in wire form without a root, taken from the last on.
struct LastFirst<'n>(&'n [u8]);

impl<'n> Iterator for LastFirst<'n> {
    type Item = &'n [u8];

    fn next(&mut self) -> Option<&'n [u8]> {
        let mut start = 0;
        loop {
            let end = start + 1 + usize::from(*self.0.get(start)?);
            if end >= self.0.len() {
                let (rest, last) = self.0.split_at(start);
                self.0 = rest;
                return last.get(1..);
            }
            start = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name says, with labels as text.
    fn said(form: ZoneForm, zone: &str, name: &str) -> String {
        let (zone, name) = (Name::parse(zone).unwrap(), Name::parse(name).unwrap());
        let text = |label: &[u8]| String::from_utf8(label.to_vec()).unwrap();
        let (it, branch) = match parse_name(form, &zone, name.as_wire()) {
            ParsedName::Namespace { branch, namespace } => {
                return format!("{branch:?} of {}", text(namespace));
            }
            ParsedName::Object(it) => (it, it.branch),
            ParsedName::Address(address) => return address.to_string(),
            other @ (ParsedName::Apex
            | ParsedName::OfZone
            | ParsedName::Branch(_)
            | ParsedName::Other) => return format!("{other:?}"),
        };
        let below = match it.below {
            Below::Nothing => String::new(),
            Below::Endpoint(label) => format!(" endpoint {}", text(label)),
            Below::ClusterEndpoint { cluster, endpoint } => {
                format!(" endpoint {} of {}", text(endpoint), text(cluster))
            }
            Below::Protocol(label) => format!(" protocol {}", text(label)),
            Below::Port { port, protocol } => format!(" port {} {}", text(port), text(protocol)),
            Below::BarePort { port, protocol } => {
                format!(" bare port {} {}", text(port), text(protocol))
            }
            Below::Topology { rule, zone } => {
                format!(" topology {rule:?} {:?}", topology_text(zone))
            }
            Below::Other(label) => format!(" other {}", text(label)),
        };
        format!("{branch:?} {}{below}", it.key())
    }

    #[test]
    fn names_of_a_cluster_are_told_apart() {
        for (name, want) in [
            ("z", "Apex"),
            ("dns-version.z", "OfZone"),
            ("ns.dns.z", "OfZone"),
            ("x.z", "Other"),
            ("svc.z", "Branch(Services)"),
            ("pod.z", "Branch(Pods)"),
            ("n.svc.z", "Services of n"),
            ("n.pod.z", "Pods of n"),
            ("s.n.svc.z", "Services n/s"),
            ("e.s.n.svc.z", "Services n/s endpoint e"),
            ("_tcp.s.n.svc.z", "Services n/s protocol _tcp"),
            ("_http._tcp.s.n.svc.z", "Services n/s port http tcp"),
            ("http._tcp.s.n.svc.z", "Services n/s port http tcp"),
            ("_http.tcp.s.n.svc.z", "Services n/s bare port http tcp"),
            ("a.b.s.n.svc.z", "Services n/s bare port a b"),
            ("a.b.c.s.n.svc.z", "Services n/s other c"),
            ("_zone.s.n.svc.z", "Services n/s topology None \"\""),
            (
                "pin._zone.s.n.svc.z",
                "Services n/s topology Some(Pin) \"\"",
            ),
            (
                "eu.b.prefer._zone.s.n.svc.z",
                "Services n/s topology Some(Prefer) \"eu.b\"",
            ),
            ("eu.near._zone.s.n.svc.z", "Services n/s other _zone"),
            ("10-0-0-1.n.pod.z", "Pods n/10-0-0-1"),
            ("x.10-0-0-1.n.pod.z", "Pods n/10-0-0-1 endpoint x"),
            ("a.pin._zone.s.n.pod.z", "Pods n/s other _zone"),
        ] {
            assert_eq!(said(ZoneForm::Forward, "z", name), want, "{name}");
        }
    }

    #[test]
    fn each_form_of_a_zone_has_names_of_its_own() {
        for (form, zone, name, want) in [
            (
                ZoneForm::Clusterset,
                "z",
                "e.c.s.n.svc.z",
                "Services n/s endpoint e of c",
            ),
            (
                ZoneForm::Clusterset,
                "z",
                "_http._tcp.s.n.svc.z",
                "Services n/s port http tcp",
            ),
            (
                ZoneForm::Clusterset,
                "z",
                "a.pin._zone.s.n.svc.z",
                "Services n/s other _zone",
            ),
            (ZoneForm::External, "z", "z", "Apex"),
            (ZoneForm::External, "z", "n.z", "Services of n"),
            (ZoneForm::External, "z", "s.n.z", "Services n/s"),
            (
                ZoneForm::External,
                "z",
                "_http._tcp.s.n.z",
                "Services n/s port http tcp",
            ),
            (
                ZoneForm::Reverse,
                "10.in-addr.arpa",
                "3.2.1.10.in-addr.arpa",
                "10.1.2.3",
            ),
            (
                ZoneForm::Reverse,
                "10.in-addr.arpa",
                "2.1.10.in-addr.arpa",
                "Other",
            ),
        ] {
            assert_eq!(said(form, zone, name), want, "{name}");
        }
    }
}
