//! Unbound's `unbound.conf`.

use std::fmt::{self, Write as _};

use super::{Feed, Software, at, file_name, plain};

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    if feed.key.is_some() {
        writeln!(
            out,
            "# Unbound has no TSIG for auth-zones: allow its address without a key."
        )?;
    }
    let folder = feed.folder(Software::Unbound);
    if !feed.zones_only {
        writeln!(
            out,
            "server:\n    interface: {}\n    directory: \"{folder}\"",
            at(&feed.listen)
        )?;
    }
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        let name = plain(zone);
        // Unbound answers some names (test, 10.in-addr.arpa) itself. `nodefault` is for a zone of exactly such a name;
        // this also takes a zone below one out of it.
        writeln!(out, "server:\n    local-zone: \"{name}.\" transparent")?;
        writeln!(out, "auth-zone:\n    name: \"{name}\"")?;
        for primary in &feed.primaries {
            writeln!(out, "    primary: {}", at(primary))?;
        }
        for notifier in feed.notifiers() {
            writeln!(out, "    allow-notify: {notifier}")?;
        }
        writeln!(
            out,
            "    for-downstream: yes\n    for-upstream: yes\n    fallback-enabled: no\n    \
             zonefile: \"{}\"",
            file_name(zone)
        )?;
    }
    Ok(())
}
