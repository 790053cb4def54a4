//! NSD's `nsd.conf`.

use std::fmt::{self, Write as _};

use super::{CA_FILE, Feed, Software, at, file_name, plain};

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    let folder = feed.folder(Software::Nsd);
    writeln!(
        out,
        "# NSD reads catalogs only from 4.9 on, so each zone is listed here."
    )?;
    if !feed.zones_only {
        server(feed, &folder, out)?;
    }
    let mut over = "";
    if let Some(tls) = &feed.tls {
        writeln!(
            out,
            "    tls-cert-bundle: \"{folder}/{CA_FILE}\"\ntls-auth:\n    name: \"primary\"\n    auth-domain-name: \"{}\"",
            tls.name
        )?;
        if let Some(own) = &tls.own {
            let file = format!("{folder}/{own}");
            writeln!(
                out,
                "    # NSD 4.6 presents it only from its second connection on: the first transfer succeeds at its retry.\n    client-cert: \"{file}.pem\"\n    client-key: \"{file}.key\""
            )?;
        }
        over = " primary";
    }
    let mut signed = "NOKEY".to_owned();
    if let Some(key) = &feed.key {
        signed = plain(&key.name);
        writeln!(
            out,
            "key:\n    name: \"{signed}\"\n    algorithm: {}\n    secret: \"{}\"",
            key.algorithm, key.secret
        )?;
    }
    writeln!(out, "pattern:\n    name: \"zonewright\"")?;
    for primary in &feed.primaries {
        writeln!(out, "    request-xfr: {} {signed}{over}", at(primary))?;
    }
    for notifier in feed.notifiers() {
        writeln!(out, "    allow-notify: {notifier} {signed}")?;
    }
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        writeln!(
            out,
            "zone:\n    name: \"{}\"\n    zonefile: \"{}\"\n    include-pattern: \"zonewright\"",
            plain(zone),
            file_name(zone)
        )?;
    }
    Ok(())
}

/// Writes `server`.
fn server(feed: &Feed, folder: &str, out: &mut String) -> fmt::Result {
    writeln!(
        out,
        "server:
    ip-address: {}
    zonesdir: \"{folder}\"
    # Zones are written only to their files; from 4.8 on NSD has no database.
    database: \"\"
    # After a restart NSD has the zones of these files; without them it has none until it reaches the primary.
    zonefiles-write: 60
    zonelistfile: \"{folder}/zone.list\"
    xfrdfile: \"{folder}/xfrd.state\"
    xfrdir: \"{folder}\"
    # Changes are shown at once, not after a second.
    xfrd-reload-timeout: 0",
        at(&feed.listen)
    )
}
