//! Finds the Services in front of this server: their endpoints are its own addresses and ports, so their names are
//! names of a name server of the zones.
//!
//! CoreDNS compares only addresses. But a Service of another process on the same host shares only the address and
//! does not lead here. The names are the Service's names in the zone: its own with cluster IPs, its endpoints' when
//! it is headless.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use dns::Name;

use crate::facts::{EndpointSlice, Protocol, Service, ServiceForm, SliceForm};
use crate::schema::{NameServer, endpoint_label, service_name};

/// The addresses and ports of this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Front {
    /// The server's addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// The server's ports.
    pub ports: BTreeSet<u16>,
    /// The zones whose name servers are needed, by position in the plan.
    pub zones: BTreeSet<usize>,
}

impl Front {
    /// Whether a slice leads to this server: to one of its addresses, at one of its ports.
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

/// The names and addresses of the name servers that lead to this server, given the exposed Services that hold one of
/// its addresses, each with its slices. `zone` is the forward zone of the names.
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

/// The external addresses of the Services in front of this server. With `headless`, headless Services without
/// external addresses add those of their endpoints.
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
