//! Objects of the API, reduced to the fields that a record can depend on.
//!
//! The same structs read JSON (API server, `.json` files) and values of YAML files. Everything is optional, `null` is
//! the same as absent, and unknown fields are skipped without being stored. Numbers of the wrong type are accepted
//! here, so that one bad port does not make the whole object unreadable.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};

use super::managed::LastManager;

/// The label that names the Service of a slice.
const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// The label that names the ServiceImport of a slice (KEP-1645).
const IMPORT_NAME_LABEL: &str = "multicluster.kubernetes.io/service-name";
/// The label that names the cluster that a slice comes from (KEP-1645).
const SOURCE_CLUSTER_LABEL: &str = "multicluster.kubernetes.io/source-cluster";
/// The annotation with the time of the change behind a slice.
pub(super) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    pub(super) name: Option<String>,
    pub(super) namespace: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) creation_timestamp: Option<String>,
    /// `labels`, of which only some are kept.
    #[serde(default)]
    pub(super) labels: Labels,
    /// `annotations`, of which one is kept.
    #[serde(default)]
    pub(super) annotations: Annotations,
    /// `managedFields`, of which one manager is kept.
    #[serde(default)]
    pub(super) managed_fields: LastManager,
}

/// The metadata of any object, also of one that cannot be read otherwise.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Head {
    pub(super) metadata: Option<Metadata>,
}

#[derive(Debug, Default)]
pub(super) struct Labels {
    /// `kubernetes.io/service-name`.
    pub(super) service_name: Option<String>,
    /// `multicluster.kubernetes.io/service-name`.
    pub(super) import_name: Option<String>,
    /// `multicluster.kubernetes.io/source-cluster`.
    pub(super) source_cluster: Option<String>,
}

impl Picked for Labels {
    fn place(&mut self, key: &str) -> Option<&mut Option<String>> {
        match key {
            SERVICE_NAME_LABEL => Some(&mut self.service_name),
            IMPORT_NAME_LABEL => Some(&mut self.import_name),
            SOURCE_CLUSTER_LABEL => Some(&mut self.source_cluster),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Picker(PhantomData))
    }
}

#[derive(Debug, Default)]
pub(super) struct Annotations {
    /// [`TRIGGER_TIME`].
    pub(super) triggered: Option<String>,
}

impl Picked for Annotations {
    fn place(&mut self, key: &str) -> Option<&mut Option<String>> {
        (key == TRIGGER_TIME).then_some(&mut self.triggered)
    }
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Picker(PhantomData))
    }
}

/// Selected entries of a map of texts.
trait Picked: Default {
    /// The field for the text of a key, if the key is selected.
    fn place(&mut self, key: &str) -> Option<&mut Option<String>>;
}

/// Reads a map key by key and stores the selected entries.
struct Picker<T>(PhantomData<T>);

impl<'de, T: Picked> Visitor<'de> for Picker<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of texts")
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut picked = T::default();
        while let Some(key) = map.next_key::<String>()? {
            match picked.place(&key) {
                Some(place) => *place = map.next_value()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(picked)
    }
}

/// The labels of any object.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Labelled {
    #[serde(default)]
    pub(super) metadata: Option<AllLabels>,
}

/// `metadata`, reduced to the labels.
#[derive(Debug, Default, Deserialize)]
pub(super) struct AllLabels {
    #[serde(default)]
    pub(super) labels: Option<BTreeMap<String, Option<String>>>,
}

/// A number, or another value in its place.
#[derive(Debug)]
pub(super) enum Number {
    Whole(i64),
    Other(String),
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer).map_err(D::Error::custom)?;
        let other = || Self::Other(value.to_string());
        Ok(value.as_i64().map_or_else(other, Self::Whole))
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct NamespaceObject {
    /// `metadata`.
    pub(super) metadata: Option<Metadata>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ServiceObject {
    /// `metadata`.
    pub(super) metadata: Option<Metadata>,
    /// `spec`.
    pub(super) spec: Option<ServiceSpec>,
    /// `status`.
    pub(super) status: Option<ServiceStatus>,
}

/// `status` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceStatus {
    /// `loadBalancer`.
    pub(super) load_balancer: Option<LoadBalancerObject>,
}

/// `status.loadBalancer` of a Service.
#[derive(Debug, Default, Deserialize)]
pub(super) struct LoadBalancerObject {
    /// `ingress`.
    pub(super) ingress: Option<Vec<IngressObject>>,
}

/// A point at which a load balancer accepts traffic for a Service.
#[derive(Debug, Deserialize)]
pub(super) struct IngressObject {
    /// `ip`.
    pub(super) ip: Option<String>,
    /// `hostname`.
    pub(super) hostname: Option<String>,
}

/// `spec` of a Service.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ServiceSpec {
    /// `type`.
    #[serde(rename = "type")]
    pub(super) form: Option<String>,
    /// `clusterIP`.
    #[serde(rename = "clusterIP")]
    pub(super) cluster_ip: Option<String>,
    /// `clusterIPs`.
    #[serde(rename = "clusterIPs")]
    pub(super) cluster_ips: Option<Vec<String>>,
    /// `externalName`.
    pub(super) external_name: Option<String>,
    /// `externalIPs`.
    #[serde(rename = "externalIPs")]
    pub(super) external_ips: Option<Vec<String>>,
    /// `ports`.
    pub(super) ports: Option<Vec<PortObject>>,
}

/// A port of a Service or of a slice.
#[derive(Debug, Deserialize)]
pub(super) struct PortObject {
    /// `name`.
    pub(super) name: Option<String>,
    /// `protocol`.
    pub(super) protocol: Option<String>,
    /// `port`.
    pub(super) port: Option<Number>,
}

/// A ServiceImport, of either version: they have one shape.
#[derive(Debug, Deserialize)]
pub(super) struct ImportObject {
    /// `metadata`.
    pub(super) metadata: Option<Metadata>,
    /// `spec`.
    pub(super) spec: Option<ImportSpec>,
}

/// `spec` of a ServiceImport.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ImportSpec {
    /// `type`.
    #[serde(rename = "type")]
    pub(super) form: Option<String>,
    /// `ips`.
    pub(super) ips: Option<Vec<String>>,
    /// `ports`.
    pub(super) ports: Option<Vec<PortObject>>,
}

#[derive(Debug, Deserialize)]
pub(super) struct PodObject {
    /// `metadata`.
    pub(super) metadata: Option<Metadata>,
    /// `status`.
    pub(super) status: Option<PodStatus>,
}

/// `status` of a Pod.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodStatus {
    /// `phase`.
    pub(super) phase: Option<String>,
    /// `podIP`.
    #[serde(rename = "podIP")]
    pub(super) pod_ip: Option<String>,
    /// `podIPs`.
    #[serde(rename = "podIPs")]
    pub(super) pod_ips: Option<Vec<PodIp>>,
}

/// An entry of `podIPs`.
#[derive(Debug, Deserialize)]
pub(super) struct PodIp {
    /// `ip`.
    pub(super) ip: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SliceObject {
    /// `metadata`.
    pub(super) metadata: Option<Metadata>,
    /// `addressType`.
    pub(super) address_type: Option<String>,
    /// `ports`.
    pub(super) ports: Option<Vec<PortObject>>,
    /// `endpoints`.
    pub(super) endpoints: Option<Vec<EndpointObject>>,
}

/// An endpoint of a slice.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EndpointObject {
    /// `addresses`.
    pub(super) addresses: Option<Vec<String>>,
    /// `conditions`.
    pub(super) conditions: Option<Conditions>,
    /// `hostname`.
    pub(super) hostname: Option<String>,
    /// `targetRef`, of which the name counts, whatever it names: so it is in CoreDNS.
    pub(super) target_ref: Option<TargetRef>,
    /// `zone`.
    pub(super) zone: Option<String>,
}

/// `conditions` of an endpoint.
#[derive(Debug, Deserialize)]
pub(super) struct Conditions {
    /// `ready`.
    pub(super) ready: Option<bool>,
}

/// `targetRef` of an endpoint.
#[derive(Debug, Deserialize)]
pub(super) struct TargetRef {
    /// `name`.
    pub(super) name: Option<String>,
}
