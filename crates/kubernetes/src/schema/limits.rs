//! The most records that one object may have in a zone.
//!
//! A headless Service has three SRV records for each pair of a port and an address, so 30 KB of objects can ask for
//! 300 000 records. The limits are a function of the facts: the same objects have the same records, whatever the order
//! in which they came. The records beyond a limit are left out, and the object is reported.

use std::collections::HashMap;
use std::net::IpAddr;

use dns::{Name, Rdata, Record, Rtype};

use crate::facts::{
    Endpoint, EndpointSlice, ImportForm, Port, Service, ServiceForm, ServiceImport, SliceForm,
};
use crate::schema::Asked;

/// The most records of an RRset, of a Service and of a namespace. Each is at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordLimits {
    /// The most records of an RRset that comes from objects. The first in canonical order (RFC 4034 section 6.3) are
    /// published.
    pub rrset: usize,
    /// The most records of a Service or ServiceImport in a zone. Endpoints are left out from the end: of the slices by
    /// name, of the endpoints by their order in the slice.
    pub service: usize,
    /// The most records of a namespace in a zone, counted before those of its RRsets are limited. The own names of objects have
    /// room before endpoints, and the oldest objects first.
    pub namespace: usize,
}

impl RecordLimits {
    /// The limits of a zone that is transferred: BIND refuses a zone with more than 100 records in an RRset, unless
    /// its `max-records-per-type` is raised.
    pub const TRANSFERRED: Self = Self {
        rrset: 100,
        ..Self::DEFAULT
    };

    /// The limits of a zone that is not transferred. No message holds more than 4000 addresses.
    pub const DEFAULT: Self = Self {
        rrset: 4000,
        service: 20_000,
        // Kubernetes is made for 5000 Services and 3000 pods in a namespace (its scalability thresholds): with two named
        // ports each some 40 000 records.
        namespace: 100_000,
    };
}

/// One published address of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Published<'a> {
    pub(super) slice: &'a EndpointSlice,
    pub(super) endpoint: &'a Endpoint,
    pub(super) address: IpAddr,
}

/// The addresses of endpoints that have names, in the order in which they are published, until their records exceed
/// `room`.
pub(super) fn published<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    is_headless: bool,
    room: usize,
) -> impl Iterator<Item = Published<'a>> {
    let all = slices
        .filter(|slice| slice.form != SliceForm::Fqdn)
        .flat_map(move |slice| {
            let cost = records_of_address(slice, is_headless);
            let of_endpoint = move |endpoint: &'a Endpoint| {
                let addresses = endpoint.addresses.iter();
                addresses.map(move |address| {
                    let address = *address;
                    let published = Published {
                        slice,
                        endpoint,
                        address,
                    };
                    (published, cost)
                })
            };
            slice.endpoints.iter().flat_map(of_endpoint)
        });
    all.scan(room, |room, (published, cost)| {
        *room = room.checked_sub(cost)?;
        Some(published)
    })
}

/// The number of records that each address of a slice gives.
fn records_of_address(slice: &EndpointSlice, is_headless: bool) -> usize {
    let numbered = slice.ports.iter().filter(|port| port.number.is_some());
    let of_port = |name: &str| match (is_headless, name.is_empty()) {
        (false, _) => 1,
        (true, true) => 2,
        (true, false) => 3,
    };
    let of_ports: usize = numbered.map(|port| of_port(&port.name)).sum();
    1 + usize::from(is_headless) + of_ports
}

/// The number of records that ports at a Service's own name ask for.
fn records_of_ports(ports: &[Port]) -> usize {
    let of_port = |port: &Port| 1 + usize::from(!port.name.is_empty());
    ports.iter().map(of_port).sum()
}

/// The number of records that a Service asks for beside its endpoints.
pub(super) fn own_records(form: &ServiceForm, ports: &[Port]) -> usize {
    match form {
        ServiceForm::ClusterIp(addresses) => addresses.len() + records_of_ports(ports),
        ServiceForm::ExternalName(_) => 1,
        ServiceForm::Headless | ServiceForm::Pending => 0,
    }
}

/// The number of records that a ServiceImport asks for beside its endpoints.
pub(super) fn own_records_of_import(form: &ImportForm, ports: &[Port]) -> usize {
    match form {
        ImportForm::ClusterSetIp(addresses) if addresses.is_empty() => 0,
        ImportForm::ClusterSetIp(addresses) => addresses.len() + records_of_ports(ports),
        ImportForm::Headless => 0,
    }
}

/// Whether endpoints of a Service are left out because they have too many records.
#[must_use]
pub fn service_is_cut<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    limits: &RecordLimits,
) -> bool {
    let is_headless = service.form == ServiceForm::Headless;
    let own = own_records(&service.form, &service.ports);
    exceeds(limits.service.saturating_sub(own), slices, is_headless)
}

/// As [`service_is_cut`], for a ServiceImport.
#[must_use]
pub fn import_is_cut<'a>(
    import: &ServiceImport,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    limits: &RecordLimits,
) -> bool {
    let is_headless = import.form == ImportForm::Headless;
    let own = own_records_of_import(&import.form, &import.ports);
    exceeds(limits.service.saturating_sub(own), slices, is_headless)
}

/// The records for which a Service asks in a zone of the cluster or outside, at most `limits.service`.
#[must_use]
pub fn records_of_service<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    limits: &RecordLimits,
) -> Asked {
    let is_headless = service.form == ServiceForm::Headless;
    let own = own_records(&service.form, &service.ports);
    let inside = match service.form {
        ServiceForm::ExternalName(_) => own,
        ServiceForm::ClusterIp(_) | ServiceForm::Headless | ServiceForm::Pending => {
            own.saturating_add(records_of_slices(slices, is_headless))
        }
    };
    let outside = service.external.as_ref().map_or(0, |external| {
        let named = service.ports.iter().filter(|port| !port.name.is_empty());
        let of_hosts = external.hosts.len().saturating_mul(1 + named.count());
        external.all_addresses().count() + records_of_ports(&service.ports) + of_hosts
    });
    asked(own.max(outside), inside.max(outside), limits)
}

/// As [`records_of_service`], for a ServiceImport.
#[must_use]
pub fn records_of_import<'a>(
    import: &ServiceImport,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    limits: &RecordLimits,
) -> Asked {
    let is_headless = import.form == ImportForm::Headless;
    let own = own_records_of_import(&import.form, &import.ports);
    let all = own.saturating_add(records_of_slices(slices, is_headless));
    asked(own, all, limits)
}

/// The shares of all records of an object.
fn asked(own: usize, all: usize, limits: &RecordLimits) -> Asked {
    let own = own.min(limits.service);
    Asked {
        own,
        endpoints: all.min(limits.service).saturating_sub(own),
    }
}

/// The number of records for which the endpoints of slices ask. An endpoint with a host name has one.
fn records_of_slices<'a>(
    slices: impl Iterator<Item = &'a EndpointSlice>,
    is_headless: bool,
) -> usize {
    let of_slice = |slice: &EndpointSlice| match slice.form {
        SliceForm::Fqdn => slice.endpoints.len(),
        SliceForm::Ipv4 | SliceForm::Ipv6 => {
            let addresses: usize = slice.endpoints.iter().map(|it| it.addresses.len()).sum();
            addresses.saturating_mul(records_of_address(slice, is_headless))
        }
    };
    slices.map(of_slice).fold(0, usize::saturating_add)
}

/// Whether the addresses of slices ask for more records than there is room.
fn exceeds<'a>(
    room: usize,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    is_headless: bool,
) -> bool {
    let of_slice = |slice: &EndpointSlice| {
        let addresses: usize = slice.endpoints.iter().map(|it| it.addresses.len()).sum();
        addresses.saturating_mul(records_of_address(slice, is_headless))
    };
    slices.map(of_slice).fold(0, usize::saturating_add) > room
}

/// Leaves out the records beyond the limit of an RRset. Gives an RRset that lost some: the first in canonical order.
pub(super) fn limit_rrsets(records: &mut Vec<Record>, limit: usize) -> Option<(Name, Rtype)> {
    if records.len() <= limit {
        return None;
    }
    let mut counts: HashMap<(Name, Rtype), usize> = HashMap::new();
    for record in &*records {
        *counts
            .entry((record.owner.clone(), record.rtype))
            .or_default() += 1;
    }
    counts.retain(|_, count| *count > limit);
    if counts.is_empty() {
        return None;
    }
    let mut large: HashMap<(Name, Rtype), Vec<Rdata>> = HashMap::new();
    for record in &*records {
        let rrset = (record.owner.clone(), record.rtype);
        if counts.contains_key(&rrset) {
            large.entry(rrset).or_default().push(record.rdata.clone());
        }
    }
    large.retain(|_, data| {
        data.sort();
        data.dedup();
        data.len() > limit
    });
    records.retain(|record| {
        let data = large.get(&(record.owner.clone(), record.rtype));
        data.is_none_or(|data| record.rdata < data[limit])
    });
    large.into_keys().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Protocol, SlicePort};
    use crate::schema::{Rendered, pointers, render_service};
    use dns::Ttl;
    use provenance::{ObjectKey, Origin};

    /// A headless Service and a slice with so many endpoints and ports.
    fn headless(endpoints: u32, ports: u16) -> (Service, EndpointSlice) {
        let service = Service {
            key: ObjectKey::new("evil", "web"),
            form: ServiceForm::Headless,
            ports: [].into(),
            external: None,
            created_s: 0,
            origin: Origin::default(),
        };
        let port = |number| SlicePort {
            name: format!("p{number}").into(),
            protocol: Protocol::Tcp,
            number: Some(number),
        };
        let address =
            |number: u32| Endpoint::at([IpAddr::from((0x0a00_0000 + number).to_be_bytes())]);
        let slice = EndpointSlice {
            key: ObjectKey::new("evil", "web-1"),
            service: Some("web".into()),
            import: None,
            form: SliceForm::Ipv4,
            ports: (1..=ports).map(port).collect(),
            endpoints: (0..endpoints).map(address).collect(),
            created_s: 0,
            origin: Origin::default(),
        };
        (service, slice)
    }

    fn rendered((service, slice): &(Service, EndpointSlice), limits: &RecordLimits) -> Rendered {
        let zone: Name = "cluster.local.".parse().unwrap();
        render_service(
            service,
            std::iter::once(slice),
            &zone,
            Ttl::decode(5),
            limits,
        )
    }

    fn largest(records: &[Record]) -> usize {
        let mut counts: HashMap<(&Name, Rtype), usize> = HashMap::new();
        for record in records {
            *counts.entry((&record.owner, record.rtype)).or_default() += 1;
        }
        counts.into_values().max().unwrap()
    }

    #[test]
    fn security_05_a_service_has_so_many_records_and_the_rest_is_reported() {
        let both = headless(1000, 100);
        let without = RecordLimits {
            rrset: usize::MAX,
            service: usize::MAX,
            namespace: usize::MAX,
        };
        let all = rendered(&both, &without);
        assert_eq!(all.records.len(), 302_000);
        assert!(all.problems.is_empty());
        let limits = RecordLimits::TRANSFERRED;
        let out = rendered(&both, &limits);
        assert!(out.records.len() <= limits.service, "{}", out.records.len());
        assert_eq!(largest(&out.records), 100);
        let messages: Vec<_> = out.problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "Service evil/web: it has more than 20000 records: its last endpoints or ports are left out (`limits service`)",
                "Service evil/web: web.evil.svc.cluster.local. has more than 100 SRV records: the first 100 in canonical order are published (`limits rrset`)",
            ]
        );
    }

    #[test]
    fn a_thousand_endpoints_are_published_where_no_secondary_is() {
        let both = headless(1000, 1);
        let out = rendered(&both, &RecordLimits::DEFAULT);
        assert_eq!((out.records.len(), out.problems.len()), (5000, 0));
        let out = rendered(&both, &RecordLimits::TRANSFERRED);
        assert_eq!(largest(&out.records), 100);
        let base: Name = "web.evil.svc.cluster.local.".parse().unwrap();
        let mut at_base = out
            .records
            .iter()
            .filter(|it| it.owner == base && it.rtype == Rtype::A);
        let first = Rdata::address(IpAddr::from([10, 0, 0, 0])).1;
        let last = Rdata::address(IpAddr::from([10, 0, 0, 99])).1;
        assert!(at_base.all(|it| (&first..=&last).contains(&&it.rdata)));
    }

    #[test]
    fn an_endpoint_that_is_left_out_has_no_ptr_and_no_srv_leads_to_it() {
        let both = headless(10, 1);
        let limits = RecordLimits {
            rrset: 100,
            service: 29,
            ..RecordLimits::DEFAULT
        };
        let out = rendered(&both, &limits);
        // Five records for each endpoint: five of ten fit.
        assert_eq!(out.records.len(), 25);
        let zone: Name = "cluster.local.".parse().unwrap();
        let held = |last: u8| {
            let holders = [(&both.0, std::iter::once(&both.1))];
            let address = IpAddr::from([10, 0, 0, last]);
            pointers(address, &holders, |_| true, &zone, Ttl::decode(5), &limits).len()
        };
        assert_eq!(
            (0..10).map(held).collect::<Vec<_>>(),
            [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
        );
        for slices in [0, 1, 2] {
            let slices = std::iter::repeat_n(&both.1, slices);
            let is_cut = slices.len() == 2;
            let limits = RecordLimits {
                rrset: 1,
                service: 50,
                ..RecordLimits::DEFAULT
            };
            assert_eq!(service_is_cut(&both.0, slices, &limits), is_cut);
        }
    }
}
