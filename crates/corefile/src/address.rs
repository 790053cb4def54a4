//! Addresses with ports: of HTTP servers and of secondaries.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::str::FromStr;

/// The port of DNS.
pub const DNS_PORT: u16 = 53;

/// The address of an HTTP server, `HOST:PORT`.
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
    /// None: all addresses of the machine, of both families.
    Any,
    /// An address.
    Address(IpAddr),
    /// A host name, such as `localhost`; resolved when it is bound.
    Name(String),
}

/// The text is not `HOST:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HttpAddressError {
    /// No colon after the host.
    #[error("the port is missing")]
    NoPort,
    /// Not a number up to 65535.
    #[error("the port is not a number from 0 to 65535")]
    Port,
    /// Neither a host name nor an address.
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
        // With only digits and dots, it is an address with a typing error.
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

/// The text is not the address of a DNS server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It does not look like an address.
    #[error("is not an address")]
    Nonsense,
    /// It names an interface that this machine does not have.
    #[error("is not an address: there is no interface {0} here")]
    NoLink(String),
    /// Only link-local addresses have a link: the system does not report the link of other peers.
    #[error("is not an address: only a link-local address (fe80::…) has a link")]
    NotOfLink,
    /// A port after the interface, without brackets around the address.
    #[error("is not an address: the port {1} follows a link without brackets")]
    PortOfLink(String, u16),
}

impl AddressError {
    /// The fix; `plain` for a text that does not look like an address.
    pub fn fix(&self, plain: String) -> String {
        match self {
            Self::Nonsense => plain,
            Self::NoLink(_) => "write an interface that `ip link` shows".to_owned(),
            Self::PortOfLink(host, port) => format!("write [{host}]:{port}"),
            Self::NotOfLink => "remove the % and the text after it".to_owned(),
        }
    }
}

/// Reads an IPv6 address with its link, which is an interface's name or number: `fe80::1%eth0` (RFC 4007 section 11).
///
/// # Errors
/// [`AddressError`]; `Nonsense` when there is no link.
pub fn parse_linked(text: &str) -> Result<(Ipv6Addr, u32), AddressError> {
    let (address, link) = text.split_once('%').ok_or(AddressError::Nonsense)?;
    let address: IpAddr = address.parse().map_err(|_| AddressError::Nonsense)?;
    // No interface has a name with a slash: this is a range.
    if link.is_empty() || link.contains('/') {
        return Err(AddressError::Nonsense);
    }
    let IpAddr::V6(address) = address else {
        return Err(AddressError::NotOfLink);
    };
    if !address.is_unicast_link_local() {
        return Err(AddressError::NotOfLink);
    }
    let number = link.parse().ok().filter(|number| *number != 0);
    let number = number.or_else(|| nix::net::if_::if_nametoindex(link).ok());
    let number = number.ok_or_else(|| AddressError::NoLink(link.to_owned()))?;
    Ok((address, number))
}

/// Reads a port: digits only.
pub fn parse_port(text: &str) -> Option<u16> {
    let digits = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// The address of a DNS server as in the Corefile, with or without a link. `None` if the text is no such address.
#[must_use]
pub fn dns_address(text: &str) -> Option<SocketAddr> {
    parse_dns_address(text).ok()
}

/// Reads `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`; the default port is 53. A link-local address may have a link,
/// as for [`parse_linked`].
///
/// # Errors
/// [`AddressError`].
pub fn parse_dns_address(text: &str) -> Result<SocketAddr, AddressError> {
    if !text.contains('%') {
        return parse_unlinked(text).ok_or(AddressError::Nonsense);
    }
    let (host, port) = match text.strip_prefix('[') {
        None => match text.rsplit_once(':') {
            Some((host, port)) if host.contains('%') => {
                let port = parse_port(port).ok_or(AddressError::Nonsense)?;
                return Err(AddressError::PortOfLink(host.to_owned(), port));
            }
            Some(_) | None => (text, ""),
        },
        Some(text) => text.split_once(']').ok_or(AddressError::Nonsense)?,
    };
    let port = match port.strip_prefix(':') {
        None => port.is_empty().then_some(DNS_PORT),
        Some(port) => parse_port(port).filter(|port| *port != 0),
    };
    let port = port.ok_or(AddressError::Nonsense)?;
    let (address, link) = parse_linked(host)?;
    Ok(SocketAddrV6::new(address, port, 0, link).into())
}

/// Reads an address without a link.
fn parse_unlinked(text: &str) -> Option<SocketAddr> {
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
            ("fe80::1%7:53", None),
            ("[fe80::1%7]53", None),
            ("[fe80::1%7", None),
            ("192.0.2.1:0", None),
            ("ns1.example.org", None),
        ] {
            assert_eq!(
                parse_dns_address(text)
                    .ok()
                    .map(|a| a.to_string())
                    .as_deref(),
                want,
                "{text}"
            );
        }
    }

    /// The system reports the link of a peer only for such addresses. No peer would match another one.
    #[test]
    fn only_an_address_of_a_link_has_one() {
        for (text, want) in [
            ("fe80::1%no-such", AddressError::NoLink("no-such".into())),
            (
                "[fe80::1%no-such]:5",
                AddressError::NoLink("no-such".into()),
            ),
            (
                "fe80::1%eth0:5353",
                AddressError::PortOfLink("fe80::1%eth0".into(), 5353),
            ),
            ("fe80::1%eth0:", AddressError::Nonsense),
            ("2001:db8::1%lo", AddressError::NotOfLink),
            ("[2001:db8::1%7]:53", AddressError::NotOfLink),
            ("[::ffff:192.0.2.1%lo]", AddressError::NotOfLink),
            ("192.0.2.1%7", AddressError::NotOfLink),
            ("ff02::1%lo", AddressError::NotOfLink),
            ("fe80::%7/10", AddressError::Nonsense),
            ("fe80::/10%7", AddressError::Nonsense),
        ] {
            assert_eq!(parse_dns_address(text), Err(want), "{text}");
        }
        let fix = |text| parse_dns_address(text).unwrap_err().fix(String::new());
        assert_eq!(fix("fe80::1%eth0:5353"), "write [fe80::1%eth0]:5353");
    }

    /// The loopback interface is called `lo` wherever these tests run.
    #[test]
    fn a_link_is_known_by_its_name() {
        let by_name = parse_dns_address("fe80::1%lo").unwrap();
        let SocketAddr::V6(by_name) = by_name else {
            panic!("{by_name}")
        };
        assert_ne!(by_name.scope_id(), 0);
    }
}
