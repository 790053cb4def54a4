//! BIND's `named.conf`.

use std::fmt::{self, Write as _};

use super::{CA_FILE, Feed, Software, file_name, plain};

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    let mut signed = String::new();
    if let Some(key) = &feed.key {
        let name = plain(&key.name);
        writeln!(
            out,
            "key \"{name}\" {{\n    algorithm {};\n    secret \"{}\";\n}};",
            key.algorithm, key.secret
        )?;
        signed = format!(" key \"{name}\"");
    }
    if let Some(tls) = &feed.tls {
        let folder = feed.folder(Software::Bind);
        write!(
            out,
            "tls zonewright {{\n    ca-file \"{folder}/{CA_FILE}\";\n    remote-hostname \"{}\";\n",
            tls.name
        )?;
        if let Some(own) = &tls.own {
            let file = format!("{folder}/{own}");
            write!(
                out,
                "    cert-file \"{file}.pem\";\n    key-file \"{file}.key\";\n"
            )?;
        }
        writeln!(out, "    protocols {{ TLSv1.3; }};\n}};")?;
        signed.push_str(" tls zonewright");
    }
    let primaries: Vec<String> = feed
        .primaries
        .iter()
        .map(|at| format!("{} port {}{signed};", at.ip(), at.port()))
        .collect();
    let primaries = primaries.join(" ");
    let mut limit = "";
    if feed.zones_only {
        limit = "    max-records-per-type 0;\n";
    } else {
        options(feed, &primaries, out)?;
    }
    let notifiers: Vec<String> = match &feed.key {
        Some(key) => vec![format!("key \"{}\";", plain(&key.name))],
        None => feed.notifiers().iter().map(|ip| format!("{ip};")).collect(),
    };
    let notifiers = notifiers.join(" ");
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        writeln!(
            out,
            "zone \"{}\" {{\n    type secondary;\n    file \"{}\";\n    primaries {{ {primaries} }};\n    \
             allow-notify {{ {notifiers} }};\n{limit}}};",
            plain(zone),
            file_name(zone)
        )?;
    }
    Ok(())
}

/// Writes `options`.
fn options(feed: &Feed, primaries: &str, out: &mut String) -> fmt::Result {
    let (ip, port) = (feed.listen.ip(), feed.listen.port());
    let [on, off] = if ip.is_ipv4() {
        ["listen-on", "listen-on-v6"]
    } else {
        ["listen-on-v6", "listen-on"]
    };
    writeln!(
        out,
        "options {{\n    directory \"{}\";\n    {on} port {port} {{ {ip}; }};\n    {off} {{ none; }};\n    \
         recursion no;\n    empty-zones-enable no;\n    notify no;\n    allow-transfer {{ none; }};\n    \
         // A headless Service may have more endpoints than BIND's 100.\n    max-records-per-type 0;",
        feed.folder(Software::Bind)
    )?;
    if !feed.catalogs.is_empty() {
        writeln!(out, "    catalog-zones {{")?;
        for catalog in &feed.catalogs {
            writeln!(
                out,
                "        zone \"{}\" default-primaries {{ {primaries} }} in-memory no \
                 min-update-interval 1;",
                plain(catalog)
            )?;
        }
        writeln!(out, "    }};")?;
    }
    writeln!(out, "}};")
}
