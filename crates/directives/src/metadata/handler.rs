//! `metadata`: finds labels for a query before it is answered.
//!
//! The labels are CoreDNS's:
//!
//! - For names in the cluster's zones: `kubernetes/kind`, `/namespace`, `/service`, `/endpoint`, `/port-name`,
//!   `/protocol`, `/zone` (with `zonal`) and `/cluster` (in zones of ServiceImports), or `/parse-error`.
//! - For the client's pod, whatever the name: `kubernetes/client-namespace`, `/client-pod-name` and
//!   `/client-label/KEY`, for each KEY that the Corefile names.
//! - `forward` adds `forward/upstream`, and the log `log/class` and `log/type`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use dns::{Name, WireText};
use futures_util::future::BoxFuture;
use kubernetes::facts::ClientPods;
use kubernetes::schema::{
    Below, Branch, ParsedName, TOPOLOGY, ZoneForm, parse_name, topology_text,
};
use server::chain::{Handler, Next};
use server::message::{Outcome, Question, Request};

use crate::acl::handler::closest;
use crate::config::block::ServerBlock;
use crate::handlers::chain::Context;
use crate::kubernetes::Kubernetes;
use crate::metadata::{CLIENT_LABEL, Metadata};

/// Labels of metadata and their values.
type Labels = BTreeMap<Cow<'static, str>, String>;

/// The source of labels about a cluster.
#[derive(Debug)]
struct Cluster {
    /// Its zones.
    zones: Vec<Name>,
    /// The zones among them that hold ServiceImports.
    clusterset: Vec<Name>,
    /// Whether endpoints have names by topology zone.
    is_zonal: bool,
    /// The client pods, if they are known.
    clients: Option<Arc<ClientPods>>,
}

#[derive(Debug)]
pub(crate) struct MetadataHandler {
    metadata: Metadata,
    cluster: Option<Cluster>,
}

impl MetadataHandler {
    pub(crate) fn new(metadata: Metadata, block: &ServerBlock, context: &Context<'_>) -> Self {
        let cluster = |kubernetes: &Kubernetes| Cluster {
            zones: kubernetes.zones().cloned().collect(),
            clusterset: kubernetes.clusterset_zones.clone(),
            is_zonal: kubernetes.options.zonal,
            clients: context.clients.clone(),
        };
        let cluster = block.get().map(cluster);
        Self { metadata, cluster }
    }
}

impl Cluster {
    /// Adds the labels that the cluster has for a request.
    fn collect(&self, request: &Request, labels: &mut Labels) {
        let client = request.origin.client.ip();
        if let Some(pod) = self.clients.as_ref().and_then(|all| all.get(client)) {
            let namespace = pod.namespace.to_string();
            labels.insert("kubernetes/client-namespace".into(), namespace);
            labels.insert("kubernetes/client-pod-name".into(), pod.name.to_string());
            for (key, value) in pod.labels.iter().flat_map(|labels| labels.iter()) {
                labels.insert(format!("{CLIENT_LABEL}{key}").into(), value.to_string());
            }
        }
        let lower = request.name.to_lower();
        let Some(zone) = closest(&self.zones, lower.as_wire()) else {
            return;
        };
        let form = match self.clusterset.contains(zone) {
            true => ZoneForm::Clusterset,
            false => ZoneForm::Forward,
        };
        match parts_of(
            form,
            &parse_name(form, zone, lower.as_wire()),
            self.is_zonal,
        ) {
            None => {
                let error = "invalid query name".to_owned();
                labels.insert("kubernetes/parse-error".into(), error);
            }
            Some(parts) => labels.extend(parts),
        }
    }
}

fn text_of(label: &[u8]) -> String {
    let length = u8::try_from(label.len()).unwrap_or(u8::MAX);
    let wire = [&[length], label, &[0]].concat();
    let mut text = WireText(&wire).to_string();
    text.pop();
    text
}

/// The labels of a name; `None` when it is not a name of a cluster.
fn parts_of(form: ZoneForm, name: &ParsedName<'_>, is_zonal: bool) -> Option<Labels> {
    const NONE: &[u8] = &[];
    let (branch, namespace, service, below) = match *name {
        // The apex of the zone and of its branches have no labels.
        ParsedName::Apex | ParsedName::Branch(_) => (None, NONE, NONE, Below::Nothing),
        ParsedName::Namespace { branch, namespace } => {
            (Some(branch), namespace, NONE, Below::Nothing)
        }
        ParsedName::Object(it) => (Some(it.branch), it.namespace, it.name, it.below),
        ParsedName::OfZone | ParsedName::Address(_) | ParsedName::Other => return None,
    };
    let [mut port, mut protocol, mut endpoint, mut cluster] = [NONE; 4];
    let mut topology = String::new();
    match below {
        Below::Nothing => {}
        Below::Endpoint(label) | Below::Protocol(label) => endpoint = label,
        Below::ClusterEndpoint {
            cluster: id,
            endpoint: label,
        } => (cluster, endpoint) = (id, label),
        Below::Port {
            port: name,
            protocol: of,
        }
        | Below::BarePort {
            port: name,
            protocol: of,
        } => {
            (port, protocol) = (name, of);
        }
        // As CoreDNS parses them.
        Below::Topology { rule: None, .. } => endpoint = TOPOLOGY.as_bytes(),
        Below::Topology {
            rule: Some(rule),
            zone: [],
        } => {
            (port, protocol) = (rule.label().as_bytes(), &TOPOLOGY.as_bytes()[1..]);
        }
        Below::Topology { zone, .. } if is_zonal => topology = topology_text(zone),
        Below::Topology { .. } | Below::Other(_) => return None,
    }
    let kind = branch.map_or("", Branch::label).to_owned();
    let mut parts = Labels::from([
        ("kubernetes/port-name".into(), text_of(port)),
        ("kubernetes/protocol".into(), text_of(protocol)),
        ("kubernetes/endpoint".into(), text_of(endpoint)),
        ("kubernetes/service".into(), text_of(service)),
        ("kubernetes/namespace".into(), text_of(namespace)),
        ("kubernetes/kind".into(), kind),
    ]);
    if form == ZoneForm::Clusterset {
        parts.insert("kubernetes/cluster".into(), text_of(cluster));
    }
    if is_zonal {
        parts.insert("kubernetes/zone".into(), topology);
    }
    Some(parts)
}

impl Handler for MetadataHandler {
    fn name(&self) -> &'static str {
        "metadata"
    }

    fn passes(&self, question: &Question<'_>) -> bool {
        closest(&self.metadata.zones, question.name).is_none()
    }

    fn answer<'a>(&'a self, request: &'a mut Request, next: Next) -> BoxFuture<'a, Outcome> {
        let lower = request.name.to_lower();
        if let (Some(cluster), Some(_)) = (
            &self.cluster,
            closest(&self.metadata.zones, lower.as_wire()),
        ) {
            let mut labels = std::mem::take(&mut request.metadata);
            cluster.collect(request, &mut labels);
            request.metadata = labels;
        }
        next.run(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubernetes::facts::{Client, PodAddress};
    use server::testing::request;

    /// The labels of a question, without `kubernetes/` and without empty ones.
    fn labels(question: &str, from: [u8; 4]) -> String {
        let name = |text: &str| text.parse::<Name>().unwrap();
        let clients = Arc::new(ClientPods::default());
        let at = PodAddress {
            namespace: "n".into(),
            address: [10, 0, 0, 1].into(),
        };
        let pod = Client {
            namespace: "n".into(),
            name: "p-0".into(),
            labels: Some([("app.example/x".into(), "web".into())].into()),
        };
        clients.publish_all([(&at, pod)].into_iter());
        let on = Cluster {
            zones: vec![name("cluster.local."), name("clusterset.local.")],
            clusterset: vec![name("clusterset.local.")],
            is_zonal: true,
            clients: Some(clients),
        };
        let mut request = request(question);
        request.origin.client = (from, 4000).into();
        let mut labels = Labels::new();
        on.collect(&request, &mut labels);
        let said = labels
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(key, value)| format!("{}={value}", key.trim_start_matches("kubernetes/")));
        said.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn s97_names_of_a_cluster_are_taken_apart_and_pods_known() {
        let (stranger, pod) = ([192, 0, 2, 1], [10, 0, 0, 1]);
        for (question, from, want) in [
            (
                "a.b.cluster.local.",
                stranger,
                "parse-error=invalid query name",
            ),
            (
                "10-0-0-1.N.Pod.cluster.local.",
                stranger,
                "kind=pod namespace=n service=10-0-0-1",
            ),
            (
                "s.n.svc.cluster.local.",
                stranger,
                "kind=svc namespace=n service=s",
            ),
            (
                "_http._tcp.s.n.svc.cluster.local.",
                stranger,
                "kind=svc namespace=n port-name=http protocol=tcp service=s",
            ),
            (
                "e.s.n.svc.cluster.local.",
                stranger,
                "endpoint=e kind=svc namespace=n service=s",
            ),
            (
                "e.c.s.n.svc.clusterset.local.",
                stranger,
                "cluster=c endpoint=e kind=svc namespace=n service=s",
            ),
            (
                "a.b.pin._zone.s.n.svc.cluster.local.",
                stranger,
                "kind=svc namespace=n service=s zone=a.b",
            ),
            (
                "a.b.c.d.s.n.svc.cluster.local.",
                stranger,
                "parse-error=invalid query name",
            ),
            ("example.org.", stranger, ""),
            (
                "example.org.",
                pod,
                "client-label/app.example/x=web client-namespace=n client-pod-name=p-0",
            ),
            (
                "svc.cluster.local.",
                pod,
                "client-label/app.example/x=web client-namespace=n client-pod-name=p-0",
            ),
        ] {
            assert_eq!(labels(question, from), want, "{question}");
        }
    }
}
