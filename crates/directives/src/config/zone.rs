//! Zones as a Corefile names them: keys of server blocks, and arguments of directives.
//!
//! `[scheme://]zone[:port]`. The zone is a domain name or an address range. A range means the reverse zones that cover
//! it. CoreDNS treats a bad range, an unknown scheme or a bad port as part of a name; here these are errors.

use corefile::address::{DNS_PORT, parse_port};
use corefile::lexer::Token;
use corefile::place::{Place, Report};
use dns::Name;
use dns::Network;
use server::Proto;

/// The protocol of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Plain DNS over UDP and TCP.
    Dns,
    /// DNS over TLS.
    Tls,
    /// DNS over HTTPS, by HTTP/2 and HTTP/1.1.
    Https,
    /// DNS over HTTPS, by HTTP/3.
    Https3,
    /// DNS over QUIC.
    Quic,
}

impl Scheme {
    /// The scheme in front of `://`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Dns => "dns",
            Self::Tls => "tls",
            Self::Https => "https",
            Self::Https3 => "https3",
            Self::Quic => "quic",
        }
    }

    /// The transports of its sockets.
    #[must_use]
    pub const fn transports(self) -> &'static [&'static str] {
        match self {
            Self::Dns => &["udp", "tcp"],
            Self::Tls | Self::Https => &["tcp"],
            Self::Https3 | Self::Quic => &["udp"],
        }
    }

    /// Reads a scheme without its `://`.
    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Dns, Self::Tls, Self::Https, Self::Https3, Self::Quic];
        all.into_iter().find(|scheme| scheme.as_str() == text)
    }

    /// Whether two different schemes both need a TCP socket, or both a UDP socket.
    pub(crate) fn shares_sockets_with(self, other: Self) -> bool {
        let is_over_udp = |scheme: Self| scheme.encrypted().map(Proto::is_over_udp);
        let (one, other_one) = (is_over_udp(self), is_over_udp(other));
        self != other && (one.is_none() || other_one.is_none() || one == other_one)
    }

    /// The protocol of connections that need a certificate; `None` for plain DNS.
    #[must_use]
    pub const fn encrypted(self) -> Option<Proto> {
        match self {
            Self::Dns => None,
            Self::Tls => Some(Proto::Tls),
            Self::Https => Some(Proto::Https),
            Self::Https3 => Some(Proto::Https3),
            Self::Quic => Some(Proto::Quic),
        }
    }
}

/// The port of `tls://` and `quic://` (RFC 7858 section 3.1, RFC 9250 section 4.1.1).
pub(crate) const TLS_PORT: u16 = 853;
/// The port of `https://` and `https3://` (RFC 9110 section 4.2.2).
pub(crate) const HTTPS_PORT: u16 = 443;

/// A zone of a server block's key, after expansion of address ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneKey {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zone, in lower case.
    pub apex: Name,
    /// The protocol of queries.
    pub scheme: Scheme,
    /// The port.
    pub port: u16,
}

/// The schemes of CoreDNS that are not supported.
const REFUSED_SCHEMES: &[&str] = &["grpc", "unix"];

struct Parts {
    /// The scheme, if written.
    scheme: Option<Scheme>,
    /// The port, if written.
    port: Option<u16>,
    /// The zones.
    zones: Vec<Name>,
}

/// Reads a key of a server block. An address range may give several.
pub(crate) fn key(token: &Token, default_port: u16, report: &mut Report) -> Vec<ZoneKey> {
    let Some(Parts {
        scheme,
        port,
        zones,
    }) = parts(token, report)
    else {
        return Vec::new();
    };
    let scheme = scheme.unwrap_or(Scheme::Dns);
    let port = port.unwrap_or(match scheme {
        Scheme::Dns => default_port,
        Scheme::Tls | Scheme::Quic => TLS_PORT,
        Scheme::Https | Scheme::Https3 => HTTPS_PORT,
    });
    let key = |apex| ZoneKey {
        place: token.place.clone(),
        apex,
        scheme,
        port,
    };
    zones.into_iter().map(key).collect()
}

/// Reads a zone as the argument of a directive. An address range may give several.
pub(crate) fn argument(token: &Token, report: &mut Report) -> Vec<Name> {
    let Some(Parts {
        scheme,
        port,
        zones,
    }) = parts(token, report)
    else {
        return Vec::new();
    };
    if scheme.is_some() || port.is_some() {
        let message = format!(
            "the scheme and port of {} have no meaning here",
            token.shown()
        );
        report.warn(&token.place, message, "write the zone alone");
    }
    zones
}

/// Reads the zones of a directive, each once. Without any it returns `default`.
pub(crate) fn arguments(tokens: &[Token], default: &[Name], report: &mut Report) -> Vec<Name> {
    if tokens.is_empty() {
        return default.to_vec();
    }
    let mut zones: Vec<Name> = Vec::new();
    for zone in tokens.iter().flat_map(|token| argument(token, report)) {
        if !zones.contains(&zone) {
            zones.push(zone);
        }
    }
    zones
}

fn refuse_scheme(scheme: &str, token: &Token, report: &mut Report) {
    if REFUSED_SCHEMES.contains(&scheme) {
        let why = "queries are answered over UDP, TCP, TLS, HTTPS and QUIC";
        report.not_supported(&token.place, &format!("{scheme}://"), why);
        return;
    }
    let fix = "write the zone alone, or after dns://, tls://, https://, https3:// or quic://";
    let message = format!("unknown scheme in {}", token.shown());
    report.error(&token.place, message, fix);
}

fn parts(token: &Token, report: &mut Report) -> Option<Parts> {
    let (scheme, rest) = match token.text.split_once("://") {
        Some((scheme, rest)) => (Some(scheme.to_ascii_lowercase()), rest),
        None => (None, token.text.as_str()),
    };
    let scheme = match scheme {
        None => None,
        Some(text) => match Scheme::parse(&text) {
            Some(scheme) => Some(scheme),
            None => {
                refuse_scheme(&text, token, report);
                return None;
            }
        },
    };
    let (zone, port) = split_port(rest, token, report)?;
    let zones = zones(zone, token, report)?;
    Some(Parts {
        scheme,
        port,
        zones,
    })
}

fn split_port<'a>(
    text: &'a str,
    token: &Token,
    report: &mut Report,
) -> Option<(&'a str, Option<u16>)> {
    let fix = format!("write ZONE:PORT, such as example.org:{DNS_PORT}");
    let Some((zone, port)) = text.rsplit_once(':') else {
        return Some((text, None));
    };
    if port.is_empty() {
        report.error(
            &token.place,
            format!("{} has no port after its last colon", token.shown()),
            fix,
        );
        return None;
    }
    // In an IPv6 range without a port, the last colon is within the address.
    if port.contains('/') {
        return Some((text, None));
    }
    let number = parse_port(port);
    if number.is_none() {
        let message = format!(
            "the port of {} is not a number from 0 to 65535",
            token.shown()
        );
        report.error(&token.place, message, fix);
        return None;
    }
    Some((zone, number))
}

/// The zones of a text without scheme and port.
fn zones(text: &str, token: &Token, report: &mut Report) -> Option<Vec<Name>> {
    if let Some((address, bits)) = text.rsplit_once('/')
        && bits.bytes().all(|octet| octet.is_ascii_digit())
    {
        // CoreDNS refuses an IPv6 range that begins with a colon, or with a zero and a colon.
        let refused = address.starts_with(':') || address.starts_with("0:");
        return match text.parse::<Network>() {
            Ok(network) if !refused => Some(network.reverse_zones()),
            Ok(_) => {
                let fix = "write the reverse zone itself, such as ip6.arpa";
                report.error(
                    &token.place,
                    format!("invalid range {}", token.shown()),
                    fix,
                );
                None
            }
            Err(error) => {
                let fix = "check address and prefix length";
                report.error(&token.place, format!("{} is {error}", token.shown()), fix);
                None
            }
        };
    }
    let name = name(text, token, report)?;
    let plain = |octet: &u8| octet.is_ascii_alphanumeric() || *octet == b'-';
    if !name.labels().all(|label| label.iter().all(plain)) {
        let message = format!(
            "{} has characters other than letters, digits and hyphens",
            token.shown()
        );
        report.warn(
            &token.place,
            message,
            "check that it is intended (RFC 1035 section 2.3.1)",
        );
    } else if !name.is_root()
        && name
            .labels()
            .all(|label| label.iter().all(u8::is_ascii_digit))
    {
        let message = format!("{} is read as a name, not as a reverse zone", token.shown());
        report.warn(&token.place, message, "write a range such as 10.0.0.0/8");
    }
    Some(vec![name])
}

/// Reads a domain name in lower case. `text` is the token's, or a part of it.
fn name(text: &str, token: &Token, report: &mut Report) -> Option<Name> {
    // In a zone file '@' is the origin. Here it is an ordinary label.
    let parsed = if text == "@" {
        Name::parse("@.")
    } else {
        Name::parse(text)
    };
    match parsed {
        Ok(name) => Some(name.to_lower()),
        Err(error) => {
            let (message, fix) = if token.is_confidential() {
                (
                    "this word is not a domain name".to_owned(),
                    "is a '}' missing above?",
                )
            } else {
                (
                    format!("not a domain name: {error}"),
                    "write a name such as example.org",
                )
            };
            report.error(&token.place, message, fix);
            None
        }
    }
}

/// Reads a token that is a domain name, in lower case.
pub(crate) fn domain_name(token: &Token, report: &mut Report) -> Option<Name> {
    name(&token.text, token, report)
}
