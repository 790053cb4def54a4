//! The JSON value of a key: SkyDNS's message of a service.

use std::net::{IpAddr, Ipv6Addr};

use dns::{Name, Ttl};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The most bytes of a value. SkyDNS's are some hundred.
const MOST_BYTES: usize = 64 * 1024;
/// The priority of a service without one, as in CoreDNS.
const DEFAULT_PRIORITY: u16 = 10;
/// The weight of a service without one, as in CoreDNS.
const DEFAULT_WEIGHT: u16 = 100;

/// The value as it is written. CoreDNS's type of the port has room for -1, which means no SRV.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Written {
    host: String,
    port: i64,
    priority: i64,
    weight: i64,
    text: String,
    mail: bool,
    ttl: u32,
    targetstrip: i64,
    group: String,
}

/// The host of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// It has only a text.
    None,
    /// An address. An IPv4 address in an IPv6 address is an IPv4 address, as in CoreDNS.
    Address(IpAddr),
    /// A name. If there is a text too, CoreDNS answers only the text.
    Name(Name),
}

/// A service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) host: Host,
    /// The port of SRV; `None` without SRV.
    pub(crate) port: Option<u16>,
    pub(crate) priority: u16,
    pub(crate) weight: u16,
    pub(crate) text: String,
    /// Whether it is a mail server.
    pub(crate) is_mail: bool,
    /// `None` for the default.
    pub(crate) ttl: Option<Ttl>,
    /// The labels that are removed from the left of the target.
    pub(crate) target_strip: usize,
    /// Empty for none.
    pub(crate) group: String,
}

impl Service {
    /// Reads a value. Unknown fields are ignored, and case in their names, as in Go.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(value: &[u8]) -> Result<Self, String> {
        if value.len() > MOST_BYTES {
            return Err(format!(
                "the value has {} bytes, more than {MOST_BYTES}",
                value.len()
            ));
        }
        let fields: Map<String, Value> =
            serde_json::from_slice(value).map_err(|error| format!("not a service: {error}"))?;
        let lower = |(name, value): (String, Value)| (name.to_ascii_lowercase(), value);
        // Go reads null as no value.
        let fields = fields.into_iter().filter(|(_, value)| !value.is_null());
        let fields: Map<String, Value> = fields.map(lower).collect();
        let written: Written = serde_json::from_value(Value::Object(fields))
            .map_err(|error| format!("not a service: {error}"))?;
        let number = |what: &str, value: i64, default: u16| match value {
            0 => Ok(default),
            value => {
                u16::try_from(value).map_err(|_| format!("{what} {value} is not in 0 to 65535"))
            }
        };
        Ok(Self {
            host: host(&written.host)?,
            port: match written.port {
                -1 => None,
                port => Some(number("port", port, 0)?),
            },
            priority: number("priority", written.priority, DEFAULT_PRIORITY)?,
            weight: number("weight", written.weight, DEFAULT_WEIGHT)?,
            text: written.text,
            is_mail: written.mail,
            ttl: (written.ttl > 0).then(|| capped(written.ttl)),
            target_strip: usize::try_from(written.targetstrip).unwrap_or(0),
            group: written.group,
        })
    }

    /// The name of the host, if it is an alias: it has no text.
    pub(crate) fn alias(&self) -> Option<&Name> {
        match &self.host {
            Host::Name(name) if self.text.is_empty() => Some(name),
            Host::Name(_) | Host::Address(_) | Host::None => None,
        }
    }

    /// The address of the host.
    pub(crate) const fn address(&self) -> Option<IpAddr> {
        match &self.host {
            Host::Address(address) => Some(*address),
            Host::Name(_) | Host::None => None,
        }
    }
}

/// A TTL of seconds, at most [`Ttl::MAX`].
pub(crate) fn capped(seconds: u32) -> Ttl {
    Ttl::decode(seconds.min(Ttl::MAX.seconds()))
}

/// Reads a host.
fn host(text: &str) -> Result<Host, String> {
    if text.is_empty() {
        return Ok(Host::None);
    }
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(v6)) => Ok(Host::Address(normal(v6))),
        Ok(v4) => Ok(Host::Address(v4)),
        Err(_) => match Name::parse(text) {
            Ok(name) => Ok(Host::Name(name)),
            Err(error) => Err(format!("host {text:?} is no address and no name: {error}")),
        },
    }
}

fn normal(v6: Ipv6Addr) -> IpAddr {
    v6.to_ipv4_mapped().map_or(IpAddr::V6(v6), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_coredns_defaults() {
        let service = Service::parse(br#"{"host":"192.0.2.1"}"#).unwrap();
        let address: IpAddr = "192.0.2.1".parse().unwrap();
        assert_eq!(service.address(), Some(address));
        assert_eq!((service.priority, service.weight), (10, 100));
        assert_eq!((service.port, service.ttl), (Some(0), None));
        let service = Service::parse(br#"{"Host":"::ffff:192.0.2.1","port":-1,"x":1,"ttl":null}"#);
        let service = service.unwrap();
        assert_eq!((service.address(), service.port), (Some(address), None));
        let text = Service::parse(br#"{"host":"a.test","text":"t"}"#).unwrap();
        assert_eq!(text.alias(), None);
    }

    #[test]
    fn a_value_that_is_no_service_says_why() {
        for (value, want) in [
            ("", "not a service"),
            ("[]", "not a service"),
            (r#"{"port":"80"}"#, "not a service"),
            (r#"{"host":"a","port":70000}"#, "port 70000"),
            (r#"{"host":"a..b"}"#, "no address and no name"),
        ] {
            let error = Service::parse(value.as_bytes()).unwrap_err();
            assert!(error.contains(want), "{value}: {error}");
        }
        let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(MOST_BYTES));
        assert!(
            Service::parse(long.as_bytes())
                .unwrap_err()
                .contains("bytes")
        );
    }
}
