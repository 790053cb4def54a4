//! The Service in front of us: whose endpoints are our own addresses and ports, so that its name is that of
//! a name server of the zones.
//!
//! CoreDNS looks for its addresses alone; a Service that shares only the address, of another process on
//! the same host, is no way to us. The names are those that the Service has in the zone: its own with
//! cluster IPs, its endpoints' when it is headless.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use dns::Name;

use crate::facts::{EndpointSlice, Protocol, Service, ServiceForm, SliceForm};
use crate::schema::{NameServer, endpoint_label, service_name};

/// Where we are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Front {
    /// Our addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// Our ports.
    pub ports: BTreeSet<u16>,
    /// The zones whose name servers are looked for, by place in the plan.
    pub zones: BTreeSet<usize>,
}

impl Front {
    /// Whether a slice leads to us: to one of our addresses, at one of our ports.
    fn is_behind(&self, slice: &EndpointSlice) -> bool {
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

/// The name servers that lead to us, by name, of the exposed Services that hold one of our addresses, each
/// with its slices. `zone` is the forward zone that the names lie in.
#[must_use]
pub fn servers_in_front<'a, S>(
    front: &Front,
    holders: &[(&'a Service, S)],
    zone: &Name,
) -> Vec<NameServer>
where
    S: Iterator<Item = &'a EndpointSlice> + Clone,
{
    let mut servers: BTreeMap<Name, BTreeSet<IpAddr>> = BTreeMap::new();
    for (service, slices) in holders {
        let ours: Vec<&EndpointSlice> = slices
            .clone()
            .filter(|slice| front.is_behind(slice))
            .collect();
        let Ok(base) = service_name(&service.key, zone) else {
            continue;
        };
        if ours.is_empty() {
            continue;
        }
        match &service.form {
            ServiceForm::ClusterIp(addresses) if !addresses.is_empty() => {
                servers.entry(base).or_default().extend(addresses.iter());
            }
            ServiceForm::Headless => {
                for endpoint in ours.iter().flat_map(|slice| slice.endpoints.iter()) {
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

/// The addresses at which the Services in front of us are reached from outside the cluster: their outer ones;
/// with `headless` those of the endpoints of headless ones that have none.
#[must_use]
pub fn outer_addresses_in_front<'a, S>(
    front: &Front,
    holders: &[(&'a Service, S)],
    headless: bool,
) -> BTreeSet<IpAddr>
where
    S: Iterator<Item = &'a EndpointSlice> + Clone,
{
    let mut addresses = BTreeSet::new();
    for (service, slices) in holders {
        let ours: Vec<&EndpointSlice> = slices
            .clone()
            .filter(|slice| front.is_behind(slice))
            .collect();
        match &service.external {
            _ if ours.is_empty() => {}
            Some(external) => addresses.extend(external.addresses.iter().copied()),
            None if headless && service.form == ServiceForm::Headless => {
                let endpoints = ours.iter().flat_map(|slice| slice.endpoints.iter());
                addresses.extend(endpoints.flat_map(|it| it.addresses.iter().copied()));
            }
            None => {}
        }
    }
    addresses
}
