//! PowerDNS's `pdns.conf`, with the commands that tell its database of the zones as comments.

use std::fmt::{self, Write as _};
use std::net::IpAddr;

use super::{Feed, Software, plain};

/// The start of a command.
const RUN: &str = "# run: pdnsutil";

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    if !feed.zones_only {
        settings(feed, out)?;
    }
    let mut primaries = String::new();
    for primary in &feed.primaries {
        write!(primaries, " {primary}")?;
    }
    if let Some(key) = &feed.key {
        writeln!(
            out,
            "# With a key each zone is named: PowerDNS asks for zones of a catalog unsigned."
        )?;
        let name = plain(&key.name);
        writeln!(
            out,
            "{RUN} import-tsig-key {name} {} {}",
            key.algorithm, key.secret
        )?;
    }
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        let name = plain(zone);
        writeln!(out, "{RUN} create-secondary-zone {name}{primaries}")?;
        let is_catalog = feed.catalogs.contains(zone);
        if is_catalog {
            writeln!(out, "{RUN} set-kind {name} consumer")?;
        }
        if let Some(key) = &feed.key {
            let role = if is_catalog { "consumer" } else { "secondary" };
            writeln!(
                out,
                "{RUN} activate-tsig-key {name} {} {role}",
                plain(&key.name)
            )?;
        }
        // Without it the zone comes whole each time; 4.7 fails on a catalog with it.
        if is_catalog {
            continue;
        }
        writeln!(out, "{RUN} set-meta {name} IXFR 1")?;
    }
    Ok(())
}

/// Writes the settings of the server.
fn settings(feed: &Feed, out: &mut String) -> fmt::Result {
    let (ip, port) = (feed.listen.ip(), feed.listen.port());
    let notifiers: Vec<String> = feed.notifiers().iter().map(IpAddr::to_string).collect();
    writeln!(
        out,
        "launch=gsqlite3
gsqlite3-database={}/zones.sqlite
# Zones that are signed in their file need this, and then no increments are shown at once:
# gsqlite3-dnssec=yes
local-address={ip}
local-port={port}
secondary=yes
allow-notify-from={}
# How often PowerDNS looks at NOTIFYs, in seconds.
xfr-cycle-interval=1
# If two threads write to SQLite at once, one finds it locked and its transfer fails.
retrieval-threads=1
# Serve zones of a catalog at once.
zone-cache-refresh-interval=0
# Create the database from the package's schema.sqlite3.sql, then add the zones to it:",
        feed.folder(Software::Pdns),
        notifiers.join(",")
    )
}
