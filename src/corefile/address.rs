//! Addresses with ports: where HTTP is served, and where a secondary listens.

use std::fmt;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// The port of DNS.
pub const DNS_PORT: u16 = 53;

/// Where an HTTP server listens, as `HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HttpAddress {
    /// The host.
    pub host: HttpHost,
    /// The port.
    pub port: u16,
}

/// The host part of an [`HttpAddress`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HttpHost {
    /// None was written: all addresses of the machine, both families.
    Any,
    /// An address.
    Address(IpAddr),
    /// A host name, such as `localhost`; resolved when it is bound.
    Name(String),
}

/// The text is no `HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpAddressError {
    /// No colon after the host.
    #[error("the port is missing")]
    NoPort,
    /// Not a number up to 65535.
    #[error("the port is not a number from 0 to 65535")]
    Port,
    /// No host name and no address.
    #[error("the host is neither an address nor a host name")]
    Host,
}

impl FromStr for HttpAddress {
    type Err = HttpAddressError;

    fn from_str(text: &str) -> Result<Self, HttpAddressError> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(Self {
                host: HttpHost::Address(address.ip()),
                port: address.port(),
            });
        }
        let (host, port) = text.rsplit_once(':').ok_or(HttpAddressError::NoPort)?;
        let port = parse_port(port).ok_or(HttpAddressError::Port)?;
        if host.is_empty() {
            return Ok(Self {
                host: HttpHost::Any,
                port,
            });
        }
        let letters = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '_';
        // Digits and dots alone are an address with a slip in it.
        if !host.chars().all(letters) || !host.contains(|c: char| c.is_ascii_alphabetic()) {
            return Err(HttpAddressError::Host);
        }
        Ok(Self {
            host: HttpHost::Name(host.to_owned()),
            port,
        })
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            HttpHost::Any => write!(f, ":{}", self.port),
            HttpHost::Address(address) => SocketAddr::new(*address, self.port).fmt(f),
            HttpHost::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// The number of a link of this machine, by that number or by the interface's name.
pub(super) fn link_number(text: &str) -> Option<u32> {
    let number = text.parse().ok().filter(|number| *number != 0);
    number.or_else(|| nix::net::if_::if_nametoindex(text).ok())
}

/// Reads a port: digits only.
pub(super) fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Reads `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; without port it is 53. An IPv6 address may say its link, as
/// `fe80::1%eth0` (RFC 4007 section 11).
pub(super) fn parse_dns_address(text: &str) -> Option<SocketAddr> {
    if let Some((head, tail)) = text.split_once('%') {
        let (address, tail) = match head.strip_prefix('[') {
            None => (head, (tail, "")),
            Some(head) => (head, tail.split_once(']')?),
        };
        let port = match tail.1 {
            "" => DNS_PORT,
            port => parse_port(port.strip_prefix(':')?).filter(|port| *port != 0)?,
        };
        let link = link_number(tail.0)?;
        return Some(SocketAddrV6::new(address.parse().ok()?, port, 0, link).into());
    }
    if let Ok(address) = text.parse() {
        return Some(SocketAddr::new(address, DNS_PORT));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    if let Some(address) = bare.and_then(|text| text.parse().ok()) {
        return Some(SocketAddr::new(IpAddr::V6(address), DNS_PORT));
    }
    text.parse()
        .ok()
        .filter(|address: &SocketAddr| address.port() != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_addresses_are_host_and_port() {
        for text in [":8080", "localhost:9153", "127.0.0.1:80", "[::1]:8181"] {
            assert_eq!(text.parse::<HttpAddress>().unwrap().to_string(), text);
        }
        for (text, want) in [
            ("9153", HttpAddressError::NoPort),
            ("a:b", HttpAddressError::Port),
            (":70000", HttpAddressError::Port),
            (":+80", HttpAddressError::Port),
            ("127.0.0:80", HttpAddressError::Host),
            ("::1:80", HttpAddressError::Host),
            ("http://x:80", HttpAddressError::Host),
        ] {
            assert_eq!(text.parse::<HttpAddress>(), Err(want), "{text}");
        }
    }

    #[test]
    fn secondaries_have_port_53_unless_written() {
        for (text, want) in [
            ("192.0.2.1", Some("192.0.2.1:53")),
            ("192.0.2.1:5301", Some("192.0.2.1:5301")),
            ("2001:db8::1", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]", Some("[2001:db8::1]:53")),
            ("[2001:db8::1]:5301", Some("[2001:db8::1]:5301")),
            ("fe80::1%7", Some("[fe80::1%7]:53")),
            ("[fe80::1%7]", Some("[fe80::1%7]:53")),
            ("[fe80::1%7]:5301", Some("[fe80::1%7]:5301")),
            ("[fe80::1%7]:0", None),
            ("fe80::1%0", None),
            ("fe80::1%", None),
            ("fe80::1%no-such-link", None),
            ("192.0.2.1%7", None),
            ("192.0.2.1:0", None),
            ("ns1.example.org", None),
        ] {
            assert_eq!(
                parse_dns_address(text).map(|a| a.to_string()).as_deref(),
                want,
                "{text}"
            );
        }
    }

    /// The loopback interface has the name `lo` wherever these tests run.
    #[test]
    fn a_link_is_known_by_its_name() {
        let by_name = parse_dns_address("fe80::1%lo").unwrap();
        let SocketAddr::V6(by_name) = by_name else {
            panic!("{by_name}")
        };
        assert_ne!(by_name.scope_id(), 0);
    }
}
