//! The catalogs of a configuration, planned.

use std::sync::Arc;

use directives::config::{Apex, Catalog, CatalogEntry, Config, ServerBlock};
use dns::{Name, Soa, Ttl};
use kubernetes::schema::{CATALOG_TTL, CatalogMember, invalid};
use writer::CatalogPlan;
use zone::journal::Retention;
use zone::{Zone, ZoneSet};

use crate::plan::clusters::{EXPIRE, REFRESH, RETRY, kept, memory_limits, zone_of};

/// Plans the catalogs; their zones are added to `zones`, which holds all others already.
pub(crate) fn plan_catalogs(
    config: &Config,
    zones: &mut Vec<Arc<Zone>>,
    there: &ZoneSet,
) -> Vec<(CatalogPlan, Retention)> {
    let mut catalogs = Vec::new();
    for block in &config.servers {
        for catalog in block.all::<Catalog>() {
            // A second block with the same catalog shares it.
            if zones.iter().any(|zone| *zone.apex() == catalog.zone) {
                continue;
            }
            let kept = kept(block.for_zone(&catalog.zone));
            let zone = zone_of(there, &catalog.zone);
            let entries = block.catalog_entries(catalog).into_iter();
            let members = entries.filter_map(|entry| {
                let zone = zones.iter().find(|zone| *zone.apex() == entry.zone)?;
                Some((Arc::clone(zone), member_of(entry)))
            });
            let plan = CatalogPlan {
                zone: Arc::clone(&zone),
                limits: memory_limits(kept),
                soa: soa_of(block, &catalog.zone),
                members: members.collect(),
            };
            zones.push(zone);
            catalogs.push((plan, kept));
        }
    }
    catalogs
}

/// A member as the zone will say it.
fn member_of(entry: CatalogEntry) -> CatalogMember {
    let CatalogEntry {
        zone,
        groups,
        moves_to,
    } = entry;
    CatalogMember {
        zone,
        groups,
        moves_to,
    }
}

/// The SOA of a catalog: its timers as configured; nobody is asked for names in it.
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
