//! The PTR records of one address (DNS-Based Service Discovery for Kubernetes 1.1.0, sections 2.3.3 and 2.4.3).
//!
//! A cluster IP points to its Service. For other addresses, every Service with a ready endpoint at the address, in a
//! namespace that owns it, gets one PTR to the endpoint's name. Services that are hidden or missing, and aliases, get none: no PTR leads to a name
//! that does not exist.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::{Name, Rdata, Record, Rtype, Ttl};

use crate::facts::{EndpointSlice, Service, ServiceForm};
use crate::schema::limits::{own_records, published};
use crate::schema::{RecordLimits, endpoint_label, service_name};

/// The PTR records of an address, given the exposed Services that hold it, each with its slices. Endpoints count in the
/// namespaces to which the address belongs, by `owns`. `zone` is the forward zone of the targets.
#[must_use]
pub fn pointers<'a, S>(
    address: IpAddr,
    holders: &[(&'a Service, S)],
    owns: impl Fn(&str) -> bool,
    zone: &Name,
    ttl: Ttl,
    limits: &RecordLimits,
) -> Vec<Record>
where
    S: Iterator<Item = &'a EndpointSlice> + Clone,
{
    let owner = Name::reverse_of(address);
    let mut targets: BTreeSet<Name> = holders
        .iter()
        .filter(|(service, _)| has_cluster_ip(service, address))
        .filter_map(|(service, _)| service_name(&service.key, zone).ok())
        .collect();
    if targets.is_empty() {
        let own = { holders.iter() }.filter(|(service, _)| owns(&service.key.namespace));
        for (service, slices) in own {
            targets.extend(endpoint_names(
                service,
                slices.clone(),
                address,
                zone,
                limits,
            ));
        }
    }
    targets
        .iter()
        .take(limits.rrset)
        .map(|target| Record {
            owner: owner.clone(),
            rtype: Rtype::PTR,
            ttl,
            rdata: Rdata::name(target),
        })
        .collect()
}

/// Whether an address is one of a Service's cluster IPs.
#[must_use]
pub fn has_cluster_ip(service: &Service, address: IpAddr) -> bool {
    match &service.form {
        ServiceForm::ClusterIp(addresses) => addresses.contains(&address),
        ServiceForm::Headless | ServiceForm::ExternalName(_) | ServiceForm::Pending => false,
    }
}

/// The names of a Service's endpoints that have an address.
fn endpoint_names<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    address: IpAddr,
    zone: &Name,
    limits: &RecordLimits,
) -> Vec<Name> {
    if matches!(service.form, ServiceForm::ExternalName(_)) {
        return Vec::new();
    }
    let Ok(base) = service_name(&service.key, zone) else {
        return Vec::new();
    };
    let is_headless = service.form == ServiceForm::Headless;
    let own = own_records(&service.form, &service.ports);
    let room = limits.service.saturating_sub(own);
    published(slices, is_headless, room)
        .filter(|it| it.address == address)
        .map(|it| endpoint_label(it.endpoint, address))
        .filter_map(|label| base.child(&label).ok())
        .collect()
}
