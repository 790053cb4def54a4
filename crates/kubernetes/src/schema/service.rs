//! The records of one Service (DNS-Based Service Discovery for Kubernetes 1.1.0, sections 2.3 to 2.5).
//!
//! A ClusterIP Service has its addresses, a headless one those of its ready endpoints, an ExternalName one an alias.
//! Named ports have SRV at `_port._proto`, all ports at the Service's name and at the endpoints' names. As in
//! CoreDNS, every Service that is not an alias has endpoint names.
//!
//! All SRV records have the same weight: equal weights mean an even spread (RFC 2782), and a new endpoint changes no
//! other record.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::net::IpAddr;

use dns::{Name, ParseError, Rdata, Record, Rtype, Ttl};
use provenance::{Kind, ObjectKey};

use crate::facts::{
    Endpoint, EndpointSlice, Port, Protocol, Service, ServiceForm, ServiceImport, SliceForm,
    SlicePort,
};
use crate::schema::endpoint::{endpoint_label, fqdn_label};
use crate::schema::limits::{
    Published, limit_rrsets, own_records, own_records_of_import, published,
};
use crate::schema::{Branch, RecordLimits, Rendered};

/// Priority of every SRV record.
const PRIORITY: u16 = 0;
/// Weight of every SRV record: CoreDNS's weight for a single target.
const WEIGHT: u16 = 100;

/// The number of a port and its `_port._proto` name, if it has one.
type NamedPort = (u16, Option<Name>);

/// The name of a Service in a forward zone: `service.namespace.svc.zone`.
///
/// # Errors
/// [`ParseError`] when a label is too long or the name would be.
pub fn service_name(key: &ObjectKey, zone: &Name) -> Result<Name, ParseError> {
    Branch::Services
        .namespace(&key.namespace, zone)?
        .child(&key.name.to_ascii_lowercase())
}

/// The records of a Service and its slices in one forward zone. All are at or below [`service_name`].
#[must_use]
pub fn render_service<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    zone: &Name,
    ttl: Ttl,
    limits: &RecordLimits,
) -> Rendered {
    let mut out = Rendered::default();
    let base = match service_name(&service.key, zone) {
        Ok(base) => base,
        Err(error) => {
            out.report(
                Kind::Service,
                &service.key,
                format!("it has no DNS name: {error}"),
            );
            return out;
        }
    };
    let mut writer = Writer::at(base, service, ttl, limits);
    match &service.form {
        ServiceForm::ClusterIp(addresses) => {
            writer.addresses_at_base(addresses);
            writer.ports_at_base();
            writer.endpoints(slices, false);
        }
        ServiceForm::Headless => writer.endpoints(slices, true),
        // A missing host was reported when the object was read.
        ServiceForm::ExternalName(host) if host.is_empty() => {}
        ServiceForm::ExternalName(host) => writer.alias(host),
        ServiceForm::Pending => writer.endpoints(slices, false),
    }
    writer.finish()
}

/// Writes the records of one Service or ServiceImport.
pub(super) struct Writer<'a> {
    pub(super) kind: Kind,
    pub(super) key: &'a ObjectKey,
    pub(super) ports: &'a [Port],
    pub(super) base: Name,
    /// The number of records beside those of endpoints.
    own: usize,
    /// Whether endpoints' names are below the id of their cluster.
    pub(super) by_cluster: bool,
    /// The TTL of all its records.
    ttl: Ttl,
    limits: &'a RecordLimits,
    /// Whether records were left out because of the limit of a Service.
    is_over: bool,
    out: Rendered,
}

impl<'s> Writer<'s> {
    /// A writer of a ServiceImport at this name.
    pub(super) fn at_import(
        base: Name,
        import: &'s ServiceImport,
        ttl: Ttl,
        limits: &'s RecordLimits,
    ) -> Self {
        Self {
            kind: Kind::ServiceImport,
            key: &import.key,
            ports: &import.ports,
            base,
            own: own_records_of_import(&import.form, &import.ports),
            by_cluster: true,
            ttl,
            limits,
            is_over: false,
            out: Rendered::default(),
        }
    }

    /// A writer of a Service at this name.
    pub(super) fn at(base: Name, service: &'s Service, ttl: Ttl, limits: &'s RecordLimits) -> Self {
        Self {
            kind: Kind::Service,
            key: &service.key,
            ports: &service.ports,
            base,
            own: own_records(&service.form, &service.ports),
            by_cluster: false,
            ttl,
            limits,
            is_over: false,
            out: Rendered::default(),
        }
    }

    fn push(&mut self, owner: &Name, rtype: Rtype, rdata: Rdata) {
        self.out.records.push(Record {
            owner: owner.clone(),
            rtype,
            ttl: self.ttl,
            rdata,
        });
    }

    fn push_address(&mut self, owner: &Name, address: IpAddr) {
        let (rtype, rdata) = Rdata::address(address);
        self.push(owner, rtype, rdata);
    }

    pub(super) fn push_srv(&mut self, owner: &Name, port: u16, target: &Name) {
        self.push(
            owner,
            Rtype::SRV,
            Rdata::srv(PRIORITY, WEIGHT, port, target),
        );
    }

    /// The cluster IPs at the Service's name (2.3.1).
    pub(super) fn addresses_at_base(&mut self, addresses: &[IpAddr]) {
        let base = self.base.clone();
        for address in addresses {
            if !self.has_room() {
                return;
            }
            self.push_address(&base, *address);
        }
    }

    /// SRV for each port of a ClusterIP Service, at its name and at the port's (2.3.2).
    pub(super) fn ports_at_base(&mut self) {
        let base = self.base.clone();
        for port in self.ports.iter() {
            if !self.has_room() {
                return;
            }
            self.push_srv(&base, port.number, &base);
            if let Some(owner) = self.port_name(&port.name, port.protocol) {
                self.push_srv(&owner, port.number, &base);
            }
        }
    }

    /// The name `_port._proto.service`; `None` for an unnamed port or one that DNS cannot express.
    pub(super) fn port_name(&mut self, port: &str, protocol: Protocol) -> Option<Name> {
        if port.is_empty() {
            return None;
        }
        let label = format!("_{}", port.to_ascii_lowercase());
        let owner = self
            .base
            .child(protocol.label())
            .and_then(|name| name.child(&label));
        match owner {
            Ok(owner) => Some(owner),
            Err(error) => {
                let message = format!("port \"{port}\" has no name of its own: {error}");
                self.out.report(self.kind, self.key, message);
                None
            }
        }
    }

    /// The endpoints' own names and, for a headless Service, the records at its name and at its ports' names (2.4).
    pub(super) fn endpoints<'a>(
        &mut self,
        slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
        headless: bool,
    ) {
        if headless {
            self.aliases_of_headless(slices.clone());
        }
        let room = self.room_for_endpoints();
        let wanted = slices.clone().filter(|it| it.form != SliceForm::Fqdn);
        let wanted = wanted.flat_map(|slice| slice.endpoints.iter());
        let wanted: usize = wanted.map(|endpoint| endpoint.addresses.len()).sum();
        let mut count = 0;
        let mut ports: Option<(&EndpointSlice, Vec<NamedPort>)> = None;
        for Published {
            slice,
            endpoint,
            address,
        } in published(slices.clone(), headless, room)
        {
            count += 1;
            if ports.as_ref().is_none_or(|(of, _)| of.key != slice.key) {
                ports = Some((slice, self.named_ports(slice, headless)));
            }
            let named = ports.as_ref().map_or(&[][..], |(_, named)| named);
            self.endpoint(slice, endpoint, address, named, headless);
        }
        self.is_over |= count < wanted;
        self.fqdn_names(slices.filter(|slice| slice.form == SliceForm::Fqdn));
    }

    /// The numbered ports of a slice, for a headless Service each with its name.
    fn named_ports(&mut self, slice: &EndpointSlice, headless: bool) -> Vec<NamedPort> {
        let mut named = Vec::new();
        for SlicePort {
            name,
            protocol,
            number,
        } in slice.ports.iter()
        {
            let owner = match headless {
                true => self.port_name(name, *protocol),
                false => None,
            };
            named.extend(number.map(|number| (number, owner)));
        }
        named
    }

    /// Adds one address of an endpoint.
    fn endpoint(
        &mut self,
        slice: &EndpointSlice,
        endpoint: &Endpoint,
        address: IpAddr,
        ports: &[NamedPort],
        headless: bool,
    ) {
        let base = self.base.clone();
        if headless {
            self.push_address(&base, address);
        }
        let Some(own) = self.endpoint_name(slice, &endpoint_label(endpoint, address)) else {
            return;
        };
        self.push_address(&own, address);
        for (number, owner) in ports {
            self.push_srv(&own, *number, &own);
            if headless {
                self.push_srv(&base, *number, &own);
            }
            if let Some(owner) = owner {
                self.push_srv(owner, *number, &own);
            }
        }
    }

    /// Reports a part of the object that was left out.
    pub(super) fn report(&mut self, message: String) {
        self.out.report(self.kind, self.key, message);
    }

    /// The number of records that all endpoints may have.
    pub(super) const fn room_for_endpoints(&self) -> usize {
        self.limits.service.saturating_sub(self.own)
    }

    /// Whether there is room for another record of the Service itself.
    pub(super) fn has_room(&mut self) -> bool {
        let is_full = self.out.records.len() >= self.limits.service;
        self.is_over |= is_full;
        !is_full
    }

    /// Ends the rendering: leaves out and reports the records beyond the limits.
    pub(super) fn finish(mut self) -> Rendered {
        if self.is_over {
            let message = format!(
                "it has more than {} records: its last endpoints or ports are left out (`limits service`)",
                self.limits.service
            );
            self.out.report(self.kind, self.key, message);
        }
        let limit = self.limits.rrset;
        if let Some((owner, rtype)) = limit_rrsets(&mut self.out.records, limit) {
            let message = format!(
                "{owner} has more than {limit} {rtype} records: the first {limit} in canonical order are published (`limits rrset`)"
            );
            self.out.report(self.kind, self.key, message);
        }
        self.out
    }

    /// The name `label.service`, or `label.cluster.service` in a clusterset; `None` when the label is invalid.
    pub(super) fn endpoint_name(&mut self, slice: &EndpointSlice, label: &str) -> Option<Name> {
        let cluster = slice.import.as_ref().map(|import| &*import.cluster);
        let name = match cluster.filter(|cluster| self.by_cluster && !cluster.is_empty()) {
            Some(cluster) => self
                .base
                .child(cluster)
                .and_then(|below| below.child(label)),
            None => self.base.child(label),
        };
        match name {
            Ok(name) => Some(name),
            Err(error) => {
                let message = format!("endpoint \"{label}\" has no name of its own: {error}");
                self.out.report(Kind::EndpointSlice, &slice.key, message);
                None
            }
        }
    }

    /// Adds the names of the endpoints of FQDN slices, each an alias of its host. A name with several hosts, or with
    /// an address too, gets no alias (RFC 1034 section 3.6.2): secondaries would refuse the whole zone.
    fn fqdn_names<'a>(&mut self, slices: impl Iterator<Item = &'a EndpointSlice>) {
        let mut hosts: BTreeMap<Name, (BTreeSet<Name>, &ObjectKey)> = BTreeMap::new();
        let room = self.limits.service.saturating_sub(self.out.records.len());
        let all = slices.flat_map(|slice| slice.endpoints.iter().map(move |it| (slice, it)));
        for (count, (slice, endpoint)) in all.enumerate() {
            if count >= room {
                self.is_over = true;
                break;
            }
            let Some(fqdn) = endpoint.fqdn() else {
                continue;
            };
            let Some(own) = self.endpoint_name(slice, &fqdn_label(endpoint, fqdn)) else {
                continue;
            };
            match Name::parse(fqdn) {
                Ok(host) => {
                    let (known, _) = hosts
                        .entry(own)
                        .or_insert_with(|| (BTreeSet::new(), &slice.key));
                    known.insert(host);
                }
                Err(error) => {
                    let message = format!("endpoint \"{fqdn}\" is not a host name: {error}");
                    self.out.report(Kind::EndpointSlice, &slice.key, message);
                }
            }
        }
        if hosts.is_empty() {
            return;
        }
        let taken = self.out.records.iter().map(|record| record.owner.clone());
        let taken: HashSet<Name> = taken.collect();
        for (own, (hosts, slice)) in hosts {
            let mut hosts = hosts.into_iter();
            let host = match (hosts.next(), hosts.next()) {
                (Some(host), None) => Some(host),
                (_, _) => None,
            };
            match host.filter(|host| !taken.contains(&own) && *host != own) {
                Some(host) => self.push(&own, Rtype::CNAME, Rdata::name(&host)),
                None => {
                    let message = format!(
                        "its FQDN endpoint {own} is left out: a name can be an alias of only one host, other than itself"
                    );
                    self.out.report(Kind::EndpointSlice, slice, message);
                }
            }
        }
    }

    /// Adds the alias that FQDN slices give a headless Service's name. Several hosts, or one beside addresses, give
    /// none (RFC 1034 section 3.6.2).
    fn aliases_of_headless<'a>(&mut self, slices: impl Iterator<Item = &'a EndpointSlice> + Clone) {
        // Invalid host names are reported with the endpoint's own name.
        let hosts: BTreeSet<Name> = slices
            .clone()
            .filter(|slice| slice.form == SliceForm::Fqdn)
            .flat_map(|slice| slice.endpoints.iter())
            .filter_map(|endpoint| Name::parse(endpoint.fqdn()?).ok())
            .collect();
        let with_addresses = slices
            .filter(|slice| slice.form != SliceForm::Fqdn)
            .any(|slice| {
                slice
                    .endpoints
                    .iter()
                    .any(|endpoint| !endpoint.addresses.is_empty())
            });
        let mut hosts = hosts.into_iter();
        match (hosts.next(), hosts.next(), with_addresses) {
            (None, _, _) => {}
            (Some(host), None, false) => self.alias_of(&host),
            (Some(_), _, _) => {
                let message =
                    "its FQDN endpoints are left out at its name: an alias allows no other records"
                        .to_owned();
                self.out.report(self.kind, self.key, message);
            }
        }
    }

    /// An alias at the Service's name (2.5).
    fn alias(&mut self, host: &str) {
        match Name::parse(host) {
            Ok(target) => self.alias_of(&target),
            Err(error) => {
                let message = format!("\"{host}\" is not a host name: {error}");
                self.out.report(self.kind, self.key, message);
            }
        }
    }

    /// Adds an alias of a valid name.
    pub(super) fn alias_of(&mut self, target: &Name) {
        let base = self.base.clone();
        if *target == base {
            let message = format!("it is an alias of itself ({target}) and left out");
            self.out.report(self.kind, self.key, message);
        } else {
            self.push(&base, Rtype::CNAME, Rdata::name(target));
        }
    }
}
