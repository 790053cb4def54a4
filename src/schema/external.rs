//! The records of one Service in an external zone, as CoreDNS's `k8s_external` names them:
//! `service.namespace.zone`.
//!
//! A Service that is reached from outside has its outer addresses there, with SRV as in a forward zone.
//! The host name of a load balancer is an alias and stands alone (RFC 1034 section 3.6.2): of several
//! hosts the first, none beside addresses; the ports' names lead to every host. With `headless` the
//! endpoints of all other Services have names, and headless Services the addresses of theirs. Aliases
//! (ExternalName) have no endpoints here either.

use std::collections::BTreeSet;
use std::net::IpAddr;

use crate::cluster::{EndpointSlice, External, Kind, ObjectKey, Service, ServiceForm};
use crate::dns::{Name, ParseError, Rdata, Record, Rtype, Ttl};
use crate::schema::Rendered;
use crate::schema::service::Writer;

/// How external zones are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSettings {
    /// The label below which the zone's own names stand; a namespace of this name has none.
    pub apex_label: String,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Whether endpoints have names.
    pub headless: bool,
}

/// The name of a Service in an external zone: `service.namespace.zone`.
///
/// # Errors
/// [`ParseError`] when a label is too long or the name would be.
pub fn external_name(key: &ObjectKey, zone: &Name) -> Result<Name, ParseError> {
    zone.child(&key.namespace.to_ascii_lowercase())?
        .child(&key.name.to_ascii_lowercase())
}

/// Whether a Service's name would stand where the zone has names of its own: in the namespace of the
/// apex label, or above one of `reserved`, the owners of the zone's apex records.
fn is_reserved(key: &ObjectKey, base: &Name, settings: &ExternalSettings, taken: &[Name]) -> bool {
    key.namespace.eq_ignore_ascii_case(&settings.apex_label)
        || taken.iter().any(|own| own.is_within(base))
}

/// The records of a Service with its slices in one external zone. All lie at or below
/// [`external_name`]. `reserved` are the owners of the zone's own records.
#[must_use]
pub fn render_external<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    zone: &Name,
    reserved: &[Name],
    settings: &ExternalSettings,
) -> Rendered {
    let mut out = Rendered::default();
    let is_alias = matches!(service.form, ServiceForm::ExternalName(_));
    if service.external.is_none() && (is_alias || !settings.headless) {
        return out;
    }
    let base = match external_name(&service.key, zone) {
        Ok(base) => base,
        Err(error) => {
            let message = format!("it has no name in {zone}: {error}");
            out.report(Kind::Service, &service.key, message);
            return out;
        }
    };
    let reserved = is_reserved(&service.key, &base, settings, reserved);
    let mut writer = Writer::at(base, service, settings.ttl);
    match &service.external {
        Some(external) => writer.outside(external),
        None => writer.endpoints(slices, service.form == ServiceForm::Headless),
    }
    let mut out = writer.out;
    if reserved && !out.records.is_empty() {
        out.records.clear();
        let message = format!("it has no name in {zone}: the zone's own names stand there");
        out.report(Kind::Service, &service.key, message);
    }
    out
}

impl Writer<'_> {
    /// What is outside a Service.
    fn outside(&mut self, external: &External) {
        let hosts = self.hosts(external);
        if external.addresses.is_empty() {
            if let Some(first) = hosts.first() {
                self.alias_of(first);
            }
        } else {
            self.addresses_at_base(&external.addresses);
            self.ports_at_base();
        }
        let left_out = if external.addresses.is_empty() {
            hosts.len().saturating_sub(1)
        } else {
            hosts.len()
        };
        if left_out > 0 {
            let message = format!(
                "{left_out} of its load balancers' host names stand only at the names of its ports: \
                 an alias stands alone"
            );
            self.out.report(self.kind, self.key, message);
        }
        for host in hosts {
            for port in self.ports.iter() {
                if let Some(owner) = self.port_name(&port.name, port.protocol) {
                    self.push_srv(&owner, port.number, &host);
                }
            }
        }
    }

    /// The host names of a Service's load balancers, in canonical order.
    fn hosts(&mut self, external: &External) -> Vec<Name> {
        let mut hosts = BTreeSet::new();
        for text in external.hosts.iter() {
            match Name::parse(text) {
                Ok(host) => {
                    hosts.insert(host);
                }
                Err(error) => {
                    let message = format!("\"{text}\" is no host name: {error}");
                    self.out.report(self.kind, self.key, message);
                }
            }
        }
        hosts.into_iter().collect()
    }
}

/// The PTR records of an outer address, given the exposed Services that are reached there and, of each
/// zone, the names that are its own; `zone` is the external zone that the targets lie in.
#[must_use]
pub fn external_pointers<'a>(
    address: IpAddr,
    holders: impl Iterator<Item = &'a Service>,
    zone: &Name,
    reserved: &[Name],
    settings: &ExternalSettings,
) -> Vec<Record> {
    let targets: BTreeSet<Name> = holders
        .filter_map(|service| {
            let base = external_name(&service.key, zone).ok()?;
            (!is_reserved(&service.key, &base, settings, reserved)).then_some(base)
        })
        .collect();
    let owner = Name::reverse_of(address);
    let pointer = |target: &Name| Record {
        owner: owner.clone(),
        rtype: Rtype::PTR,
        ttl: settings.ttl,
        rdata: Rdata::name(target),
    };
    targets.iter().map(pointer).collect()
}
