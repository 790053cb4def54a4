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
    for zone in feed.catalogs.iter().chain(&feed.zones) {
        writeln!(
            out,
            "{}:{port} {{\n    bind {}\n    secondary {{\n        transfer from {}\n    }}\n    errors\n}}",
            plain(zone),
            feed.listen.ip(),
            primaries.join(" ")
        )?;
    }
    Ok(())
}
