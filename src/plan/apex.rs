//! The records at the apex of a zone: as configured, else the defaults.

use std::net::IpAddr;

use directives::config::{Apex, Form, ServerBlock};
use dns::{Name, Ttl};
use kubernetes::schema::{ApexSettings, NameServer};

use crate::plan::zone_settings::{EXPIRE, REFRESH, RETRY};

/// The name servers that an `apex` names.
pub(crate) fn name_servers(apex: Option<&Apex>) -> Vec<NameServer> {
    apex.iter()
        .flat_map(|apex| &apex.name_servers)
        .map(|server| NameServer {
            name: server.name.clone(),
            addresses: server.addresses.clone(),
        })
        .collect()
}

/// The defaults of an apex.
pub(crate) struct ApexDefaults<'a> {
    /// The form of the zone in its directive.
    pub(crate) made: Form<'a>,
    /// The labels of the mailbox in the zone itself.
    pub(crate) mbox: &'a [&'a str],
    /// TTL and minimum.
    pub(crate) ttl: Ttl,
}

/// The name with these labels in a zone; the zone itself where it does not fit.
fn name_in(zone: &Name, labels: &[&str]) -> Name {
    let mut name = Ok(zone.clone());
    for label in labels.iter().rev() {
        name = name.and_then(|name| name.child(label));
    }
    name.unwrap_or_else(|_| zone.clone())
}

pub(crate) fn apex_settings(
    block: &ServerBlock,
    zone: &Name,
    defaults: &ApexDefaults<'_>,
    own: &[IpAddr],
) -> ApexSettings {
    let written = block.for_zone::<Apex>(zone);
    let field = |of: fn(&Apex) -> Option<Ttl>| written.and_then(of);
    // A zone has the name servers of its home, unless it has its own.
    let mut name_servers = name_servers(written);
    let home = defaults.made.home(zone);
    if name_servers.is_empty() && home != zone {
        name_servers = self::name_servers(block.for_zone(home));
    }
    if name_servers.is_empty() {
        name_servers.push(NameServer {
            name: defaults.made.default_name_server(zone),
            addresses: own.to_vec(),
        });
    }
    ApexSettings {
        name_servers,
        mbox: written
            .and_then(|apex| apex.mbox.clone())
            .unwrap_or_else(|| name_in(zone, defaults.mbox)),
        refresh: field(|apex| apex.refresh).unwrap_or(REFRESH),
        retry: field(|apex| apex.retry).unwrap_or(RETRY),
        expire: field(|apex| apex.expire).unwrap_or(EXPIRE),
        minimum: field(|apex| apex.minimum).unwrap_or(defaults.ttl),
        ttl: field(|apex| apex.ttl).unwrap_or(defaults.ttl),
        form: defaults.made.zone_form(),
    }
}
