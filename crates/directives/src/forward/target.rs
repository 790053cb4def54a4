//! The TO arguments of `forward`: addresses, names, and files that list addresses.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};

use corefile::DNS_PORT;
use corefile::lexer::Token;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::zone::{HTTPS_PORT, TLS_PORT};

/// The protocol of an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetScheme {
    /// Plain DNS over UDP and TCP.
    Dns,
    /// Over TLS.
    Tls,
    /// Over HTTPS: HTTP/2, or HTTP/1.1 if the server has no other.
    Https,
    /// Over HTTP/3.
    Https3,
    /// Over QUIC.
    Quic,
}

impl TargetScheme {
    /// Whether it uses UDP ports for its connections.
    #[must_use]
    pub const fn is_over_quic(self) -> bool {
        matches!(self, Self::Https3 | Self::Quic)
    }
}

/// An upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its address, or its name.
    pub host: TargetHost,
    /// Its port.
    pub port: u16,
    /// Its protocol.
    pub scheme: TargetScheme,
    /// The name in its certificate.
    pub server_name: Option<String>,
}

/// The host of an upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetHost {
    /// An address.
    Address(IpAddr),
    /// A name. Its addresses are looked up once, at the start.
    Name(String),
}

/// Accepts any text as a server name, as the option has no rules for it.
pub(super) fn server_name(text: &str) -> Result<String, Infallible> {
    Ok(text.to_owned())
}

/// Reads all TO. If several have one address and port, the first counts, as in CoreDNS. Upstreams over QUIC are
/// compared only with each other.
pub(super) fn all(tokens: &[Token], has_server_name: bool, report: &mut Report) -> Vec<Target> {
    let (mut targets, mut is_wrong): (Vec<Target>, bool) = (Vec::new(), false);
    for token in tokens {
        let read = one(token, report);
        is_wrong |= read.is_none();
        for target in read.unwrap_or_default() {
            if target.server_name.is_some() && has_server_name {
                let message = format!(
                    "{} has a server name, but tls_servername gives another",
                    token.shown()
                );
                report.error(&token.place, message, "remove one of them");
            }
            let is_known = |other: &Target| {
                let is_there = other.host == target.host && other.port == target.port;
                is_there && other.scheme.is_over_quic() == target.scheme.is_over_quic()
            };
            if !targets.iter().any(is_known) {
                targets.push(target);
            }
        }
    }
    if targets.is_empty()
        && let Some(first) = tokens.first()
        && !is_wrong
    {
        report.error(
            &first.place,
            "there is no upstream",
            "name one with an address",
        );
    }
    targets
}

/// Reads one TO. A file may give several. `None` has been reported.
fn one(token: &Token, report: &mut Report) -> Option<Vec<Target>> {
    let fix = "write IP[:PORT], tls://IP[%SERVERNAME][:PORT], https://, https3:// or quic:// in the same form, a host name, or a file like /etc/resolv.conf";
    let (scheme, rest) = token.text.split_once("://").unwrap_or(("dns", &token.text));
    let (scheme, default_port) = match scheme {
        "dns" => (TargetScheme::Dns, DNS_PORT),
        "tls" => (TargetScheme::Tls, TLS_PORT),
        "https" | "https3" if rest.contains('/') => {
            let message = format!(
                "{}: a path is not supported, the path is /dns-query",
                token.shown()
            );
            report.error(
                &token.place,
                message,
                "write https://IP[:PORT] or https3://IP[:PORT]",
            );
            return None;
        }
        "https" => (TargetScheme::Https, HTTPS_PORT),
        "https3" => (TargetScheme::Https3, HTTPS_PORT),
        "quic" => (TargetScheme::Quic, TLS_PORT),
        "grpc" => {
            let message = format!("{}: upstreams are not asked over gRPC", token.shown());
            let fix = "ask the same server with tls:// or https://, if it can";
            report.error(&token.place, message, fix);
            return None;
        }
        _ => {
            let message = format!("unknown scheme in {}", token.shown());
            report.error(&token.place, message, fix);
            return None;
        }
    };
    let (text, server_name, name_port) = split_server_name(rest);
    if server_name.is_some() && scheme == TargetScheme::Dns {
        let message = format!(
            "{}: '%' and a server name are only for tls://, https://, https3:// and quic://",
            token.shown()
        );
        report.error(&token.place, message, fix);
        return None;
    }
    let target = |host, port| Target {
        place: token.place.clone(),
        host,
        port,
        scheme,
        server_name: server_name.map(str::to_owned),
    };
    if let Ok(address) = text.parse::<SocketAddr>() {
        let host = TargetHost::Address(address.ip());
        return Some(vec![target(host, name_port.unwrap_or(address.port()))]);
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        let port = name_port.unwrap_or(default_port);
        return Some(vec![target(TargetHost::Address(address), port)]);
    }
    let path = std::path::Path::new(rest);
    if path.is_file() {
        let may_be = may_be_in_the_clear(token, scheme, report);
        return may_be.then(|| of_file(token, path, report)).flatten();
    }
    match host_name(text, name_port.unwrap_or(default_port)) {
        Some((host, port)) => Some(vec![target(TargetHost::Name(host.to_owned()), port)]),
        None => {
            let message = format!("{} is not an address, file or host name", token.shown());
            report.error(&token.place, message, fix);
            None
        }
    }
}

/// Whether the servers of a file may be asked, which is always in the clear. If not, it has been reported.
fn may_be_in_the_clear(token: &Token, scheme: TargetScheme, report: &mut Report) -> bool {
    let shown = token.shown();
    let message = format!("{shown}: the servers of a file are asked in the clear");
    let fix = "write their addresses with the scheme, or the file without one";
    match scheme {
        TargetScheme::Dns => true,
        // CoreDNS asks them in the clear, too.
        TargetScheme::Tls => {
            report.warn(&token.place, message, fix);
            true
        }
        TargetScheme::Https | TargetScheme::Https3 | TargetScheme::Quic => {
            report.error(&token.place, message, fix);
            false
        }
    }
}

/// A host name and its port, if the text is one.
fn host_name(text: &str, default_port: u16) -> Option<(&str, u16)> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (text, default_port),
    };
    let absolute = format!("{}.", host.trim_end_matches('.'));
    // A last label of digits is a misspelt address (RFC 1123 section 2.1).
    let last = host.trim_end_matches('.').rsplit('.').next();
    let is_number = last.is_some_and(|label| label.bytes().all(|octet| octet.is_ascii_digit()));
    let is_name = !is_number && !host.contains(['/', '\\', ' ']);
    (is_name && Name::parse(&absolute).is_ok()).then_some((host, port))
}

/// Splits `HOST%SERVERNAME[:PORT]`, with or without brackets around host and server name.
fn split_server_name(text: &str) -> (&str, Option<&str>, Option<u16>) {
    let Some((host, name)) = text.rsplit_once('%') else {
        return (text, None, None);
    };
    let (name, port) = match name.rsplit_once(':') {
        Some((name, port)) => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (name, None),
        },
        None => (name, None),
    };
    (host, Some(name.trim_end_matches(']')), port)
}

/// The name servers of a file like resolv.conf(5), each with port 53.
fn of_file(token: &Token, path: &std::path::Path, report: &mut Report) -> Option<Vec<Target>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("cannot read {}: {error}", token.shown());
            report.error(
                &token.place,
                message,
                "make it readable, or write addresses",
            );
            return None;
        }
    };
    let mut targets = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some("nameserver"), Some(address)) = (words.next(), words.next()) else {
            continue;
        };
        let address = address.split('%').next().unwrap_or_default();
        match address.parse() {
            Ok(address) => targets.push(Target {
                place: token.place.clone(),
                host: TargetHost::Address(address),
                port: DNS_PORT,
                scheme: TargetScheme::Dns,
                server_name: None,
            }),
            Err(_) => {
                let message = format!("{}: nameserver {address} is not an address", token.shown());
                report.error(&token.place, message, "write an address there");
            }
        }
    }
    Some(targets)
}
