//! Why a name has no record, or not all that someone expects: read from the facts, nothing is changed.

use std::net::IpAddr;

use dns::Name;
use kubernetes::facts::{Service, ServiceForm, State};
use kubernetes::schema::{Below, Branch, ParsedName, Problem, TOPOLOGY, ZoneForm, parse_name};
use provenance::{FactKey, Kind, ObjectKey};
use zone::{Node, Zone};

use crate::cluster::Cluster;
use crate::{ClusterPlan, Pipeline, Store};

/// One thing to know about a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// A word for programs. Its meaning never changes.
    pub code: &'static str,
    /// A sentence for people.
    pub text: String,
}

impl Reason {
    /// A reason.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }
}

impl<S: Store> Pipeline<S> {
    /// The reasons for the records of a name.
    pub(super) fn why(&mut self, apex: &Name, name: &Name) -> Vec<Reason> {
        let mut reasons = Vec::new();
        let clusters = self.clusters.iter();
        let places = clusters.map(|it| (it, it.plan.zones().position(|it| it.name == *apex)));
        for (cluster, place) in places {
            if let Some(place) = place {
                cluster.why(place, apex, name, &mut reasons);
            }
        }
        if let Some((zone, guard)) = self.guard_of(apex)
            && let Some(kept) = guard.base()
        {
            let current = zone.current();
            let key = name.sort_key(apex);
            let node = |contents: &zone::Contents| -> Option<Vec<u8>> {
                let node = contents.get(key.as_ref()?.as_bytes());
                node.map(Node::as_octets).map(<[u8]>::to_vec)
            };
            if current.and_then(|version| node(&version.contents)) != node(kept) {
                reasons.push(Reason::new("held", held_text(zone)));
            }
        }
        reasons
    }
}

/// What to say of a name that another version, which waits, would change.
fn held_text(zone: &Zone) -> String {
    let apex = zone.apex();
    let Some(held) = zone.held() else {
        if let Some(hold) = zone.hold() {
            let (what, by) = (hold.as_str(), &hold.by);
            return format!(
                "the zone is {what} by {by}, and its sources have other content at this name; to end that: zonewright release {apex}"
            );
        }
        return "the next version of the zone, within seconds, has other content at this name"
            .to_owned();
    };
    let why = &held.why;
    format!(
        "a held version has other content at this name: {why}; to publish it: zonewright release {apex}"
    )
}

impl Cluster {
    /// The reasons from the facts.
    fn why(&self, place: usize, apex: &Name, name: &Name, reasons: &mut Vec<Reason>) {
        if !self.state.is_synced() {
            let text = "the cluster was not listed completely in this run yet";
            reasons.push(Reason::new("not-synced", text));
        }
        let facts = Facts {
            state: &self.state,
            plan: &self.plan,
            problems: &|key| {
                let own = self.problems.get(key).into_iter().flatten();
                own.chain(self.foreign.get(key)).collect()
            },
        };
        let Some(form) = self.plan.zones().nth(place).map(|it| it.apex.form) else {
            return;
        };
        let lower = name.to_lower();
        let parsed = parse_name(form, apex, lower.as_wire());
        match form {
            ZoneForm::Forward => facts.forward(&parsed, reasons),
            ZoneForm::Clusterset => facts.clusterset(&parsed, reasons),
            ZoneForm::External => facts.external(&parsed, reasons),
            ZoneForm::Reverse => {
                let ParsedName::Address(address) = parsed else {
                    return;
                };
                if place < self.plan.first_clusterset() {
                    facts.reverse(address, reasons);
                } else {
                    facts.outer(address, reasons);
                }
            }
        }
    }
}

/// The facts of a cluster and what is made of them.
struct Facts<'a> {
    state: &'a State,
    /// What is made of them.
    plan: &'a ClusterPlan,
    /// The problems of an object.
    problems: &'a dyn Fn(&FactKey) -> Vec<&'a Problem>,
}

impl Facts<'_> {
    /// A name of a forward zone.
    fn forward(&self, name: &ParsedName<'_>, reasons: &mut Vec<Reason>) {
        match *name {
            ParsedName::Namespace { namespace, .. } => {
                _ = self.namespace(&String::from_utf8_lossy(namespace), reasons);
            }
            ParsedName::Object(it) if it.branch == Branch::Services => {
                let key = it.key();
                if self.namespace(&key.namespace, reasons) {
                    self.service(&key, it.below, reasons);
                }
            }
            ParsedName::Object(it) if it.below == Below::Nothing => {
                self.pod(&it.key(), reasons);
            }
            ParsedName::Apex
            | ParsedName::OfZone
            | ParsedName::Branch(_)
            | ParsedName::Address(_) => {}
            ParsedName::Object(_) => {
                let text = "names of pods are ADDRESS.NAMESPACE.pod";
                reasons.push(Reason::new("not-of-the-schema", text));
            }
            ParsedName::Other => {
                let text =
                    "names of the cluster are [PORT.PROTOCOL. or ENDPOINT.]SERVICE.NAMESPACE.svc";
                reasons.push(Reason::new("not-of-the-schema", text));
            }
        }
    }

    /// The name of a pod.
    fn pod(&self, key: &ObjectKey, reasons: &mut Vec<Reason>) {
        let ObjectKey { namespace, name } = key;
        if self.namespace(namespace, reasons) {
            let text = match self.plan.kinds.contains(Kind::Pod) {
                true => format!("no pod of {namespace} with the address {name} is seen"),
                false => "names of pods exist with `pods verified`, or with `pods insecure` for addresses such as 10-244-1-5"
                    .to_owned(),
            };
            reasons.push(Reason::new("no-pod", text));
        }
    }

    /// Whether a namespace is visible; adds the reason if not.
    fn namespace(&self, namespace: &str, reasons: &mut Vec<Reason>) -> bool {
        if self.plan.sees_namespace(self.state, namespace) {
            return true;
        }
        let allowed = self.plan.namespaces.as_ref();
        let is_hidden = allowed.is_some_and(|allowed| !allowed.contains(namespace));
        reasons.push(if is_hidden {
            let text = format!("`namespaces` does not name {namespace}");
            Reason::new("namespace-hidden", text)
        } else {
            let text = format!("no namespace {namespace} is seen");
            Reason::new("no-namespace", text)
        });
        false
    }

    /// A name of a Service or below it.
    fn service(&self, key: &ObjectKey, rest: Below<'_>, reasons: &mut Vec<Reason>) {
        let Some(service) = self.state.service(key) else {
            reasons.push(Reason::new(
                "no-service",
                format!("no Service {key} is seen"),
            ));
            return;
        };
        self.problems_of(Kind::Service, key, reasons);
        let slices: Vec<_> = self.state.slices_of(key).collect();
        let ready: usize = slices.iter().map(|slice| slice.endpoints.len()).sum();
        if self.plan.sees_service(self.state, key).is_none() {
            let text =
                format!("Service {key} has no ready endpoint, and `ignore empty_service` hides it");
            reasons.push(Reason::new("no-ready-endpoint", text));
            return;
        }
        let form = match &service.form {
            ServiceForm::ClusterIp(addresses) => {
                let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                format!("Service {key} has the cluster addresses {}", all.join(", "))
            }
            ServiceForm::Headless if ready == 0 => {
                let text = format!(
                    "Service {key} is headless, and its EndpointSlices ({}) have no ready endpoint",
                    slices.len()
                );
                return reasons.push(Reason::new("no-ready-endpoint", text));
            }
            ServiceForm::Headless => {
                format!("Service {key} is headless with {ready} ready endpoints")
            }
            ServiceForm::ExternalName(host) => {
                format!("Service {key} is an alias of \"{host}\"")
            }
            ServiceForm::Pending => {
                let text = format!("Service {key} has no address yet");
                return reasons.push(Reason::new("no-address", text));
            }
        };
        reasons.push(Reason::new("service", form));
        below(service, rest, reasons);
    }

    /// The problems of an object.
    fn problems_of(&self, kind: Kind, key: &ObjectKey, reasons: &mut Vec<Reason>) {
        let key = key.clone();
        for problem in (self.problems)(&FactKey { kind, key }) {
            reasons.push(Reason::new("refused-content", problem.to_string()));
        }
    }

    /// A name of a reverse zone.
    fn reverse(&self, address: IpAddr, reasons: &mut Vec<Reason>) {
        let holders = self.state.holders(address);
        if holders.is_empty() {
            let text =
                format!("no Service and no named endpoint with the address {address} is seen");
            reasons.push(Reason::new("no-holder", text));
        }
        for key in holders {
            if self.namespace(&key.namespace, reasons) {
                self.service(key, Below::Nothing, reasons);
            }
        }
    }

    /// A name of a set of clusters.
    fn clusterset(&self, name: &ParsedName<'_>, reasons: &mut Vec<Reason>) {
        if !self.state.has_imports() {
            let text = "ServiceImports were not listed in this run yet";
            reasons.push(Reason::new("not-synced", text));
        }
        let ParsedName::Object(import) = name else {
            return;
        };
        let key = import.key();
        if import.branch != Branch::Services || !self.namespace(&key.namespace, reasons) {
            return;
        }
        self.problems_of(Kind::ServiceImport, &key, reasons);
        let text = match self.state.import(&key) {
            None => format!("no ServiceImport {key} is seen"),
            Some(_) => {
                let slices = self.state.slices_of_import(&key);
                let ready: usize = slices.map(|slice| slice.endpoints.len()).sum();
                format!("ServiceImport {key} has {ready} ready endpoints")
            }
        };
        reasons.push(Reason::new("import", text));
    }

    /// A name of an external zone.
    fn external(&self, name: &ParsedName<'_>, reasons: &mut Vec<Reason>) {
        let ParsedName::Object(service) = name else {
            return;
        };
        let key = service.key();
        if !self.namespace(&key.namespace, reasons) {
            return;
        }
        self.problems_of(Kind::Service, &key, reasons);
        let (code, text) = match self.state.service(&key) {
            None => ("no-service", format!("no Service {key} is seen")),
            Some(service) if service.external.is_none() => (
                "no-address",
                format!("Service {key} has no address outside the cluster"),
            ),
            Some(_) => ("service", format!("Service {key} has an outer address")),
        };
        reasons.push(Reason::new(code, text));
    }

    /// A name of an external reverse zone.
    fn outer(&self, address: IpAddr, reasons: &mut Vec<Reason>) {
        if self.state.outer_holders(address).is_empty() {
            let text = format!("no Service with the outer address {address} is seen");
            reasons.push(Reason::new("no-holder", text));
        }
    }
}

/// A name below a Service's: a port, or an endpoint.
fn below(service: &Service, below: Below<'_>, reasons: &mut Vec<Reason>) {
    let key = &service.key;
    let endpoint = match below {
        Below::Nothing => return,
        Below::Protocol(_) | Below::Port { .. } | Below::Topology { zone: [], .. } => {
            let named = service.ports.iter().filter(|port| !port.name.is_empty());
            let ports: Vec<String> = named
                .map(|port| format!("_{}.{}", port.name, port.protocol.label()))
                .collect();
            let text = match ports.is_empty() {
                true => format!("Service {key} has no port with a name"),
                false => format!("Service {key} has the ports {}", ports.join(", ")),
            };
            return reasons.push(Reason::new("ports", text));
        }
        Below::Topology { .. } => TOPOLOGY.as_bytes(),
        Below::Endpoint(label)
        | Below::ClusterEndpoint { cluster: label, .. }
        | Below::BarePort {
            protocol: label, ..
        }
        | Below::Other(label) => label,
    };
    let endpoint = String::from_utf8_lossy(endpoint);
    let text = format!(
        "below a headless Service are its ready endpoints, by host name or address; {key} has none with the name {endpoint}"
    );
    reasons.push(Reason::new("endpoint-name", text));
}
