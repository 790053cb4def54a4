//! The records at a zone's apex: SOA, NS with their addresses, `dns-version`.

use std::net::IpAddr;

use dns::{Name, Rdata, Record, Rtype, Soa, Ttl};

use crate::schema::ZoneForm;
use crate::schema::parse_name::SCHEMA_VERSION;

/// The TTL of `dns-version`: the specification's example, and CoreDNS's.
const SCHEMA_VERSION_TTL: Ttl = Ttl::decode(28800);

/// A name server of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameServer {
    /// Its name.
    pub name: Name,
    /// Its addresses, if the name is in the zone and is not a Service's.
    pub addresses: Vec<IpAddr>,
}

/// The settings for the apex of a zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApexSettings {
    /// Name servers; never empty.
    pub name_servers: Vec<NameServer>,
    /// The mailbox of the person responsible for the zone.
    pub mbox: Name,
    /// Seconds between a secondary's checks.
    pub refresh: Ttl,
    /// Seconds between checks after a failed one.
    pub retry: Ttl,
    /// Seconds after which a secondary stops answering.
    pub expire: Ttl,
    /// TTL of negative answers.
    pub minimum: Ttl,
    /// TTL of SOA, NS and addresses.
    pub ttl: Ttl,
    /// The kind of names in the zone.
    pub form: ZoneForm,
}

/// The SOA of a zone.
///
/// # Panics
/// When there is no name server: the configuration always has one.
#[must_use]
pub fn soa(settings: &ApexSettings) -> Soa {
    let first = settings
        .name_servers
        .first()
        .expect("every zone has a name server");
    Soa {
        mname: first.name.clone(),
        rname: settings.mbox.clone(),
        refresh: settings.refresh,
        retry: settings.retry,
        expire: settings.expire,
        minimum: settings.minimum,
        ttl: settings.ttl,
    }
}

/// The records of a zone that come from no object: NS, addresses of name servers within the zone, `dns-version`.
/// Addresses of names that are Services' come from the Services.
#[must_use]
pub fn apex_records(zone: &Name, settings: &ApexSettings) -> Vec<Record> {
    let mut records = Vec::new();
    let version = settings.form.schema_version();
    let services = settings.form.services(zone);
    for server in &settings.name_servers {
        records.push(Record {
            owner: zone.clone(),
            rtype: Rtype::NS,
            ttl: settings.ttl,
            rdata: Rdata::name(&server.name),
        });
        let ours = server.name.is_within(zone)
            && services
                .as_ref()
                .is_none_or(|services| !server.name.is_within(services));
        if ours {
            for address in &server.addresses {
                let (rtype, rdata) = Rdata::address(*address);
                let owner = server.name.clone();
                records.push(Record {
                    owner,
                    rtype,
                    ttl: settings.ttl,
                    rdata,
                });
            }
        }
    }
    if let Some(version) = version
        && let Ok(owner) = zone.child(SCHEMA_VERSION)
    {
        records.push(Record {
            owner,
            rtype: Rtype::TXT,
            ttl: SCHEMA_VERSION_TTL,
            rdata: Rdata::txt(version),
        });
    }
    records
}
