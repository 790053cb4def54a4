//! Converts objects to facts: pure, and the same for every source.
//!
//! Invalid parts of an object are left out of its fact and reported. An unreadable object gives no fact. The rules
//! are those of the Kubernetes API, except:
//!
//! - `clusterIP: None` makes a Service headless whatever its `type`.
//! - An IPv4-mapped IPv6 address is invalid, and so is one of another family than the slice's.
//! - An `externalName` that is an IP address has no record.
//! - Names are folded to lower case, because DNS cannot distinguish them; the API has none in upper case.

mod external;
mod field;
mod import;
mod labels;
mod pod;
mod slice;

pub use labels::is_selected;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::SystemTime;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use self::field::{address, folded, slice_form};
use super::intern::Interner;
use super::objects::{
    Head, ImportObject, Metadata, NamespaceObject, Number, PodObject, PortObject, ServiceObject,
    ServiceSpec, SliceObject,
};
use super::problem::{About, Problem};
use super::wanted::Keep;
use crate::facts::{
    EndpointSlice, External, Fact, ImportOfSlice, Namespace, Port, Protocol, Service, ServiceForm,
    SlicePort,
};
use provenance::{FactKey, Kind, ObjectKey, Origin};

/// An object before it is read.
#[derive(Debug, Clone, Copy)]
pub enum Object<'a> {
    /// JSON text.
    Json(&'a RawValue),
    /// A value, from YAML.
    Value(&'a Value),
}

impl Object<'_> {
    /// Reads the object as `T`.
    fn read<T: DeserializeOwned>(self) -> Result<T, String> {
        let read = match self {
            Self::Json(text) => serde_json::from_str(text.get()),
            Self::Value(value) => T::deserialize(value),
        };
        read.map_err(|error| error.to_string())
    }
}

/// Context for reading an object.
#[derive(Debug, Clone)]
pub struct Setting {
    /// `FILE:LINE` of a manifest; empty for an API server.
    pub place: Arc<str>,
    /// The namespace of objects that name none; `None` when every object must name one.
    pub default_namespace: Option<Arc<str>>,
    /// The optional fields that are kept.
    pub keep: Keep,
    /// Whether the object comes into view, so that its labels may be what was changed.
    pub is_added: bool,
}

impl Setting {
    /// The context of an API server.
    #[must_use]
    pub fn api_server(keep: Keep) -> Self {
        Self {
            place: "".into(),
            default_namespace: None,
            keep,
            is_added: false,
        }
    }

    /// The context of a manifest. Objects without a namespace are in `default`, as with kubectl.
    #[must_use]
    pub fn manifest(place: Arc<str>, keep: Keep, interner: &mut Interner) -> Self {
        Self {
            place,
            default_namespace: Some(interner.get("default")),
            keep,
            is_added: false,
        }
    }
}

/// The result of reading an object.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The object's key; `None` when even that is unreadable.
    pub key: Option<FactKey>,
    /// The source of the object.
    pub origin: Origin,
    /// The fact; `None` when the whole object is left out. Without a problem, the object has ended: a finished Pod.
    pub fact: Option<Fact>,
    /// The time of the change behind a slice, if the cluster gives it.
    pub triggered: Option<SystemTime>,
    /// The parts that were left out, with reasons.
    pub problems: Vec<Problem>,
}

/// Reads an object of a kind.
#[must_use]
pub fn read(kind: Kind, object: Object<'_>, setting: &Setting, interner: &mut Interner) -> Reading {
    let mut reader = Reader {
        kind,
        setting,
        interner,
        complaints: Vec::new(),
    };
    let (named, fact) = match reader.whole(object) {
        Ok((named, fact)) => (Some(named), fact),
        Err(complaint) => {
            // The name may be readable even if the rest is not.
            let named = object
                .read::<Head>()
                .ok()
                .and_then(|head| reader.named(head.metadata).ok());
            reader
                .complaints
                .insert(0, format!("left out: {complaint}"));
            (named, None)
        }
    };
    let complaints = std::mem::take(&mut reader.complaints);
    let triggered = named.as_ref().and_then(|named| named.triggered);
    let (key, origin) = match named {
        Some(named) => (
            Some(FactKey {
                kind,
                key: named.key,
            }),
            named.origin,
        ),
        None => (
            None,
            Origin {
                place: Arc::clone(&setting.place),
                ..Origin::default()
            },
        ),
    };
    let about = match &key {
        Some(key) => About::Object(key.clone()),
        None => About::SomeObject(kind),
    };
    let problem = |message| Problem {
        about: about.clone(),
        place: Arc::clone(&setting.place),
        message,
    };
    let problems = complaints.into_iter().map(problem).collect();
    Reading {
        key,
        origin,
        fact,
        triggered,
        problems,
    }
}

/// An object's key, origin and metadata.
struct Named {
    key: ObjectKey,
    /// When it was created, seconds since 1970 UTC; 0 when unknown.
    created_s: u64,
    origin: Origin,
    /// The Service of a slice, by label.
    service: Option<Arc<str>>,
    /// The ServiceImport of a slice, by label.
    import: Option<Arc<ImportOfSlice>>,
    /// The time of the change behind a slice, by annotation.
    triggered: Option<SystemTime>,
}

struct Reader<'a> {
    kind: Kind,
    setting: &'a Setting,
    interner: &'a mut Interner,
    /// The parts that were left out.
    complaints: Vec<String>,
}

impl Reader<'_> {
    /// Reads the whole object.
    fn whole(&mut self, object: Object<'_>) -> Result<(Named, Option<Fact>), String> {
        match self.kind {
            Kind::Namespace => {
                let read: NamespaceObject = object.read()?;
                let named = self.named(read.metadata)?;
                let (key, origin) = (named.key.clone(), named.origin.clone());
                Ok((named, Some(Fact::Namespace(Namespace { key, origin }))))
            }
            Kind::Service => {
                let read: ServiceObject = object.read()?;
                let named = self.named(read.metadata)?;
                let external = self.external(read.spec.as_ref(), read.status);
                let fact = self.service(&named, read.spec.unwrap_or_default(), external);
                Ok((named, Some(Fact::Service(fact))))
            }
            Kind::EndpointSlice => {
                let read: SliceObject = object.read()?;
                let SliceObject {
                    metadata,
                    address_type,
                    ports,
                    endpoints,
                } = read;
                let named = self.named(metadata)?;
                let form = slice_form(address_type.as_deref())?;
                let ports = self.slice_ports(ports.unwrap_or_default());
                let endpoints = self.endpoints(form, endpoints.unwrap_or_default());
                let (key, origin) = (named.key.clone(), named.origin.clone());
                let (service, import) = (named.service.clone(), named.import.clone());
                let fact = EndpointSlice {
                    key,
                    service,
                    import,
                    form,
                    ports,
                    endpoints,
                    created_s: named.created_s,
                    origin,
                };
                Ok((named, Some(Fact::EndpointSlice(fact))))
            }
            Kind::ServiceImport => {
                let read: ImportObject = object.read()?;
                let named = self.named(read.metadata)?;
                let fact = self.import(&named, read.spec.unwrap_or_default())?;
                Ok((named, Some(Fact::ServiceImport(fact))))
            }
            Kind::Pod => {
                let read: PodObject = object.read()?;
                let named = self.named(read.metadata)?;
                let labels = self.pod_labels(object);
                let fact = self.pod(&named, labels, read.status.unwrap_or_default());
                Ok((named, fact.map(Fact::Pod)))
            }
        }
    }

    /// Reports a part that is left out.
    fn complain(&mut self, complaint: String) {
        self.complaints.push(complaint);
    }

    fn named(&mut self, metadata: Option<Metadata>) -> Result<Named, String> {
        let mut metadata = metadata.unwrap_or_default();
        let name = folded(metadata.name).ok_or("it has no metadata.name")?;
        let key = match self.kind {
            Kind::Namespace => ObjectKey {
                namespace: self.interner.get(""),
                name: self.interner.get(&name),
            },
            Kind::Service | Kind::EndpointSlice | Kind::Pod | Kind::ServiceImport => {
                let namespace = match (folded(metadata.namespace), &self.setting.default_namespace)
                {
                    (Some(namespace), _) => self.interner.get(&namespace),
                    (None, Some(namespace)) => Arc::clone(namespace),
                    (None, None) => return Err("it has no metadata.namespace".to_owned()),
                };
                ObjectKey {
                    namespace,
                    name: name.as_str().into(),
                }
            }
        };
        let version = metadata.resource_version.unwrap_or_default();
        let own = metadata.managed_fields;
        let with_labels = own.with_labels.filter(|_| self.setting.is_added);
        let (manager, operation) = match with_labels {
            Some(other) => (other.name, other.operation),
            None => (own.name, own.operation),
        };
        let origin = Origin {
            uid: self.unshared(&metadata.uid.unwrap_or_default()),
            resource_version: self.unshared(&version),
            manager: self.interner.get(&manager.unwrap_or_default()),
            operation: self.interner.get(&operation.unwrap_or_default()),
            place: Arc::clone(&self.setting.place),
        };
        let import = self.import_of_slice(&mut metadata.labels);
        let service = folded(metadata.labels.service_name).map(|name| self.interner.get(&name));
        let triggered = self.triggered(metadata.annotations);
        // What is not a time as in RFC 3339, the API server's form, is unknown.
        let created = metadata.creation_timestamp.unwrap_or_default();
        let created: Option<Timestamp> = created.parse().ok();
        let created_s = created.and_then(|at| u64::try_from(at.as_second()).ok());
        Ok(Named {
            key,
            created_s: created_s.unwrap_or_default(),
            origin,
            service,
            import,
            triggered,
        })
    }

    /// An unshared string; all empty strings are one.
    fn unshared(&mut self, text: &str) -> Arc<str> {
        if text.is_empty() {
            self.interner.get("")
        } else {
            text.into()
        }
    }

    fn service(
        &mut self,
        named: &Named,
        spec: ServiceSpec,
        external: Option<Arc<External>>,
    ) -> Service {
        let ServiceSpec {
            form,
            cluster_ip,
            cluster_ips,
            external_name,
            external_ips: _,
            ports,
        } = spec;
        let addresses = match cluster_ips {
            Some(list) if !list.is_empty() => list,
            Some(_) | None => cluster_ip.into_iter().collect(),
        };
        let form = if addresses.first().is_some_and(|first| first == "None") {
            ServiceForm::Headless
        } else if form.as_deref() == Some("ExternalName") {
            self.external_name(external_name.unwrap_or_default())
        } else {
            self.cluster_addresses(&addresses)
        };
        Service {
            key: named.key.clone(),
            form,
            ports: self.service_ports(ports.unwrap_or_default()),
            external,
            created_s: named.created_s,
            origin: named.origin.clone(),
        }
    }

    /// The form of an ExternalName Service.
    fn external_name(&mut self, host: String) -> ServiceForm {
        let bare = host.strip_suffix('.').unwrap_or(&host);
        if bare.is_empty() {
            self.complain(
                "ExternalName without a host name in externalName: it has no record".into(),
            );
            return ServiceForm::ExternalName(self.unshared(""));
        }
        if bare.parse::<IpAddr>().is_ok() {
            self.complain(format!(
                "externalName {host} is an IP address, not a host name: it has no record"
            ));
            return ServiceForm::ExternalName(self.unshared(""));
        }
        ServiceForm::ExternalName(host.into())
    }

    /// The form of a Service with these `clusterIPs`.
    fn cluster_addresses(&mut self, texts: &[String]) -> ServiceForm {
        let mut addresses = Vec::with_capacity(texts.len());
        for text in texts.iter().filter(|text| !text.is_empty()) {
            match address(text) {
                Ok(address) => addresses.push(address),
                Err(why) => self.complain(format!("clusterIP {text:?} left out: {why}")),
            }
        }
        if addresses.is_empty() {
            ServiceForm::Pending
        } else {
            ServiceForm::ClusterIp(addresses.into())
        }
    }

    /// The ports of a Service.
    fn service_ports(&mut self, ports: Vec<PortObject>) -> Arc<[Port]> {
        let mut kept = Vec::with_capacity(ports.len());
        for port in ports {
            let Some((name, protocol, number)) = self.port(port) else {
                continue;
            };
            match number {
                Some(number) => kept.push(Port {
                    name,
                    protocol,
                    number,
                }),
                None => self.complain(format!("port {name:?} left out: it has no number")),
            }
        }
        kept.into()
    }

    /// The ports of a slice.
    fn slice_ports(&mut self, ports: Vec<PortObject>) -> Arc<[SlicePort]> {
        let mut kept = Vec::with_capacity(ports.len());
        for port in ports {
            if let Some((name, protocol, number)) = self.port(port) {
                kept.push(SlicePort {
                    name,
                    protocol,
                    number,
                });
            }
        }
        kept.into()
    }

    /// Name, protocol and number of a port, unless it is left out.
    fn port(&mut self, port: PortObject) -> Option<(Arc<str>, Protocol, Option<u16>)> {
        let PortObject {
            name,
            protocol,
            port: number,
        } = port;
        let name = self.interner.get(&name.unwrap_or_default());
        let protocol = match protocol.as_deref() {
            None | Some("" | "TCP") => Protocol::Tcp,
            Some("UDP") => Protocol::Udp,
            Some("SCTP") => Protocol::Sctp,
            Some(other) => {
                self.complain(format!(
                    "port {name:?} left out: unknown protocol {other:?}"
                ));
                return None;
            }
        };
        let number = match number {
            None => None,
            Some(Number::Whole(whole)) => match u16::try_from(whole) {
                Ok(number) if number > 0 => Some(number),
                Ok(_) | Err(_) => {
                    self.complain(format!(
                        "port {name:?} left out: {whole} is not in 1 to 65535"
                    ));
                    return None;
                }
            },
            Some(Number::Other(text)) => {
                self.complain(format!("port {name:?} left out: {text} is not a number"));
                return None;
            }
        };
        Some((name, protocol, number))
    }
}

#[cfg(test)]
mod tests;
