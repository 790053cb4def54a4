//! Zones as a Corefile names them: keys of server blocks, and arguments of directives.
//!
//! `[scheme://]zone[:port]`. The zone is a domain name or an address range; a range stands for the
//! reverse zones that cover it. CoreDNS takes what it does not understand (a bad range, an unknown
//! scheme, a port that is none) for part of a name; here these are errors.

use corefile::address::{DNS_PORT, parse_port};
use corefile::lexer::Token;
use corefile::place::{Place, Report};
use dns::Name;
use dns::Network;
use server::Proto;

/// How queries arrive.
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
    /// The scheme as it stands in front of `://`.
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

    /// The scheme in front of `://`.
    fn parse(text: &str) -> Option<Self> {
        let all = [Self::Dns, Self::Tls, Self::Https, Self::Https3, Self::Quic];
        all.into_iter().find(|scheme| scheme.as_str() == text)
    }

    /// Whether both, where they are not the same, need a socket of TCP, or one of UDP.
    pub(crate) fn shares_sockets_with(self, other: Self) -> bool {
        let is_over_udp = |scheme: Self| scheme.encrypted().map(Proto::is_over_udp);
        let (one, other_one) = (is_over_udp(self), is_over_udp(other));
        self != other && (one.is_none() || other_one.is_none() || one == other_one)
    }

    /// What is spoken on connections that need a certificate; `None` for plain DNS.
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
const TLS_PORT: u16 = 853;
/// The port of `https://` and `https3://` (RFC 9110 section 4.2.2).
const HTTPS_PORT: u16 = 443;

/// A key of a server block, after expansion of address ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZoneKey {
    /// Where it stands.
    pub place: Place,
    /// The zone, in lower case.
    pub apex: Name,
    /// How queries arrive.
    pub scheme: Scheme,
    /// The port.
    pub port: u16,
}

/// What stands before `://` in Corefiles, but not here.
const REFUSED_SCHEMES: &[&str] = &["grpc", "unix"];

/// The parts of a key.
struct Parts {
    /// The scheme, if written.
    scheme: Option<Scheme>,
    /// The port, if written.
    port: Option<u16>,
    /// The zones.
    zones: Vec<Name>,
}

/// Reads a key of a server block: several when it is an address range.
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

/// Reads a zone as the argument of a directive: several when it is an address range.
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
        let message = format!("the scheme and port of {} mean nothing here", token.shown());
        report.warn(&token.place, message, "write the zone alone");
    }
    zones
}

/// Reads the zones of a directive, without repeats; `default` when there are none.
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
    let fix = "write the zone alone, or behind dns://, tls://, https://, https3:// or quic://";
    let message = format!("unknown scheme in {}", token.shown());
    report.error(&token.place, message, fix);
}

/// Takes a key apart.
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

/// Splits the port off.
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
            format!("no port after the last colon of {}", token.shown()),
            fix,
        );
        return None;
    }
    // The last colon of an IPv6 range without port lies within the address.
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

/// The zones that a text without scheme and port names.
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
            "{} has other characters than letters, digits and hyphens",
            token.shown()
        );
        report.warn(
            &token.place,
            message,
            "check that it is meant (RFC 1035 section 2.3.1)",
        );
    } else if !name.is_root()
        && name
            .labels()
            .all(|label| label.iter().all(u8::is_ascii_digit))
    {
        let message = format!(
            "{} is the zone of that name, not a reverse zone",
            token.shown()
        );
        report.warn(&token.place, message, "write a range such as 10.0.0.0/8");
    }
    Some(vec![name])
}

/// Reads a domain name in lower case; `text` is the token's or a part of it.
fn name(text: &str, token: &Token, report: &mut Report) -> Option<Name> {
    // In a zone file '@' is the origin; here it is a label like others.
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
