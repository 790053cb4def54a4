//! The records of one ServiceImport in a clusterset zone (KEP-1645, multicluster DNS specification 1.0.0).
//!
//! An import has the names that a Service of its form would have in a cluster's own zone, made from the exports of
//! all clusters: its clusterset addresses, or its ready endpoints. An endpoint's name contains the id of its cluster,
//! `endpoint.cluster.service.namespace.svc.zone`. An endpoint whose slice names no cluster has its name directly
//! below the import, as in a cluster. As in CoreDNS, ClusterSetIP imports have endpoint names too. An import without
//! ports has only its addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use dns::{Name, Rdata, Record, Rtype, Ttl};
use provenance::Kind;

use crate::facts::{EndpointSlice, ImportForm, ServiceImport};
use crate::schema::limits::published;
use crate::schema::service::Writer;
use crate::schema::{RecordLimits, Rendered, endpoint_label, service_name};

/// The records of an import and its slices in one clusterset zone. All are at or below [`service_name`].
#[must_use]
pub fn render_import<'a>(
    import: &ServiceImport,
    slices: impl Iterator<Item = &'a EndpointSlice> + Clone,
    zone: &Name,
    ttl: Ttl,
    limits: &RecordLimits,
) -> Rendered {
    let base = match service_name(&import.key, zone) {
        Ok(base) => base,
        Err(error) => {
            let mut out = Rendered::default();
            let message = format!("it has no DNS name: {error}");
            out.report(Kind::ServiceImport, &import.key, message);
            return out;
        }
    };
    let mut writer = Writer::at_import(base, import, ttl, limits);
    match &import.form {
        ImportForm::ClusterSetIp(addresses) => {
            writer.addresses_at_base(addresses);
            if !addresses.is_empty() {
                writer.ports_at_base();
            }
            writer.endpoints(slices, false);
        }
        ImportForm::Headless => writer.endpoints(slices, true),
    }
    writer.finish()
}

/// The PTR records of an address that no Service of the cluster itself holds, given the exposed imports that hold it,
/// each with its slices. Only imports of namespaces to which the address belongs count, by `owns`. An import's own address points to the import; otherwise each headless import adds its
/// endpoint's name. `zone` is the clusterset zone of the targets.
#[must_use]
pub fn import_pointers<'a, S>(
    address: IpAddr,
    holders: &[(&'a ServiceImport, S)],
    owns: impl Fn(&str) -> bool,
    zone: &Name,
    ttl: Ttl,
    limits: &RecordLimits,
) -> Vec<Record>
where
    S: Iterator<Item = &'a EndpointSlice> + Clone,
{
    let owned = { holders.iter() }.filter(|(import, _)| owns(&import.key.namespace));
    let mut targets: BTreeSet<Name> = owned
        .clone()
        .filter(|(import, _)| has_own_address(import, address))
        .filter_map(|(import, _)| service_name(&import.key, zone).ok())
        .collect();
    if targets.is_empty() {
        for (import, slices) in owned {
            if import.form == ImportForm::Headless {
                targets.extend(endpoint_names(
                    import,
                    slices.clone(),
                    address,
                    zone,
                    limits,
                ));
            }
        }
    }
    let owner = Name::reverse_of(address);
    let pointer = |target: &Name| Record {
        owner: owner.clone(),
        rtype: Rtype::PTR,
        ttl,
        rdata: Rdata::name(target),
    };
    targets.iter().take(limits.rrset).map(pointer).collect()
}

/// Whether an address is one of an import's own.
#[must_use]
pub fn has_own_address(import: &ServiceImport, address: IpAddr) -> bool {
    match &import.form {
        ImportForm::ClusterSetIp(addresses) => addresses.contains(&address),
        ImportForm::Headless => false,
    }
}

/// The names of an import's endpoints that have an address.
fn endpoint_names<'a>(
    import: &'a ServiceImport,
    slices: impl Iterator<Item = &'a EndpointSlice>,
    address: IpAddr,
    zone: &Name,
    limits: &RecordLimits,
) -> Vec<Name> {
    let mut names = Vec::new();
    let mut writer = match service_name(&import.key, zone) {
        Ok(base) => Writer::at_import(base, import, Ttl::decode(0), limits),
        Err(_) => return names,
    };
    let is_headless = import.form == ImportForm::Headless;
    let all = published(slices, is_headless, writer.room_for_endpoints());
    for it in all.filter(|it| it.address == address) {
        names.extend(writer.endpoint_name(it.slice, &endpoint_label(it.endpoint, address)));
    }
    names
}
