//! Configurations of secondaries, as text for their software.
//!
//! Each is complete: the server starts with it and serves our zones only. Or it has the zones only, for a server that has
//! settings of its own. Folders are those of Debian's packages unless given.

mod bind;
mod coredns;
mod knot;
mod nsd;
mod pdns;
mod unbound;

use std::fmt::{self, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use dns::Name;

/// Where a secondary has the certificate of our CA.
const CA_FILE: &str = "zonewright-ca.pem";
/// The placeholder of a secret.
pub const PLACEHOLDER: &str = "SECRET-IN-BASE64";

/// The software of a secondary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Software {
    /// BIND 9.18 or later.
    #[value(alias = "bind9")]
    Bind,
    /// Knot DNS 3.2 or later.
    Knot,
    /// NSD 4.6 or later.
    Nsd,
    /// PowerDNS 4.7 or later.
    #[value(alias = "powerdns")]
    Pdns,
    /// Unbound 1.17 or later.
    Unbound,
    /// CoreDNS.
    Coredns,
}

impl Software {
    /// Whether it finds zones in a catalog. NSD does from 4.9 on, which Debian 12 has not; PowerDNS asks
    /// for the zones that it finds without a key, whatever the catalog's is.
    #[must_use]
    pub const fn reads_catalogs(self, with_key: bool) -> bool {
        match self {
            Self::Bind | Self::Knot => true,
            Self::Pdns => !with_key,
            Self::Nsd | Self::Unbound | Self::Coredns => false,
        }
    }

    /// Whether it can sign its requests to a primary.
    #[must_use]
    pub const fn signs(self) -> bool {
        match self {
            Self::Bind | Self::Knot | Self::Nsd | Self::Pdns => true,
            Self::Unbound | Self::Coredns => false,
        }
    }

    /// Why nothing is written for it that transfers over TLS (RFC 9103); `None` where that is written.
    #[must_use]
    pub const fn why_not_over_tls(self) -> Option<&'static str> {
        match self {
            Self::Bind | Self::Nsd => None,
            Self::Knot | Self::Pdns | Self::Coredns => {
                Some("no version that the tests run can do it")
            }
            Self::Unbound => Some("it sends no ALPN token, and RFC 9103 needs `dot`"),
        }
    }

    /// Its name for people.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Bind => "BIND",
            Self::Knot => "Knot DNS",
            Self::Nsd => "NSD",
            Self::Pdns => "PowerDNS",
            Self::Unbound => "Unbound",
            Self::Coredns => "CoreDNS",
        }
    }

    /// Where it keeps its files in Debian's packages.
    const fn folder(self) -> &'static str {
        match self {
            Self::Bind => "/var/cache/bind",
            Self::Knot => "/var/lib/knot",
            Self::Nsd => "/var/lib/nsd",
            Self::Pdns => "/var/lib/powerdns",
            Self::Unbound => "/var/lib/unbound",
            Self::Coredns => "/var/lib/coredns",
        }
    }

    /// The start of a comment.
    const fn comment(self) -> &'static str {
        match self {
            Self::Bind => "//",
            Self::Knot | Self::Nsd | Self::Pdns | Self::Unbound | Self::Coredns => "#",
        }
    }
}

/// A key as a secondary's configuration has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedKey {
    /// Its name.
    pub name: Name,
    /// Its algorithm, such as `hmac-sha256`.
    pub algorithm: &'static str,
    /// The secret in base64, or [`PLACEHOLDER`].
    pub secret: String,
}

/// The settings of transfers over TLS (RFC 9103).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedTls {
    /// The name in our certificate.
    pub name: String,
    /// The name in the secondary's, where it has to show one.
    pub own: Option<String>,
}

/// The zones and primaries of one secondary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Feed {
    /// Where the secondary answers.
    pub listen: SocketAddr,
    /// Where it finds us; at least one.
    pub primaries: Vec<SocketAddr>,
    /// Where our NOTIFY comes from.
    pub notifiers: Vec<IpAddr>,
    /// The key of requests and NOTIFYs.
    pub key: Option<FeedKey>,
    /// TLS, where transfers are over it.
    pub tls: Option<FeedTls>,
    /// Zones that its configuration has to list.
    pub zones: Vec<Name>,
    /// Catalogs that name its other zones.
    pub catalogs: Vec<Name>,
    /// Where it keeps its files; the packages' folder unless given.
    pub folder: Option<PathBuf>,
    /// Without the settings of the server itself, which has others already.
    pub zones_only: bool,
}

impl Feed {
    /// The configuration of this software.
    #[must_use]
    pub fn configuration(&self, software: Software) -> String {
        let mut out = String::new();
        // Writing to a String never fails.
        let _never_fails = self.write(software, &mut out);
        out
    }

    /// Why the zones cannot be printed without the settings of the server; none if they can.
    #[must_use]
    pub fn why_not_alone(&self, software: Software) -> Option<String> {
        let is_apart = software == Software::Nsd && self.tls.is_some() && self.zones_only;
        is_apart.then(|| {
            "NSD has its certificates of TLS in `server:`, which --zones-only leaves out: print the whole configuration".to_owned()
        })
    }

    /// Writes the configuration.
    fn write(&self, software: Software, out: &mut String) -> fmt::Result {
        let comment = software.comment();
        let title = software.title();
        writeln!(out, "{comment} {title} as a secondary of zonewright.")?;
        if let Some(key) = &self.key
            && key.secret == PLACEHOLDER
            && software.signs()
        {
            let name = plain(&key.name);
            writeln!(
                out,
                "{comment} Replace {PLACEHOLDER} by the secret of {name}."
            )?;
        }
        if let Some(tls) = &self.tls {
            let folder = self.folder(software);
            writeln!(
                out,
                "{comment} Put the certificate of the authority that signed that of {} into {folder}/{CA_FILE}.",
                tls.name
            )?;
            if let Some(own) = &tls.own {
                writeln!(
                    out,
                    "{comment} Put the certificate and key of {own} into {folder}/{own}.pem and {folder}/{own}.key."
                )?;
            }
        }
        match software {
            Software::Bind => bind::write(self, out),
            Software::Knot => knot::write(self, out),
            Software::Nsd => nsd::write(self, out),
            Software::Pdns => pdns::write(self, out),
            Software::Unbound => unbound::write(self, out),
            Software::Coredns => coredns::write(self, out),
        }
    }

    /// Where it keeps its files.
    fn folder(&self, software: Software) -> String {
        let own = self.folder.as_ref();
        own.map_or_else(
            || software.folder().to_owned(),
            |folder| folder.display().to_string(),
        )
    }

    /// The addresses that NOTIFY may come from: those given, else the primaries'.
    fn notifiers(&self) -> Vec<IpAddr> {
        let mut all = self.notifiers.clone();
        all.extend(self.primaries.iter().map(SocketAddr::ip));
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// A name as most configurations have it: without its last dot.
fn plain(name: &Name) -> String {
    let text = name.to_string();
    match text.strip_suffix('.') {
        Some("") | None => text,
        Some(plain) => plain.to_owned(),
    }
}

/// A name as a file's: nothing in it that a path would take for more.
fn file_name(name: &Name) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || "-._".contains(c) {
            c
        } else {
            '_'
        }
    };
    format!("{}.zone", plain(name).chars().map(keep).collect::<String>())
}

/// An address and its port with `@` between, as NSD, Knot and Unbound write it.
fn at(address: &SocketAddr) -> String {
    format!("{}@{}", address.ip(), address.port())
}

#[cfg(test)]
mod tests;
