//! Finds the Services in front of this server: their endpoints are its own addresses and ports, so their names are
//! names of a name server of the zones.
//!
//! CoreDNS compares only addresses, in all namespaces. But a Service of another process on the same host shares only
//! the address and does not lead here, and whoever may write EndpointSlices can claim any address. So only Services of
//! our own namespace count, or the one that the configuration names. The names are the Service's names in the zone:
//! its own with cluster IPs, its endpoints' when it is headless.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use dns::Name;
use provenance::ObjectKey;

use crate::facts::{EndpointSlice, Protocol, Service, ServiceForm, SliceForm};
use crate::schema::{NameServer, endpoint_label, service_name};

/// The Services that may be found to be in front of this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trusted {
    /// `kube-dns` in `kube-system`, the DNS of most clusters: our own namespace is unknown.
    #[default]
    ClusterDns,
    /// Those of this namespace, which is ours.
    In(Arc<str>),
}

/// The addresses and ports of this server, and the Services that may be in front of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Front {
    /// The server's addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// The server's ports.
    pub ports: BTreeSet<u16>,
    /// The zones whose name servers are needed, by position in the plan.
    pub zones: BTreeSet<usize>,
    /// The Services that are found by address and port.
    pub trusted: Trusted,
    /// The Services that the configuration names, by the zone's position in the plan. They need no endpoint here.
    pub named: BTreeMap<usize, ObjectKey>,
}

impl Front {
    /// Whether a Service that leads to this server is in front of it.
    #[must_use]
    pub fn trusts(&self, key: &ObjectKey) -> bool {
        match &self.trusted {
            Trusted::ClusterDns => *key == ObjectKey::new("kube-system", "kube-dns"),
            Trusted::In(namespace) => key.namespace == *namespace,
        }
    }

    /// What is wrong with a Service that leads to this server, and that no zone may name.
    #[must_use]
    pub fn reproach<'a>(
        &self,
        key: &ObjectKey,
        mut slices: impl Iterator<Item = &'a EndpointSlice>,
    ) -> Option<String> {
        let is_named = self.named.values().any(|named| named == key);
        if self.zones.is_empty() || is_named || self.trusts(key) {
            return None;
        }
        let slice = slices.find(|slice| self.is_behind(slice))?;
        let whose = match &self.trusted {
            Trusted::ClusterDns => {
                "only kube-system/kube-dns is trusted while POD_NAMESPACE is not set".to_owned()
            }
            Trusted::In(namespace) => format!("this server is in the namespace {namespace}"),
        };
        Some(format!(
            "its EndpointSlice {} has an address and port of this server, but no zone names it as name server: {whose}; to name it write `apex {{ service {key} }}`",
            slice.key.name
        ))
    }

    /// Whether a slice leads to this server: to one of its addresses, at one of its ports.
    #[must_use]
    pub fn is_behind(&self, slice: &EndpointSlice) -> bool {
        let is_address = match slice.form {
            SliceForm::Ipv4 | SliceForm::Ipv6 => true,
            SliceForm::Fqdn => false,
        };
        let mut ports = slice.ports.iter();
        let mut addresses = slice.endpoints.iter().flat_map(|it| it.addresses.iter());
        is_address
            && ports.any(|port| {
                let is_dns = match port.protocol {
                    Protocol::Tcp | Protocol::Udp => true,
                    Protocol::Sctp => false,
                };
                is_dns
                    && port
                        .number
                        .is_some_and(|number| self.ports.contains(&number))
            })
            && addresses.any(|address| self.addresses.contains(address))
    }
}

/// A Service in front of this server.
#[derive(Debug, Clone)]
pub struct InFront<'a> {
    /// The Service.
    pub service: &'a Service,
    /// Its slices that lead here; all of a Service that the configuration names.
    pub slices: Vec<&'a EndpointSlice>,
}

/// The names and addresses of the name servers that lead to this server. `zone` is the forward zone of the names.
#[must_use]
pub fn servers_in_front(services: &[InFront<'_>], zone: &Name) -> Vec<NameServer> {
    let mut servers: BTreeMap<Name, BTreeSet<IpAddr>> = BTreeMap::new();
    for InFront { service, slices } in services {
        let Ok(base) = service_name(&service.key, zone) else {
            continue;
        };
        match &service.form {
            ServiceForm::ClusterIp(addresses) if !addresses.is_empty() => {
                servers.entry(base).or_default().extend(addresses.iter());
            }
            ServiceForm::Headless => {
                let slices = slices.iter().filter(|slice| slice.form != SliceForm::Fqdn);
                for endpoint in slices.flat_map(|slice| slice.endpoints.iter()) {
                    for address in endpoint.addresses.iter() {
                        let label = endpoint_label(endpoint, *address);
                        if let Ok(name) = base.child(&label) {
                            servers.entry(name).or_default().insert(*address);
                        }
                    }
                }
            }
            ServiceForm::ClusterIp(_) | ServiceForm::ExternalName(_) | ServiceForm::Pending => {}
        }
    }
    let server = |(name, addresses): (Name, BTreeSet<IpAddr>)| NameServer {
        name,
        addresses: addresses.into_iter().collect(),
    };
    servers.into_iter().map(server).collect()
}

/// The external addresses of the Services in front of this server. With `headless`, headless Services without
/// external addresses add those of their endpoints. `externalIPs` count in any case: the author of these Services is
/// trusted, unlike that of another Service ([`Front::trusts`]).
#[must_use]
pub fn outer_addresses_in_front(services: &[InFront<'_>], headless: bool) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    for InFront { service, slices } in services {
        match &service.external {
            Some(external) => addresses.extend(external.all_addresses()),
            None if headless && service.form == ServiceForm::Headless => {
                let endpoints = slices.iter().flat_map(|slice| slice.endpoints.iter());
                addresses.extend(endpoints.flat_map(|it| it.addresses.iter().copied()));
            }
            None => {}
        }
    }
    addresses
}
