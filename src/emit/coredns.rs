//! CoreDNS's Corefile.

use std::fmt::{self, Write as _};
use std::net::SocketAddr;

use super::{Feed, plain};

/// Writes it.
pub(super) fn write(feed: &Feed, out: &mut String) -> fmt::Result {
    if feed.key.is_some() {
        writeln!(
            out,
            "# CoreDNS's secondary does not sign: allow its address without a key."
        )?;
    }
    let primaries: Vec<String> = feed.primaries.iter().map(SocketAddr::to_string).collect();
    let port = feed.listen.port();
    let bind = match feed.listen.ip().is_unspecified() {
        true => String::new(),
        false => format!("    bind {}\n", feed.listen.ip()),
    };
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        writeln!(
            out,
            "{}:{port} {{\n{bind}    secondary {{\n        transfer from {}\n    }}\n    errors\n}}",
            plain(zone),
            primaries.join(" ")
        )?;
    }
    Ok(())
}
