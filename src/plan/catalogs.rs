//! The catalogs of a configuration, planned.

use directives::config::{Apex, Catalog, Config, ServerBlock};
use dns::{Name, Soa, Ttl};
use kubernetes::schema::{CATALOG_TTL, invalid};
use writer::CatalogPlan;

use crate::plan::zone_settings::{EXPIRE, REFRESH, RETRY, retention};

/// Plans the catalogs; their zones are added to `zones`, which holds all others already.
pub(crate) fn plan_catalogs(config: &Config, zones: &mut Vec<Name>) -> Vec<CatalogPlan> {
    let mut catalogs = Vec::new();
    for block in &config.servers {
        for catalog in block.all::<Catalog>() {
            // A second block with the same catalog shares it.
            if zones.contains(&catalog.zone) {
                continue;
            }
            let mut members = block.catalog_members(catalog);
            members.retain(|member| zones.contains(&member.zone));
            catalogs.push(CatalogPlan {
                zone: catalog.zone.to_lower(),
                retention: retention(block.for_zone(&catalog.zone)),
                soa: soa_of(block, &catalog.zone),
                members,
            });
            zones.push(catalog.zone.to_lower());
        }
    }
    catalogs
}

/// The SOA of a catalog with the configured timers.
fn soa_of(block: &ServerBlock, zone: &Name) -> Soa {
    let written = block.for_zone::<Apex>(zone);
    let timer = |of: fn(&Apex) -> Option<Ttl>, or| written.and_then(of).unwrap_or(or);
    Soa {
        mname: invalid(),
        rname: invalid(),
        refresh: timer(|apex| apex.refresh, REFRESH),
        retry: timer(|apex| apex.retry, RETRY),
        expire: timer(|apex| apex.expire, EXPIRE),
        minimum: timer(|apex| apex.minimum, CATALOG_TTL),
        ttl: CATALOG_TTL,
    }
}
