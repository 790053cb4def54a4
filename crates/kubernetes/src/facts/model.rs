//! The facts: the parts that are kept of a Service, an EndpointSlice, a Namespace and so on.
//!
//! A fact holds everything that a record can depend on, plus its [`Origin`] (uid, resourceVersion, manager or file
//! and line) for the history. Two facts are equal for the schema when they differ only in their origin (`State`
//! compares so). Both sources create facts only through `source::convert`.

use std::net::IpAddr;
use std::sync::Arc;

use provenance::{FactKey, Kind, ObjectKey, Origin};
use serde::{Deserialize, Serialize};

use crate::facts::Endpoint;

/// TCP, UDP or SCTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Protocol {
    /// `TCP`, the default of the API.
    Tcp,
    /// `UDP`.
    Udp,
    /// `SCTP`.
    Sctp,
}

/// A port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Port {
    /// The port's name; empty for an unnamed port.
    pub name: Arc<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The port number as clients use it (`port`, not `targetPort` or `nodePort`).
    pub number: u16,
}

/// The form of a Service, as far as it matters for DNS.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ServiceForm {
    /// ClusterIP, NodePort or LoadBalancer with these cluster addresses (never empty).
    ClusterIp(Arc<[IpAddr]>),
    /// `clusterIP: None`: the Service's name has the addresses of its endpoints.
    Headless,
    /// `type: ExternalName`: an alias of this host, spelled as in the object; empty if the object names none.
    ExternalName(Arc<str>),
    /// A Service without an address yet.
    Pending,
}

/// The addresses and host names by which a Service is reached from outside its cluster; at least one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct External {
    /// The addresses of its load balancers, sorted, each once.
    pub addresses: Arc<[IpAddr]>,
    /// `spec.externalIPs` that are not among these, sorted, each once: whoever may write the Service chooses them.
    pub external_ips: Arc<[IpAddr]>,
    /// The host names of its load balancers, spelled as in the object, sorted, each once.
    pub hosts: Arc<[Arc<str>]>,
}

impl External {
    /// All addresses.
    pub fn all_addresses(&self) -> impl Iterator<Item = IpAddr> + Clone {
        self.addresses
            .iter()
            .chain(self.external_ips.iter())
            .copied()
    }
}

/// A Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Service {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Its form.
    pub form: ServiceForm,
    /// `spec.ports`, in the object's order.
    pub ports: Arc<[Port]>,
    /// Its external addresses and host names; most Services have none.
    pub external: Option<Arc<External>>,
    /// `metadata.creationTimestamp`, seconds since 1970 UTC; 0 when unknown.
    pub created_s: u64,
    /// The source of the fact.
    pub origin: Origin,
}

/// `addressType` of an EndpointSlice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SliceForm {
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Host names.
    Fqdn,
}

/// A port of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlicePort {
    /// The port's name; empty for an unnamed port.
    pub name: Arc<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number; `None` means all ports, which has no SRV.
    pub number: Option<u16>,
}

/// The ServiceImport that a slice belongs to, and the cluster that it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImportOfSlice {
    /// Name of the import, by label `multicluster.kubernetes.io/service-name`.
    pub service: Arc<str>,
    /// Id of the cluster, by label `multicluster.kubernetes.io/source-cluster`; empty without it.
    pub cluster: Arc<str>,
}

/// The form of a ServiceImport.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImportForm {
    /// `ClusterSetIP` with its addresses; empty until addresses are assigned.
    ClusterSetIp(Arc<[IpAddr]>),
    /// `Headless`: the import's name has the addresses of its endpoints.
    Headless,
}

/// A ServiceImport: a Service of a set of clusters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ServiceImport {
    /// Namespace and name.
    pub key: ObjectKey,
    /// Addresses, or headless.
    pub form: ImportForm,
    /// `spec.ports`, in the object's order.
    pub ports: Arc<[Port]>,
    /// `metadata.creationTimestamp`, seconds since 1970 UTC; 0 when unknown.
    pub created_s: u64,
    /// The source of the fact.
    pub origin: Origin,
}

/// An EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct EndpointSlice {
    /// Namespace and name of the slice.
    pub key: ObjectKey,
    /// Name of its Service, by label `kubernetes.io/service-name`; `None` without the label.
    pub service: Option<Arc<str>>,
    /// The ServiceImport that it belongs to; most slices have none.
    pub import: Option<Arc<ImportOfSlice>>,
    /// The type of its addresses.
    pub form: SliceForm,
    /// Its ports, in the object's order.
    pub ports: Arc<[SlicePort]>,
    /// Its ready endpoints, in the object's order.
    pub endpoints: Arc<[Endpoint]>,
    /// `metadata.creationTimestamp`, seconds since 1970 UTC; 0 when unknown.
    pub created_s: u64,
    /// The source of the fact.
    pub origin: Origin,
}

/// A Namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Namespace {
    /// Its name (`key.namespace` is empty).
    pub key: ObjectKey,
    /// The source of the fact.
    pub origin: Origin,
}

/// An address in a namespace: what the name of a pod says.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodAddress {
    /// The namespace.
    pub namespace: Arc<str>,
    /// The address.
    pub address: IpAddr,
}

/// Labels of a pod: keys and values, sorted by key.
pub type PodLabels = Arc<[(Arc<str>, Arc<str>)]>;

/// A Pod that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pod {
    /// Namespace and name.
    pub key: ObjectKey,
    /// `status.podIP` and `status.podIPs`, each once; empty until the pod has one.
    pub addresses: Arc<[IpAddr]>,
    /// The labels that the configuration needs; `None` when it needs none, or the pod has none of them.
    pub labels: Option<PodLabels>,
    /// The source of the fact.
    pub origin: Origin,
}

/// One object's fact.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Fact {
    /// A Namespace.
    Namespace(Namespace),
    /// A Service.
    Service(Service),
    /// An EndpointSlice.
    EndpointSlice(EndpointSlice),
    /// A Pod.
    Pod(Pod),
    /// A ServiceImport.
    ServiceImport(ServiceImport),
}

impl Fact {
    /// The kind of the object.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Namespace(_) => Kind::Namespace,
            Self::Service(_) => Kind::Service,
            Self::EndpointSlice(_) => Kind::EndpointSlice,
            Self::Pod(_) => Kind::Pod,
            Self::ServiceImport(_) => Kind::ServiceImport,
        }
    }

    /// Namespace and name of the object.
    #[must_use]
    pub const fn key(&self) -> &ObjectKey {
        match self {
            Self::Namespace(namespace) => &namespace.key,
            Self::Service(service) => &service.key,
            Self::EndpointSlice(slice) => &slice.key,
            Self::Pod(pod) => &pod.key,
            Self::ServiceImport(import) => &import.key,
        }
    }

    /// The origin of the fact.
    #[must_use]
    pub const fn origin(&self) -> &Origin {
        match self {
            Self::Namespace(namespace) => &namespace.origin,
            Self::Service(service) => &service.origin,
            Self::EndpointSlice(slice) => &slice.origin,
            Self::Pod(pod) => &pod.origin,
            Self::ServiceImport(import) => &import.origin,
        }
    }
}

/// A change reported by a source. Lists are complete: one that was cut off is never sent.
#[derive(Debug, Clone)]
pub enum Change {
    /// The object is new or changed.
    Applied(Fact),
    /// The object was deleted. The origin is that of the deletion event, or else the last one seen.
    Deleted(FactKey, Origin),
    /// The complete list of a kind: other objects of the kind no longer exist.
    Listed(Kind, Vec<Fact>),
}
