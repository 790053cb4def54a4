//! The records of one Service in an external zone, named as by CoreDNS's `k8s_external`: `service.namespace.zone`.
//!
//! A Service that is reached from outside has its external addresses there, with SRV as in a forward zone. The host
//! name of a load balancer is an alias and has no other records beside it (RFC 1034 section 3.6.2). So the first of
//! several hosts is used, and none if there are addresses; the SRV records name every host. With `headless`, the
//! endpoints of all other Services have names, and headless Services have the addresses of their endpoints.
//! ExternalName Services have no endpoints here either.
//!
//! Whoever may write a Service chooses its `externalIPs`, and needs no right to these addresses. So they count only
//! with `external_ips`.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::{Name, ParseError, Rdata, Record, Rtype, Ttl};
use provenance::{Kind, ObjectKey};

use crate::facts::{EndpointSlice, External, Service, ServiceForm};
use crate::schema::service::Writer;
use crate::schema::{RecordLimits, Rendered};

/// The settings of an external zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalSettings {
    /// The label of the zone's own names; a namespace with this name has none.
    pub apex_label: String,
    /// The TTL of all records.
    pub ttl: Ttl,
    /// Whether endpoints have names.
    pub headless: bool,
    /// Whether `externalIPs` of Services are published.
    pub external_ips: bool,
}

impl ExternalSettings {
    /// The published addresses of a Service outside.
    fn addresses(&self, external: &External) -> Vec<IpAddr> {
        match self.external_ips {
            true => external
                .all_addresses()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect(),
            false => external.addresses.to_vec(),
        }
    }

    /// Whether something of what a Service has outside is published.
    fn publishes(&self, external: &External) -> bool {
        self.external_ips || !external.addresses.is_empty() || !external.hosts.is_empty()
    }
}

/// The name of a Service in an external zone: `service.namespace.zone`.
///
/// # Errors
/// [`ParseError`] when a label is too long or the name would be.
pub fn external_name(key: &ObjectKey, zone: &Name) -> Result<Name, ParseError> {
    zone.child(&key.namespace.to_ascii_lowercase())?
        .child(&key.name.to_ascii_lowercase())
}

/// Whether a Service's name is among the zone's own names: in the namespace of the apex label, or above one of
/// `taken`, the owners of the zone's apex records.
fn is_reserved(key: &ObjectKey, base: &Name, settings: &ExternalSettings, taken: &[Name]) -> bool {
    key.namespace.eq_ignore_ascii_case(&settings.apex_label)
        || taken.iter().any(|own| own.is_within(base))
}

/// The records of a Service and its slices in one external zone. All are at or below [`external_name`]. `reserved`
/// are the owners of the zone's own records.
#[must_use]
pub fn render_external<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    zone: &Name,
    reserved: &[Name],
    settings: &ExternalSettings,
    limits: &RecordLimits,
) -> Rendered {
    let mut out = Rendered::default();
    let is_alias = matches!(service.form, ServiceForm::ExternalName(_));
    let left_out = { service.external.as_ref() }
        .filter(|it| !settings.external_ips && !it.external_ips.is_empty());
    if left_out.is_some() {
        let message = format!(
            "its externalIPs are not published in {zone}: write `external_ips` in k8s_external if its author may choose them"
        );
        out.report(Kind::Service, &service.key, message);
    }
    let external = { service.external.as_ref() }.filter(|it| settings.publishes(it));
    if external.is_none() && (is_alias || !settings.headless) {
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
    let mut writer = Writer::at(base, service, settings.ttl, limits);
    match external {
        Some(external) => writer.outside(&settings.addresses(external), external),
        None => writer.endpoints(slices, service.form == ServiceForm::Headless),
    }
    let Rendered { records, problems } = writer.finish();
    out.records = records;
    out.problems.extend(problems);
    if reserved && !out.records.is_empty() {
        out.records.clear();
        let message = format!("it has no name in {zone}: the zone has its own names there");
        out.report(Kind::Service, &service.key, message);
    }
    out
}

impl Writer<'_> {
    /// Adds the records of external addresses and host names.
    fn outside(&mut self, addresses: &[IpAddr], external: &External) {
        let hosts = self.hosts(external);
        if addresses.is_empty() {
            if let Some(first) = hosts.first() {
                self.alias_of(first);
            }
        } else {
            self.addresses_at_base(addresses);
            self.ports_at_base();
        }
        let left_out = if addresses.is_empty() {
            hosts.len().saturating_sub(1)
        } else {
            hosts.len()
        };
        if left_out > 0 {
            let message = if self.ports.iter().all(|port| port.name.is_empty()) {
                format!(
                    "{left_out} of its load balancers' host names left out: an alias allows no other records, and no port has a name"
                )
            } else {
                format!(
                    "{left_out} of its load balancers' host names are only at the names of its ports: an alias allows no other records"
                )
            };
            self.report(message);
        }
        for host in hosts {
            for port in self.ports.iter() {
                if !self.has_room() {
                    return;
                }
                if let Some(owner) = self.port_name(&port.name, port.protocol) {
                    self.push_srv(&owner, port.number, &host);
                }
            }
        }
    }

    /// The host names of a Service's load balancers, in canonical order, without its own name, which would be an
    /// alias of itself.
    fn hosts(&mut self, external: &External) -> Vec<Name> {
        let mut hosts = BTreeSet::new();
        for text in external.hosts.iter() {
            match Name::parse(text) {
                Ok(host) => {
                    hosts.insert(host);
                }
                Err(error) => {
                    let message = format!("\"{text}\" is not a host name: {error}");
                    self.report(message);
                }
            }
        }
        if hosts.remove(&self.base) {
            let message = format!("it is an alias of itself ({}) and left out", self.base);
            self.report(message);
        }
        hosts.into_iter().collect()
    }
}

/// The PTR records of an external address, given the exposed Services that are reached there and each zone's own
/// names. `zone` is the external zone of the targets.
#[must_use]
pub fn external_pointers<'a>(
    address: IpAddr,
    holders: impl Iterator<Item = &'a Service>,
    zone: &Name,
    reserved: &[Name],
    settings: &ExternalSettings,
    limits: &RecordLimits,
) -> Vec<Record> {
    let targets: BTreeSet<Name> = holders
        .filter(|service| {
            let external = service.external.as_ref();
            external.is_some_and(|it| settings.addresses(it).contains(&address))
        })
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
    targets.iter().take(limits.rrset).map(pointer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Port, Protocol};
    use dns::RecordText;
    use provenance::Origin;

    /// The records and the messages of `web.shop` in `z`, with one port.
    fn said(port: &str, addresses: &[&str], hosts: &[&str]) -> (Vec<String>, Vec<String>) {
        let external = External {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            external_ips: [].into(),
            hosts: hosts.iter().map(|it| (*it).into()).collect(),
        };
        let service = Service {
            key: ObjectKey::new("shop", "web"),
            form: ServiceForm::ClusterIp([].into()),
            ports: [Port {
                name: port.into(),
                protocol: Protocol::Tcp,
                number: 80,
            }]
            .into(),
            external: Some(external.into()),
            created_s: 0,
            origin: Origin::default(),
        };
        let settings = ExternalSettings {
            apex_label: "dns".to_owned(),
            ttl: Ttl::decode(5),
            headless: false,
            external_ips: false,
        };
        let zone = Name::parse("z").unwrap();
        let out = render_external(
            &service,
            std::iter::empty(),
            &zone,
            &[],
            &settings,
            &RecordLimits::DEFAULT,
        );
        let records = out.records.iter();
        let problems = out.problems.into_iter();
        (
            records
                .map(|it| RecordText(it.view()).to_string())
                .collect(),
            problems.map(|it| it.message).collect(),
        )
    }

    #[test]
    fn hosts_beside_addresses_are_left_out_where_no_port_has_a_name() {
        let (records, problems) = said("", &["192.0.2.1"], &["lb.example"]);
        assert!(!records.iter().any(|it| it.contains("lb.example")));
        assert_eq!(
            problems,
            [
                "1 of its load balancers' host names left out: an alias allows no other records, and no port has a name"
            ]
        );
        let (records, problems) = said("http", &["192.0.2.1"], &["lb.example"]);
        assert!(
            records.contains(&"_http._tcp.web.shop.z. 5 IN SRV 0 100 80 lb.example.".to_owned())
        );
        assert_eq!(
            problems,
            [
                "1 of its load balancers' host names are only at the names of its ports: an alias allows no other records"
            ]
        );
    }

    #[test]
    fn a_host_that_is_the_services_own_name_is_no_target() {
        let itself = "it is an alias of itself (web.shop.z.) and left out";
        assert_eq!(
            said("http", &[], &["WEB.shop.z"]),
            (vec![], vec![itself.to_owned()])
        );
        let (records, problems) = said("http", &[], &["lb.example", "web.shop.z"]);
        assert_eq!(
            records,
            [
                "web.shop.z. 5 IN CNAME lb.example.",
                "_http._tcp.web.shop.z. 5 IN SRV 0 100 80 lb.example."
            ]
        );
        assert_eq!(problems, [itself]);
    }
}
