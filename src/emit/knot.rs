//! Knot's `knot.conf`.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use super::{Feed, Software, at, plain};

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    let folder = feed.folder(Software::Knot);
    if !feed.zones_only {
        writeln!(
            out,
            "server:\n    listen: {}\ndatabase:\n    storage: {folder}",
            at(&feed.listen)
        )?;
    }
    let mut signed = String::new();
    if let Some(key) = &feed.key {
        let name = plain(&key.name);
        writeln!(
            out,
            "key:\n  - id: {name}\n    algorithm: {}\n    secret: {}",
            key.algorithm, key.secret
        )?;
        signed = format!("\n    key: {name}");
    }
    let primaries: Vec<String> = feed.primaries.iter().map(at).collect();
    let notifiers: Vec<String> = feed.notifiers().iter().map(IpAddr::to_string).collect();
    writeln!(
        out,
        "remote:
  - id: zonewright
    address: [{}]{signed}
acl:
  - id: zonewright
    address: [{}]
    # transfer: Knot shows a catalog only to clients that may transfer it, and zonewright reads its serial.
    action: [notify, transfer]{signed}
template:
  - id: zonewright
    storage: {folder}
    master: zonewright
    acl: [zonewright]
    # Zones live in the journal, which IXFR is applied to; no file is written.
    zonefile-sync: -1
    zonefile-load: none
    journal-content: all
zone:",
        primaries.join(", "),
        notifiers.join(", ")
    )?;
    for catalog in &feed.catalogs {
        writeln!(
            out,
            "  - domain: {}\n    template: zonewright\n    catalog-role: interpret\n    \
             catalog-template: zonewright",
            plain(catalog)
        )?;
    }
    for zone in &feed.zones {
        writeln!(out, "  - domain: {}\n    template: zonewright", plain(zone))?;
    }
    Ok(())
}
